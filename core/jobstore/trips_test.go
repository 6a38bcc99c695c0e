package jobstore

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
	"couchrelay/sim/fakefdb"
)

// travelling is a reader that counts round trips: reads of what the transaction has not read, named or written before;
// and the rows of ranges that it reads, and the keys that it reads by themselves.
type travelling struct {
	kv.Reader
	near              []kv.Range
	trips, rows, keys int
}

func (r *travelling) trip(keys [][]byte, ranges ...kv.Range) {
	for _, key := range keys {
		ranges = append(ranges, kv.KeyRange(key))
	}
	far := false
	for _, at := range ranges {
		within := func(n kv.Range) bool {
			return bytes.Compare(n.Begin, at.Begin) <= 0 && bytes.Compare(at.End, n.End) <= 0
		}
		if !slices.ContainsFunc(r.near, within) {
			far, r.near = true, append(r.near, at)
		}
	}
	if far {
		r.trips++
	}
}

func (r *travelling) Get(key []byte) ([]byte, error) {
	r.trip([][]byte{key})
	return r.Reader.Get(key)
}

func (r *travelling) GetAll(keys [][]byte) ([][]byte, error) {
	r.trip(keys)
	r.keys += len(keys)
	return r.Reader.GetAll(keys)
}

func (r *travelling) GetRange(at kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	r.trip(nil, at)
	list, err := r.Reader.GetRange(at, o)
	r.rows += len(list)
	return list, err
}

func (r *travelling) Prefetch(keys [][]byte, ranges []kv.Range) {
	r.trip(keys, slices.Clone(ranges)...)
}

// TestRoundTripsOfCheck: a check in pages takes a few round trips for each page, not some for each row, and reads few
// rows more than once.
func TestRoundTripsOfCheck(t *testing.T) {
	b := newFullBench(t)
	for i := range 60 {
		b.put(fmt.Sprint("many", i), fmt.Sprintf(`{"source":"http://h/a","target":"http://t/b%d"}`, i), admin)
	}
	rows := get(b, func(tx kv.Tx) (int, error) {
		all, err := tx.GetRange(kv.PrefixRange(tuple.Pack("test")), kv.RangeOptions{})
		return len(all), err
	})
	r := &travelling{Reader: b.db.Present()}
	if found := b.check(false, r); len(found) > 0 || r.trips > rows/10 || r.rows > rows+rows/10 {
		t.Errorf("%d rows take %d round trips, and are read as %d; found %v", rows, r.trips, r.rows, found)
	}
}

// travellingTx is a transaction that counts the round trips of its reads.
type travellingTx struct {
	kv.Tx
	reads *travelling
}

func (t travellingTx) Get(key []byte) ([]byte, error)            { return t.reads.Get(key) }
func (t travellingTx) GetAll(keys [][]byte) ([][]byte, error)    { return t.reads.GetAll(keys) }
func (t travellingTx) Snapshot() kv.Reader                       { return t.reads }
func (t travellingTx) Prefetch(keys [][]byte, ranges []kv.Range) { t.reads.Prefetch(keys, ranges) }
func (t travellingTx) Set(key, value []byte) {
	t.reads.near = append(t.reads.near, kv.KeyRange(key))
	t.Tx.Set(key, value)
}

func (t travellingTx) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return t.reads.GetRange(r, o)
}

// sameTrips demands that a transaction about 20 jobs or documents takes no more round trips than one about 2. prepared
// makes a store with n of them.
func sameTrips(t *testing.T, prepared func(n int) (b *bench, transaction func(kv.Tx) error)) {
	t.Helper()
	of := func(n int) (trips int) {
		b, transaction := prepared(n)
		b.do1(func(tx kv.Tx) error {
			err := transaction(tx)
			trips = fakefdb.TripsOf(tx)
			return err
		})
		return trips
	}
	if few, many := of(2), of(20); many > few {
		t.Errorf("20 take %d round trips, and 2 take %d", many, few)
	}
}

// TestRoundTripsOfWrite: a write of many documents takes as many round trips as one of few, also where each of them
// has another replication than its job has claimed.
func TestRoundTripsOfWrite(t *testing.T) {
	body := `{"source":"http://h/%d","target":"http://t/%s"}`
	sameTrips(t, func(n int) (*bench, func(kv.Tx) error) {
		b := newBench(t)
		for i := range n {
			b.put(fmt.Sprint("r", i), fmt.Sprintf(body, i, "before"), admin)
			if err := b.claim(b.accept(), fmt.Sprint("claimed", i)); err != nil {
				t.Fatal(err)
			}
		}
		edits := make([]docs.Edit, n)
		for i := range edits {
			id := fmt.Sprint("r", i)
			rev := get(b, func(tx kv.Tx) (revtree.Rev, error) {
				db, err := b.s.Docs.Open(tx, "_replicator")
				if err != nil {
					return revtree.Rev{}, err
				}
				old, err := db.Read(id, docs.Want{})
				return old.Rev, err
			})
			edits[i] = docs.Edit{Token: uint64(i + 1),
				Document: docs.Document{ID: id, Rev: rev, Body: fmt.Appendf(nil, body, i, "after")}}
		}
		return b, func(tx kv.Tx) error {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return err
			}
			written, err := b.s.WriteDocs(tx, db, edits, admin, b.now)
			for i := range written {
				if !written[i].Changed {
					t.Errorf("not written: %+v", written[i])
				}
			}
			return err
		}
	})
}

// TestRoundTripsOfPromote: many jobs whose waits are over take as many round trips as one.
func TestRoundTripsOfPromote(t *testing.T) {
	sameTrips(t, func(n int) (*bench, func(kv.Tx) error) {
		b := newBench(t)
		for i := range n {
			b.put(fmt.Sprint("r", i), fmt.Sprintf(`{"source":"http://h/%d","target":"http://t/b"}`, i), admin)
			b.crash(b.accept())
		}
		return b, func(tx kv.Tx) error {
			moved, _, err := b.s.Promote(tx, b.now.Add(24*time.Hour), n+1)
			if moved != n {
				t.Errorf("%d of %d are ready", moved, n)
			}
			return err
		}
	})
}

// mostTrips are the round trips of operations, one number for each of tripPolicies unless all take as many.
var mostTrips = map[string][]int{
	"accept": {4}, "cancel": {9}, "charge": {1}, "claim": {6}, "complete": {7, 7, 10}, "count": {10},
	"crash": {1, 1, 4}, "delete": {9}, "demands": {2}, "discard": {2}, "dropped": {13}, "edit": {8, 8, 9},
	"end round": {2}, "errors": {5}, "fail": {7, 7, 10}, "find": {3}, "hold": {1}, "holds": {1}, "lift a hold": {1},
	"list": {11}, "list of a host": {6}, "list of a user": {4}, "list of a worker": {4},
	"list without an index": {2}, "list of a host without an index": {2}, "list of a user without an index": {2},
	"list of a worker without an index": {3}, "make a hold": {3},
	"pause": {2}, "pause of a run": {1}, "progress": {1}, "promote": {3}, "ready": {2}, "refusals": {1},
	"refused": {3}, "reindex": {1}, "replicate": {6, 5, 7}, "requeue": {1, 1, 4}, "reset": {1}, "resume": {3},
	"retries": {1}, "retry": {2}, "retry of failed": {7, 7, 8}, "servers": {5}, "share": {2}, "shared": {2},
	"stand by": {5, 5, 8}, "store refused": {2}, "sweep": {12, 13, 12}, "total": {4}, "tune": {1}, "uses": {5, 3, 3},
	"work": {3},
}

var tripPolicies = []schedule.Policy{schedule.FairShare, schedule.FIFO, schedule.Tags}

// TestRoundTrips: no operation takes more round trips than mostTrips says. Its caller waits for each of them, and the
// longer a transaction takes the sooner it conflicts.
func TestRoundTrips(t *testing.T) {
	for i, policy := range tripPolicies {
		b := newFullBench(t)
		b.share(func(c *Sharing) { c.Policy = policy })
		for name, op := range b.operations() {
			r := &travelling{}
			tx := b.db.Begin(t.Context(), kv.Options{})
			r.Reader = tx
			most := mostTrips[name]
			if err := op(travellingTx{tx, r}); err != nil || len(most) == 0 || r.trips > most[min(i, len(most)-1)] {
				t.Errorf("%s under %s: %d round trips, %v", name, policy, r.trips, err)
			}
			tx.Cancel()
		}
	}
}

// TestRoundTripsOfSweep: many requests that are over for long are removed in as many round trips as one.
func TestRoundTripsOfSweep(t *testing.T) {
	sameTrips(t, func(n int) (*bench, func(kv.Tx) error) {
		b := newBench(t)
		for i := range n {
			b.replicate(fmt.Sprint("user", i))
			w := b.accept()
			if err := b.claim(w, fmt.Sprint("claimed", i)); err != nil {
				t.Fatal(err)
			}
			b.complete(w)
		}
		return b, func(tx kv.Tx) error {
			done, err := b.s.Sweep(tx, b.now.Add(b.s.Config.TransientMaxAge), n+1, 1)
			if !done {
				t.Error("there is more to sweep")
			}
			return err
		}
	})
}

// TestRoundTripsOfRepeatedAccept: an accept that turns out to have committed reads all of its jobs in as many round
// trips as one.
func TestRoundTripsOfRepeatedAccept(t *testing.T) {
	sameTrips(t, func(n int) (*bench, func(kv.Tx) error) {
		b := newBench(t)
		for i := range n {
			b.replicate(fmt.Sprint("user", i))
		}
		accept := func(tx kv.Tx) error {
			taken, err := b.s.Accept(tx, "w", "n1", jobs.Demand{Batch: 7, Max: n}, b.now)
			if len(taken.Work) != n {
				t.Errorf("%d of %d jobs are taken", len(taken.Work), n)
			}
			return err
		}
		b.do1(accept)
		return b, accept
	})
}

// TestRoundTripsOfNew: nor does a document that is new, and alone.
func TestRoundTripsOfNew(t *testing.T) {
	b := newFullBench(t)
	r := &travelling{}
	tx := b.db.Begin(t.Context(), kv.Options{})
	defer tx.Cancel()
	r.Reader = tx
	db, err := b.s.Docs.Open(travellingTx{tx, r}, "_replicator")
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"source":"http://new/a","target":"http://new/b"}`)
	edit := docs.Edit{Token: 1, Document: docs.Document{ID: "new", Body: body}}
	written, err := b.s.WriteDocs(travellingTx{tx, r}, db, []docs.Edit{edit}, admin, b.now)
	if err != nil || !written[0].Changed || r.trips > 4 {
		t.Errorf("%d round trips, %+v, %v", r.trips, written, err)
	}
}
