// Package prng holds the core's only source of randomness: a small generator whose output is
// pinned by a golden test, so that a seed means the same run on every machine and Go release.
// It is not for secrets.
package prng

import "math/bits"

// Source is a xoshiro256** generator (Blackman and Vigna, https://prng.di.unimi.it/). It is a plain
// value: copying it forks the stream. The zero value is not usable; see New.
type Source struct{ s [4]uint64 }

// New seeds a source through SplitMix64, as its authors advise, so that every seed, 0 too, is good.
func New(seed uint64) Source {
	var src Source
	for i := range src.s {
		src.s[i] = splitmix(&seed)
	}
	return src
}

// Fork derives a source for the consumer called label. Streams of different labels are independent
// of each other and of how far the seed's own stream was read, so adding a consumer shifts no other.
func Fork(seed uint64, label string) Source {
	h := uint64(14695981039346656037) // FNV-1a, 64 bit
	for i := range len(label) {
		h = (h ^ uint64(label[i])) * 1099511628211
	}
	return New(seed ^ splitmix(&h))
}

func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 draws 64 uniform bits.
func (r *Source) Uint64() uint64 {
	s := &r.s
	out := bits.RotateLeft64(s[1]*5, 7) * 9
	t := s[1] << 17
	s[2] ^= s[0]
	s[3] ^= s[1]
	s[1] ^= s[2]
	s[0] ^= s[3]
	s[2] ^= t
	s[3] = bits.RotateLeft64(s[3], 45)
	return out
}

// Uint64n draws uniformly from [0, n) by Lemire's multiplication without bias. It panics on n = 0.
func (r *Source) Uint64n(n uint64) uint64 {
	if n == 0 {
		panic("prng: empty range")
	}
	hi, lo := bits.Mul64(r.Uint64(), n)
	if lo < n {
		for threshold := -n % n; lo < threshold; {
			hi, lo = bits.Mul64(r.Uint64(), n)
		}
	}
	return hi
}

// Intn draws uniformly from [0, n). It panics unless n is positive.
func (r *Source) Intn(n int) int {
	if n <= 0 {
		panic("prng: empty range")
	}
	return int(r.Uint64n(uint64(n)))
}

// Sample draws k distinct indices of [0, n) in random order, all n of them when k >= n.
func (r *Source) Sample(n, k int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	k = min(k, n)
	for i := range k {
		j := i + r.Intn(n-i)
		all[i], all[j] = all[j], all[i]
	}
	return all[:k]
}
