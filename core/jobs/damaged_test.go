//go:build !fdb

package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/fakefdb/damaged"
)

// TestDamagedRowsAreTold: whichever row that an operation reads has a value that nothing can be made of, or stands
// before one whose key cannot be read, the operation fails. It does not go on without the row, nor as if it were not
// there. Rows that mean something whatever bytes they have are left out: counters, and what workers and the types of
// jobs write.
func TestDamagedRowsAreTold(t *testing.T) {
	db, root := newStore(t)
	q := New(KeysBelow(root, "kind"))
	q.Incarnation = must(t, db, func(tx kv.Tx) (int64, error) { return q.Keys.Incarnate(tx) })
	register(t, db, q, "w")
	put := func(id string, s Schedule) {
		must(t, db, func(tx kv.Tx) (bool, error) { return true, q.Add(tx, id, s, nil) })
	}
	put("run", Schedule{})
	must(t, db, accept(q, "w", 1, 1))
	put("ready", Schedule{})
	put("wait", Schedule{Due: 5})
	put("parked", Schedule{Lot: "lot"})
	must(t, db, func(tx kv.Tx) (bool, error) { return true, q.AddFinished(tx, "over", nil) })
	free := map[bool][]string{false: {"count/", "worker/", "beat/"}, true: {"beat/"}} // by Behind
	// By operation, the rows whose keys say all.
	keysOnly := map[string]string{
		"ids": "job/", "rest": "job/wait", "discard": "job/wait", "head": "ready/", "first": "ready/",
		"audit": "ready/", "signal": "signal/",
	}
	lock := Lock{Worker: "w", Batch: 1}
	for name, op := range map[string]func(kv.Tx) error{
		"add":       func(tx kv.Tx) error { return q.Add(tx, "ready", Schedule{}, []byte("{}")) },
		"resubmit":  func(tx kv.Tx) error { _, err := q.Resubmit(tx, "wait", Schedule{}); return err },
		"remove":    func(tx kv.Tx) error { _, err := q.Remove(tx, "run"); return err },
		"promote":   func(tx kv.Tx) error { _, _, err := q.Promote(tx, 6, 9); return err },
		"recall":    func(tx kv.Tx) error { _, err := q.Recall(tx, 4, 9); return err },
		"list":      func(tx kv.Tx) error { _, err := q.List(tx, Page{Limit: 9}); return err },
		"page":      func(tx kv.Tx) error { _, err := q.List(tx, Page{Limit: 1}); return err },
		"register":  func(tx kv.Tx) error { return q.Register(tx, "w", nil) },
		"heartbeat": func(tx kv.Tx) error { _, err := q.Heartbeat(tx, "w", nil); return err },
		"owned":     func(tx kv.Tx) error { _, err := q.Owned(tx, "w"); return err },
		"leases":    func(tx kv.Tx) error { _, err := q.Leases(tx); return err },
		"expire":    func(tx kv.Tx) error { _, err := q.Expire(tx, "w", nil, 9); return err },
		"stop":      func(tx kv.Tx) error { _, err := q.Stop(tx, "run"); return err },
		"audit":     func(tx kv.Tx) error { return q.Audit(tx) },
		"over":      func(tx kv.Tx) error { return q.AddFinished(tx, "wait", nil) },
		"discard":   func(tx kv.Tx) error { return Discard(tx, q, "wait") },
		"ids":       func(tx kv.Tx) error { _, err := q.Keys.IDs(tx); return err },
		"rest": func(tx kv.Tx) error {
			_, err := q.List(tx, Page{Limit: 9, Without: []string{"wait"}})
			return err
		},
		"head":      func(tx kv.Tx) error { _, err := q.Head(tx, 1, false); return err },
		"first":     func(tx kv.Tx) error { _, _, err := q.Keys.First(tx, 1, "", nil); return err },
		"signal":    func(tx kv.Tx) error { _, err := q.Signal(tx, 0); return err },
		"vanished":  func(tx kv.Tx) error { _, err := q.Expire(tx, "w", &[10]byte{}, 9); return err },
		"call":      func(tx kv.Tx) error { return q.Keys.CallWorkerOf(tx, "run") },
		"call all":  func(tx kv.Tx) error { return q.Keys.CallAll(tx) },
		"in lot":    func(tx kv.Tx) error { _, err := q.Keys.InLot(tx, "lot", 9); return err },
		"counts":    func(tx kv.Tx) error { _, err := q.Counts(tx); return err },
		"incarnate": func(tx kv.Tx) error { _, err := q.Keys.Incarnate(tx); return err },
		"restore":   func(tx kv.Tx) error { return q.Keys.Reincarnate(tx) },
		"changes":   func(tx kv.Tx) error { _, _, _, err := q.Keys.ChangesSince(tx, Cursor{}, 9); return err },
		"subscribe": func(tx kv.Tx) error { _, _, err := q.Subscribe(tx, "run", In(Finished)); return err },
		"accept":    func(tx kv.Tx) error { _, err := q.Accept(tx, "w", Demand{Batch: 2, Max: 9}, nil); return err },
		"again":     func(tx kv.Tx) error { _, err := q.Accept(tx, "w", Demand{Batch: 1, Max: 9}, nil); return err },
		"update":    func(tx kv.Tx) error { return q.Update(tx, "run", lock, []byte("{}")) },
		"absolve":   func(tx kv.Tx) error { return q.Absolve(tx, "run", lock) },
		"finish":    func(tx kv.Tx) error { _, err := q.Finish(tx, "run", lock, nil); return err },
		"requeue":   func(tx kv.Tx) error { return q.Requeue(tx, "run", lock, Schedule{}, nil) },
		"fenced": func(tx kv.Tx) error {
			if err := q.Update(tx, "run", Lock{Worker: "w", Batch: 9}, nil); !errors.Is(err, ErrCanceled) {
				return err
			}
			return nil
		},
	} {
		err := damaged.Each(t.Context(), db.(*fakefdb.Database), op, func(d damaged.Row, err error) {
			key := check.Readable(root, d.Key)
			is := func(prefix string) bool { return strings.HasPrefix(key, "kind/"+prefix) }
			of := keysOnly[name]
			if err == nil && !slices.ContainsFunc(free[d.Behind], is) && (d.Behind || of == "" || !is(of)) {
				t.Errorf("%s goes on past a damaged %s (behind: %v)", name, key, d.Behind)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnreadLongJob: a page that is too short for the rows of one job says so where the others cannot be read.
func TestUnreadLongJob(t *testing.T) {
	db, q := newQueue(t)
	must(t, db, func(tx kv.Tx) (bool, error) { return true, q.AddFinished(tx, "long", make([]byte, 3*chunkSize)) })
	page := func(tx kv.Tx) error {
		list, err := q.List(tx, Page{Limit: 1})
		if err == nil && (len(list) != 1 || len(list[0].Data) != 3*chunkSize) {
			t.Errorf("the list is %v", list)
		}
		return err
	}
	if err := damaged.Unread(t.Context(), db.(*fakefdb.Database), page); err != nil {
		t.Error(err)
	}
}

// TestContradictingRowsAreTold: a job that a list names is moved only if its header says that it stands there. Each
// header of the store is put in the place of the right one, as by a store of which some rows were put back.
func TestContradictingRowsAreTold(t *testing.T) {
	db, root := newStore(t)
	q := New(KeysBelow(root, "kind"))
	register(t, db, q, "w")
	for batch, id := range []string{"run", "run later"} {
		must(t, db, func(tx kv.Tx) (bool, error) { return true, q.Add(tx, id, Schedule{}, nil) })
		must(t, db, accept(q, "w", uint64(batch+1), 1))
	}
	for id, s := range map[string]Schedule{
		"ready": {}, "wait": {Due: 5}, "wait longer": {Due: 9}, "parked": {Lot: "lot"},
		"parked for later": {Lot: "lot", Due: 5},
	} {
		must(t, db, func(tx kv.Tx) (bool, error) { return true, q.Add(tx, id, s, nil) })
	}
	must(t, db, func(tx kv.Tx) (bool, error) { return true, q.AddFinished(tx, "over", nil) })
	headers := must(t, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(q.Keys.Job.Range(), kv.RangeOptions{})
	})
	for id, op := range map[string]func(kv.Tx) error{
		"ready":     func(tx kv.Tx) error { _, err := q.Accept(tx, "w", Demand{Batch: 3, Max: 1}, nil); return err },
		"run later": func(tx kv.Tx) error { _, err := q.Accept(tx, "w", Demand{Batch: 2, Max: 1}, nil); return err },
		"wait":      func(tx kv.Tx) error { _, _, err := q.Promote(tx, 6, 9); return err },
		// The last one is recalled first.
		"wait longer": func(tx kv.Tx) error { _, err := q.Recall(tx, 1, 1); return err },
		"run":         func(tx kv.Tx) error { _, err := q.Expire(tx, "w", nil, 1); return err },
	} {
		key := q.Keys.Job.Pack(id)
		for _, other := range headers {
			if string(other.Key) == string(key) {
				continue
			}
			_, err := kv.Run(t.Context(), db, func(tx kv.Tx) (bool, error) {
				tx.Set(key, other.Value)
				return true, cmp.Or(op(tx), errors.New("nothing is wrong"))
			})
			if e, is := errors.AsType[*UnreadableError](err); !is || e.Job != id {
				t.Errorf("job %q with header %q: %v", id, other.Value, err)
			}
		}
	}
}

// TestUnreadableOfOne: an error is about the job that was told first, and about none if it is the store's.
func TestUnreadableOfOne(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("accept: %w", OfJob("a", corruptf("x"))): "a", corruptf("x"): "b", kv.ErrUnreadable: "b",
		ErrLeaseLost: "", nil: "",
	} {
		e, is := errors.AsType[*UnreadableError](OfJob("b", err))
		if is != (want != "") || is && e.Job != want || !errors.Is(OfJob("b", err), err) {
			t.Errorf("%v is told as %v", err, OfJob("b", err))
		}
	}
}

// TestLostPart: a job that has lost a part of its data, but for the last one, is read neither by itself nor in a list.
func TestLostPart(t *testing.T) {
	db, root := newStore(t)
	q := New(KeysBelow(root, "kind"))
	must(t, db, func(tx kv.Tx) (bool, error) {
		return true, q.Add(tx, "a", Schedule{}, make([]byte, 2*chunkSize+1))
	})
	for part := range int64(2) {
		tx := db.Begin(t.Context(), kv.Options{})
		tx.Clear(q.Keys.Job.Pack("a", part))
		_, alone := q.Get(tx, "a")
		_, listed := q.List(tx, Page{Limit: 9})
		if !errors.Is(alone, ErrCorrupt) || !errors.Is(listed, ErrCorrupt) {
			t.Errorf("without part %d: alone %v, in a list %v", part, alone, listed)
		}
		tx.Cancel()
	}
}

// TestDamagedStopMark: a worker is told of a row of its jobs that does not say whether it is to stop the run.
func TestDamagedStopMark(t *testing.T) {
	db, root := newStore(t)
	q := New(KeysBelow(root, "kind"))
	register(t, db, q, "w")
	must(t, db, func(tx kv.Tx) (bool, error) { return true, q.Add(tx, "run", Schedule{}, nil) })
	must(t, db, accept(q, "w", 1, 1))
	must(t, db, func(tx kv.Tx) (bool, error) { return q.Stop(tx, "run") })
	row := q.Keys.Owned.Pack("w", 1, "run")
	must(t, db, func(tx kv.Tx) (bool, error) { tx.Set(row, []byte{0xff}); return true, nil })
	got, err := kv.Run(t.Context(), db, func(tx kv.Tx) ([]Held, error) { return q.Owned(tx, "w") })
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("the worker has %v, %v", got, err)
	}
}
