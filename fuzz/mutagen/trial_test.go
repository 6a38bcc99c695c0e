package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// trials is a module whose tests notice some damage. Its package below is noticed only by those of the one above.
var trials = map[string]string{
	"p.go": "package p\n\nimport \"fixture/below\"\n\n" +
		"func Loop(n int) (sum int) {\nfor i := 0; i < n; i++ {\nsum += i\n}\nreturn sum\n}\n\n" +
		"func Twice(n int) int {\nreturn below.Sum(n, n)\n}\n\nfunc Unused(a, b int) int {\nreturn max(a, b)\n}\n",
	"below/below.go": "package below\n\n" +
		"func Sum(a, b int) int {\nif a > 100 {\nreturn 0\n}\nreturn a + b + 0\n}\n",
	"p_test.go": "package p\n\nimport \"testing\"\n\n" +
		"func TestAll(t *testing.T) {\nif Loop(4) != 6 || Twice(3) != 6 {\nt.Fatal()\n}\n}\n",
}

func newLab(t *testing.T, m *module, out string) (l *lab, tried *int) {
	tried = new(int)
	return &lab{module: m, out: out, jobs: 1, suites: map[string]*suite{}, say: func(format string, args ...any) {
		if _, is := args[len(args)-1].(*result); is {
			*tried++
		}
		t.Logf(format, args...)
	}}, tried
}

// A second run tries nothing that the first has tried, and one that is cut off is gone on with.
func TestResume(t *testing.T) {
	t.Parallel()
	m, out := fixture(t, trials), t.TempDir()
	fates := map[string]bool{ // of mutants by operator and new line: whether they are killed
		"negate for i := 0; i >= n; i++ {": true, "negate if a <= 100 {": true, "shift if a >= 100 {": false,
		"other-name return max(b, b)": false, "off-by-one return a + b + (0 + 1)": true,
	}
	mutants := slices.DeleteFunc(m.sample(1000, 1).mutants, func(m *mutant) bool {
		_, chosen := fates[m.operator+" "+strings.Join(m.new, " ")]
		return !chosen
	})
	if len(mutants) != len(fates) {
		t.Fatalf("%d mutants for %d fates", len(mutants), len(fates))
	}
	l, _ := newLab(t, m, out)
	half, err := l.all(t.Context(), mutants[:len(mutants)/2], nil, false)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(out, "results.jsonl")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"key":"cut of`); err != nil {
		t.Fatal(err)
	}
	file.Close()
	l, tried := newLab(t, m, out)
	whole, err := l.all(t.Context(), mutants, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if *tried != len(mutants)-len(half) {
		t.Errorf("%d of %d were tried the second time, after %d", *tried, len(mutants), len(half))
	}
	for _, r := range whole {
		name := r.Operator + " " + strings.Join(r.New, " ")
		if r.killed() != fates[name] || r.Function == "Sum" && r.killed() && r.Unit.By != "fixture: TestAll" {
			t.Errorf("%s: %s", name, r)
		}
	}
	lines := strings.Count(readAll(t, path), "\n")
	l, tried = newLab(t, m, out)
	if _, err := l.all(t.Context(), mutants, nil, false); err != nil {
		t.Fatal(err)
	}
	if *tried != 0 || lines != strings.Count(readAll(t, path), "\n") {
		t.Errorf("%d were tried the third time", *tried)
	}
}

func readAll(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What hangs or takes all memory is ended.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := bounds{cpu: 1e9, wall: 2e9, memory: 100 << 10}
	for script, overtime := range map[string]bool{
		"while :; do :; done": true, "sleep 60": true, "exit 3": false, "head -c 200M /dev/zero | tail -c 200M": false,
	} {
		p := program{args: []string{"sh", "-c", script}}
		if err := p.run(t.Context(), b); err != nil || !p.failed || p.overtime != overtime {
			t.Errorf("%s: %v, failed: %v, ended: %v", script, err, p.failed, p.overtime)
		}
	}
	fine := program{args: []string{"true"}}
	if err := fine.run(t.Context(), b); err != nil || fine.failed {
		t.Errorf("%v, failed: %v", err, fine.failed)
	}
}

// Seeds are played alike if all their hashes are, whatever else a program prints.
func TestPlayed(t *testing.T) {
	t.Parallel()
	played := func(output string) string { return (&program{output: []byte(output)}).played() }
	const hashes = "0 00000000000000ab\n1 0123456789abcdef\n"
	if played(hashes) != played("took 3 s\n"+hashes+"0 violations\n") {
		t.Error("what is printed besides hashes counts")
	}
	for _, other := range []string{"", "0 00000000000000ab\n", "0 00000000000000ab\n1 0123456789abcdee\n"} {
		if played(hashes) == played(other) {
			t.Errorf("%q counts as the same", other)
		}
	}
}

// A suite that needs more without damage than it may have is no judge of mutants: it would fail for each.
func TestBaselineWithinBounds(t *testing.T) {
	t.Parallel()
	m := fixture(t, map[string]string{
		"p.go": "package p\n\nfunc F() int { return 1 }\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nvar all []byte\n\n" +
			"func TestF(t *testing.T) {\nall = make([]byte, 5<<30)\n_ = F()\n}\n",
	})
	l, _ := newLab(t, m, t.TempDir())
	if err := l.baseline(t.Context()); err == nil || !strings.Contains(err.Error(), "fails without damage") {
		t.Errorf("a suite of five gigabytes: %v", err)
	}
}
