package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
)

// TestRestoredToNewer: a followed database is put back after its changes were read, and before their documents are,
// to a backup in which one of them has more edits than its change. That edit is known from then on, so it must not be
// taken for the newest change: the one that is lost would not be missed.
func TestRestoredToNewer(t *testing.T) {
	w := newWorld(t)
	empty := w.couch.backup()
	for range 20 { // more changes than the database has when it is put back
		w.write("d", other)
	}
	backup := w.couch.backup()
	w.restore(empty)
	w.write("e", one)
	k := w.start()
	w.settle(10 * time.Second)
	put := false
	w.fault = func(op peer.Op) fault {
		if read, is := op.(peer.ReadDocs); is && slices.Contains(read.IDs, "d") && !put {
			put = true
			w.restore(backup)
		}
		return ""
	}
	w.write("d", one)
	w.write("e", other)
	w.settle(time.Minute)
	k.cut()
	w.settle(time.Minute)
	w.expect("d", jobstore.Pending, "")
	if job, _ := w.job("e"); !put || job != "" {
		t.Errorf("put back %v, and document e, which the backup does not have, has job %q", put, job)
	}
	if got := w.target("d"); got != "http://b/y/" {
		t.Errorf("the job of d writes to %s", got)
	}
}

// TestRestoredAndWritten: a followed database at rest is put back, and has had more changes since than it had lost and
// than one answer brings.
func TestRestoredAndWritten(t *testing.T) {
	w := newWorld(t)
	w.write("kept", one)
	w.start()
	w.settle(10 * time.Second)
	backup := w.couch.backup()
	w.write("gone", other)
	w.settle(10 * time.Second)
	w.expect("gone", jobstore.Pending, "")
	w.restore(backup)
	w.couch.page = 1
	for i := range 4 {
		w.write(fmt.Sprint("new", i), fmt.Sprintf(`{"source":"http://a/x","target":"http://b/n%d"}`, i))
	}
	w.settle(time.Minute)
	if job, _ := w.job("gone"); job != "" {
		t.Errorf("a document that is not in the backup has job %q", job)
	}
	w.expect("kept", jobstore.Pending, "")
	w.expect("new3", jobstore.Pending, "")
}

// TestRestoredWithoutALeaf: a followed database at rest is put back to a backup which lacks nothing but the leaf, which
// loses, that its last change gave a document, and has had as many changes since. Of many leaves the run asks for some.
func TestRestoredWithoutALeaf(t *testing.T) {
	for _, leaves := range []int{0, 60} {
		w := newWorld(t)
		w.write("d", one)
		for range leaves {
			w.couch.graft("d")
		}
		k := w.start()
		w.settle(10 * time.Second)
		backup := w.couch.backup()
		w.couch.graft("d")
		k.cut()
		w.settle(10 * time.Second)
		w.restore(backup)
		w.write("e", other)
		k.cut()
		w.settle(time.Minute)
		w.expect("d", jobstore.Pending, "")
		w.expect("e", jobstore.Pending, "")
		for _, op := range w.ops {
			if find, is := op.(peer.FindRev); is && len(find.Revs) > 51 {
				t.Fatalf("the run asks for %d revisions at once", len(find.Revs))
			}
		}
	}
}

// TestRestoredBeforeAnyRequest: a followed database is put back before one of the requests by which its changes are
// read, page by page. The change that went had hidden an earlier one of its document.
func TestRestoredBeforeAnyRequest(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t)
		backup := w.hidden()
		w.start()
		asked := 0
		w.fault = func(peer.Op) fault {
			if asked++; asked == n {
				w.restore(backup)
			}
			return ""
		}
		w.settle(10 * time.Second)
		if asked < n {
			return
		}
		w.settle(11 * time.Minute)
		for _, id := range []string{"d", "e", "f"} {
			if target := w.target(id); target != "http://b/x/" {
				t.Errorf("put back before request %d: the job of %s copies to %q", n, id, target)
			}
		}
	}
}

// TestRestoredWithinBurst: more changes come at once than a long poll may bring, and the followed database is put back
// before one of the requests by which they are read. The change that went had hidden an earlier one of its document.
func TestRestoredWithinBurst(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t)
		w.store.Pages.Read = 1
		for _, id := range []string{"d", "e"} {
			w.write(id, one)
		}
		k := w.start()
		w.settle(10 * time.Second)
		w.write("d", `{"source":"http://a/d","target":"http://b/z"}`)
		w.write("e", other)
		backup, asked := w.couch.backup(), 0
		w.write("d", one)
		w.fault = func(peer.Op) fault {
			if asked++; asked == n {
				w.restore(backup)
			}
			return ""
		}
		w.settle(10 * time.Second)
		if asked < n {
			return
		}
		w.settle(11 * time.Minute)
		if target := w.target("d"); target != "http://b/z/" {
			t.Errorf("put back before request %d of %d: the job copies to %q, notes %v", n, asked, target, k.notes)
		}
	}
}

// TestRestoredWithinBacklog: more changes come than a long poll brings, and the database is put back before all are
// read. A change that a lost one had hidden, before those that were read, is not missed.
func TestRestoredWithinBacklog(t *testing.T) {
	for reads := 2; reads <= 4; reads++ {
		w := newWorld(t)
		w.store.Pages.Read = 3
		w.write("d", one)
		w.start()
		w.settle(10 * time.Second)
		w.write("d", other)
		for i := range 6 {
			w.write(fmt.Sprint("n", i), fmt.Sprintf(`{"source":"http://a/x","target":"http://b/n%d"}`, i))
		}
		backup := w.couch.backup()
		w.write("d", one)
		n := 0
		w.fault = func(op peer.Op) fault {
			if _, is := op.(peer.ReadChanges); is {
				if n++; n == reads {
					w.restore(backup)
				}
			}
			return ""
		}
		w.settle(11 * time.Minute)
		if target := w.target("d"); target != "http://b/y/" {
			t.Errorf("put back before read %d: the job of d copies to %s", reads, target)
		}
		if goal := w.followed().Goal; goal != "" {
			t.Errorf("all is read, and the goal is %s", goal)
		}
	}
}

// TestGoalAfterFullPages: the end of a feed comes behind its last page, which is full. The goal is reached then: a
// database of a cluster that tells of fewer changes for a moment is none that was put back.
func TestGoalAfterFullPages(t *testing.T) {
	w := newWorld(t)
	w.store.Pages.Read = 2
	w.start()
	w.settle(10 * time.Second)
	for _, id := range []string{"a", "b", "c", "d"} {
		w.write(id, fmt.Sprintf(`{"source":"http://a/x","target":"http://b/%s"}`, id))
	}
	w.settle(time.Minute)
	if goal := w.followed().Goal; goal != "" {
		t.Errorf("all is read, and the goal is %s", goal)
	}
}

// TestRestoredBehindReadAhead: a document is read in a later revision than its row has, and the database is put back to
// before that, but not to before the last row of the feed. The job does what the document says.
func TestRestoredBehindReadAhead(t *testing.T) {
	w := newWorld(t)
	w.store.Pages.Read = 1
	w.write("d", one)
	w.write("e", `{"source":"http://a/x","target":"http://b/z"}`)
	backup, restored := w.couch.backup(), false
	w.fault = func(op peer.Op) fault {
		read, is := op.(peer.ReadDocs)
		switch {
		case !is:
		case read.IDs[0] == "d" && w.couch.docs["d"].gen == 1 && !restored:
			w.write("d", other)
		case read.IDs[0] == "e" && !restored:
			restored = true
			w.restore(backup)
		}
		return ""
	}
	w.start()
	w.settle(11 * time.Minute)
	if target := w.target("d"); target != "http://b/x/" || !restored {
		t.Errorf("the job copies to %s, put back: %v", target, restored)
	}
}

// TestRestoredToAnnounced: a document is read in a later revision than its change has, with another body, and two
// states of its job do not arrive. A backup with the revision of the change is put back: the job does what that says.
func TestRestoredToAnnounced(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	last := w.lastApply()
	k := w.start()
	w.settle(10 * time.Second)
	ahead := *last
	ahead.From, ahead.Last = last.Since, peer.Mark{ID: "d", Rev: "9-f"}
	ahead.Docs = []follow.Incoming{{
		Seq: last.Since, ID: "d", Rev: "9-f", Body: []byte(`{"_id":"d","_rev":"9-f",` + other[1:]),
		Announced: w.couch.docs["d"].rev(),
	}}
	w.perform(ahead)
	w.fault = func(op peer.Op) fault {
		if _, is := op.(peer.ReadDocs); is {
			return refused
		}
		return ""
	}
	for range 2 {
		if err := w.retry("d"); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Second) // a state says when it was reached
		w.fail("d")
		k.unfed(2 * time.Second)
	}
	w.fault = nil
	k.cut()
	w.settle(time.Minute)
	if target := w.target("d"); target != "http://b/x/" {
		t.Errorf("the job copies to %s", target)
	}
	w.expect("d", jobstore.Pending, "")
}
