package decide

import "pgregory.net/rapid"

// Seed is the seeded generator: one number tells a whole run.
type Seed uint64

func (Seed) uniform(s *Site, n int) int { return s.rng.Intn(n) }

// Draws takes the answers from a property test, which then shrinks a failure by itself.
type Draws struct{ T *rapid.T }

func (d Draws) uniform(s *Site, n int) int { return rapid.IntRange(0, n-1).Draw(d.T, s.name) }

// Bytes takes the answers from the input of a fuzz target; when it is used up everything is benign.
type Bytes struct{ Data []byte }

func (b *Bytes) uniform(_ *Site, n int) int {
	v := 0
	for size := n - 1; size > 0; size >>= 8 {
		if len(b.Data) == 0 {
			return 0
		}
		v = v<<8 | int(b.Data[0])
		b.Data = b.Data[1:]
	}
	return v % n
}
