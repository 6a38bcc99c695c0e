package oracle

import (
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

// beginning is what a run finds when it begins.
type beginning struct {
	source, target *peers.DB
	last           peer.Seq // of the source
	instance       string   // of the target; another one may have lost something
	startS         string   // instance_start_time of the source, by which a first log is trusted
	// restoredS and restoredT are how often they had been put back.
	restoredS, restoredT int
}

func (c *chronicle) beginning(r *run) beginning {
	rep := r.Replication()
	b := beginning{source: c.w.Database(rep.Source.URL), target: c.w.Database(rep.Target.URL)}
	if b.source != nil {
		b.last, b.startS, b.restoredS = b.source.Last(), b.source.Start(), b.source.Restored()
	}
	if b.target != nil {
		b.instance, b.restoredT = b.target.Start(), b.target.Restored()
	}
	return b
}

// asBegun says whether a run can be judged by what it found when it began: its databases are the same, and what
// they offer is too. A filter function may have been another one for a while.
func (c *chronicle) asBegun(r *run) bool {
	rep, b := r.Replication(), &r.begin
	source, target := c.w.Database(rep.Source.URL), c.w.Database(rep.Target.URL)
	return rep.Filter.Kind != spec.FunctionFilter && source != nil && target != nil && source == b.source && source.Restored() == b.restoredS &&
		(b.target == nil || target == b.target && target.Start() == b.instance && target.Restored() == b.restoredT)
}

// goesOn says whether the source is the one that the run began with, and counts its changes as it did.
func (c *chronicle) goesOn(r *run) bool {
	source := c.w.Database(r.Replication().Source.URL)
	return source != nil && source == r.begin.source && source.Restored() == r.begin.restoredS && !r.WentBack()
}

// logsOf are the databases with the logs of a replication whose checkpoints can be judged; nil for others: a
// filter function may be another one by now.
func (c *chronicle) logsOf(rep *spec.Replication) (source, target *peers.DB) {
	source, target = c.w.Database(rep.Source.URL), c.w.Database(rep.Target.URL)
	if rep.Filter.Kind == spec.FunctionFilter || source == nil || target == nil {
		return nil, nil
	}
	return source, target
}

// outlook is what a run finds when it looks for its checkpoint.
type outlook struct {
	source, target       *peers.DB
	restoredS, restoredT int
	logS, logT           string // jobs that differ in a few options write the same logs, which may come to agree at the same sequence anew
	start                peer.Seq
}

func (c *chronicle) outlook(r *run) (l outlook) {
	if l.source, l.target = c.logsOf(r.Replication()); l.source != nil {
		l.restoredS, l.restoredT = l.source.Restored(), l.target.Restored()
		base := r.Base()
		l.logS, l.logT = string(l.source.Log(base)), string(l.target.Log(base))
		l.start = c.logs.agreed(l.source, l.target, base)
		if since := r.Replication().SinceSeq; l.start == peer.Zero && since != nil {
			l.start = peer.Seq(since)
		}
	}
	return l
}

// uncovered is a document that a job would copy again though it has arrived: one among the changes up to a number
// that its checkpoints do not cover. Jobs that differ in a few options have the same logs, and none to rely on.
func (c *chronicle) uncovered(jobID string, rep *spec.Replication, base string, through int64) string {
	source, target := c.logsOf(rep)
	if source == nil || !rep.UseCheckpoints {
		return ""
	}
	for id, s := range c.shadows { // in any order: one is enough
		if id != jobID && s.header != nil && s.record.BaseID == base {
			return ""
		}
	}
	since := max(source.Number(c.logs.agreed(source, target, base)), beginsAt(rep, source))
	for _, offer := range source.OffersAfter(since, rep.Filter, rep.WinningRevsOnly) {
		if offer.Number <= through {
			return offer.ID
		}
	}
	return ""
}

// beginsAt is the number of the change behind which a replication without a checkpoint begins: its since_seq.
func beginsAt(rep *spec.Replication, source *peers.DB) int64 {
	return source.Number(peer.Seq(rep.SinceSeq))
}

// missing is a revision among the changes up to a number that the target lacks and never refused.
func (c *chronicle) missing(rep *spec.Replication, source, target *peers.DB, through int64) string {
	for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
		if offer.Number > through || target.Deny[offer.ID] != nil {
			continue
		}
		for _, rev := range offer.Revs {
			if !target.Has(offer.ID, rev) && !c.denied[target.String()+" "+offer.ID+" "+rev] {
				return offer.ID + " " + rev
			}
		}
	}
	return ""
}

// isFresh says whether a run is another replication than its job was before, which has no checkpoint.
func (c *chronicle) isFresh(r *run) bool {
	rec := r.Record()
	source, target := c.w.Database(rec.Source), c.w.Database(rec.Target)
	return rec.RepID != "" && rec.RepID != r.RepID() && source != nil && target != nil &&
		source.Log(r.Base()) == nil && target.Log(r.Base()) == nil
}

// opened notes the target that a run made, since that can lose something from now on.
func (c *chronicle) opened(r *run, op peer.Op, reply peer.Reply) {
	found, is := reply.Result.(peer.Opened)
	if is && r.begin.target == nil && op.(peer.Open).Side == peer.Target {
		r.begin.target, r.begin.instance = c.w.Database(r.Replication().Target.URL), found.InstanceStartTime
		if r.begin.target != nil {
			r.begin.restoredT = r.begin.target.Restored()
		}
	}
}
