package ryw

import (
	"bytes"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/keymap"
)

func (b *Buffer) getRange(r kv.Range, o kv.RangeOptions, conflict bool) ([]kv.KeyValue, error) {
	switch {
	case b.err != nil:
		return nil, b.err
	case beyond(r.Begin) || beyond(r.End):
		return nil, b.Lose(kv.NewError(kv.KeyOutsideLegalRange))
	case r.Empty():
		return nil, nil
	}
	m := &b.scan
	m.start(b, r, o)
	if err := b.source.Scan(r, o.Reverse, m.yield); err != nil {
		return nil, b.Lose(err)
	}
	m.finish()
	read := m.covered()
	if m.unreadable || b.unreadable.overlaps(read) {
		return nil, b.Lose(kv.NewError(kv.AccessedUnreadable))
	}
	if conflict {
		b.noteRead(read)
	}
	return m.out, nil
}

// merge merges the transaction's own writes with the pairs of a range that the store yields.
type merge struct {
	b          *Buffer
	r          kv.Range
	o          kv.RangeOptions
	own        keymap.Cursor[write] // the next own write, in the order of reading
	overlay    bool                 // there are own writes in the range
	unreadable bool                 // it came to a key whose value is not known yet
	out        []kv.KeyValue
	yield      func(key, value []byte) bool // the method pair, bound once to save allocations
}

func (m *merge) start(b *Buffer, r kv.Range, o kv.RangeOptions) {
	if m.yield == nil {
		m.yield = m.pair
	}
	m.b, m.r, m.o = b, r, o
	m.unreadable, m.out = false, nil
	m.overlay = b.points.Len() > 0 || !b.cleared.empty()
	if o.Reverse {
		m.own = b.points.SeekBefore(r.End)
	} else {
		m.own = b.points.Seek(r.Begin)
	}
}

// pair takes the store's next pair. It returns false if it wants no more.
func (m *merge) pair(key, value []byte) bool {
	if m.overlay {
		if !m.ownUpTo(key) {
			return false
		}
		if m.ownKey() && bytes.Equal(m.own.Key(), key) {
			return m.ownPair(value)
		}
		if m.b.cleared.contains(key) {
			return true
		}
	}
	return m.emit(key, value)
}

// finish adds the own writes behind the store's last pair.
func (m *merge) finish() {
	for m.more() && m.ownKey() && m.ownPair(nil) {
	}
}

func (m *merge) more() bool { return !m.unreadable && (m.o.Limit <= 0 || len(m.out) < m.o.Limit) }

// ownKey reports whether there is a next own write in the range.
func (m *merge) ownKey() bool {
	if !m.own.Valid() {
		return false
	}
	if m.o.Reverse {
		return bytes.Compare(m.own.Key(), m.r.Begin) >= 0
	}
	return bytes.Compare(m.own.Key(), m.r.End) < 0
}

// ownUpTo adds the own writes that come before key.
func (m *merge) ownUpTo(key []byte) bool {
	for m.ownKey() {
		if c := bytes.Compare(m.own.Key(), key); c == 0 || (c > 0) != m.o.Reverse {
			break
		}
		if !m.ownPair(nil) {
			return false
		}
	}
	return true
}

// ownPair adds the next own write above the store's value and moves on.
func (m *merge) ownPair(base []byte) bool {
	w := m.own.Value()
	if w.unreadable {
		m.unreadable = true
		return false
	}
	key, value := m.own.Key(), w.over(base)
	if m.o.Reverse {
		m.own.Prev()
	} else {
		m.own.Next()
	}
	return value == nil || m.emit(key, value)
}

func (m *merge) emit(key, value []byte) bool {
	if m.out == nil {
		n := 4
		if m.o.Limit > 0 {
			n = min(n, m.o.Limit)
		}
		m.out = make([]kv.KeyValue, 0, n)
	}
	m.out = append(m.out, kv.KeyValue{Key: slices.Clip(key), Value: slices.Clip(value)})
	return m.more()
}

// covered returns the part of the range that the result is about.
func (m *merge) covered() kv.Range {
	switch last := len(m.out) - 1; {
	case m.o.Limit <= 0 || last+1 < m.o.Limit:
		return m.r
	case m.o.Reverse:
		return kv.Range{Begin: m.out[last].Key, End: m.r.End}
	default:
		return kv.Range{Begin: m.r.Begin, End: kv.KeyAfter(m.out[last].Key)}
	}
}
