package oracle

import (
	"time"

	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// ProbeLimit is within what a frontend's and a node's transactions take on slow stores, and below
// node.Settings.PollInterval, so that polling does not hide a watch that is missing.
const ProbeLimit = 3 * time.Second

// Soon is more than what servers take that were slow a while ago, and asked to be left alone.
const Soon = time.Minute

// JobsReady is the number of jobs that wait for a slot.
func (o *Oracle) JobsReady() int64 {
	counts, err := o.w.Store().Jobs.Counts(o.w.Present())
	if err != nil {
		o.Fail("S3", "the queue's counters cannot be read: %v", err)
	}
	return counts.Ready
}

// FreeSlots is how many more jobs the nodes could run.
func (o *Oracle) FreeSlots() int { return o.freeSlots() }

// ExpectPlace foretells the place of a job that is about to be made, while nothing else happens.
func (o *Oracle) ExpectPlace(jobID, account string) { o.on.placing.tell(placing{jobID, account}) }

// CheckWriteNow is a part of S3: a write succeeds in which nothing fails.
func (o *Oracle) CheckWriteNow(j *world.JobDoc, err error) {
	if err != nil {
		o.Fail("S3", "document %s cannot be written: %v", j.ID(), err)
	}
}

// CheckStarted is L6: a job runs ProbeLimit after its document was written, unless another job's time had come.
func (o *Oracle) CheckStarted(j *world.JobDoc) {
	if o.runOf(j.JobID()) == nil && o.FreeSlots() > 0 {
		o.Fail("L6", "job %s does not run %s after its document was written, though %d slots are free", j.JobID(), ProbeLimit, o.FreeSlots())
	}
}

// CheckGone is L6: a job does not run ProbeLimit after its document was deleted.
func (o *Oracle) CheckGone(j *world.JobDoc) {
	if o.runOf(j.JobID()) != nil {
		o.Fail("L6", "job %s still runs %s after its document was deleted", j.JobID(), ProbeLimit)
	}
}

// CheckRunsFewer is a part of L6: a node that may run fewer jobs than n for as long as limit does.
func (o *Oracle) CheckRunsFewer(p *world.Node, n int, limit time.Duration) {
	if p.Running() >= n {
		o.Fail("L6", "%s runs %d jobs %s after max_jobs became %d", p.Name, p.Running(), limit, n-1)
	}
}

// CheckTold is a part of L8: what a run has done its job tells soon. done is what runs had done a while ago.
func (o *Oracle) CheckTold(done map[*world.Run]replication.Info) {
	for _, r := range o.runs {
		info, known := done[r.Run]
		s := o.shadows[r.JobID()]
		if !known || o.w.Database(r.Replication().Source.URL) == nil || !o.holds(r) || !r.reads || o.violation != nil {
			continue
		}
		if c := info.Counters; fewer(s.record.Stats.Counters(), c) {
			o.Fail("L8", "job %s tells %+v, and its run had done %+v long before", r.JobID(), s.record.Stats.Counters(), c)
		}
	}
}

// Path is how changes of a job's source come to its target.
type Path struct {
	Source *peers.DB
	o      *Oracle
	id     string
	rep    *spec.Replication
	run    *run // that watches the source
}

// Follow looks for what comes through a job; nil when there is none.
func (o *Oracle) Follow(id string) *Path {
	rep, err := o.w.Store().Spec(o.w.Present(), id)
	if err != nil || rep == nil {
		o.Fail("S3", "job %s has no replication: %v", id, err)
		return nil
	}
	return &Path{Source: o.w.Database(rep.Source.URL), o: o, id: id, rep: rep}
}

// Watch remembers the run that waits for changes: they are promised soon only while it goes on.
func (p *Path) Watch() { p.run = p.o.runOf(p.id) }

// goesOn reports whether the run went on all the time, and did not wait for its turn.
func (p *Path) goesOn() bool { return p.run != nil && p.o.runOf(p.id) == p.run }

// Absent is a revision that is not on the target yet; empty when all are.
func (p *Path) Absent() string {
	target := p.o.w.Database(p.rep.Target.URL)
	if target == nil {
		return "the target"
	}
	return p.o.missing(p.rep, p.Source, target, p.Source.Number(p.Source.Last()))
}

// Uncovered is a document that no checkpoint covers yet; empty when all are.
func (p *Path) Uncovered() string {
	job := p.o.shadows[p.id]
	if job == nil || job.record == nil {
		return "" // a user has dropped its database
	}
	return p.o.uncovered(p.id, p.rep, job.record.BaseID, p.Source.Number(p.Source.Last()))
}

// CheckArrived is L8: what a user writes arrives within limit while a run waits for it.
func (p *Path) CheckArrived(limit time.Duration) {
	if p.goesOn() {
		p.o.Fail("L8", "%s has not arrived %s after it was written to %s", p.Absent(), limit, p.Source)
	}
}

// CheckCovered is L8: a checkpoint covers it within limit.
func (p *Path) CheckCovered(limit time.Duration) {
	if p.goesOn() {
		p.o.Fail("L8", "%s is not covered by a checkpoint %s after it was written to %s", p.Uncovered(), limit, p.Source)
	}
}
