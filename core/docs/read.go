package docs

import (
	"encoding/binary"
	"slices"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/json"
)

// Want is the revision that Read is to return, and the information about the document.
type Want struct {
	Rev     revtree.Rev // zero for the winner
	Deleted bool        // the winner, even if the document is deleted

	Conflicts, DeletedConflicts, RevsInfo, LocalSeq bool // see Meta
}

// Read returns a revision of a document. It fails with ErrMissing or ErrDeleted.
func (db *Database) Read(id string, want Want) (*Document, error) {
	if IsLocal(id) {
		return db.readLocal(id)
	}
	r, err := db.record(id)
	if err != nil {
		return nil, err
	}
	winner, exists := r.tree.Winner()
	if !exists {
		return nil, ErrMissing
	}
	leaf := winner
	if !want.Rev.IsZero() {
		l, found := r.tree.Leaf(want.Rev)
		if !found {
			return nil, ErrMissing
		}
		leaf = revtree.LeafRev{Rev: want.Rev, Leaf: l}
	} else if winner.Deleted && !want.Deleted {
		return nil, ErrDeleted
	}
	d, err := db.leaf(r, leaf)
	if err != nil {
		return nil, err
	}
	return d, db.addMeta(d, r, want)
}

// addLeaves adds the other leaves of a document.
func (d *Document) addLeaves(r *record, want Want) {
	for _, leaf := range r.tree.Leaves() {
		switch {
		case leaf.Rev == d.Rev:
		case want.Conflicts && !leaf.Deleted:
			d.Meta.Conflicts = append(d.Meta.Conflicts, leaf.Rev)
		case want.DeletedConflicts && leaf.Deleted:
			d.Meta.DeletedConflicts = append(d.Meta.DeletedConflicts, leaf.Rev)
		}
	}
}

func (db *Database) addMeta(d *Document, r *record, want Want) error {
	d.addLeaves(r, want)
	if want.RevsInfo {
		status := "available"
		if d.Deleted {
			status = "deleted"
		}
		d.Meta.RevsInfo = append(d.Meta.RevsInfo, RevInfo{d.Rev, status})
		for i, id := range d.Ancestors {
			rev := revtree.Rev{Gen: d.Rev.Gen - int64(i) - 1, ID: id}
			d.Meta.RevsInfo = append(d.Meta.RevsInfo, RevInfo{rev, "missing"})
		}
	}
	if want.LocalSeq {
		if err := db.loadSeqs([]*record{r}); err != nil {
			return err
		} else if r.seq == (Seq{}) {
			return malformed("entry of document %q", r.id)
		}
		d.Meta.LocalSeq = &r.seq
	}
	return nil
}

// leaf reads one leaf of a document.
func (db *Database) leaf(r *record, leaf revtree.LeafRev) (*Document, error) {
	docs, err := db.leaves([]leafOf{{r, leaf}})
	if err != nil {
		return nil, err
	}
	return docs[0], nil
}

type leafOf struct {
	*record
	revtree.LeafRev
}

// leaves reads the bodies of leaves, all at once.
func (db *Database) leaves(want []leafOf) ([]*Document, error) {
	var keys [][]byte
	for _, w := range want {
		if w.Chunks > 0 {
			keys = append(keys, db.bodyKey(w.id, w.Rev))
		}
	}
	values, err := db.tx.GetAll(keys)
	if err != nil {
		return nil, err
	}
	docs := make([]*Document, len(want))
	for i, w := range want {
		d := &Document{ID: w.id, Rev: w.Rev, Ancestors: w.tree.Path(w.Rev), Deleted: w.Deleted, Body: []byte("{}")}
		if len(d.Ancestors) > 0 {
			d.Ancestors = d.Ancestors[1:] // its own id; a superseded leaf may have been forgotten altogether
		}
		if docs[i] = d; w.Chunks == 0 {
			continue
		}
		value, _, err := joinSplit(db.tx, keys[0], values[0])
		if err == nil {
			err = d.setBody(value, w.Attached)
		}
		if err != nil {
			return nil, err
		}
		keys, values = keys[1:], values[1:]
	}
	return docs, nil
}

func (d *Document) setBody(value []byte, attached bool) error {
	if attached {
		n, size := binary.Uvarint(value)
		if size <= 0 || n > uint64(len(value)-size) {
			return malformed("attachments of document %q", d.ID)
		}
		list := value[size : size+int(n)]
		if err := json.Decode(list, &d.Attachments); err != nil {
			return malformed("attachments of document %q", d.ID)
		}
		value = value[size+int(n):]
	}
	if len(value) < 2 {
		return malformed("body of document %q", d.ID)
	}
	d.Body = value
	return nil
}

// Wanted asks for revisions of a document.
type Wanted struct {
	ID   string
	Revs []revtree.Rev // nil for all leaves
}

// Opened is one answer: a document, or the revision that is missing.
type Opened struct {
	Doc     *Document
	Missing revtree.Rev
}

// readChunks is about how many chunks of bodies are read in one transaction.
const readChunks = 100

// OpenRevs reads revisions of as many documents as one transaction should read, at least of the first. With
// latest, a revision that is no leaf stands for the leaves that descend from it. The result has an element
// for each document that was read; it is empty if the document does not exist and all leaves were asked for.
func (db *Database) OpenRevs(wanted []Wanted, latest bool) ([][]Opened, error) {
	wanted = wanted[:min(len(wanted), readChunks)]
	ids := make([]string, len(wanted))
	for i, w := range wanted {
		ids[i] = w.ID
	}
	records, err := someRecords(db, ids)
	if err != nil {
		return nil, err
	}
	var want []leafOf
	var slots []**Document // for the documents in want
	var answers [][]Opened
	chunks := 0
	for i, r := range records {
		leaves, missing := openLeaves(&r.tree, wanted[i].Revs, latest)
		answer := make([]Opened, len(leaves)+len(missing))
		for j, leaf := range leaves {
			want, slots = append(want, leafOf{r, leaf}), append(slots, &answer[j].Doc)
			chunks += leaf.Chunks
		}
		for j, rev := range missing {
			answer[len(leaves)+j].Missing = rev
		}
		answers = append(answers, answer)
		if chunks >= readChunks {
			break
		}
	}
	docs, err := db.leaves(want)
	for i, d := range docs {
		*slots[i] = d
	}
	return answers, err
}

// openLeaves finds the leaves that revisions stand for, each once, and the revisions that stand for none.
func openLeaves(t *revtree.Tree, revs []revtree.Rev, latest bool) (leaves []revtree.LeafRev, missing []revtree.Rev) {
	if revs == nil {
		return t.Leaves(), nil
	}
	for _, rev := range revs {
		var found []revtree.LeafRev
		if leaf, ok := t.Leaf(rev); ok {
			found = []revtree.LeafRev{{Rev: rev, Leaf: leaf}}
		} else if latest {
			found = t.Descendants(rev)
		}
		if len(found) == 0 {
			missing = append(missing, rev)
		}
		for _, leaf := range found {
			if !slices.Contains(leaves, leaf) {
				leaves = append(leaves, leaf)
			}
		}
	}
	return leaves, missing
}

// Diff is the revisions of a document that a database lacks.
type Diff struct {
	ID        string
	Missing   []revtree.Rev
	Ancestors []revtree.Rev // leaves that may be ancestors of what is missing
}

// diffDocs is the number of documents that Diff compares in one transaction.
const diffDocs = 200

// Diff finds the revisions that the database lacks, of as many documents as one transaction should look at.
// It returns the number of these. Documents of which nothing is missing are left out.
func (db *Database) Diff(wanted []Wanted) (diffs []Diff, compared int, err error) {
	wanted = wanted[:min(len(wanted), diffDocs)]
	ids := make([]string, len(wanted))
	for i, w := range wanted {
		ids[i] = w.ID
	}
	records, err := someRecords(db, ids)
	if err != nil {
		return nil, 0, err
	}
	for i, r := range records {
		if missing := r.tree.Missing(wanted[i].Revs); len(missing) > 0 {
			diffs = append(diffs, Diff{r.id, missing, r.tree.PossibleAncestors(missing)})
		}
	}
	return diffs, len(records), nil
}
