package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const manyPoints = `package p

func f(a, b int, list []int) int {
	if a < b && len(list) > 2 {
		return list[0]
	}
	for i := range list {
		if list[i] >= a {
			a += list[i]
			continue
		}
		b--
	}
	return a * b
}
`

func keys(m *module, n int, seed uint64) (all []string) {
	for _, m := range m.sample(n, seed).mutants {
		all = append(all, m.key())
	}
	return all
}

func TestSampleIsThatOfItsSeed(t *testing.T) {
	t.Parallel()
	one, other := fixture(t, map[string]string{"p.go": manyPoints}), fixture(t, map[string]string{"p.go": manyPoints})
	first := keys(one, 20, 1)
	if again := keys(other, 20, 1); !slices.Equal(first, again) {
		t.Errorf("the same seed: %v, then %v", first, again)
	}
	if more := keys(one, 12, 1); !slices.Equal(more, first[:12]) {
		t.Errorf("a smaller sample is not the beginning of a larger one: %v, %v", more, first)
	}
	if another := keys(one, 20, 2); slices.Equal(first, another) {
		t.Error("another seed draws the same")
	}
	slices.Sort(first)
	if len(slices.Compact(first)) != 20 {
		t.Error("a mutant was drawn twice")
	}
}

// Exceptions and results are found again after code has moved.
func TestKeysOutliveMoves(t *testing.T) {
	t.Parallel()
	before := fixture(t, map[string]string{"p.go": manyPoints})
	const other = "package p\n\nfunc g() bool { return 2 < 3 }\n"
	after := fixture(t, map[string]string{"p.go": other, "moved.go": manyPoints})
	all := keys(after, 1000, 1)
	for _, key := range keys(before, 1000, 1) {
		if !slices.Contains(all, key) {
			t.Errorf("%s is not found any more", key)
		}
	}
}

// A sample of one package has the mutants that a sample of all has of it, and no others.
func TestSampleOfSomePackages(t *testing.T) {
	t.Parallel()
	m := fixture(t, map[string]string{
		"p/p.go": manyPoints, "p/below/p.go": manyPoints, "q/p.go": manyPoints,
	})
	var want []string
	for _, mutant := range m.sample(1000, 1).mutants {
		if mutant.file.path == "fixture/p/below" {
			want = append(want, mutant.key())
		}
	}
	if err := m.drawFrom([]string{"p/below"}); err != nil {
		t.Fatal(err)
	}
	got := keys(m, 1000, 1)
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d mutants of the package alone, %d of it among those of all", len(got), len(want))
	}
	if err := m.drawFrom([]string{"p", "r"}); err == nil {
		t.Error("draws from a package that is not there")
	}
}

func TestSampleEndsWithThePoints(t *testing.T) {
	t.Parallel()
	d := fixture(t, map[string]string{"p.go": manyPoints}).sample(1000, 1)
	points := 0
	for _, n := range d.points {
		points += n
	}
	if len(d.mutants)+d.uncompiled+d.identical != points || d.uncompiled == 0 {
		t.Errorf("%d mutants and %d that do not compile of %d points", len(d.mutants), d.uncompiled, points)
	}
}

// Survivors are written as patches that patch understands.
func TestDiffsApply(t *testing.T) {
	t.Parallel()
	m := fixture(t, map[string]string{"p.go": manyPoints})
	for _, mutant := range m.sample(1000, 1).mutants {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(manyPoints), 0o644); err != nil {
			t.Fatal(err)
		}
		apply := exec.Command("git", "apply", "--whitespace=nowarn", "-")
		apply.Dir, apply.Stdin = dir, strings.NewReader(mutant.diff())
		if out, err := apply.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, mutant.diff())
		}
		got, err := os.ReadFile(filepath.Join(dir, "p.go"))
		if err != nil || string(got) != string(mutant.apply(mutant.variant)) {
			t.Errorf("%v: %s", err, got)
		}
	}
}
