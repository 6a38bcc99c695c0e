package embedded

import (
	"bytes"

	"couchrelay/core/kv"
	"couchrelay/core/kv/keymap"
)

// gaps remembers ranges without keys that took long to cross.
//
// Pebble marks deleted keys, and a scan has to pass over the marks until a compaction takes them away:
// at the head of a queue from which 100,000 jobs were taken, milliseconds for every look at the first
// job. So a scan that has passed over many marks notes the gap between the two live keys around them,
// and later scans jump over it. What is written into a gap splits it.
type gaps struct {
	begins keymap.Map[gap]
}

type gap struct {
	end     []byte
	version int64 // the range is empty in this version and all later ones
}

const (
	// wideGap is the number of marks from which on a gap is noted, or one that is known made longer. A
	// scan passes over that many at each place for nothing.
	wideGap = 32
	// maxGaps bounds the memory; beyond it all are forgotten and found again.
	maxGaps = 10_000
)

// in lists the gaps that overlap r and are known to be empty in a version.
func (g *gaps) in(r kv.Range, version int64) (list []kv.Range) {
	for c := g.seek(r.Begin); c.Valid() && bytes.Compare(c.Key(), r.End) < 0; c.Next() {
		if c.Value().version <= version {
			list = append(list, kv.Range{Begin: c.Key(), End: c.Value().end})
		}
	}
	return list
}

// seek is the first gap that ends after key.
func (g *gaps) seek(key []byte) keymap.Cursor[gap] {
	c := g.begins.Seek(key)
	c.Prev()
	if !c.Valid() || bytes.Compare(c.Value().end, key) <= 0 {
		c = g.begins.Seek(key)
	}
	return c
}

// add notes that r is empty from a version on. It swallows the gaps that overlap or touch it.
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

// split takes the key out of the gap that it lies in.
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
