package peers

import (
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// damaged are revisions of a database that its server cannot read, such as those whose attachments are on a damaged
// part of a disk. Each answer to a request for one of them ends before it.
type damaged struct {
	unread map[Revision]damage
	sound  bool // nothing is damaged any more, also by requests that are under way
}

// damage is how requests for a revision end. All but torn are of databases that are followed.
type damage uint8

const (
	torn   damage = iota + 1 // before it
	barred                   // so do those that only ask whether it is there
	slow                     // they, and those, take the server longer than any client waits
	absent                   // they do not find it, though it is announced
)

// damage makes one of the documents unreadable. Those that are nil are not there.
func (s *damaged) damage(list []*docs.Document) {
	list = slices.DeleteFunc(slices.Clone(list), func(d *docs.Document) bool { return d == nil })
	if len(list) > 0 {
		s.set(list[int(list[0].Rev.ID[0])%len(list)], torn) // whichever
	}
}

// spoil makes a document of a followed database unreadable, in a way that its revision tells; nil is not there.
func (s *damaged) spoil(d *docs.Document) {
	if d != nil {
		s.set(d, torn+damage(d.Rev.ID[len(d.Rev.ID)-1]%4))
	}
}

func (s *damaged) set(d *docs.Document, how damage) {
	if s.sound {
		return
	}
	if s.unread == nil {
		s.unread = map[Revision]damage{}
	}
	s.unread[Revision{d.ID, d.Rev.String()}] = how
}

// how is the damage of a document; 0 if there is none.
func (s *damaged) how(d *docs.Document) damage {
	if d == nil {
		return 0
	}
	return s.unread[Revision{d.ID, d.Rev.String()}]
}

// readable returns how many of the documents come before one that cannot be read, and how an answer fails that is to
// have all of them; nil if all can be read.
func (s *damaged) readable(list []*docs.Document) (int, *peer.Failure) {
	bad := func(d *docs.Document) bool { return s.how(d) != 0 }
	switch i := slices.IndexFunc(list, bad); i {
	case -1:
		return len(list), nil
	case 0:
		return 0, answer(500, "unknown_error", "badmatch")
	default:
		return i, &peer.Failure{Kind: peer.Broken}
	}
}

// asked returns how a question whether a document has revisions fails, and whether it does not find them.
func (s *damaged) asked(d *docs.Document) (lacks bool, failure *peer.Failure) {
	switch s.how(d) {
	case barred:
		failure = answer(500, "unknown_error", "badmatch")
	case slow:
		failure = &peer.Failure{Kind: peer.TimedOut}
	case absent:
		lacks = true
	}
	return lacks, failure
}

// Repair makes all that a database has readable, for good.
func Repair(db *DB) { db.damaged = damaged{sound: true} }

// Damage makes a document unreadable.
func Damage(db *DB, id string) { db.damage([]*docs.Document{db.Latest(id)}) }

// Wreck leaves all that a database has as it is: what is damaged stays so, and nothing else is damaged any more.
func Wreck(db *DB) { db.sound = true }

// Unreadable reports whether the server cannot read a document of a database.
func Unreadable(db *DB, id string) bool { return db.how(db.Latest(id)) != 0 }
