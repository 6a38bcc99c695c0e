// Package resolver is the optimistic concurrency control of a store. It remembers the writes of recent
// commits, and decides whether a transaction has read something that was written after its read version. It
// is not safe for concurrent use: the store serializes the calls.
package resolver

import (
	"bytes"
	"slices"

	"couchrelay/core/kv"
)

// Span is a range of keys, never empty. Without an End it is the key Begin alone, which saves the copy of a
// key that a range with two ends needs.
type Span struct {
	Begin, End []byte
}

// SpanOf returns the span of a range that is not empty.
func SpanOf(r kv.Range) Span { return Span{Begin: r.Begin, End: r.End} }

// before reports whether all keys of s are below the key k.
func (s Span) before(k []byte) bool {
	if s.End == nil {
		return bytes.Compare(s.Begin, k) < 0
	}
	return bytes.Compare(s.End, k) <= 0
}

// Overlaps reports whether a key is in both spans.
func (s Span) Overlaps(o Span) bool { return !s.before(o.Begin) && !o.before(s.Begin) }

// Size returns the number of bytes of both ends, which count against kv.MaxTxSize.
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
