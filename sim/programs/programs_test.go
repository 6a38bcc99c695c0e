package programs

import (
	"context"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// wrong is a store with a mistake.
type wrong struct {
	kv.Database
	mistake func(kv.Transaction) kv.Transaction
}

func (w wrong) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return w.mistake(w.Database.Begin(ctx, o))
}

type blindReads struct{ kv.Transaction }

func (b blindReads) Get(key []byte) ([]byte, error) { return b.Snapshot().Get(key) }

type shortClears struct{ kv.Transaction }

func (s shortClears) ClearRange(r kv.Range) { s.Clear(r.Begin) }

type unsigned struct{ kv.Transaction }

func (s unsigned) Add(key []byte, delta int64) { s.Transaction.Max(key, uint64(delta)) }

type noOwnConflicts struct{ kv.Transaction }

func (n noOwnConflicts) AddWriteConflict(kv.Range) {}

// TestFindsMistakes: programs reach every kind of mistake that a store could have.
func TestFindsMistakes(t *testing.T) {
	for name, mistake := range map[string]func(kv.Transaction) kv.Transaction{
		"reads that never conflict": func(tx kv.Transaction) kv.Transaction { return blindReads{tx} },
		"clears of one key":         func(tx kv.Transaction) kv.Transaction { return shortClears{tx} },
		"additions that are none":   func(tx kv.Transaction) kv.Transaction { return unsigned{tx} },
		"ignored write conflicts":   func(tx kv.Transaction) kv.Transaction { return noOwnConflicts{tx} },
	} {
		good, bad := fakefdb.New(), wrong{fakefdb.New(), mistake}
		report := &Report{Allowed: map[Allowed]int{}}
		gen := rapid.Custom(Draw)
		found := ""
		for seed := 0; seed < 3000 && found == ""; seed++ {
			p := gen.Example(seed)
			prefix := []byte{byte(seed >> 8), byte(seed), '/'}
			found = report.Compare(p, p.Run(t.Context(), good, prefix), p.Run(t.Context(), bad, prefix), true)
		}
		if found == "" {
			t.Errorf("%s: not found", name)
		}
	}
}

// TestAllowed: only what has a name is forgiven.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		a, b   string
		faults int
		exact  bool
		want   Allowed
	}{
		{"ok", "error 2102", 1, true, LateWriteError},
		{"error 2102", "none", 1, true, LateWriteError},
		{"error 2102", "error 2103", 1, true, ""},
		{"error 2102", "error 2103", 2, true, OtherWriteError},
		{"committed", "error 2102", 1, true, ""},
		{"error 2102", "committed", 1, true, ""},
		{"committed", "error 1020", 0, true, ""},
		{"committed", "error 1020", 0, false, NeedlessConflict},
		{"error 1020", "committed", 0, false, ""},
		{"1", "error 1009", 0, false, FailedOperation},
		{"1", "error 2000", 0, false, ""},
		{"1", "2", 0, false, ""},
	} {
		if got := allowed(Line{c.a, c.faults}, Line{c.b, c.faults}, c.exact); got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.a, c.b, got, c.want)
		}
	}
	report := &Report{Programs: 1, Allowed: map[Allowed]int{LateWriteError: 2}}
	if !strings.Contains(report.String(), "write error at the commit:2") {
		t.Error(report)
	}
}
