package jobs

import (
	"math/bits"

	"couchrelay/core/kv"
)

// Buckets is the number of buckets into which the ids of jobs fall, by a hash.
const Buckets = 64

// Part is the jobs in some buckets, a bit for each. Acceptors have parts that do not overlap, so that they
// rarely want the same jobs, and each is woken for its own ones. A part is a preference and no right: views
// of the fleet differ for a while, and then parts overlap or leave gaps. The zero value is all jobs.
type Part uint64

// whole is the part, with the zero value spelled out.
func (p Part) whole() Part {
	if p == 0 {
		return ^p
	}
	return p
}

// Has reports whether a job is in the part.
func (p Part) Has(id string) bool { return p.whole()>>Bucket(id)&1 != 0 }

// Covers reports whether all jobs of another part are in this one.
func (p Part) Covers(o Part) bool { return o.whole()&^p.whole() == 0 }

// Bucket is the bucket of a job: FNV-1a, whose bits are then mixed as in MurmurHash3, since ids differ in
// their last characters only as a rule.
func Bucket(id string) int64 {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return int64(h >> 26)
}

// counterShards is the number of rows over which a counter of states is spread that every job changes, so
// that no single key, and so no single server of the store, takes all of these writes.
const counterShards = 16

// Signals are the keys that the jobs of a part change when they become ready, one for each bucket.
func (k Keys) Signals(p Part) [][]byte {
	keys := make([][]byte, 0, Buckets)
	for rest := uint64(p.whole()); rest != 0; rest &= rest - 1 {
		keys = append(keys, k.Signal.Pack(int64(bits.TrailingZeros64(rest))))
	}
	return keys
}

// Signal reads a counter that grows whenever a job of the part becomes ready. A worker that found no job
// waits for it to change.
func (q *Queue) Signal(r kv.Reader, p Part) (sum int64, err error) {
	values, err := r.GetAll(q.Keys.Signals(p))
	for _, v := range values {
		sum += kv.Counter(v)
	}
	return sum, err
}

// WatchReady fires when the signal of the part grew.
func (q *Queue) WatchReady(tx kv.Tx, p Part) kv.Watch { return tx.Watch(q.Keys.Signals(p)...) }
