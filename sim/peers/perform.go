package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/peer"
)

// answer is a failure with a status, as CouchDB words it.
func answer(status int, name, reason string) *peer.Failure {
	return &peer.Failure{Kind: peer.Status, Status: status, Error: name, Reason: reason}
}

// statuses are those with which servers refuse documents.
var statuses = map[docs.Kind]int{
	docs.Invalid: 400, docs.Denied: 403, docs.NotFound: 404, docs.Conflict: 409, docs.Precondition: 412,
	docs.TooLarge: 413, docs.Internal: 500,
}

// noDatabase is what a server says when a database is gone.
func noDatabase() *peer.Failure { return answer(404, "not_found", "Database does not exist.") }

// open describes a database.
func (db *DB) open() peer.Result {
	return peer.Opened{UpdateSeq: db.seq(db.last()), InstanceStartTime: InstanceStart(db)}
}

// getLocal reads a checkpoint. It is asked for far more often than it is written.
func (db *DB) getLocal(id string) peer.Local {
	local := db.locals[id]
	if !local.read {
		local = localDoc{db.readLocal(id), true}
		db.locals[id] = local
	}
	return local.Local
}

// localDoc is a _local document that was written or asked for. What is read of it is remembered until the
// next write.
type localDoc struct {
	peer.Local
	read bool
}

func (db *DB) readLocal(id string) peer.Local {
	doc := read(db, func(o *docs.Database) (*docs.Document, error) {
		doc, err := o.Read("_local/"+id, docs.Want{})
		if _, missing := err.(*docs.Error); missing {
			return nil, nil
		}
		return doc, err
	})
	if doc == nil {
		return peer.Local{}
	}
	return peer.Local{Found: true, Rev: doc.Rev.String(), Body: doc.Body}
}

// Log is the body of a _local document; nil when there is none.
func (db *DB) Log(id string) []byte { return db.getLocal(id).Body }

// LogRev is the revision of a _local document; empty when there is none.
func (db *DB) LogRev(id string) string { return db.getLocal(id).Rev }

func (db *DB) putLocal(op peer.PutLocal) (peer.Result, *peer.Failure) {
	doc := docs.Document{ID: "_local/" + op.ID, Body: op.Body}
	if op.Rev != "" {
		rev, err := docs.ParseRev(op.Rev)
		if err != nil {
			return nil, answer(400, "bad_request", err.Error())
		}
		doc.Rev = rev
	}
	found := db.getLocal(op.ID)
	switch {
	case db.Server.MaxDoc == ProxyLimit && len(op.Body) > proxyLog:
		return nil, db.Server.refusesSize().Failure
	case db.Deny[Logs] != nil:
		return nil, answer(cmp.Or(db.Server.RefusesLogs, 403), "forbidden", "This database is only there to be read.")
	case found.Rev == op.Rev:
	case !db.Server.LaxLocals:
		return nil, answer(409, "conflict", "Document update conflict.")
	case found.Found:
		doc.Rev, _ = docs.ParseRev(found.Rev) // it wrote that itself
	default:
		doc.Rev = docs.Document{}.Rev
	}
	if db.Server.Logged != nil {
		db.Server.Logged(db, op.ID, op.Body)
	}
	written := db.Write([]docs.Edit{{Document: doc}})
	db.locals[op.ID] = localDoc{}
	if written[0].Err != nil {
		return nil, answer(statuses[written[0].Err.Kind], written[0].Err.Name, written[0].Err.Reason)
	}
	return peer.LocalWritten{Rev: written[0].Rev.String()}, nil
}

// TakeLogs has those checkpoints arrive that were sent to another database of its name.
func (db *DB) TakeLogs(old *DB, those func(id string) bool) {
	for _, id := range slices.Sorted(maps.Keys(old.locals)) {
		if log := old.getLocal(id); log.Found && those(id) {
			// Servers that compare revisions refuse it.
			_, _ = db.putLocal(peer.PutLocal{ID: id, Rev: log.Rev, Body: log.Body})
		}
	}
}

// MoveLog has a _local document, if it is there, stand under another id.
func MoveLog(db *DB, from, to string) {
	log := db.getLocal(from)
	if !log.Found {
		return
	}
	rev, _ := docs.ParseRev(log.Rev) // it wrote that itself
	db.Write([]docs.Edit{
		{Document: docs.Document{ID: "_local/" + from, Rev: rev, Deleted: true}},
		{Document: docs.Document{ID: "_local/" + to, Body: log.Body}},
	})
	db.locals[from], db.locals[to] = localDoc{}, localDoc{}
}

// diff tells which revisions the database lacks.
func (db *DB) diff(op peer.DiffRevs) peer.Reply {
	if t := db.Server.Traits; t.MaxDoc == ProxyLimit && len(op.Docs) > proxyAsks {
		return t.refusesSize()
	}
	var wanted []docs.Wanted
	for _, d := range op.Docs {
		if failure := unreadable(db, d.ID); failure != nil {
			return peer.Reply{Failure: failure}
		}
		w := docs.Wanted{ID: d.ID}
		for _, rev := range d.Revs {
			if r, err := revtree.ParseRev(rev); err == nil {
				w.Revs = append(w.Revs, r)
			}
		}
		wanted = append(wanted, w)
	}
	var result peer.Diff
	for len(wanted) > 0 {
		compared := 0
		for _, d := range read(db, func(o *docs.Database) (diffs []docs.Diff, err error) {
			diffs, compared, err = o.Diff(wanted)
			return diffs, err
		}) {
			m := peer.DocMissing{ID: d.ID}
			for _, rev := range d.Missing {
				m.Missing = append(m.Missing, rev.String())
			}
			for _, rev := range d.Ancestors {
				m.Ancestors = append(m.Ancestors, rev.String())
			}
			result.Docs = append(result.Docs, m)
		}
		wanted = wanted[compared:]
	}
	return peer.Reply{Result: result}
}

// revs reads revisions of a document as a replicator asks for them: a newer leaf stands for one that is
// none any more. What the database does not have is nil.
func (db *DB) revs(id string, revs []string) []*docs.Document {
	w := docs.Wanted{ID: id}
	for _, rev := range revs {
		r, err := revtree.ParseRev(rev)
		if err != nil {
			return nil
		}
		w.Revs = append(w.Revs, r)
	}
	return read(db, func(o *docs.Database) (found []*docs.Document, err error) {
		opened, err := o.OpenRevs([]docs.Wanted{w}, true)
		if err != nil || len(opened) == 0 {
			return nil, err
		}
		for _, one := range opened[0] {
			if one.Doc != nil {
				if err := inline(o, one.Doc); err != nil {
					return nil, err
				}
			}
			found = append(found, one.Doc)
		}
		return found, nil
	})
}

// Gives reports whether the database has a revision itself to give, and not only a newer one in its place.
func Gives(db *DB, id, rev string) bool {
	found := db.revs(id, []string{rev})
	return len(found) == 1 && found[0] != nil && found[0].Rev.String() == rev
}

// inline reads the attachments of a document, which are small in this world.
func inline(o *docs.Database, d *docs.Document) error {
	for i := range d.Attachments {
		a := &d.Attachments[i]
		data, err := o.ReadAttachment(a, 0, docs.MaxInline)
		if err != nil {
			return err
		}
		a.Content, a.Data = docs.Inline, data
	}
	return nil
}

// replicated writes a document with its history, as new_edits=false does.
func (db *DB) replicated(list []*docs.Document) []docs.Written {
	edits := make([]docs.Edit, len(list))
	for i, d := range list {
		edits[i] = docs.Edit{Document: *d, Replicated: true}
	}
	db.copying = true
	defer func() { db.copying = false }()
	return db.Write(edits)
}

func (db *DB) String() string { return fmt.Sprintf("%s/%s", db.Server.Name, db.Name) }

// Find splits a URL of this world, http://SERVER/DB/.
func Find(url string) (server, db string) {
	server, db, _ = strings.Cut(strings.TrimPrefix(strings.TrimSuffix(url, "/"), "http://"), "/")
	return server, db
}
