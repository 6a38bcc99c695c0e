package ryw

import (
	"bytes"
	"encoding/binary"

	"couchrelay/core/kv"
)

// write is the sum of the transaction's writes of one key.
type write struct {
	known      bool       // the key will have value, whatever its value in the store is
	unreadable bool       // the value will have a versionstamp
	value      []byte     // if known; nil if the key was cleared
	ops        []Mutation // if not known: mutations of the store's value, in order
}

// independent reports whether the outcome does not depend on the store's value.
func (w *write) independent() bool { return w.known || w.unreadable }

// over returns the key's value after the writes, from the store's value, which may be nil.
func (w *write) over(base []byte) []byte {
	if w.known {
		return w.value
	}
	for _, m := range w.ops {
		base = Apply(m.Kind, base, m.Value)
	}
	return base
}

// do adds one more mutation of the same key.
func (w *write) do(m Mutation) {
	switch last := len(w.ops) - 1; {
	case w.unreadable:
		w.ops = append(w.ops, m)
	case m.Kind == SetStampedValue:
		*w = write{unreadable: true, ops: []Mutation{m}}
	case m.Kind == Set:
		*w = write{known: true, value: m.Value}
	case w.known:
		w.value = Apply(m.Kind, w.value, m.Value)
	case last >= 0 && w.ops[last].Kind == m.Kind:
		w.ops[last].Value = Apply(m.Kind, w.ops[last].Value, m.Value)
	default:
		w.ops = append(w.ops, m)
	}
}

// Apply returns the value of a key after a Set, Clear, Add or Max of base, which is nil if the key has no
// value. A base shorter than the operand is extended with zeros, a longer one is cut.
func Apply(kind Kind, base, operand []byte) []byte {
	switch kind {
	case Add:
		return little(number(base) + number(operand))
	case Max:
		return little(max(number(base), number(operand)))
	}
	return operand
}

// number reads up to eight bytes as a little-endian number.
func number(b []byte) uint64 {
	var buf [8]byte
	copy(buf[:], b)
	return binary.LittleEndian.Uint64(buf[:])
}

func little(n uint64) []byte { return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), n) }

// maxPaired is the longest value that shares memory with its key.
const maxPaired = 256

// pair copies a key and a value, into one allocation if the value is short. A long value gets its own, since
// the logs of conflicts keep keys for seconds after their values are forgotten.
func pair(key, value []byte) (k, v []byte) {
	if len(value) > maxPaired {
		return bytes.Clone(key), bytes.Clone(value)
	}
	buf := append(append(make([]byte, 0, len(key)+len(value)), key...), value...)
	return buf[:len(key):len(key)], buf[len(key):]
}

// writable checks key and value, and reports whether the write may be noted.
func (b *Buffer) writable(key, value []byte) bool {
	switch {
	case b.err != nil:
		return false
	case isSystem(key):
		b.fault(kv.KeyOutsideLegalRange)
	case len(key) > kv.MaxKeySize:
		b.fault(kv.KeyTooLarge)
	case len(value) > kv.MaxValueSize:
		b.fault(kv.ValueTooLarge)
	}
	return b.err == nil
}

// put notes a mutation of one key. The buffer owns its slices.
func (b *Buffer) put(m Mutation) {
	w := b.points.Get(m.Key)
	if w == nil {
		inCleared := b.cleared.contains(m.Key)
		w = b.points.Ref(m.Key)
		w.known = inCleared
	}
	w.do(m)
}

// Set implements kv.Tx.
func (b *Buffer) Set(key, value []byte) {
	if b.writable(key, value) {
		k, v := pair(key, value)
		b.put(Mutation{Kind: Set, Key: k, Value: v})
	}
}

// Add implements kv.Tx.
func (b *Buffer) Add(key []byte, delta int64) { b.atomic(Add, key, uint64(delta)) }

// Max implements kv.Tx.
func (b *Buffer) Max(key []byte, v uint64) { b.atomic(Max, key, v) }

func (b *Buffer) atomic(kind Kind, key []byte, operand uint64) {
	if b.writable(key, nil) {
		var o [8]byte
		binary.LittleEndian.PutUint64(o[:], operand)
		k, v := pair(key, o[:])
		b.put(Mutation{Kind: kind, Key: k, Value: v})
	}
}

// Clear implements kv.Tx. It ignores keys that are too long to exist.
func (b *Buffer) Clear(key []byte) {
	if len(key) > kv.MaxKeySize || !b.writable(key, nil) {
		return
	}
	k, _ := pair(key, nil)
	if !b.unreadable.empty() {
		b.uncover(kv.KeyRange(k))
	}
	*b.points.Ref(k) = write{known: true}
}

// ClearRange implements kv.Tx.
func (b *Buffer) ClearRange(r kv.Range) {
	if !b.legal(r) {
		return
	}
	r = own(r)
	b.uncover(r)
	b.points.DeleteRange(r.Begin, r.End)
	b.cleared.add(r)
}

// uncover makes cleared keys readable again, since their values are known, and drops versionstamped keys
// whose lowest possible place is cleared.
func (b *Buffer) uncover(r kv.Range) {
	b.unreadable.remove(r)
	kept := b.stamped[:0]
	for _, s := range b.stamped {
		if !r.Contains(s.lowest) {
			kept = append(kept, s)
		}
	}
	b.stamped = kept
}
