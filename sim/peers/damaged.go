package peers

import (
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// damaged are revisions of a database that its server cannot read, such as those whose attachments are on a damaged
// part of a disk. Each answer to a request for one of them ends before it.
type damaged struct {
	unread map[Revision]bool
	sound  bool // nothing is damaged any more, also by requests that are under way
}

// damage makes one of the documents unreadable. Those that are nil are not there.
func (s *damaged) damage(list []*docs.Document) {
	list = slices.DeleteFunc(slices.Clone(list), func(d *docs.Document) bool { return d == nil })
	if s.sound || len(list) == 0 {
		return
	}
	if s.unread == nil {
		s.unread = map[Revision]bool{}
	}
	d := list[int(list[0].Rev.ID[0])%len(list)] // whichever
	s.unread[Revision{d.ID, d.Rev.String()}] = true
}

// readable returns how many of the documents come before one that cannot be read, and how an answer fails that is to
// have all of them; nil if all can be read.
func (s *damaged) readable(list []*docs.Document) (int, *peer.Failure) {
	bad := func(d *docs.Document) bool { return d != nil && s.unread[Revision{d.ID, d.Rev.String()}] }
	switch i := slices.IndexFunc(list, bad); i {
	case -1:
		return len(list), nil
	case 0:
		return 0, answer(500, "unknown_error", "badmatch")
	default:
		return i, &peer.Failure{Kind: peer.Broken}
	}
}

// Repair makes all that a database has readable, for good.
func Repair(db *DB) { db.damaged = damaged{sound: true} }

// Damage makes a document unreadable.
func Damage(db *DB, id string) { db.damage([]*docs.Document{db.Latest(id)}) }

// Wreck leaves all that a database has as it is: what is damaged stays so, and nothing else is damaged any more.
func Wreck(db *DB) { db.sound = true }

// Unreadable reports whether the server cannot read a document of a database.
func Unreadable(db *DB, id string) bool {
	_, failure := db.readable([]*docs.Document{db.Latest(id)})
	return failure != nil
}
