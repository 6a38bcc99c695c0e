package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// mutant is one way to damage the source.
type mutant struct {
	*point
	variant  int
	old, new []string // the lines that differ, without the blanks around them
	first    int      // line of the first of them
	last     int      // line of the last of old; first-1 if there is none
}

func newMutant(p *point, variant int) *mutant {
	m := &mutant{point: p, variant: variant}
	before, after := lines(p.file.text), lines(p.apply(variant))
	from := 0
	for from < min(len(before), len(after)) && before[from] == after[from] {
		from++
	}
	end := 0
	for end < min(len(before), len(after))-from && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	m.first, m.last = from+1, len(before)-end
	m.old, m.new = trimmed(before[from:len(before)-end]), trimmed(after[from:len(after)-end])
	return m
}

func lines(text []byte) []string { return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") }

// trimmed returns lines without blanks around them, and none that is empty.
func trimmed(list []string) (out []string) {
	for _, line := range list {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// text is what a person says about the mutant: its package, function and operator, and the lines that differ. It
// is the same wherever the function is moved to.
func (m *mutant) text() string {
	return describe(m.file.path, m.function, m.operator, m.old, m.new)
}

func describe(path, function, operator string, old, new []string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s: %s\n", path, cmp.Or(function, "-"), operator)
	for _, line := range old {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	for _, line := range new {
		fmt.Fprintf(&text, "+ %s\n", line)
	}
	return text.String()
}

// key tells mutants apart, also those with the same text.
func (m *mutant) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s", m.name, m.text()))
	return hex.EncodeToString(sum[:8])
}

// diff returns the mutant as a patch.
func (m *mutant) diff() string {
	before, after := lines(m.file.text), lines(m.apply(m.variant))
	const around = 3
	from, to := max(0, m.first-1-around), min(len(before), m.last+around)
	more := len(after) - len(before)
	var text strings.Builder
	fmt.Fprintf(&text, "--- a/%s\n+++ b/%s\n@@ -%d,%d +%d,%d @@ %s\n", m.file.name, m.file.name, from+1, to-from,
		from+1, to-from+more, m.function)
	write := func(mark string, list []string) {
		for _, line := range list {
			fmt.Fprintln(&text, mark+line)
		}
	}
	write(" ", before[from:m.first-1])
	write("-", before[m.first-1:m.last])
	write("+", after[m.first-1:m.last+more])
	write(" ", before[m.last:to])
	return text.String()
}

// draw is a sample, and what was drawn in vain.
type draw struct {
	mutants    []*mutant
	points     map[string]int // by operator
	uncompiled int
	identical  int
}

// rank is a number that a seed gives a text, the same on every machine and in every order.
func rank(seed uint64, text string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", seed, text))
	return binary.BigEndian.Uint64(sum[:])
}

// sample draws n mutants: the operators take turns, in an order of the seed, and each draws from its points, all
// with the same chance, without putting them back, and one of the point's variants. A point keeps its place in
// the order when other code changes, so a sample changes no more than the code did.
func (m *module) sample(n int, seed uint64) draw {
	d := draw{points: map[string]int{}}
	queues := map[string][]*point{}
	for _, p := range m.points() {
		queues[p.operator] = append(queues[p.operator], p)
		d.points[p.operator]++
	}
	var turns []string
	for operator, queue := range queues {
		turns = append(turns, operator)
		slices.SortFunc(queue, func(a, b *point) int { return cmp.Compare(rank(seed, a.name), rank(seed, b.name)) })
	}
	slices.SortFunc(turns, func(a, b string) int { return cmp.Compare(rank(seed, a), rank(seed, b)) })
	for turn := 0; len(d.mutants) < n && len(turns) > 0; {
		operator := turns[turn%len(turns)]
		var drawn *mutant
		for drawn == nil && len(queues[operator]) > 0 {
			drawn = m.try(queues[operator][0], seed, &d)
			queues[operator] = queues[operator][1:]
		}
		if drawn == nil {
			turns = slices.DeleteFunc(turns, func(o string) bool { return o == operator })
			continue
		}
		d.mutants = append(d.mutants, drawn)
		turn++
	}
	return d
}

// try returns a mutant of a point, or nil if it is none.
func (m *module) try(p *point, seed uint64, d *draw) *mutant {
	variant := int(rank(seed, "variant\n"+p.name) % uint64(len(p.variants)))
	text := p.apply(variant)
	if bytes.Equal(bytes.Join(bytes.Fields(text), nil), bytes.Join(bytes.Fields(p.file.text), nil)) {
		d.identical++
		return nil
	}
	if _, err := m.check(p.file.pkg, nil, p.file, text); err != nil {
		d.uncompiled++
		return nil
	}
	return newMutant(p, variant)
}
