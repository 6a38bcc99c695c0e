package node

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// Accept takes jobs.
type Accept struct {
	Worker, Node string
	Demand       jobs.Demand
	Without      []string `eventlog:"omitzero"` // jobs that the node could not read
}

// Accepted are jobs to run, the signal of the ready queue for the worker's part, and the job that was left to
// others; see jobs.Taken.
type Accepted struct {
	Work   []jobstore.Work
	Signal int64
	Left   string
	Parked int    // ready jobs that were parked instead; there may be others behind them
	Passed string // where it ended among jobs of deleted databases; see jobs.Taken
}

func (q Accept) String() string {
	return fmt.Sprintf("accept %d as %s/%d", q.Demand.Max, q.Worker, q.Demand.Batch)
}

func (Accept) ofLease() {}

// renew leaves out the jobs that could not be read. If an attempt of the same number has taken one, the number is used
// up by now (see onOwned).
func (q Accept) renew(n *Node) Request {
	q.Without, q.Demand.Batch = n.unreadable, n.batch
	return q
}

// perform reads the signal counter from the snapshot in which it looks at the queue. A job that becomes
// ready later changes the counter, so that a node that found nothing and waits for a change is told of that
// job.
func (q Accept) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	taken, err := s.Accept(tx, q.Worker, q.Node, q.Demand, now, q.Without...)
	if err != nil {
		return nil, err
	}
	signal, err := s.Jobs.Signal(tx.Snapshot(), q.Demand.Part)
	return Accepted{Work: taken.Work, Signal: signal, Left: taken.Left, Parked: taken.Parked, Passed: taken.Passed}, err
}

func (q Accept) answered(n *Node, _ *call, e Done) { n.onAccepted(e.Result.(Accepted)) }

func (Accepted) result() {}

// Promote makes due jobs ready, and has jobs of lifted holds come back.
type Promote struct {
	// Limit is the most jobs that are moved at once, 1 or more. Each attempt has half as many as the one
	// before: a batch that is too slow for the store would fail for ever.
	Limit   int
	Without []string `eventlog:"omitzero"` // jobs that the node could not read
}

// Promoted tells how many jobs became ready and when, by the wall clock, the next one is due.
type Promoted struct {
	Moved int
	Next  instant.Time
}

func (Promote) String() string { return "promote" }

func (q Promote) renew(n *Node) Request {
	return Promote{Limit: max(1, q.Limit/2), Without: n.unreadable}
}

func (q Promote) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	moved, next, err := s.Promote(tx, now, q.Limit, q.Without...)
	return Promoted{moved, next}, err
}

func (q Promote) answered(n *Node, _ *call, e Done) { n.onPromoted(q.Limit, e.Result.(Promoted)) }

func (Promoted) result() {}

// Sweep removes jobs and rows that are not needed any more, and builds the index of a store of an earlier release; see
// jobstore.Store.Sweep and Reindex, and Gone.
type Sweep struct {
	Limit int
	// Drop is the most jobs of deleted databases that are removed at once, 1 or more. Each attempt has half as
	// many as the one before: a batch that is too large or too slow for the store would fail for ever.
	Drop    int
	Without []string `eventlog:"omitzero"` // jobs that the node could not read
	// Looks is one that it could not read until now, and may be able to. An accept finds out, too, but has to have a
	// slot for the job, and a run would give way for that.
	Looks string `eventlog:"omitzero"`
}

func (Sweep) String() string { return "sweep" }

func (q Sweep) renew(n *Node) Request {
	again := Sweep{Limit: q.Limit, Drop: max(1, q.Drop/2), Without: n.unreadable}
	if !slices.Contains(n.unreadable, n.looksAt) {
		again.Looks = n.looksAt
	}
	return again
}

func (q Sweep) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	if q.Looks != "" {
		if err := jobstore.Reads(s, tx.Snapshot(), q.Looks); err != nil {
			return nil, err
		}
	}
	if err := forget(tx, s, now); err != nil {
		return nil, err
	}
	done, err := s.Sweep(tx, now, q.Limit, q.Drop, q.Without...)
	if err != nil || !done || len(q.Without) > 0 { // the index waits until all jobs can be read
		return Progressed{done}, err
	}
	done, err = reindex(tx, s, q.Drop)
	return Progressed{done}, err
}

// reindex builds the index of an older store, once no node is left of a release that would write jobs without it.
func reindex(tx kv.Tx, s *jobstore.Store, limit int) (done bool, err error) {
	row, err := tx.Snapshot().Get(s.Keys.Reindex)
	if err != nil || row == nil {
		return err == nil, err
	}
	members, err := Members(tx.Snapshot(), s)
	if err != nil {
		return false, err
	}
	for i := range members {
		if !members[i].Info.Indexes {
			return true, nil
		}
	}
	return jobstore.Reindex(tx, s, limit)
}

func (q Sweep) answered(n *Node, c *call, e Done) {
	if !e.Result.(Progressed).Done {
		again := Sweep{Limit: q.Limit, Drop: 2 * q.Drop} // as many again
		rest := jobstore.SweepPause(n.clock.Steady.Sub(c.sent))
		n.wait(n.made(&call{req: again}), rest)
	}
}

// Survey looks at the queue: at its First ready jobs, and at where the Accounts of this worker's jobs stand. Behind is
// the place that the survey before it has Passed; see jobs.Demand.
type Survey struct {
	First    int
	Accounts []string
	Behind   string   `eventlog:"omitzero"`
	Without  []string `eventlog:"omitzero"` // jobs that the node could not read, so that none gives way to them
}

// Surveyed is the answer to a Survey. Accounts are in the order of the question. Passed is set if it looked at jobs of
// deleted databases only, and there may be others behind them.
type Surveyed struct {
	jobs.Counts
	First    []schedule.Place
	Order    schedule.Order
	Accounts []schedule.Account
	Passed   string
}

func (Survey) String() string { return "survey" }

// renew leaves out the jobs that could not be read.
func (q Survey) renew(n *Node) Request {
	q.Without = n.unreadable
	return q
}

func (q Survey) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	var seen Surveyed
	var err error
	r := tx.Snapshot()
	if seen.Counts, err = s.Jobs.Counts(r); err != nil {
		return nil, err
	}
	if seen.First, seen.Passed, err = s.Ready(r, q.First, q.Behind, q.Without...); err != nil {
		return nil, err
	}
	if len(seen.First) == 0 && q.First > 0 && seen.Passed == "" {
		// Reached: all ready jobs are of deleted databases or cannot be read, and no run gives way for them
		seen.Counts.Ready = 0
	}
	if seen.Order, err = s.Order(r); err != nil {
		return nil, err
	}
	seen.Accounts, err = s.Accounts(r, q.Accounts, seen.Order, now)
	return seen, err
}

func (q Survey) answered(n *Node, _ *call, e Done) { n.onSurveyed(q, e.Result.(Surveyed)) }

func (Surveyed) result() {}

// Charge stores how much of the worker's slots each account used.
type Charge struct{ Charges []schedule.Charge }

func (q Charge) String() string { return fmt.Sprintf("charge %v", q.Charges) }

func (q Charge) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, s.Charge(tx, q.Charges, now)
}

func (q Charge) answered(n *Node, _ *call, _ Done) { n.charged(q) }

// Tune changes the half-life of priorities; see jobstore.Store.Tune.
type Tune struct {
	Seen     schedule.Decay
	HalfLife time.Duration
}

func (q Tune) String() string { return "tune half-life to " + q.HalfLife.String() }

func (q Tune) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, s.Tune(tx, q.Seen, q.HalfLife, now)
}

// answered does nothing: the next survey reads the half-life in force, whichever node set it.
func (Tune) answered(*Node, *call, Done) {}

// EndRound begins the next round of the queue; see jobstore.Store.EndRound.
type EndRound struct{ Seen schedule.Round }

func (EndRound) String() string { return "end of a round" }

func (q EndRound) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	return Ok{}, s.EndRound(tx, q.Seen, now)
}

// answered does nothing: the next survey reads the round in force, whichever node began it.
func (EndRound) answered(*Node, *call, Done) {}
