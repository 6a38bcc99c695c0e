package oracle

import (
	"couchrelay/core/peer"
	"couchrelay/core/replication"
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

func (o *Oracle) beginning(r *run) beginning {
	rep := r.Replication()
	b := beginning{source: o.w.Database(rep.Source.URL), target: o.w.Database(rep.Target.URL)}
	if b.source != nil {
		b.last, b.startS, b.restoredS = b.source.Last(), b.source.Start(), b.source.Restored()
	}
	if b.target != nil {
		b.instance, b.restoredT = b.target.Start(), b.target.Restored()
	}
	return b
}

// opened notes the target that a run made, since that can lose something from now on.
func (o *Oracle) opened(r *run, op peer.Op, reply peer.Reply) {
	found, is := reply.Result.(peer.Opened)
	if is && r.begin.target == nil && op.(peer.Open).Side == peer.Target {
		r.begin.target, r.begin.instance = o.w.Database(r.Replication().Target.URL), found.InstanceStartTime
		if r.begin.target != nil {
			r.begin.restoredT = r.begin.target.Restored()
		}
	}
}

// asBegun says whether a run can be judged by what it found when it began: its databases are the same, and what
// they offer is too. A filter function may have been another one for a while.
func (o *Oracle) asBegun(r *run) bool {
	rep, b := r.Replication(), &r.begin
	source, target := o.w.Database(rep.Source.URL), o.w.Database(rep.Target.URL)
	return rep.Filter.Kind != spec.FunctionFilter && source != nil && target != nil && source == b.source && source.Restored() == b.restoredS &&
		(b.target == nil || target == b.target && target.Start() == b.instance && target.Restored() == b.restoredT)
}

// goesOn says whether the source is the one that the run began with, and counts its changes as it did.
func (o *Oracle) goesOn(r *run) bool {
	source := o.w.Database(r.Replication().Source.URL)
	return source != nil && source == r.begin.source && source.Restored() == r.begin.restoredS && !r.WentBack()
}

// checkComplete is S13 for one-shots: what was on the source when the run began is on the target when it
// says that it is done.
func (o *Oracle) checkComplete(r *run, e replication.End) {
	rep := r.Replication()
	if e.Cause != replication.Completed || !o.asBegun(r) {
		return
	}
	source, target := r.begin.source, o.w.Database(rep.Target.URL)
	if lost := o.missing(rep, source, target, source.Number(r.begin.last)); lost != "" {
		o.Fail("S13", "run %d of %s from %s to %s is done, and %s has not arrived", r.ID(), r.p.Name, source, target, lost)
	}
}

// checkPending is S23: what the source had when the run began and what is not done yet is a part of the changes that
// the run says are pending.
func (o *Oracle) checkPending(r *run, info replication.Info) {
	rep := r.Replication()
	source := o.w.Database(rep.Source.URL)
	if told := r.numbers.counted; info.ChangesPending < 0 && told > max(0, r.p.PausedLast()) && o.w.Now() > told && o.goesOn(r) {
		o.Fail("S23", "run %d of %s from %s was told how much is to come, and does not know", r.ID(), r.p.Name, source)
	}
	if info.ChangesPending < 0 || rep.Filter.Kind == spec.FunctionFilter || !o.goesOn(r) {
		return
	}
	left, last := int64(0), source.Number(r.begin.last)
	for _, offer := range source.OffersAfter(max(source.Number(info.ThroughSeq), beginsAt(rep, source)), rep.Filter, rep.WinningRevsOnly) {
		if offer.Number <= last {
			left++
		}
	}
	if left > info.ChangesPending {
		o.Fail("S23", "run %d of %s from %s says that %d changes are pending, and %d are", r.ID(), r.p.Name, source, info.ChangesPending, left)
	}
}

// checkDone is a part of S23: a run that has done all that its source tells of tells of no changes to come.
func (o *Oracle) checkDone() {
	for _, r := range o.runs {
		source, info := o.w.Database(r.Replication().Source.URL), r.Info()
		if source != nil && source == r.begin.source && source.Number(info.ThroughSeq) == source.Number(source.Last()) && info.ChangesPending > 0 && info.Waiting == "" {
			o.Fail("S23", "run %d of %s has done all of %s, and says that %d changes are pending", r.ID(), r.p.Name, source, info.ChangesPending)
		}
		for _, op := range r.InFlight() {
			if _, reads := op.(peer.ReadChanges); reads && r.Flights() == 1 && info.Waiting == "" {
				o.checkThrough(r, info)
			}
		}
	}
}

// checkWritten is S14: a run tells of no more refusals than there were, and when it is done of all that it left out
// and of what the target took.
func (o *Oracle) checkWritten(r *run, info replication.Info, done bool) {
	told := r.Told()
	took, again, refused, left := told.Took, told.Again, told.Refused, told.LeftOut
	switch {
	case info.Refused > refused:
		o.Fail("S14", "run %d of %s says that the target did not take %d documents, and it was told so %d times", r.ID(), r.p.Name, info.Refused, refused)
	case done && info.Refused < left:
		o.Fail("S14", "run %d of %s says that the target did not take %d documents, and it left out %d", r.ID(), r.p.Name, info.Refused, left)
	case done && (info.Written > took || info.Written < took-again):
		o.Fail("S14", "run %d of %s says that it wrote %d documents, and the target took %d", r.ID(), r.p.Name, info.Written, took)
	case done && info.BytesWritten != told.Bytes:
		o.Fail("S14", "run %d of %s says that it sent %d bytes, and the target took %d", r.ID(), r.p.Name, info.BytesWritten, told.Bytes)
	case int64(len(info.Refusals)) != min(info.Refused, listed):
		o.Fail("S14", "run %d of %s lists %d of %d refusals", r.ID(), r.p.Name, len(info.Refusals), info.Refused)
	case done && refused > 0 && info.Refused == refused && (peers.Revision{ID: info.Refusals[0].ID, Rev: info.Refusals[0].Rev}) != told.Newest:
		o.Fail("S14", "run %d of %s lists %v as the newest refusal, which was of %s", r.ID(), r.p.Name, info.Refusals[0], told.Newest)
	}
}

// listed is how many of the latest refusals a run lists.
const listed = 10

// checkThrough is a part of S14: a run that has nothing left to do has come through as far as its source said last, also where
// that had nothing for it.
func (o *Oracle) checkThrough(r *run, info replication.Info) {
	source, end := r.begin.source, r.saved.end
	if end != "" && o.goesOn(r) && source.Number(info.ThroughSeq) != source.Number(end) && !sameNumber(info.ThroughSeq, end) {
		o.Fail("S14", "run %d of %s has read all through %s, and tells %s", r.ID(), r.p.Name, end, info.ThroughSeq)
	}
}
