package jobstore

import (
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
)

// TestParsedOnce: what a body asks for is parsed once, though it is asked for what to read ahead, for the validation,
// and for the job.
func TestParsedOnce(t *testing.T) {
	c, err := parseContent([]byte(simple))
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.replication(spec.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.replication(spec.DefaultConfig()); again != first {
		t.Error("it is parsed again")
	}
}

// TestTombstoneLikeADocument: what is found of a body that is written twice in one request is found for tombstones and
// documents apart.
func TestTombstoneLikeADocument(t *testing.T) {
	b := newBench(t)
	b.put("gone", simple, admin)
	b.do1(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := db.Read("gone", docs.Want{})
		if err != nil {
			return err
		}
		tombstone := docs.Document{ID: "gone", Rev: doc.Rev, Deleted: true, Body: []byte("{}")}
		edits := []docs.Edit{{Document: tombstone}, {Document: docs.Document{ID: "new", Body: []byte("{}")}}}
		written, err := b.s.WriteDocs(tx, db, edits, admin, b.now)
		if err == nil && (written[0].Err != nil || written[1].Err == nil) {
			t.Errorf("a tombstone: %v; a document that asks for nothing: %v", written[0].Err, written[1].Err)
		}
		return err
	})
}
