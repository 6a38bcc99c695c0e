package jobstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb/damaged"
)

// unread has each read of an operation fail, and then carries it out. The row that says how far jobs are indexed may be
// passed over: its error is the commit's.
func (b *bench) unread(name string, op func(kv.Tx) error) {
	b.t.Helper()
	if err := damaged.Unread(b.t.Context(), b.db, op, b.s.Keys.Reindex); err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	b.do1(op)
}

// TestFailedReadsAreTold: whichever read of an operation fails, the operation ends with that, goes on to no panic, and
// does not tell that something is missing or corrupt which it could not read.
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
	other := accept()
	owned("claim of another's", other, func(h Owned) error {
		if err := h.Claim("rep", "rep"); !errors.As(err, new(*Duplicate)) {
			return err
		}
		return nil
	})
	owned("stand by", other, func(h Owned) error { return h.StandBy("rep", "rep", Turn{Place: other.Place}) })
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
	body := []byte(simple[:len(simple)-1] + `,"owner":"joe"}`)
	for name, edit := range map[string]docs.Edit{
		"write of a user": {Document: docs.Document{ID: "joe", Body: body}},
		"branch of a user": {Replicated: true, Document: docs.Document{
			ID: "s", Rev: revtree.Rev{Gen: 9, ID: strings.Repeat("a", 32)}, Body: body,
		}},
	} {
		b.unread(name, func(tx kv.Tx) error {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err == nil {
				_, err = b.s.WriteDocs(tx, db, []docs.Edit{edit}, Writer{Name: "joe"}, b.now)
			}
			return err
		})
	}
	for range 2 {
		b.unread("init", func(tx kv.Tx) error {
			_, _, err := Init(tx, tuple.Subspace(tuple.Pack("fresh")), "u")
			return err
		})
	}
	b.unread("incarnate", func(tx kv.Tx) error { _, err := Incarnate(tx, b.s.Keys); return err })
	b.unread("identity", func(tx kv.Tx) error { _, _, err := Identity(tx, b.s.Keys); return err })
	b.unread("owner", func(tx kv.Tx) error { _, err := OwnerOfJob(b.s, tx, b.record(jobID("r"))); return err })
	write("r", `{"source":"http://h/a","target":"http://h/b","_replication_state":"completed"}`)
	write("r", `{"source":"http://h/a","target":"http://h/c","_replication_state":"completed"}`)
	b.readsOfDuplicatesFail(write, promote)
	write("r", `{"_deleted":true}`)
	b.unread("drop", func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{1}); return nil })
	b.unread("sweep", func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, 10); return err })
}

// readsOfDuplicatesFail has jobs wait for others, and requests join them.
func (b *bench) readsOfDuplicatesFail(write func(id, body string), promote func()) {
	const twin = `{"source":"http://h/twin","target":"http://h/b"}`
	b.s.Config.DuplicatesWait = true
	write("t", twin)
	write("u", twin)
	write("v", twin)
	if err := damaged.Unread(b.t.Context(), b.db, func(tx kv.Tx) error { return b.s.Audit(tx) }); err != nil {
		b.t.Errorf("audit: %v", err)
	}
	write("t", `{"_deleted":true}`)
	repID := b.record(jobID("u")).RepID
	for _, taken := range []bool{true, false} { // whether another job got the replication before those that wait
		b.do1(func(tx kv.Tx) error {
			if !taken {
				tx.Clear(b.s.Keys.Claim.Pack(repID))
			}
			tx.Set(b.s.Keys.Lifted.Pack(lotBehind+repID), nil)
			return nil
		})
		promote()
	}
	request := func(user string) {
		b.unread("request", func(tx kv.Tx) error {
			rep, err := spec.ParseRequest([]byte(`{"source":"http://h/x","target":"http://h/y"}`), b.s.Config.Parse)
			if err == nil {
				_, err = b.s.Replicate(tx, rep, user, b.now)
			}
			return err
		})
	}
	request("ann")
	request("ann")
	b.batch++
	taken := get(b, func(tx kv.Tx) (Taken, error) {
		return b.s.Accept(tx, "w", "n", jobs.Demand{Batch: b.batch, Max: 9}, b.now)
	})
	i := slices.IndexFunc(taken.Work, func(w Work) bool { return w.Record.Transient() })
	b.end(taken.Work[i], func(h Owned) error { return h.Fail(crash.Trouble, Turn{}) })
	b.unread("retry", func(tx kv.Tx) error { _, err := b.by(tx).Retry(taken.Work[i].JobID, ""); return err })
	b.unread("sweep", func(tx kv.Tx) error { _, err := b.s.Sweep(tx, b.now.Add(-2*time.Hour), 9, 9); return err })
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
			b.unread(fmt.Sprintf("%s of %+v", name, f), func(tx kv.Tx) error {
				return read(Lists{Store: b.s, Reader: tx.Snapshot()})
			})
		}
	}
}
