package peer

import (
	"slices"
	"strings"
)

// Mark is what a change of a database has left of a document: the leaf that the server names first, which is the
// winner in CouchDB, and in Others the other leaves, with spaces between them, at most maxOthers. One of the leaves is
// new with the change, and it need not be the winner. A database that does not know all of them, as leaves or in the
// history of one, was put back to before the change.
type Mark struct {
	ID, Rev string
	Others  string `json:",omitempty"`
}

// maxOthers bounds the leaves in Others, since one request names them all. A database that was put back and lacks
// nothing but a leaf behind these is not noticed.
const maxOthers = 50

// MarkOf is the mark of a document with these leaves.
func MarkOf(id, rev string, others []string) Mark {
	return Mark{id, rev, strings.Join(others[:min(len(others), maxOthers)], " ")}
}

// Find asks whether the source still has the change.
func (m Mark) Find() FindRev {
	return FindRev{ID: m.ID, Revs: append([]string{m.Rev}, strings.Fields(m.Others)...)}
}

// In reports whether a row of the feed has the change.
func (m Mark) In(row Change) bool {
	lacks := func(rev string) bool { return !slices.Contains(row.Revs, rev) }
	return row.ID == m.ID && !slices.ContainsFunc(m.Find().Revs, lacks)
}
