// Package ryw is the pure part of a transaction that reads its own writes. It keeps the writes of one attempt
// above the store's snapshot, notes the reads and writes, and at the end returns the list of mutations with
// their conflict spans. The stores in memory and on disk share it, so that they agree on every detail: on
// those of FoundationDB's client. It never waits and reads no clock.
package ryw

import (
	"bytes"
	"cmp"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/keymap"
	"couchrelay/core/kv/resolver"
)

// Source is the store's snapshot at the transaction's read version.
type Source interface {
	// Values sets values[i] to the value of keys[i], nil if there is none. The values must not be changed.
	Values(keys, values [][]byte) error
	// Scan passes the pairs of r to yield, in order or in descending order, until yield returns false. The
	// pairs must not be changed.
	Scan(r kv.Range, reverse bool, yield func(key, value []byte) bool) error
	// KnownVersion returns the read version if it has been fetched, else 0.
	KnownVersion() int64
}

// Buffer is one attempt of a transaction: the part of kv.Tx that needs no store beyond a Source.
// It is used by one caller at a time.
type Buffer struct {
	source Source
	err    error // the first error, which every later operation returns; nil before it
	lost

	points     keymap.Map[write] // single keys written
	cleared    intervals         // cleared ranges; a key in points hides them
	unreadable intervals         // the possible places of versionstamped keys
	stamped    []stampedKey      // versionstamped keys to be written, in the order of the calls
	reads      spans             // read conflicts
	conflicts  []resolver.Span   // explicit write conflicts
	scan       merge             // reused by GetRange
	key, value [1][]byte         // reused by Get
}

var _ kv.Reader = (*Buffer)(nil)

// New returns an empty buffer above a source.
func New(source Source) *Buffer { return &Buffer{source: source} }

// Reset empties the buffer for the next attempt.
func (b *Buffer) Reset() {
	b.err, b.lost = nil, lost{}
	b.points.Reset()
	b.cleared.reset()
	b.unreadable.reset()
	b.stamped = nil
	b.reads = nil // Finish gave the old slice away
	b.conflicts = nil
}

// Fail makes every later operation return err.
func (b *Buffer) Fail(err error) { b.err = err }

// fault notes the first error of a write, which later operations return.
func (b *Buffer) fault(code kv.Code) {
	if b.err == nil {
		b.err = kv.NewError(code)
	}
}

// lost has the error of the first read that failed; Finish returns it.
type lost struct{ first error }

// Lose notes that a read failed with err, and returns err.
func (l *lost) Lose(err error) error {
	l.first = cmp.Or(l.first, err)
	return err
}

// isSystem reports whether key is one of those that FoundationDB keeps for itself.
func isSystem(key []byte) bool { return len(key) > 0 && key[0] == 0xff }

// beyond reports whether key is behind the largest legal end of a range.
func beyond(key []byte) bool { return isSystem(key) && len(key) > 1 }

// Watched is GetAll for a watch, whose failure is no failed read.
func Watched(b *Buffer, keys [][]byte) ([][]byte, error) {
	before := b.lost
	values, err := b.getAll(keys, true)
	b.lost = before
	return values, err
}

// Get implements kv.Reader.
func (b *Buffer) Get(key []byte) ([]byte, error) { return b.get(key, true) }

// GetAll implements kv.Reader.
func (b *Buffer) GetAll(keys [][]byte) ([][]byte, error) { return b.getAll(keys, true) }

// GetRange implements kv.Reader.
func (b *Buffer) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return b.getRange(r, o, true)
}

// Prefetch implements kv.Reader. A source is near: there is nothing to gain.
func (b *Buffer) Prefetch([][]byte, []kv.Range) {}

// Snapshot implements kv.Tx.
func (b *Buffer) Snapshot() kv.Reader { return (*snapshot)(b) }

// snapshot reads without read conflicts.
type snapshot Buffer

func (s *snapshot) Get(key []byte) ([]byte, error)         { return (*Buffer)(s).get(key, false) }
func (s *snapshot) GetAll(keys [][]byte) ([][]byte, error) { return (*Buffer)(s).getAll(keys, false) }
func (s *snapshot) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return (*Buffer)(s).getRange(r, o, false)
}
func (s *snapshot) Prefetch([][]byte, []kv.Range) {}

func (b *Buffer) get(key []byte, conflict bool) ([]byte, error) {
	value, known, err := b.local(key)
	if err != nil || known {
		return value, err
	}
	b.key[0], b.value[0] = key, nil
	if err := b.source.Values(b.key[:], b.value[:]); err != nil {
		return nil, b.Lose(err)
	}
	return b.settle(key, b.value[0], conflict), nil
}

func (b *Buffer) getAll(keys [][]byte, conflict bool) ([][]byte, error) {
	values := make([][]byte, len(keys))
	var far [][]byte // the keys that the store must be asked for
	var at []int     // and their indices
	for i, key := range keys {
		value, known, err := b.local(key)
		if err != nil {
			return nil, err
		}
		if values[i] = value; !known {
			far, at = append(far, key), append(at, i)
		}
	}
	if len(far) == 0 {
		return values, nil
	}
	found := make([][]byte, len(far))
	if err := b.source.Values(far, found); err != nil {
		return nil, b.Lose(err)
	}
	for i, value := range found {
		values[at[i]] = b.settle(far[i], value, conflict)
	}
	return values, nil
}

// local returns the value of key if the buffer knows it without the store.
func (b *Buffer) local(key []byte) (value []byte, known bool, err error) {
	switch {
	case b.err != nil:
		return nil, false, b.err
	case isSystem(key):
		return nil, false, b.Lose(kv.NewError(kv.KeyOutsideLegalRange))
	case len(key) > kv.MaxKeySize:
		return nil, true, nil // a key of this length cannot be written
	case b.unreadable.contains(key):
		return nil, false, b.Lose(kv.NewError(kv.AccessedUnreadable))
	}
	switch w := b.points.Get(key); {
	case w == nil:
		return nil, b.cleared.contains(key), nil
	case w.unreadable:
		return nil, false, b.Lose(kv.NewError(kv.AccessedUnreadable))
	default:
		return slices.Clip(w.value), w.known, nil
	}
}

// settle returns the value of key that the transaction sees above the store's value, and notes the read.
func (b *Buffer) settle(key, value []byte, conflict bool) []byte {
	if conflict {
		b.reads.add(bytes.Clone(key), nil)
	}
	if w := b.points.Get(key); w != nil {
		return w.over(value)
	}
	return value
}

type spans []resolver.Span

func (s *spans) add(begin, end []byte) {
	if *s == nil {
		*s = make(spans, 0, 8)
	}
	*s = append(*s, resolver.Span{Begin: begin, End: end})
}

// AddReadConflict implements kv.Tx.
func (b *Buffer) AddReadConflict(r kv.Range) {
	if b.legal(r) {
		b.noteRead(r)
	}
}

// AddWriteConflict implements kv.Tx.
func (b *Buffer) AddWriteConflict(r kv.Range) {
	if b.legal(r) {
		b.conflicts = append(b.conflicts, resolver.SpanOf(own(r)))
	}
}

// legal checks the range of a write, and reports whether it is not empty.
func (b *Buffer) legal(r kv.Range) bool {
	switch {
	case b.err != nil:
		return false
	case beyond(r.Begin) || beyond(r.End):
		b.fault(kv.KeyOutsideLegalRange)
		return false
	case bytes.Compare(r.Begin, r.End) > 0:
		b.fault(kv.InvertedRange)
		return false
	}
	return !r.Empty()
}

// own copies a range of the caller's. Ends longer than any key are cut, so that the same keys are in the
// range.
func own(r kv.Range) kv.Range {
	buf := make([]byte, 0, len(r.Begin)+len(r.End))
	cut := func(key []byte) []byte {
		from := len(buf)
		buf = append(buf, key[:min(len(key), kv.MaxKeySize+1)]...)
		return buf[from:len(buf):len(buf)]
	}
	return kv.Range{Begin: cut(r.Begin), End: cut(r.End)}
}

// noteRead adds a read conflict for the keys of r whose values came from the store. Keys that this
// transaction has written without regard to the store's value are left out.
func (b *Buffer) noteRead(r kv.Range) {
	r = own(r)
	if b.points.Len() == 0 && b.cleared.empty() {
		b.reads.add(r.Begin, r.End)
		return
	}
	pos := r.Begin
	upTo := func(end []byte) {
		if bytes.Compare(pos, end) < 0 {
			b.reads.add(pos, end)
		}
	}
	point, gap := b.points.Seek(pos), b.cleared.seek(pos)
	for {
		inPoints := point.Valid() && bytes.Compare(point.Key(), r.End) < 0
		inGaps := gap.Valid() && bytes.Compare(gap.Key(), r.End) < 0
		switch {
		case inPoints && (!inGaps || bytes.Compare(point.Key(), gap.Key()) <= 0):
			if point.Value().independent() {
				upTo(point.Key())
				pos = later(pos, kv.KeyAfter(point.Key()))
			}
			point.Next()
		case inGaps:
			upTo(gap.Key())
			pos = later(pos, *gap.Value())
			gap.Next()
		default:
			upTo(r.End)
			return
		}
	}
}

func later(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}
