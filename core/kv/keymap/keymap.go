// Package keymap is an ordered map with byte keys, held in sorted chunks: as fast as a sorted slice
// when small, and without its cost of insertion when large. It is plain memory, deterministic and not
// safe for concurrent use.
package keymap

import "bytes"

// maxChunk bounds the entries of a chunk; a full one is split in halves.
const maxChunk = 128

// Map maps byte keys to values. The zero value is empty. It keeps the key slices that it is given.
type Map[V any] struct {
	chunks []*chunk[V] // in order, none empty
	n      int
}

type chunk[V any] struct {
	keys [][]byte
	vals []V
}

// Len returns the number of entries.
func (m *Map[V]) Len() int { return m.n }

// Reset removes all entries. It keeps some memory for the next ones.
func (m *Map[V]) Reset() {
	if m.n == 0 {
		return
	}
	first := m.chunks[0]
	clear(first.keys)
	clear(first.vals)
	first.keys, first.vals = first.keys[:0], first.vals[:0]
	clear(m.chunks)
	m.chunks = m.chunks[:0]
	if cap(m.chunks) > 0 {
		m.chunks[:1][0] = first
	}
	m.n = 0
}

// Get returns the value of key, nil if there is none. The value may be changed in place until the next
// insertion or deletion.
func (m *Map[V]) Get(key []byte) *V {
	c, i, found := m.find(key)
	if !found {
		return nil
	}
	return &m.chunks[c].vals[i]
}

// Put sets the value of key.
func (m *Map[V]) Put(key []byte, v V) { *m.Ref(key) = v }

// Ref returns the value of key as Get does, and inserts the zero value if there is none.
func (m *Map[V]) Ref(key []byte) *V {
	c, i, found := m.find(key)
	if !found {
		c, i = m.insert(c, i, key)
	}
	return &m.chunks[c].vals[i]
}

// find returns the position of key, or if it is not found the position where it belongs, within the last
// chunk that starts before it.
func (m *Map[V]) find(key []byte) (c, i int, found bool) {
	if m.n == 0 {
		return 0, 0, false
	}
	lo, hi := 1, len(m.chunks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bytes.Compare(m.chunks[mid].keys[0], key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	c = lo - 1
	i, found = search(m.chunks[c].keys, key)
	return c, i, found
}

// search is slices.BinarySearchFunc for bytes, written out because it is faster.
func search(keys [][]byte, key []byte) (int, bool) {
	lo, hi := 0, len(keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch bytes.Compare(keys[mid], key) {
		case 0:
			return mid, true
		case -1:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return lo, false
}

// insert makes room for key at a position that find returned, and returns its new position.
func (m *Map[V]) insert(c, i int, key []byte) (int, int) {
	if m.n == 0 {
		m.addFirst()
	} else if len(m.chunks[c].keys) == maxChunk {
		m.split(c, i)
		if n := len(m.chunks[c].keys); i > n || i == maxChunk {
			c, i = c+1, i-n
		}
	}
	ch := m.chunks[c]
	var zero V
	ch.keys, ch.vals = append(ch.keys, nil), append(ch.vals, zero)
	copy(ch.keys[i+1:], ch.keys[i:])
	copy(ch.vals[i+1:], ch.vals[i:])
	ch.keys[i], ch.vals[i] = key, zero
	m.n++
	return c, i
}

// addFirst adds the first chunk: the one that Reset kept, if there is one.
func (m *Map[V]) addFirst() {
	if cap(m.chunks) > 0 {
		if m.chunks = m.chunks[:1]; m.chunks[0] != nil {
			return
		}
	}
	const start = 8
	m.chunks = append(m.chunks[:0], &chunk[V]{keys: make([][]byte, 0, start), vals: make([]V, 0, start)})
}

// split divides the full chunk c in two halves. If entry i is to come at its end, the second chunk is empty:
// keys often come in order, and then chunks stay full.
func (m *Map[V]) split(c, i int) {
	at := maxChunk / 2
	if i == maxChunk {
		at = maxChunk
	}
	left := m.chunks[c]
	right := &chunk[V]{keys: make([][]byte, 0, maxChunk), vals: make([]V, 0, maxChunk)}
	right.keys, right.vals = append(right.keys, left.keys[at:]...), append(right.vals, left.vals[at:]...)
	clear(left.keys[at:])
	clear(left.vals[at:])
	left.keys, left.vals = left.keys[:at], left.vals[:at]
	m.chunks = append(m.chunks, nil)
	copy(m.chunks[c+2:], m.chunks[c+1:])
	m.chunks[c+1] = right
}

// Delete removes key and reports whether it was there.
func (m *Map[V]) Delete(key []byte) bool {
	c, i, found := m.find(key)
	if found {
		m.cut(c, i, i+1)
	}
	return found
}

// DeleteRange removes the keys k with begin <= k < end.
func (m *Map[V]) DeleteRange(begin, end []byte) {
	for m.n > 0 {
		c, i, _ := m.find(begin)
		if i == len(m.chunks[c].keys) {
			c, i = c+1, 0
		}
		if c == len(m.chunks) {
			return
		}
		j, _ := search(m.chunks[c].keys[i:], end)
		if j == 0 {
			return
		}
		m.cut(c, i, i+j)
	}
}

// cut removes entries i to j of chunk c, and the chunk if it is empty then.
func (m *Map[V]) cut(c, i, j int) {
	ch := m.chunks[c]
	m.n -= j - i
	if j-i == len(ch.keys) {
		copy(m.chunks[c:], m.chunks[c+1:])
		m.chunks[len(m.chunks)-1] = nil
		m.chunks = m.chunks[:len(m.chunks)-1]
		return
	}
	n := copy(ch.keys[i:], ch.keys[j:])
	copy(ch.vals[i:], ch.vals[j:])
	clear(ch.keys[i+n:])
	clear(ch.vals[i+n:])
	ch.keys, ch.vals = ch.keys[:i+n], ch.vals[:i+n]
}

// Cursor is a position in a map. It is lost by insertions and deletions.
type Cursor[V any] struct {
	m    *Map[V]
	c, i int // an entry, or past the last: c = len(m.chunks), or before the first: c = -1
}

// Seek returns the first entry whose key is at least key.
func (m *Map[V]) Seek(key []byte) Cursor[V] {
	c, i, _ := m.find(key)
	if c < len(m.chunks) && i == len(m.chunks[c].keys) {
		c, i = c+1, 0
	}
	return Cursor[V]{m, c, i}
}

// SeekBefore returns the last entry whose key is below key.
func (m *Map[V]) SeekBefore(key []byte) Cursor[V] {
	cur := m.Seek(key)
	cur.Prev()
	return cur
}

// First returns the first entry.
func (m *Map[V]) First() Cursor[V] { return Cursor[V]{m: m} }

// Valid reports whether the cursor is at an entry.
func (c *Cursor[V]) Valid() bool { return c.c >= 0 && c.c < len(c.m.chunks) }

// Key returns the entry's key.
func (c *Cursor[V]) Key() []byte { return c.m.chunks[c.c].keys[c.i] }

// Value returns the entry's value, which may be changed in place.
func (c *Cursor[V]) Value() *V { return &c.m.chunks[c.c].vals[c.i] }

// Next moves to the next entry.
func (c *Cursor[V]) Next() {
	if c.i++; c.c < 0 || c.c < len(c.m.chunks) && c.i == len(c.m.chunks[c.c].keys) {
		c.c, c.i = c.c+1, 0
	}
}

// Prev moves to the previous entry.
func (c *Cursor[V]) Prev() {
	if c.i--; c.i < 0 {
		if c.c--; c.c >= 0 {
			c.i = len(c.m.chunks[c.c].keys) - 1
		}
	}
}
