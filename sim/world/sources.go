package world

import (
	"fmt"
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// fill gives a new database its first documents and its filter function.
func (u *users) fill(db *peers.DB) {
	if isSource(db.Name) {
		if db.Server.RefusesLogs > 0 && !u.w.healed {
			db.Deny[peers.Logs] = docs.Forbidden("read only")
		}
		for i := range u.w.Config.Docs {
			u.edit(db, fmt.Sprint("doc", i), u.site)
		}
	}
	u.editFilter(db)
	if !isSource(db.Name) && !u.corrected && u.site.Chance(u.w.Config.Denied*decide.Scale/100) {
		db.Deny["doc2"] = docs.Forbidden("not here")
		if u.site.Chance(decide.Scale / 2) { // its validation function fails over this document
			db.Deny["doc2"] = &docs.Error{Kind: docs.Internal, Name: "TypeError", Reason: "{[]}"}
		}
		if u.w.Config.choosesOnRefusal() {
			denyMore(db, u.refuses)
		}
	}
	if !isSource(db.Name) && !u.corrected {
		illegible(u, db)
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
		edit.Attachments = []docs.Attachment{{Name: []string{"a", "b", "c"}[u.n%3], Type: "text/plain",
			Content: docs.Inline, Data: []byte(fmt.Sprint("data ", u.n))}}
	}
	if doc != nil && !doc.Deleted && u.n%3 > 0 {
		edit.Attachments = carried(doc, edit.Attachments)
	}
	db.Write([]docs.Edit{edit})
}

// carried adds the attachments that a document has to those of its next revision, but for the one that is replaced.
func carried(doc *docs.Document, list []docs.Attachment) []docs.Attachment {
	for _, a := range doc.Attachments {
		if !slices.ContainsFunc(list, func(b docs.Attachment) bool { return a.Name == b.Name }) {
			list = append(list, docs.Attachment{Name: a.Name, Type: a.Type, RevPos: a.RevPos, Content: docs.Stub})
		}
	}
	return list
}

// editFilter changes the text of the database's filter function.
func (u *users) editFilter(db *peers.DB) {
	doc := db.Latest("_design/f")
	edit := docs.Edit{Document: docs.Document{ID: "_design/f",
		Body: fmt.Appendf(nil, `{"filters":{"pass":"{\"group\":%d}"}}`, u.next()%3)}, Token: uint64(u.next())}
	if doc != nil {
		edit.Rev = doc.Rev
	}
	db.Write([]docs.Edit{edit})
	db.Sync()
}

// losingLeaf adds a leaf to a document that loses against any other one that is not deleted.
func losingLeaf(u *users, db *peers.DB, id string) {
	n := u.next()
	leaf := docs.Document{ID: id, Rev: revtree.Rev{Gen: 1, ID: fmt.Sprintf("%032x", n)},
		Body: fmt.Appendf(nil, `{"group":%d,"n":%d}`, n%3, n)}
	db.Write([]docs.Edit{{Document: leaf, Replicated: true}})
}

// conflict adds leafs to a document, with the members of a body and the attachments.
func (u *users) conflict(db *peers.DB, id string, leafs int, with docs.Document) {
	edits := make([]docs.Edit, leafs)
	for i := range edits {
		n := u.next()
		rev := revtree.Rev{Gen: 2, ID: fmt.Sprintf("%032x", n)}
		edits[i] = docs.Edit{Replicated: true,
			Document: docs.Document{ID: id, Rev: rev, Ancestors: []string{fmt.Sprintf("%032x", 7)},
				Body: fmt.Appendf(nil, `{%s"group":%d,"n":%d}`, with.Body, n%3, n), Attachments: with.Attachments}}
	}
	db.Write(edits)
}
