package follow_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/check"
	"couchrelay/core/follow"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/fakefdb/damaged"
)

// TestDamagedRowsAreTold: whichever row that a transaction of a worker reads has a value that nothing can be made of,
// or stands before one whose key cannot be read, the transaction fails. It does not go on without the row, nor as if
// it were not there. Values that mean something whatever bytes they have are left out: counters, ids, and leases.
func TestDamagedRowsAreTold(t *testing.T) {
	w := newWorld(t)
	counters := fmt.Sprintf("docs/1/%s/", hex.EncodeToString([]byte{w.made, 15: 0}))
	free := []string{
		"claim/", "count/", "jobs/follow/ready/", "jobs/follow/worker/", "jobs/follow/beat/",
		counters + "1", counters + "2",
	}
	tried := map[string]int{}
	w.asked = func(q follow.Request) {
		name := fmt.Sprintf("%T", q)
		if tried[name]++; tried[name] > 9 {
			return
		}
		op := func(tx kv.Tx) error { _, err := follow.Perform(tx, w.store, q, w.now); return err }
		err := damaged.Each(t.Context(), w.db.(*fakefdb.Database), op, func(row damaged.Row, err error) {
			key := check.Readable(tuple.Subspace(tuple.Pack("r")), row.Key)
			is := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			if err == nil && (row.Behind || !slices.ContainsFunc(free, is)) {
				t.Errorf("%s goes on past a damaged %s (behind: %v)", name, key, row.Behind)
			}
		}, w.relay.Keys.Reindex)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.write("d", one)
	w.write("e", other)
	w.write("bad", `{"source":"http://a/x"}`)
	a := w.start()
	w.settle(10 * time.Second)
	w.complete("d")
	w.settle(10 * time.Second)
	w.write("d", one)
	w.write("e", "")
	w.settle(10 * time.Second)
	w.complete("d")
	w.fault = func(peer.Op) fault { return refused } // so the state is still due when another worker begins
	w.settle(10 * time.Second)
	w.kill(a)
	w.fault = nil
	b := w.start()
	w.settle(2 * time.Minute)
	w.couch = newCouch("2")
	w.write("d", one)
	b.cut()
	w.settle(2 * time.Minute)
	b.tell(follow.Drain{})
	w.settle(time.Second)
	if len(tried) < 12 {
		t.Errorf("there were only %v", tried)
	}
}

// TestFailedReadsAreTold: whichever read fails of what follows a configuration, or tells of it, it ends with that, and
// whichever row that it reads is damaged, it does not go on as if it were not there.
func TestFailedReadsAreTold(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	d, moved, trusted := w.list[0], w.list[0], w.list[0]
	moved.URL, trusted.Trusted = "http://t/reps/", true
	more := follow.Database{Section: "couch", Name: "more", URL: "http://s/more/"}
	ops := map[string]func(kv.Tx) error{
		"list": func(tx kv.Tx) error { _, err := follow.List(tx, w.store); return err },
		"arm": func(tx kv.Tx) error {
			_, err := follow.Arm(tx, w.store, follow.Await{Job: mirror})
			return err
		},
	}
	for name, list := range map[string][]follow.Database{
		"as it is": {d}, "one more": {d, more}, "moved": {moved}, "trusted": {trusted}, "none": nil,
	} {
		ops[name] = func(tx kv.Tx) error {
			_, _, err := follow.Follow(tx, w.store, list, []tuple.UUID{{98}, {99}}, w.now)
			return err
		}
	}
	for name, op := range ops {
		if err := damaged.Unread(t.Context(), w.db.(*fakefdb.Database), op, w.relay.Keys.Reindex); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err := damaged.Each(t.Context(), w.db.(*fakefdb.Database), op, func(row damaged.Row, err error) {
			needed := name != "arm" && name != "none" // any value is a counter, and what goes is not read
			if key := check.Readable(tuple.Subspace(tuple.Pack("r")), row.Key); err == nil && needed {
				t.Errorf("%s goes on past a damaged %s (behind: %v)", name, key, row.Behind)
			}
		}, w.relay.Keys.Reindex)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckNamesTheRow: of a job whose description cannot be read, a check of the store names the row that has it.
func TestCheckNamesTheRow(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	root := tuple.Subspace(tuple.Pack("r"))
	row := w.store.Keys.Jobs.Job.Pack(mirror, int64(0))
	w.do(func(tx kv.Tx) error { tx.Set(row, []byte("{")); return nil })
	c := check.New(check.Options{Root: root, Sections: follow.Sections(root)})
	for done := false; !done; {
		var found []check.Finding
		var err error
		if found, done, err = c.Step(w.db.(*fakefdb.Database).Present()); err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if strings.Contains(f.What, "cannot be read") && f.Key == check.Readable(root, row) {
				return
			}
		}
	}
	t.Error("nothing was found there")
}
