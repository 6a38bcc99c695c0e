package mutants

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const text = `# About leases.

one-line: what is
wrong
--- a/core/node/lease.go
@@
-old
+new

# More of them.
with-context: 2
--- a/core/kv/kv.go
@@
 	before

-a
-b
 after


added: 3
--- a/core/kv/kv.go
@@
 after
+c
`
	want := []Mutant{
		{Name: "one-line", What: "what is wrong", File: "core/node/lease.go", Old: "old\n", New: "new\n",
			At: "bugs/leases.diff:3"},
		{Name: "with-context", What: "2", File: "core/kv/kv.go", Old: "\tbefore\n\na\nb\nafter\n",
			New: "\tbefore\n\nafter\n", At: "bugs/leases.diff:11"},
		{Name: "added", What: "3", File: "core/kv/kv.go", Old: "after\n", New: "after\nc\n", At: "bugs/leases.diff:21"},
	}
	for i := range want {
		want[i].Subject = "leases"
	}
	for _, text := range []string{text, strings.TrimSuffix(text, "\n")} {
		if got, err := parse("bugs/leases.diff", text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v\n%+v", err, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"no heading\n", `x.diff:1: want a bug's name and what is wrong, as in some-name: words; not "no heading"`},
		{"# c\n\n--- a/core/x.go\n@@\n", `x.diff:3: want a bug's name`},
		{"Upper: words\n--- a/core/x.go\n@@\n-a\n", `x.diff:1: want a bug's name`},
		{"name:\n--- a/core/x.go\n@@\n-a\n", `x.diff:1: want a bug's name`},
		{"name: words\n", `x.diff:2: want the file of name, as in --- a/core/node/lease.go; not ""`},
		{"name: words\n--- core/x.go\n@@\n-a\n", `x.diff:2: want the file of name`},
		{"name: words\n--- a/sim/x.go\n@@\n-a\n", `x.diff:2: want the file of name`},
		{"name: words\n--- a/core/../x.go\n@@\n-a\n", `x.diff:2: want the file of name`},
		{"name: words\nmore\n--- a/core/x.go\n-a\n", `x.diff:4: want the line @@ before the hunk of name; not "-a"`},
		{"name: words\n--- a/core/x.go\n@@ -1,2 +1,2 @@\n-a\n", `x.diff:3: want the line @@`},
		{"name: words\n--- a/core/x.go\n@@\n",
			`x.diff:4: the hunk of name ends here without an old line, so it has no place`},
		{"name: words\n--- a/core/x.go\n@@\n+a\n", `x.diff:5: the hunk of name ends here without an old line`},
		{"name: words\n--- a/core/x.go\n@@\n a\n", `x.diff:5: the hunk of name ends here and changes nothing`},
		{"name: words\n--- a/core/x.go\n@@\n-a\n+a\n", `x.diff:6: the hunk of name ends here and changes nothing`},
		{"name: words\n--- a/core/x.go\n@@\n-a\n@@\n-b\n",
			`x.diff:5: a line of a hunk begins with a blank, - or +; not "@@"`},
		{"name: words\n--- a/core/x.go\n@@\n-a\nother: words\n", `x.diff:5: a line of a hunk`},
		{"name: words\n--- a/core/x.go\n@@\n-a\n\n-b\nc\n", `x.diff:7: a line of a hunk`},
	} {
		if got, err := parse("x.diff", c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q\ngives %v, %v\nwant  %s", c.text, got, err, c.want)
		}
	}
}

func TestPlaces(t *testing.T) {
	m := Mutant{Name: "name", File: "core/x.go", Old: "a\n", New: "b\n", At: "x.diff:1"}
	for _, c := range []struct{ text, want, err string }{
		{text: "a\n", want: "b\n"},
		{text: "x\na\nax\n a\nxa\n", want: "x\nb\nax\n a\nxa\n"},
		{text: "x\n",
			err: "x.diff:1: mutant name: the old lines are in 0 places of core/x.go, and must be in one:\na\n"},
		{text: "", err: "x.diff:1: mutant name: the old lines are in 0 places"},
		{text: "a\na\n", err: "x.diff:1: mutant name: the old lines are in 2 places"},
	} {
		got, err := m.apply(c.text)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%q gives %q, %v", c.text, got, err)
		}
	}
}
