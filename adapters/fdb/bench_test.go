//go:build fdb

package fdb_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// counter counts the operations on a store.
type counter struct {
	kv.Database
	transactions, conflicts, reads, snapshots, writes atomic.Int64
}

func (c *counter) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	c.transactions.Add(1)
	return &counted{c.Database.Begin(ctx, o), c}
}

// report reports the counts per operation and starts again.
func (c *counter) report(b *testing.B, operations int) {
	for name, n := range map[string]*atomic.Int64{"tx": &c.transactions,
		"conflicts": &c.conflicts, "reads": &c.reads, "snapshots": &c.snapshots, "writes": &c.writes} {
		b.ReportMetric(float64(n.Swap(0))/float64(operations), name+"/op")
	}
}

func (c *counter) reset() {
	for _, n := range []*atomic.Int64{&c.transactions, &c.conflicts, &c.reads, &c.snapshots, &c.writes} {
		n.Store(0)
	}
}

// counted is a transaction whose operations are counted.
type counted struct {
	kv.Transaction
	c *counter
}

func (t *counted) Get(key []byte) ([]byte, error) {
	t.c.reads.Add(1)
	return t.Transaction.Get(key)
}

func (t *counted) GetAll(keys [][]byte) ([][]byte, error) {
	t.c.reads.Add(1)
	return t.Transaction.GetAll(keys)
}

func (t *counted) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	t.c.reads.Add(1)
	return t.Transaction.GetRange(r, o)
}

func (t *counted) Snapshot() kv.Reader {
	t.c.snapshots.Add(1)
	return t.Transaction.Snapshot()
}

func (t *counted) Set(key, value []byte) {
	t.c.writes.Add(1)
	t.Transaction.Set(key, value)
}

func (t *counted) Clear(key []byte) {
	t.c.writes.Add(1)
	t.Transaction.Clear(key)
}

func (t *counted) ClearRange(r kv.Range) {
	t.c.writes.Add(1)
	t.Transaction.ClearRange(r)
}

func (t *counted) Add(key []byte, delta int64) {
	t.c.writes.Add(1)
	t.Transaction.Add(key, delta)
}

func (t *counted) SetVersionstampedValue(key, value []byte) {
	t.c.writes.Add(1)
	t.Transaction.SetVersionstampedValue(key, value)
}

func (t *counted) OnError(err error) error {
	if kv.CodeOf(err) == kv.NotCommitted {
		t.c.conflicts.Add(1)
	}
	return t.Transaction.OnError(err)
}

// bench is a queue on a store that counts.
type bench struct {
	*testing.B
	db     *counter
	q      *jobs.Queue
	prefix []byte
}

// newBench is a queue on a store; round trips take so long where that can be chosen.
func newBench(b *testing.B, roundTrip time.Duration) bench {
	db, prefix := fdbtest.OpenDistant(b, roundTrip)
	q := jobs.New(jobs.KeysBelow(tuple.Subspace(prefix), "bench"))
	q.Incarnation = 1
	return bench{b, &counter{Database: db}, q, prefix}
}

func (b bench) do(f func(tx kv.Tx) error) {
	if err := kv.Do(bg, b.db, f); err != nil {
		b.Fatal(err)
	}
}

func jobID(n int) string { return fmt.Sprintf("job-%08d", n) }

// data is about as long as a replication job's record.
var data = make([]byte, 600)

func (b bench) add(from, to int) {
	for ; from < to; from += 200 {
		b.do(func(tx kv.Tx) error {
			for n := from; n < min(from+200, to); n++ {
				if err := b.q.Add(tx, jobID(n), jobs.Schedule{Priority: tuple.Pack(n)}, data); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// BenchmarkJobLifeCycle is one job from its creation to its removal, each step a transaction of its own,
// and each step by itself.
func BenchmarkJobLifeCycle(b *testing.B) {
	var lock jobs.Lock
	batch := uint64(0)
	steps := []struct {
		name string
		do   func(q *jobs.Queue, tx kv.Tx, id string) error
	}{
		{"add", func(q *jobs.Queue, tx kv.Tx, id string) error {
			return q.Add(tx, id, jobs.Schedule{Priority: tuple.Pack(1)}, data)
		}},
		{"accept", func(q *jobs.Queue, tx kv.Tx, id string) error {
			got, err := q.Accept(tx, "w", jobs.Demand{Batch: batch, Max: 1, Window: 16}, nil)
			if err == nil {
				lock = got.Jobs[0].Lock
			}
			return err
		}},
		{"heartbeat", func(q *jobs.Queue, tx kv.Tx, id string) error {
			_,
				err := q.Heartbeat(tx, "w", nil)
			return err
		}},
		{"update", func(q *jobs.Queue, tx kv.Tx, id string) error { return q.Update(tx, id, lock, data) }},
		{"finish", func(q *jobs.Queue, tx kv.Tx, id string) error {
			_,
				err := q.Finish(tx, id, lock, data)
			return err
		}},
		{"remove", func(q *jobs.Queue, tx kv.Tx, id string) error { _, err := q.Remove(tx, id); return err }},
	}
	cycle := func(n bench, only string) {
		batch++
		for _, s := range steps {
			if only != "" {
				n.db.reset()
			}
			n.do(func(tx kv.Tx) error { return s.do(n.q, tx, jobID(int(batch))) })
			if s.name == only {
				n.db.report(n.B, 1)
			}
		}
	}
	b.Run("whole", func(b *testing.B) {
		n := newBench(b, 0)
		n.do(func(tx kv.Tx) error { return n.q.Register(tx, "w", nil) })
		n.db.reset()
		for b.Loop() {
			cycle(n, "")
		}
		n.db.report(b, b.N)
	})
	for _, s := range steps {
		b.Run(s.name, func(b *testing.B) {
			n := newBench(b, 0)
			n.do(func(tx kv.Tx) error { return n.q.Register(tx, "w", nil) })
			for b.Loop() {
				cycle(n, s.name)
			}
			b.ReportMetric(0, "ns/op") // those of a whole cycle
		})
	}
}

// BenchmarkAccept measures workers that take one job each from the same queue, as often as they can. The
// window is the number of ready jobs among which they choose; a node's is 16, or
// four for each node where that is more.
func BenchmarkAccept(b *testing.B) {
	for _, c := range []struct{ acceptors, window int }{{1, 16}, {8, 16}, {8, 32}, {64, 16}, {64, 256}} {
		b.Run(fmt.Sprintf("acceptors=%d/window=%d", c.acceptors, c.window), func(b *testing.B) {
			acceptors := c.acceptors
			n := newBench(b, 2*time.Millisecond)
			n.add(0, b.N+acceptors)
			for w := range acceptors {
				n.do(func(tx kv.Tx) error { return n.q.Register(tx, fmt.Sprint("w", w), nil) })
			}
			n.db.reset()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var workers sync.WaitGroup
			for w := range acceptors {
				workers.Go(func() {
					for batch := uint64(1); left.Add(-1) >= 0; batch++ {
						d := jobs.Demand{Batch: batch, Max: 1, Window: c.window, Seed: uint64(w)<<32 | batch,
							Part: jobs.Part(1<<(jobs.Buckets/acceptors)-1) << (w * jobs.Buckets / acceptors)}
						n.do(func(tx kv.Tx) error {
							_,
								err := n.q.Accept(tx, fmt.Sprint("w", w), d, nil)
							return err
						})
					}
				})
			}
			workers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accepts/s")
			n.db.report(b, b.N)
		})
	}
}

// BenchmarkCommit measures 64 clients that write five keys of their own at a time.
func BenchmarkCommit(b *testing.B) {
	n := newBench(b, 0)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var clients sync.WaitGroup
	for c := range 64 {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				n.do(func(tx kv.Tx) error {
					for k := range 5 {
						tx.Set(fmt.Appendf(nil, "%s%d/%d", n.prefix, c, k), data[:200])
					}
					return nil
				})
			}
		})
	}
	clients.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
