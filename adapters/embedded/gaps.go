package embedded

import (
	"bytes"

	"couchrelay/core/kv"
	"couchrelay/core/kv/keymap"
)

// gaps remembers ranges without keys that took long to cross.
//
// Pebble marks a deleted key with a tombstone, and scans pass over tombstones until a compaction removes
// them. At the head of a queue from which 100,000 jobs were taken, every read of the first job would take
// milliseconds. So a scan that has passed over many tombstones notes the gap between the two live keys around
// them, and later scans jump over it.
//
// A gap that is noted where a key exists would hide the key, and so lose data. Therefore a gap counts only
// for views of its version or later, noteGaps drops a gap that was written into since its scan, and publish
// splits gaps before a new key can be read. Database.mu guards all of it.
type gaps struct {
	begins keymap.Map[gap] // by the first key of the range; ranges neither overlap nor touch
}

// gap is a range without keys, from its key in the map on.
type gap struct {
	end     []byte // exclusive
	version int64  // the range is empty in this version and all later ones
}

const (
	// wideGap is the number of tombstones from which on a gap is noted, or a known gap made longer. Up to
	// that number a scan passes over them again each time.
	wideGap = 32
	// maxGaps bounds the number of gaps in memory. When it is reached all are forgotten; scans find them
	// again.
	maxGaps = 10_000
)

// in returns the gaps that overlap r and are empty in a version, in ascending order.
func (g *gaps) in(r kv.Range, version int64) (list []kv.Range) {
	for c := g.seek(r.Begin); c.Valid() && bytes.Compare(c.Key(), r.End) < 0; c.Next() {
		if c.Value().version <= version {
			list = append(list, kv.Range{Begin: c.Key(), End: c.Value().end})
		}
	}
	return list
}

// seek returns the first gap that ends after key.
func (g *gaps) seek(key []byte) keymap.Cursor[gap] {
	c := g.begins.Seek(key)
	c.Prev()
	if !c.Valid() || bytes.Compare(c.Value().end, key) <= 0 {
		c = g.begins.Seek(key)
	}
	return c
}

// add notes that r is empty from a version on. It merges r with the gaps that overlap or touch it; the merged
// gap is empty from the latest of their versions on.
func (g *gaps) add(r kv.Range, version int64) {
	if g.begins.Len() >= maxGaps {
		g.begins.Reset()
	}
	begin, end := r.Begin, r.End
	for c := g.seek(begin); c.Valid() && bytes.Compare(c.Key(), end) <= 0; c = g.seek(begin) {
		if bytes.Compare(c.Key(), begin) < 0 {
			begin = c.Key()
		}
		if bytes.Compare(c.Value().end, end) > 0 {
			end = c.Value().end
		}
		version = max(version, c.Value().version)
		g.begins.Delete(c.Key())
	}
	g.begins.Put(begin, gap{end, version})
}

// split takes a key that is about to be visible out of the gap that it lies in.
func (g *gaps) split(key []byte) {
	if g.begins.Len() == 0 {
		return
	}
	c := g.seek(key)
	if !c.Valid() || bytes.Compare(c.Key(), key) > 0 {
		return
	}
	begin, old := c.Key(), *c.Value()
	g.begins.Delete(begin)
	if !bytes.Equal(begin, key) {
		g.begins.Put(begin, gap{bytes.Clone(key), old.version})
	}
	if after := kv.KeyAfter(key); bytes.Compare(after, old.end) < 0 {
		g.begins.Put(after, gap{old.end, old.version})
	}
}
