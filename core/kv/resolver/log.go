package resolver

import (
	"sort"

	"couchrelay/core/kv/keymap"
)

// Log holds the write conflict spans of recent commits in the order of their versions. The zero value
// is empty.
type Log struct {
	all    history           // every write
	ranges history           // those of more than one key
	latest keymap.Map[int64] // the last version that wrote each single key
	gone   int64             // the last version whose writes were forgotten
	looks  int               // at how many writes Conflicts looked so far for the sake of ranges that were read
}

// Record adds the writes of the commit at version. Versions never decrease from call to call.
func (l *Log) Record(version int64, spans []Span) {
	for _, s := range spans {
		l.all.add(version, s)
		if s.End == nil {
			l.latest.Put(s.Begin, version)
		} else {
			l.ranges.add(version, s)
		}
	}
}

// Conflicts reports whether a commit after readVersion wrote in one of reads, which are as Normalize leaves them.
// It looks up every single key that was read, and for every range the keys in it that were written lately: thousands
// of commits that read at once would otherwise look at all that those before them wrote. If there are more such keys
// than later writes, it takes a binary search among the reads for each of these, as for every later write of a range:
// two bulk writes at once read thousands of ranges and write thousands of keys.
func (l *Log) Conflicts(readVersion int64, reads []Span) bool {
	var ranges []Span
	for _, r := range reads {
		if r.End != nil {
			ranges = append(ranges, r)
		} else if v := l.latest.Get(r.Begin); v != nil && *v > readVersion {
			return true
		}
	}
	return meet(l.ranges.since(readVersion), reads) || l.within(ranges, readVersion)
}

// within reports whether a single key in one of ranges was written after readVersion.
func (l *Log) within(ranges []Span, readVersion int64) bool {
	later := l.all.since(readVersion)
	left := len(later)
	for _, r := range ranges {
		for c := l.latest.Seek(r.Begin); ; c.Next() {
			if left--; left < 0 {
				l.looks += len(later)
				return meet(later, ranges)
			}
			if !c.Valid() || r.before(c.Key()) {
				break
			}
			if l.looks++; *c.Value() > readVersion {
				return true
			}
		}
	}
	return false
}

// meet reports whether one of writes overlaps with one of spans, which are in order and disjoint: only the first
// span that does not end before the write can be the one.
func meet(writes []write, spans []Span) bool {
	if len(spans) == 0 {
		return false
	}
	for i := range writes {
		w := writes[i].span
		at := sort.Search(len(spans), func(i int) bool { return !spans[i].before(w.Begin) })
		if at < len(spans) && !w.before(spans[at].Begin) {
			return true
		}
	}
	return false
}

// Covers reports whether the log still has all writes after a version, so that it can decide about
// transactions with that read version.
func (l *Log) Covers(version int64) bool { return version >= l.gone }

// Forget drops the commits up to version. The store refuses transactions with an older read version, for
// which the log can no longer decide (see Covers), with kv.TransactionTooOld.
func (l *Log) Forget(version int64) {
	l.ranges.drop(version)
	for _, w := range l.all.drop(version) {
		l.gone = w.version
		if w.span.End == nil {
			if v := l.latest.Get(w.span.Begin); v != nil && *v <= version {
				l.latest.Delete(w.span.Begin)
			}
		}
	}
	l.all.compact()
	l.ranges.compact()
}

// history is a queue of writes, ascending by version.
type history struct {
	writes []write
	head   int // index of the first write that is not dropped
}

type write struct {
	version int64
	span    Span
}

func (h *history) add(version int64, s Span) { h.writes = append(h.writes, write{version, s}) }

// since returns the writes after version.
func (h *history) since(version int64) []write { return h.writes[h.after(version):] }

// drop removes the writes up to version from the queue and returns them. They are valid until compact.
func (h *history) drop(version int64) []write {
	from := h.head
	for h.head < len(h.writes) && h.writes[h.head].version <= version {
		h.head++
	}
	return h.writes[from:h.head]
}

// compact frees the memory of dropped writes once they are more than half of all.
func (h *history) compact() {
	if h.head > 1024 && h.head > len(h.writes)/2 {
		n := copy(h.writes, h.writes[h.head:])
		clear(h.writes[n:])
		h.writes, h.head = h.writes[:n], 0
	}
}

// after returns the index of the first write after version. It gallops back from the end, since most callers
// ask about the recent past.
func (h *history) after(version int64) int {
	lo, step := len(h.writes), 1
	for lo > h.head && h.writes[lo-1].version > version {
		lo = max(h.head, lo-step)
		step *= 2
	}
	rest := h.writes[lo:min(len(h.writes), lo+step)]
	return lo + sort.Search(len(rest), func(i int) bool { return rest[i].version > version })
}
