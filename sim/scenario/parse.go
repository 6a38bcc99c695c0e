package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/sim/decide"
	"couchrelay/sim/oracle"
	"couchrelay/sim/world"
)

// Error is a line that cannot be read.
type Error struct {
	Line int
	Text string // with the name of the field, what is wrong, what is accepted
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Line, e.Text) }

// parser is the state of Parse.
type parser struct {
	s     *Scenario
	keys  config.Settings // the keys of both sections so far
	seen  map[string]int
	block string // the section, with its brackets; empty before the first
	line  int
	where map[string]int // lines of the statements that are checked at the end
}

// Sections, which have production's keys.
const (
	replicatorSection = "[replicator]"
	sharesSection     = "[replicator.shares]"
)

// Statement is a line that says something.
type Statement struct {
	Line int // from 1
	Text string
}

// Statements returns the lines of the comment at the top of a file, and the statements without comments.
func Statements(text string) (about []string, all []Statement) {
	n, top := 0, true
	for line := range strings.Lines(text) {
		n++
		line, comment, commented := strings.Cut(strings.TrimSpace(line), "#")
		line = strings.TrimSpace(line)
		switch {
		case commented && line == "" && top:
			about = append(about, strings.TrimSpace(comment))
		case line == "":
			top = top && !commented && len(about) == 0
		default:
			top, all = false, append(all, Statement{n, line})
		}
	}
	return about, all
}

// Parse reads a scenario. Errors are of type *Error.
func Parse(text string) (*Scenario, error) {
	p := &parser{s: &Scenario{Config: Base(), Scripted: true}, seen: map[string]int{}}
	p.keys = production(p.s.Config)
	about, all := Statements(text)
	p.s.Text = about
	for _, s := range all {
		p.line = s.Line
		if err := p.statement(s.Text); err != nil {
			return nil, &Error{p.line, err.Error()}
		}
	}
	if err := p.finish(); err != nil {
		return nil, &Error{p.line, err.Error()}
	}
	return p.s, nil
}

// statement reads a line.
func (p *parser) statement(line string) error {
	if line == replicatorSection || line == sharesSection {
		p.block = line
		return p.once(line)
	}
	if name, value, assigned := strings.Cut(line, "="); assigned {
		return p.key(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	word, rest, _ := strings.Cut(line, " ")
	args := strings.Fields(rest)
	switch word {
	case "at":
		return p.event(args)
	case "decide":
		return p.decision(rest)
	case "rate":
		return p.rate(args)
	}
	if !slices.Contains(words(), word) {
		return fmt.Errorf("%s: no such word; known are %s; and key = value after [replicator]", word,
			strings.Join(words(), ", "))
	}
	if err := p.once(word); err != nil {
		return err
	}
	if len(args) != 1 {
		return fmt.Errorf("%s: needs one value", word)
	}
	switch word {
	case "seeds":
		return p.seeds(args[0])
	case "broke":
		return p.broke(args[0])
	case replicatorSection, sharesSection:
		return fmt.Errorf("%s: must stand alone", word)
	}
	f := fields[slices.IndexFunc(fields, func(f field) bool { return f.name == word })]
	if err := f.set(&p.s.Config, args[0]); err != nil {
		return fmt.Errorf("%s %s: %w", word, args[0], err)
	}
	return nil
}

// words are all words that begin a line.
func words() []string {
	all := []string{"at", "broke", "decide", "rate", "seeds", replicatorSection, sharesSection}
	for _, f := range fields {
		all = append(all, f.name)
	}
	slices.Sort(all)
	return all
}

// once returns an error if a name was given in an earlier line.
func (p *parser) once(name string) error {
	if line := p.seen[name]; line > 0 {
		return fmt.Errorf("%s: was said in line %d already", name, line)
	}
	p.seen[name] = p.line
	return nil
}

func (p *parser) key(name, value string) error {
	if p.block == "" {
		return fmt.Errorf("%s: a key and its value must come after [replicator] or [replicator.shares]", name)
	}
	if err := p.once(name + " ="); err != nil {
		return err
	}
	if p.block == sharesSection {
		return p.keys.SetShares(name, value)
	}
	if err := p.keys.Set(name, value); err != nil {
		return err
	}
	if !slices.Contains(settings, name) && name != otherHealth {
		p.s.Unused = append(p.s.Unused, name)
	}
	return nil
}

func (p *parser) seeds(value string) error {
	first, last, ranged := strings.Cut(value, "..")
	if !ranged {
		last = first
	}
	var err1, err2 error
	p.s.First, err1 = strconv.ParseUint(first, 10, 63)
	p.s.Last, err2 = strconv.ParseUint(last, 10, 63)
	if err1 != nil || err2 != nil || p.s.Last < p.s.First {
		return fmt.Errorf("seeds %s: must be a number, or two such as 1..20", value)
	}
	p.s.Scripted = false
	return nil
}

func (p *parser) broke(id string) error {
	if oracle.Says(id) == "" {
		return fmt.Errorf("broke %s: no such invariant; an example is S11a", id)
	}
	p.s.Broke = id
	return nil
}

// rate reads "rate NAME PERCENT".
func (p *parser) rate(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("rate: must be followed by a fault or an action and a share, as in rate node-crash 0.5%%")
	}
	name := args[0]
	if err := p.once("rate " + name); err != nil {
		return err
	}
	rate, err := parsePercent(args[1])
	if err != nil {
		return fmt.Errorf("rate %s %s: %w", name, args[1], err)
	}
	into := p.s.Config.Rates
	switch {
	case slices.Contains(world.AllFaults(), name):
	case slices.Contains(world.AllActions, name):
		into = p.s.Config.Actions
	default:
		return fmt.Errorf("rate %s: no such fault or action; couchsim faults lists them", name)
	}
	if rate > 0 {
		into[name] = rate
	}
	return nil
}

// decision reads "decide SITE INDEX VALUE". Names of sites may have spaces.
func (p *parser) decision(rest string) error {
	words := strings.Split(rest, " ")
	if len(words) < 3 || words[0] == "" {
		return fmt.Errorf("decide: must be followed by a site, the number of a question and the answer, " +
			"as in decide nemesis 3 node-crash")
	}
	index, err := strconv.Atoi(words[len(words)-2])
	if err != nil || index < 0 {
		return fmt.Errorf("decide: the question's number is %q; must be a whole number from 0", words[len(words)-2])
	}
	c := decide.Choice{Site: strings.Join(words[:len(words)-2], " "), Index: index, Value: words[len(words)-1]}
	if err := p.once(fmt.Sprintf("decide %s %d", c.Site, c.Index)); err != nil {
		return err
	}
	p.s.Decisions = append(p.s.Decisions, c)
	return nil
}

// event reads "at TIME WHAT [WHOM] [for TIME]".
func (p *parser) event(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("at: must be followed by a time and what happens, as in at 10m node-crash n1 for 30s")
	}
	at, err := time.ParseDuration(args[0])
	if err != nil || at < 0 {
		return fmt.Errorf("at %s: must be a time after the beginning, such as 90s", args[0])
	}
	e := world.Event{At: at, What: args[1]}
	args = args[2:]
	if len(args) > 0 && args[0] != "for" {
		e.Whom, args = args[0], args[1:]
	}
	if len(args) > 0 {
		if len(args) != 2 || args[0] != "for" {
			return fmt.Errorf("at: %q is left over; the end must be for and a time, as in for 30s",
				strings.Join(args, " "))
		}
		if e.For, err = time.ParseDuration(args[1]); err != nil || e.For <= 0 {
			return fmt.Errorf("at: for %s: must be a time such as 30s", args[1])
		}
	}
	p.s.Config.Events = append(p.s.Config.Events, e)
	if p.where == nil {
		p.where = map[string]int{}
	}
	p.where[fmt.Sprint("event ", len(p.s.Config.Events)-1)] = p.line
	return nil
}

// finish checks what depends on more than one line.
func (p *parser) finish() error {
	if err := p.keys.Check(); err != nil {
		p.line = p.seen[replicatorSection]
		return err
	}
	adopt(&p.s.Config, p.keys)
	for _, account := range slices.Sorted(maps.Keys(p.s.Config.Sharing.Shares)) {
		if !slices.Contains(p.s.Config.Accounts(), account) {
			p.s.Unused = append(p.s.Unused, "shares of "+account)
		}
	}
	for i, e := range p.s.Config.Events {
		if err := p.s.Config.CheckEvent(e); err != nil {
			p.line = p.where[fmt.Sprint("event ", i)]
			return fmt.Errorf("at %s: %w", e.At, err)
		}
	}
	return nil
}
