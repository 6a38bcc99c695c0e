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
//
// What it returns is what log2BySquares does, which is stored in queues. A worker takes a logarithm and a
// power for each running job in each interval, so both are found in a table; where the last bit is not sure
// (once in thousands) it is left to the slow way.
func Log2(n int64) int64 {
	if n < 2 {
		return 0
	}
	log := int64(bits.Len64(uint64(n)) - 1)
	x := uint64(n) << (63 - log) // from 1 to below 2, with 63 bits behind the point
	if x == 1<<63 {
		return log << fraction
	}
	digit := tables.digit[x>>55&255]
	y, _ := bits.Mul64(x, tables.inverse[digit])
	z := y << 1 // x / 2^(digit/256) = 1+z, from 0 to below 2^-7, with 64 bits behind the point
	sum := mulHigh(z, series[4])
	for i := 3; i >= 0; i-- {
		sum = mulHigh(z, series[i]-sum)
	}
	sum += digit<<56 + z
	// The series is off by less than 2^-45, and the squares by less than 2^-60.
	const guard = 1 << (64 - 44)
	if last := (sum - guard) >> fraction; last == (sum+guard)>>fraction {
		return log<<fraction | int64(last)
	}
	return log2BySquares(n)
}

// series are the factors of z to z^5 in log2(1+z): 1/ln 2 - 1 and then 1/(k ln 2), with 64 bits behind the point
// and without signs.
var series = [5]uint64{
	0x71547652b82fe177, 0xb8aa3b295c17f0bb, 0x7b1c2770e80ff5d2, 0x5c551d94ae0bf85d, 0x49ddb143be6ff9e4,
}

func mulHigh(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	return hi
}

// log2BySquares is Log2 for n from 2: a bit of the logarithm for each square.
func log2BySquares(n int64) int64 {
	log := int64(bits.Len64(uint64(n)) - 1)
	x := uint64(n) << (63 - log)
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
	for i := range tables.powers {
		if digit := log >> (fraction - 8*(i+1)) & 255; digit != 0 {
			hi, lo := bits.Mul64(x, tables.powers[i][digit])
			x = hi<<1 | lo>>63
		}
	}
	// Both ways are off by less than 2^7 in the last place.
	const guard = 1 << 8
	shift := 63 - log>>fraction
	if x > math.MaxUint64-guard || (x-guard)>>shift != (x+guard)>>shift {
		x = exp2ByRoots(log)
	}
	n := int64(x >> shift)
	if Log2(n+1) <= log { // all that was rounded down made it too small
		n++
	}
	return n
}

// exp2ByRoots is 2 to the power of the fraction of log, with 63 bits behind the point: a product of a root for
// each bit.
func exp2ByRoots(log int64) uint64 {
	x := uint64(1) << 63
	for i, root := range tables.roots {
		if log>>(fraction-1-i)&1 == 1 {
			hi, lo := bits.Mul64(x, root)
			x = hi<<1 | lo>>63
		}
	}
	return x
}

// tables are numbers that logarithms and powers are put together from, rounded down.
var tables = func() (t struct {
	roots   [fraction]uint64          // 2^(1/2), 2^(1/4), 2^(1/8)... with 63 bits behind the point
	powers  [fraction / 8][256]uint64 // 2^(digit/256), 2^(digit/256^2)... likewise
	inverse [256]uint64               // 2^(-digit/256), with 64 bits behind the point
	digit   [256]uint64               // 256 * log2(1 + n/256)
}) {
	const precision = 126 // bits behind the point on the way
	one := new(big.Int).Lsh(big.NewInt(1), precision)
	root := new(big.Int).Lsh(big.NewInt(2), precision)
	for i := range t.roots {
		root.Sqrt(root.Lsh(root, precision))
		t.roots[i] = new(big.Int).Rsh(root, precision-63).Uint64()
		if i%8 == 7 {
			power := new(big.Int).Set(one)
			for digit := range 256 {
				t.powers[i/8][digit] = new(big.Int).Rsh(power, precision-63).Uint64()
				power.Rsh(power.Mul(power, root), precision)
			}
		}
	}
	t.inverse[0] = math.MaxUint64
	for n := 1; n < 256; n++ {
		t.inverse[n] = t.powers[0][256-n] // half of it, with a bit more behind the point
	}
	for n := range t.digit {
		t.digit[n] = uint64(log2BySquares(256+int64(n)) >> (fraction - 8) & 255)
	}
	return t
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
