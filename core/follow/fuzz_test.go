package follow_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/peer"
)

// FuzzDocument has a followed database hold a document with any members. Whatever they are, the document behind it gets
// its job, and the service writes nothing but its state into the document. A write that is refused is repeated after
// longer and longer pauses.
func FuzzDocument(f *testing.F) {
	for _, members := range []string{
		`"source":"http://h/a","target":"http://h/b","continuous":true}`, `"source":7}`, `}`,
		`"source":"http://h/a","target":"http://h/b","_replication_state":"completed"}`,
		`"source":"http://h/a","target":"http://h/b","_replication_state":{"a":[]},"_replication_id":5}`,
		`"source":{"url":"http://u:p@h/a","headers":{"A":"b"}},"target":{"url":""},"owner":["x"],"n":1e400}`,
		`"a":1,"a":2,"_attachments":{"x":{"stub":true}},"_unknown":null}`,
		`"source":7,"_attachments":{"x":{"stub":true}}}`, "\"\xff\":\"\\ud800\"}", `"a":`, "",
	} {
		f.Add(members)
	}
	f.Fuzz(func(t *testing.T, members string) {
		w := newWorld(t)
		w.couch.put("d", "", "{"+members, false)
		w.write("e", one)
		before, wrote := membersOf("{"+members), 0
		w.fault = func(op peer.Op) fault {
			if e, is := op.(peer.EditDocs); is {
				wrote += len(e.Docs)
			}
			return ""
		}
		w.start()
		w.settle(30 * time.Second)
		if state, _ := w.job("e"); state == "" {
			t.Error("the document behind it has no job")
		}
		if wrote > 10 {
			t.Errorf("written %d times", wrote)
		}
		if after := membersOf(w.couch.docs["d"].body); !maps.Equal(before, after) {
			t.Errorf("it had %q, and has %q", before, after)
		}
	})
}

// membersOf are the members of a document but for those of a replicator, as texts; nil for no document.
func membersOf(body string) map[string]string {
	doc, err := ejson.Parse([]byte(body))
	if err != nil || doc.Kind != ejson.Object {
		return nil
	}
	all := map[string]string{}
	for _, m := range doc.Members {
		if !slices.Contains(docs.ReplicationMembers, m.Name) {
			all[m.Name] = string(m.Value.Append(nil))
		}
	}
	return all
}
