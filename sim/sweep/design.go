package sweep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/prng"
)

// Point is a place in the space of settings: a value for each axis.
type Point []Value

// Value is what a point has on an axis.
type Value struct {
	Key   Key
	Value string
}

// String is the point as users write it: a=1, b=2.
func (p Point) String() string {
	all := make([]string, len(p))
	for i, v := range p {
		all[i] = v.Key.String() + "=" + v.Value
	}
	return strings.Join(all, ", ")
}

// Method says how points are chosen.
type Method string

// Methods.
const (
	Grid       Method = "grid"
	OneAtATime Method = "one-at-a-time"
	Random     Method = "random"
	LHS        Method = "lhs" // a Latin hypercube
)

// Design is the section [sweep].
type Design struct {
	Method Method // Grid when empty
	N      int    // the number of points of Random and LHS
	Seed   uint64 // of Random and LHS
	Axes   []Axis
}

const takesMethod = "grid, one-at-a-time, random N, or lhs N, with N a number of points"

func (d *Design) setMethod(value string) error {
	method, n, counted := strings.Cut(value, " ")
	d.Method = Method(method)
	switch d.Method {
	case Grid, OneAtATime:
		if !counted {
			return nil
		}
	case Random, LHS:
		var err error
		if d.N, err = strconv.Atoi(strings.TrimSpace(n)); err == nil && d.N > 0 {
			return nil
		}
	}
	return fmt.Errorf("method = %s: must be %s", value, takesMethod)
}

func (d *Design) drawn() bool { return d.Method == Random || d.Method == LHS }

func (d *Design) checkAxis(a *Axis) error {
	if !d.drawn() && len(a.Values) == 0 {
		return fmt.Errorf("%s: a range needs a number of values unless method is random or lhs, as in %s..%s 5",
			a.Key, a.low, a.high)
	}
	return nil
}

// Count returns the number of points as designed, at most math.MaxInt.
func (d *Design) Count() int {
	n := 1
	switch {
	case d.drawn():
		return d.N
	case d.Method == OneAtATime:
		for i := range d.Axes {
			n += len(d.Axes[i].Values)
		}
	default:
		for i := range d.Axes {
			size := len(d.Axes[i].Values)
			if n > math.MaxInt/size {
				return math.MaxInt
			}
			n *= size
		}
	}
	return n
}

// Points returns the points, each once. There must not be too many, see Count. usual has the values of the
// axes that OneAtATime begins at.
func (d *Design) points(usual Point) []Point {
	var all []Point
	switch {
	case d.drawn():
		for _, units := range d.units() {
			p := make(Point, len(units))
			for i, u := range units {
				p[i] = Value{d.Axes[i].Key, d.Axes[i].at(u)}
			}
			all = append(all, p)
		}
	case d.Method == OneAtATime:
		all = append(all, usual)
		for i, a := range d.Axes {
			for _, v := range a.Values {
				p := slices.Clone(usual)
				p[i].Value = v
				all = append(all, p)
			}
		}
	default:
		all = []Point{{}}
		for _, a := range d.Axes {
			var longer []Point
			for _, p := range all {
				for _, v := range a.Values {
					longer = append(longer, append(slices.Clip(p), Value{a.Key, v}))
				}
			}
			all = longer
		}
	}
	return distinct(all)
}

// distinct leaves out points that were there before, since they would tell the same again.
func distinct(all []Point) []Point {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(p Point) bool {
		name := p.String()
		again := seen[name]
		seen[name] = true
		return again
	})
}

// units returns N points of the unit cube.
func (d *Design) units() [][]float64 {
	src := prng.Fork(d.Seed, "design")
	all := make([][]float64, d.N)
	for i := range all {
		all[i] = make([]float64, len(d.Axes))
	}
	for axis := range d.Axes {
		strata := src.Sample(d.N, d.N)
		for i := range all {
			all[i][axis] = uniform(&src)
			if d.Method == LHS {
				all[i][axis] = (float64(strata[i]) + all[i][axis]) / float64(d.N)
			}
		}
	}
	return all
}

// uniform draws a number of [0, 1).
func uniform(src *prng.Source) float64 { return float64(src.Uint64()>>11) / (1 << 53) }

// Axis is a key with the values that it has.
type Axis struct {
	Key    Key
	Values []string // of a list, or a range with a count; nil for a range from which a design draws

	low, high string // the ends of a range
	scale     scale
	line      int
}

// scale says what lies between the ends of a range.
type scale struct {
	low, high float64 // in units
	log       bool
	whole     bool
	unit      string // behind each number
}

const takesAxis = "values with commas between them, or a range such as 5..100, 0.5..0.998 log or 10m..6h, with a " +
	"number of values behind it unless points are drawn"

func parseAxis(k Key, text string) (Axis, error) {
	a := Axis{Key: k}
	if !strings.Contains(text, "..") {
		for v := range strings.SplitSeq(text, ",") {
			v = strings.TrimSpace(v)
			if v == "" {
				return a, errors.New("an empty value; must be " + takesAxis)
			}
			if slices.Contains(a.Values, v) {
				return a, fmt.Errorf("%s is there twice", v)
			}
			a.Values = append(a.Values, v)
		}
		return a, sameUnits(a.Values)
	}
	words := strings.Fields(text)
	a.low, a.high, _ = strings.Cut(words[0], "..")
	if err := a.scale.parse(a.low, a.high); err != nil {
		return a, err
	}
	return a, a.parseRest(words[1:])
}

// sameUnits returns an error for times with units beside numbers without, which are milliseconds for one key and
// seconds for another: in results they are told apart from words by their numbers alone. 0 needs no unit.
func sameUnits(values []string) error {
	bare, timed := "", ""
	for _, v := range values {
		if x, err := strconv.ParseFloat(v, 64); err == nil && x != 0 {
			bare = v
		} else if _, unit := splitUnit(v); unit != "" {
			timed = v
		}
	}
	if bare != "" && timed != "" {
		return fmt.Errorf("%s has a unit and %s has none: times need units, or none of them", timed, bare)
	}
	return nil
}

// maxValues bounds the values of one axis.
const maxValues = 10_000

// parseRest reads what follows the ends of a range: linear or log, and a count.
func (a *Axis) parseRest(words []string) error {
	if len(words) > 0 && (words[0] == "log" || words[0] == "linear") {
		if a.scale.log = words[0] == "log"; a.scale.log && a.scale.low <= 0 {
			return errors.New("a log range must begin above 0")
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || len(words) > 1 {
		return errors.New("must be " + takesAxis)
	}
	if n < 2 || n > maxValues {
		return fmt.Errorf("the number of values of a range must be from 2 to %d", maxValues)
	}
	for i := range n {
		v := a.scale.at(float64(i) / float64(n-1))
		if i > 0 && v == a.Values[len(a.Values)-1] {
			return fmt.Errorf("there are no %d different whole numbers between the ends in this scale", n)
		}
		a.Values = append(a.Values, v)
	}
	return nil
}

var units = []struct {
	name    string
	seconds float64
}{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}

// parse reads the ends of a range: two numbers, or two times with units.
func (s *scale) parse(low, high string) error {
	lowNumber, lowUnit := splitUnit(low)
	highNumber, highUnit := splitUnit(high)
	var err1, err2 error
	s.low, err1 = strconv.ParseFloat(lowNumber, 64)
	s.high, err2 = strconv.ParseFloat(highNumber, 64)
	if err1 != nil || err2 != nil || math.IsInf(s.high-s.low, 0) || math.IsNaN(s.high-s.low) {
		return errors.New("must be " + takesAxis)
	}
	if (lowUnit == "") != (highUnit == "") {
		return errors.New("both ends of a range need units, or none")
	}
	if lowUnit != "" { // in the smaller unit, so that whole numbers stay whole
		ratio := secondsOf(highUnit) / secondsOf(lowUnit)
		if ratio >= 1 {
			s.high *= ratio
			s.unit = lowUnit
		} else {
			s.low /= ratio
			s.unit = highUnit
		}
	}
	if s.low >= s.high {
		return errors.New("the first end of a range must be less than the second")
	}
	s.whole = s.low == math.Trunc(s.low) && s.high == math.Trunc(s.high) && !strings.ContainsAny(low+high, ".eE")
	return nil
}

func splitUnit(text string) (number, unit string) {
	number = strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	if unit = text[len(number):]; secondsOf(unit) == 0 {
		return text, ""
	}
	return number, unit
}

func secondsOf(unit string) float64 {
	for _, u := range units {
		if u.name == unit {
			return u.seconds
		}
	}
	return 0
}

// digits are what values of ranges keep, so that processors whose logarithms differ in their last digits agree.
const digits = 6

// between is the number at a part of the range, from 0 to 1.
func (s *scale) between(u float64) float64 {
	if s.log {
		return s.low * math.Exp(u*math.Log(s.high/s.low))
	}
	return s.low + u*(s.high-s.low)
}

// at returns the value at a part of the range, from 0 to 1, with both ends.
func (s *scale) at(u float64) string {
	x := s.between(u)
	if s.whole {
		x = math.Round(x)
	} else {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	}
	return strconv.FormatFloat(min(max(x, s.low), s.high), 'f', -1, 64) + s.unit
}

// drawn returns the value at a part of the range, from 0 to 1, without 1. A whole number stands for all up to the next,
// so that those at the ends have parts as large as the others.
func (s *scale) drawn(u float64) string {
	if !s.whole {
		return s.at(u)
	}
	wider := scale{low: s.low, high: s.high + 1, log: s.log}
	x := math.Floor(wider.between(u) * (1 + 1e-12)) // 4 is 4, however it was rounded
	return strconv.FormatFloat(min(max(x, s.low), s.high), 'f', -1, 64) + s.unit
}

// at returns the value at a part of the axis, from 0 to 1, without 1.
func (a *Axis) at(u float64) string {
	if len(a.Values) > 0 {
		return a.Values[int(u*float64(len(a.Values)))]
	}
	return a.scale.drawn(u)
}

// some returns values that show whether the key accepts all of them: those of a list, or the ends.
func (a *Axis) some() []string {
	if len(a.Values) > 0 {
		return a.Values
	}
	return []string{a.scale.at(0), a.scale.at(1)}
}
