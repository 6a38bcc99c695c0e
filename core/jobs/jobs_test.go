package jobs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// must runs one transaction that has to succeed.
func must[T any](t *testing.T, db kv.Database, f func(kv.Tx) (T, error)) T {
	t.Helper()
	v, err := kv.Run(context.Background(), db, f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// open is a transaction that has done f and is not committed.
func open(t *testing.T, db kv.Database, f func(kv.Tx) error) kv.Transaction {
	t.Helper()
	tx := db.Begin(context.Background(), kv.Options{})
	t.Cleanup(tx.Cancel)
	for err := f(tx); err != nil; err = f(tx) {
		if err := tx.OnError(err); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

// newQueue is an empty queue and its store.
func newQueue(t testing.TB) (kv.Database, *Queue) {
	db, root := newStore(t)
	return db, New(KeysBelow(root, "kind"))
}

func add(t *testing.T, db kv.Database, q *Queue, ids ...string) {
	t.Helper()
	must(t, db, func(tx kv.Tx) (struct{}, error) {
		for _, id := range ids {
			if err := q.Add(tx, id, Schedule{Priority: tuple.Pack(0)}, []byte("{}")); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
}

func register(t *testing.T, db kv.Database, q *Queue, w string) {
	t.Helper()
	must(t, db, func(tx kv.Tx) (struct{}, error) { return struct{}{}, q.Register(tx, w, nil) })
}

func accept(q *Queue, w string, batch uint64, n int) func(kv.Tx) ([]*Job, error) {
	return func(tx kv.Tx) ([]*Job, error) {
		t, err := q.Accept(tx, w, Demand{Batch: batch, Max: n}, nil)
		return t.Jobs, err
	}
}

// TestLateAccept: an accept whose commit lands after its repetition took jobs must not land as well.
func TestLateAccept(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	add(t, db, q, "a", "b")
	late := open(t, db, func(tx kv.Tx) error {
		_, err := q.Accept(tx, "w", Demand{Batch: 1, Max: 1}, nil)
		return err
	})
	if got := must(t, db, accept(q, "w", 1, 2)); len(got) != 2 {
		t.Fatal(got)
	}
	if err := late.Commit(); !kv.Retryable(err) {
		t.Errorf("late accept: %v", err)
	}
}

// TestLateHeartbeat: what a worker said of itself does not come back over newer words.
func TestLateHeartbeat(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	late := open(t, db, func(tx kv.Tx) error { _, err := q.Heartbeat(tx, "w", []byte("old")); return err })
	must(t, db, func(tx kv.Tx) (int64, error) { return q.Heartbeat(tx, "w", []byte("new")) })
	if err := late.Commit(); !kv.Retryable(err) {
		t.Errorf("late heartbeat: %v", err)
	}
}

// TestLateUpdate: old data must not come back over newer data.
func TestLateUpdate(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	add(t, db, q, "a")
	job := must(t, db, accept(q, "w", 1, 1))[0]
	late := open(t, db, func(tx kv.Tx) error { return q.Update(tx, "a", job.Lock, []byte("old")) })
	must(t, db, func(tx kv.Tx) (struct{}, error) { return struct{}{}, q.Update(tx, "a", job.Lock, []byte("new")) })
	if err := late.Commit(); !kv.Retryable(err) {
		t.Errorf("late update: %v", err)
	}
}

// TestAcceptorsConflictOnlyOnTheirJobs: two acceptors that take different jobs both commit. A store may fail
// without a cause, but not each time.
func TestAcceptorsConflictOnlyOnTheirJobs(t *testing.T) {
	var failed error
	for range 20 {
		db, q := newQueue(t)
		register(t, db, q, "w1")
		register(t, db, q, "w2")
		add(t, db, q, "a", "b", "c", "d", "e", "f", "g", "h")
		var taken []*Job
		acceptor := func(w string, part Part) func(kv.Tx) error {
			return func(tx kv.Tx) error {
				got, err := q.Accept(tx, w, Demand{Batch: 1, Max: 1, Window: 8, Part: part}, nil)
				taken = append(taken, got.Jobs...)
				return err
			}
		}
		const half = Part(0x55555555_55555555)
		one, two := open(t, db, acceptor("w1", half)), open(t, db, acceptor("w2", ^half))
		if len(taken) != 2 || taken[0].ID == taken[1].ID {
			t.Fatal(taken)
		}
		if failed = errors.Join(one.Commit(), two.Commit()); failed == nil {
			return
		}
	}
	t.Error(failed)
}

func TestMonitorExpiresOnlyTheSilent(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	add(t, db, q, "a", "b", "c")
	must(t, db, accept(q, "w", 1, 3))
	beat := must(t, db, func(tx kv.Tx) ([]Lease, error) { return q.Leases(tx) })[0].Beat
	expire := func(limit int) bool {
		return must(t, db, func(tx kv.Tx) (bool, error) { return q.Expire(tx, "w", &beat, limit) })
	}
	must(t, db, func(tx kv.Tx) (int64, error) { return q.Heartbeat(tx, "w", nil) })
	if !expire(10) || must(t, db, func(tx kv.Tx) (Counts, error) { return q.Counts(tx) }).Running != 3 {
		t.Fatal("expired a worker that moved on")
	}
	beat = must(t, db, func(tx kv.Tx) ([]Lease, error) { return q.Leases(tx) })[0].Beat
	if expire(2) {
		t.Fatal("done with one job left")
	}
	// From the first batch on the worker is out, though some of its jobs are still its own.
	if _, err := kv.Run(context.Background(), db, accept(q, "w", 2, 1)); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("accept of an expired worker: %v", err)
	}
	heartbeat := func(tx kv.Tx) (int64, error) { return q.Heartbeat(tx, "w", nil) }
	if _, err := kv.Run(context.Background(), db, heartbeat); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("heartbeat of an expired worker: %v", err)
	}
	register := func(tx kv.Tx) error { return q.Register(tx, "w", nil) }
	if err := kv.Do(context.Background(), db, register); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("registration of an expired worker: %v", err)
	}
	if !expire(2) {
		t.Fatal("not done")
	}
	counts := must(t, db, func(tx kv.Tx) (Counts, error) { return q.Counts(tx) })
	if counts != (Counts{Ready: 3}) {
		t.Errorf("counts %+v", counts)
	}
	if j := must(t, db, func(tx kv.Tx) (*Job, error) { return q.Get(tx, "a") }); j.Lost != 1 {
		t.Errorf("lost %d times", j.Lost)
	}
}

// TestBeatDuringExpiry: a worker that sends a heartbeat while others give it up is not given up. Nothing is left of
// one that is, also if a job was taken from it.
func TestBeatDuringExpiry(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	add(t, db, q, "a")
	must(t, db, accept(q, "w", 1, 1))
	must(t, db, func(tx kv.Tx) (bool, error) { return q.Remove(tx, "a") })
	beat := must(t, db, func(tx kv.Tx) ([]Lease, error) { return q.Leases(tx) })[0].Beat
	expire := func(tx kv.Tx) error { _, err := q.Expire(tx, "w", &beat, 1); return err }
	monitor := open(t, db, expire)
	worker := open(t, db, func(tx kv.Tx) error { _, err := q.Heartbeat(tx, "w", nil); return err })
	if beats, expires := worker.Commit(), monitor.Commit(); beats != nil || expires == nil {
		t.Errorf("the heartbeat commits: %v; the expiry does not: %v", beats, expires)
	}
	must(t, db, func(tx kv.Tx) (bool, error) { return q.Expire(tx, "w", nil, 1) })
	for _, space := range []tuple.Subspace{q.Keys.Worker, q.Keys.Beat, q.Keys.Call} {
		rows := must(t, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
			return tx.GetRange(space.Range(), kv.RangeOptions{})
		})
		if len(rows) > 0 {
			t.Errorf("left are %v", rows)
		}
	}
}

// TestEndForgetsLostWorkers: a run that ends, however it does, makes up for the workers that vanished with the job.
func TestEndForgetsLostWorkers(t *testing.T) {
	for name, end := range map[string]func(q *Queue, tx kv.Tx, lock Lock) error{
		"finished": func(q *Queue, tx kv.Tx, lock Lock) error {
			_, err := q.Finish(tx, "a", lock, nil)
			return err
		},
		"resubmitted": func(q *Queue, tx kv.Tx, lock Lock) error {
			if _, err := q.Resubmit(tx, "a", Schedule{}); err != nil {
				return err
			}
			_, err := q.Finish(tx, "a", lock, nil)
			return err
		},
		"requeued": func(q *Queue, tx kv.Tx, lock Lock) error { return q.Requeue(tx, "a", lock, Schedule{}, nil) },
	} {
		db, q := newQueue(t)
		add(t, db, q, "a")
		register(t, db, q, "v")
		must(t, db, accept(q, "v", 1, 1))
		beat := must(t, db, func(tx kv.Tx) ([]Lease, error) { return q.Leases(tx) })[0].Beat
		must(t, db, func(tx kv.Tx) (bool, error) { return q.Expire(tx, "v", &beat, 1) })
		register(t, db, q, "w")
		must(t, db, accept(q, "w", 1, 1))
		get := func(tx kv.Tx) (*Job, error) { return q.Get(tx, "a") }
		if j := must(t, db, get); j.Lost != 1 {
			t.Fatalf("%s: lost %d times before", name, j.Lost)
		}
		must(t, db, func(tx kv.Tx) (bool, error) {
			err := end(q, tx, Lock{"w", 1})
			if errors.Is(err, ErrHalt) { // the commit before has done it, and its outcome was not known
				err = nil
			}
			return true, err
		})
		if j := must(t, db, get); j.Lost != 0 || j.State == Running {
			t.Errorf("%s: %s, lost %d times", name, j, j.Lost)
		}
	}
}

// TestCalls: a worker is called when one of its jobs is taken away, and only then.
func TestCalls(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	add(t, db, q, "a", "b")
	job := must(t, db, accept(q, "w", 1, 2))[0]
	beat := func() int64 { return must(t, db, func(tx kv.Tx) (int64, error) { return q.Heartbeat(tx, "w", nil) }) }
	before := beat()
	must(t, db, func(tx kv.Tx) (struct{}, error) { return struct{}{}, q.Update(tx, "a", job.Lock, nil) })
	if beat() != before {
		t.Error("called by its own update")
	}
	must(t, db, func(tx kv.Tx) (bool, error) { return q.Remove(tx, "a") })
	if beat() == before {
		t.Error("not called when its job was removed")
	}
}

// TestDiscard: of a job whose header cannot be read or is gone all rows go, and any other is removed as usual.
func TestDiscard(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	add(t, db, q, "a", "b", "c", "d")
	must(t, db, accept(q, "w", 1, 1))
	discard := func(id string) {
		must(t, db, func(tx kv.Tx) (struct{}, error) { return struct{}{}, Discard(tx, q, id) })
	}
	must(t, db, func(tx kv.Tx) (struct{}, error) {
		q.setData(tx, "b", make([]byte, chunkSize+1))
		tx.Set(q.Keys.Job.Pack("b"), []byte("\xff"))
		tx.Clear(q.Keys.Job.Pack("d"))
		return struct{}{}, nil
	})
	for _, id := range []string{"a", "b", "d", "none"} {
		discard(id)
	}
	left := must(t, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(q.Keys.Job.Range(), kv.RangeOptions{})
	})
	for _, row := range left {
		if id, _ := q.JobOf(row.Key); id != "c" {
			t.Errorf("%q is left", row.Key)
		}
	}
	c := must(t, db, func(tx kv.Tx) (Counts, error) { return q.Counts(tx) })
	if c.Running != 0 || c.Ready != 3 || len(left) == 0 {
		t.Errorf("counted %+v, %d rows left", c, len(left))
	}
}

// fired waits for w, which must fire. A store may lose a watch without a cause.
func fired(ctx context.Context, w kv.Watch) error {
	if err := w.Wait(ctx); !kv.Retryable(err) {
		return err
	}
	return nil
}

func TestWatches(t *testing.T) {
	db, q := newQueue(t)
	register(t, db, q, "w")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a signal that never comes
	defer cancel()
	ready := must(t, db, func(tx kv.Tx) (kv.Watch, error) { return q.WatchReady(tx, 0), nil })
	job := must(t, db, func(tx kv.Tx) (kv.Watch, error) {
		_, w, err := q.Subscribe(tx, "a", Interest{Until: never})
		return w, err
	})
	add(t, db, q, "a")
	for _, w := range []kv.Watch{ready, job} {
		if err := fired(ctx, w); err != nil {
			t.Error(err)
		}
	}
	call := must(t, db, func(tx kv.Tx) (kv.Watch, error) { return q.WatchWorker(tx, "w"), nil })
	must(t, db, accept(q, "w", 1, 1))
	must(t, db, func(tx kv.Tx) (bool, error) { return q.Remove(tx, "a") })
	if err := fired(ctx, call); err != nil {
		t.Error(err)
	}
}

// TestJobAsText: a job is printed with all that is special about it.
func TestJobAsText(t *testing.T) {
	held := Lock{"w", 7}
	for want, j := range map[string]Job{
		"a pending":                        {State: Pending},
		"a pending parked in lot":          {State: Pending, Schedule: Schedule{Lot: "lot"}},
		"a running lock w/7 lost 2":        {State: Running, Lock: held, Lost: 2},
		"a running lock w/7 resubmitted":   {State: Running, Lock: held, Resubmit: true},
		"a running lock w/7 to be stopped": {State: Running, Lock: held, Stop: true},
		"a finished":                       {State: Finished},
		"a unknown":                        {},
	} {
		if j.ID = "a"; j.String() != want {
			t.Errorf("%s, want %s", &j, want)
		}
	}
}

func TestListPrefix(t *testing.T) {
	db, q := newQueue(t)
	add(t, db, q, "a|1", "a|2", "a|3", "b|1", "a")
	list := must(t, db, func(tx kv.Tx) ([]*Job, error) {
		return q.List(tx.Snapshot(), Page{Prefix: "a|", After: "a|1", Limit: 9})
	})
	if len(list) != 2 || list[0].ID != "a|2" || list[1].ID != "a|3" {
		t.Errorf("listed %v", list)
	}
}

// TestFence: a worker that does not hold a job any more is told why.
func TestFence(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*Queue, kv.Tx) error
		want      error
	}{
		"nothing": {func(*Queue, kv.Tx) error { return nil }, nil},
		"removed": {func(q *Queue, tx kv.Tx) error { _, err := q.Remove(tx, "a"); return err }, ErrCanceled},
		"replaced": {func(q *Queue, tx kv.Tx) error {
			if _, err := q.Remove(tx, "a"); err != nil {
				return err
			}
			return q.Add(tx, "a", Schedule{Priority: tuple.Pack(0)}, nil)
		}, ErrCanceled},
		"finished": {func(q *Queue, tx kv.Tx) error { return q.AddFinished(tx, "a", nil) }, ErrCanceled},
		"expired": {func(q *Queue, tx kv.Tx) error {
			_, err := q.Expire(tx, "w", nil, 9)
			return err
		}, ErrWorkerConflict},
		"elsewhere": {func(q *Queue, tx kv.Tx) error {
			if _, err := q.Expire(tx, "w", nil, 9); err != nil {
				return err
			}
			_, err := q.Accept(tx, "other", Demand{Batch: 1, Max: 1}, nil)
			return err
		}, ErrWorkerConflict},
		"removed from an expired worker": {func(q *Queue, tx kv.Tx) error {
			_, err := q.Expire(tx, "w", nil, 9)
			_, again := q.Remove(tx, "a")
			return errors.Join(err, again)
		}, ErrCanceled},
	} {
		db, q := newQueue(t)
		register(t, db, q, "w")
		register(t, db, q, "other")
		add(t, db, q, "a")
		job := must(t, db, accept(q, "w", 1, 1))[0]
		if err := kv.Do(t.Context(), db, func(tx kv.Tx) error { return c.meanwhile(q, tx) }); err != nil {
			t.Fatal(err)
		}
		_, err := kv.Run(t.Context(), db, func(tx kv.Tx) (*Job, error) { return q.GetHeld(tx, "a", job.Lock) })
		update := kv.Do(t.Context(), db, func(tx kv.Tx) error { return q.Update(tx, "a", job.Lock, nil) })
		for _, err := range []error{err, update} {
			if !errors.Is(err, c.want) || errors.Is(err, ErrHalt) != (c.want != nil) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}

// readings counts the reads of a reader.
type readings struct {
	kv.Reader
	n int
}

func (r *readings) Get(key []byte) ([]byte, error) { r.n++; return r.Reader.Get(key) }

func (r *readings) GetRange(at kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	r.n++
	return r.Reader.GetRange(at, o)
}

// TestListInFewReads: a list of all jobs takes one read, and one that finds no others.
func TestListInFewReads(t *testing.T) {
	db, q := newQueue(t)
	add(t, db, q, "a", "b", "c")
	must(t, db, func(tx kv.Tx) (struct{}, error) {
		r := &readings{Reader: tx}
		list, err := q.List(r, Page{Limit: 10})
		if err == nil && (len(list) != 3 || r.n != 2) {
			t.Errorf("%d jobs in %d reads", len(list), r.n)
		}
		return struct{}{}, err
	})
}

// TestAhead: of the ready jobs those before one are counted, by priority and then by id, up to a limit, and only if
// there are more is that said. The keys, which all goroutines share, stay as they are.
func TestAhead(t *testing.T) {
	db, q := newQueue(t)
	for i, id := range []string{"z", "y", "a", "b", "c"} {
		must(t, db, func(tx kv.Tx) (struct{}, error) {
			return struct{}{}, q.Add(tx, id, Schedule{Priority: tuple.Pack(min(i, 2))}, nil)
		})
	}
	behind := q.Keys.Ready[:cap(q.Keys.Ready)]
	before := slices.Clone(behind)
	for i, id := range []string{"z", "y", "a", "b", "c"} {
		for limit := range 7 {
			must(t, db, func(tx kv.Tx) (struct{}, error) {
				j, err := q.Get(tx, id)
				if err != nil {
					return struct{}{}, err
				}
				n, more, err := q.Keys.Ahead(tx, j, limit)
				if err == nil && (n != min(i, limit) || more != (i > limit)) {
					t.Errorf("%d before %s, more: %v, up to %d", n, id, more, limit)
				}
				return struct{}{}, err
			})
		}
	}
	if !slices.Equal(before, behind) {
		t.Error("the bytes behind a key were written")
	}
}
