package tuple

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// elements draws an element of any type, with the values at which encodings change length.
func elements(depth int) *rapid.Generator[any] {
	edges := []int64{0, 1, -1, 255, 256, -255, -256, 65535, -65536, math.MaxInt64, math.MinInt64}
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xfe, 0xff}), 0, 4),
			func(b []byte) any { return b }),
		rapid.Map(rapid.StringN(0, 4, -1), func(s string) any { return s }),
		rapid.Map(rapid.OneOf(rapid.Int64(), rapid.SampledFrom(edges)), func(i int64) any { return i }),
		rapid.Map(rapid.Uint64(), func(u uint64) any { return u }),
		rapid.Custom(func(t *rapid.T) any {
			i := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "big"))
			if rapid.Bool().Draw(t, "negative") {
				i.Neg(i)
			}
			return i
		}),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Float32(), func(f float32) any { return f }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		rapid.Map(rapid.Byte(), func(b byte) any { return UUID{b} }),
		rapid.Map(rapid.Uint16(),
			func(u uint16) any { return Versionstamp{Transaction: [10]byte{9: byte(u)}, User: u} }),
	}
	if depth > 0 {
		kinds = append(kinds, rapid.Map(rapid.SliceOfN(elements(depth-1), 0, 3), func(t []any) any { return Tuple(t) }))
	}
	return rapid.OneOf(kinds...)
}

func tuples() *rapid.Generator[Tuple] {
	return rapid.Map(rapid.SliceOfN(elements(2), 0, 4), func(t []any) Tuple { return t })
}

// rank is the order of types, and of values where one type code stands for one value.
func rank(e any) int {
	switch e.(type) {
	case nil:
		return 0
	case []byte:
		return 1
	case string:
		return 2
	case Tuple:
		return 3
	case int64, uint64, *big.Int:
		return 4
	case float32:
		return 5
	case float64:
		return 6
	case bool:
		return 7
	case UUID:
		return 8
	}
	return 9
}

func asBig(e any) *big.Int {
	switch e := e.(type) {
	case int64:
		return big.NewInt(e)
	case uint64:
		return new(big.Int).SetUint64(e)
	}
	return e.(*big.Int)
}

// compare is the dumb twin of comparing packed bytes.
func compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case string:
		return strings.Compare(a, b.(string))
	case Tuple:
		return compareTuples(a, b.(Tuple))
	case int64, uint64, *big.Int:
		return asBig(a).Cmp(asBig(b))
	case float32:
		return compareFloats(float64(a), float64(b.(float32)))
	case float64:
		return compareFloats(a, b.(float64))
	case bool:
		return cmp.Compare(bit(a), bit(b.(bool)))
	case UUID:
		other := b.(UUID)
		return bytes.Compare(a[:], other[:])
	case Versionstamp:
		other := b.(Versionstamp)
		return cmp.Or(bytes.Compare(a.Transaction[:], other.Transaction[:]), cmp.Compare(a.User, other.User))
	}
	return 0
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func compareFloats(a, b float64) int {
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(bit(math.Signbit(b)), bit(math.Signbit(a)))) // -0 < 0
}

func compareTuples(a, b Tuple) int {
	for i := range min(len(a), len(b)) {
		if c := compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tuples().Draw(t, "a"), tuples().Draw(t, "b")
		if got, want := bytes.Compare(a.Pack(), b.Pack()), compareTuples(a, b); got != want {
			t.Fatalf("packed order %d, order %d", got, want)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := tuples().Draw(t, "a")
		packed := a.Pack()
		back, err := Unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		if compareTuples(a, back) != 0 || !bytes.Equal(back.Pack(), packed) {
			t.Fatalf("%v came back as %v", a, back)
		}
	})
}

func TestTypedAppenders(t *testing.T) {
	var b []byte
	b = AppendTuple(AppendBool(AppendNil(b), true), Tuple{nil, "x"})
	b = AppendUint(AppendInt(AppendBytes(AppendString(b, "s\x00"), []byte{0, 1}), -300), 300)
	b = AppendVersionstamp(AppendUUID(AppendBig(b, bigInt("0x112233445566778899")), sampleUUID), sampleStamp)
	want := Pack(nil, true, Tuple{nil, "x"}, "s\x00", []byte{0, 1}, int32(-300), uint32(300),
		bigInt("0x112233445566778899"), sampleUUID, sampleStamp)
	if !bytes.Equal(b, want) {
		t.Errorf("got %x, want %x", b, want)
	}
}

// TestIntegerTypes: a number is packed alike, whatever its type.
func TestIntegerTypes(t *testing.T) {
	want := Pack(int64(5))
	for _, five := range []any{5, int32(5), uint(5), uint32(5), uint64(5), big.NewInt(5)} {
		if got := Pack(five); !bytes.Equal(got, want) {
			t.Errorf("a %T is packed as %x, want %x", five, got, want)
		}
	}
}

func TestUnpackMalformed(t *testing.T) {
	for _, h := range []string{
		"01", "0161", "0200ff", "05", "0500ff", "051501", "15", "1600", "0c00", "1d", "1d09", "0b", "0bf6",
		"20000000", "21", "30", "33",
		"3300010203040506070809ab", "03", "04", "06", "1e", "22", "25", "31", "ff", "0a",
		"1500", "160001", "13ff", "1d0101", "1d09000000000000000000", "0bfe00", // longer than needed
		strings.Repeat("05", 5000), strings.Repeat("05", 65) + strings.Repeat("00", 65),
	} {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Unpack(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("Unpack(%s) = %v, %v", h, got, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	for _, v := range official {
		b, _ := hex.DecodeString(v.packed)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tuple, err := Unpack(b)
		if err != nil {
			return
		}
		if again, _ := appendAll(nil, tuple, 0); !bytes.Equal(again, b) {
			t.Errorf("%x unpacks to %v, which packs to %x", b, tuple, again)
		}
	})
}

func TestSubspace(t *testing.T) {
	s := Subspace("p").Sub("jobs", 7)
	key := s.Pack("type", []byte{1}, int64(-3), uint64(math.MaxUint64), true, sampleUUID, sampleStamp,
		Tuple{"a", nil}, nil, 42)
	got, err := s.Unpack(key)
	if err != nil || len(got) != 10 || got[0] != "type" {
		t.Fatal(got, err)
	}
	var (
		str   string
		raw   []byte
		i     int64
		u     uint64
		yes   bool
		id    UUID
		stamp Versionstamp
		tup   Tuple
		n     int
	)
	if err := s.Scan(key, &str, &raw, &i, &u, &yes, &id, &stamp, &tup, nil, &n); err != nil {
		t.Fatal(err)
	}
	back := s.Pack(str, raw, i, u, yes, id, stamp, tup, nil, n)
	if !bytes.Equal(back, key) {
		t.Errorf("scanned %x, want %x", back, key)
	}
	for _, k := range [][]byte{s, s.Pack(), key, s.Pack(nil), s.Sub("x").Pack(sampleStamp)} {
		if !s.Contains(k) || !s.Range().Contains(k) {
			t.Errorf("%x is not in the subspace", k)
		}
	}
	for _, k := range [][]byte{nil, Subspace("p").Sub("jobs", 8), Subspace("p").Sub("jobs")} {
		if s.Contains(k) || s.Range().Contains(k) {
			t.Errorf("%x is in the subspace", k)
		}
	}
	if other := s.Pack("changed"); bytes.Equal(other, key) || !bytes.Equal(s, Subspace("p").Sub("jobs", 7)) {
		t.Error("packing changed the subspace")
	}
}

func TestScanErrors(t *testing.T) {
	s := Subspace("p")
	var (
		str   string
		raw   []byte
		i     int64
		u     uint64
		n     int
		yes   bool
		id    UUID
		stamp Versionstamp
		tup   Tuple
	)
	for name, c := range map[string]struct {
		key  []byte
		dst  []any
		want string
	}{
		"other subspace": {[]byte("q"), nil, "not in the subspace"},
		"too few":        {s.Pack("a"), []any{&str, &str}, "1 elements, not 2"},
		"too many":       {s.Pack("a", "b"), []any{&str}, "more than 1 elements"},
		"string": {s.Pack("a", 1), []any{&str, &str},
			"element 1: malformed tuple: type code 0x15 is no string"},
		"bytes":           {s.Pack("a"), []any{&raw}, "no byte string"},
		"int":             {s.Pack("a"), []any{&i}, "no 64-bit integer"},
		"int range":       {s.Pack(uint64(1 << 63)), []any{&i}, "out of range"},
		"int range below": {s.Pack(bigInt("-0x8000000000000001")), []any{&i}, "out of range"},
		"int big":         {s.Pack(bigInt("0x10000000000000000")), []any{&i}, "no 64-bit integer"},
		"small int range": {s.Pack(uint64(1 << 63)), []any{&n}, "out of range"},
		"uint range":      {s.Pack(-1), []any{&u}, "out of range"},
		"bool":            {s.Pack(1), []any{&yes}, "no bool"},
		"uuid":            {s.Pack(1), []any{&id}, "no UUID"},
		"uuid cut":        {append(s.Pack(), 0x30, 1), []any{&id}, "cut off"},
		"versionstamp":    {s.Pack(1), []any{&stamp}, "no versionstamp"},
		"stamp cut":       {append(s.Pack(), 0x33, 1), []any{&stamp}, "cut off"},
		"tuple":           {s.Pack(1), []any{&tup}, "no tuple"},
		"skipped hostile": {append(s.Pack(), 0xff), []any{nil}, "unknown type code"},
	} {
		err := s.Scan(c.key, c.dst...)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestString(t *testing.T) {
	got := Tuple{1, "a\x00", []byte{1}, nil, Tuple{2, true}, UUID{1}, Incomplete(7)}.String()
	want := `(1, "a\x00", b"\x01", nil, (2, true), 01000000-0000-0000-0000-000000000000, ffffffffffffffffffff-7)`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnpackedBytesAreOwned(t *testing.T) {
	packed := Pack([]byte("abc"))
	got, err := Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	clear(packed)
	if !reflect.DeepEqual(got, Tuple{[]byte("abc")}) {
		t.Errorf("element changed with the key: %q", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendInt(AppendString(AppendString(buf[:0], "jobs"), "0123456789abcdef"), 1<<40)
	}
}

func BenchmarkScan(b *testing.B) {
	s := Subspace("p")
	key := s.Pack("jobs", "0123456789abcdef", 1<<40)
	var (
		kind, id string
		at       int64
	)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Scan(key, &kind, &id, &at); err != nil {
			b.Fatal(err)
		}
	}
}
