package schedule

import (
	"math/big"
	"math/bits"
	"testing"
)

// plainLog2 takes a square for each bit. Keys that were made this way are in stores.
func plainLog2(n int64) int64 {
	if n < 2 {
		return 0
	}
	log := int64(bits.Len64(uint64(n)) - 1)
	x := uint64(n) << (63 - log)
	for range 32 {
		log <<= 1
		hi, lo := bits.Mul64(x, x)
		if hi>>63 == 1 {
			log, x = log|1, hi
		} else {
			x = hi<<1 | lo>>63
		}
	}
	return log
}

// plainExp2 takes a root for each bit.
func plainExp2(log int64) int64 {
	if log < 0 {
		return 0
	}
	if log >= 62<<32 {
		return 1 << 62
	}
	x := uint64(1) << 63
	for i, root := range plainRoots {
		if log>>(31-i)&1 == 1 {
			hi, lo := bits.Mul64(x, root)
			x = hi<<1 | lo>>63
		}
	}
	n := int64(x >> (63 - log>>32))
	if plainLog2(n+1) <= log {
		n++
	}
	return n
}

var plainRoots = func() (list [32]uint64) {
	root := new(big.Int).Lsh(big.NewInt(2), 126)
	for i := range list {
		root.Sqrt(root.Lsh(root, 126))
		list[i] = new(big.Int).Rsh(root, 63).Uint64()
	}
	return list
}()

// TestLogarithmsBitForBit: the tables give what squares and roots give, to the last bit.
func TestLogarithmsBitForBit(t *testing.T) {
	same := func(n, log int64) {
		t.Helper()
		if got, want := Log2(n), plainLog2(n); got != want {
			t.Fatalf("the logarithm of %d is %#x, want %#x", n, got, want)
		}
		if got, want := Exp2(log), plainExp2(log); got != want {
			t.Fatalf("2 to the power of %#x is %d, want %d", log, got, want)
		}
	}
	near := func(n int64) { // where the last bit may differ
		for d := int64(-2); d <= 2; d++ {
			same(n+d, Log2(n)+d)
		}
	}
	for n := int64(1); n > 0; n <<= 1 {
		near(n)
		near(n + n/256)
		near(n | n>>1)
	}
	for n := range int64(1 << 17) {
		near(n)
	}
	x := uint64(1)
	for range 2_000_000 {
		x = x*6364136223846793005 + 1442695040888963407
		same(int64(x>>1)>>(x%63), int64(x>>(1+x%37)))
	}
}

var sink int64

func BenchmarkLog2(b *testing.B) {
	for n := int64(1); b.Loop(); n += 1 << 35 {
		sink += Log2(n)
	}
}

func BenchmarkPlainLog2(b *testing.B) {
	for n := int64(1); b.Loop(); n += 1 << 35 {
		sink += plainLog2(n)
	}
}

func BenchmarkExp2(b *testing.B) {
	for log := int64(1); b.Loop(); log = (log + 12345678901) % (48 << fraction) {
		sink += Exp2(log)
	}
}

func BenchmarkPlainExp2(b *testing.B) {
	for log := int64(1); b.Loop(); log = (log + 12345678901) % (48 << fraction) {
		sink += plainExp2(log)
	}
}
