package lint

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var tighten = flag.Bool("tighten", false, "write the numbers of ratchet.txt that have shrunk")

const (
	ratchetFile = "ratchet.txt"
	ratchetHead = `# What breaks a rule and did so when the rule was made: the rule, what breaks it, and a number.
# Numbers may only shrink; go test ./internal/lint -tighten writes those that have.
`
)

// ratchet has the numbers by rule and what breaks it.
type ratchet map[[2]string]int

func readRatchet(t *testing.T) ratchet {
	text, err := os.ReadFile(ratchetFile)
	if err != nil {
		t.Fatal(err)
	}
	r := ratchet{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%s:%d: want a rule, what breaks it, and a number; not %q", ratchetFile, i+1, line)
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil || n <= 0 {
			t.Fatalf("%s:%d: %q is no positive number", ratchetFile, i+1, fields[2])
		}
		r[[2]string{fields[0], fields[1]}] = n
	}
	return r
}

// compare returns findings for what is not listed, or worse than listed. What is better is a finding too, unless
// the list is to be tightened.
func (r ratchet) compare(rule string, found []finding) []finding {
	var worse []finding
	now := map[string]int{}
	for _, f := range found {
		now[f.what] += f.n
	}
	for _, f := range found {
		if limit := r[[2]string{rule, f.what}]; now[f.what] > limit {
			f.text += fmt.Sprintf(" (%s: %d now, %s allows %d)", f.what, now[f.what], ratchetFile, limit)
			worse = append(worse, f)
		}
	}
	for key, limit := range r {
		switch n := now[key[1]]; {
		case key[0] != rule || n >= limit:
		case !*tighten:
			text := fmt.Sprintf("%s %s is listed with %d, and has %d now; go test ./internal/lint -tighten writes that",
				rule, key[1], limit, n)
			worse = append(worse, finding{at: ratchetFile, text: text})
		case n == 0:
			delete(r, key)
		default:
			r[key] = n
		}
	}
	return worse
}

// unknown reports lines of rules that do not exist or have no ratchet.
func (r ratchet) unknown(t *testing.T) {
	for key := range r {
		if !slices.ContainsFunc(rules, func(rule rule) bool { return rule.ratchet && rule.name == key[0] }) {
			t.Errorf("%s: there is no ratchet for %s", ratchetFile, key[0])
		}
	}
}

func (r ratchet) write(t *testing.T) {
	if !*tighten {
		return
	}
	var lines []string
	for key, n := range r {
		lines = append(lines, fmt.Sprintf("%s %s %d\n", key[0], key[1], n))
	}
	slices.Sort(lines)
	if err := os.WriteFile(ratchetFile, []byte(ratchetHead+strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRatchet(t *testing.T) {
	defer func(was bool) { *tighten = was }(*tighten)
	*tighten = false
	list := ratchet{{"groups", "core"}: 3, {"groups", "sim"}: 2, {"groups", "cmd"}: 1}
	var got []string
	for _, f := range list.compare("groups", []finding{
		{at: "a", what: "core", n: 2}, {at: "b", what: "core", n: 1}, // as listed
		{at: "c", what: "sim", n: 2}, {at: "d", what: "sim", n: 1}, // worse
		{at: "e", what: "fuzz", n: 1}, // not listed
	}) {
		got = append(got, f.at)
	}
	if want := []string{"c", "d", "e", ratchetFile}; !slices.Equal(got, want) { // the last since cmd is better
		t.Errorf("%q, want %q", got, want)
	}
	if got := list.compare("sizes", nil); len(got) != 0 {
		t.Errorf("another rule's list: %+v", got)
	}
}
