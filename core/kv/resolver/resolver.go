// Package resolver decides the optimistic concurrency control of a store: it remembers what recent
// commits wrote, and tells whether a transaction read something that was written after its read
// version. It is pure computation; the store serializes the calls.
package resolver

import (
	"bytes"
	"slices"

	"couchrelay/core/kv"
)

// Span is a range of keys, never empty. Without an End it is the key Begin alone, which spares the copy
// of a key that the general form needs.
type Span struct {
	Begin, End []byte
}

// SpanOf is the span of a range that is not empty.
func SpanOf(r kv.Range) Span { return Span{Begin: r.Begin, End: r.End} }

// before says whether s ends before or at the key k.
func (s Span) before(k []byte) bool {
	if s.End == nil {
		return bytes.Compare(s.Begin, k) < 0
	}
	return bytes.Compare(s.End, k) <= 0
}

// Overlaps says whether some key lies in both spans.
func (s Span) Overlaps(o Span) bool { return !s.before(o.Begin) && !o.before(s.Begin) }

// Size is the number of bytes that the span takes of kv.MaxTxSize: those of both ends.
func (s Span) Size() int {
	if s.End == nil {
		return 2*len(s.Begin) + 1
	}
	return len(s.Begin) + len(s.End)
}

// Normalize sorts spans and merges those that overlap, in place.
func Normalize(spans []Span) []Span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return bytes.Compare(a.Begin, b.Begin) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		switch {
		case last.before(s.Begin):
			out = append(out, s)
		case s.End != nil && (last.End == nil || bytes.Compare(last.End, s.End) < 0):
			last.End = s.End
		}
	}
	return out
}
