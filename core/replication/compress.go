package replication

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

const (
	// leastCompressed is the size in bytes from which bulk writes are compressed: smaller ones fit into one packet as
	// they are.
	leastCompressed = 1 << 10
	// trialWrites is how many bulk writes show how fast a way of writing is.
	trialWrites = 4
	// longestTrial bounds the writes of a trial, of which none may tell anything.
	longestTrial = 100
	// firstGap and lastGap bound the time between two trials of the way that is not in use.
	firstGap, lastGap = time.Second, 10 * time.Minute
	// longestRefusal bounds how long nothing is compressed, after a target did not take what was.
	longestRefusal = time.Hour
)

// compression decides which bulk writes travel compressed. Compression costs both sides work, and helps where the line
// is slower than that. Neither the line nor the work is known, so the run tries both ways, and uses the one in which
// more bytes of documents arrive in a second. Now and then the other way is tried, the more rarely the longer the
// decision has stood, and at once when writes have become three times as fast or slow.
//
// Writes share the line, so only times count in which all that are in flight go the same way, and a trial lasts until
// enough of them began and ended in such a time. Times without any do not count: then there was nothing to write.
//
// A target that does not take a compressed write gets it once more as it is. If it takes that, nothing is compressed
// for 37 seconds, and twice as long after each further time. Writes that were in flight together count as one.
type compression struct {
	*Run

	used   bool          // bulk writes are compressed, but for trials
	paces  [2]pace       // of plain writes and of compressed ones
	flying [2]int        // bulk writes in flight, plain and compressed ones
	noted  instant.Time  // when flying last changed
	tried  instant.Time  // when the last trial ended; 0 before the first write
	gap    time.Duration // between that and the next one
	trial  int           // bulk writes of the present one; 0 between two
	base   int64         // pace of the way in use, as the last trial ended; 0 before

	refusals int          // how often the target did not take a compressed write, and took it as it was
	until    instant.Time // nothing is compressed before this
}

// pace is how fast writes of one kind are. Older ones count less.
type pace struct {
	bytes int64
	took  time.Duration // while some were in flight, and none of the other kind
	told  int           // writes that began and ended so
}

// perByte is the time for a byte in picoseconds.
func (p *pace) perByte() int64 { return p.took.Nanoseconds() * 1000 / max(1, p.bytes) }

// kind is the index of a kind of bulk writes.
func kind(gzip bool) int {
	if gzip {
		return 1
	}
	return 0
}

// next reports whether the next bulk write, of so many bytes, is to be compressed.
func (z *compression) next(bytes int) bool {
	if z.tried == 0 {
		z.tried = z.now
	}
	switch {
	case z.plan.Compression == spec.CompressOff || bytes < leastCompressed || z.now < z.until:
		return false
	case z.plan.Compression == spec.CompressOn:
		return true
	case z.trial == 0 && (z.now.Sub(z.tried) < z.gap || z.paces[kind(z.used)].told < trialWrites):
		return z.used
	case z.trial == 0:
		// Reached: a way of writing is tried that is not in use
		z.paces[kind(!z.used)] = pace{} // what it was like some time ago does not count
	}
	gzip := !z.used
	if z.trial++; z.trial == longestTrial {
		z.conclude()
	}
	return gzip
}

// began notes that a bulk write of so many bytes is in flight, and reports whether all others in flight go the same
// way. Small ones are left out here and in ended: they are hardly in the way of others, and what they take is not for
// their bytes.
func (z *compression) began(gzip bool, bytes int) (alike bool) {
	if bytes < leastCompressed {
		return false
	}
	z.pass()
	z.flying[kind(gzip)]++
	return z.flying[kind(!gzip)] == 0
}

// pass has the time since the last change count for the kind of writes that was in flight alone.
func (z *compression) pass() {
	for k := range z.flying {
		if z.flying[k] > 0 && z.flying[1-k] == 0 {
			z.paces[k].took += z.now.Sub(z.noted)
		}
	}
	z.noted = z.now
}

// ended notes that a bulk write is over. Smooth says that nothing went wrong, so that its time was for its bytes;
// alike, that it began while all others in flight went the same way.
func (z *compression) ended(gzip bool, bytes int, smooth, alike bool) {
	if bytes < leastCompressed {
		return
	}
	z.pass()
	k := kind(gzip)
	z.flying[k]--
	p := &z.paces[k]
	if !smooth {
		*p = pace{}
	}
	if !smooth || z.flying[1-k] > 0 {
		return
	}
	if p.bytes += int64(bytes); alike {
		p.told++
	}
	if p.told == 2*trialWrites {
		p.bytes, p.took, p.told = p.bytes/2, p.took/2, trialWrites
	}
	switch pace := p.perByte(); {
	case z.trial > 0 && gzip != z.used && p.told >= trialWrites:
		z.conclude()
	case p.told < trialWrites || z.trial > 0 || gzip != z.used || z.base == 0:
	case pace > 3*z.base, pace < z.base/3:
		// Reached: writes have become much slower, or faster
		z.gap, z.base = 0, pace
	}
}

// conclude ends a trial, and chooses the faster way. Compressed writes must be faster by a fifth, so that noise does
// not make both sides work for nothing; they remain until they are slower.
func (z *compression) conclude() {
	before, plain, packed := z.used, &z.paces[0], &z.paces[1]
	switch {
	case plain.told < trialWrites || packed.told < trialWrites:
	case z.used:
		z.used = packed.perByte() <= plain.perByte()
	default:
		z.used = packed.perByte() < plain.perByte()/5*4
	}
	z.trial, z.tried, z.gap = 0, z.now, max(firstGap, min(2*z.gap, lastGap))
	if z.used != before {
		// Reached: the other way of writing turns out to be faster
		z.gap = firstGap
	}
	z.base = z.paces[kind(z.used)].perByte()
}

// refused notes that the target took a write only as it was.
func (z *compression) refused() {
	if z.now < z.until { // it was in flight when the pause began, which begins anew
		z.refusals--
	}
	pause := longestRefusal
	if z.refusals < 7 { // 37 s doubled seven times is more than an hour
		pause = forceAfter << z.refusals
	}
	z.refusals++
	z.until = z.now.Add(pause)
	z.used, z.trial, z.tried, z.gap = false, 0, z.now, firstGap
}

// ofEncoding reports whether a bulk write may have failed for being compressed: the target does not know that (415),
// reads the bytes as JSON (400), wants to know their number (411), waits for more (408), or something on the way
// breaks. Whatever has fewer retries for a compressed write must be among these, or the run would end too soon.
func ofEncoding(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return slices.Contains([]int{400, 408, 411, 415}, f.Status) || f.Status >= 500
	case peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}
