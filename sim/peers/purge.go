package peers

import (
	"maps"
	"slices"

	"couchrelay/core/kv"
)

// purges are what a database does not have any more, and never shows that it had.
type purges struct {
	ids  []string          // of documents, one for each purge so far
	revs map[Revision]bool // all that they removed
}

// Purge removes a document as _purge does: neither a feed nor a read tells that there ever was one. The numbers of
// its changes stay unused.
func Purge(db *DB, id string) {
	for r := range db.known { // in any order
		if r.ID == id {
			db.purged.revs[r] = true
		}
	}
	db.purged.ids = append(db.purged.ids, id)
	erase(db, id)
}

// Purged reports whether a revision was there and was purged.
func Purged(db *DB, id, rev string) bool { return db.purged.revs[Revision{id, rev}] }

// erase removes all that the store has of a document, but for the counters, which no client of this world asks for,
// and the bytes of attachments.
func erase(db *DB, id string) {
	db.do(func(tx kv.Tx) error {
		for _, pair := range db.store.Pairs() {
			key, err := root.Unpack(pair.Key)
			if err != nil {
				return err
			}
			if slices.Contains(key, any(id)) {
				tx.Clear(pair.Key)
			}
		}
		return nil
	})
	maps.DeleteFunc(db.known, func(r Revision, _ bool) bool { return r.ID == id })
	db.views = map[string]*view{}
}
