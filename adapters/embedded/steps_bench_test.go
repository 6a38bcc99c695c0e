package embedded

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// BenchmarkSteps measures accepts of 16 jobs, updates and ends of jobs of replications, and reports how much longer
// each takes with indexes than without, from the quickest of several rounds. A third of the jobs in the store are over
// already.
func BenchmarkSteps(b *testing.B) {
	const perRound, atOnce = 400, 16
	now := instant.Seconds(1_700_000_000)
	var stores [2]*manyJobs
	var took [2]map[string][]time.Duration
	for i := range stores {
		stores[i], took[i] = newManyJobs(b, i == 1), map[string][]time.Duration{}
		defer mustClose(b, stores[i].db)
	}
	batch := uint64(0)
	for round := 0; b.Loop(); round++ {
		for i := range stores {
			i = (i + round) % 2 // they take turns in being first
			m := stores[i]
			m.add(perRound)
			var work []jobstore.Work
			took[i]["accept"] = append(took[i]["accept"], race(b, 1, perRound/2/atOnce, func() error {
				batch++
				taken, err := kv.Run(bg, m.db, func(tx kv.Tx) (jobstore.Taken, error) {
					d := jobs.Demand{Batch: batch, Max: atOnce, Window: atOnce}
					return m.store.Accept(tx, "w", "n", d, now)
				})
				work = append(work, taken.Work...)
				return err
			}))
			todo := make(chan jobstore.Work, 2*len(work))
			for range 2 {
				for _, w := range work {
					todo <- w
				}
			}
			step := func(name string, f func(o jobstore.Owned) error) {
				took[i][name] = append(took[i][name], race(b, atOnce, len(work), func() error {
					w := <-todo
					return kv.Do(bg, m.db, func(tx kv.Tx) error { return f(m.store.Owned(tx, w.JobID, w.Lock, now)) })
				}))
			}
			step("update", func(o jobstore.Owned) error { return o.Progress(jobstore.Stats{}) })
			step("finish", func(o jobstore.Owned) error { return o.Complete(replication.End{}, jobstore.Turn{}) })
		}
	}
	for _, name := range []string{"accept", "update", "finish"} {
		b.ReportMetric(float64(shortest(took[1][name]))/float64(shortest(took[0][name])), name+"-with-indexes")
		b.ReportMetric(float64(shortest(took[1][name]).Microseconds()), name+"-us")
	}
	b.ReportMetric(0, "ns/op")
}
