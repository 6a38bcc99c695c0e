package fakefdb

import (
	"bytes"
	"fmt"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/keymap"
	"couchrelay/core/kv/mix"
)

// tree keeps for every key its values at the versions that may still be read.
type tree struct {
	keys keymap.Map[*chain]
	hash uint64 // sum of the hashes of all present pairs
	// old lists, from head on, the chains that grew beyond one value, in the order of the versions at which
	// they did: prune has to look at a chain once no transaction can read before that version.
	old  []growth
	head int
}

type growth struct {
	version int64
	chain   *chain
}

// chain is the history of a key, oldest first, never empty.
type chain struct {
	key    []byte
	values []value
}

type value struct {
	version int64
	bytes   []byte // nil: the key was absent
	hash    uint64 // of key and bytes, 0 when absent
}

func (c *chain) last() *value { return &c.values[len(c.values)-1] }

// at is the value at a version, nil when absent.
func (c *chain) at(version int64) []byte {
	for i := len(c.values) - 1; i >= 0; i-- {
		if c.values[i].version <= version {
			return c.values[i].bytes
		}
	}
	return nil
}

// get is the value of key at a version.
func (t *tree) get(key []byte, version int64) []byte {
	if c := t.keys.Get(key); c != nil {
		return (*c).at(version)
	}
	return nil
}

// latest is the present value of key.
func (t *tree) latest(key []byte) []byte {
	if c := t.keys.Get(key); c != nil {
		return (*c).last().bytes
	}
	return nil
}

// scan passes the pairs of r at a version until yield returns false.
func (t *tree) scan(r kv.Range, version int64, reverse bool, yield func(key, value []byte) bool) {
	if reverse {
		for c := t.keys.SeekBefore(r.End); c.Valid() && bytes.Compare(c.Key(), r.Begin) >= 0; c.Prev() {
			if v := (*c.Value()).at(version); v != nil && !yield(c.Key(), v) {
				return
			}
		}
		return
	}
	for c := t.keys.Seek(r.Begin); c.Valid() && bytes.Compare(c.Key(), r.End) < 0; c.Next() {
		if v := (*c.Value()).at(version); v != nil && !yield(c.Key(), v) {
			return
		}
	}
}

// put writes a value, nil for none, at a version that is not below any other.
func (t *tree) put(key, v []byte, version int64) {
	ref := t.keys.Get(key)
	if ref == nil {
		if v == nil {
			return
		}
		key = slices.Clip(key)
		ref = t.keys.Ref(key)
		*ref = &chain{key: key}
	}
	t.append(*ref, v, version)
}

func (t *tree) append(c *chain, v []byte, version int64) {
	next := value{version: version, bytes: slices.Clip(v)} // readers may append to it
	if v != nil {
		next.hash = hashPair(c.key, v)
	}
	t.hash += next.hash
	switch n := len(c.values); {
	case n == 0:
		c.values = append(make([]value, 0, 1), next)
	case c.last().version == version:
		t.hash -= c.last().hash
		*c.last() = next
	default:
		t.hash -= c.last().hash
		c.values = append(c.values, next)
		t.old = append(t.old, growth{version, c})
	}
}

// clearRange removes the present pairs of r.
func (t *tree) clearRange(r kv.Range, version int64) {
	for c := t.keys.Seek(r.Begin); c.Valid() && bytes.Compare(c.Key(), r.End) < 0; c.Next() {
		if ch := *c.Value(); ch.last().bytes != nil {
			t.append(ch, nil, version)
		}
	}
}

// prune forgets the values that only transactions with a read version below floor could see.
func (t *tree) prune(floor int64) {
	for t.head < len(t.old) && t.old[t.head].version <= floor {
		c := t.old[t.head].chain
		t.old[t.head].chain = nil
		t.head++
		drop := 0
		for drop+1 < len(c.values) && c.values[drop+1].version <= floor {
			drop++
		}
		clear(c.values[:drop])
		c.values = c.values[drop:] // append gives back the front when it has to move them
		if len(c.values) == 1 && c.values[0].bytes == nil {
			t.keys.Delete(c.key)
		}
	}
	if t.head > 1024 && t.head > len(t.old)/2 {
		n := copy(t.old, t.old[t.head:])
		clear(t.old[n:])
		t.old, t.head = t.old[:n], 0
	}
}

// intact returns an error if a present value is not the one that was put.
func (t *tree) intact() error {
	for c := t.keys.First(); c.Valid(); c.Next() {
		ch := *c.Value()
		if v := ch.last(); v.bytes != nil && hashPair(c.Key(), v.bytes) != v.hash {
			return fmt.Errorf("a reader has changed %q = %q", c.Key(), v.bytes)
		}
	}
	return nil
}

// hashPair is the hash of a pair. The sum over all pairs is the hash of the contents.
func hashPair(key, v []byte) uint64 { return mix.Bytes(mix.Bytes(0, key), v) }
