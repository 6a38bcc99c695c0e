package docs

import (
	"context"
	"testing"
	"time"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/prng"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// trouble is a world in which transactions have to be run again: conflicts, old versions, and commits
// whose outcome is not told.
type trouble struct {
	random prng.Source
	now    instant.Time
}

func (w *trouble) Now() instant.Time { w.now++; return w.now }

func (w *trouble) Decide(op fakefdb.Op) fakefdb.Outcome {
	faults := map[fakefdb.Kind][]fakefdb.Fault{
		fakefdb.Read:   {fakefdb.FutureVersion, fakefdb.TooOldEarly},
		fakefdb.Commit: {fakefdb.UnknownLanded, fakefdb.UnknownLanded, fakefdb.UnknownDropped, fakefdb.Conflict},
	}[op.Kind]
	out := fakefdb.Outcome{SameBatch: w.random.Intn(2) == 0}
	if odds := map[fakefdb.Kind]int{fakefdb.Read: 20, fakefdb.Commit: 2}[op.Kind]; odds > 0 &&
		w.random.Intn(odds) == 0 {
		out.Fault = faults[w.random.Intn(len(faults))]
	}
	return out
}

func (w *trouble) Sleep(ctx context.Context, d time.Duration) error {
	w.now = w.now.Add(d)
	return ctx.Err()
}

func (w *trouble) Await(ctx context.Context, arm func(wake func())) error {
	woken := false
	arm(func() { woken = true })
	if !woken {
		panic("nobody wakes the caller")
	}
	return nil
}

func (w *trouble) After(_ time.Duration, f func()) { f() }

// TestMachineInTrouble: whatever is run again, every edit happens once and is answered as what it was.
func TestMachineInTrouble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := fakefdb.New(fakefdb.InWorld(&trouble{random: prng.New(rapid.Uint64().Draw(t, "seed"))}))
		m := &machine{world: &world{Database: store, Store: New(tuple.Subspace("root")), name: "db"},
			twin: twin{docs: map[string]map[revtree.Rev]twinRev{}}, trouble: true}
		m.create(t, "db", 1)
		t.Repeat(map[string]func(*rapid.T){"Edit": m.Edit, "Merge": m.Merge, "Remember": m.Remember, "": m.Check})
	})
}
