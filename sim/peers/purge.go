package peers

import (
	"maps"
	"slices"

	"couchrelay/core/kv"
)

// Purge removes a document as _purge does: neither a feed nor a read tells that there ever was one. The numbers of
// its changes stay unused.
func (db *DB) Purge(id string) {
	for r := range db.known {
		if r.ID == id {
			db.purged[r] = true
		}
	}
	db.purges = append(db.purges, id)
	db.erase(id)
}

// Purged reports whether a revision was there and was purged.
func (db *DB) Purged(id, rev string) bool { return db.purged[Revision{id, rev}] }

// erase removes all that the store has of a document, but for the counters, which no client of this world asks for,
// and the bytes of attachments.
func (db *DB) erase(id string) {
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
