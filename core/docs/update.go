package docs

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"unicode/utf8"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Edit is the write of one document.
type Edit struct {
	Document
	// Replicated adds Rev with its Ancestors to the document's history as it is (new_edits=false).
	// Otherwise the edit replaces the leaf Rev by a new revision.
	Replicated bool
	// Kept says that the body was stored before, as in a COPY or with a new attachment: the client has not sent it, and
	// so does not answer for it.
	Kept bool
	// Token, unique to the request, lets a repeated transaction recognise a new edit as its own. Zero is no
	// token: a repetition after an unknown result then meets a conflict.
	Token uint64
}

// Written is the outcome of an edit.
type Written struct {
	ID  string
	Rev revtree.Rev // the revision that the edit made, or was about
	// Changed reports that this transaction changed the document: the revision was not there before. It is
	// false for a repetition: its first run changed the document, with everything else that its transaction
	// did.
	Changed bool
	// Loses reports that the edit Changed the document, and not its winner: another leaf won before, and still does.
	Loses bool
	Err   *Error // why the edit was refused; nothing was written for it then
}

// Limits of one write.
const (
	// MaxBody is the length of the longest body that can be written.
	MaxBody = 8_000_000
	// MaxInline bounds the inline bytes of a document's attachments; longer ones are uploaded first.
	MaxInline = 1 << 20
	// batchSize is about how many bytes Update writes in one transaction, if that is more than one edit.
	batchSize = 2 << 20
	// editOverhead is about what an edit writes besides body and record.
	editOverhead = 1 << 10
)

// Update writes as many of the edits as one transaction should, at least the first, in order. The
// result tells what became of each, so its length says how many were taken; the caller commits and
// goes on with the others. The error is the store's, or what Validate failed with.
func (db *Database) Update(edits []Edit) ([]Written, error) {
	b := &batch{db: db, byID: map[string]*record{}}
	edits = edits[:prefix(edits)]
	if !db.prefetched {
		db.Prefetch(edits, nil, nil)
	}
	edits, err := b.load(edits)
	if err != nil {
		return nil, err
	}
	db.updating = b.byID
	defer func() { db.updating = nil }()
	results := make([]Written, 0, len(edits))
	for i := range edits {
		if b.size += editSize(&edits[i]); i > 0 && b.size > batchSize {
			break
		}
		before := b.winner(edits[i].ID)
		result, err := b.apply(edits[i])
		if refusal := (*Error)(nil); errors.As(err, &refusal) {
			result.Err, result.Changed = refusal, false
		} else if err != nil {
			return nil, err
		}
		result.Loses = result.Changed && b.winner(edits[i].ID) == before
		results = append(results, result)
	}
	return results, b.save()
}

// batch is one call of Update.
type batch struct {
	db      *Database
	byID    map[string]*record
	changed []*record
	changes int // made so far
	size    int // of what is read and written
}

func editSize(e *Edit) int {
	size := len(e.Body) + editOverhead
	for i := range e.Attachments {
		size += len(e.Attachments[i].Data)
	}
	return size
}

// prefix is how many edits fit as far as they alone tell.
func prefix(edits []Edit) int {
	size := 0
	for i := range edits {
		if size += editSize(&edits[i]); i > 0 && size > batchSize {
			return i
		}
	}
	return len(edits)
}

// Prefetch reads what Update will read of the documents, as far as the edits tell, and in the same round trip
// what the caller will read besides. Update calls it unless the caller has.
func (db *Database) Prefetch(edits []Edit, keys [][]byte, ranges []kv.Range) {
	db.prefetched = true
	more := len(keys) + len(ranges) // than the records of documents, which Update reads at once anyway
	for i := range edits[:prefix(edits)] {
		e := &edits[i]
		if ValidID(e.ID) != nil {
			continue
		}
		if IsLocal(e.ID) {
			keys, more = append(keys, db.idKey(keyLocal, e.ID)), more+1
			continue
		}
		keys = append(keys, db.idKey(keyRecord, e.ID))
		if parent := e.parent(); !parent.IsZero() {
			keys = append(keys, db.entryKey(e.ID, true), db.entryKey(e.ID, false))
			if more++; db.Validate != nil {
				keys = append(keys, db.bodyKey(e.ID, parent))
			}
		}
	}
	if more > 0 {
		db.tx.Prefetch(keys, ranges)
	}
}

// parent is the revision that the edit is likely to replace, zero if its document is likely to be new.
func (e *Edit) parent() revtree.Rev {
	if e.Replicated && len(e.Ancestors) > 0 {
		return revtree.Rev{Gen: e.Rev.Gen - 1, ID: e.Ancestors[0]}
	} else if e.Replicated {
		return revtree.Rev{}
	}
	return e.Rev
}

// load reads what the store has of the documents, and returns the edits for which it has read enough: it reads no
// more records than one transaction has room for, or those of long histories would be read again in each.
func (b *batch) load(edits []Edit) ([]Edit, error) {
	var ids []string
	for i := range edits {
		id := edits[i].ID
		if _, seen := b.byID[id]; !seen && !IsLocal(id) && ValidID(id) == nil {
			b.byID[id] = nil
			ids = append(ids, id)
		}
	}
	records, err := firstRecords(b.db, ids, batchSize)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		b.byID[r.id] = r
	}
	for i := range edits {
		if r := b.byID[edits[i].ID]; r != nil && !edits[i].Replicated {
			_, done := r.edited(edits[i].Token)
			r.repeated = r.repeated || done
		}
	}
	if len(records) < len(ids) {
		next := ids[len(records)]
		edits = edits[:slices.IndexFunc(edits, func(e Edit) bool { return e.ID == next })]
	}
	return edits, b.db.loadSeqs(records)
}

func (b *batch) save() error {
	var delta counts
	slices.SortFunc(b.changed, func(x, y *record) int { return cmp.Compare(x.change, y.change) })
	var last *record // of those that this transaction had not written before: they come after all others
	for _, r := range b.changed {
		first := !r.here
		if err := b.db.saveRecord(r, &delta); err != nil {
			return err
		}
		if first {
			last = r
		}
	}
	delta.addTo(b.db)
	if last != nil {
		b.db.tx.SetVersionstampedValue(b.db.key(keySeq), pendingSeq(last.ordinal, tieOf(last.id), ""))
	}
	return nil
}

// touch notes that a record has changed.
func (b *batch) touch(r *record) {
	if r.change == 0 {
		b.changed = append(b.changed, r)
	}
	b.changes++
	r.change = b.changes
}

// winner is the revision of a document's winner; zero while there is none.
func (b *batch) winner(id string) revtree.Rev {
	r := b.byID[id]
	if r == nil {
		return revtree.Rev{} // no document of the tree: a local one, or none that can be
	}
	winner, _ := r.tree.Winner()
	return winner.Rev
}

// apply carries out one edit. Nothing is written when it returns an error.
func (b *batch) apply(e Edit) (Written, error) {
	result := Written{ID: e.ID, Rev: e.Rev}
	if err := ValidID(e.ID); err != nil {
		return result, err
	}
	if len(e.Body) > MaxBody {
		return result, &Error{TooLarge, "document_too_large", e.ID}
	}
	if editSize(&e)-len(e.Body)-editOverhead > MaxInline {
		return result, &Error{TooLarge, "attachment_too_large", e.ID}
	}
	if IsLocal(e.ID) {
		rev, err := b.db.putLocal(&e)
		return Written{ID: e.ID, Rev: rev}, err
	}
	e.Attachments = slices.Clone(e.Attachments) // attach completes them
	r := b.byID[e.ID]
	if r.change == 0 { // else it counts already
		b.size += r.size
	}
	if e.Replicated {
		changed, err := b.merge(r, &e.Document)
		result.Changed = changed
		return result, err
	}
	if rev, done := r.edited(e.Token); done {
		// Reached: a repeated edit is recognised
		return Written{ID: e.ID, Rev: rev}, nil
	} else if r.repeated {
		return result, ErrConflict // it was refused when the batch ran first
	}
	rev, err := b.edit(r, &e.Document)
	if err == nil {
		r.remember(e.Token, rev)
		result.Rev, result.Changed = rev, true
	}
	return result, err
}

// edit makes a new revision from the leaf d.Rev.
func (b *batch) edit(r *record, d *Document) (revtree.Rev, error) {
	near, err := b.replaced(r, d)
	if err != nil {
		return d.Rev, err
	}
	parent := d.Rev
	if winner, exists := r.tree.Winner(); exists && near == nil {
		parent = winner.Rev // a deleted document begins anew where it ended
	}
	for i := range d.Attachments {
		if d.Attachments[i].Content != Stub {
			d.Attachments[i].RevPos = parent.Gen + 1
		}
	}
	put, err := b.check(r, d, near, false)
	if err != nil {
		return d.Rev, err
	}
	d.Rev = newRev(parent, d)
	d.Ancestors = nil
	if parent.Gen > 0 {
		d.Ancestors = []string{parent.ID}
	}
	if r.tree.Has(d.Rev) {
		return d.Rev, ErrConflict
	}
	return d.Rev, b.write(r, d, put)
}

// replaced finds the leaf that a new edit replaces: nil for a new document and one that begins anew.
func (b *batch) replaced(r *record, d *Document) (*Document, error) {
	winner, exists := r.tree.Winner()
	if d.Rev.IsZero() && (!exists || winner.Deleted && !d.Deleted) {
		return nil, nil
	}
	leaf, found := r.tree.Leaf(d.Rev)
	if !found {
		return nil, ErrConflict
	}
	return b.near(r, d, revtree.LeafRev{Rev: d.Rev, Leaf: leaf})
}

// near reads the leaf that d replaces, as far as it is needed.
func (b *batch) near(r *record, d *Document, leaf revtree.LeafRev) (*Document, error) {
	stub := func(a Attachment) bool { return a.Content == Stub }
	if b.db.Validate == nil && !slices.ContainsFunc(d.Attachments, stub) {
		return &Document{ID: d.ID, Rev: leaf.Rev}, nil
	}
	return b.db.leaf(r, leaf)
}

// merge adds d.Rev with its history, and reports whether that changed anything.
func (b *batch) merge(r *record, d *Document) (bool, error) {
	if d.Rev.Gen < 1 {
		return false, BadRequest("When `new_edits: false`, the document needs `_rev` or `_revisions` specified")
	}
	if r.tree.Has(d.Rev) {
		if err := b.checkEnded(r, d, nil); err != nil {
			return false, err
		}
		before, tree := r.tree.Append(nil), r.tree.Clone()
		done := tree.Insert(d.Rev, d.Ancestors, revtree.Leaf{}) // the history may be new
		if tree.Stem(b.db.RevsLimit); bytes.Equal(before, tree.Append(nil)) {
			return false, nil
		}
		if err := grown(r, &tree, false); err != nil {
			return false, err
		}
		r.tree = tree
		b.touch(r)
		return true, b.drop(r, done.Superseded)
	}
	if !utf8.ValidString(d.Rev.ID) { // the others come in JSON
		return false, ErrRev
	}
	if d.Rev.Gen > revtree.MaxBrought {
		return false, BadRequest("the generation of revision %s is too high: a replicator may bring up to %d", d.Rev,
			int64(revtree.MaxBrought))
	}
	var near *Document
	if ended := r.tree.Ended(d.Rev, d.Ancestors); len(ended) > 0 {
		var err error
		if near, err = b.near(r, d, ended[0]); err != nil {
			return false, err
		}
	}
	put, err := b.check(r, d, near, true)
	if err == nil {
		err = b.checkEnded(r, d, near)
	}
	if err != nil {
		return false, err
	}
	return true, b.write(r, d, put)
}

// checkEnded asks the validation about each leaf, but for near, that the history of a revision names as an ancestor:
// to stand behind another revision ends a leaf, as a deletion does. The revision itself was checked in place of near.
func (b *batch) checkEnded(r *record, d, near *Document) error {
	if b.db.Validate == nil {
		return nil
	}
	for _, leaf := range r.tree.Ended(d.Rev, d.Ancestors) {
		if leaf.Deleted || near != nil && near.Rev == leaf.Rev {
			continue
		}
		prev, err := b.db.leaf(r, leaf)
		if err != nil {
			return err
		}
		end := &Document{ID: r.id, Rev: d.Rev, Deleted: true, Body: []byte("{}")}
		if err := b.db.Validate(end, prev, true); err != nil {
			return err
		}
	}
	return nil
}

// check finds the attachments and asks the validation.
func (b *batch) check(r *record, d, near *Document, replicated bool) (put func(), err error) {
	put, err = b.db.attach(d, near, func() ([]*Document, error) { return b.attached(r) })
	if err != nil || b.db.Validate == nil {
		return put, err
	}
	return put, b.db.Validate(d, near, replicated)
}

// attached reads the leaves that have attachments.
func (b *batch) attached(r *record) ([]*Document, error) {
	var found []*Document
	for _, leaf := range r.tree.Leaves() {
		if leaf.Attached {
			d, err := b.db.leaf(r, leaf)
			if err != nil {
				return nil, err
			}
			found = append(found, d)
		}
	}
	return found, nil
}

// write adds the checked revision d to the record and its body to the store.
func (b *batch) write(r *record, d *Document, put func()) error {
	leaf := revtree.Leaf{Deleted: d.Deleted, Attached: len(d.Attachments) > 0}
	value, key := bodyValue(d), b.db.bodyKey(d.ID, d.Rev)
	if len(value) > 0 {
		leaf.Chunks = chunksOf(value)
	}
	tree := r.tree.Clone()
	done := tree.Insert(d.Rev, d.Ancestors, leaf)
	tree.Stem(b.db.RevsLimit)
	keys, ends := leaf.Chunks, false
	for _, l := range done.Superseded {
		keys, ends = keys+l.Chunks, ends || d.Deleted && !l.Deleted
	}
	if len(value)+3*keys*len(key) > maxWrite { // conflict ranges have keys twice
		return &Error{TooLarge, "document_too_large", r.id}
	}
	if err := grown(r, &tree, ends); err != nil {
		return err
	}
	put()
	if len(value) > 0 {
		putSplit(b.db.tx, key, value)
	}
	r.tree = tree
	b.touch(r)
	return b.drop(r, done.Superseded)
}

// drop removes the bodies of leaves that are none any more, and attachments that no leaf has now.
func (b *batch) drop(r *record, superseded []revtree.LeafRev) error {
	var dropped []Attachment
	for _, leaf := range superseded {
		if leaf.Attached {
			d, err := b.db.leaf(r, leaf)
			if err != nil {
				return err
			}
			dropped = append(dropped, d.Attachments...)
		}
		clearSplit(b.db.tx, b.db.bodyKey(r.id, leaf.Rev), 0, leaf.Chunks)
	}
	if len(dropped) == 0 {
		return nil
	}
	kept, err := b.attached(r)
	if err != nil {
		return err
	}
	still := map[tuple.UUID]bool{}
	for _, d := range kept {
		for i := range d.Attachments {
			still[d.Attachments[i].Blob] = true
		}
	}
	for i := range dropped {
		if blob := dropped[i].Blob; !still[blob] {
			b.db.clearBlob(blob)
		}
	}
	return nil
}
