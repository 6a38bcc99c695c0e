package jobstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

func TestTransient(t *testing.T) {
	b := newBench(t)
	id := b.replicate("joe")
	if user := b.record(id).User; user != "joe" {
		t.Errorf("the job is of %q", user)
	}
	if again := b.replicate("joe"); again != id || len(b.record(id).History) != 1 {
		t.Error("the same request made another job")
	}
	other := b.replicate("eve")
	if other == id {
		t.Error("eve got joe's job")
	}
	b.do(func(tx kv.Tx) error { return b.s.Cancel(tx, other) })
	w := b.accept()
	b.claim(w, "rep")
	found, rec, err := "", (*Record)(nil), error(nil)
	b.do1(func(tx kv.Tx) error { found, rec, err = b.s.Find(tx, "rep"); return err })
	if found != id || rec.User != "joe" {
		t.Errorf("found %q %+v", found, rec)
	}
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(crash.Trouble, nil, Turn{}, 1)
	})
	b.wantState(id, Failed) // a request is not tried again
	if rec := b.record(id); rec.Error != crash.Trouble.Error || rec.Reason != crash.Trouble.Reason {
		t.Errorf("it failed for %q: %q", rec.Error, rec.Reason)
	}
	expire := func() (n int) {
		b.do1(func(tx kv.Tx) (err error) { n, err = b.s.expireTransient(tx, b.now, 10); return err })
		return n
	}
	b.now = b.now.Add(b.s.Config.TransientMaxAge - 1_000_000)
	if expire() != 0 {
		t.Error("forgotten too early")
	}
	b.now = b.now.Add(1_000_000)
	if expire() != 1 {
		t.Error("not forgotten")
	}
	b.wantState(id, "absent")
	if len(b.db.Pairs()) != len(newBench(t).db.Pairs())+countersOf(b) {
		t.Errorf("something is left behind:\n%s", b.db.Dump())
	}
}

// countersOf is how many counters of the queue came into being.
func countersOf(b *bench) (n int) {
	for _, p := range b.db.Pairs() {
		key := string(p.Key)
		if strings.Contains(key, "count") || strings.Contains(key, "signal") || strings.Contains(key, "tally") {
			n++
		}
	}
	return n
}

// TestExpiryOfAnother: a row that says when a request expires, and is not what its job says, goes alone. Only a damaged
// store has one.
func TestExpiryOfAnother(t *testing.T) {
	b := newBench(t)
	id := b.replicate("joe")
	row := b.s.Keys.Expire.Pack(int64(b.now)-1, id)
	b.do1(func(tx kv.Tx) error { tx.Set(row, nil); return nil })
	b.do1(func(tx kv.Tx) error { _, err := b.s.expireTransient(tx, b.now, 10); return err })
	b.wantState(id, Pending)
	if left := get(b, func(tx kv.Tx) ([]byte, error) { return tx.Get(row) }); left != nil {
		t.Error("the row stays")
	}
}

func TestThrottledTransientGoesOn(t *testing.T) {
	b := newBench(t)
	id := b.replicate("joe")
	w := b.accept()
	throttled := crash
	throttled.Trouble.Throttled = true
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(throttled.Trouble, nil, Turn{}, 1)
	})
	b.wantState(id, Crashing)
}

func TestDeletedDatabase(t *testing.T) {
	b := newBench(t)
	for i := range 5 {
		b.put(fmt.Sprint("r", i), fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b"}`, i), admin)
	}
	b.do(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	for n := 0; ; n++ {
		done := get(b, func(tx kv.Tx) (bool, error) { return b.s.SweepDropped(tx, 2) })
		if done {
			break
		}
		if n > 10 {
			t.Fatal("does not end")
		}
	}
	if counts := get(b, func(tx kv.Tx) (jobs.Counts, error) { return b.s.Jobs.Counts(tx) }); counts != (jobs.Counts{}) {
		t.Errorf("left: %+v", counts)
	}
	tallies := get(b, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(b.s.Keys.Tally.Sub(DocumentJobs(tuple.UUID{1})).Range(), kv.RangeOptions{})
	})
	if len(tallies) > 0 {
		t.Errorf("%d tallies of the database are left", len(tallies))
	}
}

// TestDroppedJobs: jobs of a deleted database are not shown from the deletion on, and those that run are the
// first to be removed. Other jobs stay.
func TestDroppedJobs(t *testing.T) {
	b := newBench(t)
	const documents = dropPage + 10
	for i := range documents {
		b.put(fmt.Sprintf("r%03d", i), fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b"}`, i), admin)
	}
	part := jobs.Part(1<<32 - 1) // without the first job by its id
	if part.Has(jobID("r000")) {
		part = ^part
	}
	work := get(b, func(tx kv.Tx) ([]Work, error) {
		d := jobs.Demand{Batch: 1, Max: 1, Window: documents, Part: part}
		taken, err := b.s.Accept(tx, "w", "node1", d, b.now)
		work := taken.Work
		return work, err
	})
	running := work[0].JobID
	request := b.replicate("joe")
	listed := func(limit int) []string { return b.pages(Listing{Limit: limit}) }
	if n := len(listed(1000)); n != documents+1 {
		t.Fatalf("%d jobs are listed", n)
	}
	b.do(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	find := func(id string) *Record {
		return get(b, func(tx kv.Tx) (*Record, error) { _, rec, err := b.s.Find(tx, id); return rec, err })
	}
	for _, limit := range []int{1, 2, 1000} {
		if ids := listed(limit); !slices.Equal(ids, []string{request}) {
			t.Errorf("listed at most %d: %v", limit, ids)
		}
	}
	of := Filter{Instance: DocumentJobs(tuple.UUID{1})}
	b.do1(func(tx kv.Tx) error {
		total, known, err := Lists{Store: b.s, Reader: tx}.Total(of)
		if total != 0 || !known {
			t.Errorf("%d jobs of the deleted database count (known: %v)", total, known)
		}
		return err
	})
	if find(running) != nil || find(request) == nil {
		t.Error("the wrong job is found")
	}
	stored := func(id string) bool {
		return get(b, func(tx kv.Tx) (*Record, error) { return b.s.Record(tx, id) }) != nil
	}
	sweep := func(limit int) bool {
		return get(b, func(tx kv.Tx) (bool, error) { return b.s.SweepDropped(tx, limit) })
	}
	if sweep(1); stored(running) {
		t.Error("the job that runs is not the first to be removed")
	}
	batches := 1
	for ; !sweep(dropPage - 1); batches++ {
		if batches > 10 {
			t.Fatal("does not end")
		}
	}
	left := get(b, func(tx kv.Tx) (jobs.Counts, error) { return b.s.Jobs.Counts(tx) })
	if left != (jobs.Counts{Ready: 1}) || !stored(request) || batches != 2 {
		t.Errorf("%+v are left after %d batches", left, batches)
	}
}

// TestDroppedJobsOfSeveral: the jobs that run are the first to be removed, whichever database is emptied first.
func TestDroppedJobsOfSeveral(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.do(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{0})
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	b.do1(func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, 1); return err })
	if b.record(w.JobID) != nil {
		t.Error("the job goes on until its database is emptied")
	}
}

// TestSweepBeginsWithFirst: of the jobs of a deleted database those that run are removed first, and then those that
// stand first in the queue, where accepts pass over them; whatever their ids.
func TestSweepBeginsWithFirst(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"run", "z", "b", "a"} {
		if id == "b" {
			b.now = b.now.Add(time.Second)
		}
		b.put(id, fmt.Sprintf(`{"source":"http://h/a","target":"http://h/%s"}`, id), admin)
		if id == "run" {
			b.accept()
		}
	}
	b.do(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	for _, want := range []string{"run", "z"} {
		b.do1(func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, 1); return err })
		if b.record(jobID(want)) != nil {
			t.Errorf("job %s is there", want)
		}
	}
	if b.record(jobID("a")) == nil || b.record(jobID("b")) == nil {
		t.Error("more are removed than were to be")
	}
}

// TestDroppedJobStartsLate: a job of a deleted database that gets a slot all the same, from an accept that read before
// the deletion, is removed within sixteen batches.
func TestDroppedJobStartsLate(t *testing.T) {
	b := newBench(t)
	for i := range 2 * dropLook {
		b.put(fmt.Sprint("r", i), fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b"}`, i), admin)
	}
	b.do(func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{1}); return nil })
	sweep := func() { b.do1(func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, 1); return err }) }
	sweep()
	late := get(b, func(tx kv.Tx) (jobs.Taken, error) {
		return b.s.Jobs.Accept(tx, "w", jobs.Demand{Batch: 1, Max: 1}, nil)
	})
	for range dropLook {
		sweep()
	}
	b.wantState(late.Jobs[0].ID, "absent")
}

// TestEndWithoutDocument: the job may end after its document or database is gone and re-created.
func TestEndWithoutDocument(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.do(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	b.do(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "_replicator", tuple.UUID{2}, b.now) })
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(replication.End{}, Turn{}) })
	b.wantState(w.JobID, Completed)
}

func TestTerminalDocumentThatWasBroughtHere(t *testing.T) {
	b := newBench(t)
	b.put("r", `{"source":"http://h/a","target":"http://h/b",`+
		`"_replication_state":"failed","_replication_state_reason":"no luck"}`, admin)
	if rec := b.record(jobID("r")); rec.State != Failed || rec.Reason != "no luck" || rec.Source != "http://h/a/" {
		t.Errorf("record %+v", rec)
	}
	if n := get(b, func(tx kv.Tx) (jobs.Counts, error) { return b.s.Jobs.Counts(tx) }); n.Ready != 0 {
		t.Errorf("counts %+v", n)
	}
}

func TestIsReplicatorDB(t *testing.T) {
	for name, want := range map[string]bool{
		"_replicator": true, "a/_replicator": true, "a/b/_replicator": true,
		"x_replicator": false, "a": false, "_replicator/a": false,
	} {
		if IsReplicatorDB(name) != want {
			t.Error(name)
		}
	}
}

// TestDroppedAreNotAccepted: from the deletion of a database on its jobs get no slots, and running jobs give way to
// others only. The sweep removes those first that accepts have to pass over, of all deleted databases.
func TestDroppedAreNotAccepted(t *testing.T) {
	b := newBench(t)
	put := func(id string) {
		b.now++
		b.put(id, fmt.Sprintf(`{"source":"http://h/%s","target":"http://h/b"}`, id), admin)
	}
	put("z")
	put("a")
	b.now++
	live := b.replicate("joe")
	b.do(func(tx kv.Tx) error {
		b.s.Drop(tx, tuple.UUID{0}) // which is swept first
		b.s.Drop(tx, tuple.UUID{1})
		return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
	})
	ready := func() int {
		return len(get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 5) }))
	}
	if n := ready(); n != 1 {
		t.Errorf("%d jobs are ready for slots, want 1", n)
	}
	if w := b.accept(); w.JobID != live {
		t.Errorf("accepted %s", w.JobID)
	}
	if n := ready(); n != 0 {
		t.Errorf("%d jobs are ready for slots, want none", n)
	}
	b.do1(func(tx kv.Tx) error { _, err := b.s.SweepDropped(tx, 1); return err })
	b.wantState(jobID("z"), "absent")
	b.wantState(jobID("a"), Pending)
	for done := false; !done; {
		b.do1(func(tx kv.Tx) (err error) { done, err = b.s.SweepDropped(tx, 1); return err })
	}
	b.wantState(jobID("a"), "absent")
	b.wantState(live, Running)
	b.do1(func(tx kv.Tx) error { return errors.Join(b.s.Jobs.Audit(tx), b.s.Audit(tx)) })
}

// TestSweepKeepsItsLimit: one transaction removes no more jobs of requests than it was asked to, and tells whether
// others are left.
func TestSweepKeepsItsLimit(t *testing.T) {
	b := newBench(t)
	users := []string{"ann", "bob", "cid", "dan"}
	for _, user := range users {
		b.replicate(user)
		b.complete(b.accept())
	}
	b.now = b.now.Add(b.s.Config.TransientMaxAge)
	for _, want := range []struct {
		left int
		done bool
	}{{2, false}, {0, false}, {0, true}} {
		done := get(b, func(tx kv.Tx) (bool, error) { return b.s.Sweep(tx, b.now, 2, 1) })
		counts := get(b, func(tx kv.Tx) (jobs.Counts, error) { return b.s.Jobs.Counts(tx) })
		if done != want.done || counts.Finished != int64(want.left) {
			t.Errorf("%d are left, done %v; want %+v", counts.Finished, done, want)
		}
	}
}

// TestFinishedByAClockAhead: a job of a request that was over on a node whose clock was years ahead is kept for no
// longer than others once that clock is right.
func TestFinishedByAClockAhead(t *testing.T) {
	b := newBench(t)
	right := b.now
	b.now = right.Add(10 * 365 * 24 * time.Hour)
	b.replicate("ann")
	b.complete(b.accept())
	b.now = right
	b.replicate("bob")
	b.complete(b.accept())
	for days, left := range []int64{1, 0} {
		b.now = right.Add(time.Duration(days) * b.s.Config.TransientMaxAge)
		b.do1(func(tx kv.Tx) error { _, err := b.s.Sweep(tx, b.now, 9, 9); return err })
		if n := get(b, func(tx kv.Tx) (jobs.Counts, error) { return b.s.Jobs.Counts(tx) }).Finished; n != left {
			t.Errorf("after %d days %d are left, want %d", days, n, left)
		}
	}
}

// TestOperatorCancelsRequest: an operator who cancels a request is told that there was one, once.
func TestOperatorCancelsRequest(t *testing.T) {
	b := newBench(t)
	id := b.replicate("joe")
	for _, want := range []bool{true, false} {
		var changed bool
		b.do1(func(tx kv.Tx) (err error) { changed, err = b.by(tx).Cancel(id); return err })
		if changed != want {
			t.Errorf("changed %v, want %v", changed, want)
		}
		b.wantState(id, "absent")
	}
}

// TestRequestForWhatADocumentDoes: a request for the replication of a document's job is refused at once, unless its id
// depends on the code of a filter function, which only a run can read.
func TestRequestForWhatADocumentDoes(t *testing.T) {
	for filter, refused := range map[string]bool{
		``: true, `,"doc_ids":["x"]`: true, `,"selector":{"a":1}`: true, `,"filter":"d/f"`: false,
	} {
		b := newBench(t)
		body := `{"source":"http://h/a","target":"http://t/b"` + filter + `}`
		b.put("r", body, admin)
		rep, err := spec.ParseRequest([]byte(body), b.s.Config.Parse)
		if err != nil {
			t.Fatal(err)
		}
		id := repid.New(b.s.Config.Server, rep, "").String()
		if err := b.claim(b.accept(), id); err != nil {
			t.Fatal(err)
		}
		b.do1(func(tx kv.Tx) error { _, err = b.s.Replicate(tx, rep, "joe", b.now); return nil })
		if dup, is := errors.AsType[*Duplicate](err); is != refused || err != nil && !is || is && dup.RepID != id {
			t.Errorf("with %q: %v", filter, err)
		}
	}
}

// TestRepeatedRequestWritesNothing: a request that is sent again, by the same user, leaves no commit.
func TestRepeatedRequestWritesNothing(t *testing.T) {
	b := newBench(t)
	commits := func(user string) uint64 {
		before := b.db.Stats().Commits
		b.replicate(user)
		return b.db.Stats().Commits - before
	}
	if first := commits("joe"); first == 0 {
		t.Fatal("the request is not stored")
	}
	b.accept()
	if again := commits("joe"); again != 0 {
		t.Errorf("sent again, it takes %d commits", again)
	}
}

// TestRepeatedRequestPauses: a request that is sent again and says that the job is to be paused pauses it, at the time
// of that request and by its user.
func TestRepeatedRequestPauses(t *testing.T) {
	b := newBench(t)
	id := b.replicate("joe")
	b.now = b.now.Add(time.Minute)
	rep := get(b, func(tx kv.Tx) (*spec.Replication, error) { return b.s.Spec(tx, id) })
	rep.Paused = true
	b.do(func(tx kv.Tx) error { _, err := b.s.Replicate(tx, rep, "joe", b.now); return err })
	rec := b.record(id)
	want := Event{Type: "paused", At: b.now, By: "joe", Reason: "by the document"}
	if rec.History[0] != want || rec.LastUpdated != b.now || rec.View().State != Paused {
		t.Errorf("it is %s since %v, with history %v", rec.View().State, rec.LastUpdated, rec.History)
	}
}

// TestUploadByAnotherClock: an upload is not swept by a node whose clock is hours ahead, and goes on. One that was
// abandoned goes in the end.
func TestUploadByAnotherClock(t *testing.T) {
	b := newBench(t)
	u := docs.NewUpload(tuple.UUID{2})
	store := func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		return db.StoreUpload(u, b.now)
	}
	sweep := func(after time.Duration) {
		b.do1(func(tx kv.Tx) error { _, err := b.s.Sweep(tx, b.now.Add(after), 9, 9); return err })
	}
	_, _ = u.Write(make([]byte, 1<<20)) // it never fails
	b.do1(store)
	u.Stored()
	sweep(3 * time.Hour)
	b.do1(store)
	sweep(30 * time.Hour)
	if err := kv.Do(context.Background(), b.db, store); !errors.Is(err, docs.ErrUploadGone) {
		t.Errorf("after a day the upload is there: %v", err)
	}
}
