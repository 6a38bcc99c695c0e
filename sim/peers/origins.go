package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv/mix"
	"couchrelay/core/spec"
)

// Revision names a revision of a document.
type Revision struct{ ID, Rev string }

func (r Revision) String() string { return r.ID + " " + r.Rev }

// Origins has every revision that users made, on all servers.
type Origins struct {
	// Made has hashes of the revisions' contents. The hash of an ancestor that a user only named is 0.
	Made map[Revision]uint64
	// Wrong is called for a revision that a database has and that no user made like that, or that it does not
	// show.
	Wrong func(db *DB, r Revision, what string)
}

// content returns a hash of what users write into a document. It is never 0.
func content(d *docs.Document) uint64 {
	h := mix.Bytes(mix.String(fmt.Sprint(d.Deleted)), d.Body)
	for _, a := range d.Attachments {
		h = mix.Bytes(mix.Pair(h, mix.String(fmt.Sprint(a.Name, a.Type))), a.Data)
	}
	return h | 1
}

// remember notes the revisions that an edit brought.
func (db *DB) remember(e docs.Edit, w docs.Written) {
	if strings.HasPrefix(w.ID, "_local/") {
		return
	}
	if w.ID == "_design/f" {
		db.Edited = db.Server.now()
	}
	newest := Revision{w.ID, w.Rev.String()}
	if _, has := db.known[newest]; !has { // or it may have been superseded before
		db.known[newest] = false
	}
	db.trace(newest, written(db, &e.Document, w.Rev))
	before := e.Ancestors
	if !e.Replicated && !e.Rev.IsZero() {
		before = []string{e.Rev.ID}
	}
	for i, id := range before {
		r := Revision{w.ID, fmt.Sprintf("%d-%s", w.Rev.Gen-int64(i)-1, id)}
		db.known[r] = true
		db.trace(r, 0)
	}
}

// written is the content of a document that is being written, with the attachments that its stubs stand for. It
// is 0 if that cannot be told, since the revision is no leaf.
func written(db *DB, d *docs.Document, rev revtree.Rev) uint64 {
	if !hasStub(d) {
		return content(d)
	}
	found := db.revs(d.ID, []string{rev.String()})
	if len(found) != 1 || found[0] == nil || found[0].Rev != rev {
		return 0
	}
	return content(found[0])
}

// trace compares a revision that is being written with what users made.
func (db *DB) trace(r Revision, content uint64) {
	origins := db.Server.Origins
	if origins == nil {
		return
	}
	made, known := origins.Made[r]
	switch {
	case !known && db.copying:
		origins.Wrong(db, r, "was written, and nobody made it")
	case !known, made == 0 && !db.copying:
		origins.Made[r] = content
	case content != 0 && made != content:
		origins.Wrong(db, r, "was written, and its user wrote something else")
	}
}

// CheckLeaves compares what the database shows with what was written to it: each revision that no other
// follows is in the feed, and can be read as its user wrote it.
func (db *DB) CheckLeaves() {
	shown := map[Revision]bool{}
	for _, offer := range db.Offers(spec.Filter{}, false) {
		for _, rev := range offer.Revs {
			shown[Revision{offer.ID, rev}] = true
		}
	}
	byName := func(a, b Revision) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Rev, b.Rev)) }
	for _, r := range slices.SortedFunc(maps.Keys(db.known), byName) {
		if superseded := db.known[r]; superseded == shown[r] {
			db.Server.Origins.Wrong(db, r,
				fmt.Sprintf("is in the feed: %v, and another one follows it: %v", shown[r], superseded))
			return
		} else if superseded {
			continue
		}
		if found := db.revs(r.ID, []string{r.Rev}); len(found) != 1 || found[0] == nil ||
			found[0].Rev.String() != r.Rev || content(found[0]) != db.Server.Origins.Made[r] {
			db.Server.Origins.Wrong(db, r, "is not read as it was written")
			return
		}
	}
}
