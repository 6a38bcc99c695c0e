package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
)

// TestTrouble: a database that is away, or whose documents cannot be had, is told and tried again, ever less often.
func TestTrouble(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	away := true
	w.fault = func(peer.Op) fault {
		if away {
			return refused
		}
		return ""
	}
	k := w.start()
	w.settle(10 * time.Minute)
	if len(k.notes) < 4 || k.notes[1].What != "follow_failed" || k.notes[1].Error != "connect_failed" || w.runs > 12 {
		t.Errorf("%d runs, notes %v", w.runs, k.notes)
	}
	if j := w.followed(); j.Errors == 0 || j.Error != "connect_failed" || j.Reason == "" {
		t.Errorf("%d errors, the last %q (%s)", j.Errors, j.Error, j.Reason)
	}
	away = false
	w.settle(6 * time.Minute)
	w.expect("d", jobstore.Pending, "")
	if j := w.followed(); j.Errors != 0 || j.Error+j.Reason != "" {
		t.Errorf("after the trouble %d errors, the last %q (%s)", j.Errors, j.Error, j.Reason)
	}
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.ReadDocs); is {
			return missing
		}
		return ""
	}
	w.write("e", one)
	w.settle(2 * time.Minute)
	if !slices.ContainsFunc(k.notes, func(n follow.Note) bool { return n.Error == "missing_doc" }) {
		t.Errorf("notes %v", k.notes)
	}
	w.fault = nil
	w.settle(6 * time.Minute)
	w.expect("e", jobstore.Pending, "")
}

// TestShortTrouble: a run that got through and fails soon afterwards begins with short pauses again.
func TestShortTrouble(t *testing.T) {
	w := newWorld(t)
	away := true
	w.fault = func(peer.Op) fault {
		if away {
			return refused
		}
		return ""
	}
	k := w.start()
	w.settle(20 * time.Minute)
	for away = false; !k.noted("follow_current"); {
		w.settle(time.Second)
	}
	k.cut()
	away = true
	w.settle(time.Second)
	runs := w.runs
	w.settle(30 * time.Second)
	if n := w.runs - runs; n < 3 {
		t.Errorf("%d runs in 30 s after the first failure", n)
	}
}

// TestPauseOfAWrongClock: a pause that a clock far ahead has made longer than any is over at once.
func TestPauseOfAWrongClock(t *testing.T) {
	w := newWorld(t)
	var held follow.Held
	w.asked = func(q follow.Request) {
		if q, is := q.(follow.Opened); is {
			held = q.Held
		}
	}
	k := w.start()
	w.settle(time.Second)
	w.kill(k)
	w.perform(follow.Release{Held: held, Errors: 1, Error: "timeout", Reason: "of a clock", Wait: 24 * time.Hour})
	w.start()
	w.settle(10 * time.Second)
	if w.runs != 2 {
		t.Errorf("%d runs", w.runs)
	}
}

// TestRestartInTrouble: a worker that leaves in order does not forget the failures of a database that it has not
// reached since.
func TestRestartInTrouble(t *testing.T) {
	w := newWorld(t)
	w.fault = func(peer.Op) fault { return refused }
	k := w.start()
	w.settle(3 * time.Minute)
	failed := w.followed()
	for len(k.calls) == 0 {
		w.pass(250 * time.Millisecond)
		for len(k.asks) > 0 {
			k.act(first)
		}
	}
	k.tell(follow.Drain{})
	w.settle(time.Second)
	if now := w.followed(); !k.left || failed.Errors < 3 || now.Errors != failed.Errors || now.Error != failed.Error {
		t.Errorf("%d failures, the last %q, became %d and %q", failed.Errors, failed.Error, now.Errors, now.Error)
	}
}

// TestLagsAgainAndAgain: a node that is late for a moment ends no run, however often that happens to it.
func TestLagsAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	lag := false
	w.fault = func(op peer.Op) fault {
		if lag {
			return lags
		}
		return ""
	}
	k := w.start()
	for i := range 5 {
		id := fmt.Sprint("late", i)
		w.write(id, other)
		lag = true
		w.settle(2 * time.Second)
		w.expect(id, "", "")
		lag = false
		w.settle(time.Minute)
		w.expect(id, jobstore.Pending, "")
	}
	if k.noted("follow_failed") {
		t.Errorf("operators are told %v", k.notes)
	}
}

// TestLags: documents before one that the server does not have yet are taken, and are not read once more when that
// comes.
func TestLags(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.write("late", other)
	reads, lag := 0, true
	w.fault = func(op peer.Op) fault {
		if op, is := op.(peer.ReadDocs); is && slices.Contains(op.IDs, "d") {
			reads++
		}
		if lag {
			return lags
		}
		return ""
	}
	k := w.start()
	w.settle(2 * time.Second)
	w.expect("d", jobstore.Pending, "")
	w.expect("late", "", "")
	lag = false
	w.settle(time.Minute)
	w.expect("late", jobstore.Pending, "")
	if reads != 1 || k.noted("follow_failed") {
		t.Errorf("it was read %d times, and operators are told %v", reads, k.notes)
	}
}

// TestRefusedStates: documents that the database does not let be written are no obstacle to others.
func TestRefusedStates(t *testing.T) {
	w := newWorld(t)
	w.write("bad1", `{"source":1}`)
	w.couch.deny["bad1"] = "forbidden"
	w.write("bad2", `{"source":2}`)
	k := w.start()
	w.settle(10 * time.Second)
	w.expect("bad1", jobstore.Failed, "")
	w.expect("bad2", jobstore.Failed, "failed")
	told := func() (errors []string) {
		for _, note := range k.notes {
			if note.What == "follow_states_failed" {
				errors = append(errors, note.Error)
			}
		}
		return errors
	}
	if !slices.Equal(told(), []string{"forbidden"}) {
		t.Errorf("notes %v", k.notes)
	}
	ops := len(w.ops)
	w.settle(5 * time.Minute)
	if n := len(w.ops) - ops; n > 40 {
		t.Errorf("%d operations in vain", n)
	}
	delete(w.couch.deny, "bad1")
	w.settle(6 * time.Minute)
	w.expect("bad1", jobstore.Failed, "failed")
	w.couch.deny["bad3"] = "no_such_error"
	w.write("bad3", `{"source":3}`)
	w.settle(10 * time.Second)
	if !slices.Equal(told(), []string{"forbidden", "doc_write_failed"}) {
		t.Errorf("after another series: notes %v", k.notes)
	}
}

// TestRefusedAsAWhole: one document of a write has grown too large, or makes the server fail (500), or a firewall
// refuses its contents (403 without a word), or the server its JSON (400), or the server takes too long for it (503,
// 504), so that the whole write fails. The states of all other documents are written all the same.
func TestRefusedAsAWhole(t *testing.T) {
	for _, status := range []int{413, 500, 400, 403, 503, 504} {
		w := newWorld(t)
		w.couch.whole = status
		ids := []string{"a", "large", "z"}
		for i := range 60 { // more than are prepared at once
			ids = append(ids, fmt.Sprint("x", i))
		}
		for _, id := range ids {
			w.write(id, `{"source":1}`)
		}
		k := w.start()
		w.settle(time.Minute)
		for _, id := range ids {
			if id != "large" {
				w.expect(id, jobstore.Failed, "failed")
			}
		}
		w.expect("large", jobstore.Failed, "")
		told := func(n follow.Note) bool { return strings.Contains(n.Text, `"large"`) }
		if !slices.ContainsFunc(k.notes, told) {
			t.Errorf("operators are told %v", k.notes)
		}
		w.couch.whole = 0
		w.settle(6 * time.Minute)
		w.expect("large", jobstore.Failed, "failed")
	}
}

// TestManyStates: states that could not be written for a while all are, once that is over.
func TestManyStates(t *testing.T) {
	w := newWorld(t)
	const n = 120 // of which one transaction prepares less than half
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("bad", i)
		w.write(ids[i], `{"source":1}`)
	}
	away := true
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.EditDocs); is && away {
			return refused
		}
		return ""
	}
	w.start()
	w.settle(time.Minute)
	away = false
	w.settle(6 * time.Minute)
	for _, id := range ids {
		w.expect(id, jobstore.Failed, "failed")
	}
}

// TestLateReply: the answer to a call that was given up changes nothing.
func TestLateReply(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	for run := range k.open {
		k.tell(follow.Reply{Run: run, ID: 1 << 40, Reply: peer.Reply{Result: peer.Edited{}}})
	}
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	if k.noted("follow_failed") {
		t.Errorf("notes %v", k.notes)
	}
}

// TestLaggingFeed: a long poll brings a part of what has changed, and the node that is asked for the rest has none of
// it yet. The run does not ask again and again at once.
func TestLaggingFeed(t *testing.T) {
	w := newWorld(t)
	w.store.Pages.Read = 2
	w.start()
	w.settle(10 * time.Second)
	lagging, asked := true, 0
	w.fault = func(op peer.Op) fault {
		asked++
		if read, is := op.(peer.ReadChanges); is && !read.Wait && lagging {
			return empty
		}
		return ""
	}
	for i := range 3 {
		w.write(fmt.Sprint("n", i), fmt.Sprintf(`{"source":"http://a/x","target":"http://b/n%d"}`, i))
	}
	w.settle(10 * time.Second)
	if asked > 10*20 {
		t.Errorf("it asks %d times in ten seconds", asked)
	}
	lagging = false
	w.settle(10 * time.Second)
	w.expect("n2", jobstore.Pending, "")
}

// TestStateOfGarbledDocument: a document that is cut off when its state is to be written is told, and gets the state
// once it can be read.
func TestStateOfGarbledDocument(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(time.Minute)
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.ReadDocs); is {
			return garbled
		}
		return ""
	}
	w.complete("d")
	w.settle(time.Minute)
	if !slices.ContainsFunc(k.notes, func(n follow.Note) bool {
		return n.What == "follow_states_failed" && n.Error == "malformed_response" &&
			strings.HasPrefix(n.Text, `document "d" cannot be read`)
	}) {
		t.Errorf("notes %v", k.notes)
	}
	w.fault = nil
	w.settle(6 * time.Minute)
	w.expect("d", jobstore.Completed, "completed")
}

// TestLeaseOfTwoDatabases: a worker that others have given up drops all its runs, and follows the databases anew.
func TestLeaseOfTwoDatabases(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.follow(
		follow.Database{Section: "couch", Name: "reps", URL: "http://s/reps/"},
		follow.Database{Section: "couch", Name: "more", URL: "http://s/more/"},
		follow.Database{Section: "couch", Name: "most", URL: "http://s/most/"},
	)
	k := w.start()
	w.settle(time.Minute)
	runs := w.runs
	if len(k.open) != 3 {
		t.Fatalf("%d databases are followed", len(k.open))
	}
	w.perform(follow.Expire{Worker: "w1"})
	w.settle(5 * time.Minute)
	if len(k.open) != 3 || w.runs != runs+3 || !k.noted("follow_lease_lost") {
		t.Errorf("%d databases are followed in %d runs, after %d before", len(k.open), w.runs, runs)
	}
}

// TestRefusedConnection: a run whose database the process cannot connect to ends with the reason, and another one
// follows.
func TestRefusedConnection(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.pass(time.Millisecond)
	for len(k.open) == 0 {
		k.act(first)
	}
	for id := range k.open {
		k.tell(follow.Refused{Run: id, Reason: "no such certificate"})
	}
	w.settle(time.Second)
	if j := w.followed(); len(k.open) > 0 || j.Error != "invalid_replication" || j.Reason != "no such certificate" {
		t.Errorf("runs %v, error %q: %s", k.open, j.Error, j.Reason)
	}
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
}
