package docs

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"couchrelay/core/docs/revtree"
)

// record is the stored state of one document but for its bodies.
type record struct {
	id    string
	tree  revtree.Tree
	marks []mark // of the newest edits, the oldest first
	size  int    // bytes that it took when it was read
	// chunks is the number of keys that it took when it was read; 0 if it did not exist.
	chunks int
	// here reports that this transaction wrote it before: its place in the feed is pending, with ordinal.
	here    bool
	ordinal uint16
	seq     Seq // its place in the feed, when loadSeqs has read it

	alive, known bool // what the counters hold it for
	change       int  // its last change's number in the batch; 0 for none
	repeated     bool // an edit of this batch is among the marks: the batch is run again
}

// mark remembers a new edit by its token, so that a repeated transaction finds it.
type mark struct {
	token uint64
	rev   revtree.Rev // with an id of 32 hex digits
}

// maxMarks is the number of edits that a record remembers: more than one document should get between a
// transaction and its repetition.
const maxMarks = 8

// The value of a record: the read version and the ordinal of the transaction that wrote it, the marks,
// the tree. A transaction commits after its read version, so one that finds its own read version wrote
// the record itself.
const recordHeader = 8 + 2 + 1

// recordOf decodes a record. value is nil if there is none.
func (db *Database) recordOf(id string, value []byte, chunks int) (*record, error) {
	r := &record{id: id, size: len(value), chunks: chunks}
	if value == nil {
		return r, nil
	}
	if err := r.decode(value); err != nil {
		return nil, err
	}
	now, err := db.tx.ReadVersion()
	if err != nil {
		return nil, err
	}
	r.here = binary.BigEndian.Uint64(value) == uint64(now)
	r.ordinal = binary.BigEndian.Uint16(value[8:])
	r.alive, r.known = r.status()
	return r, nil
}

// decode reads the marks and the tree.
func (r *record) decode(value []byte) (err error) {
	if len(value) < recordHeader {
		return malformed("record of document %q", r.id)
	}
	marks, rest := int(value[10]), value[recordHeader:]
	for range marks {
		if rest, err = r.decodeMark(rest); err != nil {
			return err
		}
	}
	if r.tree, _, err = revtree.Decode(rest); err != nil {
		return malformed("revisions of document %q", r.id)
	}
	return nil
}

func (r *record) decodeMark(b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, malformed("marks of document %q", r.id)
	}
	token := binary.BigEndian.Uint64(b)
	gen, n := binary.Uvarint(b[8:])
	b = b[8+max(n, 0):]
	if n <= 0 || len(b) < 16 {
		return nil, malformed("marks of document %q", r.id)
	}
	r.marks = append(r.marks, mark{token, revtree.Rev{Gen: int64(gen), ID: hex.EncodeToString(b[:16])}})
	return b[16:], nil
}

func (r *record) append(dst []byte, readVersion int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(readVersion))
	dst = binary.BigEndian.AppendUint16(dst, r.ordinal)
	dst = append(dst, byte(len(r.marks)))
	for _, m := range r.marks {
		dst = binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, m.token), uint64(m.rev.Gen))
		dst, _ = hex.AppendDecode(dst, []byte(m.rev.ID))
	}
	return r.tree.Append(dst)
}

// edited returns the revision that the edit with this token made.
func (r *record) edited(token uint64) (revtree.Rev, bool) {
	for _, m := range r.marks {
		if m.token == token && token != 0 {
			return m.rev, true
		}
	}
	return revtree.Rev{}, false
}

func (r *record) remember(token uint64, rev revtree.Rev) {
	if token == 0 {
		return
	}
	if r.marks = append(r.marks, mark{token, rev}); len(r.marks) > maxMarks {
		r.marks = r.marks[1:]
	}
}

func (r *record) status() (alive, known bool) {
	winner, known := r.tree.Winner()
	return known && !winner.Deleted, known
}

// readRecords is about how many bytes of records are read in one transaction, as long as others can follow. In memory
// they take several times that.
const readRecords = 2_000_000

// records reads the records of ids, in their order.
func (db *Database) records(ids []string) ([]*record, error) {
	return firstRecords(db, ids, math.MaxInt)
}

// someRecords reads the records of as many ids as one transaction should read, at least of the first.
func someRecords(db *Database, ids []string) ([]*record, error) {
	return firstRecords(db, ids, readRecords)
}

// firstRecords reads records until they have so many bytes.
func firstRecords(db *Database, ids []string, bytes int) ([]*record, error) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		if len(id) > maxIDSize {
			id = "" // no document has either id
		}
		keys[i] = db.idKey(keyRecord, id)
	}
	values, err := db.tx.GetAll(keys)
	if err != nil {
		return nil, err
	}
	records := make([]*record, 0, len(ids))
	for i, first := range values {
		if bytes <= 0 {
			break
		}
		value, chunks, err := joinSplit(db.tx, keys[i], first)
		if err != nil {
			return nil, err
		}
		r, err := db.recordOf(ids[i], value, chunks)
		if err != nil {
			return nil, err
		}
		records, bytes = append(records, r), bytes-len(value)
	}
	return records, nil
}

func (db *Database) record(id string) (*record, error) {
	if r := db.updating[id]; r != nil {
		return r, nil
	}
	records, err := db.records([]string{id})
	if err != nil {
		return nil, err
	}
	return records[0], nil
}

// loadSeqs reads the places in the feed of those records that have one. A document that has lost its entry has none,
// and gets one when it is written; a check removes the row that it may have left in the feed.
func (db *Database) loadSeqs(records []*record) error {
	var keys [][]byte
	var placed []*record
	for _, r := range records {
		if r.known && !r.here {
			keys, placed = append(keys, db.entryKey(r.id, r.alive)), append(placed, r)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	entries, err := db.tx.GetAll(keys)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		switch {
		case len(entry) >= seqSize:
			placed[i].seq = seqOf(entry)
		case entry != nil:
			return malformed("entry of document %q", placed[i].id)
		}
	}
	return nil
}

func (db *Database) entryKey(id string, alive bool) []byte {
	if alive {
		return db.idKey(keyAlive, id)
	}
	return db.idKey(keyDeleted, id)
}

// saveRecord writes a changed record with everything that follows from it: the document's entry, its row in
// the feed and its share of the counters.
func (db *Database) saveRecord(r *record, delta *counts) error {
	now, err := db.tx.ReadVersion()
	if err != nil {
		return err
	}
	winner, _ := r.tree.Winner()
	alive := !winner.Deleted
	if !r.here {
		if r.known {
			db.tx.Clear(db.changeKey(r.seq, r.id))
		}
		r.ordinal, r.here = db.ordinal, true
		db.ordinal++
	}
	key := db.idKey(keyRecord, r.id)
	chunks := putSplit(db.tx, key, r.append(make([]byte, 0, r.size+64), now))
	clearSplit(db.tx, key, chunks, r.chunks)
	if r.known && r.alive != alive {
		db.tx.Clear(db.entryKey(r.id, r.alive))
	}
	db.tx.SetVersionstampedValue(db.entryKey(r.id, alive), pendingSeq(r.ordinal, tieOf(r.id), winner.String()))
	db.putChange(r, winner)
	delta.move(r.known, r.alive, -1)
	delta.move(true, alive, +1)
	return nil
}

// Flags of a row in the feed.
const (
	rowDeleted    = 1 << iota // the winner is deleted
	rowConflicted             // the winner is not the only leaf
)

func (db *Database) putChange(r *record, winner revtree.LeafRev) {
	var flags byte
	if winner.Deleted {
		flags |= rowDeleted
	}
	if r.tree.Conflicted() {
		flags |= rowConflicted
	}
	db.tx.SetVersionstampedKey(db.pendingChangeKey(r.ordinal, r.id), append([]byte{flags}, winner.String()...))
}

// counts is the changes of the counters by a batch of writes.
type counts struct{ docs, deleted int64 }

func (c *counts) move(known, alive bool, by int64) {
	switch {
	case known && alive:
		c.docs += by
	case known:
		c.deleted += by
	}
}

func (c counts) addTo(db *Database) {
	if c.docs != 0 {
		db.tx.Add(db.key(keyDocCount), c.docs)
	}
	if c.deleted != 0 {
		db.tx.Add(db.key(keyDelCount), c.deleted)
	}
}
