package oracle

import (
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// completeness judges which documents arrive, and how many the run counts.
type completeness struct{ *chronicle }

var completenessSubject = subject{
	invariants: []Invariant{
		{"S13", "Every leaf that the source offered is on the target, or was refused there."},
		{"S14d", "A run counts the documents that its target refused: no more, and when it is done all " +
			"that it left out."},
		{"S14e", "A run that is done counts the documents and bytes that its target took."},
		{"S14f", "A run lists its latest ten refusals, the newest first."},
		{"S14g", "A run that has nothing left to do has come through all that its source told of, also " +
			"where that had nothing for it."},
		{"S15d", "A revision is on every server as its author made it."},
	},
	begin: func(c *chronicle) {
		cm := &completeness{c}
		c.on.altered.add(func(f world.Altered) { cm.Fail("S15d", "%s in %s %s", f.Name, f.DB, f.What) })
		c.on.runTells.add(func(t telling) {
			cm.checkRefused(t.run, t.info)
			cm.checkList(t.run, t.info)
		})
		c.on.runSaidEnd.add(func(e ending) {
			cm.checkRefused(e.run, e.end.Info)
			cm.checkList(e.run, e.end.Info)
			if e.completed() {
				cm.checkArrived(e.run)
				cm.checkDone(e.run, e.end.Info)
				cm.checkThrough(e.run, e.end.Info)
			}
		})
		c.on.atRest.add(func(struct{}) { cm.checkAtRest() })
	},
}

// checkArrived is S13, for a one-shot that says that it is done: each leaf that was on the source when it
// began is on the target.
func (cm *completeness) checkArrived(r *run) {
	if !cm.asBegun(r) || r.lookup.mistaken {
		return
	}
	rep, source := r.Replication(), r.begin.source
	target := cm.w.Database(rep.Target.URL)
	if lost := cm.missing(rep, source, target, source.Number(r.begin.last)); lost != "" {
		cm.Fail("S13", "%s from %s to %s is done, and %s has not arrived", r, source, target, lost)
	}
}

// checkRefused is a bound of S14d that holds at any time.
func (cm *completeness) checkRefused(r *run, info replication.Info) {
	if told := r.Told().Refused; info.Refused > told && !r.lenient() {
		cm.Fail("S14d", "%s says that the target did not take %d documents, and it was told so %d times",
			r, info.Refused, told)
	}
}

// checkDone is S14d and S14e, for a run that is done. A document copied twice may count once or twice, and
// one that was refused when it was copied alone may have been taken later.
func (cm *completeness) checkDone(r *run, info replication.Info) {
	told := r.Told()
	switch {
	case info.Refused < told.LeftOut:
		cm.Fail("S14d", "%s says that the target did not take %d documents, and it left out %d",
			r, info.Refused, told.LeftOut)
	case info.Written > told.Took || info.Written < told.Took-told.Again:
		cm.Fail("S14e", "%s says that it wrote %d documents, and the target took %d",
			r, info.Written, told.Took)
	case info.BytesWritten != told.Bytes:
		cm.Fail("S14e", "%s says that it sent %d bytes, and the target took %d",
			r, info.BytesWritten, told.Bytes)
	case r.lenient():
	case len(info.Refusals) > 0 && info.Refused == told.Refused && nameOf(info.Refusals[0]) != told.Newest:
		cm.Fail("S14f", "%s lists %v as the newest refusal, which was of %s",
			r, info.Refusals[0], told.Newest)
	}
}

func nameOf(r peer.Refusal) peers.Revision { return peers.Revision{ID: r.ID, Rev: r.Rev} }

// listed is how many of the latest refusals a run lists.
const listed = 10

// checkList is the length of S14f.
func (cm *completeness) checkList(r *run, info replication.Info) {
	if int64(len(info.Refusals)) != min(info.Refused, listed) {
		cm.Fail("S14f", "%s lists %d of %d refusals", r, len(info.Refusals), info.Refused)
	}
}

// checkAtRest is S14g for runs that do nothing any more but wait for changes. One that waits for the store, or whose
// node asks it for the run, does more: refused documents are kept in a list there, before it goes on behind them.
func (cm *completeness) checkAtRest() {
	asking := map[string]bool{} // jobs
	for q := range cm.w.Asking() {
		if held, is := q.(node.HeldRequest); is {
			asking[held.HeldJob().JobID] = true
		}
	}
	for _, r := range cm.runs {
		info := r.Info()
		if asking[r.JobID()] || r.saving.store > 0 {
			continue
		}
		for _, op := range r.InFlight() {
			if _, reads := op.(peer.ReadChanges); reads && r.Flights() == 1 && info.Waiting == "" {
				cm.checkThrough(r, info)
			}
		}
	}
}

// checkThrough is S14g: the next run begins there, and users see there how far the replication has come.
func (cm *completeness) checkThrough(r *run, info replication.Info) {
	source, end := r.begin.source, r.feed.end
	if end == "" || !cm.goesOn(r) {
		return
	}
	if source.Number(info.ThroughSeq) == source.Number(end) || sameNumber(info.ThroughSeq, end) {
		return
	}
	cm.Fail("S14g", "%s has read all through %s, and tells %s", r, end, info.ThroughSeq)
}
