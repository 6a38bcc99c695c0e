package invariant

import (
	"errors"
	"slices"
	"testing"
)

const positive ID = "invariant.positive: n > 0"

func TestCheck(t *testing.T) {
	if b := broken(func() { Check(true, positive, 1) }); b != nil {
		t.Errorf("an invariant that holds is broken: %v", b)
	}
	b := broken(func() { Check(false, positive, -1, 7) })
	if b == nil || b.ID.Name() != "invariant.positive" || !slices.Equal(b.Values, []int{-1, 7}) {
		t.Errorf("found %+v", b)
	}
	if got, want := b.Error(), "invariant.positive: n > 0; found [-1 7]"; got != want {
		t.Errorf("reads %q, want %q", got, want)
	}
	if got, want := (&Broken{ID: positive}).Error(), "invariant.positive: n > 0"; got != want {
		t.Errorf("without values it reads %q, want %q", got, want)
	}
}

// broken calls f and returns what Check panicked with.
func broken(f func()) (b *Broken) {
	defer func() { b, _ = recover().(*Broken) }()
	f()
	return nil
}

func TestGuardReportsAndStops(t *testing.T) {
	var reported []*Broken
	report := func(b *Broken) { reported = append(reported, b) }
	if b := Guard(report, func() {}); b != nil || len(reported) > 0 {
		t.Errorf("nothing broke, but %v is returned and %v reported", b, reported)
	}
	reached := false
	b := Guard(report, func() { Check(false, positive, -1); reached = true })
	if b == nil || reached || len(reported) != 1 || reported[0] != b {
		t.Errorf("returned %v, reported %v, code behind the check reached: %t", b, reported, reached)
	}
}

func TestGuardLetsOthersThrough(t *testing.T) {
	other := errors.New("other")
	for name, c := range map[string]struct {
		report func(*Broken)
		f      func()
		want   any
	}{
		"another panic":    {func(*Broken) {}, func() { panic(other) }, other},
		"without a report": {nil, func() { panic(other) }, other},
	} {
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("%s: the panic is %v", name, got)
				}
			}()
			Guard(c.report, c.f)
		}()
	}
	if b := broken(func() { Guard(nil, func() { Check(false, positive) }) }); b == nil {
		t.Error("without a report, a broken invariant does not panic")
	}
}

// TestCheckIsFree: a check that holds allocates nothing, whatever it is given.
func TestCheckIsFree(t *testing.T) {
	n := 1 << 40
	if got := testing.AllocsPerRun(1000, func() { n++; Check(n > 0, positive, n, n+1) }); got != 0 {
		t.Errorf("a check that holds allocates %v times", got)
	}
	if got := testing.AllocsPerRun(1000, func() { Guard(func(*Broken) {}, func() { n++ }) }); got != 0 {
		t.Errorf("a guard allocates %v times", got)
	}
}

func BenchmarkCheck(b *testing.B) {
	for n := 1; b.Loop(); n++ {
		Check(n > 0, positive, n)
	}
}

func BenchmarkWithoutCheck(b *testing.B) {
	for n := 1; b.Loop(); n++ {
		if n < 0 {
			b.Fatal(n)
		}
	}
}
