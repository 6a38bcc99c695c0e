package oracle

import (
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// checkpoints judge which changes checkpoints cover, and where runs begin by them.
type checkpoints struct {
	*chronicle
	oneSided map[string]oneSided // by id of the log
	written  int                 // checkpoints so far, some of which are judged
}

var checkpointSubject = subject{
	invariants: []Invariant{
		{"S11a", "A checkpoint that both sides have covers nothing that the target has not stored."},
		{"S11b", "What is written as a checkpoint can be read as one."},
		{"S12", "Where the next run of a replication would begin, the target has everything before."},
		{"S16i", "The counters of a run go on from those of the checkpoint at which it begins."},
		{"S21j", "What a one-shot has done is covered by its checkpoint when it is over."},
		{"S21k", "Checkpoints are written to both sides, if both store them: never to one of them 30 times in " +
			"a row."},
		{"S27", "A run begins where the checkpoints on both sides last agree, or where its replication " +
			"says when they never did."},
		{"S27a", "A source that stores no checkpoints is not taken for the one that it was, once it was put back to " +
			"before the last change that was read of it."},
	},
	begin: func(c *chronicle) {
		cp := &checkpoints{c, map[string]oneSided{}, 0}
		c.on.logWritten.add(cp.checkLog)
		c.on.runCalls.add(cp.called)
		c.on.runReplied.add(cp.replied)
		c.on.runSaidEnd.add(cp.checkOver)
		c.on.atRest.add(func(struct{}) { cp.checkLogs() })
	},
}

// filterSettles is how long a run may go on to checkpoint changes that it read with a filter function that is
// another one by now.
const filterSettles = 5 * time.Minute

// checkLog is S11a and S11b, called before the log is written. A run that crashes begins at its checkpoint,
// so a change that is covered and not on the target is lost. The checkpoint counts only when the other side
// has it already. A filter function that was edited lately selected something else, perhaps, when the run
// read its changes.
func (cp *checkpoints) checkLog(f world.LogWritten) {
	if !cp.sampled(&cp.written) {
		return
	}
	head, err := cp.logs.head(f.Body)
	if err != nil {
		cp.Fail("S11b", "checkpoint on %s: %v", f.DB, err)
		return
	}
	r, source, target := cp.writer(f.ID)
	if source == nil || target == nil || r.lookup.mistaken {
		return
	}
	alone := f.DB == target && cp.logs.read(f.Body).lone != nil
	if !alone && !r.saving.lone && source.Deny[peers.Logs] == nil {
		cp.checkBothSides(f.DB, f.ID)
	}
	if cp.senders.madeSince(r, head.session, source, target) {
		return
	}
	other := source
	if f.DB == source {
		other = target
	}
	if second, err := cp.logs.head(other.Log(f.ID)); !alone && (err != nil || second.session != head.session) {
		return
	}
	rep := r.Replication()
	if rep.Filter.Kind == spec.FunctionFilter && cp.w.Now().Sub(source.Edited) < filterSettles {
		return
	}
	if lost := cp.missing(rep, source, target, source.Number(peer.Seq(head.seq))); lost != "" {
		cp.Fail("S11a", "checkpoint at %s on %s by %s, but %s is not on %s", head.seq, f.DB, r, lost, target)
	}
}

// maxOneSided is how often in a row a checkpoint may be written to one side only. Runs end between the two
// writes again and again while the other side does not answer.
const maxOneSided = 30

// oneSided counts the checkpoints of a replication that were written to one database and not to the other.
type oneSided struct {
	db *peers.DB
	n  int
}

// checkBothSides is S21k: a checkpoint that only one side has is worth nothing. When only some writes are
// judged, those to the other side may be among the rest.
func (cp *checkpoints) checkBothSides(db *peers.DB, id string) {
	if cp.w.Config().Sample > 1 {
		return
	}
	last := cp.oneSided[id]
	if last.db != db {
		last = oneSided{db: db}
	}
	last.n++
	cp.oneSided[id] = last
	if last.n > maxOneSided {
		cp.Fail("S21k", "checkpoint %s was written to %s %d times in a row, and not to the other side",
			id, db, last.n)
	}
}

// lookup is a run's search for its checkpoint. Only checkpoints change it.
type lookup struct {
	begun bool     // the run has asked for a log
	fresh bool     // the run is another replication than its job was before, which had no log then
	found bothLogs // as they were then
	// restored is how often the source had been put back when the run last asked for its last change.
	restored int
	// mistaken says that the run knows its source by nothing but its last change, which another one may have had.
	mistaken bool
	// denied says that the source refused to tell whether it has such a change.
	denied bool
}

// called hears of every request of a run before it leaves.
func (cp *checkpoints) called(c call) {
	r := c.run
	switch op := c.op.(type) {
	case peer.GetLocal:
		if !r.lookup.begun && op.ID == r.Base() {
			r.lookup = lookup{begun: true, fresh: cp.isFresh(r), found: cp.logsOf(r)}
		}
	case peer.FindRev:
		if source, _ := cp.checkpointed(r.Replication()); source != nil {
			r.lookup.restored = source.Restored()
			r.lookup.mistaken = r.lookup.mistaken || mistakable(source)
		}
	case peer.ReadChanges:
		if !r.feed.begun && cp.foundStands(r) {
			cp.checkStart(r, op)
			cp.checkGoesOn(r)
		}
	}
}

// isFresh reports whether a run is another replication than its job was before, which has no checkpoint.
func (cp *checkpoints) isFresh(r *run) bool {
	rec := r.Record()
	source, target := cp.w.Database(rec.Source), cp.w.Database(rec.Target)
	return rec.RepID != "" && rec.RepID != r.RepID() && source != nil && target != nil &&
		source.Log(r.Base()) == nil && target.Log(r.Base()) == nil
}

// foundStands reports whether the logs that a run found can be judged, and are as they were when it looked
// for them. A database that was made again since the run opened it is another one for the run. A run without
// checkpoints may have found a log under the id of an older server, and leaves it there, as does one whose source lets
// it read only.
func (cp *checkpoints) foundStands(r *run) bool {
	l := r.lookup.found
	switch {
	case r.Record().Reset != 0:
		return false // S90f tells
	case r.lookup.denied:
		return false // of the newest change that is as if the source had it
	case l.source != nil && (!r.Replication().UseCheckpoints || r.saving.moved) &&
		(l.source.Log(r.Base()) == nil || l.target.Log(r.Base()) == nil):
		return false // S95a tells
	}
	return l.source != nil && l == cp.logsOf(r) && max(l.source.Since, l.target.Since) <= r.Began()
}

// checkStart is S27: a run that begins too late loses changes, and one that begins too early reads changes
// again.
func (cp *checkpoints) checkStart(r *run, op peer.ReadChanges) {
	l := &r.lookup.found
	if l.source.Number(op.Since) != l.source.Number(l.start) {
		cp.Fail("S27", "%s from %s to %s begins at %s, and the checkpoints agree at %s",
			r, l.source, l.target, op.Since, l.start)
	}
}

// maxLeaves is how many leaves of a document a run looks for.
const maxLeaves = 51

// replied notes whether logs are found under older ids, and is S27a. A run that takes such a source for the one that
// it was lacks the changes that got the numbers of those that are gone. A feed with a filter, or of winning revisions,
// does not tell which revision is new with a change.
func (cp *checkpoints) replied(a reply) {
	if op, is := a.op.(peer.GetLocal); is {
		got, _ := a.Result.(peer.Local)
		a.saving.older[op.Side] = a.saving.older[op.Side] || got.Found && op.ID != a.Base()
		return
	}
	op, looks := a.op.(peer.FindRev)
	if looks && a.Failure != nil && final(a.Failure) {
		a.lookup.denied = true
	}
	found, _ := a.Result.(peer.RevFound)
	source, target := cp.checkpointed(a.Replication())
	if !looks || !found.Found || source == nil || source.Restored() != a.lookup.restored {
		return
	}
	rep, last := a.Replication(), cp.logs.read(target.Log(a.Base())).lone
	filters := rep.Filter.Kind != spec.NoFilter && rep.Filter.Kind != spec.DocIDs
	if last == nil || last.ID != op.ID || filters || rep.WinningRevsOnly || len(last.leaves()) >= maxLeaves {
		return
	}
	other := func(rev string) bool { return !slices.Contains(op.Revs, rev) }
	if a.feed.begun && slices.ContainsFunc(last.leaves(), other) {
		return // it looks for what it has read itself
	}
	if peers.Lost(source, peer.Seq(last.Seq), op.ID) {
		cp.Fail("S27a", "%s takes %s for the one that it was, which has lost the change of %s at %s",
			a.run, source, op.ID, last.Seq)
	}
}

// sessionOf is the newest session of a log.
func sessionOf(log []byte) string {
	var told struct {
		Session string `json:"session_id"`
	}
	if json.Unmarshal(log, &told) != nil {
		return ""
	}
	return told.Session
}

// checkGoesOn is S16i: users see the totals of the job, over all its runs.
func (cp *checkpoints) checkGoesOn(r *run) {
	l, base := &r.lookup.found, r.Base()
	last, _ := cp.logs.common(l.source, l.target, base, r.readerOf())
	anew := cp.logs.lacksList(l.source, l.target, base, r.readerOf())
	if sessionOf(l.source.Log(base)) != sessionOf(l.target.Log(base)) || anew {
		return // a run whose job was gone wrote a log late, under the one of the next run, which counted by itself
	}
	for _, raw := range historyOf(l.source.Log(base)) {
		var told struct {
			Session string `json:"session_id"`
			checkpoint.Counters
		}
		if err := json.Unmarshal(raw, &told); err != nil || told.Session != last.session {
			continue
		}
		if counts := r.counts.base; fewer(counts, told.Counters) {
			cp.Fail("S16i", "%s begins with %+v, and its checkpoint has %+v", r, counts, told.Counters)
		}
	}
}

// checkOver is S21j: the next run of the replication would copy all again. A source that was made again with
// the same changes is excused like one with others, since its first log counts for the database before only, and so is
// a run over whose log another one wrote its own. A checkpoint that relies on the list of a job is of no use to the job
// that was made in its place, or to none; nor is one that relies on a list without room for all once its rows are over:
// the next run tries again what had no place.
func (cp *checkpoints) checkOver(e ending) {
	if !e.completed() || e.run.saving.overwritten() || !cp.asBegun(e.run) ||
		e.begin.source.Start() != e.begin.startS {
		return
	}
	s, relies := cp.shadows[e.JobID()], cp.logs.read(e.begin.target.Log(e.Base())).relies()
	same := s != nil && s.record != nil && s.record.Created == e.Record().Created
	full := same && s.record.Refused != nil && s.record.Refused.Beyond > 0
	if relies != (list{}) && (!same || full) {
		return
	}
	through := e.begin.source.Number(e.begin.last)
	if left := cp.uncovered(e.JobID(), e.Replication(), e.Base(), through); left != "" {
		cp.Fail("S21j", "%s from %s to %s is done, and its checkpoints do not cover %s",
			e.run, e.begin.source, e.begin.target, left)
	}
}

// checkLogs is S12, at rest: whatever is in the logs of a replication's two databases, the target has all
// that the next run would take for done. What a filter function selected when the logs were written is not
// known any more.
func (cp *checkpoints) checkLogs() {
	for _, id := range cp.ids() {
		s := cp.shadows[id]
		if s.header == nil || s.record.BaseID == "" || s.record.State.Terminal() {
			continue // what is stored of a job that is over is what its document says since
		}
		rep, err := s.replication()
		if err != nil || rep == nil {
			continue
		}
		source, target := cp.checkpointed(rep)
		if source == nil || cp.logs.misled(source, target, s.record.BaseID) {
			continue
		}
		start := cp.logs.agreed(source, target, s.record.BaseID, cp.readerOf(id, rep, s.record.BaseID))
		if lost := cp.missing(rep, source, target, source.Number(start)); lost != "" {
			cp.Fail("S12", "job %s would begin at %s, and %s is not on %s", id, start, lost, target)
		}
	}
}
