package follow_test

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
)

// TestLaggingNodeHasNoState: a state is removed, the answer is lost, and a node that lags behind answers that the
// document has none, in a revision from before there was one. When the feed brings the removal, it is no edit: the job
// that was completed meanwhile does not run again.
func TestLaggingNodeHasNoState(t *testing.T) {
	w := newWorld(t)
	w.couch.clustered = true
	w.write("d", one)
	first := w.couch.docs["d"]
	k := w.start()
	w.settle(10 * time.Second)
	w.fail("d")
	w.settle(10 * time.Second)
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	w.fault = func(op peer.Op) fault {
		switch op.(type) {
		case peer.EditDocs:
			return lost
		case peer.ReadDocs:
			if d := w.couch.docs["d"]; d.gen == 3 {
				d.before = first
				return unfallen
			}
		}
		return ""
	}
	k.unfed(10 * time.Second)
	w.fault = nil
	w.complete("d")
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
}

// TestRemovedOnceMore: a removal of a state has arrived. The next state arrives, without an answer, and is removed. The
// job is completed before that arrives, and the feed is faster than the answer. The removal is no edit.
func TestRemovedOnceMore(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	last := w.lastApply()
	k := w.start()
	w.settle(10 * time.Second)
	w.fail("d")
	w.settle(10 * time.Second)
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	w.settle(10 * time.Second)
	w.fail("d")
	w.loseEdits(1, lost)
	k.unfed(250 * time.Millisecond)
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.EditDocs); is {
			w.fault = nil
			w.complete("d")
			d := w.couch.docs["d"]
			q := follow.Apply{Held: last.Held, From: last.Since, Since: "4", Last: last.Last}
			body := fmt.Appendf(nil, `{"_id":"d","_rev":"%s",%s`, d.rev(), d.body[1:])
			q.Docs = []follow.Incoming{{Seq: "4", ID: "d", Rev: d.rev(), Body: body}}
			w.perform(q)
		}
		return ""
	}
	k.unfed(10 * time.Second)
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
}

// TestLateWrite: the write of a state takes effect long after it was given up, when an operator has had the job run
// again, and the document was found without a state. It is no edit that ends the job, and the state goes.
func TestLateWrite(t *testing.T) {
	w, _ := retriedAfterFailure(t)
	w.settle(10 * time.Second)
	var late peer.Op
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.EditDocs); is {
			late, w.fault = op, nil
			return refused
		}
		return ""
	}
	w.fail("d")
	for late == nil {
		w.settle(tick)
	}
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	w.settle(10 * time.Second)
	w.couch.answer(late, "")
	if state := w.remote("d")["_replication_state"]; state != "failed" {
		t.Fatalf("the document has the state %v", state)
	}
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
}
