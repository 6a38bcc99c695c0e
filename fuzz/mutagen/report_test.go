package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The values are those of Newcombe, Two-sided confidence intervals for the single proportion (1998), table I.
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718},
		{29, 29, 0.8830, 1}, {0, 0, 0, 1},
	} {
		low, high := wilson(c.k, c.n)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", c.k, c.n, low, high, c.low, c.high)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	is := func(verdict string) outcome { return outcome{Verdict: verdict} }
	results := []*result{
		{Package: "m/core/a", Operator: "swap", Unit: is(killed), Seeds: is(survived)},
		{Package: "m/core/a", Operator: "shift", Unit: is(survived), Seeds: is(killed)},
		{Package: "m/core/a", Operator: "shift", Unit: is(survived), Seeds: is(changed), Scenarios: is(survived)},
		{Package: "m/core/b", Operator: "shift", Unit: is(survived), Seeds: is(unreached), Scenarios: is(unreached)},
		{Package: "m/core/b", Operator: "swap", Unit: is(unreached), Seeds: is(unreached), Scenarios: is(unreached),
			Function: "f"},
		{Package: "m/core/b", Operator: "swap", Unit: is(uncompiled)},
		{Package: "m/core/b", Operator: "swap", Unit: is(killed)}, // and all after it say nothing of seeds alone
		{Package: "m/core/b", Operator: "swap", Unit: is(killed), Seeds: is(killed)},
	}
	var out strings.Builder
	if err := report(&out, results, exceptions{results[4].text(): "no bug"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"core/a 3 0 1 1 1 0 33 % 6-79 67 % 21-94 100 % 44-100 33 % 6-79 67 % 21-94",
		"core/b 4 1 2 0 0 1 67 % 21-94 67 % 21-94 67 % 21-94 0 % 0-79 0 % 0-79",
		"shift 3 0 0 1 1 1 0 % 0-56 33 % 6-79 67 % 21-94 33 % 6-79 67 % 21-94",
		"all 7 1 3 1 1 1 50 % 19-81 67 % 30-90 83 % 44-97 25 % 5-70 50 % 15-85",
		"of the first 4.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	m := fixture(t, map[string]string{"p.go": manyPoints})
	if err := os.Mkdir(filepath.Join(m.root, "other"), 0o755); err != nil { // a package that is not drawn from
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "exceptions.txt")
	const text = "# about\n\nfixture: f: shift\n- if a < b && len(list) > 2 {\n" +
		"+ if a <= b && len(list) > 2 {\n\tOne\n\treason.\n"
	const gone = "fixture: f: remove-assign\n- c--\n"
	const nowhere = "fixture/nowhere: f: shift\n- a\n"
	const others = gone + "\tTwo.\n\nfixture/other: f: shift\n- a\n\tThree.\n\n" + nowhere + "\tFour.\n"
	if err := os.WriteFile(path, []byte(text+others), 0o644); err != nil {
		t.Fatal(err)
	}
	known, err := readExceptions(path)
	if err != nil || len(known) != 4 {
		t.Fatal(known, err)
	}
	explained := 0
	for _, mutant := range m.sample(1000, 1).mutants {
		if known[mutant.text()] == "One reason. " {
			explained++
		}
	}
	if explained != 1 {
		t.Errorf("%d mutants are explained by %v", explained, known)
	}
	if stale := known.stale(m); !slices.Equal(stale, []string{nowhere, gone}) {
		t.Errorf("stale: %q", stale)
	}
	for _, wrong := range []string{"\talone\n", "fixture: f: shift\n- a\n", "- a\n\tone\n",
		"fixture: f: shift\n- a\n\tone\n- b\n\ttwo\n"} {
		if err := os.WriteFile(path, []byte(wrong), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readExceptions(path); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// What is explained is still in the core.
func TestExceptionsOfTheCore(t *testing.T) {
	t.Parallel()
	known, err := readExceptions("exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	m, err := load(root, "./core/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range known.stale(m) {
		t.Errorf("explains what is not there:\n%s", text)
	}
}
