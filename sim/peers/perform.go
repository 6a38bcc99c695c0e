package peers

import (
	"encoding/json"
	"fmt"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/mango"
	"couchrelay/core/peer"
	"couchrelay/core/repdoc"
)

// answer is a failure with a status, as CouchDB words it.
func answer(status int, name, reason string) *peer.Failure {
	return &peer.Failure{Kind: peer.Status, Status: status, Error: name, Reason: reason}
}

// noDatabase is what a server says when a database is gone.
func noDatabase() *peer.Failure { return answer(404, "not_found", "Database does not exist.") }

// open describes a database.
func (db *DB) open() peer.Result {
	return peer.Opened{UpdateSeq: db.seq(db.last()), InstanceStartTime: db.start}
}

func (db *DB) getLocal(id string) peer.Result {
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

func (db *DB) putLocal(op peer.PutLocal) (peer.Result, *peer.Failure) {
	doc := docs.Document{ID: "_local/" + op.ID, Body: op.Body}
	if op.Rev != "" {
		rev, err := docs.ParseRev(op.Rev)
		if err != nil {
			return nil, answer(400, "bad_request", err.Error())
		}
		doc.Rev = rev
	}
	if found := db.getLocal(op.ID).(peer.Local); found.Rev != op.Rev {
		return nil, answer(409, "conflict", "Document update conflict.")
	}
	if db.Server.Logged != nil {
		db.Server.Logged(db, op.ID, op.Body)
	}
	written := db.Write([]docs.Edit{{Document: doc}})
	if written[0].Err != nil {
		return nil, answer(written[0].Err.Status, written[0].Err.Name, written[0].Err.Reason)
	}
	return peer.LocalWritten{Rev: written[0].Rev.String()}, nil
}

// filterCode is the text of a filter function: in this world, a Mango selector.
func (db *DB) filterCode(op peer.GetFilter) (string, *peer.Failure) {
	doc := read(db, func(o *docs.Database) (*docs.Document, error) {
		doc, err := o.Read("_design/"+op.DesignDoc, docs.Want{})
		if _, missing := err.(*docs.Error); missing {
			return nil, nil
		}
		return doc, err
	})
	if doc == nil {
		return "", answer(404, "not_found", "missing")
	}
	var ddoc struct{ Filters map[string]string }
	if err := json.Unmarshal(doc.Body, &ddoc); err != nil || ddoc.Filters[op.Name] == "" {
		return "", answer(404, "not_found", "missing filter function")
	}
	return ddoc.Filters[op.Name], nil
}

// selected is the test that a replication's filter makes of a change's documents; nil takes all.
func (db *DB) selected(f repdoc.Filter) (id func(string) bool, match func(*docs.Document) bool, failure *peer.Failure) {
	selector := string(f.Selector)
	switch f.Kind {
	case repdoc.DocIDs:
		return docs.IDs(f.DocIDs), nil, nil
	case repdoc.FunctionFilter:
		ddoc, name := f.DesignDoc()
		if selector, failure = db.filterCode(peer.GetFilter{DesignDoc: ddoc, Name: name}); failure != nil {
			return nil, nil, failure
		}
	case repdoc.Selector:
	default:
		return nil, nil, nil
	}
	compiled, err := mango.Compile([]byte(selector))
	if err != nil {
		return nil, nil, answer(400, "bad_request", err.Error())
	}
	return nil, func(d *docs.Document) bool {
		ok, err := compiled.Match(d.Body, mango.Field{Name: "_id", Value: docs.AppendQuoted(nil, d.ID)})
		return err == nil && ok
	}, nil
}

// FilterWorks says whether a filter can be applied here.
func (db *DB) FilterWorks(f repdoc.Filter) *peer.Failure {
	_, _, failure := db.selected(f)
	return failure
}

// changes are all rows after a number.
func (db *DB) changes(since int64, f repdoc.Filter, winners bool) ([]peer.Change, *peer.Failure) {
	id, match, failure := db.selected(f)
	if failure != nil {
		return nil, failure
	}
	var rows []peer.Change
	from := docs.Seq{}
	if since = min(since, db.last()); since > 0 {
		from = db.order[since-1]
	}
	for {
		page := read(db, func(o *docs.Database) (docs.Page, error) {
			return o.Changes(docs.Query{Since: from, Limit: 1000, AllDocs: !winners, ID: id, Match: match})
		})
		for _, r := range page.Rows {
			row := peer.Change{Seq: db.seq(db.numbers[r.Seq]), ID: r.ID}
			for _, rev := range r.Revs {
				row.Revs = append(row.Revs, rev.String())
			}
			rows = append(rows, row)
		}
		if from = page.Last; !page.More {
			return rows, nil
		}
	}
}

func (db *DB) pending(since int64) int64 {
	if db.Server.NoPending {
		return -1
	}
	rows, _ := db.changes(since, repdoc.Filter{}, false)
	return int64(len(rows))
}

func (db *DB) diff(op peer.DiffRevs) peer.Result {
	var wanted []docs.Wanted
	for _, d := range op.Docs {
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
	return result
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
	var found []*docs.Document
	db.do(func(tx kv.Tx) error {
		found = nil
		o, err := db.docs.Open(tx, "db")
		if err != nil {
			return err
		}
		opened, err := o.OpenRevs([]docs.Wanted{w}, true)
		if err != nil || len(opened) == 0 {
			return err
		}
		for _, one := range opened[0] {
			if one.Doc != nil {
				if err := inline(o, one.Doc); err != nil {
					return err
				}
			}
			found = append(found, one.Doc)
		}
		return nil
	})
	return found
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
