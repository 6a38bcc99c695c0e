package revtree

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Rev names one revision of a document. The zero value names none.
type Rev struct {
	Gen int64  // how many edits led to it, from 1
	ID  string // 32 lower-case hex digits as servers make them, or any other text that is not 32 bytes long
}

// ErrRev is the error of text that is no revision.
var ErrRev = errors.New("invalid rev format")

// MaxBrought bounds the generations that a replicator may bring. maxGen bounds all others: the edits that follow on
// such a revision must have names that can be read, so there is room for more of them than can be made.
const (
	MaxBrought = 1_000_000_000_000_000
	maxGen     = 9 * MaxBrought // below 2^53, up to where all programs read numbers exactly
)

// ParseRev reads GEN-ID. Hex digits may be of either case. The error is ErrRev.
func ParseRev(s string) (Rev, error) {
	gen, id, found := strings.Cut(s, "-")
	n, err := strconv.ParseUint(gen, 10, 63)
	if !found || err != nil {
		return Rev{}, ErrRev
	}
	return MakeRev(int64(n), id)
}

// MaxIDSize is the length of the longest id in bytes.
const MaxIDSize = 255

// MakeRev is the revision of a generation and an id as JSON spells it. The error is ErrRev.
func MakeRev(gen int64, id string) (Rev, error) {
	if gen < 1 || gen > maxGen || id == "" || len(id) > MaxIDSize {
		return Rev{}, ErrRev
	}
	if len(id) == 2*packed {
		id = strings.ToLower(id)
		if _, err := hex.DecodeString(id); err != nil {
			return Rev{}, ErrRev
		}
	}
	return Rev{Gen: gen, ID: id}, nil
}

// String is the form that clients see: GEN-ID.
func (r Rev) String() string { return strconv.FormatInt(r.Gen, 10) + "-" + r.ID }

// IsZero reports whether r names no revision.
func (r Rev) IsZero() bool { return r == Rev{} }

// Compare orders revisions by generation, then by id as CouchDB does: bytewise, hex ids as the bytes
// that they spell.
func (r Rev) Compare(o Rev) int {
	if r.Gen != o.Gen {
		return cmp.Compare(r.Gen, o.Gen)
	}
	if len(r.ID) == len(o.ID) {
		return strings.Compare(r.ID, o.ID)
	}
	return cmp.Or(bytes.Compare(r.binary(), o.binary()), strings.Compare(r.ID, o.ID))
}

// packed is the number of bytes that a hex id spells.
const packed = 16

func (r Rev) binary() []byte {
	if len(r.ID) == 2*packed {
		if b, err := hex.DecodeString(r.ID); err == nil {
			return b
		}
	}
	return []byte(r.ID)
}
