package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Difference is how a metric differs between two points, seed by seed.
type Difference struct {
	Metric   Metric   `json:"metric"`
	A        Interval `json:"a"`
	B        Interval `json:"b"`
	Minus    Interval `json:"difference"` // B - A of each seed
	Distinct bool     `json:"distinct"`   // its interval excludes 0
}

// Compare returns the differences of point b from point a, for each metric that has a value at one of them.
func (r *Results) Compare(a, b int) []Difference {
	var list []Difference
	for _, name := range r.names() {
		x, y := column(r.of(a), name), column(r.of(b), name)
		d := Difference{Metric: r.Header.metric(name), A: interval(x), B: interval(y)}
		if d.A.Seeds+d.B.Seeds == 0 {
			continue
		}
		d.Metric.Name = name
		minus := make([]float64, len(x))
		for i := range x {
			minus[i] = y[i] - x[i]
		}
		d.Minus = interval(minus)
		d.Distinct = d.Minus.Excludes(0)
		list = append(list, d)
	}
	return list
}

// of are the runs of a point, by seed.
func (r *Results) of(point int) []Run {
	n := r.Header.Seeds()
	return r.Runs[(point-1)*n : point*n]
}

// Find returns the only point with some settings, given as KEY=VALUE with commas between them, or by its number.
func (r *Results) Find(text string) (int, error) {
	switch n, err := strconv.Atoi(text); {
	case err == nil && n >= 1 && n <= len(r.Summaries):
		return n, nil
	case err == nil:
		return 0, fmt.Errorf("%d: there is no such point; must be from 1 to %d, or KEY=VALUE", n, len(r.Summaries))
	}
	wanted, err := ParsePoint(text)
	if err != nil {
		return 0, err
	}
	var found []int
	for _, s := range r.Summaries {
		if !slices.ContainsFunc(wanted, func(v Value) bool { return !Same(s.Settings[v.Key.String()], v.Value) }) {
			found = append(found, s.Point)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%s: %d of %d points are so; the axes are %s", text, len(found), len(r.Summaries),
			strings.Join(r.Header.Axes, ", "))
	}
	return found[0], nil
}

// ParsePoint reads settings such as "scheduling_policy=tags, max_churn=50".
func ParsePoint(text string) (Point, error) {
	var p Point
	for part := range strings.SplitSeq(text, ",") {
		name, value, assigned := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !assigned || value == "" {
			return nil, fmt.Errorf("%s: must be KEY=VALUE, with commas between several, as in "+
				"scheduling_policy=tags,max_churn=50", text)
		}
		key, err := findKey(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(p, func(v Value) bool { return v.Key == key }) {
			return nil, fmt.Errorf("%s: %s is there twice", text, name)
		}
		p = append(p, Value{key, value})
	}
	return p, nil
}

// Vary makes points take the place of the design. A key that a point leaves out is as in the file.
func (e *Experiment) Vary(points []Point) error {
	for i, p := range points {
		if slices.ContainsFunc(points[:i], func(o Point) bool { return slices.Equal(o, p) }) {
			return fmt.Errorf("%s: two of the points to compare are the same", p)
		}
	}
	e.Variants = points
	return nil
}
