package main

import (
	"testing"
)

// forms is a module with functions of many forms, and one mutant or more in each.
var forms = map[string]string{
	"p.go": `package p

var start = 7

type Sum[V any] struct{ n int }

func (s *Sum[V]) Add(list ...int) {
	for _, n := range list {
		s.n += n
	}
}

func (s Sum[V]) Twice() (n int) {
	n = 2 * s.n
	return
}

func (Sum[V]) Start() int { return 2 * start }

func Largest[K int | string](
	a, b K,
) K {
	if a > b {
		return a
	}
	return b
}

func Second(_, b int) int { return b + 1 }

func Nothing() {}

func init() { start++ }
`,
	"p_test.go": `package p

import "testing"

func TestAll(t *testing.T) {
	s := Sum[string]{}
	s.Add(1, 2)
	s.Add(3)
	Nothing()
	if s.Twice() != 12 || s.Start() != 16 || Largest("b", "a") != "b" || Second(1, 2) != 3 {
		t.Fatal()
	}
}
`,
}

// TestSchema: a mutant among others fares as it does alone. Those that cannot be among others are compiled alone.
func TestSchema(t *testing.T) {
	t.Parallel()
	m := fixture(t, forms)
	mutants := m.sample(1000, 1).mutants
	l, _ := newLab(t, m, t.TempDir())
	among, err := l.all(t.Context(), mutants, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	alone := map[string]bool{"": true, "Second": true, "Sum.Start": true}
	tried := map[string]int{}
	l, _ = newLab(t, m, t.TempDir())
	if err := l.baseline(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.schema, err = l.writeSchema(mutants); err != nil {
		t.Fatal(err)
	}
	defer l.schema.remove()
	for i, of := range mutants {
		_, is := l.schema.numbers[of.key()]
		if is == alone[of.function] {
			t.Errorf("%s among others: %v", of.text(), is)
		}
		if tried[of.function]++; !is || tried[of.function] > 3 {
			continue // to compile each takes long
		}
		delete(l.schema.numbers, of.key())
		r := newResult(of)
		if err := l.judge(t.Context(), of, r, func(*result) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got := among[i]; got.Unit.Verdict != r.Unit.Verdict || got.Unit.By != r.Unit.By {
			t.Errorf("%s%s among others, and %s alone", of.text(), got, r)
		}
	}
	for _, function := range []string{"Sum.Add", "Sum.Twice", "Largest", "init", "Second", "Sum.Start", ""} {
		if tried[function] == 0 {
			t.Errorf("no mutant in %q", function)
		}
	}
}
