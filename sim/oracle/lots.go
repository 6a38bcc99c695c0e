package oracle

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// parkings are the invariants of jobs that stand in lots, and of how they come there and leave.
type parkings struct{ *chronicle }

var parkingSubject = subject{
	invariants: []Invariant{
		{"S75a", "While a hold is in force, a job that it has stopped leaves its lot only for that of the " +
			"paused ones."},
		{"S75b", "A job of a lifted hold becomes ready within a minute, or when its wait after a crash is " +
			"over."},
		{"S75c", "Once nodes have looked for due jobs after the end of a hold, once for each hold, it has no " +
			"jobs any more."},
		{"S76", "A job that goes into a lot, or comes back, keeps its place; under tags it may move back."},
		{"S77a", "What asks for the end of a run, or takes its job away, calls its worker in the same " +
			"transaction."},
		{"S77b", "A new hold calls all workers in its transaction."},
		{"S78a", "A pause says who gave it, when and why, and so does the history, which also has its end."},
		{"S78b", "A hold says who made it and when."},
	},
	begin: func(c *chronicle) {
		p := &parkings{c}
		c.on.jobMoved.add(func(j jobChange) { p.checkLeaves(j); p.checkPlace(j); p.checkTold(j) })
		c.on.jobChanged.add(p.checkCalled)
		c.on.followed.add(p.checkHoldMade)
		c.on.answered.add(p.looked)
		c.on.ticked.add(func(world.Ticked) { p.checkLeft() })
	},
}

// liftedWithin is the time over which jobs of a lifted hold become ready.
const liftedWithin = time.Minute

// checkLeaves is S75a and S75b.
func (p *parkings) checkLeaves(j jobChange) {
	from, to := j.before.header, j.after.header
	id, held := strings.CutPrefix(from.Lot, "held/")
	if !held || to.Lot == from.Lot || j.isAnother() || to.State == jobs.Finished {
		return
	}
	if e := p.rules[id]; e != nil && e.inForce() && to.Lot != "paused" {
		p.Fail("S75a", "hold %s is in force since %s, and job %s is let go by %v", id, e.since, j.id, j.Request)
	}
	if _, comesBack := j.Request.(node.Promote); !comesBack {
		return
	}
	first, last := max(from.Due, j.Wall), max(from.Due, j.Wall.Add(liftedWithin))
	if to.Due < first || to.Due > last {
		p.Fail("S75b", "job %s comes back from %s at %s, which should be from %s to %s",
			j.id, from.Lot, to.Due, first, last)
	}
}

// looked counts questions for due jobs, each of which brings the jobs of one hold back, unless it has found enough
// others.
func (p *parkings) looked(f world.Answered) {
	q, is := f.Request.(node.Promote)
	got, _ := f.Result.(node.Promoted)
	if !is || got.Moved >= q.Limit || len(q.Without) > 0 {
		return
	}
	for _, e := range p.rules { // in any order
		if e.back != 0 && f.Since > e.back {
			e.looks++
		}
	}
}

// checkLeft is S75c.
func (p *parkings) checkLeft() {
	for _, id := range p.ids() {
		s := p.shadows[id]
		if s.header == nil {
			continue
		}
		hold, held := strings.CutPrefix(s.header.Lot, "held/")
		if e := p.rules[hold]; held && e != nil && e.back != 0 && e.looks > len(p.rules) {
			p.Fail("S75c", "hold %s is lifted since %s, and nodes have looked for due jobs %d times; job %s is held",
				hold, e.back, e.looks, id)
		}
	}
}

// checkPlace is S76. A tag that all others have passed moves on.
func (p *parkings) checkPlace(j jobChange) {
	from, to := j.before.header, j.after.header
	if from.State != jobs.Pending || to.State != jobs.Pending || from.Lot == to.Lot || j.isAnother() ||
		bytes.Equal(from.Priority, to.Priority) {
		return
	}
	stood, err := placeOf(from.Priority)
	stands, err2 := placeOf(to.Priority)
	if err != nil || err2 != nil {
		p.Fail("S76", "job %s has no place that can be read: %x, %x", j.id, from.Priority, to.Priority)
		return
	}
	policy := p.sharing.Policy
	unordered := policy == schedule.Tags || !p.sharing.settled(p.w.Now()) || !defined(policy)
	if unordered && from.Lot != "" && stands.Epoch == stood.Epoch && stands.Key > stood.Key {
		return
	}
	p.Fail("S76", "job %s moves from lot %q to %q, and from place %+v to %+v",
		j.id, from.Lot, to.Lot, stood, stands)
}

// calls reports whether a commit calls a worker.
func (p *parkings) calls(l landing, worker string) bool {
	key := p.w.Store().Keys.Jobs.Call.Pack(worker)
	return slices.ContainsFunc(l.Mutations, func(m ryw.Mutation) bool { return bytes.Equal(m.Key, key) })
}

// checkCalled is S77a, for the transactions of users, and for those that sweep up what users deleted.
func (p *parkings) checkCalled(j jobChange) {
	from, to := j.before.header, j.after.header
	_, sweeps := j.Request.(node.Sweep)
	if from == nil || from.State != jobs.Running || j.Request != nil && !sweeps {
		return
	}
	gone := to == nil || to.State != jobs.Running || to.Lock != from.Lock
	if (gone || to.Stop && !from.Stop) && !p.calls(j.landing, from.Lock.Worker) {
		p.Fail("S77a", "job %s of %s is to stop, gone: %v, and the worker is not called",
			j.id, from.Lock.Worker, gone)
	}
}

// checkHoldMade is S77b and S78b.
func (p *parkings) checkHoldMade(l landing) {
	held := p.w.Store().Keys.Held
	made := slices.ContainsFunc(l.Mutations, func(m ryw.Mutation) bool {
		return held.Contains(m.Key) && len(m.Value) > 0
	})
	if !made {
		return
	}
	for _, worker := range slices.Sorted(maps.Keys(p.leases)) {
		if !p.leases[worker].gone && !p.calls(l, worker) {
			p.Fail("S77b", "a hold is made, and worker %s is not called", worker)
		}
	}
	holds, err := p.w.Store().Keys.Holds(p.w.Present())
	if err != nil {
		p.unreadable("holds", err)
	}
	for _, e := range holds {
		if e.By != world.Requester || e.At == 0 || e.At > p.w.Now() {
			p.Fail("S78b", "hold %s is of %q at %s", e.ID(), e.By, e.At)
		}
	}
}

// checkTold is S78a, for what one user's transaction has changed.
func (p *parkings) checkTold(j jobChange) {
	from, to := j.before.record, j.after.record
	if j.Request != nil || j.isAnother() || (from.Pause == nil) == (to.Pause == nil) {
		return
	}
	event, pause := "resumed", to.Pause
	if pause != nil {
		event = "paused"
		if pause.By != world.Requester || pause.At != to.LastUpdated || pause.Reason == "" {
			p.Fail("S78a", "job %s is paused at %s, and its pause is %+v", j.id, to.LastUpdated, *pause)
		}
	}
	if len(to.History) == 0 {
		p.Fail("S78a", "job %s is %s, and has no history", j.id, event)
		return
	}
	want := jobstore.Event{Type: event, At: to.LastUpdated, By: world.Requester}
	if pause != nil {
		want.Reason = pause.Reason
	}
	if got := to.History[0]; got != want {
		p.Fail("S78a", "job %s is %s, and its history begins with %+v", j.id, event, got)
	}
}

// isAnother reports whether a job was made in the place of one with its id.
func (j jobChange) isAnother() bool { return j.before.record.Created != j.after.record.Created }
