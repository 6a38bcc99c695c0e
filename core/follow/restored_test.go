package follow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
)

// restore puts the followed database back to a backup.
func (w *world) restore(backup *couch) {
	made := w.couch.made
	w.couch = backup.backup()
	w.couch.made = made
}

// cut ends the long poll of a worker, as the restart of its server does.
func (k *worker) cut() {
	for i, c := range k.calls {
		if op, is := c.Op.(peer.ReadChanges); is && op.Wait {
			k.calls = append(k.calls[:i:i], k.calls[i+1:]...)
			k.tell(follow.Reply{Run: c.Run, ID: c.ID, Reply: peer.Reply{Failure: &peer.Failure{Kind: peer.Broken}}})
			return
		}
	}
}

// TestRestored: a followed database that is put back to an earlier state is noticed by the next look, also when it has
// had more changes since than it had lost, and also by a worker that takes over. Documents that the backup has in the
// revision that is known keep their jobs, and get the states that went; the others do what they say there, and those
// that it does not have lose their jobs.
func TestRestored(t *testing.T) {
	for _, c := range []struct {
		name     string
		later    int // changes after the backup was put back
		takeover bool
	}{{"no change", 0, false}, {"less changes", 2, false}, {"more changes", 30, false}, {"takeover", 150, true}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			for _, id := range []string{"kept", "edited", "deleted", "done"} {
				w.write(id, fmt.Sprintf(`{"source":"http://a/%s","target":"http://b/x"}`, id))
			}
			k := w.start()
			w.settle(10 * time.Second)
			backup := w.couch.backup()
			_, kept := w.job("kept")
			w.write("edited", other)
			w.write("deleted", "")
			w.write("later", one)
			w.complete("done")
			w.write("_design/x", `{}`)
			w.settle(10 * time.Second)
			w.expect("done", jobstore.Completed, "completed")
			if c.takeover {
				w.kill(k)
			}
			w.restore(backup)
			for i := range c.later {
				w.write(fmt.Sprint("new", i), fmt.Sprintf(`{"source":"http://a/x","target":"http://b/n%d"}`, i))
			}
			if c.takeover {
				k = w.start()
			} else {
				k.cut()
			}
			w.settle(3 * time.Minute)
			if !k.noted("follow_reread") {
				t.Errorf("operators are told %v", k.notes)
			}
			for _, id := range []string{"kept", "edited", "deleted"} {
				w.expect(id, jobstore.Pending, "")
			}
			w.expect("done", jobstore.Completed, "completed")
			if job, id := w.job("kept"); job == "" || id != kept {
				t.Errorf("the job of a document that is as it was is %s %q", id, job)
			}
			if target := w.target("edited"); target != "http://b/x/" {
				t.Errorf("the job of the edited document copies to %s", target)
			}
			if job, _ := w.job("later"); job != "" {
				t.Errorf("a document that is not in the backup has job %q", job)
			}
			for i := range c.later {
				w.expect(fmt.Sprint("new", i), jobstore.Pending, "")
			}
		})
	}
}

// TestRestoredBehindFeed: a followed database is put back after its changes were read, and before their documents are.
// The document whose change went is older again, and its change lies where the feed is not read any more.
func TestRestoredBehindFeed(t *testing.T) {
	for _, c := range []struct{ alone, crash bool }{{}, {true, false}, {false, true}, {true, true}} {
		w := newWorld(t)
		w.write("d", one)
		w.write("e", other)
		backup := w.couch.backup()
		w.write("d", one)
		if c.alone { // d's change comes in an answer of its own
			w.couch.page = 1
		}
		k := w.start()
		put := false
		w.fault = func(op peer.Op) fault {
			if read, is := op.(peer.ReadDocs); is && slices.Contains(read.IDs, "d") && !put {
				put = true
				w.restore(backup)
			}
			return ""
		}
		for !put {
			w.settle(250 * time.Millisecond)
		}
		if c.crash {
			w.settle(time.Second)
			w.kill(k)
			w.start()
		}
		w.settle(time.Minute)
		w.expect("d", jobstore.Pending, "")
		w.expect("e", jobstore.Pending, "")
	}
}

// TestRestoredBeforeRead: a followed database is put back after documents were read that were newer than their changes,
// by edits of which it has none, or only the first. Each document has its job again.
func TestRestoredBeforeRead(t *testing.T) {
	for _, kept := range []int{0, 1} {
		for _, order := range [][]string{{"d", "e"}, {"e", "d"}} {
			w := newWorld(t)
			w.write("d", one)
			w.write("e", other)
			k := w.start()
			backup := w.couch.backup()
			edited := false
			w.fault = func(op peer.Op) fault {
				if read, is := op.(peer.ReadDocs); is && slices.Contains(read.IDs, "d") && !edited {
					edited = true
					for n, id := range order {
						if n == kept {
							backup = w.couch.backup()
						}
						w.write(id, "")
					}
				}
				return ""
			}
			for !edited || len(k.asks) > 0 {
				w.pass(250 * time.Millisecond)
				k.act(first)
			}
			w.fault = nil
			w.restore(backup)
			k.cut()
			w.settle(11 * time.Minute)
			for n, id := range order {
				if job, _ := w.job(id); (job == "") != (n < kept) {
					t.Errorf("%d of the deletions of %v kept: the job of %s is %q", kept, order, id, job)
				}
			}
		}
	}
}

// hidden has three documents in a followed database, whose changes are read page by page, and makes a backup before the
// change of the first is hidden by another one.
func (w *world) hidden() *couch {
	for _, id := range []string{"d", "e", "f"} {
		w.write(id, fmt.Sprintf(`{"source":"http://a/%s","target":"http://b/x"}`, id))
	}
	backup := w.couch.backup()
	w.write("d", one)
	w.couch.page = 1
	return backup
}

// TestRestoredWithinFeed: a followed database is put back while its changes are read, page by page. The change of the
// page that was read last is in the backup; one that came earlier was hidden, and is there again.
func TestRestoredWithinFeed(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld(t)
		backup := w.hidden()
		k := w.start()
		put := false
		w.fault = func(op peer.Op) fault {
			if read, is := op.(peer.ReadChanges); is && read.Since == "3" && !put {
				put = true
				w.restore(backup)
				if crash {
					w.kill(k)
				}
			}
			return ""
		}
		w.settle(10 * time.Second)
		if crash {
			w.start()
		}
		w.settle(time.Minute)
		for _, id := range []string{"d", "e", "f"} {
			w.expect(id, jobstore.Pending, "")
		}
	}
}

// target is the target of a document's job.
func (w *world) target(id string) (url string) {
	_, jobID := w.job(id)
	w.do(func(tx kv.Tx) error {
		rec, err := w.relay.Record(tx, jobID)
		if err == nil && rec != nil {
			url = rec.Target
		}
		return err
	})
	return url
}

// noted reports whether operators were told of something.
func (k *worker) noted(what string) bool {
	return slices.ContainsFunc(k.notes, func(n follow.Note) bool { return n.What == what })
}

// TestNotRestored: a change that is not to be had for a moment is no sign of a backup.
func TestNotRestored(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	before := w.followed()
	failed := 0
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.FindRev); is && failed < 2 {
			failed++
			return missing
		}
		return ""
	}
	k.cut()
	w.settle(time.Minute)
	if after := w.followed(); failed != 2 || after.Epoch != before.Epoch || k.noted("follow_reread") {
		t.Errorf("after %d failures the epoch is %d, was %d", failed, after.Epoch, before.Epoch)
	}
}

// followed is the job of the followed database.
func (w *world) followed() (j follow.Job) {
	w.do(func(tx kv.Tx) error {
		raw, err := w.store.Queue.Get(tx, mirror)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw.Data, &j)
	})
	return j
}

// TestReadBeforeSecondWrite: of two writes of ours, the answer to the first was lost. What was read between them, and
// is applied after both, is no edit.
func TestReadBeforeSecondWrite(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	last := w.lastApply()
	k := w.start()
	w.settle(10 * time.Second)
	w.fail("d")
	wrote := 0
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.EditDocs); is {
			if wrote++; wrote == 1 {
				return lost
			}
		}
		return ""
	}
	for wrote == 0 {
		w.pass(time.Second)
		k.act(first)
	}
	between := w.couch.docs["d"]
	if err := w.retry("d"); err != nil {
		t.Fatal(err)
	}
	w.complete("d")
	k.unfed(25 * time.Second)
	w.expect("d", jobstore.Completed, "completed")
	body := fmt.Appendf(nil, `{"_id":"d","_rev":"%s",%s`, between.rev(), between.body[1:])
	read := follow.Incoming{Seq: last.Since, ID: "d", Rev: between.rev(), Body: body}
	w.do(func(tx kv.Tx) error {
		q := follow.Apply{Held: last.Held, Docs: []follow.Incoming{read}, From: last.Since, Since: last.Since}
		_, err := follow.Perform(tx, w.store, q, w.now)
		return err
	})
	w.expect("d", jobstore.Completed, "completed")
}

// TestStateLost: a followed database is put back so that nothing but a state is lost, which the feed has not brought.
// It is written again, whether the feed brings the document or not, and the worker stays or not. A document that was
// read before its state was written is no edit.
func TestStateLost(t *testing.T) {
	for _, c := range []struct{ restored, fed, stays bool }{
		{true, true, false}, {true, false, false}, {false, true, false}, {true, false, true},
	} {
		w := newWorld(t)
		w.write("d", one)
		last := w.lastApply()
		k := w.start()
		w.settle(10 * time.Second)
		before, backup := w.couch.docs["d"], w.couch.backup()
		w.complete("d")
		for w.remote("d")["_replication_state"] == nil || len(k.asks) > 0 {
			w.pass(250 * time.Millisecond)
			k.act(first)
		}
		if c.restored {
			w.restore(backup)
		}
		body := fmt.Appendf(nil, `{"_id":"d","_rev":"%s",%s`, before.rev(), before.body[1:])
		q := follow.Apply{
			Held: last.Held, From: last.Since, Since: last.Since,
			Docs: []follow.Incoming{{Seq: last.Since, ID: "d", Rev: before.rev(), Body: body}},
		}
		if c.fed {
			w.perform(q)
		}
		if !c.stays {
			w.kill(k)
			w.start()
		}
		w.settle(11 * time.Minute)
		w.expect("d", jobstore.Completed, "completed")
		w.write("d", one)
		w.settle(10 * time.Second)
		w.expect("d", jobstore.Pending, "")
	}
}

// TestSoon: a state is in its document at once after its job's end; and before long when watches are lost.
func TestSoon(t *testing.T) {
	w := newWorld(t)
	w.write("a", one)
	w.write("b", other)
	w.start()
	w.settle(10 * time.Second)
	w.complete("a")
	w.settle(500 * time.Millisecond)
	w.expect("a", jobstore.Completed, "completed")
	w.deaf = true
	w.complete("b")
	w.settle(31 * time.Second)
	w.expect("b", jobstore.Completed, "completed")
}

// TestSoonForMany: the states of more jobs than one look tells of are in their documents at once.
func TestSoonForMany(t *testing.T) {
	w := newWorld(t)
	w.store.Pages.Look = 2
	for i := range 7 {
		w.write(fmt.Sprint("d", i), to(i))
	}
	w.start()
	w.settle(10 * time.Second)
	for i := range 7 {
		w.complete(fmt.Sprint("d", i))
	}
	w.settle(2 * time.Second)
	for i := range 7 {
		w.expect(fmt.Sprint("d", i), jobstore.Completed, "completed")
	}
}

// TestLooksAreBounded: a mirror that changes all the time is looked at now and then.
func TestLooksAreBounded(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.settle(10 * time.Second)
	looks := 0
	w.done = func(q follow.Request) bool {
		if _, is := q.(follow.Look); is {
			looks++
		}
		return false
	}
	for i := range 100 {
		w.write(fmt.Sprint("d", i), fmt.Sprintf(`{"source":"http://a/x","target":"http://b/n%d"}`, i))
		w.settle(20 * time.Millisecond)
		w.now = w.now.Add(-230 * time.Millisecond) // it passes 250
	}
	if looks > 12 {
		t.Errorf("%d looks in two seconds", looks)
	}
}

// TestOddID: a change that no document can have is not asked for.
func TestOddID(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.write("_odd", one)
	k := w.start()
	w.settle(10 * time.Second)
	k.cut()
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
	if w.runs != 1 {
		t.Errorf("operators are told %v", k.notes)
	}
}

// TestKilledInTheMiddle: documents that were read, and are not in the mirror, are not lost with the worker: neither
// those that one transaction leaves to the next, nor those of an answer that has a part of them.
func TestKilledInTheMiddle(t *testing.T) {
	for _, part := range []fault{"", leavesOut} {
		w := newWorld(t)
		for i := range 30 {
			body := fmt.Sprintf(`{"source":"http://a/x","target":"http://b/n%d","x":"%s"}`, i, strings.Repeat("x", 1e5))
			w.write(fmt.Sprint("d", i), body)
		}
		w.fault = func(op peer.Op) fault {
			if _, is := op.(peer.ReadDocs); is {
				return part
			}
			return ""
		}
		applied, last := 0, peer.Mark{}
		w.done = func(q follow.Request) bool {
			if q, is := q.(follow.Apply); is {
				applied, last = applied+len(q.Docs), q.Last
			}
			return false
		}
		k := w.start()
		for applied == 0 && k.act(first) {
		}
		w.kill(k)
		if got := w.followed(); got.Last != last || got.Since == "" || got.Since == "30" {
			t.Errorf("%q: the next run looks for %s after %s", part, got.Last, got.Since)
		}
		w.fault, w.done = nil, nil
		w.start()
		w.settle(2 * time.Minute)
		for i := range 30 {
			if job, _ := w.job(fmt.Sprint("d", i)); job == "" {
				t.Fatalf("%q: d%d has no job", part, i)
			}
		}
	}
}
