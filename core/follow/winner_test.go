package follow_test

import (
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
)

// TestLosersNamedFirst: a server that is no cluster names leaves of a document by the length of their histories alone,
// as PouchDB does, and so one that loses first. The document is taken as the server reads it.
func TestLosersNamedFirst(t *testing.T) {
	w := newWorld(t)
	w.couch.losersFirst = true
	w.write("d", one)
	w.couch.graft("d")
	w.start()
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	w.write("d", other)
	w.write("e", `{"source":"http://a/x","target":"http://b/z"}`)
	w.settle(10 * time.Second)
	if target := w.target("d"); target != "http://b/y/" {
		t.Errorf("after an edit the job copies to %q", target)
	}
	w.expect("e", jobstore.Pending, "")
}

// TestLaggingNode: a node of a cluster that does not have the winner of a document yet answers a leaf that loses, or
// one that won before it was deleted, with a higher generation. The document is read again, for the feed will not
// bring it once more.
func TestLaggingNode(t *testing.T) {
	for lags, change := range map[fault]func(w *world){
		unwon:    func(w *world) { w.write("d", other); w.couch.graft("d") },
		unfallen: func(w *world) { w.write("d", one); w.couch.fall("d", other) },
	} {
		w := newWorld(t)
		w.couch.clustered = true
		w.write("d", one)
		change(w)
		reads := 0
		w.fault = func(op peer.Op) fault {
			if _, is := op.(peer.ReadDocs); is {
				if reads++; reads < 3 {
					return lags
				}
			}
			return ""
		}
		w.start()
		w.settle(10 * time.Second)
		w.expect("d", jobstore.Pending, "")
		if target := w.target("d"); reads != 3 || target != "http://b/y/" {
			t.Errorf("%s: the document was read %d times, and the job copies to %q", lags, reads, target)
		}
	}
}
