package tuple

import (
	"encoding/hex"
	"math"
	"math/big"
	"reflect"
	"testing"
)

var (
	sampleUUID  = UUID{0x11, 0, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0x11, 0, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF}
	sampleStamp = Versionstamp{Transaction: [10]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, User: 0xabcd}
)

func bigInt(s string) *big.Int {
	i, ok := new(big.Int).SetString(s, 0)
	if !ok {
		panic(s)
	}
	return i
}

// official holds what FoundationDB's own Go tuple package (bindings/go/src/fdb/tuple at c0c44752)
// packs, which includes the test cases of design/tuple.md.
var official = []struct {
	tuple  Tuple
	packed string
}{
	{Tuple{}, ""},
	{Tuple{nil}, "00"},
	{Tuple{[]byte("foo\x00bar")}, "01666f6f00ff62617200"},
	{Tuple{[]byte{}}, "0100"},
	{Tuple{"F\u00d4O\u0000bar"}, "0246c3944f00ff62617200"},
	{Tuple{"\x00", "\x00\xff", "\x00\x00\x00", "\xff\x00", ""}, "0200ff000200ffff000200ff00ff00ff0002ff00ff000200"},
	{Tuple{int64(0)}, "14"},
	{Tuple{int64(1)}, "1501"},
	{Tuple{int64(-1)}, "13fe"},
	{Tuple{int64(255)}, "15ff"},
	{Tuple{int64(256)}, "160100"},
	{Tuple{int64(-255)}, "1300"},
	{Tuple{int64(-256)}, "12feff"},
	{Tuple{int64(65535)}, "16ffff"},
	{Tuple{int64(65536)}, "17010000"},
	{Tuple{int64(-65535)}, "120000"},
	{Tuple{int64(-65536)}, "11feffff"},
	{Tuple{int64(4294967295)}, "18ffffffff"},
	{Tuple{int64(4294967296)}, "190100000000"},
	{Tuple{int64(-5551212)}, "11ab4b93"},
	{Tuple{int64(9223372036854775807)}, "1c7fffffffffffffff"},
	{Tuple{int64(-9223372036854775808)}, "0c7fffffffffffffff"},
	{Tuple{int64(-9223372036854775807)}, "0c8000000000000000"},
	{Tuple{int64(-72057594037927936)}, "0cfeffffffffffffff"},
	{Tuple{int64(72057594037927935)}, "1bffffffffffffff"},
	{Tuple{uint64(18446744073709551615)}, "1cffffffffffffffff"},
	{Tuple{uint64(9223372036854775808)}, "1c8000000000000000"},
	{Tuple{uint64(9223372036854775807)}, "1c7fffffffffffffff"},
	{Tuple{uint64(7)}, "1507"},
	{Tuple{bigInt("-0xffffffffffffffff")}, "0c0000000000000000"},
	{Tuple{bigInt("-0x8000000000000001")}, "0c7ffffffffffffffe"},
	{Tuple{bigInt("0x10000000000000000")}, "1d09010000000000000000"},
	{Tuple{bigInt("-0x10000000000000000")}, "0bf6feffffffffffffffff"},
	{Tuple{bigInt("-0xff00000000000000000001")}, "0bf400fffffffffffffffffffe"},
	{Tuple{bigInt("0x7fffffffffffffffffffffffffffffff")}, "1d107fffffffffffffffffffffffffffffff"},
	{Tuple{math.Float32frombits(0xc2280000)}, "203dd7ffff"},
	{Tuple{math.Float32frombits(0x0)}, "2080000000"},
	{Tuple{math.Float32frombits(0x80000000)}, "207fffffff"},
	{Tuple{math.Float32frombits(0x3fc00000)}, "20bfc00000"},
	{Tuple{math.Float32frombits(0x7f800000)}, "20ff800000"},
	{Tuple{math.Float32frombits(0xff800000)}, "20007fffff"},
	{Tuple{math.Float32frombits(0x7f7fffff)}, "20ff7fffff"},
	{Tuple{math.Float64frombits(0xc045000000000000)}, "213fbaffffffffffff"},
	{Tuple{math.Float64frombits(0x0)}, "218000000000000000"},
	{Tuple{math.Float64frombits(0x8000000000000000)}, "217fffffffffffffff"},
	{Tuple{math.Float64frombits(0x3ff8000000000000)}, "21bff8000000000000"},
	{Tuple{math.Float64frombits(0x7ff0000000000000)}, "21fff0000000000000"},
	{Tuple{math.Float64frombits(0xfff0000000000000)}, "21000fffffffffffff"},
	{Tuple{math.Float64frombits(0x1)}, "218000000000000001"},
	{Tuple{true, false}, "2726"},
	{Tuple{sampleUUID}, "301100aabbccddeeff1100aabbccddeeff"},
	{Tuple{sampleStamp}, "3300010203040506070809abcd"},
	{Tuple{Tuple{[]byte("foo\x00bar"), nil, Tuple{}}}, "0501666f6f00ff6261720000ff050000"},
	{Tuple{Tuple{}, nil, Tuple{nil}, Tuple{Tuple{nil, int64(1)}, ""}, nil}, "0500000500ff00050500ff15010002000000"},
	{Tuple{sampleUUID, "foobarbaz", int64(1234), nil},
		"301100aabbccddeeff1100aabbccddeeff02666f6f62617262617a001604d200"},
}

func TestOfficialVectors(t *testing.T) {
	for _, v := range official {
		if got := hex.EncodeToString(v.tuple.Pack()); got != v.packed {
			t.Errorf("Pack(%v) = %s, want %s", v.tuple, got, v.packed)
		}
		packed, _ := hex.DecodeString(v.packed)
		got, err := Unpack(packed)
		if err != nil {
			t.Errorf("Unpack(%s): %v", v.packed, err)
		}
		if want := normal(v.tuple); !reflect.DeepEqual(got, want) && len(want) > 0 {
			t.Errorf("Unpack(%s) = %#v, want %#v", v.packed, got, want)
		}
	}
}

// normal is what unpacking gives for a tuple: integers in their narrowest type.
func normal(t Tuple) Tuple {
	out := Tuple{}
	for _, e := range t {
		switch e := e.(type) {
		case uint64:
			if e <= math.MaxInt64 {
				out = append(out, int64(e))
				continue
			}
			out = append(out, e)
		case Tuple:
			out = append(out, normal(e))
		default:
			out = append(out, e)
		}
	}
	return out
}

// TestOfficialVersionstamped compares with PackWithVersionstamp of the official package.
func TestOfficialVersionstamped(t *testing.T) {
	for want, got := range map[string][]byte{
		"707265ff027100150333ffffffffffffffffffff00070278000a000000": Subspace("pre\xff").PackVersionstamped("q", 3,
			Incomplete(7), "x"),
		"0271000500ff33ffffffffffffffffffffffff0007000000": PackVersionstamped(nil, "q", Tuple{nil, Incomplete(65535)}),
	} {
		if hex.EncodeToString(got) != want {
			t.Errorf("got %x, want %s", got, want)
		}
	}
}

func TestProgrammerErrorsPanic(t *testing.T) {
	deep := Tuple{}
	for range maxDepth + 1 {
		deep = Tuple{deep}
	}
	for name, f := range map[string]func(){
		"type":           func() { Pack(struct{}{}) },
		"incomplete":     func() { Pack(Incomplete(1)) },
		"deep":           func() { Pack(deep) },
		"big":            func() { Pack(new(big.Int).Lsh(big.NewInt(1), 255*8)) },
		"no stamp":       func() { PackVersionstamped(nil, "a") },
		"two stamps":     func() { PackVersionstamped(nil, Incomplete(1), Incomplete(2)) },
		"two, nested":    func() { PackVersionstamped(nil, Tuple{Incomplete(1)}, Incomplete(2)) },
		"scan into type": func() { _ = Subspace(nil).Scan(Pack(1), new(float64)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
