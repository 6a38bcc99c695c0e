package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/config"
	"couchrelay/sim/world"
)

// Format writes a scenario as Parse reads it. What is as in Base is left out.
func Format(s *Scenario) string {
	var b strings.Builder
	for _, line := range s.Text {
		fmt.Fprintln(&b, strings.TrimSpace("# "+line))
	}
	if s.Broke != "" {
		fmt.Fprintln(&b, "broke", s.Broke)
	}
	switch {
	case s.Scripted:
	case s.First == s.Last:
		fmt.Fprintln(&b, "seeds", s.First)
	default:
		fmt.Fprintf(&b, "seeds %d..%d\n", s.First, s.Last)
	}
	formatWorld(&b, s.Config)
	for _, d := range s.Decisions {
		fmt.Fprintln(&b, "decide", d)
	}
	return b.String()
}

func formatWorld(b *strings.Builder, c world.Config) {
	base := Base()
	for _, f := range fields {
		if v := f.get(&c); v != f.get(&base) {
			fmt.Fprintln(b, f.name, v)
		}
	}
	heading := replicatorSection + "\n"
	now, usual := production(c), production(base)
	for _, name := range settings {
		if v := config.Replicator.Get(&now, name); v != config.Replicator.Get(&usual, name) {
			fmt.Fprintf(b, "%s%s = %s\n", heading, name, v)
			heading = ""
		}
	}
	heading = sharesSection + "\n"
	for _, account := range slices.Sorted(maps.Keys(c.Sharing.Shares)) {
		fmt.Fprintf(b, "%s%s = %d\n", heading, account, c.Sharing.Shares[account])
		heading = ""
	}
	for _, t := range world.Catalogue { // in its order
		if rate := c.Rates[t.Name] + c.Actions[t.Name]; rate > 0 {
			fmt.Fprintf(b, "rate %s %s\n", t.Name, formatPercent(rate))
		}
	}
	for _, e := range c.Events {
		fmt.Fprintln(b, formatEvent(e))
	}
}

func formatEvent(e world.Event) string {
	words := []string{"at", config.Short(e.At), e.What}
	if e.Whom != "" {
		words = append(words, e.Whom)
	}
	if e.For > 0 {
		words = append(words, "for", config.Short(e.For))
	}
	return strings.Join(words, " ")
}

// Lines is the length of a scenario as a file.
func Lines(s *Scenario) int { return strings.Count(Format(s), "\n") }
