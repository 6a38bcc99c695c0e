package docs

import (
	"encoding/binary"
	"strconv"

	"couchrelay/core/docs/revtree"
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
	number, n := binary.Uvarint(value)
	if n <= 0 || len(value) < n+8 {
		return local{}, errMalformed
	}
	return local{number, binary.BigEndian.Uint64(value[n:]), value[n+8:], chunks}, nil
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
