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

// TestSlowDoc: a document whose reading takes its server too long each time keeps no others from being followed, and
// no states of others out of their documents. If the server answers no request at all, the run fails.
func TestSlowDoc(t *testing.T) {
	for name, failure := range slowDocs() {
		w, k := followed(t, 9)
		w.couch.unread, w.couch.unable = map[string]bool{"d4": true}, failure
		for i := range 9 {
			w.complete(fmt.Sprint("d", i))
		}
		w.settle(time.Minute)
		for i := range 9 {
			if i != 4 {
				w.expect(fmt.Sprint("d", i), jobstore.Completed, "completed")
			}
		}
		w.expect("d4", jobstore.Completed, "")
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
