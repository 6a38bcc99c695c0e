package jobs

import (
	"couchrelay/core/invariant"
	"couchrelay/core/kv"
)

// Buckets is the number of buckets into which the ids of jobs fall, by a hash.
const Buckets = 1 << 16

// Part is the jobs in the buckets From <= b < To. Acceptors have parts that do not overlap, so that they
// rarely want the same jobs, and each is woken for its own ones. A part is a preference and no right: views
// of the fleet differ for a while, and then parts overlap or leave gaps. The zero value is all jobs.
type Part struct{ From, To int }

// all is the part of an acceptor that is alone.
var all = Part{0, Buckets}

// Has reports whether a job is in the part.
func (p Part) Has(id string) bool {
	p = p.whole()
	b := bucket(id)
	return p.From <= b && b < p.To
}

// Wakes reports whether each job that becomes ready in part o also changes the signal of part p.
func (p Part) Wakes(o Part) bool {
	from, to := p.whole().shards()
	first, last := o.whole().shards()
	return from <= first && last <= to
}

// whole is the part, with the zero value spelled out.
func (p Part) whole() Part {
	if p == (Part{}) {
		p = all
	}
	invariant.Check(0 <= p.From && p.From < p.To && p.To <= Buckets, partFits, p.From, p.To)
	return p
}

// shards is the number of keys over which a counter is spread that many jobs change, so that no single key,
// and so no single server of the store, takes all of these writes.
const shards = 16

// shard is the shard of a bucket.
func shard(bucket int) int64 { return int64(bucket / (Buckets / shards)) }

// shards are the first and the last shard of the part.
func (p Part) shards() (first, last int64) { return shard(p.From), shard(p.To - 1) }

// bucket is the bucket of a job: FNV-1a, whose bits are then mixed as in MurmurHash3, since ids differ in
// their last characters only as a rule.
func bucket(id string) int {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return int(h >> 16)
}

// Signals are the keys that a job changes when it becomes ready in the part.
func (k Keys) Signals(p Part) (keys [][]byte) {
	first, last := p.whole().shards()
	for s := first; s <= last; s++ {
		keys = append(keys, k.Signal.Pack(s))
	}
	return keys
}

// Signal reads a counter that grows whenever a job of the part becomes ready, and also for some jobs beside
// the part. A worker that found no job waits for it to change.
func (q *Queue) Signal(r kv.Reader, p Part) (sum int64, err error) {
	values, err := r.GetAll(q.Keys.Signals(p))
	for _, v := range values {
		sum += counterValue(v)
	}
	return sum, err
}

// WatchReady fires when the signal of the part grew.
func (q *Queue) WatchReady(tx kv.Tx, p Part) kv.Watch { return tx.Watch(q.Keys.Signals(p)...) }
