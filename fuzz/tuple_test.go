package fuzz

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"couchrelay/core/kv/tuple"
)

// FuzzTuple reads any bytes as keys. A key that unpacks packs to the same bytes again, keys sort as their
// elements, and Scan finds the same elements as Unpack.
func FuzzTuple(f *testing.F) {
	seeds := []tuple.Tuple{
		{}, {nil, "a\x00b", []byte{0, 0xff}, 1, -256}, {tuple.Tuple{nil, tuple.Tuple{}, "x"}, true},
		{uint64(math.MaxUint64), int64(math.MinInt64)},
		{new(big.Int).Lsh(big.NewInt(-1), 100), new(big.Int).Lsh(big.NewInt(1), 64)},
		{float32(-1.5), math.Inf(1), math.Copysign(0, -1)},
		{tuple.UUID{1}, tuple.Versionstamp{Transaction: [10]byte{9: 1}, User: 7}, false},
	}
	for i, s := range seeds {
		f.Add(s.Pack(), seeds[(i+1)%len(seeds)].Pack())
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, ok := unpack(t, a)
		y, also := unpack(t, b)
		if ok && also && sign(compareTuples(x, y)) != bytes.Compare(a, b) {
			t.Fatalf("%v and %v are ordered as %x and %x are not", x, y, a, b)
		}
	})
}

func unpack(t *testing.T, key []byte) (tuple.Tuple, bool) {
	elems, err := tuple.Unpack(key)
	if err != nil {
		if !errors.Is(err, tuple.ErrMalformed) {
			t.Fatal(err)
		}
		return nil, false
	}
	if again := elems.Pack(); !bytes.Equal(again, key) {
		t.Fatalf("%x became %x by %v", key, again, elems)
	}
	scan(t, key, elems)
	return elems, true
}

// scan reads a key into variables of the types that Unpack found.
func scan(t *testing.T, key []byte, elems tuple.Tuple) {
	pointers, values := make([]any, len(elems)), make([]func() any, len(elems))
	for i, e := range elems {
		switch e.(type) {
		case string:
			pointers[i], values[i] = variable[string]()
		case []byte:
			pointers[i], values[i] = variable[[]byte]()
		case int64:
			pointers[i], values[i] = variable[int64]()
		case uint64:
			pointers[i], values[i] = variable[uint64]()
		case bool:
			pointers[i], values[i] = variable[bool]()
		case tuple.UUID:
			pointers[i], values[i] = variable[tuple.UUID]()
		case tuple.Versionstamp:
			pointers[i], values[i] = variable[tuple.Versionstamp]()
		case tuple.Tuple:
			pointers[i], values[i] = variable[tuple.Tuple]()
		}
	}
	if err := tuple.Subspace(nil).Scan(key, pointers...); err != nil {
		t.Fatalf("%v: %v", elems, err)
	}
	for i, e := range elems {
		if values[i] != nil && compareElements(values[i](), e) != 0 {
			t.Fatalf("scanned %v, want %v", values[i](), e)
		}
	}
	if err := tuple.Subspace(nil).Scan(key, append(pointers, nil)...); !errors.Is(err, tuple.ErrMalformed) {
		t.Fatalf("one element too many: %v", err)
	}
}

func variable[T any]() (pointer any, value func() any) {
	v := new(T)
	return v, func() any { return *v }
}

// compareTuples is the order that the package comment defines.
func compareTuples(a, b tuple.Tuple) int { return slices.CompareFunc(a, b, compareElements) }

func compareElements(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case string:
		return cmp.Compare(a, b.(string))
	case tuple.Tuple:
		return compareTuples(a, b.(tuple.Tuple))
	case int64, uint64, *big.Int:
		return wide(a).Cmp(wide(b))
	case float32:
		return cmp.Compare(ordered(int64(int32(math.Float32bits(a)))),
			ordered(int64(int32(math.Float32bits(b.(float32))))))
	case float64:
		return cmp.Compare(ordered(int64(math.Float64bits(a))), ordered(int64(math.Float64bits(b.(float64)))))
	case tuple.UUID:
		u := b.(tuple.UUID)
		return bytes.Compare(a[:], u[:])
	case tuple.Versionstamp:
		v := b.(tuple.Versionstamp)
		return cmp.Or(bytes.Compare(a.Transaction[:], v.Transaction[:]), cmp.Compare(a.User, v.User))
	}
	return 0
}

// rank is the place of an element's type among the types.
func rank(e any) int {
	switch e := e.(type) {
	case nil:
		return 0
	case []byte:
		return 1
	case string:
		return 2
	case tuple.Tuple:
		return 3
	case int64, uint64, *big.Int:
		return 4
	case float32:
		return 5
	case float64:
		return 6
	case bool:
		if e {
			return 8
		}
		return 7
	case tuple.UUID:
		return 9
	}
	return 10
}

func wide(e any) *big.Int {
	switch e := e.(type) {
	case int64:
		return big.NewInt(e)
	case uint64:
		return new(big.Int).SetUint64(e)
	}
	return e.(*big.Int)
}

// ordered makes a float's bits, sign extended, an integer of the same order: IEEE's total order.
func ordered(bits int64) int64 {
	if bits < 0 {
		return math.MinInt64 ^ ^bits
	}
	return bits
}

func sign(c int) int { return cmp.Compare(c, 0) }
