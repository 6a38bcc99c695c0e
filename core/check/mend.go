package check

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Finding is something that is wrong with a row.
type Finding struct {
	Key    string `json:"key"`  // as people read it
	What   string `json:"what"` // is wrong
	Repair string `json:"repair,omitempty"`
	// Doubtful reports whether the finding follows from rows that were read at different moments. It is true only if
	// none of them has changed in between.
	Doubtful bool `json:"-"`

	key  []byte
	mend Mend
	seen evidence
}

// Mend is what puts a row right.
type Mend struct {
	What  string // for people
	Set   []kv.KeyValue
	Clear [][]byte
	// Sum is a counter that is to be raised by Add. By how much a counter is wrong does not change with what it counts,
	// so no row has to be as it was but repairs, which counts the sums that were put right.
	Sum     []byte
	Add     int64
	repairs []byte
}

// Mends reports whether the row can be put right by what other rows say.
func (f *Finding) Mends() bool { return f.mend.What != "" }

// evidence is what a finding follows from.
type evidence struct {
	rows   []kv.KeyValue // with nil for no value
	ranges []span
}

type span struct {
	at    kv.Range
	limit int
	rows  []kv.KeyValue
}

// Mended puts right what a finding says, and reports whether it did: if any row from which the finding follows has
// changed since, it writes nothing. The transaction sees rows as they are stored. A sum is put right only if so many
// sums have been in all: those before the check began, see Repairs, and those that the caller has put right since. So
// of two checks that find the same one adds the difference. A repetition after an unknown result does nothing then.
func Mended(tx kv.Tx, f *Finding, repairs int64) (bool, error) {
	if !f.Mends() {
		return false, nil
	}
	if f.mend.Sum != nil {
		row, err := tx.Get(f.mend.repairs)
		if err != nil || kv.Counter(row) != repairs {
			return false, err
		}
		tx.Add(f.mend.repairs, 1)
		tx.Add(f.mend.Sum, f.mend.Add)
		return true, nil
	}
	if same, err := f.seen.holds(tx); err != nil || !same {
		return false, err
	}
	for _, row := range f.mend.Set {
		tx.Set(row.Key, row.Value)
	}
	for _, key := range f.mend.Clear {
		tx.Clear(key)
	}
	return true, nil
}

// OfSum reports whether a sum is wrong.
func (f *Finding) OfSum() bool { return f.mend.Sum != nil }

func repairsBelow(root tuple.Subspace) []byte { return root.Pack("repairs") }

// Repairs is how many sums were put right in a store so far. Read it before a check, or with that as of one moment.
func Repairs(r kv.Reader, root tuple.Subspace) (int64, error) {
	row, err := r.Get(repairsBelow(root))
	return kv.Counter(row), err
}

// holds reports whether all rows are as they were.
func (e evidence) holds(r kv.Reader) (bool, error) {
	keys := make([][]byte, len(e.rows))
	for i, row := range e.rows {
		keys[i] = row.Key
	}
	values, err := r.GetAll(keys)
	if err != nil {
		return false, err
	}
	for i, row := range e.rows {
		if !same(values[i], row.Value) {
			return false, nil
		}
	}
	for _, s := range e.ranges {
		rows, err := r.GetRange(s.at, kv.RangeOptions{Limit: s.limit})
		if err != nil {
			return false, err
		}
		equal := slices.EqualFunc(rows, s.rows, func(a, b kv.KeyValue) bool {
			return bytes.Equal(a.Key, b.Key) && same(a.Value, b.Value)
		})
		if !equal {
			return false, nil
		}
	}
	return true, nil
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// Readable is a key as people read it: its elements below the root, with strings in quotes where they would be taken
// for several.
func Readable(root tuple.Subspace, key []byte) string {
	t, err := root.Unpack(key)
	if err != nil {
		rest := bytes.TrimPrefix(key, root)
		return "bytes " + hex.EncodeToString(rest)
	}
	words := make([]string, len(t))
	for i, e := range t {
		switch e := e.(type) {
		case string:
			if words[i] = e; e == "" || strings.ContainsAny(e, "/ \"\\") || strings.ContainsFunc(e, unprintable) {
				words[i] = fmt.Sprintf("%q", e)
			}
		case []byte:
			words[i] = hex.EncodeToString(e)
		case tuple.UUID:
			words[i] = hex.EncodeToString(e[:])
		case tuple.Versionstamp:
			words[i] = fmt.Sprintf("%x.%d", e.Transaction, e.User)
		default:
			words[i] = fmt.Sprint(e)
		}
	}
	return strings.Join(words, "/")
}

func unprintable(r rune) bool { return r < ' ' || r == 0x7f }
