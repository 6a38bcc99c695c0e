package oracle

import (
	"bytes"
	"encoding/binary"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// emptying judges the store and the nodes after the removal of the last job.
type emptying struct{ *chronicle }

var emptyingSubject = subject{
	invariants: []Invariant{
		{"S98a", "Three minutes and a poll_interval after all jobs were removed the store has no row of any of them, " +
			"and all numbers of jobs are 0."},
		{"S98b", "Three minutes and a poll_interval after all jobs were removed no node has a run, or a slot in use."},
		{"S98c", "All replication documents can be deleted, and all requests canceled, while nothing fails."},
	},
	begin: func(c *chronicle) {
		e := &emptying{c}
		c.on.emptied.add(func(struct{}) { e.checkRows(); e.checkCounters(); e.checkNodes() })
	},
}

// EmptyLimit is how long after the removal of all jobs nothing is left of them, and a poll_interval, in which
// nodes look for jobs of lifted holds.
const EmptyLimit = 3 * time.Minute

// CheckRemoved is S98c.
func (o *Oracle) CheckRemoved(err error) {
	if err != nil {
		o.Fail("S98c", "a job cannot be removed: %v", err)
	}
}

// CheckEmpty is told EmptyLimit after all jobs were removed.
func (o *Oracle) CheckEmpty() { o.on.emptied.tell(struct{}{}) }

// checkRows is S98a for the rows of single jobs.
func (e *emptying) checkRows() {
	k := e.w.Store().Keys
	for _, space := range []tuple.Subspace{
		k.Jobs.Job, k.Jobs.Ready, k.Jobs.Waiting, k.Jobs.Parked, k.Jobs.Owned, k.Jobs.Changed, k.Spec, k.Claim,
		k.Expire, k.Dropped, k.Lifted, k.Refused, k.Retry, k.Index, k.Border,
	} {
		for _, row := range e.rows(space) {
			e.Fail("S98a", "all jobs are gone, and there is the row %q: %q", row.Key, row.Value)
		}
	}
}

func (e *emptying) rows(space tuple.Subspace) []kv.KeyValue {
	rows, err := e.w.Present().GetRange(space.Range(), kv.RangeOptions{})
	if err != nil {
		e.unreadable("rows of an empty service", err)
	}
	return rows
}

// checkCounters is S98a for numbers. Those of the queue are spread over rows.
func (e *emptying) checkCounters() {
	k, sums := e.w.Store().Keys, map[string]int64{}
	for _, row := range e.rows(k.Jobs.Count) {
		state, err := k.Jobs.Count.Unpack(row.Key)
		if err != nil {
			e.unreadable("counters of the queue", err)
			return
		}
		sums[state[0].(string)] += numberIn(row.Value)
	}
	for state, n := range sums { // in any order
		if n != 0 {
			e.Fail("S98a", "all jobs are gone, and the counter of jobs that are %s is %d", state, n)
		}
	}
	for _, space := range []tuple.Subspace{k.Count, k.Weights, k.Tally} {
		for _, row := range e.rows(space) {
			if n := numberIn(row.Value); n != 0 {
				e.Fail("S98a", "all jobs are gone, and the counter %q is %d", row.Key, n)
			}
		}
	}
}

// numberIn is a number as atomic additions write it.
func numberIn(value []byte) int64 {
	return int64(binary.LittleEndian.Uint64(append(bytes.Clone(value), make([]byte, 8)...)))
}

// checkNodes is S98b.
func (e *emptying) checkNodes() {
	for _, p := range e.nodes {
		if p.Alive() && (len(p.runs) > 0 || p.Running() > 0) {
			e.Fail("S98b", "all jobs are gone, and %s has %d runs, and %d slots in use",
				p.Name, len(p.runs), p.Running())
		}
	}
}
