package peers

import (
	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// unreadable is the answer to a request that is about a document which the server cannot read: it fails as a whole,
// whatever else is in it. It is nil if the server can read the document.
func unreadable(db *DB, id string) *peer.Failure {
	if said := db.Deny[id]; said != nil && said.Kind == docs.Invalid {
		return answer(400, said.Name, said.Reason)
	}
	return nil
}
