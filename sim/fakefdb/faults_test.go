package fakefdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/sim/conformance"
	"couchrelay/sim/fakefdb"
)

// chaos draws outcomes with every fault now and then.
func chaos(r *prng.Source, fired map[fakefdb.Fault]int) func(fakefdb.Op) fakefdb.Outcome {
	return func(op fakefdb.Op) fakefdb.Outcome {
		ms := func(n int) time.Duration { return time.Duration(r.Intn(n)) * time.Millisecond }
		out := fakefdb.Outcome{Before: ms(10), After: ms(10), Late: ms(200), SameBatch: r.Intn(2) == 0,
			Pick: r.Uint64()}
		if faults := fakefdb.Faults(op.Kind); len(faults) > 0 && r.Intn(4) == 0 {
			out.Fault = faults[r.Intn(len(faults))]
		}
		if op.Kind == fakefdb.ReadVersion && op.Limbo && r.Intn(2) == 0 {
			out.Fault = fakefdb.StaleReadVersion
		}
		if out.Fault == fakefdb.SlowCommit {
			out.Before = ms(7000)
		}
		fired[out.Fault]++
		if out.Fault == fakefdb.Misread { // which breaks what a store promises
			out.Fault = fakefdb.NoFault
		}
		return out
	}
}

// TestHistoryUnderFaults lets clients loose on a few keys with every fault on, and checks that what
// they saw is strictly serializable in virtual time, that a seed always gives the same run, and that
// every fault was met.
func TestHistoryUnderFaults(t *testing.T) {
	fired := map[fakefdb.Fault]int{}
	unknown, conflicts := 0, 0
	for seed := range uint64(60) {
		h, trace := runHistory(t, seed, fired)
		h.Check(t)
		unknown, conflicts = unknown+h.Unknown, conflicts+h.Conflicts
		if seed%10 == 0 {
			if _, again := runHistory(t, seed, map[fakefdb.Fault]int{}); again != trace {
				t.Errorf("seed %d gave two different runs", seed)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for k := fakefdb.ReadVersion; k <= fakefdb.Commit; k++ {
		for _, f := range fakefdb.Faults(k) {
			if fired[f] == 0 {
				t.Errorf("%s never fired", f)
			}
		}
	}
	if unknown < 100 || conflicts < 100 {
		t.Errorf("%d unknown outcomes and %d conflicts are too few", unknown, conflicts)
	}
}

func runHistory(t *testing.T, seed uint64, fired map[fakefdb.Fault]int) (*conformance.History, string) {
	r := prng.Fork(seed, "faults")
	var trace strings.Builder
	choose := chaos(&r, fired)
	w, db := newWorld(func(op fakefdb.Op) fakefdb.Outcome {
		out := choose(op)
		fmt.Fprintln(&trace, op, out)
		return out
	})
	h := &conformance.History{DB: db, Prefix: []byte("h/"),
		Now: func() int64 { return int64(w.now)<<20 + int64(w.seq) }}
	for client := range 4 {
		w.start(func() {
			r := prng.Fork(seed, fmt.Sprint(client))
			for range 12 {
				if err := h.Attempt(context.Background(), client, &r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w.run()
	fmt.Fprintln(&trace, db.Hash(), db.Stats(), db.Dump())
	return h, trace.String()
}

// scripted decides operations of a kind by their order and gives all others no time and no fault.
func scripted(kind fakefdb.Kind, script ...fakefdb.Outcome) func(fakefdb.Op) fakefdb.Outcome {
	return func(op fakefdb.Op) (out fakefdb.Outcome) {
		if op.Kind == kind && len(script) > 0 {
			out, script = script[0], script[1:]
		}
		return out
	}
}

func set(ctx context.Context, db kv.Database, key, value string) error {
	tx := db.Begin(ctx, kv.Options{})
	defer tx.Cancel()
	tx.Set([]byte(key), []byte(value))
	return tx.Commit()
}

func get(t *testing.T, db kv.Database, key string) string {
	v, err := kv.Run(context.Background(), db, func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte(key)) })
	if err != nil {
		t.Error(err)
	}
	return string(v)
}

// TestCommitFaults: what the client is told, and what is there just after and much later.
func TestCommitFaults(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		fault       fakefdb.Fault
		code        kv.Code
		soon, later string
	}{
		{fakefdb.NoFault, 0, "new", "new"},
		{fakefdb.SlowCommit, 0, "new", "new"},
		{fakefdb.Conflict, kv.NotCommitted, "", ""},
		{fakefdb.ProxyMemory, kv.ProxyMemoryExceeded, "", ""},
		{fakefdb.CommitTooOld, kv.TransactionTooOld, "", ""},
		{fakefdb.UnknownLanded, kv.CommitUnknownResult, "new", "new"},
		{fakefdb.UnknownDropped, kv.CommitUnknownResult, "", ""},
		{fakefdb.TimedOutLate, kv.TransactionTimedOut, "", "new"},
		{fakefdb.TimedOutNever, kv.TransactionTimedOut, "", ""},
		{fakefdb.ClusterLate, kv.ClusterVersionChanged, "", "new"},
		{fakefdb.ClusterNever, kv.ClusterVersionChanged, "", ""},
	} {
		w, db := newWorld(scripted(fakefdb.Commit,
			fakefdb.Outcome{Fault: c.fault, Before: second, After: second, Late: second}))
		w.start(func() {
			start := w.now
			if err := set(context.Background(), db, "k", "new"); kv.CodeOf(err) != c.code {
				t.Errorf("%s: got %v, want %d", c.fault, err, c.code)
			}
			if took := w.now.Sub(start); took != 2*second {
				t.Errorf("%s: the commit took %v", c.fault, took)
			}
			if v := get(t, db, "k"); v != c.soon {
				t.Errorf("%s: then %q, want %q", c.fault, v, c.soon)
			}
			_ = w.Sleep(context.Background(), 2*second)
			if v := get(t, db, "k"); v != c.later {
				t.Errorf("%s: later %q, want %q", c.fault, v, c.later)
			}
		})
		w.run()
	}
}

// TestLateCommitIsChecked: a commit that lands late is decided by what happened meanwhile.
func TestLateCommitIsChecked(t *testing.T) {
	for _, c := range []struct {
		name       string
		late       time.Duration
		meanwhile  string // key that another writes
		wantMarker string
	}{
		{"nothing happened", 2 * time.Second, "other", "late"},
		{"its read was overwritten", 2 * time.Second, "read", ""},
		{"it became too old", 6 * time.Second, "other", ""},
	} {
		w, db := newWorld(scripted(fakefdb.Commit, fakefdb.Outcome{Fault: fakefdb.TimedOutLate, Late: c.late}))
		w.start(func() {
			tx := db.Begin(context.Background(), kv.Options{})
			_, err := tx.Get([]byte("read"))
			tx.Set([]byte("marker"), []byte("late"))
			if code := kv.CodeOf(tx.Commit()); err != nil || code != kv.TransactionTimedOut {
				t.Error(err, code)
			}
			tx.Cancel() // is no help
			if err := set(context.Background(), db, c.meanwhile, "x"); err != nil {
				t.Error(err)
			}
			_ = w.Sleep(context.Background(), c.late+time.Second)
			if v := get(t, db, "marker"); v != c.wantMarker {
				t.Errorf("%s: marker is %q, want %q", c.name, v, c.wantMarker)
			}
		})
		w.run()
	}
}

// TestDeadClient: a commit that is under way lands though its client is gone.
func TestDeadClient(t *testing.T) {
	w, db := newWorld(scripted(fakefdb.Commit, fakefdb.Outcome{Before: time.Second}))
	ctx, cancel := context.WithCancel(context.Background())
	c := w.start(func() {
		if err := set(ctx, db, "k", "v"); err != context.Canceled {
			t.Errorf("got %v", err)
		}
		if v := get(t, db, "k"); v != "" {
			t.Errorf("too early: %q", v)
		}
	})
	w.After(time.Millisecond, func() { cancel(); w.interrupt(c) })
	w.After(2*time.Second, func() {
		w.start(func() {
			if v := get(t, db, "k"); v != "v" {
				t.Errorf("then %q", v)
			}
		})
	})
	w.run()
}

// TestReadFaults: codes, and that another attempt helps.
func TestReadFaults(t *testing.T) {
	for kind, faults := range map[fakefdb.Kind]map[fakefdb.Fault]kv.Code{
		fakefdb.ReadVersion: {fakefdb.TagThrottled: kv.TagThrottled, fakefdb.BatchThrottled: kv.BatchThrottled},
		fakefdb.Read: {fakefdb.TooOldEarly: kv.TransactionTooOld, fakefdb.FutureVersion: kv.FutureVersion,
			fakefdb.ProcessBehind:  kv.ProcessBehind,
			fakefdb.DatabaseLocked: kv.DatabaseLocked, fakefdb.ReadTimedOut: kv.TransactionTimedOut},
	} {
		for fault, code := range faults {
			w, db := newWorld(scripted(kind, fakefdb.Outcome{Fault: fault}))
			w.start(func() {
				tx := db.Begin(context.Background(), kv.Options{})
				defer tx.Cancel()
				_, err := tx.GetRange(kv.Range{End: []byte{0xff}}, kv.RangeOptions{})
				if kv.CodeOf(err) != code {
					t.Errorf("%s: got %v, want %d", fault, err, code)
				}
				if !kv.Retryable(err) {
					return
				}
				if err := tx.OnError(err); err != nil {
					t.Error(err)
				}
				if _, err := tx.GetRange(kv.Range{End: []byte{0xff}}, kv.RangeOptions{}); err != nil {
					t.Errorf("%s: again: %v", fault, err)
				}
			})
			w.run()
		}
	}
}

// TestOutage: operations wait until it is over, or their context ends.
func TestOutage(t *testing.T) {
	over := instant.Seconds(1_000_000).Add(time.Minute)
	var w *world
	w, db := newWorld(func(op fakefdb.Op) fakefdb.Outcome {
		if w.now < over && op.Kind != fakefdb.BackOff {
			return fakefdb.Outcome{Fault: fakefdb.Outage, Before: 7 * time.Second}
		}
		return fakefdb.Outcome{}
	})
	w.start(func() {
		if err := set(context.Background(), db, "k", "v"); err != nil || w.now < over {
			t.Errorf("%v at %v", err, w.now)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	c := w.start(func() {
		get := func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte("k")) }
		if _, err := kv.Run(ctx, db, get); err != context.Canceled || w.now >= over {
			t.Errorf("%v at %v", err, w.now)
		}
	})
	w.After(time.Second, func() { cancel(); w.interrupt(c) })
	w.run()
}

// TestAgeIsExact: five seconds are young enough, a microsecond more is not.
func TestAgeIsExact(t *testing.T) {
	for late, want := range map[time.Duration]kv.Code{0: 0, time.Microsecond: kv.TransactionTooOld} {
		w, db := newWorld(scripted(fakefdb.BackOff))
		w.start(func() {
			tx := db.Begin(context.Background(), kv.Options{})
			_, _ = tx.ReadVersion()
			_ = w.Sleep(context.Background(), kv.MaxTxSeconds*time.Second+late)
			if _, err := tx.Get([]byte("k")); kv.CodeOf(err) != want {
				t.Errorf("%v late: read gives %v", late, err)
			}
			tx.Set([]byte("k"), nil)
			if err := tx.Commit(); kv.CodeOf(err) != want {
				t.Errorf("%v late: commit gives %v", late, err)
			}
		})
		w.run()
	}
}

// TestStaleReadVersion: a commit that nobody was told of may be left out, one that somebody was told
// of, or has seen, may not.
func TestStaleReadVersion(t *testing.T) {
	stale := fakefdb.Outcome{Fault: fakefdb.StaleReadVersion}
	var w *world
	reads := 0
	w, db := newWorld(func(op fakefdb.Op) fakefdb.Outcome {
		switch op.Kind {
		case fakefdb.Commit:
			return fakefdb.Outcome{After: time.Second} // lands at once, known after a second
		case fakefdb.ReadVersion:
			if reads++; reads != 2 {
				return stale
			}
		}
		return fakefdb.Outcome{}
	})
	w.start(func() {
		if err := set(context.Background(), db, "k", "v"); err != nil {
			t.Error(err)
		}
	})
	w.After(time.Millisecond, func() {
		w.start(func() {
			for i, want := range []string{"", "v", "v"} { // stale, fresh, stale but somebody has seen it
				if v := get(t, db, "k"); v != want {
					t.Errorf("read %d: %q, want %q", i, v, want)
				}
			}
		})
	})
	w.run()
}

// TestSameBatch: commits of one batch share the version and are ordered by their place in it; one
// whose client already knew of the commit before is of a later batch.
func TestSameBatch(t *testing.T) {
	batch := fakefdb.Outcome{SameBatch: true, After: time.Second}
	w, db := newWorld(scripted(fakefdb.Commit, batch, batch, batch))
	stamps := make([][10]byte, 3)
	commit := func(i int) {
		tx := db.Begin(context.Background(), kv.Options{})
		tx.Set([]byte{byte(i)}, nil)
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		stamps[i], _ = tx.Versionstamp()
	}
	w.start(func() { commit(0); commit(2) })
	w.start(func() { commit(1) })
	w.run()
	if string(stamps[0][:8]) != string(stamps[1][:8]) || stamps[0][9] != 0 || stamps[1][9] != 1 {
		t.Errorf("one batch: %x", stamps)
	}
	if string(stamps[2][:8]) <= string(stamps[1][:8]) {
		t.Errorf("next batch: %x", stamps)
	}
}

// TestWatchFaults: when a watch of a key ends that changes after a minute, and how.
func TestWatchFaults(t *testing.T) {
	const minute = time.Minute
	for fault, want := range map[fakefdb.Fault]struct {
		after time.Duration
		code  kv.Code
	}{
		fakefdb.NoFault:       {minute, 0},
		fakefdb.WatchDelayed:  {minute + time.Second, 0},
		fakefdb.WatchSpurious: {time.Second, 0},
		fakefdb.WatchFailed:   {time.Second, kv.OperationCancelled},
		fakefdb.WatchRefused:  {0, kv.TooManyWatches},
		fakefdb.WatchLost:     {-1, 0},
	} {
		w, db := newWorld(scripted(fakefdb.StartWatch, fakefdb.Outcome{Fault: fault, Late: time.Second}))
		start, ended := w.now, instant.Time(-1)
		w.start(func() {
			tx := db.Begin(context.Background(), kv.Options{})
			watch := tx.Watch([]byte("k"))
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
			if err := watch.Wait(context.Background()); kv.CodeOf(err) != want.code {
				t.Errorf("%s: %v", fault, err)
			}
			ended = w.now
		})
		w.After(minute, func() { w.start(func() { _ = set(context.Background(), db, "k", "v") }) })
		w.run()
		if ended < 0 != (want.after < 0) || ended >= 0 && ended.Sub(start) != want.after {
			t.Errorf("%s: ended after %v, want %v", fault, ended.Sub(start), want.after)
		}
	}
}

// TestEveryOperationIsAsked: each is a point where the world may suspend the caller.
func TestEveryOperationIsAsked(t *testing.T) {
	var asked []fakefdb.Kind
	w, db := newWorld(func(op fakefdb.Op) fakefdb.Outcome {
		asked = append(asked, op.Kind)
		return fakefdb.Outcome{}
	})
	w.start(func() {
		tx := db.Begin(context.Background(), kv.Options{})
		_, _ = tx.Get([]byte("a"))
		_, _ = tx.GetAll([][]byte{[]byte("a"), []byte("b")})
		_, _ = tx.Snapshot().GetRange(kv.Range{End: []byte("z")}, kv.RangeOptions{})
		_ = tx.OnError(kv.NewError(kv.NotCommitted))
		tx.Set([]byte("a"), nil)
		tx.Watch([]byte("c"))
		_ = tx.Commit()
	})
	w.run()
	want := []fakefdb.Kind{fakefdb.ReadVersion, fakefdb.Read, fakefdb.Read, fakefdb.Read, fakefdb.BackOff,
		fakefdb.ReadVersion, fakefdb.Read, fakefdb.Commit, fakefdb.StartWatch}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}
