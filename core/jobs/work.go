package jobs

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/prng"
)

// Demand says how many jobs a worker wants and how it picks them.
type Demand struct {
	// Batch numbers the accepts of a worker. Repeating an accept with the same number returns the jobs
	// that it took when it committed after all.
	Batch uint64
	// Max is the number of jobs wanted.
	Max int
	// Window is how many of the first ready jobs to choose among, at random: acceptors on other nodes
	// then rarely want the same. It bounds the priority inversion. At least Max are looked at.
	Window int
	// Seed decides the choice.
	Seed uint64
}

// Accept gives the worker up to d.Max ready jobs. Only the jobs that it takes can make it conflict.
// Without a live lease it fails with ErrLeaseLost. enough, if given, is asked after each job that is taken whether
// the transaction has enough of them; one at least is taken, and what a repeated accept had taken it returns whole.
func (q *Queue) Accept(tx kv.Tx, worker string, d Demand, enough func(*Job) (bool, error)) ([]*Job, error) {
	if err := q.checkLease(tx, worker); err != nil {
		return nil, err
	}
	taken, err := tx.GetRange(q.Keys.Owned.Sub(worker, d.Batch).Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	if len(taken) > 0 {
		// Reached: an accept is repeated that had committed
		return q.acceptedBefore(tx, taken)
	}
	rows, err := tx.Snapshot().GetRange(q.Keys.Ready.Range(), kv.RangeOptions{Limit: max(d.Max, d.Window)})
	if err != nil {
		return nil, err
	}
	source := prng.New(d.Seed)
	chosen := source.Sample(len(rows), d.Max)
	slices.Sort(chosen)
	accepted := make([]*Job, 0, len(chosen))
	for _, i := range chosen {
		id := string(rows[i].Value)
		old, err := q.Get(tx, id)
		if err != nil {
			return nil, err
		}
		if old == nil || !old.Ready() {
			return nil, corruptf("ready row of job %q contradicts its header", id)
		}
		to := *old
		to.State, to.Resubmit, to.Lock = Running, false, Lock{Worker: worker, Batch: d.Batch}
		q.move(tx, old, &to)
		accepted = append(accepted, &to)
		if enough == nil {
			continue
		}
		if full, err := enough(&to); full || err != nil {
			return accepted, err
		}
	}
	return accepted, nil
}

// Head reads the priorities of the first n ready jobs. Give a snapshot reader.
func (q *Queue) Head(r kv.Reader, n int) ([][]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	rows, err := r.GetRange(q.Keys.Ready.Range(), kv.RangeOptions{Limit: n})
	if err != nil {
		return nil, err
	}
	list := make([][]byte, 0, len(rows))
	for _, row := range rows {
		id := tuple.AppendString(nil, string(row.Value))
		list = append(list, bytes.TrimSuffix(bytes.TrimPrefix(row.Key, q.Keys.Ready), id))
	}
	return list, nil
}

// acceptedBefore reads the jobs of an accept that turns out to have committed, most urgent first as
// the accept itself would have returned them.
func (q *Queue) acceptedBefore(tx kv.Tx, owned []kv.KeyValue) ([]*Job, error) {
	list := make([]*Job, 0, len(owned))
	for _, row := range owned {
		_, id, err := q.scanOwned(row.Key)
		if err != nil {
			return nil, err
		}
		j, err := q.Get(tx, id)
		if err != nil {
			return nil, err
		}
		if j == nil {
			return nil, corruptf("owned row of job %q without its header", id)
		}
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *Job) int {
		return cmp.Or(bytes.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// held reads the header of a job and checks that lock still holds it.
func (q *Queue) held(tx kv.Tx, id string, lock Lock) (*Job, error) {
	j, err := q.header(tx, id)
	if err != nil {
		return nil, err
	}
	if j == nil || j.State != Running || j.Lock != lock {
		return nil, fmt.Errorf("job %q: %w", id, ErrHalt)
	}
	return j, nil
}

// Update replaces the data of a running job. Whoever holds the lock may call it together with other
// writes in tx: they all happen under the lock or not at all.
func (q *Queue) Update(tx kv.Tx, id string, lock Lock, data []byte) error {
	if _, err := q.held(tx, id, lock); err != nil {
		return err
	}
	q.setData(tx, id, data)
	return nil
}

// Absolve forgets the workers that vanished while they ran the job: it has run long enough now.
func (q *Queue) Absolve(tx kv.Tx, id string, lock Lock) error {
	old, err := q.held(tx, id, lock)
	if err != nil || old.Lost == 0 {
		return err
	}
	to := *old
	to.Lost = 0
	q.move(tx, old, &to)
	return nil
}

// Finish ends a run and replaces the job's data. The job is finished, or pending again when it was
// resubmitted meanwhile; the state is returned.
func (q *Queue) Finish(tx kv.Tx, id string, lock Lock, data []byte) (State, error) {
	old, err := q.held(tx, id, lock)
	if err != nil {
		return 0, err
	}
	to := *old
	to.State, to.Lock, to.Resubmit, to.Lost = Finished, Lock{}, false, 0
	if old.Resubmit {
		to.State = Pending
	}
	q.setData(tx, id, data)
	q.move(tx, old, &to)
	return to.State, nil
}

// Requeue ends a run, replaces the job's data and makes it pending by s.
func (q *Queue) Requeue(tx kv.Tx, id string, lock Lock, s Schedule, data []byte) error {
	old, err := q.held(tx, id, lock)
	if err != nil {
		return err
	}
	q.setData(tx, id, data)
	q.move(tx, old, &Job{ID: id, State: Pending, Schedule: s})
	return nil
}

func corrupt(err error) error { return fmt.Errorf("%w: %w", ErrCorrupt, err) }

func corruptf(format string, args ...any) error { return corrupt(fmt.Errorf(format, args...)) }
