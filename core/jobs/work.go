package jobs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/prng"
)

// Demand is how many jobs a worker wants and how they are chosen.
type Demand struct {
	// Batch numbers the accepts of a worker and becomes a part of their locks. The worker repeats an accept
	// under the same number until it returns jobs, and counts up then: so an accept that committed though
	// its answer was lost is recognised, and returns the jobs that it took.
	Batch uint64
	// Max is the number of jobs wanted, 1 or more.
	Max int
	// Look is how many jobs to judge at most until Max are taken; at least Max are. Those that the judge parks are not
	// taken, so a worker with one free slot would park one job with each accept.
	Look int `eventlog:"omitzero"`
	// Window is how many of the first ready jobs to choose among. It bounds the priority inversion. At least
	// Max, and Look, are looked at.
	Window int
	// Seed decides the choice among jobs beside Part. It is a part of the request, so that every attempt
	// chooses alike from the same queue.
	Seed uint64
	// Part is the jobs that the worker takes first, in their order. Other acceptors have other parts.
	Part Part
	// Yield has the worker leave the jobs beside Part to the others, for they have free slots, unless the
	// first of these jobs is still Left: then the others do not take them. Otherwise the worker fills up with
	// jobs beside Part, chosen at random, so that acceptors which do the same rarely conflict.
	Yield bool
	Left  string // what the worker's accept before left to others, empty for none; see Queue.Accept
	// MaxPriority, if not empty, is the last priority that is taken, as the bytes of its tuple; jobs behind it are
	// not looked at. Where a priority is a time, an accept up to now leaves the jobs of later. The first elements
	// of a priority stand for all that begin with them.
	MaxPriority string
	// Behind, if not empty, has the accept look behind a place that an accept before it has Passed.
	Behind string `eventlog:"omitzero"`
}

// within is where in the ready queue the jobs stand that may be taken.
func (d Demand) within(ready tuple.Subspace) kv.Range {
	all := ready.Range()
	if len(d.MaxPriority) > 0 { // elements begin with bytes below 0xff
		all.End = append(append(ready.Begin(len(d.MaxPriority)+1), d.MaxPriority...), 0xff)
	}
	if d.Behind != "" {
		all.Begin = kv.KeyAfter(append(ready.Begin(len(d.Behind)), d.Behind...))
	}
	return all
}

// Taken is the result of an accept.
type Taken struct {
	Jobs []*Job
	// Left is the first job that was left to other workers, empty for none; see Demand.Yield.
	Left string
	// Parked is how many ready jobs went into lots instead of being taken. There may be more ready jobs behind
	// those that were looked at.
	Parked int
	// Passed is set if the accept found nothing but jobs that it passed over, MaxPassed of them, and looked no
	// further: behind this place there may be others; see Demand.Behind.
	Passed string
}

// Judge decides which jobs an accept takes.
type Judge interface {
	// Passes has the accept leave a job where it is, unread, and look at the next ones instead, for the job is about to
	// be removed, or could not be read.
	Passes(id string) bool
	// Judge is asked about each job that the accept is about to take, which it sees as if it were taken.
	Judge(*Job) (Verdict, error)
}

// MaxPassed is about how many ready jobs an accept passes over.
const MaxPassed = 1000

// Verdict is what becomes of a job that an accept is about to take.
type Verdict struct {
	Lot  string // parks the job instead; empty takes it
	Full bool   // the transaction has enough jobs
}

// Accept gives the worker up to d.Max ready jobs, under a lock of the worker and d.Batch. It fails with
// ErrLeaseLost without a live lease, and with an UnreadableError if a job that it would take cannot be read, which the
// judge of the next one may pass over. judge may be nil.
//
// What it reads decides what it conflicts with: the lease, so that no expired worker accepts; its own rows
// under this number, so that of two attempts of one accept only one takes jobs, and a repetition returns
// what the first one took, whole; and the headers of the jobs that it takes, so that no two workers take
// the same one. It looks at the queue through a snapshot, or every job that is added would conflict with
// every accept.
func (q *Queue) Accept(
	tx kv.Tx, worker string, d Demand, judge Judge,
) (t Taken, err error) {
	if err := q.Keys.CheckLease(tx, worker); err != nil {
		return t, err
	}
	taken, err := tx.GetRange(q.Keys.Owned.Sub(worker, d.Batch).Range(), kv.RangeOptions{})
	if err != nil {
		return t, err
	}
	if len(taken) > 0 {
		// Reached: an accept is repeated that had committed
		t.Jobs, err = q.acceptedBefore(tx, taken)
		return t, err
	}
	var passes func(string) bool
	if judge != nil {
		passes = judge.Passes
	}
	rows, passed, err := q.Keys.firstReady(tx.Snapshot(), d.within(q.Keys.Ready), max(d.Max, d.Look, d.Window), passes)
	if err != nil {
		return t, err
	}
	chosen, left := d.choose(rows)
	t.Left, t.Passed = left, passed
	for n, id := range chosen {
		if n%atOnce == 0 {
			q.Keys.prefetch(tx, chosen[n:], q.Along)
		}
		old, err := q.Get(tx, id)
		if err != nil {
			return t, OfJob(id, err)
		}
		if old == nil || !old.Ready() {
			return t, OfJob(id, corruptf("ready row of job %q contradicts its header", id))
		}
		to := *old
		to.State, to.Resubmit, to.Lock = Running, false, Lock{Worker: worker, Batch: d.Batch}
		var v Verdict
		if judge != nil {
			if v, err = judge.Judge(&to); err != nil {
				return t, OfJob(id, err)
			}
		}
		if v.Lot != "" {
			to.State, to.Lot, to.Lock = Pending, v.Lot, Lock{}
			t.Parked++
		} else {
			to.Label = ""
			t.Jobs = append(t.Jobs, &to)
		}
		if q.move(tx, old, &to); v.Full || len(t.Jobs) == d.Max {
			break
		}
	}
	return t, nil
}

// firstReady reads up to n rows of the ready queue, and leaves out those of jobs that it passes over. If it found no
// other and looked no further, since it passed over MaxPassed of these, it returns how far it came.
func (k Keys) firstReady(
	r kv.Reader, at kv.Range, n int, passes func(id string) bool,
) (rows []kv.KeyValue, upTo string, err error) {
	for passed, limit := 0, n; bytes.Compare(at.Begin, at.End) < 0; limit = MaxPassed {
		page, err := r.GetRange(at, kv.RangeOptions{Limit: limit})
		if err != nil {
			return nil, "", err
		}
		for _, row := range page {
			switch {
			case passes != nil && passes(string(row.Value)):
				// Reached: a ready job of a deleted database is left to the sweep
				passed++
			case len(rows) < n:
				rows = append(rows, row)
			}
		}
		if len(page) < limit || len(rows) == n || len(rows) > 0 && passed >= MaxPassed {
			break
		}
		last := page[len(page)-1].Key
		if passed >= MaxPassed {
			return nil, string(last[len(k.Ready):]), nil
		}
		at.Begin = kv.KeyAfter(last)
	}
	return rows, "", nil
}

// choose picks jobs of rows of the ready queue, as many as may be judged, and the first one that it leaves to others.
func (d Demand) choose(rows []kv.KeyValue) (chosen []string, left string) {
	var beside []string
	look := max(d.Max, d.Look)
	for _, row := range rows {
		id := string(row.Value)
		if !d.Part.Has(id) {
			beside = append(beside, id)
		} else if len(chosen) < look {
			chosen = append(chosen, id)
		}
	}
	switch {
	case len(beside) == 0 || len(chosen) >= d.Max:
		return chosen, ""
	case d.Yield && beside[0] != d.Left:
		return chosen, beside[0]
	}
	source := prng.New(d.Seed)
	some := source.Sample(len(beside), look-len(chosen))
	slices.Sort(some)
	for _, i := range some {
		chosen = append(chosen, beside[i])
	}
	return chosen, ""
}

// Head reads the priorities of the first n ready jobs, or of the last ones from the end. Give a snapshot reader,
// for the head of the queue changes all the time.
func (q *Queue) Head(r kv.Reader, n int, fromEnd bool) ([][]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	rows, err := r.GetRange(q.Keys.Ready.Range(), kv.RangeOptions{Limit: n, Reverse: fromEnd})
	if err != nil {
		return nil, err
	}
	return q.Keys.priorities(rows), nil
}

// First is Head for jobs that an accept would not pass over; see Judge. It looks behind a place as an accept does, and
// tells how far it came if it passed over all; see Demand.Behind and Taken.Passed.
func (k Keys) First(
	r kv.Reader, n int, behind string, passes func(id string) bool,
) (list [][]byte, passed string, err error) {
	if n <= 0 {
		return nil, "", nil
	}
	rows, passed, err := k.firstReady(r, Demand{Behind: behind}.within(k.Ready), n, passes)
	return k.priorities(rows), passed, err
}

// priorities are those of rows of the ready queue.
func (k Keys) priorities(rows []kv.KeyValue) [][]byte {
	list := make([][]byte, 0, len(rows))
	for _, row := range rows {
		id := tuple.AppendString(nil, string(row.Value))
		list = append(list, bytes.TrimSuffix(bytes.TrimPrefix(row.Key, k.Ready), id))
	}
	return list
}

// acceptedBefore reads the jobs of an accept that turns out to have committed, in the order of the queue. The accept
// itself would have returned those of the worker's part first.
func (q *Queue) acceptedBefore(tx kv.Tx, owned []kv.KeyValue) ([]*Job, error) {
	ids, locks := make([]string, len(owned)), make([]Lock, len(owned))
	for i, row := range owned {
		var err error
		if locks[i], ids[i], err = q.Keys.scanOwned(row.Key); err != nil {
			return nil, err
		}
	}
	list := make([]*Job, 0, len(owned))
	for i, id := range ids {
		if i%atOnce == 0 {
			q.Keys.prefetch(tx, ids[i:], q.Along)
		}
		j, err := q.Get(tx, id)
		if err == nil && (j == nil || j.Lock != locks[i]) {
			err = corruptf("owned row of job %q contradicts its header", id)
		}
		if err != nil {
			return nil, OfJob(id, err)
		}
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *Job) int {
		return cmp.Or(bytes.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// held reads the header of a job and fails with ErrCanceled or ErrWorkerConflict unless it runs under lock.
// This is the fence of RFC 007's "Mutual Exclusion": the header is read so that the transaction conflicts
// with whatever takes the job away.
func (q *Queue) held(tx kv.Tx, id string, lock Lock) (*Job, error) {
	j, err := q.header(tx, id)
	if err != nil {
		return nil, err
	}
	return j, q.Keys.fence(tx, id, j, lock)
}

// GetHeld reads a job with its data and fails with ErrCanceled or ErrWorkerConflict unless it runs under
// lock.
func (q *Queue) GetHeld(tx kv.Tx, id string, lock Lock) (*Job, error) {
	j, err := q.Get(tx, id)
	if err != nil {
		return nil, err
	}
	return j, q.Keys.fence(tx, id, j, lock)
}

// fence tells a worker why it does not hold a job, if it does not. While the lease of a worker is live,
// its jobs are taken by nothing but users and the worker itself.
func (k Keys) fence(tx kv.Tx, id string, j *Job, lock Lock) error {
	if j != nil && j.State == Running && j.Lock == lock {
		return nil
	}
	why := ErrCanceled
	if j != nil && j.State != Finished {
		switch err := k.CheckLease(tx, lock.Worker); {
		case errors.Is(err, ErrLeaseLost):
			// Reached: a worker that was expired writes for a job that was taken from it
			why = ErrWorkerConflict
		case err != nil:
			return err
		}
	}
	return fmt.Errorf("job %q: %w", id, why)
}

// Update replaces the data of a running job. Other writes of the worker in the same transaction happen
// under the lock, too, or not at all.
func (q *Queue) Update(tx kv.Tx, id string, lock Lock, data []byte) error {
	if _, err := q.held(tx, id, lock); err != nil {
		return err
	}
	q.setData(tx, id, data)
	return nil
}

// Absolve sets the count of workers that vanished with the job back to 0, once it has run for long enough.
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

// Finish ends a run and replaces the job's data. The job is finished, or pending again if it was
// resubmitted while it ran; its state is returned.
func (q *Queue) Finish(tx kv.Tx, id string, lock Lock, data []byte) (State, error) {
	old, err := q.held(tx, id, lock)
	if err != nil {
		return 0, err
	}
	to := *old
	to.State, to.Lock, to.Resubmit, to.Stop, to.Lost = Finished, Lock{}, false, false, 0
	if old.Resubmit {
		to.State = Pending
	}
	q.setData(tx, id, data)
	q.move(tx, old, &to)
	return to.State, nil
}

// Requeue ends a run, replaces the job's data and makes the job pending by s. A resubmission is forgotten:
// the job is queued anyway.
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
