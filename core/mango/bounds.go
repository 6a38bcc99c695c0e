package mango

import (
	"maps"
	"slices"

	"couchrelay/core/ejson"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds are between which ids the documents lie that a selector matches.
type Bounds struct {
	Low, High *string // nil for none
	// LowIsOut and HighIsOut say that the bound itself is not matched.
	LowIsOut, HighIsOut bool
	None                bool // the selector matches no document
	// Indexed reports whether the selector has a condition on ids that an index can be searched by. As in CouchDB,
	// documents can be sorted by their ids only then.
	Indexed bool
}

// Normal is the selector's normal form in the order in which it was written.
func (s *Selector) Normal() jsontext.Value { return s.root.render().Append(nil) }

// Hints are the fields of a selector: those that an index could be searched by, and all others.
func (s *Selector) Hints() (indexable, others []string) {
	usable := map[string]bool{}
	var walk func(n *node, all bool)
	walk = func(n *node, all bool) {
		for _, child := range n.children {
			if !n.op.isCondition() {
				walk(child, all && n.op == opAnd)
			}
		}
		if n.op.isCondition() {
			usable[n.path.written] = usable[n.path.written] || all && n.searchable()
		}
	}
	if s.root != nil {
		walk(s.root, true)
	}
	for _, name := range slices.Sorted(maps.Keys(usable)) {
		if usable[name] {
			indexable = append(indexable, name)
		} else {
			others = append(others, name)
		}
	}
	return indexable, others
}

// searchable reports whether an index can be searched by a condition.
func (n *node) searchable() bool {
	return !n.negated && slices.Contains([]op{opLt, opLte, opEq, opGte, opGt, opBeginsWith, opExists}, n.op)
}

// Bounds finds them by the conditions on ids that all matched documents fulfil.
func (s *Selector) Bounds() Bounds {
	var b Bounds
	if s.root != nil {
		b.narrow(s.root)
	}
	if b.Low != nil && b.High != nil {
		b.None = b.None || *b.Low > *b.High || *b.Low == *b.High && (b.LowIsOut || b.HighIsOut)
	}
	return b
}

func (b *Bounds) narrow(n *node) {
	if n.op == opAnd {
		for _, child := range n.children {
			b.narrow(child)
		}
		return
	}
	if n.negated || len(n.path.names) != 1 || n.path.names[0] != "_id" {
		return
	}
	b.Indexed = b.Indexed || n.searchable()
	switch n.op {
	case opLt, opLte, opEq:
		if n.arg.Kind != ejson.String { // ids come behind all other values
			b.None = true
			return
		}
		b.below(n.arg.Text, n.op == opLt)
		if n.op == opEq {
			b.above(n.arg.Text, false)
		}
	case opGt, opGte:
		if n.arg.Kind == ejson.String {
			b.above(n.arg.Text, n.op == opGt)
		}
	case opBeginsWith:
		b.above(n.arg.Text, false)
		if end := behind(n.arg.Text); end != "" {
			b.below(end, true)
		}
	}
}

func (b *Bounds) above(id string, isOut bool) {
	if b.Low == nil || id > *b.Low || id == *b.Low && isOut {
		b.Low, b.LowIsOut = &id, isOut
	}
}

func (b *Bounds) below(id string, isOut bool) {
	if b.High == nil || id < *b.High || id == *b.High && isOut {
		b.High, b.HighIsOut = &id, isOut
	}
}

// behind is the first string, in the order of bytes, behind all that begin with a prefix; empty if there is none. The
// last byte of a text in UTF-8 is not 0xff.
func behind(prefix string) string {
	if prefix == "" {
		return ""
	}
	last := len(prefix) - 1
	return prefix[:last] + string([]byte{prefix[last] + 1})
}
