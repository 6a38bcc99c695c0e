package peers

import (
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/spec"
)

// A purged document is in no feed and cannot be read, also when the database is put back; others stay, and it may be
// written anew.
func TestPurge(t *testing.T) {
	now := instant.Time(0)
	s := NewServer("s1", Traits{}, func() instant.Time { now = now.Add(time.Second); return now })
	s.Origins = &Origins{Made: map[Revision]uint64{}, Wrong: func(_ *DB, r Revision, what string) {
		t.Errorf("%s %s", r, what)
	}}
	db := s.Create("a1")
	write := func(id string) string {
		data := docs.Attachment{Name: "a", Type: "text/plain", Content: docs.Inline, Data: []byte("data")}
		doc := docs.Document{ID: id, Body: []byte("{}"), Attachments: []docs.Attachment{data}}
		return db.Write([]docs.Edit{{Document: doc}})[0].Rev.String()
	}
	there := func(want ...string) {
		t.Helper()
		offers := db.Offers(spec.Filter{}, false)
		if len(offers) != len(want) {
			t.Fatalf("the feed has %v, not %v", offers, want)
		}
		for i, o := range offers {
			if o.ID != want[i] {
				t.Errorf("row %d is of %s, not %s", i, o.ID, want[i])
			}
		}
		db.CheckLeaves()
	}
	rev := write("doc1")
	write("doc2")
	backup := db.Snapshot()
	there("doc1", "doc2")
	Purge(db, "doc1")
	there("doc2")
	if db.Has("doc1", rev) || db.Latest("doc1") != nil || !Purged(db, "doc1", rev) || Purged(db, "doc2", rev) {
		t.Error("doc1 was purged, and is known")
	}
	db.Restore(backup)
	there("doc2")
	write("doc1")
	there("doc2", "doc1")
}
