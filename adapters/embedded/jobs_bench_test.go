package embedded

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// BenchmarkJobs measures the steps of a job's life, a hundred jobs side by side for each step as nodes have them:
// adds 200 in a transaction, as a bulk write does, the others one each by 16 at a time. It reports how much longer a
// step takes with sequences of changes than without, from the quickest of several rounds, which take turns.
func BenchmarkJobs(b *testing.B) {
	type queue struct {
		db   *Database
		jobs *jobs.Queue
		held []jobs.Held
	}
	const perRound, atOnce, size = 1600, 16, 1000
	var queues [2]queue
	for i := range queues {
		db := mustOpen(b, b.TempDir(), Options{})
		defer mustClose(b, db)
		queues[i] = queue{db: db, jobs: jobs.New(jobs.KeysBelow(tuple.Subspace("bench"), "kind"))}
		queues[i].jobs.Incarnation = int64(i)
		if err := kv.Do(bg, db, func(tx kv.Tx) error { return queues[i].jobs.Register(tx, "w", nil) }); err != nil {
			b.Fatal(err)
		}
	}
	batch := uint64(0)
	data := make([]byte, size)
	steps := []struct {
		name string
		do   func(q *queue, round int) time.Duration
	}{
		{"add", func(q *queue, round int) time.Duration {
			next := 0
			return race(b, 1, perRound/200, func() error {
				next += 200
				return kv.Do(bg, q.db, func(tx kv.Tx) error {
					for i := next - 200; i < next; i++ {
						at := jobs.Schedule{Priority: tuple.Pack(round, i)}
						if err := q.jobs.Add(tx, fmt.Sprintf("job %d %d", round, i), at, data); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}},
		{"accept", func(q *queue, _ int) time.Duration {
			q.held = nil
			return race(b, 1, perRound/16, func() error {
				batch++
				taken, err := kv.Run(bg, q.db, func(tx kv.Tx) (jobs.Taken, error) {
					return q.jobs.Accept(tx, "w", jobs.Demand{Batch: batch, Max: 16, Window: 16}, nil)
				})
				for _, j := range taken.Jobs {
					q.held = append(q.held, jobs.Held{ID: j.ID, Lock: j.Lock})
				}
				return err
			})
		}},
		{"update", func(q *queue, _ int) time.Duration {
			return each(b, q.held, atOnce, func(h jobs.Held) error {
				return kv.Do(bg, q.db, func(tx kv.Tx) error { return q.jobs.Update(tx, h.ID, h.Lock, data) })
			})
		}},
		{"finish", func(q *queue, _ int) time.Duration {
			return each(b, q.held, atOnce, func(h jobs.Held) error {
				return kv.Do(bg, q.db, func(tx kv.Tx) error {
					_, err := q.jobs.Finish(tx, h.ID, h.Lock, data)
					return err
				})
			})
		}},
	}
	var took [2]map[string][]time.Duration
	took[0], took[1] = map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := 0; b.Loop(); round++ {
		for i := range queues {
			i = (i + round) % 2
			for _, s := range steps {
				took[i][s.name] = append(took[i][s.name], s.do(&queues[i], round))
			}
		}
	}
	for _, s := range steps {
		without, with := took[0][s.name], took[1][s.name]
		b.ReportMetric(float64(shortest(with))/float64(shortest(without)), s.name+"-with-sequences")
		b.ReportMetric(perRound/shortest(with).Seconds(), s.name+"s/s")
	}
	b.ReportMetric(0, "ns/op")
}

func shortest(list []time.Duration) time.Duration {
	best := list[0]
	for _, d := range list {
		best = min(best, d)
	}
	return best
}

// each does something with all jobs, some at once, and returns how long it took.
func each(b *testing.B, held []jobs.Held, atOnce int, f func(jobs.Held) error) time.Duration {
	todo := make(chan jobs.Held, len(held))
	for _, h := range held {
		todo <- h
	}
	return race(b, atOnce, len(held), func() error { return f(<-todo) })
}
