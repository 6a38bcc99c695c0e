package follow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
)

// unreadDocs are ways in which a request fails for one document: the server cannot read it, or breaks off when it comes
// to it, a firewall refuses its contents, or a proxy the answer.
func unreadDocs() map[string]peer.Failure {
	status := func(n int) peer.Failure {
		return peer.Failure{Kind: peer.Status, Status: n, URL: "http://s/reps/_all_docs"}
	}
	return map[string]peer.Failure{
		"500": status(500), "403": status(403), "400": status(400), "413": status(413), "502": status(502),
		"broken off": {Kind: peer.Broken}, "malformed": {Kind: peer.Malformed},
	}
}

// TestUnreadDoc: a document that the followed database cannot read keeps no others from being followed. Its own
// job stays, operators are told, and what was written meanwhile is done once it can be read.
func TestUnreadDoc(t *testing.T) {
	for name, failure := range unreadDocs() {
		w, k := followed(t, 9)
		w.couch.unread, w.couch.unable = map[string]bool{"d4": true, "new": true}, failure
		w.write("new", to(20))
		for i := range 9 {
			w.write(fmt.Sprint("d", i), to(50+i))
		}
		w.settle(time.Minute)
		w.write("late", to(100))
		w.settle(12 * time.Minute)
		for i := range 9 {
			if i != 4 {
				w.expectBody(fmt.Sprint("d", i), to(50+i))
			}
		}
		w.expectBody("late", to(100))
		w.expectBody("d4", to(4))
		w.expect("d4", jobstore.Pending, "")
		w.expect("new", "", "")
		if n, m := k.told("d4"), k.told("new"); n < 1 || n > 3 || m < 1 || m > 3 || k.noted("follow_failed") {
			t.Errorf("%s: operators are told %d and %d times: %v", name, n, m, k.notes)
		}
		if j := w.followed(); j.Error == "" || !strings.Contains(j.Reason, "is left out") || j.Errors > 0 {
			t.Errorf("%s: the status is %q (%s)", name, j.Error, j.Reason)
		}
		w.couch.unread = nil
		w.settle(12 * time.Minute)
		w.expectBody("d4", to(54))
		w.expectBody("new", to(20))
		if j := w.followed(); j.Error+j.Reason != "" || j.Missing {
			t.Errorf("%s: the status is still %q (%s)", name, j.Error, j.Reason)
		}
	}
}

// TestUnreadAndMadeAgain: of a document that could not be read nothing is told once the database is another one.
func TestUnreadAndMadeAgain(t *testing.T) {
	w, k := followed(t, 2)
	w.couch.unread, w.couch.unable = map[string]bool{"d1": true}, unreadDocs()["500"]
	w.write("d1", to(51))
	w.settle(time.Minute)
	if j := w.followed(); j.Error == "" {
		t.Fatalf("the document was read: %+v", j)
	}
	w.couch = newCouch("2")
	w.write("d0", to(60))
	k.cut()
	w.settle(2 * time.Minute)
	if j := w.followed(); j.Error != "" || j.Missing {
		t.Errorf("of the new database it tells %+v", j)
	}
}

// TestUnreadDocBeforeBackup: a document is left out, another one changes, and the first one is read later. The job
// knows the database by the change of the other one. So it notices a backup that lacks this change: the other one's job
// goes, and what is written then is followed.
func TestUnreadDocBeforeBackup(t *testing.T) {
	w, _ := followed(t, 3)
	w.couch.unread, w.couch.unable = map[string]bool{"d1": true}, unreadDocs()["500"]
	w.write("d1", to(51))
	w.settle(time.Minute)
	backup := w.couch.backup()
	w.write("gone", to(20))
	w.settle(time.Minute)
	w.couch.unread = nil
	w.settle(12 * time.Minute)
	w.expectBody("d1", to(51))
	backup.unread, backup.made = nil, w.couch.made
	w.couch = backup
	w.write("new", to(30))
	w.settle(12 * time.Minute)
	w.expect("gone", "", "")
	w.expect("new", jobstore.Pending, "")
}

// TestUnreadDocsOfAnother: the followed database is made again, and cannot read some of the documents that it has. No
// job is removed for that, and none that has completed runs again once they can be read.
func TestUnreadDocsOfAnother(t *testing.T) {
	w, _ := followed(t, 30)
	w.complete("d3")
	w.settle(10 * time.Second)
	w.expect("d3", jobstore.Completed, "completed")
	was := w.couch
	w.couch = newCouch("2")
	w.couch.unread, w.couch.unable = map[string]bool{}, unreadDocs()["500"]
	for i := range 20 {
		id := fmt.Sprint("d", i)
		w.write(id, was.docs[id].body)
		w.couch.unread[id] = i < 8
	}
	w.settle(30 * time.Minute)
	for i := range 30 {
		if state, _ := w.job(fmt.Sprint("d", i)); (state == "") != (i >= 20) {
			t.Errorf("the job of d%d is %q", i, state)
		}
	}
	w.couch.unread = nil
	w.settle(12 * time.Minute)
	w.expect("d3", jobstore.Completed, "completed")
	w.expect("d4", jobstore.Pending, "")
}

// TestUnreadDocsThenOne: many documents that could not be read still cannot as a run asks for them later. One more
// that the feed then brings is left out, too, and the run goes on.
func TestUnreadDocsThenOne(t *testing.T) {
	w, k := followed(t, 30)
	w.couch.unread, w.couch.unable = map[string]bool{}, unreadDocs()["500"]
	for i := range 30 {
		id := fmt.Sprint("d", i)
		w.write(id, to(50+i))
		w.couch.unread[id] = i%2 == 0
	}
	w.settle(12 * time.Minute)
	w.couch.unread["d1"] = true
	w.write("d1", to(81))
	w.settle(time.Minute)
	if k.told("d1") != 1 || k.noted("follow_failed") {
		t.Errorf("operators are told %v", k.notes)
	}
}

// completeBut has the jobs of n documents complete. All documents but one get their states.
func (w *world) completeBut(n int, but string) {
	w.t.Helper()
	for i := range n {
		w.complete(fmt.Sprint("d", i))
	}
	w.settle(time.Minute)
	for i := range n {
		state := "completed"
		if fmt.Sprint("d", i) == but {
			state = ""
		}
		w.expect(fmt.Sprint("d", i), jobstore.Completed, state)
	}
}

// TestUnreadStates: a document that cannot be read keeps the states of no others out of theirs, and gets its own later.
func TestUnreadStates(t *testing.T) {
	for name, failure := range unreadDocs() {
		w, k := followed(t, 9)
		w.couch.unread, w.couch.unable = map[string]bool{"d4": true}, failure
		w.completeBut(9, "d4")
		if !k.noted("follow_states_failed") || k.noted("follow_failed") {
			t.Errorf("%s: operators are told %v", name, k.notes)
		}
		w.couch.unread = nil
		w.settle(6 * time.Minute)
		w.expect("d4", jobstore.Completed, "completed")
	}
}

// TestUnreadAtAll: where a server fails on all documents, a run leaves out a few and fails. It leaves out none if the
// server also fails on a request about no documents, or if the failure is not of a single document. All jobs stay.
func TestUnreadAtAll(t *testing.T) {
	status := func(n int, word string) peer.Failure { return peer.Failure{Kind: peer.Status, Status: n, Error: word} }
	for _, c := range []struct {
		of      []string
		failure peer.Failure
		most    int // documents that the first run may leave out
	}{
		{[]string{"*"}, status(500, ""), 10}, {[]string{"d4", ""}, status(500, ""), 0},
		{[]string{"d4"}, status(401, "unauthorized"), 0}, {[]string{"d4"}, status(403, "forbidden"), 0},
		{[]string{"d4"}, status(404, "not_found"), 0}, {[]string{"d4"}, status(429, ""), 0},
		{[]string{"*"}, status(503, ""), 10}, {[]string{"*", ""}, status(503, ""), 0},
		{[]string{"d4", ""}, peer.Failure{Kind: peer.TimedOut}, 0},
		{[]string{"d4"}, peer.Failure{Kind: peer.Unreachable}, 0},
	} {
		w, k := followed(t, 40)
		for i := range 40 {
			w.write(fmt.Sprint("d", i), to(50+i))
		}
		w.couch.unread, w.couch.unable = map[string]bool{}, c.failure
		for _, id := range c.of {
			w.couch.unread[id] = true
		}
		for seconds := 0; seconds < 600 && !k.noted("follow_failed"); seconds++ {
			w.settle(time.Second)
		}
		if n := len(k.notes) - 3; n != c.most { // beside started, current and failed
			t.Errorf("%q %v: %d documents are left out; %v", c.of, &c.failure, n, k.notes)
		}
		w.settle(time.Minute)
		for i := range 40 {
			w.expect(fmt.Sprint("d", i), jobstore.Pending, "")
		}
		w.couch.unread = nil
		w.settle(20 * time.Minute)
		for i := range 40 {
			w.expectBody(fmt.Sprint("d", i), to(50+i))
		}
	}
}

// TestUnreadForAMoment: while a server fails on all requests for a moment, none of its documents is left out.
func TestUnreadForAMoment(t *testing.T) {
	w := newWorld(t)
	k := w.start()
	w.settle(10 * time.Second)
	w.couch.unread, w.couch.unable = map[string]bool{"d": true}, unreadDocs()["500"]
	w.write("d", to(0))
	w.settle(time.Second)
	w.couch.unread = nil
	w.settle(time.Minute)
	w.expectBody("d", to(0))
	if k.told("d") > 0 {
		t.Errorf("operators are told %v", k.notes)
	}
}
