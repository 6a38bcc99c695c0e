package docs

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// The value of a local document: its number, the token of its last edit, the JSON text. The number is
// the id of its revision, which has generation 0. A deleted one leaves its token, with number 0 and no
// text.
type local struct {
	number, token uint64
	body          []byte
	chunks        int
}

func (l *local) exists() bool { return l.number > 0 }

func (db *Database) local(id string) (local, error) {
	if len(id) > maxIDSize {
		return local{}, nil
	}
	value, chunks, err := getSplit(db.tx, db.idKey(keyLocal, id))
	if err != nil || chunks == 0 {
		return local{}, err
	}
	l, err := decodeLocal(value)
	if err != nil {
		return l, fmt.Errorf("local document %q: %w", id, err)
	}
	l.chunks = chunks
	return l, nil
}

func decodeLocal(value []byte) (local, error) {
	number, n := binary.Uvarint(value)
	if n <= 0 || len(value) < n+8 {
		return local{}, errMalformed
	}
	return local{number: number, token: binary.BigEndian.Uint64(value[n:]), body: value[n+8:]}, nil
}

func localRev(number uint64) revtree.Rev {
	return revtree.Rev{ID: strconv.FormatUint(number, 10)}
}

func (db *Database) readLocal(id string) (*Document, error) {
	l, err := db.local(id)
	if err != nil {
		return nil, err
	}
	if !l.exists() {
		return nil, ErrMissing
	}
	return &Document{ID: id, Rev: localRev(l.number), Body: l.body}, nil
}

// putLocal writes or deletes a local document, and returns its new revision. It fails with ErrConflict unless
// e.Rev is the current revision, or zero if there is no document.
func (db *Database) putLocal(e *Edit) (revtree.Rev, error) {
	if len(e.Attachments) > 0 {
		return e.Rev, BadRequest("_local documents do not accept attachments.")
	}
	l, err := db.local(e.ID)
	if err != nil {
		return e.Rev, err
	}
	switch {
	case e.Token != 0 && e.Token == l.token:
		return localRev(l.number), nil // the repetition of a write that had succeeded
	case e.Deleted && !l.exists():
		return e.Rev, ErrMissing
	case e.Rev.IsZero() == l.exists(), l.exists() && e.Rev != localRev(l.number):
		return e.Rev, ErrConflict
	}
	number, body := l.number+1, e.Body
	if e.Deleted {
		number, body = 0, nil
	}
	value := binary.AppendUvarint(make([]byte, 0, len(body)+18), number)
	value = append(binary.BigEndian.AppendUint64(value, e.Token), body...)
	key := db.idKey(keyLocal, e.ID)
	clearSplit(db.tx, key, putSplit(db.tx, key, value), l.chunks)
	return localRev(number), nil
}

// localsAtOnce is how many local documents one transaction looks at.
const localsAtOnce = 64

// Locals reads a page of the list of local documents, and returns what is left to list; more reports whether that may
// be anything. A local document that was deleted takes time, and is no row.
func Locals(db *Database, l Listing) (rows []Listed, rest Listing, more bool, err error) {
	chunks := 0
	for range localsAtOnce {
		if len(rows) >= l.Limit || chunks >= readChunks {
			break
		}
		id, err := nextLocal(db, l)
		if err != nil || id == "" {
			return rows, l, false, err
		}
		found, err := db.local(id)
		if err != nil {
			return nil, l, false, err
		}
		l.From, l.After, chunks = &id, true, chunks+found.chunks
		if found.exists() {
			doc := &Document{ID: id, Rev: localRev(found.number), Body: found.body}
			rows = append(rows, Listed{ID: id, Rev: doc.Rev, Doc: doc})
		}
	}
	return rows, l, true, nil
}

// LocalsByID looks local documents up by their ids: as many as one transaction should read, at least the first. One
// that does not exist has no revision.
func LocalsByID(db *Database, ids []string) (rows []Listed, err error) {
	chunks := 0
	for _, id := range ids[:min(len(ids), localsAtOnce)] {
		found, err := db.local(id)
		if err != nil {
			return nil, err
		}
		row := Listed{ID: id}
		if found.exists() {
			row.Rev = localRev(found.number)
			row.Doc = &Document{ID: id, Rev: row.Rev, Body: found.body}
		}
		rows = append(rows, row)
		if chunks += found.chunks; chunks >= readChunks {
			break
		}
	}
	return rows, nil
}

// nextLocal returns the id of the first local document of a listing, deleted or not; empty if there is none.
func nextLocal(db *Database, l Listing) (id string, err error) {
	pairs, err := db.tx.GetRange(db.listRange(keyLocal, l), kv.RangeOptions{Limit: 1, Reverse: l.Descending})
	if err != nil || len(pairs) == 0 {
		return "", err
	}
	space := tuple.Subspace(db.key(keyLocal))
	if space.Scan(pairs[0].Key, &id) != nil { // a further chunk, which has a number
		var chunk int64
		err = space.Scan(pairs[0].Key, &id, &chunk)
	}
	return id, err
}
