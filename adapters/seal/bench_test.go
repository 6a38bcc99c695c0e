package seal_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/seal"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// BenchmarkSealed measures the steps of a job's life as nodes have them, adds of 100 and accepts of 16 in a
// transaction, updates and ends one each by 16 at a time. It reports how much longer each takes with data that is
// sealed, from the quickest of several rounds, which take turns.
func BenchmarkSealed(b *testing.B) {
	var queues [2]*benched
	for i := range queues {
		below, err := embedded.Open(b.TempDir(), embedded.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer below.Close()
		queues[i] = &benched{b: b, db: below, took: map[string]time.Duration{},
			queue: jobs.New(jobs.KeysBelow(root.Sub("jobs"), "replication"))}
		if i == 1 {
			sealed := seal.New(below, seal.ServiceRows(root))
			sealed.Ring.Set("bench.key", []seal.Key{seal.NewKey()}, true)
			queues[i].db = sealed
		}
		queues[i].do(func(tx kv.Tx) error { return queues[i].queue.Register(tx, "w", nil) })
	}
	for round := 0; b.Loop(); round++ {
		queues[round%2].live(round)
		queues[(round+1)%2].live(round)
	}
	for _, step := range []string{"add", "accept", "update", "finish"} {
		b.ReportMetric(float64(queues[1].took[step])/float64(queues[0].took[step]), step+"-with-seal")
	}
	b.ReportMetric(0, "ns/op")
}

// benched is a queue that is measured.
type benched struct {
	b     *testing.B
	db    kv.Database
	queue *jobs.Queue
	batch uint64
	took  map[string]time.Duration // the quickest
}

func (q *benched) do(f func(kv.Tx) error) {
	if err := kv.Do(context.Background(), q.db, f); err != nil {
		q.b.Error(err)
	}
}

func (q *benched) measure(step string, f func()) {
	began := time.Now()
	f()
	if took := time.Since(began); q.took[step] == 0 || took < q.took[step] {
		q.took[step] = took
	}
}

// live leads jobs through their lives.
func (q *benched) live(round int) {
	const all = 800
	data := make([]byte, 1000)
	q.measure("add", func() {
		for from := 0; from < all; from += 100 {
			q.do(func(tx kv.Tx) error {
				for i := from; i < from+100; i++ {
					at := jobs.Schedule{Priority: tuple.Pack(round, i)}
					if err := q.queue.Add(tx, fmt.Sprintf("job %d %d", round, i), at, data); err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
	var held []jobs.Held
	q.measure("accept", func() {
		for range all / 16 {
			q.batch++
			var taken jobs.Taken
			q.do(func(tx kv.Tx) (err error) {
				taken, err = q.queue.Accept(tx, "w", jobs.Demand{Batch: q.batch, Max: 16, Window: 16}, nil)
				return err
			})
			for _, j := range taken.Jobs {
				held = append(held, jobs.Held{ID: j.ID, Lock: j.Lock})
			}
		}
	})
	q.measure("update", func() {
		q.each(held, func(tx kv.Tx, h jobs.Held) error { return q.queue.Update(tx, h.ID, h.Lock, data) })
	})
	q.measure("finish", func() {
		q.each(held, func(tx kv.Tx, h jobs.Held) error {
			_, err := q.queue.Finish(tx, h.ID, h.Lock, data)
			return err
		})
	})
}

// each does something with each job, some at once.
func (q *benched) each(held []jobs.Held, f func(kv.Tx, jobs.Held) error) {
	var wait sync.WaitGroup
	for part := range 16 {
		wait.Go(func() {
			for i := part; i < len(held); i += 16 {
				q.do(func(tx kv.Tx) error { return f(tx, held[i]) })
			}
		})
	}
	wait.Wait()
}
