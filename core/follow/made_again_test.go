package follow_test

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
)

// TestRestoredBehindLeftover: a document that the feed did not bring counted as it is, and the database was put back to
// a backup without it before its row came.
func TestRestoredBehindLeftover(t *testing.T) {
	w := newWorld(t)
	w.write("_design/x", `{"n":0}`)
	backup := w.couch.backup()
	w.write("d", one)
	k := w.start()
	w.settle(time.Minute)
	w.restore(backup)
	written, restored := false, false
	w.fault = func(op peer.Op) fault {
		switch op := op.(type) {
		case peer.ReadDocs: // as all is read anew, and the feed has been read
			if !written {
				w.write("d", one)
			}
			written = true
		case peer.ReadChanges:
			if op.Wait && written && !restored {
				w.restore(backup)
				restored = true
			}
		}
		return ""
	}
	k.cut()
	w.settle(time.Hour)
	if state, _ := w.job("d"); state != "" || !restored {
		t.Errorf("the job of a document that is gone is %s, restored %v", state, restored)
	}
}

// TestMadeAgain: a database is made again, has the last change and as many as before, and lacks a document. Its
// instance_start_time alone tells.
func TestMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.write("e", `{"source":"http://a/y","target":"http://b/y"}`)
	k := w.start()
	w.settle(time.Minute)
	w.couch = w.couch.backup()
	w.couch.instance = "another"
	delete(w.couch.docs, "d")
	k.cut()
	w.settle(time.Hour)
	if state, _ := w.job("d"); state != "" {
		t.Errorf("the job of a document that is gone is %s", state)
	}
	w.expect("e", jobstore.Pending, "")
}

// TestMadeAgainBehindFeed: a database was made again after its feed was read, and has a document that the feed did not
// bring and that is there. Others of it lie before the place that the feed was read to.
func TestMadeAgainBehindFeed(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(time.Minute)
	w.couch = newCouch("1")
	w.write("e", one)
	again := false
	w.fault = func(op peer.Op) fault {
		if op, is := op.(peer.ReadDocs); is && slices.Contains(op.IDs, "d") && !again {
			again = true
			w.couch = newCouch("1")
			w.write("x", one)
			w.write("d", one)
		}
		return ""
	}
	k.cut()
	w.settle(time.Hour)
	if !again {
		t.Fatal("the run did not ask for the document that the feed did not bring")
	}
	w.expect("x", jobstore.Pending, "")
	w.expect("d", jobstore.Pending, "")
	if state, _ := w.job("e"); state != "" {
		t.Errorf("the job of a document that is gone is %s", state)
	}
}

// TestMadeAgainBehindLeftover: a database is made again once it has shown a document that its feed did not bring, and
// lacks it then. The document's job goes at once, not when a long poll ends.
func TestMadeAgainBehindLeftover(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(time.Minute)
	w.couch = newCouch("2")
	w.write("d", other)
	reads := 0
	again := func() {
		if reads == 3 {
			w.couch = newCouch("3")
		}
	}
	w.asked = func(follow.Request) { again() }
	w.fault = func(op peer.Op) fault {
		switch op.(type) {
		case peer.ReadChanges:
			return empty
		case peer.ReadDocs:
			reads++
		case peer.Open:
			again()
		}
		return ""
	}
	k.cut()
	w.settle(time.Minute)
	if state, _ := w.job("d"); state != "" || reads < 3 {
		t.Errorf("the job of a document that is gone is %s, read %d times", state, reads)
	}
}

// TestOwnerOfBackup: a document was read with another owner than its change had, and a backup from before that is put
// back. Its mirror gets the owner back, also if the run that writes states sees the document first.
func TestOwnerOfBackup(t *testing.T) {
	w := newWorld(t)
	w.write("_design/x", `{"n":0}`)
	w.write("d", `{"source":"http://a/x","target":"http://b/x","owner":"first"}`)
	backup := w.couch.backup()
	ahead, restored := false, false
	w.fault = func(op peer.Op) fault {
		switch op := op.(type) {
		case peer.ReadDocs:
			if !ahead && slices.Contains(op.IDs, "d") {
				ahead = true
				w.write("d", `{"source":"http://a/x","target":"http://b/x","owner":"second"}`)
			}
		case peer.ReadChanges:
			if ahead && !restored {
				restored = true
				w.restore(backup)
			}
		}
		return ""
	}
	w.start()
	w.settle(3 * time.Hour)
	_, jobID := w.job("d")
	w.do(func(tx kv.Tx) error {
		rec, err := w.relay.Record(tx, jobID)
		if err == nil && (rec.User != "first" || !restored) {
			t.Errorf("the job is of user %v, restored %v", rec.User, restored)
		}
		return err
	})
}
