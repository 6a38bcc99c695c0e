package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"couchrelay/sim/scenario"
)

// Experiment is what a file says.
type Experiment struct {
	File        string   // as it was given
	Text        string   // of the file
	About       []string // the comment at its top: what it shows
	First, Last uint64   // seeds
	Design      Design
	// Variants are points that take the place of those of Design.
	Variants []Point
	// Unused are keys of [replicator] that the file sets and that have no effect on scheduling.
	Unused []string

	fixed []assignment
}

// assignment gives a key a value in a line.
type assignment struct {
	key   Key
	value string
	line  int
}

// Load reads a file.
func Load(path string) (*Experiment, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, string(text))
}

// Parse reads the text of a file. Traces that it names are looked up where the file is.
func Parse(path, text string) (*Experiment, error) {
	p := parser{e: &Experiment{File: path, Text: text, First: 1, Last: 10}, seen: map[Key]int{}}
	about, statements := scenario.Statements(text)
	p.e.About = about
	if len(statements) == 0 {
		return nil, fmt.Errorf("%s: sets nothing; an experiment has lines such as jobs = 100 below [workload]", path)
	}
	for _, s := range statements {
		p.line = s.Line
		if err := p.statement(s.Text); err != nil {
			return nil, p.at(err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, p.at(err)
	}
	return p.e, nil
}

// parser is the state of Parse.
type parser struct {
	e       *Experiment
	section string
	line    int
	seen    map[Key]int // lines, of sections with an empty name too
}

func (p *parser) at(err error) error {
	return fmt.Errorf("%s:%w", p.e.File, &scenario.Error{Line: p.line, Text: err.Error()})
}

func (p *parser) statement(text string) error {
	if section, is := strings.CutPrefix(text, "["); is {
		return p.begin(strings.TrimSuffix(section, "]"))
	}
	name, value, assigned := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !assigned {
		return fmt.Errorf("%s: must be KEY = VALUE, or a section such as [replicator]", text)
	}
	if p.section == design {
		return p.design(name, value)
	}
	key := Key{p.section, name}
	if err := p.once(key, name); err != nil {
		return err
	}
	if key == (Key{top, "seeds"}) {
		return p.seeds(value)
	}
	scratch := newSetup(filepath.Dir(p.e.File))
	if err := scratch.set(key, value); err != nil {
		return err
	}
	if key.Idle() {
		p.e.Unused = append(p.e.Unused, name)
	}
	p.e.fixed = append(p.e.fixed, assignment{key, value, p.line})
	return nil
}

func (p *parser) begin(section string) error {
	if !slices.Contains([]string{replicator, shares, recipe, design}, section) {
		return fmt.Errorf("[%s]: no such section; known are [%s], [%s], [%s], [%s]", section, replicator,
			shares, recipe, design)
	}
	p.section = section
	return p.once(Key{section, ""}, "["+section+"]")
}

// once returns an error if a key was given in an earlier line.
func (p *parser) once(key Key, name string) error {
	if line := p.seen[key]; line > 0 {
		return fmt.Errorf("%s: was said in line %d already", name, line)
	}
	p.seen[key] = p.line
	return nil
}

// maxSeeds bounds how often a point is played.
const maxSeeds = 100_000

func (p *parser) seeds(value string) error {
	first, last, ranged := strings.Cut(value, "..")
	if !ranged {
		last = first
	}
	var err1, err2 error
	p.e.First, err1 = strconv.ParseUint(first, 10, 53)
	p.e.Last, err2 = strconv.ParseUint(last, 10, 53)
	if err1 != nil || err2 != nil || p.e.Last < p.e.First || p.e.Last-p.e.First >= maxSeeds {
		return fmt.Errorf("seeds = %s: must be a number, or two such as 1..20, and no more than %d seeds",
			value, maxSeeds)
	}
	return nil
}

// design reads a line of [sweep].
func (p *parser) design(name, value string) error {
	key := Key{design, name}
	switch name {
	case "method":
		if err := p.once(key, name); err != nil {
			return err
		}
		return p.e.Design.setMethod(value)
	case "design-seed":
		if err := p.once(key, name); err != nil {
			return err
		}
		n, err := strconv.ParseUint(value, 10, 53)
		if err != nil {
			return fmt.Errorf("design-seed = %s: must be a whole number", value)
		}
		p.e.Design.Seed = n
		return nil
	}
	key, err := findKey(name)
	if err != nil {
		return err
	}
	if err := p.once(Key{design, key.String()}, name); err != nil {
		return err
	}
	axis, err := parseAxis(key, value)
	if err != nil {
		return fmt.Errorf("%s = %s: %w", name, value, err)
	}
	axis.line = p.line
	p.e.Design.Axes = append(p.e.Design.Axes, axis)
	return p.tryAxis(&axis)
}

// tryAxis sets the key to some values of an axis: to all that a list has.
func (p *parser) tryAxis(a *Axis) error {
	if (a.Key == Key{top, "failures"} || a.Key == Key{top, "per-account"}) {
		return fmt.Errorf("%s: cannot be an axis", a.Key)
	}
	for _, v := range a.some() {
		scratch := newSetup(filepath.Dir(p.e.File))
		if err := scratch.set(a.Key, v); err != nil {
			return err
		}
	}
	return nil
}

// finish checks what depends on more than one line.
func (p *parser) finish() error {
	d := &p.e.Design
	for i := range d.Axes {
		a := &d.Axes[i]
		line, fixed := p.seen[a.Key]
		p.line = a.line
		switch {
		case fixed && d.Method != OneAtATime:
			return fmt.Errorf("%s: is set in line %d already; only method = %s has both", a.Key, line, OneAtATime)
		case !fixed && d.Method == OneAtATime:
			return fmt.Errorf("%s: method = %s needs its usual value in the sections above", a.Key, OneAtATime)
		}
		if err := d.checkAxis(a); err != nil {
			return err
		}
	}
	if line := p.seen[Key{design, ""}]; line > 0 && len(d.Axes) == 0 {
		p.line = line
		return fmt.Errorf("[sweep]: has no axis; an example is max_churn = 5, 20, 100")
	}
	return nil
}

// Seeds returns the number of seeds.
func (e *Experiment) Seeds() int { return int(e.Last - e.First + 1) }

// Setup returns the settings of a point, and an error that names the line at fault if there is one.
func (e *Experiment) Setup(p Point) (*Setup, error) {
	s := newSetup(filepath.Dir(e.File))
	for _, a := range e.fixed {
		if err := s.set(a.key, a.value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", e.File, a.line, err)
		}
	}
	for _, a := range p {
		if err := s.set(a.Key, a.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", e.File, err)
		}
	}
	if err := s.check(); err != nil {
		return nil, e.wrong(p, err)
	}
	return &s, nil
}

// wrong is the error of a point, which need not be due to any one line.
func (e *Experiment) wrong(p Point, err error) error {
	if len(p) == 0 {
		return fmt.Errorf("%s: %w", e.File, err)
	}
	return fmt.Errorf("%s: at the point %s: %w", e.File, p, err)
}

// Count returns the number of points, at most math.MaxInt.
func (e *Experiment) Count() int {
	if len(e.Variants) > 0 {
		return len(e.Variants)
	}
	return e.Design.Count()
}

// points returns all of them; there must not be too many.
func (e *Experiment) points() ([]Point, error) {
	if len(e.Variants) > 0 {
		return e.Variants, nil
	}
	var usual Point
	for _, a := range e.Design.Axes {
		value, err := e.usual(a.Key)
		if err != nil && e.Design.Method == OneAtATime {
			return nil, err
		}
		usual = append(usual, Value{a.Key, value})
	}
	return e.Design.points(usual), nil
}

// usual is the value of a key in the sections before [sweep].
func (e *Experiment) usual(k Key) (string, error) {
	i := slices.IndexFunc(e.fixed, func(a assignment) bool { return a.key == k })
	if i < 0 {
		return "", fmt.Errorf("%s: %s has no value", e.File, k)
	}
	return e.fixed[i].value, nil
}
