package resolver

import (
	"sort"

	"couchrelay/core/kv/mix"
)

// Log holds the write conflict spans of recent commits in the order of their versions. The zero value
// is empty.
//
// Most reads and writes are of single keys, so these are found by a table of hashes. Two keys with one hash
// count as one, which costs a needless retry for one pair in 2^64.
type Log struct {
	all    history          // every write
	ranges history          // those of more than one key
	latest map[uint64]int64 // the last version that wrote the single key with this hash
	gone   int64            // the last version whose writes were forgotten
}

// Record adds the writes of the commit at version. Versions never decrease from call to call.
func (l *Log) Record(version int64, spans []Span) {
	if l.latest == nil {
		l.latest = map[uint64]int64{}
	}
	for _, s := range spans {
		l.all.add(version, s)
		if s.End == nil {
			l.latest[hash(s.Begin)] = version
		} else {
			l.ranges.add(version, s)
		}
	}
}

// Conflicts reports whether a commit after readVersion wrote in one of reads. It takes one step for every
// single key that was read, and one for every pair of a read and a later write of which at least one is a
// range.
func (l *Log) Conflicts(readVersion int64, reads []Span) bool {
	ranges := l.ranges.since(readVersion)
	var all []write
	for _, r := range reads {
		others := ranges
		if r.End == nil {
			if v, written := l.latest[hash(r.Begin)]; written && v > readVersion {
				return true
			}
		} else {
			if all == nil {
				all = l.all.since(readVersion)
			}
			others = all
		}
		for i := range others {
			if r.Overlaps(others[i].span) {
				return true
			}
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
			if h := hash(w.span.Begin); l.latest[h] <= version {
				delete(l.latest, h)
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

func hash(key []byte) uint64 { return mix.Bytes(0, key) }
