package docs

import (
	"math/bits"
	"slices"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Query asks for a page of the changes feed.
type Query struct {
	Since      Seq  // rows after it; if descending, rows before it, zero for all
	Until      Seq  // no rows after it; zero for all rows
	Descending bool // the newest first
	Limit      int  // rows at most; a page may well have fewer
	AllDocs    bool // style=all_docs: all leaves of a document instead of the winner
	// ID, if set, selects documents by their id.
	ID func(id string) bool
	// Match, if set, selects revisions. A row has those that match, and is left out if none does.
	Match func(d *Document) bool
	Docs  bool // read the winners
	// Leaves has all documents read that a row is about: the winner, and with AllDocs the other leaves.
	Leaves    bool
	Conflicts bool     // name the other leaves of winners that are read
	Without   []string // documents whose rows may be unreadable: what can be read of these counts
}

// UnreadableChangeError tells that a row of the feed cannot be read, and of which document that row is.
type UnreadableChangeError struct {
	ID  string // empty if the key of the row cannot be read either
	err error
}

func (e *UnreadableChangeError) Error() string { return e.err.Error() }
func (e *UnreadableChangeError) Unwrap() error { return e.err }

// Change is a row of the feed: a document at its last change.
type Change struct {
	Seq     Seq
	ID      string
	Revs    []revtree.Rev // the winner first
	Deleted bool          // the winner is deleted
	Doc     *Document     // the winner, if it was asked for
	Leaves  []*Document   // those of Revs, if they were asked for without Match

	conflicted bool
}

// Page is a part of the feed, read in one transaction.
type Page struct {
	Rows []Change
	Last Seq  // all rows up to it were looked at; the next page begins after it
	More bool // the feed goes on behind Last
}

// scanRows is the number of rows of the feed, or of the list of documents, that one transaction looks at;
// scanDocs is the number if it reads the documents.
const (
	scanRows = 1000
	scanDocs = readChunks
)

// Changes reads the next rows of the feed. Each document is in the feed once, at its last change. A document
// that is written while the pages are read comes again on a later page. No document is missed, but for those
// that change while the pages of a descending feed are read.
func (db *Database) Changes(q Query) (Page, error) {
	look := scanRows
	if q.Docs || q.Leaves || q.Match != nil {
		look = scanDocs
	}
	if q.ID == nil && q.Match == nil {
		look = min(look, q.Limit+1)
	}
	r := db.feed(q)
	if r.Empty() {
		return Page{Last: q.Since}, nil
	}
	pairs, err := db.tx.GetRange(r, kv.RangeOptions{Limit: look, Reverse: q.Descending})
	if err != nil {
		return Page{}, err
	}
	rows := make([]Change, len(pairs))
	for i, pair := range pairs {
		if rows[i], err = db.parseChange(pair); err != nil && !slices.Contains(q.Without, rows[i].ID) {
			return Page{}, &UnreadableChangeError{rows[i].ID, err}
		}
	}
	page, err := db.choose(rows, q)
	page.More = page.More || len(rows) == look
	return page, err
}

// feed returns the range of the rows that a query is about.
func (db *Database) feed(q Query) kv.Range {
	all := kv.Range{Begin: db.key(keyChanges), End: append(db.key(keyChanges), 0xff)}
	after := func(seq Seq) []byte { return append(db.seqKey(seq, 1), 0xff) }
	if q.Until != (Seq{}) {
		all.End = after(q.Until)
	}
	switch {
	case q.Since == (Seq{}):
	case q.Descending:
		all.End = db.seqKey(q.Since, 0)
	default:
		all.Begin = after(q.Since)
	}
	return all
}

func (db *Database) parseChange(pair kv.KeyValue) (Change, error) {
	var c Change
	var tie uint64
	if err := tuple.Subspace(db.key(keyChanges)).Scan(pair.Key, &c.Seq.Stamp, &tie, &c.ID); err != nil {
		return c, err
	}
	c.Seq.Tie = uint32(tie)
	if len(pair.Value) == 0 {
		return c, malformed("last change of document %q", c.ID)
	}
	rev, err := revtree.ParseRev(string(pair.Value[1:]))
	if err != nil {
		return c, malformed("last change of document %q", c.ID)
	}
	c.Revs = []revtree.Rev{rev}
	c.Deleted, c.conflicted = pair.Value[0]&rowDeleted != 0, pair.Value[0]&rowConflicted != 0
	return c, nil
}

// choose makes a page of the rows that the query selects. It reads the records and documents that this takes.
func (db *Database) choose(rows []Change, q Query) (Page, error) {
	page := Page{Last: q.Since}
	chosen := rows[:0:0]
	for _, c := range rows {
		if q.ID == nil || q.ID(c.ID) {
			chosen = append(chosen, c)
		}
	}
	opened, err := db.openChanges(chosen, q)
	if err != nil {
		return page, err
	}
	at := 0 // in chosen
	for _, c := range rows {
		selected := at < len(chosen) && chosen[at].Seq == c.Seq
		if selected && (at == len(opened) || len(page.Rows) >= q.Limit) {
			page.More = true
			break
		}
		page.Last = c.Seq
		if !selected {
			continue
		}
		if c, ok := opened[at].change(q); ok {
			page.Rows = append(page.Rows, c)
		}
		at++
	}
	return page, nil
}

// openChange is a row with the leaves and documents that the query needs of it.
type openChange struct {
	Change
	leaves []revtree.LeafRev
	docs   []*Document // of the leaves, when documents are needed
}

// openChanges reads the records and documents of as many rows as one transaction should read.
func (db *Database) openChanges(rows []Change, q Query) ([]openChange, error) {
	opened := make([]openChange, len(rows))
	var ids []string
	for i, c := range rows {
		opened[i].Change = c
		if q.Docs || q.Leaves || q.Match != nil || q.AllDocs && c.conflicted {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return opened, nil
	}
	records, err := someRecords(db, ids)
	if err != nil {
		return nil, err
	}
	var want []leafOf
	chunks := 0
	for i := range opened {
		o := &opened[i]
		if len(ids) == 0 || ids[0] != o.ID {
			continue // the row says enough
		}
		if len(records) == 0 {
			opened = opened[:i] // others are for the next page
			break
		}
		r := records[0]
		records, ids = records[1:], ids[1:]
		o.leaves = r.tree.Leaves()
		if !q.AllDocs {
			o.leaves = o.leaves[:1]
		}
		if !q.Docs && !q.Leaves && q.Match == nil {
			continue
		}
		needed := o.leaves
		if q.Match == nil && !q.Leaves {
			needed = needed[:1]
		}
		for _, leaf := range needed {
			want, chunks = append(want, leafOf{r, leaf}), chunks+leaf.Chunks
		}
		if o.docs = make([]*Document, len(needed)); chunks >= readChunks {
			opened = opened[:i+1]
			break
		}
	}
	docs, err := db.leaves(want)
	for i := range opened {
		n := copy(opened[i].docs, docs)
		if n > 0 && q.Conflicts {
			docs[0].addLeaves(want[0].record, Want{Conflicts: true})
		}
		docs, want = docs[n:], want[n:]
	}
	return opened, err
}

// change returns the row in the form that the query asks for, and reports whether the query selects it.
func (o *openChange) change(q Query) (Change, bool) {
	c := o.Change
	if o.leaves != nil {
		c.Revs = c.Revs[:0]
		for i, leaf := range o.leaves {
			if q.Match == nil || q.Match(o.docs[i]) {
				c.Revs = append(c.Revs, leaf.Rev)
			}
		}
	}
	if q.Docs {
		c.Doc = o.docs[0]
	}
	if q.Leaves {
		c.Leaves = o.docs
	}
	return c, len(c.Revs) > 0
}

// pendingExact bounds the rows that Pending counts from either end.
const pendingExact = scanRows

// Pending returns the number of rows after seq. It is exact within 1000 rows of either end of the feed.
// Between these it is an estimate from the versions of the sequences, since counting would read half the
// feed.
func (db *Database) Pending(seq Seq) (int64, error) {
	after, err := db.tx.GetRange(db.feed(Query{Since: seq}), kv.RangeOptions{Limit: pendingExact + 1})
	if err != nil || len(after) <= pendingExact {
		return int64(len(after)), err
	}
	info, err := db.Info()
	if err != nil {
		return 0, err
	}
	total := info.Docs + info.Deleted
	if seq == (Seq{}) {
		return total, nil
	}
	before, err := db.tx.GetRange(db.feed(Query{Until: seq}), kv.RangeOptions{Limit: pendingExact + 1})
	if err != nil || len(before) <= pendingExact {
		return total - int64(len(before)), err
	}
	first, err := db.Changes(Query{Limit: 1}) // there are more than pendingExact
	if err != nil {
		return 0, err
	}
	share := scale(total, info.UpdateSeq.version()-seq.version(), info.UpdateSeq.version()-first.Last.version())
	return min(max(share, pendingExact+1), total-pendingExact-1), nil
}

// scale returns total * part / whole.
func scale(total int64, part, whole uint64) int64 {
	if part >= whole { // which may be 0
		return total
	}
	hi, lo := bits.Mul64(uint64(total), part)
	quotient, _ := bits.Div64(hi, lo, whole) // part < whole, so it is below total
	return int64(quotient)
}

// IDs is a selection of documents for Query.ID.
func IDs(ids []string) func(id string) bool {
	sorted := slices.Sorted(slices.Values(ids))
	return func(id string) bool {
		_, found := slices.BinarySearch(sorted, id)
		return found
	}
}
