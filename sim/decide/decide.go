// Package decide is the only source of chance in a simulation. Everything that may go one way or another is a
// question, asked at a named site. The answer 0 is always the benign one: no fault, the shortest wait, the
// first alternative. So a scenario and the answers that were not benign determine a run, and leaving some of
// those answers out gives a simpler run of the same kind, which is how failures are shrunk.
//
// Answers come from a seed, from a script of recorded choices, from both, or from the bytes of a fuzzer. Every site
// draws from a stream of its own, so that more questions at one site change no answer at another.
package decide

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"couchrelay/core/kv/mix"
	"couchrelay/core/prng"
)

// Seed is a number from which all answers of a run are drawn.
type Seed uint64

// Choice is an answer that was not benign.
type Choice struct {
	Site  string
	Index int    // the number of the question at its site, from 0
	Value string // in words: a fault's name, a duration, a number
}

func (c Choice) String() string { return fmt.Sprintf("%s %d %s", c.Site, c.Index, c.Value) }

// Happens reports whether the choice answers Pick or Chance, which decide that something happens. Other
// choices decide which, how many or how long.
func (c Choice) Happens() bool {
	_, notNumber := strconv.ParseUint(c.Value, 10, 64)
	_, notTime := time.ParseDuration(c.Value)
	return notNumber != nil && notTime != nil
}

// Decider hands out sites and records their answers.
type Decider struct {
	seed   *Seed                     // nil when no seed answers
	script map[string]map[int]string // answers by site and index, preferred to those of the seed; nil without a script
	guide  map[place]byte            // which alternatives a fuzzer wants; nil without one
	mask   map[string]map[int]bool   // questions, by site and index, whose answer is benign in any case
	sites  map[string]*Site
	record bool
	made   []Choice
}

// New returns a decider whose answers are drawn from a seed.
func New(seed Seed) *Decider { return &Decider{seed: &seed, sites: map[string]*Site{}} }

// Script returns a decider that gives the recorded answers. Every other answer is benign.
func Script(choices []Choice) *Decider {
	return &Decider{script: index(choices, func(c Choice) string { return c.Value }), sites: map[string]*Site{}}
}

// Told returns a decider that answers Pick and Chance as recorded, so that nothing happens but what the
// choices name. It draws the other answers (which, how many, how long) from the seed unless they are
// recorded.
func Told(seed Seed, choices []Choice) *Decider {
	d := Script(choices)
	d.seed = &seed
	return d
}

// place is a question as a fuzzer names it: bits of the hash of a site's name, and the number of the question.
type place struct {
	site  byte
	index uint16
}

// Guided returns a decider for a fuzzer. Groups of four bytes answer Pick and Chance in place of the seed: the site,
// the number of the question there in two bytes, and the alternative, of which 0 is the benign one. The seed gives all
// other answers. So any bytes mean something, and a change of one group leaves the others as they were.
func Guided(seed Seed, data []byte) *Decider {
	d := New(seed)
	d.guide = map[place]byte{}
	for ; len(data) >= 4; data = data[4:] {
		d.guide[place{data[0], binary.BigEndian.Uint16(data[1:])}] = data[3]
	}
	return d
}

// guided is the alternative that a fuzzer wants at the last question, and whether it wants one.
func (s *Site) guided(t *Table) (name string, wanted bool) {
	if s.d.guide == nil {
		return "", false
	}
	which, wanted := s.d.guide[place{byte(mix.String(s.name)), uint16(s.asked - 1)}]
	if !wanted || s.asked > math.MaxUint16 {
		return "", false
	}
	if n := int(which) % (len(t.names) + 1); n > 0 {
		name = t.names[n-1]
	}
	return name, true
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

// Choices returns the answers so far that were not benign, in the order in which they were given.
func (d *Decider) Choices() []Choice { return d.made }

// Site returns the site with a name, always the same one. Look it up once and keep it.
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
	rng    prng.Source // the site's stream of the seed; unused without a seed
	script map[int]string
	mask   map[int]bool
}

// Name is the site's name.
func (s *Site) Name() string { return s.name }

// Asked returns the number of questions so far.
func (s *Site) Asked() int { return s.asked }

// ask asks the next question. It returns the number that the seed draws from [0, n), and the words of the
// script, which are empty when the script does not answer.
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

// Int chooses from [0, n). With an n of 1 or less it asks nothing and returns 0.
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

// Duration chooses from [least, most], in whole microseconds above least, which is the benign answer.
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

// Seed64 chooses a seed for another source of chance. Its two highest bits are 0.
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

// Scale is the rate of what always happens: rates are out of Scale.
const Scale = 1_000_000

// Table has named alternatives with their rates. The rest up to Scale is the rate of the benign answer, "".
type Table struct {
	names []string
	upTo  []int // the sum of the rates up to and including each alternative, at most Scale
}

// Add adds an alternative with a rate out of Scale. It does nothing for a rate of 0 or less. When the sum of
// the rates would exceed Scale, the last ones are cut.
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

// Pick chooses an alternative, or "" for none. With a script it gives any recorded name, in the table or not.
func (s *Site) Pick(t *Table) string {
	if len(t.names) == 0 && s.d.script == nil {
		return ""
	}
	v, words := s.ask(Scale)
	if guided, wanted := s.guided(t); wanted {
		words = guided
	} else if words == "" && v > 0 && s.d.script == nil {
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

// Chance reports whether something with a rate out of Scale happens.
func (s *Site) Chance(rate int) bool {
	return s.Pick(&Table{names: []string{"yes"}, upTo: []int{min(rate, Scale)}}) != ""
}

// Scripted reports whether there is a script.
func (d *Decider) Scripted() bool { return d.script != nil }
