package oracle

import (
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// completeness are the invariants of what arrives, and what is told of that.
type completeness struct{ *chronicle }

var completenessSubject = subject{
	invariants: []Invariant{
		{"S13", "Every leaf that the source offered is on the target, or was refused there."},
		{"S14", "A job tells what its runs read, and what its target took and refused, no more and no less."},
		{"S15", "No revision is invented or altered, and a database shows all that it has."},
		{"S23", "A job tells of no fewer pending changes than there are."},
	},
	begin: func(c *chronicle) {
		o := &completeness{c}
		c.on.altered.add(func(f world.Altered) { o.Fail("S15", "%s in %s %s", f.Name, f.DB, f.What) })
		c.on.runTells.add(func(t telling) {
			o.checkPending(t.run, t.info)
			o.checkWritten(t.run, t.info, false)
		})
		c.on.runSaidEnd.add(func(e ending) {
			o.checkComplete(e.run, e.end)
			o.checkPending(e.run, e.end.Info)
			o.checkWritten(e.run, e.end.Info, e.completed())
			if e.completed() {
				o.checkThrough(e.run, e.end.Info)
			}
		})
		c.on.atRest.add(func(struct{}) { o.checkDone() })
	},
}

// checkComplete is S13 for one-shots: what was on the source when the run began is on the target when it
// says that it is done.
func (o *completeness) checkComplete(r *run, e replication.End) {
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
func (o *completeness) checkPending(r *run, info replication.Info) {
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
func (o *completeness) checkDone() {
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
func (o *completeness) checkWritten(r *run, info replication.Info, done bool) {
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
func (o *completeness) checkThrough(r *run, info replication.Info) {
	source, end := r.begin.source, r.saved.end
	if end != "" && o.goesOn(r) && source.Number(info.ThroughSeq) != source.Number(end) && !sameNumber(info.ThroughSeq, end) {
		o.Fail("S14", "run %d of %s has read all through %s, and tells %s", r.ID(), r.p.Name, end, info.ThroughSeq)
	}
}
