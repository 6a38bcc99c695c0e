package model

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
)

// document is the winner of a document of a replicator database, as it is stored. The zero value is one that there is
// not, or that was deleted.
type document struct{ rev, body string }

func (d document) String() string {
	if d == (document{}) {
		return "absent"
	}
	return d.rev + " " + d.body
}

// database is a replicator database.
type database struct {
	mirror bool // of a database of another server, whose documents the service writes here
}

// documents are those of replicator databases, by all commits so far. Documents have the ids that their jobs have.
type documents struct {
	// Forbids, if set, reports whether a design document has a validation function that forbids a document.
	Forbids func(design, document []byte) bool
	// Usual are the numbers of replications that name none, by member.
	Usual map[string]json.Number

	databases map[string]database // by how the ids of their jobs begin
	winners   map[string]document
	designs   map[string]document // those of the winners that are design documents
	leaves    map[string]leaves   // by document
}

// leaves are the bodies of the revisions of a document that no other one replaces, by revision. One with nothing to
// keep is not among them; a deleted one may be.
type leaves map[string]string

// documentChange is what a commit makes of one document.
type documentChange struct {
	id         string
	was, found document
	added      []string // revisions that became leaves; some may be none any more
	removed    leaves   // those that were leaves before
}

// isDesign reports whether it is a design document, which is no replication.
func (d *documentChange) isDesign() bool {
	_, name, _ := strings.Cut(d.id, "|")
	return strings.HasPrefix(name, "_design/")
}

// put keeps a document as it is now.
func put(winners map[string]document, id string, d document) {
	if winners[id] = d; d == (document{}) {
		delete(winners, id)
	}
}

// Kinds of rows of a database with replication documents, which have the id of a document.
const (
	rowAlive   = 5 // 16 bytes of sequence, and the winner's revision
	rowDeleted = 6 // the same
	rowBody    = 8 // the body of a leaf; there is none for {}
)

// readDocs reads a row of the databases: 0 and a name, or 1, the instance of a database, a kind and what that needs.
func (w *writing) readDocs(rest []byte, mu ryw.Mutation) error {
	elements, err := tuple.Unpack(rest)
	if err != nil || len(elements) < 2 {
		return err
	}
	prefix := ""
	if instance, is := elements[1].(tuple.UUID); is {
		prefix = hex.EncodeToString(instance[:]) + "|"
	}
	switch {
	case elements[0] == int64(0) && mu.Kind == ryw.Set:
		return w.readDatabase(mu.Value)
	case mu.Kind == ryw.ClearRange && len(elements) == 2:
		w.dropDocuments(prefix)
	case len(elements) >= 4 && prefix != "" && mu.Kind != ryw.ClearRange:
		return w.readDocument(prefix, elements[2:], mu)
	}
	return nil
}

// readDatabase reads what a database is: its instance, when it was made, its limit of revisions; and of a mirror, which
// database that is of.
func (w *writing) readDatabase(value []byte) error {
	elements, err := tuple.Unpack(value)
	if err != nil || len(elements) < 3 {
		return fmt.Errorf("it cannot be read: %v", err)
	}
	instance, _ := elements[0].(tuple.UUID)
	w.m.documents.databases[hex.EncodeToString(instance[:])+"|"] = database{len(elements) > 3}
	return nil
}

// dropDocuments forgets the documents of a database.
func (w *writing) dropDocuments(prefix string) {
	of := func(id string, _ document) bool { return strings.HasPrefix(id, prefix) }
	maps.DeleteFunc(w.m.winners, of)
	maps.DeleteFunc(w.m.designs, of)
	maps.DeleteFunc(w.m.leaves, func(id string, _ leaves) bool { return strings.HasPrefix(id, prefix) })
	delete(w.m.databases, prefix)
}

// readDocument reads a row of a document: its kind, its id, and for a body the revision and the number of the chunk, if
// that is not the first.
func (w *writing) readDocument(prefix string, elements tuple.Tuple, mu ryw.Mutation) error {
	kind, name := elements[0], fmt.Sprint(elements[1])
	switch {
	case kind == int64(rowBody) && len(elements) >= 4:
		return w.readBody(prefix+name, fmt.Sprintf("%d-%s", elements[2], elements[3]), elements[4:], mu)
	case (kind == int64(rowAlive) || kind == int64(rowDeleted)) && mu.Kind == ryw.Set:
		const sequence = 16
		if len(mu.Value) < sequence {
			return fmt.Errorf("it names no revision")
		}
		d := w.document(prefix + name)
		if d.found = (document{}); kind == int64(rowAlive) {
			d.found.rev = string(mu.Value[sequence:])
		}
	}
	return nil
}

// readBody reads a chunk of the body of a revision. The first one is led by the number of chunks.
func (w *writing) readBody(id, rev string, chunk tuple.Tuple, mu ryw.Mutation) error {
	n := int64(0)
	if len(chunk) > 0 {
		n, _ = chunk[0].(int64)
	}
	d := w.document(id)
	all := w.m.leaves[id]
	if mu.Kind != ryw.Set {
		if body, was := all[rev]; was { // else the commit has made it as well
			if d.removed == nil {
				d.removed = leaves{}
			}
			d.removed[rev] = body
		}
		delete(all, rev)
		return nil
	}
	if all == nil {
		all = leaves{}
		w.m.leaves[id] = all
	}
	text := mu.Value
	if n == 0 {
		_, size := binary.Uvarint(text)
		text = text[max(size, 0):]
		all[rev] = ""
		d.added = append(d.added, rev)
	}
	all[rev] += string(text)
	return nil
}

// document is what the commit makes of a document, so far.
func (w *writing) document(id string) *documentChange {
	if w.written[id] == nil {
		if w.written == nil {
			w.written = map[string]*documentChange{}
		}
		d := &documentChange{id: id, was: w.m.winners[id], found: w.m.winners[id]}
		w.written[id], w.documents = d, append(w.documents, d)
	}
	return w.written[id]
}

// joinDocuments finds the bodies of the documents that the commit writes.
func (w *writing) joinDocuments() {
	for _, d := range w.documents {
		if d.found.rev == "" {
			continue
		}
		d.found.body = "{}"
		if body, is := w.m.leaves[d.id][d.found.rev]; is {
			d.found.body = body
		}
	}
}

// follow takes documents over as they were found.
func (ds *documents) follow(w *writing) {
	for _, d := range w.documents {
		if put(ds.winners, d.id, d.found); d.isDesign() {
			put(ds.designs, d.id, d.found)
		}
	}
}

// there is a document as it is after the commit, and whether the commit has changed it.
func (w *writing) there(id string) (d document, changed bool) {
	if d := w.written[id]; d != nil {
		return d.found, d.found != d.was
	}
	return w.m.winners[id], false
}

// prefixOf is that of the database of a document or job.
func prefixOf(id string) string { return id[:strings.IndexByte(id, '|')+1] }

// forbids reports whether a validation function of the database forbids a document.
func (ds *documents) forbids(id, body string) bool {
	for design, d := range ds.designs { // in any order: one is enough
		if prefixOf(design) == prefixOf(id) && ds.Forbids != nil && ds.Forbids([]byte(d.body), []byte(body)) {
			return true
		}
	}
	return false
}
