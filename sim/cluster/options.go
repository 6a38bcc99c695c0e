package cluster

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// checkOptions is a part of S30: a run asks for nothing that its replication rules out.
func (o *oracle) checkOptions(r *run, op peer.Op) {
	rep := r.work.Work.Replication
	switch op := op.(type) {
	case peer.Create:
		if !rep.CreateTarget {
			o.w.fail("S30", "run %d of %s makes its target without create_target", r.id, r.p.Name)
		}
	case peer.PutLocal:
		if !rep.UseCheckpoints {
			o.w.fail("S30", "run %d of %s writes a checkpoint without use_checkpoints", r.id, r.p.Name)
		}
		head, _ := readHead(op.Body)
		r.saved.put[op.Side] = entry{head.SessionID, string(head.SourceLastSeq)}
	case peer.FetchDocs:
		if !rep.UseBulkGet {
			o.w.fail("S30", "run %d of %s reads in bulk without use_bulk_get", r.id, r.p.Name)
		}
	case peer.DiffRevs:
		if len(op.Docs) > rep.WorkerBatchSize {
			o.w.fail("S30", "run %d of %s compares %d documents at once, with worker_batch_size %d", r.id, r.p.Name, len(op.Docs), rep.WorkerBatchSize)
		}
	}
}

// attempts are a run's failures that may pass, of all its requests, and when it was first asked to slow down.
type attempts struct {
	failed                      int
	firstFailed, firstThrottled instant.Time
	unsaved                     bool // since the run was stopped, a request for its checkpoint failed
}

// Times that requests are repeated for, those of CouchDB's replicator: 429 is waited out.
const (
	retriesLast   = time.Minute
	throttledLast = 150 * time.Second
)

// passes says whether a failure may pass.
func passes(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status == 408 || f.Status >= 500
	case peer.Unresolvable, peer.Unreachable, peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}

func (t *attempts) noteFailed(now instant.Time) {
	if t.failed++; t.failed == 1 {
		t.firstFailed = now
	}
}

// noteFailure counts a failure of a run.
func (r *run) noteFailure(op peer.Op, f *peer.Failure, now instant.Time) {
	t := &r.attempts
	switch {
	case f.Kind == peer.Status && f.Status == 429 && t.firstThrottled == 0:
		t.firstThrottled = now
	case passes(f):
		t.noteFailed(now)
	}
	switch op.(type) {
	case peer.Open, peer.Commit, peer.PutLocal, peer.GetLocal, peer.GetFilter:
		t.unsaved = t.unsaved || r.stopped || f.Status == 409 // another job wrote the log meanwhile
	}
}

// checkGivenUp is a part of S30: a run ends for a failure that may pass after all the retries only.
func (o *oracle) checkGivenUp(r *run, ev replication.Event, e replication.End) {
	reply, is := ev.(replication.Reply)
	if !is || reply.Failure == nil || e.Cause != replication.Crashed {
		return
	}
	t, now := &r.attempts, o.w.Engine.Now()
	switch f := reply.Failure; {
	case e.Trouble.Throttled || f.Kind == peer.Status && f.Status == 429:
		if now.Sub(t.firstThrottled) < throttledLast {
			o.w.fail("S30", "run %d of %s was asked to slow down %s ago, and gave up: %s", r.id, r.p.Name, now.Sub(t.firstThrottled), e.Trouble)
		}
	case passes(f) && t.failed <= r.work.Work.Replication.Source.Retries && now.Sub(t.firstFailed) < retriesLast:
		o.w.fail("S30", "run %d of %s gave up after %d failures with %d retries: %s", r.id, r.p.Name, t.failed, r.work.Work.Replication.Source.Retries, e.Trouble)
	}
}

// checkStopped is a part of S21: a run that is stopped in order writes a checkpoint of what it has done, if its
// databases let it.
func (o *oracle) checkStopped(r *run, e replication.End) {
	rep, source := r.work.Work.Replication, r.begin.source
	if e.Cause != replication.Stopped || !rep.UseCheckpoints || !r.reads || r.attempts.unsaved || !o.asBegun(r) || source.Restored() != r.begin.restored ||
		max(source.Since, o.w.net.find(rep.Target.URL).Since) >= r.began {
		return
	}
	if done, saved := source.Number(e.Info.ThroughSeq), source.Number(e.Info.CheckpointedSeq); done != saved {
		o.w.fail("S21", "run %d of %s was stopped at %s, and its checkpoint is at %s", r.id, r.p.Name, e.Info.ThroughSeq, e.Info.CheckpointedSeq)
	}
}
