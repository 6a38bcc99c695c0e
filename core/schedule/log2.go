package schedule

import (
	"math"
	"math/big"
	"math/bits"

	"couchrelay/core/invariant"
)

// fraction is the number of bits behind the point of a logarithm.
const fraction = 32

// Log2 is the binary logarithm of n in units of 2^-32, rounded down; 0 for n below 2. It is monotonic: a
// greater n has no smaller logarithm. It uses integers only, so that all processors agree on the order of
// jobs.
func Log2(n int64) int64 {
	if n < 2 {
		return 0
	}
	log := int64(bits.Len64(uint64(n)) - 1)
	x := uint64(n) << (63 - log) // from 1 to below 2, with 63 bits behind the point
	for range fraction {
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

// Exp2 undoes Log2: it is 2 to the power of log, in the same units, rounded down, and n where log is
// Log2(n) for n up to 2^31. It never falls where log grows; below 0 it is 0, and it saturates.
func Exp2(log int64) int64 {
	if log < 0 {
		return 0
	}
	if log >= 62<<fraction {
		return 1 << 62
	}
	x := uint64(1) << 63
	for i, root := range roots {
		if log>>(fraction-1-i)&1 == 1 {
			hi, lo := bits.Mul64(x, root)
			x = hi<<1 | lo>>63
		}
	}
	n := int64(x >> (63 - log>>fraction))
	if Log2(n+1) <= log { // all that was rounded down made it too small
		n++
	}
	return n
}

// roots are 2^(1/2), 2^(1/4), 2^(1/8)... with 63 bits behind the point, rounded down.
var roots = func() (list [fraction]uint64) {
	const precision = 126 // bits behind the point on the way
	root := new(big.Int).Lsh(big.NewInt(2), precision)
	for i := range list {
		root.Sqrt(root.Lsh(root, precision))
		list[i] = new(big.Int).Rsh(root, precision-63).Uint64()
	}
	return list
}()

// mulDiv is a*b/c rounded down, for numbers that are not negative and c above 0. It saturates.
func mulDiv(a, b, c int64) int64 {
	invariant.Check(a >= 0 && b >= 0 && c > 0, mulDivDomain, int(a), int(b), int(c))
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
