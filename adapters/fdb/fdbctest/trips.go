//go:build fdb && fdbctest

package fdbctest

import (
	"context"
	"slices"

	"couchrelay/core/kv"
)

// The client of a cluster keeps what an attempt has read and written, and asks the cluster only for the rest.
// Reads that are asked for before the caller waits for one of them are under way together. The double has
// everything at hand; it counts how often a client would have waited.

// known is the part of the keys of which an attempt needs nothing from the cluster any more, in order. No two
// ranges touch.
type known []kv.Range

func (k *known) add(r kv.Range) {
	from := slices.IndexFunc(*k, func(have kv.Range) bool { return string(have.End) >= string(r.Begin) })
	if from < 0 {
		*k = append(*k, r)
		return
	}
	to := from
	for ; to < len(*k) && string((*k)[to].Begin) <= string(r.End); to++ {
		have := (*k)[to]
		r.Begin, r.End = least(r.Begin, have.Begin), greatest(r.End, have.End)
	}
	*k = slices.Replace(*k, from, to, r)
}

// covers reports whether all of r is known.
func (k known) covers(r kv.Range) bool {
	return r.Empty() || slices.ContainsFunc(k, func(have kv.Range) bool {
		return string(have.Begin) <= string(r.Begin) && string(r.End) <= string(have.End)
	})
}

func least(a, b []byte) []byte {
	if string(a) < string(b) {
		return a
	}
	return b
}

func greatest(a, b []byte) []byte {
	if string(a) > string(b) {
		return a
	}
	return b
}

// RoundTrips counts how often the callers of transactions with a tag had to wait for the cluster: for read
// versions, for reads, of which those count once that were under way together, and for commits with writes.
func (c *Cluster) RoundTrips(tag string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips[tag]
}

func (a *attempt) waited(c *Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips[a.tag]++
}

// version counts the round trip for the attempt's read version, unless it has one. The caller holds the lock.
func (t *transaction) version(a *attempt) {
	if a.given == 0 && !a.versioned {
		a.waited(t.cluster)
	}
	a.versioned = true
}

// distant is the key of an attempt in the context of its operations.
type distant struct{}

// isNear reports whether an operation of an attempt takes no time, since it needs nothing from the cluster,
// or is under way together with one that took its time.
func isNear(ctx context.Context) bool {
	a, is := ctx.Value(distant{}).(*attempt)
	return is && a.near.Load()
}

// read reads from the range in. f does it, and returns with the result the part of in that it has read.
func (t *transaction) read(in kv.Range, f func(tx kv.Tx) (result any, about kv.Range, err error)) *future {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, far := t.attempt, false // the lock guards far, too
	batch := a.batch
	answer := t.askLocked(func(tx kv.Transaction) (any, error) {
		t.mu.Lock()
		near := a.paid > batch || a.known.covers(in)
		if a.near.Store(near); !near {
			a.paid = batch + 1
		}
		t.mu.Unlock()
		result, about, err := f(tx)
		a.near.Store(false)
		t.mu.Lock()
		defer t.mu.Unlock()
		if err == nil && !a.known.covers(about) {
			far = true
			a.known.add(about)
		}
		return result, err
	})
	answer.onTake = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !far {
			return
		}
		t.version(a)
		if batch == a.batch {
			a.batch++
			a.waited(t.cluster)
		}
	}
	return answer
}

// write performs a write after which r is known.
func (t *transaction) write(r kv.Range, f func(tx kv.Tx)) {
	t.do(f)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.Empty() {
		t.attempt.known.add(r)
	}
}

// readVersion asks for the attempt's read version.
func (t *transaction) readVersion() *future {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempt
	answer := t.askLocked(func(tx kv.Transaction) (any, error) { return tx.ReadVersion() })
	answer.onTake = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.version(a)
	}
	return answer
}
