package tuple

import (
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

// TestLargest packs what is just not too large.
func TestLargest(t *testing.T) {
	deep := Tuple{}
	for range maxDepth - 1 {
		deep = Tuple{deep}
	}
	big255 := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255*8), big.NewInt(1))
	for _, e := range []any{deep, big255, new(big.Int).Neg(big255)} {
		if got, err := Unpack(Pack(e)); err != nil || !reflect.DeepEqual(got, Tuple{e}) {
			t.Errorf("%v became %v, %v", e, got, err)
		}
	}
}

// TestScanEdges scans the integers at the ends of their types.
func TestScanEdges(t *testing.T) {
	var i int64
	var u uint64
	for _, want := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		if err := Subspace(nil).Scan(Pack(want), &i); err != nil || i != want {
			t.Errorf("%d: %d, %v", want, i, err)
		}
	}
	for _, want := range []uint64{0, 1, math.MaxUint64} {
		if err := Subspace(nil).Scan(Pack(want), &u); err != nil || u != want {
			t.Errorf("%d: %d, %v", want, u, err)
		}
	}
	for packed, c := range map[string]struct {
		into any
		want string
	}{
		string(Pack(uint64(math.MaxInt64) + 1)):     {&i, "integer out of range"},
		string(Pack(bigInt("-0x8000000000000001"))): {&i, "integer out of range"},
		string(Pack(-1)): {&u, "integer out of range"},
		string(Pack(bigInt("0x10000000000000000"))):  {&u, "type code 0x1d is no 64-bit integer"},
		string(Pack(bigInt("-0x10000000000000000"))): {&i, "type code 0x0b is no 64-bit integer"},
		string(Pack("x")): {&i, "type code 0x02 is no 64-bit integer"},
	} {
		err := Subspace(nil).Scan([]byte(packed), c.into)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: %v, want %s", packed, err, c.want)
		}
	}
}

// TestLongerThanNeeded: an integer has one encoding, so that a key has one value.
func TestLongerThanNeeded(t *testing.T) {
	for _, packed := range []string{
		"1500", "160001", "13ff", "1d08ffffffffffffffff", "0bf70000000000000000", "1d0900ffffffffffffffff", "1d00",
	} {
		raw, _ := hex.DecodeString(packed)
		if got, err := Unpack(raw); !errors.Is(err, ErrMalformed) ||
			!strings.Contains(err.Error(), "longer than needed") {
			t.Errorf("%s: %v, %v", packed, got, err)
		}
	}
}
