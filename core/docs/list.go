package docs

import (
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Listing asks for a page of the list of documents, in the bytewise order of their ids.
type Listing struct {
	From       *string // the first id to be listed; nil for the beginning
	After      bool    // From itself is left out
	To         *string // the last id to be listed; nil for the end
	Before     bool    // To itself is left out
	Descending bool    // From is then the highest id, To the lowest
	Limit      int     // rows at most; a page may well have fewer
	Docs       bool    // read the documents
	Conflicts  bool    // with these, name their other leaves that are not deleted
}

// Listed is a row of the list.
type Listed struct {
	ID      string
	Rev     revtree.Rev
	Deleted bool      // only if the row was asked for by its id
	Doc     *Document // if it was asked for
}

// List reads the documents that are not deleted. more reports whether the list goes on after the last row.
func (db *Database) List(l Listing) (rows []Listed, more bool, err error) {
	r, look := db.listRange(keyAlive, l), scanRows
	if l.Docs {
		look = scanDocs
	}
	look = min(look, l.Limit)
	if r.Empty() || look <= 0 {
		return nil, false, nil
	}
	pairs, err := db.tx.GetRange(r, kv.RangeOptions{Limit: look, Reverse: l.Descending})
	if err != nil {
		return nil, false, err
	}
	rows = make([]Listed, len(pairs))
	for i, pair := range pairs {
		if err := tuple.Subspace(db.key(keyAlive)).Scan(pair.Key, &rows[i].ID); err != nil {
			return nil, false, err
		}
		if len(pair.Value) < seqSize {
			return nil, false, malformed("entry of document %q", rows[i].ID)
		}
		if rows[i].Rev, err = revtree.ParseRev(string(pair.Value[seqSize:])); err != nil {
			return nil, false, malformed("entry of document %q", rows[i].ID)
		}
	}
	more = len(rows) == look
	if l.Docs {
		n := len(rows)
		rows, err = db.listDocs(rows, l.Conflicts)
		more = more || len(rows) < n
	}
	return rows, more, err
}

// Designs reads all design documents of a database that are not deleted, before the transaction has written any.
func Designs(db *Database) (found []*Document, err error) {
	const page = 100
	from, to := "_design/", "_design0"
	l := Listing{From: &from, To: &to, Before: true, Limit: page, Docs: true}
	for more := true; more; {
		var rows []Listed
		if rows, more, err = db.List(l); err != nil || len(rows) == 0 {
			return found, err
		}
		for i := range rows {
			found = append(found, rows[i].Doc)
		}
		l.From, l.After = &rows[len(rows)-1].ID, true
	}
	return found, nil
}

// CountDesigns counts the design documents of a database that are not deleted, and those before an id.
func CountDesigns(db *Database, id string) (total, before int64, err error) {
	from, to := "_design/", "_design0"
	l := Listing{From: &from, To: &to, Before: true, Limit: scanRows}
	for more := true; more; {
		var rows []Listed
		if rows, more, err = db.List(l); err != nil || len(rows) == 0 {
			return total, before, err
		}
		total += int64(len(rows))
		for i := range rows {
			if rows[i].ID < id {
				before++
			}
		}
		l.From, l.After = &rows[len(rows)-1].ID, true
	}
	return total, before, nil
}

// listRange is the range of the rows of a kind that a listing is about. Other rows with an id may follow its first.
func (db *Database) listRange(kind int, l Listing) kv.Range {
	all := kv.Range{Begin: db.key(kind), End: append(db.key(kind), 0xff)}
	after := kv.KeyAfter
	if kind == keyLocal {
		after = func(key []byte) []byte { return append(key, 0xff) }
	}
	from, to, notFrom, notTo := l.From, l.To, l.After, l.Before
	if l.Descending {
		from, to, notFrom, notTo = to, from, notTo, notFrom
	}
	if from != nil {
		if all.Begin = db.idKey(kind, *from); notFrom {
			all.Begin = after(all.Begin)
		}
	}
	if to != nil {
		if all.End = db.idKey(kind, *to); !notTo {
			all.End = after(all.End)
		}
	}
	return all
}

// listDocs reads the winners of as many rows as one transaction should read, at least of the first.
func (db *Database) listDocs(rows []Listed, conflicts bool) ([]Listed, error) {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	records, err := someRecords(db, ids)
	if err != nil {
		return nil, err
	}
	rows = rows[:len(records)]
	var want []leafOf
	chunks := 0
	for i, r := range records {
		winner, _ := r.tree.Winner()
		want = append(want, leafOf{r, winner})
		if chunks += winner.Chunks; chunks >= readChunks {
			rows = rows[:i+1]
			break
		}
	}
	docs, err := db.leaves(want)
	for i := range docs {
		rows[i].Doc = docs[i]
		docs[i].addLeaves(want[i].record, Want{Conflicts: conflicts})
	}
	return rows, err
}

// ListIDs looks documents up by their ids, also deleted ones: as many as one transaction should read, at
// least the first. A document that never existed has no revision. Of the listing counts what is to be read.
func (db *Database) ListIDs(ids []string, l Listing) ([]Listed, error) {
	ids = ids[:min(len(ids), scanDocs)]
	records, err := someRecords(db, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]Listed, 0, len(ids))
	var want []leafOf
	var read []int // rows whose documents are read
	chunks := 0
	for i, r := range records {
		winner, exists := r.tree.Winner()
		rows = append(rows, Listed{ID: ids[i], Rev: winner.Rev, Deleted: winner.Deleted})
		if l.Docs && exists && !winner.Deleted {
			want, read = append(want, leafOf{r, winner}), append(read, i)
			if chunks += winner.Chunks; chunks >= readChunks {
				break
			}
		}
	}
	found, err := db.leaves(want)
	for i, d := range found {
		rows[read[i]].Doc = d
		d.addLeaves(want[i].record, Want{Conflicts: l.Conflicts})
	}
	return rows, err
}
