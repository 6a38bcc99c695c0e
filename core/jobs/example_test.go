package jobs_test

import (
	"context"
	"fmt"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// A job goes from its creator to a worker and back. Every step is a function of a transaction, so that it can
// be combined with other reads and writes, which then happen together with it or not at all.
func Example() {
	ctx, db := context.Background(), fakefdb.New()
	queue := jobs.New(jobs.KeysBelow(tuple.Subspace(tuple.Pack("example")), "mail"))

	// A creator adds jobs. The lowest priority runs first.
	err := kv.Do(ctx, db, func(tx kv.Tx) error {
		if err := queue.Add(tx, "newsletter", jobs.Schedule{Priority: tuple.Pack(9)}, []byte("to all")); err != nil {
			return err
		}
		return queue.Add(tx, "invoice", jobs.Schedule{Priority: tuple.Pack(1)}, []byte("to Ann"))
	})
	fmt.Println("added:", err)

	// A worker registers under a name that no process used before, and accepts one job.
	taken, err := kv.Run(ctx, db, func(tx kv.Tx) (jobs.Taken, error) {
		if err := queue.Register(tx, "worker-1", nil); err != nil {
			return jobs.Taken{}, err
		}
		return queue.Accept(tx, "worker-1", jobs.Demand{Batch: 1, Max: 1}, nil)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := taken.Jobs[0]
	fmt.Printf("accepted: %s, %s\n", job.ID, job.Data)

	// Its lock is the right to finish the job, once.
	finish := func(tx kv.Tx) (jobs.State, error) { return queue.Finish(tx, job.ID, job.Lock, []byte("sent")) }
	state, err := kv.Run(ctx, db, finish)
	fmt.Println("finished:", state, err)
	_, err = kv.Run(ctx, db, finish)
	fmt.Println("again:", err)

	counts, err := kv.Run(ctx, db, func(tx kv.Tx) (jobs.Counts, error) { return queue.Counts(tx.Snapshot()) })
	fmt.Printf("%+v %v\n", counts, err)
	// Output:
	// added: <nil>
	// accepted: invoice, to Ann
	// finished: finished <nil>
	// again: job "invoice": job is not held by this worker any more: it was removed, replaced, finished or given back
	// {Ready:1 Waiting:0 Running:0 Finished:1 Parked:0} <nil>
}
