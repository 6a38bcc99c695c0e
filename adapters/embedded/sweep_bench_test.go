package embedded

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// BenchmarkDeletion deletes replicator databases with 1,000 documents and with many, and reports how many times as
// long the larger one takes; then, how many times as long an accept and a heartbeat take while the larger one's jobs
// are swept as before. -jobs 100000 takes a minute or two to fill.
func BenchmarkDeletion(b *testing.B) {
	few, many := newManyJobs(b, true), newManyJobs(b, true)
	defer mustClose(b, few.db)
	defer mustClose(b, many.db)
	few.add(1000)
	many.add(*listedJobs)
	first := jobs.Schedule{Priority: tuple.Pack(0)}
	do(b, many.db, func(tx kv.Tx) { // a job that belongs to no database
		if err := many.store.Jobs.Add(tx, "other", first, nil); err != nil {
			b.Fatal(err)
		}
	})
	batch := uint64(0)
	work := func() (took [2]time.Duration) { // of an accept and a heartbeat
		batch++
		start := time.Now()
		taken, err := kv.Run(bg, many.db, func(tx kv.Tx) (jobs.Taken, error) {
			return many.store.Jobs.Accept(tx, "w", jobs.Demand{Batch: batch, Max: 1, Window: 16}, nil)
		})
		took[0] = time.Since(start)
		if err != nil || len(taken.Jobs) != 1 {
			b.Fatal(len(taken.Jobs), err)
		}
		do(b, many.db, func(tx kv.Tx) {
			if err := many.store.Jobs.Requeue(tx, taken.Jobs[0].ID, taken.Jobs[0].Lock, first, nil); err != nil {
				b.Fatal(err)
			}
		})
		start = time.Now()
		do(b, many.db, func(tx kv.Tx) {
			if _, err := many.store.Jobs.Heartbeat(tx, "w", nil); err != nil {
				b.Fatal(err)
			}
		})
		took[1] = time.Since(start)
		return took
	}
	for b.Loop() {
		var calm, swept [2][]time.Duration
		for n := range 400 { // the first ones warm the store up
			for i, d := range work() {
				if n >= 200 {
					calm[i] = append(calm[i], d)
				}
			}
		}
		b.ReportMetric(float64(many.drop())/float64(few.drop()), "delete-of-1000")
		over := make(chan error, 1)
		start := time.Now()
		go func() { over <- many.sweep() }()
		for len(over) == 0 {
			for i, d := range work() {
				swept[i] = append(swept[i], d)
			}
		}
		if err := <-over; err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(many.made)/time.Since(start).Seconds(), "swept/s")
		for i, what := range []string{"accept", "heartbeat"} {
			b.ReportMetric(ratio(swept[i], calm[i], 50), what+"-in-sweep")
			b.ReportMetric(ratio(swept[i], calm[i], 95), what+"-p95-in-sweep")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// drop deletes the database.
func (m *manyJobs) drop() time.Duration {
	start := time.Now()
	do(m.b, m.db, func(tx kv.Tx) {
		m.store.Drop(tx, tuple.UUID{1})
		if err := m.store.Docs.Delete(tx, "_replicator", tuple.UUID{1}); err != nil {
			m.b.Fatal(err)
		}
	})
	return time.Since(start)
}

// sweep removes the jobs of the database as a service does.
func (m *manyJobs) sweep() error {
	for {
		began := time.Now()
		done, err := kv.RunWith(bg, m.db, kv.Options{Priority: kv.PriorityBatch}, func(tx kv.Tx) (bool, error) {
			return m.store.SweepDropped(tx, jobstore.DropLimit)
		})
		if done || err != nil {
			return err
		}
		time.Sleep(jobstore.SweepPause(time.Since(began)))
	}
}

// ratio compares percentiles of two lists.
func ratio(a, b []time.Duration, percent int) float64 {
	slices.Sort(a)
	slices.Sort(b)
	return float64(a[len(a)*percent/100]) / float64(b[len(b)*percent/100])
}
