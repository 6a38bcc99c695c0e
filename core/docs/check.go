package docs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"couchrelay/core/check"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Sections are the rows of the databases below a root, for a check of the store. judge is told of each document that
// is not deleted, with the name of its database and its body; it may be nil.
func Sections(root tuple.Subspace, judge func(p *check.Page, d Checked)) []check.Section {
	c := &checking{store: New(root), judge: judge, names: map[tuple.UUID]string{}}
	return []check.Section{
		{Space: c.store.names, Row: c.name},
		{Space: c.store.instances, Row: c.row, End: func(p *check.Page) { c.conclude(p) }},
		{Space: c.store.uploads, Row: c.upload},
	}
}

// Named is where the names of the databases below a root are.
func Named(root tuple.Subspace) kv.Range { return New(root).names.Range() }

// UpdateSeqOf is the key of the update sequence of a database, by the value of the row of its name.
func UpdateSeqOf(root tuple.Subspace, value []byte) []byte {
	db := &Database{}
	_ = describe(db, value) // one that cannot be read has no sequence either
	db.instance = New(root).instances.Sub(db.Instance)
	return db.key(keySeq)
}

// Checked is a document that a check comes past.
type Checked struct {
	Key      []byte // of its record
	Database string
	Instance tuple.UUID
	ID       string
}

// checking is a check of databases.
type checking struct {
	store *Store
	judge func(p *check.Page, d Checked)
	names map[tuple.UUID]string
	one   *instance
}

// instance is what the rows of a database have come to.
type instance struct {
	id              tuple.UUID
	stored, counted counts
	blobs           map[tuple.UUID]string // that documents refer to, with words for them
	lost            map[string]lost       // documents without a place in the feed, as far as the feed was read
	strays          map[tuple.UUID]bool   // attachments that were reported
}

func (c *checking) name(p *check.Page, key, value []byte) {
	var name string
	if c.store.names.Scan(key, &name) != nil {
		p.Report(key, "the row names no database")
		return
	}
	db := &Database{}
	if err := describe(db, value); err != nil {
		p.Report(key, "the description of the database cannot be read")
		return
	}
	db.instance = c.store.instances.Sub(db.Instance)
	if !p.Has(db.key(keySeq)) {
		p.Report(key, "the database has lost its rows: it has no update sequence")
	}
	p.Later(func() {
		if other, has := c.names[db.Instance]; has {
			p.Report(key, fmt.Sprintf("the database has the rows of %q", other))
		}
		c.names[db.Instance] = name
	})
}

func (c *checking) upload(p *check.Page, key, value []byte) {
	var at, blob tuple.UUID
	if c.store.uploads.Scan(key, &at, &blob) != nil || len(value) != 8 {
		p.Report(key, "the upload cannot be read")
	}
}

// row judges a row of a database.
func (c *checking) row(p *check.Page, key, value []byte) {
	t, err := c.store.instances.Unpack(key)
	var id tuple.UUID
	if err == nil && len(t) >= 2 {
		id, _ = t[0].(tuple.UUID)
	}
	kind, isKind := int64(-1), false
	if err == nil && len(t) >= 2 {
		kind, isKind = t[1].(int64)
	}
	if !isKind || kind < 0 || kind > keyBlob {
		p.Report(key, "the key is none of a database")
		return
	}
	p.Later(func() { c.enter(p, key, id) })
	db := &Database{Instance: id, instance: c.store.instances.Sub(id), store: c.store}
	r := &checkedRow{checking: c, Page: p, db: db, key: key, value: value, kind: int(kind), rest: t[2:]}
	if len(r.rest) > 0 {
		r.id, _ = r.rest[0].(string)
	}
	r.check()
}

// enter notes the database of a row.
func (c *checking) enter(p *check.Page, key []byte, id tuple.UUID) {
	if c.one != nil && c.one.id == id {
		return
	}
	c.conclude(p)
	c.one = &instance{id: id, blobs: map[tuple.UUID]string{}, lost: map[string]lost{}, strays: map[tuple.UUID]bool{}}
	if _, has := c.names[id]; !has {
		p.Doubt(key, "the rows from here on are of a database that has no name", check.Mend{})
	}
}

// conclude judges what the rows of a database came to.
func (c *checking) conclude(p *check.Page) {
	one := c.one
	if one == nil {
		return
	}
	c.one = nil
	db := &Database{instance: c.store.instances.Sub(one.id)}
	for _, sum := range []struct {
		kind      int
		got, want int64
		of        string
	}{
		{keyDocCount, one.stored.docs, one.counted.docs, "documents"},
		{keyDelCount, one.stored.deleted, one.counted.deleted, "deleted documents"},
	} {
		p.Sum(db.key(sum.kind), sum.got, sum.want,
			fmt.Sprintf("%d %s are counted, and there are %d", sum.got, sum.of, sum.want))
	}
	for _, id := range slices.Sorted(maps.Keys(one.lost)) {
		p.Report(one.lost[id].entry, one.lost[id].what)
	}
}

// checkedRow is a row of a database.
type checkedRow struct {
	*checking
	*check.Page
	db         *Database
	key, value []byte
	kind       int
	rest       tuple.Tuple // of the key, behind the kind
	id         string      // of the document, if the row is of one
}

// elements are how many elements the key of a row may have behind its kind.
var elements = [...]struct{ least, most int }{
	keySecurity: {0, 1}, keyRecord: {1, 2}, keyAlive: {1, 1}, keyDeleted: {1, 1}, keyChanges: {3, 3},
	keyBody: {3, 4}, keyLocal: {1, 2}, keyBlob: {2, 2},
}

func (r *checkedRow) check() {
	if may := elements[r.kind]; len(r.rest) < may.least || len(r.rest) > may.most {
		r.Report(r.key, "the key is none of a database")
		return
	}
	switch r.kind {
	case keySeq:
		if len(r.value) < seqSize {
			r.Report(r.key, "the update sequence cannot be read")
		}
	case keyDocCount, keyDelCount:
		n := kv.Counter(r.value)
		if len(r.value) != 8 {
			r.Report(r.key, "the counter cannot be read")
		}
		r.Later(func() {
			if r.kind == keyDocCount {
				r.one.stored.docs = n
			} else {
				r.one.stored.deleted = n
			}
		})
	case keySecurity:
		r.security()
	case keyRecord:
		r.record()
	case keyAlive, keyDeleted:
		r.entry()
	case keyChanges:
		r.change()
	case keyBody:
		r.body()
	case keyLocal:
		if _, opens := r.Opens(r.key, r.value); !opens || len(r.rest) != 1 {
			return
		}
		value, ok := r.join(r.Look, r.key, r.value)
		if l, err := decodeLocal(value); !ok || err != nil || l.exists() && !isObject(l.body) {
			r.Report(r.key, "the local document cannot be read")
		}
	case keyBlob:
		r.blob()
	}
}

func (r *checkedRow) security() {
	if len(r.rest) > 0 {
		_, _ = r.Opens(r.key, r.value)
		return
	}
	if _, opens := r.Opens(r.key, r.value); !opens {
		return
	}
	text, ok := r.join(r.Look, r.key, r.value)
	if _, err := ParseSecurity(text); !ok || err != nil {
		r.Report(r.key, "the security object cannot be read")
	}
}

// join reads a value that may be split, its further parts with read. It is false if a part is missing, or does not
// open.
func (r *checkedRow) join(read func(key []byte) []byte, key, first []byte) (value []byte, ok bool) {
	plain, ok := r.Plain(key, first)
	n, size := binary.Uvarint(plain)
	if !ok || size <= 0 || n == 0 || n > 1<<20 {
		return nil, false
	}
	value = slices.Clip(plain[size:]) // parts are appended to a copy: the store may own what is behind it
	for i := 1; i < int(n); i++ {
		next := chunkKey(key, i)
		part, ok := r.Plain(next, read(next))
		if !ok {
			return nil, false
		}
		value = append(value, part...)
	}
	return value, true
}

// tree reads the revisions of the document; nil if there are none that can be read.
func (r *checkedRow) tree() *revtree.Tree {
	key := r.db.idKey(keyRecord, r.id)
	value, ok := r.join(r.Get, key, r.Get(key))
	if !ok {
		return nil
	}
	rec := &record{}
	if rec.decode(value) != nil {
		return nil
	}
	return &rec.tree
}

// placed is what the feed says of a document with these revisions.
func placed(tree *revtree.Tree) (winner revtree.LeafRev, row []byte) {
	winner, _ = tree.Winner()
	var flags byte
	if winner.Deleted {
		flags |= rowDeleted
	}
	if tree.Conflicted() {
		flags |= rowConflicted
	}
	return winner, append([]byte{flags}, winner.String()...)
}

// lost is a finding about a document whose entry is missing or cannot be read. It is dropped if a row of the feed tells
// the document's place.
type lost struct {
	entry []byte // the key of the entry
	what  string // for people
}

func (r *checkedRow) record() {
	tree := r.tree()
	if len(r.rest) > 1 { // a further part of a record
		n, _ := r.rest[1].(int64)
		first := r.Get(r.db.idKey(keyRecord, r.id))
		if parts, size := binary.Uvarint(first); first != nil && size > 0 && n >= int64(parts) {
			r.leftOver("the row is left over from a longer record")
		}
		return
	}
	if tree == nil || tree.Len() == 0 {
		r.Report(r.key, "the revisions of the document cannot be read")
		return
	}
	winner, _ := placed(tree)
	entry := r.db.entryKey(r.id, !winner.Deleted)
	if place := r.Get(entry); len(place) < seqSize { // a row of the feed may still tell it
		id, what := r.id, "has no place in the feed of changes: write it again"
		if place != nil {
			what = "has a place in the feed of changes that cannot be read"
		}
		r.Later(func() {
			r.one.lost[id] = lost{entry, fmt.Sprintf("document %q %s", id, what)}
			r.one.counted.move(true, !winner.Deleted, 1)
		})
	}
	for _, leaf := range tree.Leaves() {
		r.leaf(leaf, leaf == winner)
	}
}

// leaf demands the body of a leaf, which is judged where it begins.
func (r *checkedRow) leaf(leaf revtree.LeafRev, wins bool) {
	if at := r.db.bodyKey(r.id, leaf.Rev); leaf.Chunks > 0 && r.Look(at) == nil {
		r.Report(at, fmt.Sprintf("the content of document %q is missing", r.id))
	}
	if name, has := r.names[r.db.Instance]; has && wins && !leaf.Deleted && r.judge != nil {
		r.judge(r.Page, Checked{Key: r.key, Database: name, Instance: r.db.Instance, ID: r.id})
	}
}

// leftOver reports a row that has no use.
func (r *checkedRow) leftOver(what string) {
	r.Mend(r.key, what, check.Mend{What: "remove the row", Clear: [][]byte{r.key}})
}

// set writes a row.
func set(key, value []byte) check.Mend {
	return check.Mend{What: "write the row", Set: []kv.KeyValue{{Key: key, Value: value}}}
}

// entry judges the place of a document in lists.
func (r *checkedRow) entry() {
	tree := r.tree()
	alive := r.kind == keyAlive
	if tree == nil {
		if !r.Has(r.db.idKey(keyRecord, r.id)) {
			r.Report(r.db.idKey(keyRecord, r.id), fmt.Sprintf("document %q has lost its revisions", r.id))
		}
		r.Later(func() { r.one.counted.move(true, alive, 1) })
		return
	}
	winner, row := placed(tree)
	if alive == winner.Deleted {
		r.leftOver(fmt.Sprintf("document %q is listed twice", r.id))
		return
	}
	if len(r.value) < seqSize {
		return // which record reports
	}
	r.Later(func() { r.one.counted.move(true, alive, 1) })
	seq := seqOf(r.value)
	if text := winner.String(); string(r.value[seqSize:]) != text {
		r.Mend(r.key, fmt.Sprintf("document %q is listed with revision %q, and has %s", r.id, r.value[seqSize:], text),
			set(r.key, append(r.value[:seqSize:seqSize], text...)))
	}
	feed := r.db.changeKey(seq, r.id)
	if got := r.Get(feed); !bytes.Equal(got, row) {
		r.Mend(feed, fmt.Sprintf("the feed of changes has document %q as %q, not as %q", r.id, got, row),
			set(feed, row))
	}
}

// change judges a row of the feed.
func (r *checkedRow) change() {
	c, err := r.db.parseChange(kv.KeyValue{Key: r.key, Value: r.value})
	if err != nil {
		if c.ID == "" {
			r.Report(r.key, "the change cannot be read")
		}
		return // what the entry of the document says stands there
	}
	r.id = c.ID
	tree := r.tree()
	if tree == nil {
		known := r.Has(r.db.idKey(keyRecord, r.id)) || r.Has(r.db.entryKey(r.id, true)) ||
			r.Has(r.db.entryKey(r.id, false))
		if !known {
			r.leftOver(fmt.Sprintf("there is no document %q", r.id))
		}
		return
	}
	winner, row := placed(tree)
	entry := r.db.entryKey(r.id, !winner.Deleted)
	switch at := r.Get(entry); {
	case len(at) < seqSize && bytes.Equal(r.value, row):
		value := append(c.Seq.stored(), winner.String()...)
		r.Mend(entry, fmt.Sprintf("document %q is not listed", r.id), set(entry, value))
		r.Later(func() { delete(r.one.lost, c.ID) })
	case len(at) >= seqSize && seqOf(at) != c.Seq:
		r.leftOver(fmt.Sprintf("document %q has changed since", r.id))
	}
}

func (s Seq) stored() []byte {
	b := binary.BigEndian.AppendUint16(s.Stamp.Transaction[:], s.Stamp.User)
	return binary.BigEndian.AppendUint32(b, s.Tie)
}
