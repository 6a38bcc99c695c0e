package world

import (
	"fmt"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// fill gives a new database its first documents and its filter function.
func (u *users) fill(db *peers.DB) {
	if isSource(db.Name) {
		for i := range u.w.Config.Docs {
			u.edit(db, fmt.Sprint("doc", i), u.site)
		}
	}
	u.editFilter(db)
	if !isSource(db.Name) && u.site.Chance(u.w.Config.Denied*decide.Scale/100) {
		db.Deny["doc2"] = docs.Forbidden("not here")
		if u.site.Chance(decide.Scale / 2) { // its validation function fails over this document
			db.Deny["doc2"] = &docs.Error{Kind: docs.Internal, Name: "TypeError", Reason: "{[]}"}
		}
	}
}

// edit writes a new revision of a document.
func (u *users) edit(db *peers.DB, id string, site *decide.Site) {
	doc := db.Latest(id)
	body := fmt.Sprintf(`{"group":%d,"n":%d}`, site.Int(3), u.next())
	edit := docs.Edit{Document: docs.Document{ID: id, Body: []byte(body)}, Token: uint64(u.next())}
	switch {
	case doc != nil && doc.Deleted:
		edit.Ancestors = []string{doc.Rev.ID} // it begins anew where it ended; this is for those who keep track
	case doc != nil:
		edit.Rev = doc.Rev
	}
	if site.Chance(u.w.Config.Attached * decide.Scale / 100) {
		edit.Attachments = []docs.Attachment{{Name: "a", Type: "text/plain", Content: docs.Inline, Data: []byte(fmt.Sprint("data ", u.n))}}
	}
	db.Write([]docs.Edit{edit})
}

// editFilter changes the text of the database's filter function.
func (u *users) editFilter(db *peers.DB) {
	doc := db.Latest("_design/f")
	edit := docs.Edit{Document: docs.Document{ID: "_design/f", Body: fmt.Appendf(nil, `{"filters":{"pass":"{\"group\":%d}"}}`, u.next()%3)}, Token: uint64(u.next())}
	if doc != nil {
		edit.Rev = doc.Rev
	}
	db.Write([]docs.Edit{edit})
	db.Sync()
}

func (u *users) editDocs(what string, site *decide.Site) {
	var sources []*peers.DB
	for _, db := range u.w.net.databases() {
		if isSource(db.Name) {
			sources = append(sources, db)
		}
	}
	if len(sources) == 0 {
		return
	}
	db := sources[site.Int(len(sources))]
	id := fmt.Sprint("doc", site.Int(2*u.w.Config.Docs+1))
	u.w.Engine.Logf("users", "%s %s in %s", what, id, db)
	switch what {
	case EditDoc:
		u.edit(db, id, site)
	case BurstDocs:
		for i := range 5 + site.Int(20) {
			u.edit(db, fmt.Sprint("burst", i), site)
		}
	case HugeDoc:
		db.Write([]docs.Edit{{Document: docs.Document{ID: fmt.Sprint("huge", u.next()),
			Body: []byte(`{"text":"` + strings.Repeat("x", 1000*(1+site.Int(300))) + `"}`)}, Token: uint64(u.next())}})
	case DeleteDoc:
		if doc := db.Latest(id); doc != nil && !doc.Deleted {
			db.Write([]docs.Edit{{Document: docs.Document{ID: id, Rev: doc.Rev, Deleted: true, Body: []byte("{}")}, Token: uint64(u.next())}})
		}
	case ConflictDoc:
		u.conflict(db, id, 1+site.Int(2), docs.Document{})
	case DeepConflict:
		u.conflict(db, id, 10+site.Int(40), docs.Document{})
	case HeavyConflict:
		u.conflict(db, id, 2+site.Int(8), docs.Document{
			Body:        []byte(`"text":"` + strings.Repeat("x", 101_000*(1+site.Int(2))) + `",`),
			Attachments: []docs.Attachment{{Name: "a", Type: "text/plain", Content: docs.Inline, Data: []byte("data")}},
		})
	}
}

// conflict adds leafs to a document, with the members of a body and the attachments.
func (u *users) conflict(db *peers.DB, id string, leafs int, with docs.Document) {
	edits := make([]docs.Edit, leafs)
	for i := range edits {
		n := u.next()
		rev := revtree.Rev{Gen: 2, ID: fmt.Sprintf("%032x", n)}
		edits[i] = docs.Edit{Replicated: true, Document: docs.Document{ID: id, Rev: rev, Ancestors: []string{fmt.Sprintf("%032x", 7)},
			Body: fmt.Appendf(nil, `{%s"group":%d,"n":%d}`, with.Body, n%3, n), Attachments: with.Attachments}}
	}
	db.Write(edits)
}
