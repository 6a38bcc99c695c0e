package cluster

import (
	"context"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
)

// probe is L6, once everything has come to rest: a job starts soon after its document was written, at the
// place in the order that the definition gives it, another right after it, and they stop soon after these were deleted. Watches that were lost
// before the healing end within a while.
func (w *Cluster) probe(stop func() bool) {
	w.Engine.Run(w.Engine.Now().Add(awaitLimit+2*probeLimit), stop)
	counts, err := w.store.Jobs.Counts(w.present())
	if w.Violation != nil || err != nil || counts.Ready > 0 || w.oracle.freeSlots() == 0 || len(w.users.tenants) == 0 {
		return
	}
	s := w.net.servers[0]
	if s.DB("a1") == nil {
		return // deleted for good
	}
	first, second := w.probeStart(s, "probe", stop), w.probeStart(s, "another-probe", stop)
	if first == nil {
		return
	}
	w.probeChange(first.job(), stop)
	w.probeMaxJobs(stop)
	w.probeNumbers(stop)
	for _, j := range []*jobDoc{first, second} {
		if j == nil || w.Violation != nil || !w.tell(j, nil) {
			return
		}
		if w.Engine.Run(w.Engine.Now().Add(probeLimit), stop); w.Violation == nil && w.oracle.isRunning(j.job()) {
			w.fail("L6", "job %s still runs %s after its document was deleted", j.job(), probeLimit)
		}
	}
}

// probeMaxJobs is a part of L6: a node that may run fewer jobs from now on soon does.
func (w *Cluster) probeMaxJobs(stop func() bool) {
	for _, p := range w.nodes {
		n := p.node.Running()
		if n == 0 || w.Violation != nil || p.draining {
			continue
		}
		before, limit := p.settings, p.settings.StopTimeout+probeLimit
		p.settings.MaxJobs = n - 1
		p.configure()
		w.Engine.Run(w.Engine.Now().Add(limit), stop)
		restored := p.settings.MaxJobs != n-1 // what the nemesis changed for a while is put back
		if w.Violation == nil && !restored && p.node.Running() >= n {
			w.fail("L6", "%s runs %d jobs %s after max_jobs became %d", p.Name, p.node.Running(), limit, n-1)
		}
		p.settings = before
		p.configure()
		w.Engine.Run(w.Engine.Now().Add(probeLimit), stop)
		return
	}
}

// job is the id of the document's job.
func (j *jobDoc) job() string { return jobstore.DocumentJobs(j.tenant.instance) + j.id }

// probeStart writes a document while a slot is free, and looks for its run. It returns nil when there is none.
func (w *Cluster) probeStart(s *peers.Server, name string, stop func() bool) *jobDoc {
	if w.Violation != nil || w.oracle.freeSlots() == 0 {
		return nil
	}
	j := &jobDoc{tenant: w.users.tenants[0], id: name, body: map[string]any{
		"source": url(s.Name, "a1"), "target": url(s.Name, name), "create_target": true, "continuous": true}}
	id := j.job()
	w.oracle.expectPlace(id, j.tenant.name)
	if !w.tell(j, j.body) {
		return nil
	}
	if w.Engine.Run(w.Engine.Now().Add(probeLimit), stop); w.Violation != nil || j.job() != id {
		return nil // a user who began before may make its database anew
	}
	if !w.oracle.isRunning(j.job()) && w.oracle.freeSlots() > 0 { // else another job's time had come
		w.fail("L6", "job %s does not run %s after its document was written, though %d slots are free", j.job(), probeLimit, w.oracle.freeSlots())
	}
	return j
}

// probeLimit is within what a frontend's and a node's transactions take on slow stores, and below
// node.Settings.PollInterval, so that polling does not hide a watch that is missing.
const probeLimit = 3 * time.Second

// probeChange is L8: what a user writes arrives soon while a run waits for it, and is covered by a checkpoint not
// long after the interval.
func (w *Cluster) probeChange(id string, stop func() bool) {
	o := w.oracle
	rep, err := w.store.Spec(w.present(), id)
	if err != nil || rep == nil {
		w.fail("S3", "job %s has no replication: %v", id, err)
		return
	}
	source := w.net.find(rep.Source.URL)
	absent := func() string {
		target := w.net.find(rep.Target.URL)
		if target == nil {
			return "the target"
		}
		return o.missing(rep, source, target, source.Number(source.Last()))
	}
	uncovered := func() string {
		job := o.shadows[id]
		if job == nil || job.record == nil {
			return "" // a user has dropped its database
		}
		return o.uncovered(id, rep, job.record.BaseID, source.Number(source.Last()))
	}
	wait := func(limit time.Duration, missing func() string) (came bool) {
		for end := w.Engine.Now().Add(limit); missing() != ""; {
			if w.Engine.Run(w.Engine.Now().Add(time.Second), stop); w.Engine.Now() > end || w.Violation != nil {
				return false
			}
		}
		return true
	}
	if !wait(10*time.Minute, absent) || !wait(10*time.Minute, uncovered) {
		return // what was there before takes what it takes
	}
	source.Write([]docs.Edit{{Document: docs.Document{ID: "probe", Body: []byte("{}")}, Token: uint64(w.users.next())}})
	source.Sync()
	r := o.runOf(id)
	runs := func() bool { return r != nil && o.runOf(id) == r } // all the time, and did not wait for its turn
	switch checkpointed := soon + 2*w.Config.CheckpointInterval; {
	case !wait(soon, absent) && runs():
		w.fail("L8", "%s has not arrived %s after it was written to %s", absent(), soon, source)
	case !wait(checkpointed, uncovered) && runs():
		w.fail("L8", "%s is not covered by a checkpoint %s after it was written to %s", uncovered(), checkpointed, source)
	}
}

// soon is more than what servers take that were slow a while ago, and asked to be left alone.
const soon = time.Minute

// tell writes a document at once, as nothing fails now.
func (w *Cluster) tell(j *jobDoc, body map[string]any) bool {
	w.world.atOnce = true
	defer func() { w.world.atOnce = false }()
	err := w.users.put(context.Background(), j, body)
	w.oracle.step() // no event has brought this about
	if err != nil {
		w.fail("S3", "document %s cannot be written: %v", j.id, err)
	}
	return err == nil
}

// isRunning says whether a node runs a job.
func (o *oracle) isRunning(jobID string) bool { return o.runOf(jobID) != nil }

// runOf is a job's run, nil when there is none.
func (o *oracle) runOf(jobID string) *run {
	for _, r := range o.runs {
		if r.work.Work.JobID == jobID {
			return r
		}
	}
	return nil
}

// probeNumbers is a part of L8: what a run has done its job tells soon.
func (w *Cluster) probeNumbers(stop func() bool) {
	o := w.oracle
	if w.Violation != nil {
		return
	}
	told := map[*run]replication.Info{}
	for _, r := range o.runs {
		told[r] = r.machine.Info()
	}
	w.Engine.Run(w.Engine.Now().Add(2*w.Config.Settings.ProgressInterval+soon), stop)
	for _, r := range o.runs {
		info, known := told[r]
		source, s := o.w.net.find(r.work.Work.Replication.Source.URL), o.shadows[r.work.Work.JobID]
		if !known || source == nil || !o.holds(r) || !r.reads || w.Violation != nil {
			continue
		}
		if c := info.Counters; fewer(s.record.Stats.Counters(), c) {
			w.fail("L8", "job %s tells %+v, and its run had done %+v long before", r.work.Work.JobID, s.record.Stats.Counters(), c)
		}
	}
}
