// Package decide is the only source of chance in a simulation. Whatever may go one way or another is a
// question asked at a named site; the answer 0 is always the benign one: no fault, the shortest wait, the
// first choice. So a run is told by its scenario and the answers that were not benign, and a run in which
// some of them are left out is a simpler run of the same kind: that is how failures are shrunk.
//
// Answers come from a seed, from a script of recorded choices, or from both. Every site has a stream of its own, so
// that asking more at one place changes nothing at another.
package decide

import (
	"fmt"
	"strconv"
	"time"

	"couchrelay/core/prng"
)

// Seed is one number that tells a whole run.
type Seed uint64

// Choice is an answer that was not benign.
type Choice struct {
	Site  string
	Index int    // of the question among those of the site, from 0
	Value string // in words: a fault's name, a duration, a number
}

func (c Choice) String() string { return fmt.Sprintf("%s %d %s", c.Site, c.Index, c.Value) }

// Happens says whether the choice is an answer of Pick or Chance: something that happens, and not which,
// how many or how long.
func (c Choice) Happens() bool {
	_, notNumber := strconv.ParseUint(c.Value, 10, 64)
	_, notTime := time.ParseDuration(c.Value)
	return notNumber != nil && notTime != nil
}

// Decider hands out sites and remembers what was answered.
type Decider struct {
	seed   *Seed                     // nil means that there is none, and every answer of it benign
	script map[string]map[int]string // goes before the seed
	mask   map[string]map[int]bool   // questions whose answer is to be benign whatever the seed says
	sites  map[string]*Site
	record bool
	made   []Choice
}

// New answers as the seed says.
func New(seed Seed) *Decider { return &Decider{seed: &seed, sites: map[string]*Site{}} }

// Script answers as recorded; what the choices do not name is benign.
func Script(choices []Choice) *Decider {
	return &Decider{script: index(choices, func(c Choice) string { return c.Value }), sites: map[string]*Site{}}
}

// Told answers what happens (Pick and Chance) as recorded, so that what the choices do not name does not
// happen, and asks the seed for the rest: which, how many, how long.
func Told(seed Seed, choices []Choice) *Decider {
	d := Script(choices)
	d.seed = &seed
	return d
}

func index[T any](choices []Choice, value func(Choice) T) map[string]map[int]T {
	bySite := map[string]map[int]T{}
	for _, c := range choices {
		if bySite[c.Site] == nil {
			bySite[c.Site] = map[int]T{}
		}
		bySite[c.Site][c.Index] = value(c)
	}
	return bySite
}

// Without makes the answers of these choices benign. Call it before the first question.
func (d *Decider) Without(choices ...Choice) *Decider {
	d.mask = index(choices, func(Choice) bool { return true })
	return d
}

// Recording makes Choices return the answers. Call it before the first question.
func (d *Decider) Recording() *Decider {
	d.record = true
	return d
}

// Choices are the answers so far that were not benign, in the order in which they were given.
func (d *Decider) Choices() []Choice { return d.made }

// Site is the place called name. Get it once and keep it.
func (d *Decider) Site(name string) *Site {
	s := d.sites[name]
	if s == nil {
		s = &Site{name: name, d: d, script: d.script[name], mask: d.mask[name]}
		if d.seed != nil {
			s.rng = prng.Fork(uint64(*d.seed), name)
		}
		d.sites[name] = s
	}
	return s
}

// Site is a place where questions are asked.
type Site struct {
	name   string
	d      *Decider
	asked  int
	rng    prng.Source // of the seed; unused when there is none
	script map[int]string
	mask   map[int]bool
}

// Name is the site's name.
func (s *Site) Name() string { return s.name }

// Asked is the number of questions so far.
func (s *Site) Asked() int { return s.asked }

// ask asks the next question. It returns the number that the seed draws from [0, n), or the words of
// the script.
func (s *Site) ask(n int) (value int, words string) {
	i := s.asked
	s.asked++
	if s.d.script != nil {
		words = s.script[i]
	}
	if s.d.seed != nil {
		value = s.rng.Intn(n) // also when it is masked, so that later answers stay
	}
	if s.mask[i] {
		return 0, ""
	}
	return value, words
}

// chose records the answer to the last question.
func (s *Site) chose(words string) {
	s.d.made = append(s.d.made, Choice{Site: s.name, Index: s.asked - 1, Value: words})
}

// Int chooses from [0, n). With n of at most 1 there is nothing to choose.
func (s *Site) Int(n int) int {
	if n <= 1 {
		return 0
	}
	v, words := s.ask(n)
	if words != "" {
		v, _ = strconv.Atoi(words)
		v = min(max(v, 0), n-1)
	}
	if v != 0 && s.d.record {
		s.chose(strconv.Itoa(v))
	}
	return v
}

// Duration chooses from [least, most] in microseconds; least is benign.
func (s *Site) Duration(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	n := int((most-least)/time.Microsecond) + 1
	v, words := s.ask(n)
	if words != "" {
		d, _ := time.ParseDuration(words)
		v = min(max(int((d-least)/time.Microsecond), 0), n-1)
	}
	d := least + time.Duration(v)*time.Microsecond
	if v != 0 && s.d.record {
		s.chose(d.String())
	}
	return d
}

// Seed64 chooses 64 bits.
func (s *Site) Seed64() uint64 {
	v, words := s.ask(1 << 62)
	if words != "" {
		v, _ = strconv.Atoi(words)
	}
	if v != 0 && s.d.record {
		s.chose(strconv.Itoa(v))
	}
	return uint64(v)
}

// Scale is the unit of rates: an alternative with this rate comes up always.
const Scale = 1_000_000

// Table is a choice among named alternatives with rates; what is left of Scale is the benign answer, "".
type Table struct {
	names []string
	upTo  []int // cumulative
}

// Add adds an alternative. Rates that sum up to more than Scale are cut.
func (t *Table) Add(name string, rate int) {
	if rate <= 0 {
		return
	}
	sum := rate
	if n := len(t.upTo); n > 0 {
		sum += t.upTo[n-1]
	}
	t.names, t.upTo = append(t.names, name), append(t.upTo, min(sum, Scale))
}

// Pick chooses an alternative, "" for none.
func (s *Site) Pick(t *Table) string {
	if len(t.names) == 0 && s.d.script == nil {
		return ""
	}
	v, words := s.ask(Scale)
	if words == "" && v > 0 && s.d.script == nil {
		v = Scale - v // so that small draws are benign
		for i, upTo := range t.upTo {
			if v <= upTo {
				words = t.names[i]
				break
			}
		}
	}
	if words != "" && s.d.record {
		s.chose(words)
	}
	return words
}

// Chance comes up with a rate.
func (s *Site) Chance(rate int) bool {
	return s.Pick(&Table{names: []string{"yes"}, upTo: []int{min(rate, Scale)}}) != ""
}

// Scripted says whether the answers come from a script.
func (d *Decider) Scripted() bool { return d.script != nil }
