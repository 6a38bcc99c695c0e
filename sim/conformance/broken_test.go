package conformance

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/sim/fakefdb"
)

// unreliable is a fakefdb.World that fails as the client does under its own fault injection: one operation in
// ten, and always with an error that the contract allows.
type unreliable struct {
	mu   sync.Mutex // guards the fields below
	r    prng.Source
	time instant.Time
}

func (w *unreliable) Now() instant.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time++
	return w.time
}

func (w *unreliable) Decide(op fakefdb.Op) (out fakefdb.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := map[fakefdb.Kind][]fakefdb.Fault{
		fakefdb.Read: {fakefdb.TooOldEarly, fakefdb.FutureVersion},
		fakefdb.Commit: {fakefdb.Conflict, fakefdb.CommitTooOld, fakefdb.ProxyMemory, fakefdb.UnknownDropped,
			fakefdb.UnknownLanded},
	}[op.Kind]
	if len(faults) > 0 && w.r.Intn(10) == 0 {
		out.Fault = faults[w.r.Intn(len(faults))]
	}
	return out
}

func (w *unreliable) Sleep(ctx context.Context, _ time.Duration) error {
	runtime.Gosched()
	return ctx.Err()
}

func (w *unreliable) Await(ctx context.Context, arm func(wake func())) error {
	done := make(chan struct{})
	arm(sync.OnceFunc(func() { close(done) }))
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *unreliable) After(_ time.Duration, f func()) { f() }

// stores opens unreliable stores that also break a promise, or none if break is nil.
func stores(breaking func(kv.Transaction, func() bool) kv.Transaction) func(testing.TB) Store {
	seed := uint64(0)
	return func(testing.TB) Store {
		seed++
		world := &unreliable{r: prng.Fork(seed, "faults"), time: instant.Seconds(1000)}
		db := kv.Database(fakefdb.New(fakefdb.InWorld(world)))
		if breaking != nil {
			db = &broken{Database: db, breaking: breaking}
		}
		return Store{DB: db, Prefix: []byte("test/")}
	}
}

// TestUnreliable: a store that fails without a cause, as the contract allows, passes.
func TestUnreliable(t *testing.T) { Run(t, stores(nil)) }

// broken breaks a promise in its transactions.
type broken struct {
	kv.Database
	breaking func(tx kv.Transaction, third func() bool) kv.Transaction
	n        atomic.Int64 // calls of third
}

// third reports true for every third call.
func (b *broken) third() bool { return b.n.Add(1)%3 == 0 }

func (b *broken) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return b.breaking(b.Database.Begin(ctx, o), b.third)
}

// breakings are stores that break a promise, with the tests that have to find it.
var breakings = map[string]struct {
	group string
	begin func(tx kv.Transaction, third func() bool) kv.Transaction
}{
	"reads conflict with nothing":                 {"Conflict", blinded},
	"reads without conflicts, random programs":    {"Model", blinded},
	"reads without conflicts, concurrent clients": {"History", blinded},
	"a commit in three is lost":                   {"Isolation", lossy},
	"a commit in three is lost, random programs":  {"Model", lossy},
	"a conflict in name, and the commit landed":   {"Model", lying},
	"the same, in a retry loop":                   {"Isolation", lying},
	"a read that failed is forgotten":             {"Life", forgetting},
	"nothing ever commits":                        {"Versionstamp/unique", refusing},
}

func blinded(tx kv.Transaction, _ func() bool) kv.Transaction { return blind{tx} }

// blind reads without conflicts.
type blind struct{ kv.Transaction }

func (b blind) Get(key []byte) ([]byte, error)         { return b.Snapshot().Get(key) }
func (b blind) GetAll(keys [][]byte) ([][]byte, error) { return b.Snapshot().GetAll(keys) }
func (b blind) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return b.Snapshot().GetRange(r, o)
}

func forgetting(tx kv.Transaction, _ func() bool) kv.Transaction { return forgetful{tx, tx} }

// forgetful has a read of an illegal key fail that its transaction does not hear of.
type forgetful struct {
	kv.Transaction
	sound kv.Reader
}

func (f forgetful) Get(key []byte) ([]byte, error) {
	if len(key) > 0 && key[0] == 0xff {
		return nil, kv.NewError(kv.KeyOutsideLegalRange)
	}
	return f.sound.Get(key)
}

// ending ends in its own way.
type ending struct {
	kv.Transaction
	commit func(kv.Transaction) error
}

func (e ending) Commit() error { return e.commit(e.Transaction) }

func lossy(tx kv.Transaction, third func() bool) kv.Transaction {
	return ending{tx, func(tx kv.Transaction) error {
		if third() {
			tx.Cancel()
			return nil
		}
		return tx.Commit()
	}}
}

func lying(tx kv.Transaction, third func() bool) kv.Transaction {
	return ending{tx, func(tx kv.Transaction) error {
		if err := tx.Commit(); err != nil || !third() {
			return err
		}
		return kv.NewError(kv.NotCommitted)
	}}
}

func refusing(tx kv.Transaction, _ func() bool) kv.Transaction {
	return ending{tx, func(kv.Transaction) error { return kv.NewError(kv.NotCommitted) }}
}

// TestBroken runs the suite on a store that breaks a promise, in a process of its own, where it has to fail.
func TestBroken(t *testing.T) {
	if b, ok := breakings[os.Getenv("CONFORMANCE_BREAKING")]; ok {
		Run(t, stores(b.begin))
		return
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range breakings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tests := "^TestBroken$/^" + strings.ReplaceAll(b.group, "/", "$/^") + "$"
			command := exec.Command(own, "-test.run="+tests, "-rapid.nofailfile")
			command.Env = append(os.Environ(), "CONFORMANCE_BREAKING="+name)
			out, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBroken/"+b.group) {
				t.Errorf("the suite passes, or ends with another failure: %v\n%.2000s", err, out)
			}
		})
	}
}
