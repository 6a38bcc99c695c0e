package ryw

import (
	"cmp"

	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"
)

// Kind is a kind of mutation.
type Kind uint8

// The kinds of mutations. SetStampedKey and SetStampedValue become Set once the versionstamp is known.
const (
	Set Kind = iota
	Clear
	ClearRange // from Key up to Value
	Add
	Max
	SetStampedKey
	SetStampedValue
)

// Mutation is one change of the store. Its slices must not be changed.
type Mutation struct {
	Kind       Kind
	Key, Value []byte
}

// Commit is a transaction that the store has to decide about, and then to apply.
type Commit struct {
	Mutations []Mutation      // to apply in order
	Reads     []resolver.Span // in order and disjoint
	Writes    []resolver.Span
}

// ReadOnly reports whether there is nothing to commit.
func (b *Buffer) ReadOnly() bool {
	return b.points.Len() == 0 && b.cleared.empty() && len(b.stamped) == 0 && len(b.conflicts) == 0
}

// Finish ends the attempt. It returns the commit, or the error of an earlier read or write, or one for a size
// above limit.
func (b *Buffer) Finish(limit int) (*Commit, error) {
	if err := cmp.Or(b.first, b.err); err != nil {
		return nil, err
	}
	n := b.points.Len() + b.cleared.ends.Len() + len(b.stamped)
	c := &Commit{
		Mutations: make([]Mutation, 0, n),
		Reads:     resolver.Normalize(b.reads),
		Writes:    append(make([]resolver.Span, 0, n+len(b.conflicts)), b.conflicts...),
	}
	for gap := b.cleared.ends.First(); gap.Valid(); gap.Next() {
		c.add(Mutation{ClearRange, gap.Key(), *gap.Value()}, resolver.Span{Begin: gap.Key(), End: *gap.Value()})
	}
	for p := b.points.First(); p.Valid(); p.Next() {
		c.addPoint(p.Key(), p.Value())
	}
	for _, s := range b.stamped {
		c.Mutations = append(c.Mutations, s.m) // Stamp adds its write conflict
	}
	if c.size() > limit {
		return nil, kv.NewError(kv.TransactionTooLarge)
	}
	return c, nil
}

func (c *Commit) add(m Mutation, s resolver.Span) {
	c.Mutations = append(c.Mutations, m)
	c.Writes = append(c.Writes, s)
}

func (c *Commit) addPoint(key []byte, w *write) {
	c.Writes = append(c.Writes, resolver.Span{Begin: key})
	switch {
	case w.known && w.value == nil:
		c.Mutations = append(c.Mutations, Mutation{Kind: Clear, Key: key})
	case w.known:
		c.Mutations = append(c.Mutations, Mutation{Kind: Set, Key: key, Value: w.value})
	default:
		c.Mutations = append(c.Mutations, w.ops...)
	}
}

// size returns the bytes that count against kv.MaxTxSize.
func (c *Commit) size() int {
	n := 0
	for _, m := range c.Mutations {
		n += len(m.Key) + len(m.Value)
		if m.Kind == SetStampedKey {
			n += 2*len(m.Key) + 1
		}
	}
	for _, s := range c.Reads {
		n += s.Size()
	}
	for _, s := range c.Writes {
		n += s.Size()
	}
	return n
}

// Stamp fills in the versionstamp. It is called once, as soon as the commit's version is known.
func (c *Commit) Stamp(stamp [10]byte) {
	for i := range c.Mutations {
		m := &c.Mutations[i]
		switch m.Kind {
		case SetStampedKey:
			m.Kind, m.Key = Set, fillIn(m.Key, stamp)
			c.Writes = append(c.Writes, resolver.Span{Begin: m.Key})
		case SetStampedValue:
			m.Kind, m.Value = Set, fillIn(m.Value, stamp)
		}
	}
}
