package jobstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

var errRead = errors.New("this read fails")

// failing lets some reads pass, and fails those after them.
type failing struct {
	kv.Tx
	reads failingReads
}

func (f failing) Get(key []byte) ([]byte, error)            { return f.reads.Get(key) }
func (f failing) GetAll(keys [][]byte) ([][]byte, error)    { return f.reads.GetAll(keys) }
func (f failing) Snapshot() kv.Reader                       { return failingReads{f.Tx.Snapshot(), f.reads.left} }
func (f failing) Prefetch(keys [][]byte, ranges []kv.Range) { f.reads.Prefetch(keys, ranges) }
func (f failing) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return f.reads.GetRange(r, o)
}

type failingReads struct {
	kv.Reader
	left *int
}

func (f failingReads) fails() bool { *f.left--; return *f.left < 0 }

func (f failingReads) Get(key []byte) ([]byte, error) {
	if f.fails() {
		return nil, errRead
	}
	return f.Reader.Get(key)
}

func (f failingReads) GetAll(keys [][]byte) ([][]byte, error) {
	if f.fails() {
		return nil, errRead
	}
	return f.Reader.GetAll(keys)
}

func (f failingReads) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if f.fails() {
		return nil, errRead
	}
	return f.Reader.GetRange(r, o)
}

// unread tries an operation once for each of its reads, which fails then and all after it, and at last as it is. The
// operation may pass over the error, with which the commit fails then, but it has no other.
func (b *bench) unread(name string, op func(kv.Tx) error) {
	b.t.Helper()
	for reads, left := 0, -1; left < 0; reads++ {
		left = reads
		err := kv.Do(context.Background(), b.db, func(tx kv.Tx) error {
			if err := op(failing{tx, failingReads{tx, &left}}); err != nil || left >= 0 {
				return err
			}
			return errRead
		})
		if left < 0 && !errors.Is(err, errRead) || left >= 0 && err != nil {
			b.t.Fatalf("%s with %d reads that do not fail: %v", name, reads, err)
		}
	}
}

// TestFailedReadsAreTold: whichever read of an operation fails, the operation goes on to no panic, and does not tell
// that something is missing or corrupt which it could not read.
func TestFailedReadsAreTold(t *testing.T) {
	for _, policy := range []schedule.Policy{schedule.FairShare, schedule.FIFO, schedule.Tags} {
		b, _ := validating(t)
		b.share(func(c *Sharing) { c.Policy = policy })
		b.readsFail()
	}
}

// readsFail goes through the lives of two jobs.
func (b *bench) readsFail() {
	b.put("_design/a", `{"validate_doc_update":"red"}`, admin)
	write := func(id, body string) {
		token++
		b.unread("write "+body, func(tx kv.Tx) error {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return err
			}
			doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
			if err != nil {
				return err
			}
			doc.ID = id
			old, err := db.Read(id, docs.Want{Deleted: true})
			if refusal := (*docs.Error)(nil); err != nil && !errors.As(err, &refusal) {
				return err
			} else if err == nil && doc.Rev == (revtree.Rev{}) {
				doc.Rev = old.Rev
			}
			_, err = b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: token}}, admin, b.now)
			return err
		})
	}
	write("r", simple)
	write("s", simple)
	var work []Work
	accept := func() Work {
		b.batch++
		b.unread("accept", func(tx kv.Tx) error {
			taken, err := b.s.Accept(tx, "w", "n", jobs.Demand{Batch: b.batch, Max: 1}, b.now)
			work = taken.Work
			return err
		})
		return work[0]
	}
	owned := func(name string, w Work, f func(Owned) error) {
		b.unread(name, func(tx kv.Tx) error { return f(b.s.Owned(tx, w.JobID, w.Lock, b.now)) })
	}
	promote := func() {
		b.now = b.now.Add(time.Hour)
		b.unread("promote", func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err })
	}
	order := func(name string, f func(Operator) (bool, error)) {
		b.unread(name, func(tx kv.Tx) error { _, err := f(b.by(tx)); return err })
	}
	finding := []replication.Finding{{Refusal: peer.Refusal{ID: "d", Rev: "1-x", Status: 403}}}
	w := accept()
	owned("claim", w, func(h Owned) error { return h.Claim("rep", "rep") })
	owned("progress", w, func(h Owned) error { return h.Progress(Stats{DocsRead: 1}) })
	owned("store refused", w, func(h Owned) error { return h.StoreRefused("1", finding) })
	owned("read refused", w, func(h Owned) error { _, err := h.Refused("", "", 5); return err })
	turn := func() Turn { return Turn{Place: w.Place, Owed: time.Minute} }
	owned("crash", w, func(h Owned) error { return h.Crash(crash.Trouble, nil, turn(), 1) })
	promote()
	order("retry", func(o Operator) (bool, error) { return o.Retry(w.JobID, "") })
	order("pause", func(o Operator) (bool, error) { return o.Pause(w.JobID, "") })
	order("resume", func(o Operator) (bool, error) { return o.Resume(w.JobID, "") })
	order("hold", func(o Operator) (bool, error) { return o.MakeHold(Hold{Server: "h"}) })
	order("lift", func(o Operator) (bool, error) { return o.LiftHold("server:h") })
	promote()
	for n, end := range []func(Owned) error{
		func(h Owned) error { return h.Requeue(nil, turn()) },
		func(h Owned) error { return h.Crash(crash.Trouble, &Stats{}, turn(), 1) },
		func(h Owned) error { return h.Fail(crash.Trouble, turn()) },
		func(h Owned) error { return h.Complete(replication.End{}, turn()) },
	} {
		w = accept()
		owned(fmt.Sprint("end ", n), w, end)
		promote()
	}
	write("r", `{"_deleted":true}`)
	b.unread("drop", func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{1}); return nil })
	b.unread("sweep", func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, 10); return err })
}

// TestFailedReadsOfLists: a list and a count of which a read fails tell that, since no commit would.
func TestFailedReadsOfLists(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	b.accept()
	b.put("s", simple, admin)
	b.do1(func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{9}); return nil })
	for _, f := range []Filter{
		{}, {Documents: true}, {States: []State{Pending}}, {Server: "h", Instance: DocumentJobs(tuple.UUID{1})},
		{Workers: []string{"w"}},
	} {
		for name, read := range map[string]func(Lists) error{
			"list":    func(l Lists) error { _, err := l.Page(Listing{Filter: f, Limit: 5}); return err },
			"count":   func(l Lists) error { _, _, err := l.Total(f); return err },
			"servers": func(l Lists) error { _, _, err := l.Servers("", 5); return err },
		} {
			for reads, left := 0, -1; left < 0; reads++ {
				left = reads
				err := read(Lists{Store: b.s, Reader: failingReads{b.db.Present(), &left}})
				if left < 0 && !errors.Is(err, errRead) || left >= 0 && err != nil {
					t.Errorf("%s of %+v with %d reads that do not fail: %v", name, f, reads, err)
				}
			}
		}
	}
}
