package embedded

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/kv"

	"github.com/cockroachdb/pebble/v2"
)

// benchKeys is the number of keys in one commit, benchValue their size in bytes; a change of a job is like
// that.
const (
	benchKeys  = 5
	benchValue = 200
)

// BenchmarkCommit measures durable commits of five keys each by a number of committers. It also reports the
// ratio to plain Pebble batches that are written and synced in the same way.
func BenchmarkCommit(b *testing.B) {
	for _, committers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(committers), func(b *testing.B) {
			db := mustOpen(b, b.TempDir(), Options{})
			defer mustClose(b, db)
			plain, err := pebble.Open(b.TempDir(),
				&pebble.Options{Logger: pebbleLog{newFailure(quiet)}, MemTableSize: 16 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer plain.Close()
			var next atomic.Int64
			value := make([]byte, benchValue)
			each := func(f func(n int64) error) time.Duration {
				return race(b, committers, b.N, func() error { return f(next.Add(1)) })
			}
			b.ResetTimer()
			ours := each(func(n int64) error { return commitStore(db, n, value) })
			b.StopTimer()
			theirs := each(func(n int64) error { return commitPlain(plain, n, value) })
			b.ReportMetric(float64(b.N)/ours.Seconds(), "commits/s")
			b.ReportMetric(float64(theirs)/float64(ours), "of-plain")
		})
	}
}

// race has goroutines do n things and returns how long it took.
func race(b *testing.B, goroutines, n int, f func() error) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	start := time.Now()
	for range goroutines {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

func benchKey(n int64, i int) []byte {
	return fmt.Appendf(nil, "jobs/%08x/%d", uint32(n)*2654435761, i)
}

func commitStore(db *Database, n int64, value []byte) error {
	return kv.Do(bg, db, func(tx kv.Tx) error {
		if _, err := tx.Get(benchKey(n, 0)); err != nil {
			return err
		}
		for i := range benchKeys {
			tx.Set(benchKey(n, i), value)
		}
		return nil
	})
}

func commitPlain(db *pebble.DB, n int64, value []byte) error {
	batch := db.NewBatch()
	defer batch.Close()
	for i := range benchKeys {
		if err := batch.Set(benchKey(n, i), value, nil); err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

// BenchmarkQueueHead reads the first 16 jobs of a queue from whose head 100,000 were taken, and of a queue
// from which none was taken.
func BenchmarkQueueHead(b *testing.B) {
	db := mustOpen(b, b.TempDir(), Options{})
	defer mustClose(b, db)
	const popped, live = 100_000, 1000
	fill := func(queue string, from, to int) {
		for ; from < to; from += 1000 {
			do(b, db, func(tx kv.Tx) {
				for i := range 1000 {
					tx.Set(fmt.Appendf(nil, "%s/%08d", queue, from+i), make([]byte, 50))
				}
			})
		}
	}
	fill("popped", 0, popped+live)
	fill("fresh", 0, live)
	for from := 0; from < popped; from += 10 {
		do(b, db, func(tx kv.Tx) {
			for i := range 10 {
				tx.Clear(fmt.Appendf(nil, "popped/%08d", from+i))
			}
		})
	}
	head := func(queue string) time.Duration {
		start := time.Now()
		n, err := kv.Run(bg, db, func(tx kv.Tx) (int, error) {
			jobs, err := tx.Snapshot().GetRange(kv.PrefixRange([]byte(queue+"/")), kv.RangeOptions{Limit: 16})
			return len(jobs), err
		})
		if err != nil || n != 16 {
			b.Fatal(n, err)
		}
		return time.Since(start)
	}
	for _, queue := range []string{"popped", "fresh"} {
		b.Run(queue, func(b *testing.B) {
			for b.Loop() {
				head(queue)
			}
		})
		b.Run(queue+"-unaided", func(b *testing.B) {
			for b.Loop() {
				db.mu.Lock()
				db.gaps = gaps{}
				db.mu.Unlock()
				head(queue)
			}
		})
	}
	b.Run("popping", func(b *testing.B) { // one more is taken before each read
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			fill("popped", popped+live+i*1000, popped+live+i*1000+1000)
			do(b, db, func(tx kv.Tx) {
				jobs, err := tx.GetRange(kv.PrefixRange([]byte("popped/")), kv.RangeOptions{Limit: 1000})
				if err != nil {
					b.Fatal(err)
				}
				for _, j := range jobs {
					tx.Clear(j.Key)
				}
			})
			b.StartTimer()
			head("popped")
		}
	})
}
