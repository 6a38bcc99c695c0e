package embedded

import (
	"bytes"
	"errors"

	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"

	"github.com/cockroachdb/pebble/v2"
)

// Scan is ryw.Source's.
func (s *source) Scan(r kv.Range, reverse bool, yield func(key, value []byte) bool) error {
	return s.read(func(v *view) error { return s.db.scan(v, r, reverse, yield) })
}

// scan reads a range of a view. It jumps over the known gaps and notes the new ones that it finds.
func (db *Database) scan(v *view, r kv.Range, reverse bool, yield func(key, value []byte) bool) error {
	db.mu.Lock()
	known := db.gaps.in(r, v.version)
	db.mu.Unlock()
	it, err := v.snapshot.NewIter(&pebble.IterOptions{LowerBound: r.Begin, UpperBound: r.End})
	if err != nil {
		return err
	}
	w := &walk{it: it, in: r, gaps: known}
	if reverse {
		w.backward(yield)
	} else {
		w.forward(yield)
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if len(w.found) > 0 {
		db.noteGaps(w.found, v.version)
	}
	return nil
}

// noteGaps keeps the gaps that a scan found in a version, unless a later commit has written into them. Where
// the conflict log does not reach back that far, a write cannot be ruled out, and the gaps are dropped.
func (db *Database) noteGaps(found []kv.Range, version int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.log.Covers(version) {
		return
	}
	for _, r := range found {
		if !db.log.Conflicts(version, []resolver.Span{resolver.SpanOf(r)}) {
			db.gaps.add(r, version)
		}
	}
}

// walk is one scan, in either direction. It moves from live key to live key. Pebble's limits keep it out of
// the known gaps: it stops at the edge of one and seeks to the other edge.
type walk struct {
	it    *pebble.Iterator
	in    kv.Range   // the range to scan
	gaps  []kv.Range // the known gaps ahead, in ascending order; they do not overlap
	found []kv.Range // ranges between two live keys that took wideGap steps or more to cross
	place []byte     // forward: first key not scanned yet; backward: first key of those scanned
	steps int        // steps of Pebble's inner iterator up to place; deleted keys count, live ones too

	memory []byte // the block that pairs are copied to; full ones belong to the pairs alone
}

// pair returns a copy of the pair at the iterator, which uses its memory again. Pairs share blocks of memory,
// which saves an allocation for each.
func (w *walk) pair() (key, value []byte) {
	k, v := w.it.Key(), w.it.Value()
	if size := len(k) + len(v); size > cap(w.memory)-len(w.memory) {
		w.memory = make([]byte, 0, max(size, min(max(512, 2*cap(w.memory)), 64<<10)))
	}
	from, mid := len(w.memory), len(w.memory)+len(k)
	w.memory = append(append(w.memory, k...), v...)
	end := len(w.memory)
	return w.memory[from:mid:mid], w.memory[mid:end:end]
}

// forward yields pairs in order.
func (w *walk) forward(yield func(key, value []byte) bool) {
	w.place = append(w.place, w.in.Begin...)
	for state := w.seekForward(w.place); ; {
		for state == pebble.IterAtLimit {
			state = w.seekForward(w.gaps[0].Begin)
		}
		if state == pebble.IterExhausted {
			w.cross(w.place, w.in.End)
			return
		}
		key := w.it.Key()
		w.cross(w.place, key)
		w.place = append(append(w.place[:0], key...), 0)
		if !yield(w.pair()) {
			return
		}
		switch gap := w.nextGap(); {
		case gap == nil:
			state = w.it.NextWithLimit(nil)
		case bytes.Compare(gap.Begin, w.place) <= 0:
			state = w.seekForward(w.place)
		default:
			state = w.it.NextWithLimit(gap.Begin)
		}
	}
}

// nextGap returns the first gap that ends after place, nil if there is none. It drops those before.
func (w *walk) nextGap() *kv.Range {
	for len(w.gaps) > 0 && bytes.Compare(w.gaps[0].End, w.place) <= 0 {
		w.gaps = w.gaps[1:]
	}
	if len(w.gaps) == 0 {
		return nil
	}
	return &w.gaps[0]
}

// seekForward seeks to the first key at or after from. It jumps over gaps that from lies in and stops at the
// edge of the next one (IterAtLimit).
func (w *walk) seekForward(from []byte) pebble.IterValidityState {
	for len(w.gaps) > 0 && bytes.Compare(w.gaps[0].Begin, from) <= 0 {
		from = later(from, w.gaps[0].End)
		w.gaps = w.gaps[1:]
	}
	if bytes.Compare(from, w.in.End) >= 0 {
		return pebble.IterExhausted
	}
	if len(w.gaps) == 0 {
		return w.it.SeekGEWithLimit(from, nil)
	}
	return w.it.SeekGEWithLimit(from, w.gaps[0].Begin)
}

// backward yields pairs in descending order.
func (w *walk) backward(yield func(key, value []byte) bool) {
	w.place = append(w.place, w.in.End...)
	for state := w.seekBackward(w.place); ; {
		for state == pebble.IterAtLimit {
			state = w.seekBackward(w.gaps[len(w.gaps)-1].End)
		}
		if state == pebble.IterExhausted {
			w.cross(w.in.Begin, w.place)
			return
		}
		key := w.it.Key()
		w.cross(key, w.place)
		w.place = append(w.place[:0], key...)
		if !yield(w.pair()) {
			return
		}
		switch gap := w.lastGap(); {
		case gap == nil:
			state = w.it.PrevWithLimit(nil)
		case bytes.Compare(w.place, gap.End) <= 0:
			state = w.seekBackward(w.place)
		default:
			state = w.it.PrevWithLimit(gap.End)
		}
	}
}

// lastGap returns the last gap that begins before place, nil if there is none. It drops those behind.
func (w *walk) lastGap() *kv.Range {
	n := len(w.gaps)
	for n > 0 && bytes.Compare(w.gaps[n-1].Begin, w.place) >= 0 {
		n--
	}
	if w.gaps = w.gaps[:n]; n == 0 {
		return nil
	}
	return &w.gaps[n-1]
}

// seekBackward finds the last key before a key, down to the next gap.
func (w *walk) seekBackward(before []byte) pebble.IterValidityState {
	n := len(w.gaps)
	for n > 0 && bytes.Compare(before, w.gaps[n-1].End) <= 0 {
		if begin := w.gaps[n-1].Begin; bytes.Compare(begin, before) < 0 {
			before = begin
		}
		n--
	}
	w.gaps = w.gaps[:n]
	if bytes.Compare(before, w.in.Begin) <= 0 {
		return pebble.IterExhausted
	}
	if n == 0 {
		return w.it.SeekLTWithLimit(before, nil)
	}
	return w.it.SeekLTWithLimit(before, w.gaps[n-1].End)
}

// cross notes the range between two keys as a gap if the iterator took wideGap steps or more since the last
// call. from may itself be a live key, which the gap then leaves out.
func (w *walk) cross(from, to []byte) {
	s := w.it.Stats()
	steps := s.ForwardStepCount[pebble.InternalIterCall] + s.ReverseStepCount[pebble.InternalIterCall]
	if steps-w.steps >= wideGap {
		if w.it.Valid() && bytes.Equal(from, w.it.Key()) {
			from = kv.KeyAfter(from)
		}
		if bytes.Compare(from, to) < 0 {
			w.found = append(w.found, kv.Range{Begin: bytes.Clone(from), End: bytes.Clone(to)})
		}
	}
	w.steps = steps
}

func later(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}
