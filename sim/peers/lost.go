package peers

import (
	"fmt"
	"strconv"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// past is what a database had before it was put back.
type past struct {
	order []docs.Seq
	known map[Revision]bool
}

// Lost reports whether a database was put back to before the change of a document that a sequence names, and a revision
// that the document had then is gone. One that is put back once more, or written again as it was, may have all of them.
func Lost(db *DB, s peer.Seq, id string) bool {
	n, epoch := named(db, s)
	if epoch == db.epoch || n == 0 || n <= db.last() && db.order[n-1] == db.lost[epoch].order[n-1] {
		return false
	}
	for r := range db.lost[epoch].known { // in any order
		if r.ID == id && !db.Has(id, r.Rev) && !Purged(db, id, r.Rev) {
			return true
		}
	}
	return false
}

// named is what a sequence says: the number of a change, and in which epoch it had it.
func named(db *DB, s peer.Seq) (n int64, epoch int) {
	number, rest, worded := strings.Cut(strings.Trim(string(s), `"`), string([]rune{db.comma(), 'b'}))
	n, _ = strconv.ParseInt(number, 10, 64) // what is no sequence covers nothing
	n = db.jumps.counted(n)
	if !worded {
		return n, db.epoch
	}
	rest, _, _ = strings.Cut(rest, "w")
	born, last, _ := strings.Cut(rest, "e")
	if born != fmt.Sprint(db.born) {
		return 0, db.epoch // of another database that had the name
	}
	epoch, _ = strconv.Atoi(last)
	return n, epoch
}
