package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
)

// arrivedUnheard has a job fail and its state arrive, without an answer. An operator has the job run again before the
// feed brings the state.
func arrivedUnheard(t *testing.T) (*world, *worker) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	w.fail("d")
	w.loseEdits(1, lost)
	k.unfed(250 * time.Millisecond)
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	return w, k
}

// TestArrivedAfterRetry: a state arrives, its answer is lost, and an operator has the job run again before the feed
// brings the state. It ends no job, and goes.
func TestArrivedAfterRetry(t *testing.T) {
	w, k := arrivedUnheard(t)
	k.unfed(250 * time.Millisecond)
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
}

// TestEarlierStateArrived: of two states the first arrived, without an answer, and the second did not. What the feed
// brings is no edit.
func TestEarlierStateArrived(t *testing.T) {
	w, k := arrivedUnheard(t)
	w.loseEdits(2, refused)
	w.complete("d")
	k.unfed(250 * time.Millisecond)
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
}

// TestFirstOfThreeStatesArrived: of three states the first arrived, without an answer, and none of the others, before
// the feed brings it. It is no edit: the job does not run again, nor end another way.
func TestFirstOfThreeStatesArrived(t *testing.T) {
	for _, refusals := range []int{1, 2, 5} {
		w, k := arrivedUnheard(t)
		w.loseEdits(refusals, refused)
		w.pass(2 * time.Second) // a state says when it was reached
		w.fail("d")
		k.unfed(250 * time.Millisecond)
		if err := w.retry("d"); err != nil {
			t.Fatal(err)
		}
		w.complete("d")
		k.unfed(10 * time.Second)
		w.settle(time.Minute)
		w.expect("d", jobstore.Completed, "completed")
	}
}

// loseEdits has the next n writes of states go wrong.
func (w *world) loseEdits(n int, how fault) {
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.EditDocs); is && n > 0 {
			n--
			return how
		}
		return ""
	}
}

// TestEditBeforeAnswer: a user edits a document, and the feed brings that, before the answer to the write of its state
// is noted. The state of the edited document's job is written all the same.
func TestEditBeforeAnswer(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	w.complete("d")
	var late []follow.Ask
	for len(late) == 0 {
		w.pass(250 * time.Millisecond)
		k.act(first)
		for i, a := range k.asks {
			if _, is := a.Request.(follow.Sent); is {
				late, k.asks = append(late, a), append(k.asks[:i:i], k.asks[i+1:]...)
				break
			}
		}
	}
	w.write("d", other)
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	k.perform(late[0])
	w.settle(10 * time.Second)
	w.complete("d")
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
	if target := w.remote("d")["target"]; target != "http://b/y" {
		t.Errorf("the document copies to %v", target)
	}
}

// retriedAfterFailure has a job fail, whose document says so. An operator has the job run again.
func retriedAfterFailure(t *testing.T) (*world, *worker) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	w.fail("d")
	w.settle(10 * time.Second)
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	return w, k
}

// TestWrittenWithoutState: a run asks whether a document has no state, as its job has none. Before the server answers,
// the job ends, and a user writes the document without state once more. What the run reads then is no write of its own:
// the job runs again.
func TestWrittenWithoutState(t *testing.T) {
	w, k := retriedAfterFailure(t)
	k.unfed(time.Second) // the state is removed, and stays due as the feed has not brought that
	k.cut()
	reads := func(c follow.Call) bool { _, is := c.Op.(peer.ReadDocs); return is }
	for !slices.ContainsFunc(k.calls, reads) {
		w.pass(250 * time.Millisecond)
		k.act(first)
	}
	i := slices.IndexFunc(k.calls, reads)
	read := k.calls[i]
	k.calls = slices.Delete(k.calls, i, i+1)
	w.fail("d")
	w.write("d", one)
	k.carry(read)
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
}

// TestStateTakenAwayTwice: the state of a failed job is to be removed, as an operator has it run again; the write does
// not arrive, and the job fails again. What a user writes without a state then may be our write, as far as its
// generation tells: the first time it is, the second time it is not, and the job runs again.
func TestStateTakenAwayTwice(t *testing.T) {
	for writes, want := range map[int]jobstore.State{1: jobstore.Failed, 2: jobstore.Pending} {
		w, k := retriedAfterFailure(t)
		w.loseEdits(1, refused)
		k.unfed(250 * time.Millisecond)
		w.fail("d")
		for range writes {
			w.write("d", one)
		}
		w.settle(time.Minute)
		w.expect("d", want, map[jobstore.State]string{jobstore.Failed: "failed"}[want])
	}
}

// TestLateWriteWins: another replicator has completed a document while our state was on its way to another node of the
// cluster. That wins, and is no edit: the document gets the state of its job, which stays completed.
func TestLateWriteWins(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	var late string
	w.fault = func(op peer.Op) fault {
		if op, is := op.(peer.EditDocs); is && late == "" {
			late = string(op.Docs[0].Body)
			return refused
		}
		return ""
	}
	w.fail("d")
	k.unfed(time.Second)
	w.write("d", one[:len(one)-1]+`,"_replication_state":"completed"}`)
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Completed, "completed")
	doc, err := docs.ParseDocument([]byte(late), docs.ReplicationMembers...)
	if err != nil {
		t.Fatal(err)
	}
	w.write("d", string(doc.Body))
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
	w.write("d", one)
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
}

// TestEndlessPoll: a database that was made again has fewer changes than a long poll was asked for, whose server sends
// heartbeats for ever.
func TestEndlessPoll(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.write("c", other)
	w.start()
	w.settle(10 * time.Second)
	w.couch = newCouch("2")
	w.write("e", other)
	w.settle(11 * time.Minute)
	w.expect("e", jobstore.Pending, "")
	if job, _ := w.job("d"); job != "" {
		t.Errorf("d has job %q", job)
	}
}

// TestReadAhead: a document is read in a later revision than its change has, and a backup without that is put back
// before the feed brings it. The state of its job is written all the same.
func TestReadAhead(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	last := w.lastApply()
	w.start()
	w.settle(10 * time.Second)
	ahead := *last
	ahead.From, ahead.Last = last.Since, w.followed().Last
	body := []byte(`{"_id":"d","_rev":"9-f",` + one[1:])
	was := w.couch.docs["d"].rev()
	ahead.Docs = []follow.Incoming{{Seq: last.Since, ID: "d", Rev: "9-f", Body: body, Announced: was}}
	w.perform(ahead)
	w.complete("d")
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
}

// keepApplies keeps the requests by which documents are applied, to repeat them.
func (w *world) keepApplies() *[]follow.Apply {
	var all []follow.Apply
	w.done = func(q follow.Request) bool {
		if q, is := q.(follow.Apply); is && len(q.Docs) > 0 {
			all = append(all, q)
		}
		return false
	}
	return &all
}

// TestAppliedOnce: changes that were applied by an attempt whose answer was lost are not applied again after two states
// were written over them.
func TestAppliedOnce(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	taken := w.keepApplies()
	w.start()
	w.settle(10 * time.Second)
	w.fail("d")
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Failed, "failed")
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	w.settle(10 * time.Second)
	w.complete("d")
	w.settle(10 * time.Second)
	w.perform((*taken)[0])
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
}

// TestRepeatedApply: an attempt whose answer was lost may have found states that are to be written back. The one that
// repeats it has them looked for.
func TestRepeatedApply(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	taken := w.keepApplies()
	w.start()
	w.settle(10 * time.Second)
	var again follow.Result
	w.do(func(tx kv.Tx) (err error) {
		again, err = follow.Perform(tx, w.store, (*taken)[0], w.now)
		return err
	})
	if want := (follow.Applied{N: 1, Due: true}); again != want {
		t.Errorf("%+v, want %+v", again, want)
	}
}

// TestRefusedPolls: a server that opens its database and fails all long polls is told of; a poll that something on the
// way has cut is not.
func TestRefusedPolls(t *testing.T) {
	for _, c := range []struct {
		failure peer.Failure
		cut     bool
	}{
		{peer.Failure{Kind: peer.Broken}, true},
		{peer.Failure{Kind: peer.TimedOut}, true},
		{peer.Failure{Kind: peer.Status, Status: 408}, true},
		{peer.Failure{Kind: peer.Status, Status: 504}, true},
		{peer.Failure{Kind: peer.Status, Status: 500}, false},
		{peer.Failure{Kind: peer.Status, Status: 403}, false},
		{peer.Failure{Kind: peer.Unreachable}, false},
	} {
		w := newWorld(t)
		k := w.start()
		w.settle(10 * time.Second)
		for i, call := range k.calls {
			if op, is := call.Op.(peer.ReadChanges); is && op.Wait {
				k.calls = append(k.calls[:i:i], k.calls[i+1:]...)
				k.tell(follow.Reply{Run: call.Run, ID: call.ID, Reply: peer.Reply{Failure: &c.failure}})
				break
			}
		}
		w.settle(time.Second)
		if k.noted("follow_failed") == c.cut {
			t.Errorf("after %+v operators are told %v", c.failure, k.notes)
		}
	}
}

// TestRemovedAfterRetry: an operator has a job run again, so its state is removed, and another one is written later. A
// user who removes that one, or who writes the document before it comes, starts the replication again, whatever became
// of the writes.
func TestRemovedAfterRetry(t *testing.T) {
	for _, removal := range []fault{"", lost, refused} {
		for _, answer := range []fault{"", lost, "edit"} {
			if removal == refused && answer == "edit" {
				continue // the user's removal looks as ours would, which may have arrived
			}
			w := newWorld(t)
			w.write("d", one)
			w.start()
			w.settle(10 * time.Second)
			w.fail("d")
			w.settle(10 * time.Second)
			w.expect("d", jobstore.Failed, "failed")
			next := removal
			w.fault = func(op peer.Op) (f fault) {
				if _, is := op.(peer.EditDocs); is {
					if f, next = next, ""; f == "edit" {
						w.write("d", one)
						return ""
					}
				}
				return f
			}
			if err := w.retry("d"); err != nil {
				t.Fatal(err)
			}
			for w.settle(250 * time.Millisecond); next != ""; {
				w.settle(250 * time.Millisecond)
			}
			if removal == "" {
				w.settle(10 * time.Second)
			}
			next = answer
			w.complete("d")
			w.settle(time.Minute)
			if answer != "edit" {
				w.expect("d", jobstore.Completed, "completed")
				w.write("d", one)
				w.settle(10 * time.Second)
			}
			if job, _ := w.job("d"); job != jobstore.Pending {
				t.Errorf("removal %q, answer %q: the job is %s", removal, answer, job)
			}
		}
	}
}

// TestWrittenAsItWas: a user who writes a document with the state that it had, while an operator has had its job run
// again, ends no job; the state goes.
func TestWrittenAsItWas(t *testing.T) {
	w := newWorld(t)
	w.write("d", one[:len(one)-1]+`,"_replication_state":"completed"}`)
	w.write("f", other[:len(other)-1]+`,"_replication_state":"failed"}`)
	w.start()
	w.settle(10 * time.Second)
	w.expect("f", jobstore.Failed, "failed")
	stale := true
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.EditDocs); is && stale {
			stale = false
			w.write("f", w.couch.docs["f"].body)
		}
		return ""
	}
	w.retry("f")
	w.settle(time.Minute)
	w.expect("f", jobstore.Pending, "")
	w.expect("d", jobstore.Completed, "completed")
}

// TestForeignMarkReadAhead: another replicator marks a document twice while its job runs, and it is read with the
// second mark at the change of the first. Then the feed brings the second change, before the mark could be removed, as
// states of other documents are still being written. It is removed all the same.
func TestForeignMarkReadAhead(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	last := w.lastApply()
	w.start()
	w.settle(10 * time.Second)
	marked := w.couch.put("d", w.couch.docs["d"].rev(), one[:len(one)-1]+`,"_replication_state":"error"}`, false)
	read := follow.Incoming{Seq: last.Since, ID: "d", Rev: marked}
	read.Body = fmt.Appendf(nil, `{"_id":"d","_rev":"%s",%s`, marked, w.couch.docs["d"].body[1:])
	for _, announced := range []string{"2-first", ""} {
		read.Announced = announced
		q := follow.Apply{Held: last.Held, Docs: []follow.Incoming{read}, From: last.Since, Since: last.Since}
		q.Last = w.followed().Last
		w.perform(q)
	}
	w.settle(11 * time.Minute)
	w.expect("d", jobstore.Pending, "")
}

// TestReadBeforeTwoWrites: a document is read, and applied after two states were written over it: it is no document
// from which a user has removed the state, whichever of the two the feed has brought.
func TestReadBeforeTwoWrites(t *testing.T) {
	for _, fed := range []bool{false, true} {
		w := newWorld(t)
		w.write("d", one)
		last := w.lastApply()
		k := w.start()
		w.settle(10 * time.Second)
		before := w.couch.docs["d"]
		wait := w.settle
		if !fed {
			wait = k.unfed
		}
		w.fail("d")
		wait(10 * time.Second)
		if err := w.retry("d"); err != nil {
			t.Fatal(err)
		}
		wait(10 * time.Second)
		w.complete("d")
		wait(10 * time.Second)
		if gen := w.couch.docs["d"].gen; gen < before.gen+2 {
			t.Fatalf("the document has generation %d, %d before", gen, before.gen)
		}
		body := fmt.Appendf(nil, `{"_id":"d","_rev":"%s",%s`, before.rev(), before.body[1:])
		w.perform(follow.Apply{
			Held: last.Held, From: last.Since, Since: last.Since,
			Docs: []follow.Incoming{{Seq: last.Since, ID: "d", Rev: before.rev(), Body: body}},
		})
		w.settle(time.Minute)
		w.expect("d", jobstore.Completed, "completed")
	}
}
