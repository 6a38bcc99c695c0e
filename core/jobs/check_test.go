package jobs

import (
	"context"
	"strings"
	"testing"
	"time"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestCheckOfOddRows: a check tells of rows that are none of a queue, or contradict themselves, and goes on.
func TestCheckOfOddRows(t *testing.T) {
	for want, odd := range map[string]func(q *Queue, tx kv.Tx) error{
		"": func(q *Queue, tx kv.Tx) error { return nil },
		"the key is none of a job": func(q *Queue, tx kv.Tx) error {
			tx.Set(q.Keys.Job.Pack(5), []byte("x"))
			return nil
		},
		`the header contradicts itself: the job is pending, with lock "w"`: func(q *Queue, tx kv.Tx) error {
			j, err := q.Get(tx, "b")
			if err == nil {
				j.Lock = Lock{"w", 1}
				tx.Set(q.Keys.Job.Pack("b"), encodeHeader(j))
				tx.Add(q.counter(j), -1) // it counts as none
			}
			return err
		},
		"the row counts jobs of no list": func(q *Queue, tx kv.Tx) error {
			tx.Add(q.Keys.Count.Pack("ready", counterShards), 1) // which is among all counters of ready jobs
			return nil
		},
		"the row names no worker": func(q *Queue, tx kv.Tx) error {
			tx.Set(q.Keys.Worker.Pack(5), []byte{leaseExpired})
			return nil
		},
		"the lease is neither live nor expired": func(q *Queue, tx kv.Tx) error {
			tx.Set(q.Keys.Worker.Pack("w"), []byte{leaseLive, 1, 2})
			return nil
		},
		"the lease has no heartbeat": func(q *Queue, tx kv.Tx) error {
			tx.Clear(q.Keys.Beat.Pack("w"))
			return nil
		},
		"the row names no job": func(q *Queue, tx kv.Tx) error {
			tx.Set(q.Keys.Changed.Pack(99), nil) // behind all incarnations, but of none
			return nil
		},
	} {
		db, root := newStore(t)
		q := New(KeysBelow(root, "kind"))
		q.Incarnation = must(t, db, func(tx kv.Tx) (int64, error) { return q.Keys.Incarnate(tx) })
		register(t, db, q, "w") // without a timeout, as earlier releases did
		q.Timeout = 30 * time.Second
		register(t, db, q, "other")
		add(t, db, q, "a", "b")
		must(t, db, func(tx kv.Tx) (none struct{}, err error) { return none, odd(q, tx) })
		all := checked(t, db, root, q)
		var found []string
		for _, f := range all {
			found = append(found, f.What)
		}
		if all := strings.Join(found, "; "); all != want {
			t.Errorf("found %q, want %q", all, want)
		}
		for _, f := range all {
			if f.Mends() {
				must(t, db, func(tx kv.Tx) (bool, error) {
					repairs, err := check.Repairs(tx, root)
					if err != nil {
						return false, err
					}
					return check.Mended(tx, &f, repairs)
				})
				if left := checked(t, db, root, q); len(left) > 0 {
					t.Errorf("after the repair of %q it finds %v", f.What, left[0].What)
				}
			}
		}
	}
}

// TestCheckOfWholeCounters: earlier releases count the jobs of a list in one row, later ones in several. Where the one
// row is left, a check compares the sum of all.
func TestCheckOfWholeCounters(t *testing.T) {
	for n, want := range map[byte]string{2: "", 3: "3 ready jobs are counted, and there are 2"} {
		db, root := newStore(t)
		q := New(KeysBelow(root, "kind"))
		add(t, db, q, "a", "b")
		must(t, db, func(tx kv.Tx) (none struct{}, err error) {
			tx.ClearRange(q.Keys.Count.Range())
			tx.Set(q.Keys.Count.Pack("ready"), []byte{n, 0, 0, 0, 0, 0, 0, 0})
			return none, nil
		})
		found := ""
		for _, f := range checked(t, db, root, q) {
			found += f.What
		}
		if found != want {
			t.Errorf("of a row with %d it finds %q, want %q", n, found, want)
		}
	}
}

// checked is what a check of a queue finds.
func checked(t *testing.T, db kv.Database, root tuple.Subspace, q *Queue) (all []check.Finding) {
	t.Helper()
	c := check.New(check.Options{Root: root, AtOnce: true, Sections: Sections(q.Keys, nil)})
	for done := false; !done; {
		some, err := kv.Run(context.Background(), db, func(tx kv.Tx) (some []check.Finding, err error) {
			some, done, err = c.Step(tx.Snapshot())
			return some, err
		})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}
