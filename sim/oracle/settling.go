package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// settling are the invariants of liveness: work that must be done once all trouble is over. They excuse no
// run, since the healing ends every fault: a fault that goes on would be a mistake of the world.
type settling struct {
	*chronicle
	behind  string          // the job that was not settled when the world was last asked
	rotated map[string]bool // jobs that had to give a slot back since the healing
}

var settlingSubject = subject{
	invariants: []Invariant{
		{"L1", "Once all trouble is over, everything that a job selects arrives, and one-shots end."},
		{"L2", "Once all trouble is over, no job that could run waits while slots are free."},
		{"L3d", "Once all trouble is over, a node runs each job that the store says is running."},
		{"L4g", "Once all trouble is over, jobs that are due become ready within a minute."},
		{"L4h", "Once all trouble is over, finished jobs of requests are removed soon after their time."},
		{"L4i", "Once all trouble is over, jobs of a deleted database are removed soon after its deletion."},
		{"L6h", "Once all trouble is over, no node runs more jobs than max_jobs, and each slot in use has " +
			"its run."},
		{"L7", "Once all trouble is over, checkpoints come as far as what was copied."},
		{"S4i", "A node runs only jobs that it holds by the store, and stops the others soon after it can " +
			"know."},
	},
	begin: func(c *chronicle) {
		s := &settling{chronicle: c, rotated: map[string]bool{}}
		c.on.runSaidEnd.add(func(e ending) {
			if e.end.Cause == replication.Stopped && c.w.Now() > c.w.End() {
				s.rotated[e.JobID()] = true
			}
		})
		c.on.unsettled = append(c.on.unsettled, s.queueUnsettled, s.jobsUnsettled, s.runsUnsettled)
		c.on.atRest.add(func(struct{}) { s.checkHeld() })
	},
}

// Settled reports whether a world that comes to rest has no work left. The checker that found some last is asked
// first: most often it still does, which saves asking all others.
func (o *Oracle) Settled() bool {
	all := o.on.unsettled
	for range all {
		if all[o.on.busy]() != nil {
			return false
		}
		o.on.busy = (o.on.busy + 1) % len(all)
	}
	return true
}

// Unsettled is the work that a world that comes to rest has left; nil when there is none.
func (o *Oracle) Unsettled() *Violation {
	for _, ask := range o.on.unsettled {
		if why := ask(); why != nil {
			return why
		}
	}
	return nil
}

// AtRest checks invariants that only hold when nothing moves.
func (o *Oracle) AtRest() { o.on.atRest.tell(struct{}{}) }

// missed is work that is not done yet. It breaks an invariant when it never does.
func missed(id, format string, args ...any) *Violation {
	return &Violation{ID: id, Text: fmt.Sprintf(format, args...)}
}

// queueUnsettled is the work that the queue and the nodes have left.
func (s *settling) queueUnsettled() *Violation {
	counts, err := s.w.Store().Jobs.Counts(s.w.Present())
	if err != nil {
		s.unreadable("counters of the queue", err)
		return nil
	}
	if free := s.freeSlots(); counts.Ready > 0 && free > 0 {
		return missed("L2", "%d jobs are ready, and %d slots are free", counts.Ready, free)
	}
	for _, p := range s.nodes {
		switch {
		case p.Running() > p.MaxJobs():
			return missed("L6h", "%s runs %d jobs, and may run %d", p.Name, p.Running(), p.MaxJobs())
		case p.Running() > len(p.runs):
			return missed("L6h", "%s has %d slots in use, and %d runs", p.Name, p.Running(), len(p.runs))
		}
	}
	return nil
}

// jobsUnsettled is the work that jobs have left. The job that was behind last is asked first: most often it
// still is, which saves the look at all others.
func (s *settling) jobsUnsettled() *Violation {
	if why := s.jobUnsettled(s.behind); why != nil {
		return why
	}
	for _, id := range s.ids() {
		if why := s.jobUnsettled(id); why != nil {
			s.behind = id
			return why
		}
	}
	return nil
}

// removedLate is how long after its time a finished job of a request may be removed, and how long after its
// database that of a document.
const removedLate = 3 * time.Minute

// jobUnsettled is the work that one job has left.
func (s *settling) jobUnsettled(id string) *Violation {
	job := s.shadows[id]
	if job == nil || job.header == nil {
		return nil
	}
	now, due := s.w.Now(), job.header.Due
	if at := job.record.Expires; at > 0 && at < now.Add(-removedLate) {
		return missed("L4h", "job %s of a request should have been removed at %s", id, at)
	}
	if at, dropped := s.dropped[job.instance()]; dropped && at < now.Add(-removedLate) {
		return missed("L4i", "job %s should have been removed since its database was deleted at %s", id, at)
	}
	if job.header.State == jobs.Pending && job.header.Lot == "" && due > 0 && due < now.Add(-time.Minute) {
		return missed("L4g", "job %s is due since %s, and still waits", id, due)
	}
	if s.orphaned(id, job) {
		return missed("L3d", "job %s is running under %v by the store, and no node runs it",
			id, job.header.Lock)
	}
	if why := s.unfinished(id, job); why != "" {
		return missed("L1", "%s", why)
	}
	if why := s.unsaved(id, job); why != "" {
		return missed("L7", "%s", why)
	}
	return nil
}

// orphaned reports whether the store says that a job is running, and no node runs it under this lock.
func (s *settling) orphaned(id string, job *shadow) bool {
	return job.header.State == jobs.Running && !slices.ContainsFunc(s.runs, func(r *run) bool {
		return r.JobID() == id && r.Lock() == job.header.Lock
	})
}

// unfinished describes the work that a job has left: everything that its source selects must be on the
// target, and a one-shot must be over. A job is excused while a database is missing that it may not make, while its
// filter does not work, and where it cannot know a database again. One without checkpoints begins anew with each turn,
// which may be too short for what a slow server refuses. A light one may wait for its turn for days: how long it does
// is L11's.
func (s *settling) unfinished(id string, job *shadow) string {
	if job.record.State.Terminal() || job.pausedByUser() || s.behindPaused(job) {
		return ""
	}
	rep, err := job.replication()
	if err != nil || rep == nil {
		return fmt.Sprintf("job %s has no replication: %v", id, err)
	}
	source, target := s.w.Database(rep.Source.URL), s.w.Database(rep.Target.URL)
	switch {
	case source == nil, target == nil && !rep.CreateTarget:
		return ""
	case target == nil:
		return fmt.Sprintf("job %s is %s, and %s does not exist", id, job.record.State, rep.Target.URL)
	case source.FilterWorks(rep.Filter) != nil, !rep.UseCheckpoints && s.rotated[id],
		s.misled(id, job, rep, source, target):
		return ""
	case !rep.Continuous && light(job):
		return ""
	case !rep.Continuous:
		return fmt.Sprintf("job %s is %s: %s", id, job.record.State, job.record.Reason)
	}
	if behind, waits := strings.CutPrefix(job.header.Lot, "behind/"); waits && s.owned(behind) {
		return "" // the other one is judged, which may have no checkpoints
	}
	if absent := s.missing(rep, source, target, anySeq); absent != "" && !light(job) {
		return fmt.Sprintf("job %s from %s to %s: %s has not arrived; the job is %s %s",
			id, source, target, absent, job.record.State, job.record.Reason)
	}
	return ""
}

// light reports whether a job waits for a slot and gets less of them than others of its account.
func light(job *shadow) bool { return job.header.Ready() && weightOf(job.record) < 100 }

// owned reports whether a job that is not over has a replication.
func (s *settling) owned(repID string) bool {
	owner, err := s.w.Store().JobOf(s.w.Present(), repID)
	job := s.shadows[owner]
	return err == nil && job != nil && job.header != nil && !job.record.State.Terminal() && job.record.RepID == repID
}

// misled reports whether a run cannot know that one of its databases was made again: it writes no log there, and what
// the database tells of itself may be what the one before told.
func (s *settling) misled(id string, job *shadow, rep *spec.Replication, source, target *peers.DB) bool {
	if rep.UseCheckpoints {
		return s.logs.misled(source, target, job.record.BaseID)
	}
	return slices.ContainsFunc(s.runs, func(r *run) bool {
		again := func(db *peers.DB) bool { return !db.Server.TellsApart() && r.Began() < db.Since }
		return r.JobID() == id && (again(source) || again(target))
	})
}

// anySeq is above the number of any change.
const anySeq = 1 << 62

// unsaved lists changes that a running job copied, and its checkpoints do not cover.
func (s *settling) unsaved(id string, job *shadow) string {
	if job.header.State != jobs.Running {
		return ""
	}
	rep, err := job.replication()
	if err != nil || rep == nil {
		return fmt.Sprintf("job %s has no replication: %v", id, err)
	}
	if left := s.uncovered(id, rep, job.record.BaseID, anySeq); left != "" {
		return fmt.Sprintf("job %s from %s to %s: no checkpoint covers %s",
			id, rep.Source.URL, rep.Target.URL, left)
	}
	return ""
}

// runsUnsettled is which runs their nodes still have to stop.
func (s *settling) runsUnsettled() *Violation {
	for _, r := range s.runs {
		if !s.holds(r) && s.w.Now() < s.hears(r) {
			return missed("S4i", "%s still runs job %s", r.p.Name, r.JobID())
		}
	}
	return nil
}

// checkHeld is S4i: nodes run the jobs that the store says they run.
func (s *settling) checkHeld() {
	for _, r := range s.runs {
		if !s.holds(r) {
			s.Fail("S4i", "%s runs job %s under %v, but the store says %+v",
				r.p.Name, r.JobID(), r.Lock(), s.shadows[r.JobID()])
		}
	}
}

// stuck is how long after the healing a request of a node may be without an answer: it ends by its limit, and
// is repeated after the longest pause that nodes make.
const stuck = world.RequestLimit + 10*time.Second

// hears is when a node knows at the latest that the job of a run was removed; 0 when it should know already.
// A watch tells it soon. But a watch that was lost before the healing stays lost for its minute: then the
// node's next heartbeat has to tell it, or the one after a request that the trouble holds up.
func (s *settling) hears(r *run) instant.Time {
	job, healed := s.shadows[r.JobID()], s.w.End()
	switch {
	case job == nil || job.gone < r.Began(): // others took it, or the run never had it
		return 0
	case job.gone >= healed.Add(world.AwaitLimit):
		return job.gone.Add(ProbeLimit)
	}
	beat := job.gone.Add(r.p.Settings().ActivityTimeout / 4)
	return max(beat, healed.Add(stuck)).Add(ProbeLimit)
}
