package oracle

import (
	"time"

	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// probing are the invariants of experiments at rest: a trial changes one thing while nothing else happens,
// and asks the oracle for the result. They hold at rest only, where no fault and no other job excuses a
// delay.
var probingSubject = subject{
	invariants: []Invariant{
		{"S3h", "A replication document can be written and deleted while nothing fails."},
		{"L6e", "A job runs soon after its document was written, when a slot is free."},
		{"L6f", "A job does not run any more soon after its document was deleted."},
		{"L6g", "A node whose max_jobs was lowered soon runs no more jobs than that."},
		{"L8a", "A job soon tells what its run has done."},
		{"L8b", "What a user writes arrives soon while a run waits for it."},
		{"L8c", "A checkpoint covers what a user writes not long after the checkpoint interval."},
		{"L8e", "A run that waits for changes notices, when it looks next, that its target was deleted and made " +
			"again, also where a log has come into the new one."},
	},
	begin: func(*chronicle) {},
}

// ProbeLimit is the meaning of soon for jobs, nodes and their watches: longer than a frontend's and a node's
// transactions take on slow stores, and below node.Settings.PollInterval, so that polling does not hide a
// watch that is missing.
const ProbeLimit = 3 * time.Second

// Soon is the meaning of soon for replications: longer than servers take that were slow a while ago, and
// asked to be left alone.
const Soon = time.Minute

// JobsReady is the number of jobs that wait for a slot.
func (o *Oracle) JobsReady() int64 {
	counts, err := o.w.Store().Jobs.Counts(o.w.Present())
	if err != nil {
		o.unreadable("counters of the queue", err)
	}
	return counts.Ready
}

// FreeSlots is how many more jobs the nodes could run.
func (o *Oracle) FreeSlots() int { return o.freeSlots() }

// ExpectPlace foretells the place of a job that is about to be made, while nothing else happens.
func (o *Oracle) ExpectPlace(jobID, account string) { o.on.placing.tell(placing{jobID, account}) }

// CheckWriteNow is S3h.
func (o *Oracle) CheckWriteNow(j *world.JobDoc, err error) {
	if err != nil {
		o.Fail("S3h", "document %s cannot be written: %v", j.ID(), err)
	}
}

// patience is how long a job is left to the node in whose part it is.
const patience = 2 * time.Second

// StartLimit is the meaning of soon for the start of a job. A node that is alone is told of the job. In a
// fleet the one that is told may have lost its last free slot since the others last heard of it; then the
// others find the job when they look by themselves, and take it a little later.
func (o *Oracle) StartLimit() time.Duration {
	limit, acceptors := ProbeLimit, 0
	for _, p := range o.w.Nodes() {
		if p.Alive() && p.Roles().Has(node.Replication) {
			limit, acceptors = max(limit, p.Settings().PollInterval+patience+ProbeLimit), acceptors+1
		}
	}
	if acceptors == 1 {
		return ProbeLimit
	}
	return limit
}

// CheckStarted is L6e, limit after a document was written. The job is excused when another one, whose time
// had come, took the last slot, though its run may be over by now, and when its own run is over already.
func (o *Oracle) CheckStarted(j *world.JobDoc, limit time.Duration) {
	known := o.shadows[j.JobID()]
	ran := known != nil && known.record != nil && known.record.LastStart > 0
	if free := o.FreeSlots(); o.runOf(j.JobID()) == nil && free > 0 && !ran && !o.servesOthers() {
		o.Fail("L6e", "job %s does not run %s after its document was written, though %d slots are free",
			j.JobID(), limit, free)
	}
}

// servesOthers reports whether a job has begun in the last second: there are many whose time has come, as after a
// storm of crashes.
func (o *Oracle) servesOthers() bool {
	for _, s := range o.shadows {
		if s.record != nil && s.record.LastStart > o.w.Now().Add(-time.Second) {
			return true
		}
	}
	return false
}

// CheckGone is L6f, ProbeLimit after a document was deleted.
func (o *Oracle) CheckGone(j *world.JobDoc) {
	if o.runOf(j.JobID()) != nil {
		o.Fail("L6f", "job %s still runs %s after its document was deleted", j.JobID(), ProbeLimit)
	}
}

// CheckRunsFewer is L6g: a node runs fewer than n jobs, limit after its max_jobs became n - 1.
func (o *Oracle) CheckRunsFewer(p *world.Node, n int, limit time.Duration) {
	if p.Running() >= n {
		o.Fail("L6g", "%s runs %d jobs %s after max_jobs became %d", p.Name, p.Running(), limit, n-1)
	}
}

// CheckTold is L8a; done has the progress of runs Soon and some progress intervals ago. A run is excused that
// has no source, has not begun to read, or has lost its job, since then its node does not store the run's
// reports.
func (o *Oracle) CheckTold(done map[*world.Run]replication.Info) {
	for _, r := range o.runs {
		info, known := done[r.Run]
		if !known || o.w.Database(r.Replication().Source.URL) == nil || !o.holds(r) || !r.feed.begun {
			continue
		}
		if tells := o.shadows[r.JobID()].record.Stats.Counters(); fewer(tells, info.Counters) {
			o.Fail("L8a", "job %s tells %+v, and its run had done %+v long before",
				r.JobID(), tells, info.Counters)
		}
	}
}

// Path is how changes of a job's source come to its target.
type Path struct {
	Source *peers.DB
	o      *Oracle
	id     string
	rep    *spec.Replication
	run    *run // that waits for changes of the source
}

// Follow looks for documents that come through a job; nil when its replication cannot be read.
func (o *Oracle) Follow(id string) *Path {
	rep, err := o.w.Store().Spec(o.w.Present(), id)
	if err != nil || rep == nil {
		o.unreadable("replication of job "+id, err)
		return nil
	}
	return &Path{Source: o.w.Database(rep.Source.URL), o: o, id: id, rep: rep}
}

// Watch remembers the run that waits for changes: they are promised soon only while it goes on.
func (p *Path) Watch() { p.run = p.o.runOf(p.id) }

// GoesOn reports whether the run went on all the time, and did not wait for its turn.
func (p *Path) GoesOn() bool { return p.run != nil && p.o.runOf(p.id) == p.run }

// Interval is the checkpoint interval of the job.
func (p *Path) Interval() time.Duration { return p.rep.CheckpointInterval }

// Absent is a revision that is not on the target yet; empty when all are.
func (p *Path) Absent() string {
	target := p.o.w.Database(p.rep.Target.URL)
	if target == nil {
		return "the target"
	}
	return p.o.missing(p.rep, p.Source, target, p.Source.Number(p.Source.Last()))
}

// Uncovered is a document that no checkpoint covers yet; empty when all are, or when a user has deleted the
// job's database.
func (p *Path) Uncovered() string {
	job := p.o.shadows[p.id]
	if job == nil || job.record == nil {
		return ""
	}
	return p.o.uncovered(p.id, p.rep, job.record.BaseID, p.Source.Number(p.Source.Last()))
}

// CheckArrived is L8b, when something is absent limit after it was written.
func (p *Path) CheckArrived(limit time.Duration) {
	if p.GoesOn() {
		p.o.Fail("L8b", "%s has not arrived %s after it was written to %s", p.Absent(), limit, p.Source)
	}
}

// CheckCovered is L8c, when something is not covered limit after it was written.
func (p *Path) CheckCovered(limit time.Duration) {
	if p.GoesOn() {
		p.o.Fail("L8c", "%s is not covered by a checkpoint %s after it was written to %s",
			p.Uncovered(), limit, p.Source)
	}
}

// Target is the job's target, nil while there is none.
func (p *Path) Target() *peers.DB { return p.o.w.Database(p.rep.Target.URL) }

// NextLook is how long a run that waits for changes may take until it looks at its databases.
func (p *Path) NextLook() time.Duration { return max(10*p.rep.CheckpointInterval, time.Minute) + Soon }

// Unnoticed is a revision that is not on the target, which was made again, while the run waits on.
func (p *Path) Unnoticed() string {
	if !p.GoesOn() {
		return ""
	}
	return p.Absent()
}

// CheckRefilled is L8e. Without a log only an instance_start_time, or a number of changes that went back, tells.
func (p *Path) CheckRefilled(was, made *peers.DB) {
	s := made.Server
	if p.rep.UseCheckpoints || s.TellsApart() || s.Numeric && made.Number(made.Last()) < was.Number(was.Last()) {
		p.o.Fail("L8e", "%s still waits for changes %s after %s was made again, which lacks %s", p.run, p.NextLook(),
			made, p.Absent())
	}
}
