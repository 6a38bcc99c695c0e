package docs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"couchrelay/core/kv/tuple"
)

// Seq is a place in a database's feed of changes. The zero value is the place before every change.
// Sequences of one store only grow, over all its databases, so one of a deleted database lies before
// every change of the database that was created under the same name later.
type Seq struct {
	// Stamp is the versionstamp of the transaction that made the change, with the change's number among
	// those that one handle made in it.
	Stamp tuple.Versionstamp
	// Tie is a hash of the document's id, which tells changes apart that several handles made in one
	// transaction.
	Tie uint32
}

// ParseSeq reads what String wrote. The error is ErrSeq.
func ParseSeq(s string) (Seq, error) {
	if s == "0" || s == "" {
		return Seq{}, nil
	}
	version, rest, _ := strings.Cut(s, "-")
	v, err := strconv.ParseUint(version, 10, 64)
	order, err2 := hex.DecodeString(rest)
	if err != nil || err2 != nil || len(order) != seqSize-8 {
		return Seq{}, ErrSeq
	}
	return seqOf(append(binary.BigEndian.AppendUint64(nil, v), order...)), nil
}

// String is the form that clients see: the version in decimal, which tools that read a number from the
// front of a sequence find to grow, and the order within it in hex.
func (s Seq) String() string {
	if s == (Seq{}) {
		return "0"
	}
	return fmt.Sprintf("%d-%x%04x%08x", s.version(), s.Stamp.Transaction[8:], s.Stamp.User, s.Tie)
}

func (s Seq) version() uint64 { return binary.BigEndian.Uint64(s.Stamp.Transaction[:8]) }

// Compare orders sequences.
func (s Seq) Compare(o Seq) int {
	return cmp.Or(
		bytes.Compare(s.Stamp.Transaction[:], o.Stamp.Transaction[:]),
		cmp.Compare(s.Stamp.User, o.Stamp.User),
		cmp.Compare(s.Tie, o.Tie),
	)
}

// seqSize is the length of a sequence in the store.
const seqSize = 16

func seqOf(b []byte) (s Seq) {
	copy(s.Stamp.Transaction[:], b)
	s.Stamp.User = binary.BigEndian.Uint16(b[10:])
	s.Tie = binary.BigEndian.Uint32(b[12:])
	return s
}

// pendingSeq is a sequence of this transaction, whose stamp the commit fills in, and text, in the form
// that SetVersionstampedValue takes.
func pendingSeq(ordinal uint16, tie uint32, text string) []byte {
	value := binary.BigEndian.AppendUint16(make([]byte, 10, seqSize+len(text)+4), ordinal)
	value = append(binary.BigEndian.AppendUint32(value, tie), text...)
	return append(value, 0, 0, 0, 0) // the offset of the stamp
}

// tieOf is FNV-1a.
func tieOf(id string) uint32 {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return h
}

// seqKey is the key that begins all keys of seq in the feed.
func (db *Database) seqKey(seq Seq, room int) []byte {
	return tuple.AppendUint(tuple.AppendVersionstamp(db.start(keyChanges, room+19), seq.Stamp), uint64(seq.Tie))
}

// changeKey is the key of a row in the feed.
func (db *Database) changeKey(seq Seq, id string) []byte {
	return tuple.AppendString(db.seqKey(seq, len(id)+2), id)
}

// pendingChangeKey is the key of a row that this transaction makes, in the form that
// SetVersionstampedKey takes.
func (db *Database) pendingChangeKey(ordinal uint16, id string) []byte {
	key := db.changeKey(Seq{tuple.Incomplete(ordinal), tieOf(id)}, id)
	return binary.LittleEndian.AppendUint32(key, uint32(len(db.start(keyChanges, 0))+1))
}
