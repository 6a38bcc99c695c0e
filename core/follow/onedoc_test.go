package follow_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
)

// slowDocs are ways in which a request fails for a document that takes its server too long.
func slowDocs() map[string]peer.Failure {
	return map[string]peer.Failure{
		"503": {Kind: peer.Status, Status: 503}, "504": {Kind: peer.Status, Status: 504},
		"timed out": {Kind: peer.TimedOut},
	}
}

// TestNewestRefused: the document that changed last is refused by each request. All others are followed, and a backup
// that is put back is noticed, in this run or in a later one.
func TestNewestRefused(t *testing.T) {
	ways := unreadDocs()
	maps.Copy(ways, slowDocs())
	for name, failure := range ways {
		w, k := followed(t, 5)
		backup := w.couch.backup()
		w.couch.unread, w.couch.unable, w.couch.barred = map[string]bool{"d2": true}, failure, true
		w.write("d2", to(52))
		w.settle(15 * time.Minute)
		w.expect("d2", jobstore.Pending, "")
		if k.noted("follow_failed") || k.noted("follow_reread") || k.told("d2") < 1 || k.told("d2") > 3 {
			t.Errorf("%s: operators are told %v", name, k.notes)
		}
		if j := w.followed(); j.Errors > 0 || !strings.Contains(j.Reason, "is left out") {
			t.Errorf("%s: the status is %q (%s)", name, j.Error, j.Reason)
		}
		for i := range 5 {
			w.write("d3", to(60+i))
			w.settle(2 * time.Minute)
			w.expectBody("d3", to(60+i))
			w.write("d2", to(70+i))
			w.settle(2 * time.Minute)
		}
		backup.made = w.couch.made
		backup.unread, backup.unable, backup.barred = w.couch.unread, failure, true
		w.couch = backup
		w.write("new", to(80))
		w.settle(12 * time.Minute)
		w.expect("new", jobstore.Pending, "")
		w.expectBody("d3", to(3))
		w.expect("d2", jobstore.Pending, "")
		w.couch.unread = nil
		w.settle(12 * time.Minute)
		w.expectBody("d2", to(2))
		if k.noted("follow_failed") {
			t.Errorf("%s: operators are told %v", name, k.notes)
		}
	}
}

// TestHiddenDoc: a document that changes announce and that is never there keeps no others from being followed, also if
// it is the one that changed last. It does not count as deleted: its job stays until the database tells of that.
func TestHiddenDoc(t *testing.T) {
	for _, newest := range []bool{false, true} {
		w, k := followed(t, 9)
		w.couch.hidden = map[string]bool{"d4": true, "new": true}
		w.write("new", to(20))
		for i := range 9 {
			if i != 4 {
				w.write(fmt.Sprint("d", i), to(50+i))
			}
		}
		w.write("d4", to(54))
		if !newest {
			w.write("d8", to(58))
		}
		before := w.followed()
		w.settle(5 * time.Minute)
		for i := range 9 {
			if i != 4 {
				w.expectBody(fmt.Sprint("d", i), to(50+i))
			}
		}
		for range 4 {
			w.settle(10 * time.Minute)
			w.expect("d4", jobstore.Pending, "")
			w.expectBody("d4", to(4))
			w.expect("new", "", "")
		}
		if n, m := k.told("d4"), k.told("new"); n < 3 || n > 6 || m < 3 || m > 6 || k.noted("follow_failed") {
			t.Errorf("newest %v: operators are told %d and %d times: %v", newest, n, m, k.notes)
		}
		if now := w.followed(); now.Epoch != before.Epoch || now.Errors > 0 || now.Error != "missing_doc" {
			t.Errorf("newest %v: all was read anew, or the status is %q (%s)", newest, now.Error, now.Reason)
		}
		w.write("late", to(100))
		w.settle(time.Minute)
		w.expectBody("late", to(100))
		w.couch.hidden = nil
		w.settle(12 * time.Minute)
		w.expectBody("d4", to(54))
		w.expectBody("new", to(20))
		if j := w.followed(); j.Error+j.Reason != "" || j.Missing {
			t.Errorf("newest %v: the status is still %q (%s)", newest, j.Error, j.Reason)
		}
	}
}

// TestHiddenDocIsDeleted: a document that was left out since it was not there loses its job once the database tells
// that it is deleted, whether or not a run has it left out then.
func TestHiddenDocIsDeleted(t *testing.T) {
	for _, soon := range []bool{false, true} {
		w, _ := followed(t, 3)
		w.couch.hidden = map[string]bool{"d1": true}
		w.write("d1", to(51))
		w.settle(5 * time.Minute)
		w.expect("d1", jobstore.Pending, "")
		w.write("d1", "")
		if soon {
			w.couch.hidden = nil
		}
		w.settle(12 * time.Minute)
		if !soon {
			w.expect("d1", jobstore.Pending, "")
		}
		w.couch.hidden = nil
		w.settle(12 * time.Minute)
		w.expect("d1", "", "")
		if j := w.followed(); j.Error+j.Reason != "" || j.Missing {
			t.Errorf("soon %v: the status is still %q (%s)", soon, j.Error, j.Reason)
		}
	}
}

// TestHiddenDocLags: a document that was left out is read ten minutes later, from a node that has it as it was before.
// That is not taken: what was announced comes later.
func TestHiddenDocLags(t *testing.T) {
	w, _ := followed(t, 3)
	w.couch.clustered = true
	old := w.couch.docs["d1"]
	w.couch.hidden = map[string]bool{"d1": true}
	w.write("d1", to(51))
	now := w.couch.docs["d1"]
	w.settle(5 * time.Minute)
	w.couch.hidden = nil
	w.couch.docs["d1"] = old
	w.settle(12 * time.Minute)
	w.expectBody("d1", to(1))
	w.couch.docs["d1"] = now
	w.settle(12 * time.Minute)
	w.expectBody("d1", to(51))
}

// TestHiddenBeforeBackup: a document is announced and not there, and it is the one that changed last. A backup that is
// put back and lacks that change is noticed: the job goes if the backup does not have the document either.
func TestHiddenBeforeBackup(t *testing.T) {
	w, k := followed(t, 3)
	backup := w.couch.backup()
	w.write("gone", to(20))
	w.settle(time.Minute)
	w.expect("gone", jobstore.Pending, "")
	backup.made = w.couch.made
	w.write("d0", to(50))
	w.settle(time.Minute)
	w.couch.hidden = map[string]bool{"gone": true}
	w.write("gone", to(21))
	w.settle(15 * time.Minute)
	w.expect("gone", jobstore.Pending, "")
	if k.noted("follow_reread") {
		t.Errorf("operators are told %v", k.notes)
	}
	backup.made = w.couch.made
	w.couch = backup
	w.write("x", to(30))
	w.write("y", to(31))
	w.settle(12 * time.Minute)
	w.expect("gone", "", "")
	w.expect("x", jobstore.Pending, "")
	w.expect("y", jobstore.Pending, "")
}

// TestSlowDoc: a document whose reading takes its server too long each time keeps no others from being followed, and
// no states of others out of their documents. If the server answers no request at all, the run fails.
func TestSlowDoc(t *testing.T) {
	for name, failure := range slowDocs() {
		w, k := followed(t, 9)
		w.couch.unread, w.couch.unable = map[string]bool{"d4": true}, failure
		w.completeBut(9, "d4")
		w.write("d4", to(54))
		w.write("late", to(100))
		w.settle(12 * time.Minute)
		w.expectBody("late", to(100))
		w.expect("d4", jobstore.Completed, "")
		if n := k.told("d4"); n < 1 || n > 3 || k.noted("follow_failed") {
			t.Errorf("%s: operators are told %v", name, k.notes)
		}
		w.couch.unread = nil
		w.settle(12 * time.Minute)
		w.expectBody("d4", to(54))
		w.expect("d4", jobstore.Pending, "")
	}
}

// TestSlowServer: where each request for documents fails, also one for none, the run fails after a few of them and
// leaves out none, whether it was about to read documents of the feed, those that the feed did not bring, or states.
func TestSlowServer(t *testing.T) {
	ways := slowDocs()
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		for _, n := range []int{1, 20} {
			w, k := followed(t, 40)
			w.couch.unread, w.couch.unable = map[string]bool{"*": true, "": true}, ways[name]
			for i := range n {
				w.write(fmt.Sprint("d", i), to(50+i))
				w.complete(fmt.Sprint("d", 20+i))
			}
			w.ops = nil
			for seconds := 0; seconds < 600 && !k.noted("follow_failed"); seconds++ {
				w.settle(time.Second)
			}
			reads := 0
			for _, op := range w.ops {
				if _, is := op.(peer.ReadDocs); is {
					reads++
				}
			}
			if !k.noted("follow_failed") || k.noted("follow_unreadable") || reads > 6 {
				t.Errorf("%s, %d documents: %d reads, and operators are told %v", name, n, reads, k.notes)
			}
			w.couch.unread = nil
			w.settle(20 * time.Minute)
			for i := range n {
				w.expectBody(fmt.Sprint("d", i), to(50+i))
				w.expect(fmt.Sprint("d", 20+i), jobstore.Completed, "completed")
			}
		}
	}
}
