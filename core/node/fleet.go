package node

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/schedule"
)

// fleet is the nodes that take jobs, this one among them, as they last told each other. Each has a part of
// all jobs, which it takes first. All nodes compute the parts from the same heartbeats, so their views agree
// but for moments, in which two nodes want the same job or none does; the store decides the former, and
// patience the latter.
type fleet struct {
	loads []schedule.Load // in the order of the workers' names
	parts []uint64        // of each; see schedule.Parts
	me    int             // this node's place in loads
}

// fleet is the nodes that take jobs by the last look at the leases.
func (n *Node) fleet() fleet {
	f := fleet{}
	for _, o := range n.others {
		if !o.info.accepts() || o.gone || n.wasOwn(o.worker) {
			continue
		}
		if o.worker < n.worker {
			f.me++
		}
		f.loads = append(f.loads, o.info.load(o.worker))
	}
	f.loads = slices.Insert(f.loads, f.me, n.published.load(n.worker))
	f.parts = n.division.Parts(f.loads)
	return f
}

// regroup has the node look for jobs if its part is another one than that for which it waits, or if a job that
// it spared for others is its own by now.
func (i *intake) regroup(waits bool, f fleet) {
	moved := waits && !i.awaited.Covers(f.own())
	own := i.spared.job != "" && f.own().Has(i.spared.job)
	i.hungry = i.hungry || moved || own
}

// load is what a node tells of its slots.
func (i *Info) load(worker string) schedule.Load {
	return schedule.Load{Name: worker, MaxJobs: i.MaxJobs, Running: i.Running}
}

// alone reports whether no other node takes jobs.
func (f fleet) alone() bool { return len(f.loads) == 1 }

// own is the part of this node.
func (f fleet) own() jobs.Part { return jobs.Part(f.parts[f.me]) }

// owner is the node whose part a job is in.
func (f fleet) owner(jobID string) int {
	return slices.IndexFunc(f.parts, func(p uint64) bool { return jobs.Part(p).Has(jobID) })
}

// othersFree reports whether another node has free slots.
func (f fleet) othersFree() bool {
	for i, l := range f.loads {
		if i != f.me && l.Free() > 0 {
			return true
		}
	}
	return false
}

// spared is a job that the node left to the one whose part it is in.
type spared struct {
	job string       // empty for none
	due instant.Time // when the others have had the time to take it; Never once that has passed
}

const (
	// patience is how long ready jobs are left to the nodes whose parts they are in, while these have free
	// slots. It is longer than the time in which a node that was woken takes its jobs, and is the price for a
	// node that vanished or stands still.
	patience = 2 * time.Second
	// freshLooks is the least time between two looks at the leases that are made to see whether another node
	// still takes the jobs that are spared for it.
	freshLooks = time.Second
)

// spare notes the first job that an accept left to others, and reports whether it is another one than before.
func (i *intake) spare(job string, now instant.Time) (another bool) {
	another = job != i.spared.job
	if another {
		i.spared = spared{job: job, due: now.Add(patience)}
	}
	if job == "" {
		i.spared.due = instant.Never
	}
	return another && job != ""
}

// lookAfter has the node look whether a job that it spared was taken.
func (i *intake) lookAfter(now instant.Time) {
	if now >= i.spared.due {
		i.spared.due, i.hungry = instant.Never, true
	}
}

// waited is the job that the others have had the time to take, empty for none.
func (i *intake) waited() string {
	if i.spared.due != instant.Never {
		return ""
	}
	return i.spared.job
}

// restBetweenMoves is how long a run lasts before it may be moved to another node, so that no job moves often.
const restBetweenMoves = 10 * time.Minute

// movesPerChurn is the part of max_churn that may move to other nodes in one interval: a quarter.
const movesPerChurn = 4

// movers are the runs that stop so that other nodes take their jobs, if this node runs more jobs than its part
// of all and others run fewer. Parts change with the free slots, so the jobs lie in the parts that nodes with too
// few will have once all are even, and in no part that this node has until then: else it would take them back.
// It is slow on purpose: a move costs a checkpoint and a start.
func (f fleet) movers(runs []*run, s Settings, now instant.Time) (list []*run) {
	if !s.Rebalance || f.alone() {
		return nil
	}
	f.loads[f.me].Running = len(runs)
	targets, then := schedule.Targets(f.loads), f.even()
	for _, r := range runs {
		if r.state == yielding {
			f.loads[f.me].Running--
			f.loads[then.owner(r.held.JobID)].Running++
		}
	}
	moves := min(schedule.Surplus(f.loads, f.me), (s.MaxChurn+movesPerChurn-1)/movesPerChurn)
	for _, r := range runs {
		to := then.owner(r.held.JobID)
		leaves := f.loads[to].Running < targets[to] && !f.own().Has(r.held.JobID)
		rested := now.Sub(r.since) >= max(restBetweenMoves, s.MinRun)
		if len(list) < moves && r.state == going && r.continuous && rested && leaves {
			// Reached: a run stops so that another node takes its job
			f.loads[to].Running++
			list = append(list, r)
		}
	}
	return list
}

// even is the fleet once each node runs its part of all jobs.
func (f fleet) even() fleet {
	loads := slices.Clone(f.loads)
	for i, target := range schedule.Targets(f.loads) {
		loads[i].Running = target
	}
	return fleet{loads: loads, parts: schedule.Parts(loads), me: f.me}
}
