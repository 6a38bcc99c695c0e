package follow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/follow"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

const (
	one   = `{"source":"http://a/x","target":"http://b/x","note":1.50}`
	other = `{"source":"http://a/x","target":"http://b/y"}`
)

var trouble = replication.Trouble{Error: "doc_write_failed", Reason: "no"}

func (w *world) expect(id string, job jobstore.State, state string) {
	w.t.Helper()
	if got, _ := w.job(id); got != job {
		w.t.Fatalf("the job of %s is %q, want %q", id, got, job)
	}
	if got := w.remote(id)["_replication_state"]; got != state && !(got == nil && state == "") {
		w.t.Fatalf("the state of %s is %v, want %q", id, got, state)
	}
}

// TestChangesWithoutJobs: the place in the feed is kept behind changes that concern no job.
func TestChangesWithoutJobs(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	w.write("_design/x", `{"views":{}}`)
	w.settle(10 * time.Second)
	if since := w.followed().Since; since != "2" {
		t.Errorf("the next run would begin at %s", since)
	}
}

// TestLife: a document becomes a job, its state comes back, and nothing else changes; a state that a user removes
// starts it again, an edit makes another job, and a deletion ends it.
func TestLife(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.write("_design/x", `{"views":{}}`)
	w.write("bad", `{"source":"http://a/x"}`)
	w.start()
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	w.expect("bad", jobstore.Failed, "failed")
	if reason := fmt.Sprint(w.remote("bad")["_replication_state_reason"]); !strings.Contains(reason, "target") {
		t.Errorf("the reason is %s", reason)
	}
	w.complete("d")
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Completed, "completed")
	body := w.remote("d")
	if body["_replication_stats"] == nil || body["_replication_state_time"] == nil || body["owner"] != nil {
		t.Errorf("the document is %v", body)
	}
	if text := w.couch.docs["d"].body; !strings.HasPrefix(text, one[:len(one)-1]+`,"_repl`) {
		t.Errorf("the document is %s", text)
	}
	w.write("d", one)
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	w.write("d", other)
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	w.complete("d")
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Completed, "completed")
	w.write("d", "")
	w.write("bad", one)
	w.settle(10 * time.Second)
	if job, _ := w.job("d"); job != "" || w.remote("d") != nil {
		t.Errorf("after the deletion there is job %q, document %v", job, w.remote("d"))
	}
	w.expect("bad", jobstore.Pending, "")
}

// TestOver: a document that says at first sight that it is over does not run, and is left as it is, also if it would
// be refused here: the replicator that has run it accepts more.
func TestOver(t *testing.T) {
	w := newWorld(t)
	w.write("c", `{"source":"http://a/x","target":"http://b/x","_replication_state":"completed"}`)
	w.write("f", other[:len(other)-1]+`,"_replication_state":"failed","_replication_state_reason":"x"}`)
	w.write("t", `{"source":"http://a/x","target":"http://b/z","_replication_state":"triggered","_replication_id":"1"}`)
	w.write("x", `{"source":"http://a/x","target":"http://b/x","query_params":1,"_replication_state":"completed"}`)
	revs := w.couch.docs["c"].rev() + w.couch.docs["x"].rev()
	w.start()
	w.settle(10 * time.Second)
	w.expect("c", jobstore.Completed, "completed")
	w.expect("f", jobstore.Failed, "failed")
	w.expect("t", jobstore.Pending, "")
	w.expect("x", jobstore.Completed, "completed")
	if w.couch.docs["c"].rev()+w.couch.docs["x"].rev() != revs {
		t.Error("one was written to")
	}
}

// TestOverAgain: the end that another replicator has written into a document is another one than before.
func TestOverAgain(t *testing.T) {
	w := newWorld(t)
	ended := func(state string) string { return one[:len(one)-1] + `,"_replication_state":"` + state + `"}` }
	w.write("d", ended("failed"))
	w.start()
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Failed, "failed")
	w.write("d", ended("completed"))
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Completed, "completed")
}

// TestOwnWrites: when the answer to a write of a state is lost, with the worker or without, the write is known for
// ours, and starts no job.
func TestOwnWrites(t *testing.T) {
	for _, killed := range []bool{false, true} {
		w := newWorld(t)
		w.write("d", one)
		k := w.start()
		w.settle(10 * time.Second)
		w.complete("d")
		sent := 0
		w.fault = func(op peer.Op) fault {
			if _, is := op.(peer.EditDocs); is {
				if sent++; sent == 1 {
					return lost
				}
			}
			return ""
		}
		for n := 0; sent == 0; n++ {
			w.settle(time.Second)
		}
		if killed {
			w.kill(k)
			w.start()
		}
		w.settle(3 * time.Minute)
		w.expect("d", jobstore.Completed, "completed")
		if rev := w.couch.docs["d"].rev(); rev[0] != '2' || sent != 1 {
			t.Errorf("revision %s after %d writes", rev, sent)
		}
	}
}

// TestRetried: a job that an operator runs again has its state removed, and is not over for what was written before.
func TestRetried(t *testing.T) {
	w := newWorld(t)
	w.write("bad", `{"source":"http://a/x"}`)
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	w.fail("d")
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Failed, "failed")
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	if err := w.retry("bad"); err == nil {
		t.Error("a document that asks for nothing is run")
	}
}

// TestReadOnly: the mirror is written by nothing but the run, and its jobs end with their documents.
func TestReadOnly(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	_, jobID := w.job("d")
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		edit := docs.Edit{Document: docs.Document{ID: "e", Body: []byte(one)}}
		got, err := w.relay.WriteDocs(tx, db, []docs.Edit{edit}, jobstore.Writer{Admin: true}, w.now)
		if err != nil || got[0].Err == nil || !strings.Contains(got[0].Err.Reason, "http://s/reps/") {
			t.Errorf("written: %+v, %v", got, err)
		}
		_, err = jobstore.Operator{Store: w.relay, Tx: tx, Now: w.now}.Cancel(jobID)
		if err == nil || !strings.Contains(err.Error(), "http://s/reps/") {
			t.Errorf("canceled: %v", err)
		}
		return nil
	})
	w.expect("d", jobstore.Pending, "")
}

// TestAnotherDatabase: when the database was made again, documents that are there keep their jobs, and others go.
func TestAnotherDatabase(t *testing.T) {
	w := newWorld(t)
	for i := range 250 {
		w.write(fmt.Sprint("d", i), one)
	}
	w.start()
	w.settle(10 * time.Second)
	w.couch = nil
	w.settle(time.Minute)
	if job, _ := w.job("d7"); job == "" {
		t.Error("a database that is away took its jobs along")
	}
	_, before := w.job("d7")
	w.couch = newCouch("2")
	w.write("d7", one)
	w.write("new", other)
	w.settle(10 * time.Minute)
	job, after := w.job("d7")
	if job == "" || before != after {
		t.Errorf("job %q", job)
	}
	w.expect("new", jobstore.Pending, "")
	for _, id := range []string{"d0", "d249", "d70"} {
		if job, _ := w.job(id); job != "" {
			t.Errorf("%s has job %q", id, job)
		}
	}
}

// TestAnotherDatabaseBehindCutPolls: a database that was made again is noticed though it has no change behind the last
// one that was read, and each long poll is cut.
func TestAnotherDatabaseBehindCutPolls(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	a := w.start()
	w.settle(10 * time.Second)
	_, before := w.job("d")
	w.couch = newCouch("2")
	w.write("e", other)
	poll := a.calls[len(a.calls)-1]
	if op, is := poll.Op.(peer.ReadChanges); !is || !op.Wait {
		t.Fatalf("it waits for %v", a.calls)
	}
	a.calls = a.calls[:len(a.calls)-1]
	a.tell(follow.Reply{Run: poll.Run, ID: poll.ID, Reply: peer.Reply{Failure: &peer.Failure{Kind: peer.Broken}}})
	w.settle(time.Minute)
	w.expect("e", jobstore.Pending, "")
	if job, _ := w.job("d"); job != "" || before == "" {
		t.Errorf("d has job %q", job)
	}
}

// TestReadBeforeOurWrite: a document that was read before its state was written back, and is applied after that, is no
// document from which a user has removed the state.
func TestReadBeforeOurWrite(t *testing.T) {
	w := newWorld(t)
	w.write("d", `{"source":7}`)
	read := follow.Incoming{ID: "d", Rev: w.couch.docs["d"].rev(), Body: []byte(`{"source":7}`)}
	last := w.lastApply()
	w.start()
	w.settle(time.Minute)
	w.expect("d", jobstore.Failed, "failed")
	revision := func() (rev string) {
		w.do(func(tx kv.Tx) error {
			db, err := w.relay.Docs.Open(tx, mirror)
			if err != nil {
				return err
			}
			doc, err := db.Read("d", docs.Want{})
			if err == nil {
				rev = doc.Rev.String()
			}
			return err
		})
		return rev
	}
	before := revision()
	read.Seq = last.Since
	w.do(func(tx kv.Tx) error {
		q := follow.Apply{Held: last.Held, Docs: []follow.Incoming{read}, From: last.Since, Since: last.Since}
		_, err := follow.Perform(tx, w.store, q, w.now)
		return err
	})
	if after := revision(); after != before {
		t.Errorf("the mirror had %s, and has %s", before, after)
	}
}

// TestRefusedReading: the job of a document that cannot be read fails, and says why; another revision may have another
// reason.
func TestRefusedReading(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	last := w.lastApply()
	w.start()
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	_, id := w.job("d")
	for rev, why := range map[string]string{"2-b": "it is too large", "3-c": "it is larger still"} {
		read := follow.Incoming{Seq: last.Since, ID: "d", Rev: rev, Refusal: why}
		w.do(func(tx kv.Tx) error {
			q := follow.Apply{Held: last.Held, Docs: []follow.Incoming{read}, From: last.Since, Since: last.Since}
			_, err := follow.Perform(tx, w.store, q, w.now)
			return err
		})
		w.do(func(tx kv.Tx) error {
			rec, err := w.relay.Record(tx, id)
			if err == nil && (rec.State != jobstore.Failed || rec.Reason != why) {
				t.Errorf("at %s the job is %s: %s", rev, rec.State, rec.Reason)
			}
			return err
		})
	}
}

// TestTakeover: a worker that is gone, and one that only seems to be, has its job taken over; it then writes nothing.
func TestTakeover(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	a := w.start()
	w.settle(10 * time.Second)
	w.workers = nil // it stands still
	b := w.start()
	w.settle(2 * time.Minute)
	if len(b.open) != 1 {
		t.Fatalf("runs %v", b.open)
	}
	w.workers = append(w.workers, a)
	w.write("d", other)
	w.settle(time.Minute)
	if len(a.open)+len(b.open) != 1 || w.runs != 2 {
		t.Errorf("runs %v and %v of %d", a.open, b.open, w.runs)
	}
	w.complete("d")
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Completed, "completed")
}

// TestLeave: a worker that drains gives its jobs back at once, and leaves.
func TestLeave(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	w.settle(10 * time.Second)
	a.tell(follow.Drain{})
	w.settle(time.Second)
	if !a.left || len(a.open) != 0 {
		t.Fatal("it has not left")
	}
	w.kill(a)
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
}

// TestLeaveUnheard: a worker that drains, and does not hear that its lease is given back, leaves when it is told so by
// its next heartbeat. That is no lost lease.
func TestLeaveUnheard(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	w.settle(10 * time.Second)
	w.done = func(q follow.Request) bool { _, is := q.(follow.Expire); return is }
	a.tell(follow.Drain{})
	w.settle(follow.ActivityTimeout)
	if !a.left || leasesLost(a) > 0 {
		t.Errorf("left: %v; told %v", a.left, a.notes)
	}
}

// TestLeaveDuringOutage: a worker that drains, and hears nothing of the store, waits.
func TestLeaveDuringOutage(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	w.settle(10 * time.Second)
	a.tell(follow.Drain{})
	for range 200 {
		w.pass(250 * time.Millisecond)
	}
	if len(a.open) != 0 { // its lease is over
		t.Error("it has not dropped its runs")
	}
}

// TestEmptyFeed: a feed that has nothing, not even a place, is taken for one without changes.
func TestEmptyFeed(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.fault = func(peer.Op) fault { return empty }
	w.start()
	w.settle(time.Minute)
	w.expect("d", "", "")
	w.fault = nil
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
}

// TestTwoSilent: the databases of all workers that fell silent at the same time are given to others at the same time.
func TestTwoSilent(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.start()
	w.settle(10 * time.Second)
	w.workers = nil // they stand still
	w.start()
	expired := map[string]instant.Time{}
	w.done = func(q follow.Request) bool {
		if q, is := q.(follow.Expire); is {
			expired[q.Worker] = w.now
		}
		return false
	}
	w.settle(3 * follow.ActivityTimeout)
	if len(expired) != 2 || expired["w1"] != expired["w2"] {
		t.Errorf("given up at %v", expired)
	}
}

// TestLarge: a document that is too large, or cannot be read, fails and says why.
func TestLarge(t *testing.T) {
	w := newWorld(t)
	with := func(junk string) string { return other[:len(other)-1] + `,"junk":` + junk + `}` }
	w.write("large", with(`"`+strings.Repeat("x", 4_000_000)+`"`))
	w.write("deep", with(strings.Repeat("[", 2000)+strings.Repeat("]", 2000)))
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	w.expect("large", jobstore.Failed, "failed")
	w.expect("deep", jobstore.Failed, "")
	reason := fmt.Sprint(w.remote("large")["_replication_state_reason"])
	if !strings.Contains(reason, "more than 3000000") {
		t.Errorf("the reason is %s", reason)
	}
}

// TestOwnerChanges: nothing of a document changes but its owner. The job, which goes on, is that user's, and so is the
// document of the mirror. A server that names the login of this service as the owner of a document without one changes
// nothing.
func TestOwnerChanges(t *testing.T) {
	w := newWorld(t)
	for id, owner := range map[string]string{"d": `"alice"`, "e": "null"} {
		w.write(id, one[:len(one)-1]+`,"owner":`+owner+`}`)
	}
	w.start()
	w.settle(10 * time.Second)
	w.write("d", one[:len(one)-1]+`,"owner":"bob"}`)
	w.write("e", one[:len(one)-1]+`,"owner":"relay"}`)
	w.settle(10 * time.Second)
	for id, want := range map[string]string{"d": "bob", "e": ""} {
		w.expect(id, jobstore.Pending, "")
		_, jobID := w.job(id)
		w.do(func(tx kv.Tx) error {
			rec, err := w.relay.Record(tx, jobID)
			if err != nil {
				return err
			}
			owner, err := jobstore.OwnerOfJob(w.relay, tx, rec)
			if rec.User != want || owner != want {
				t.Errorf("%s has owner %q, and its job user %q; want %q", id, owner, rec.User, want)
			}
			return err
		})
	}
}
