package oracle

import (
	"encoding/json"
	"slices"
	"strings"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

// onRefusal judges what becomes of a job whose target refuses documents.
type onRefusal struct {
	*chronicle
	ended map[string]*run    // the last run of a job that has said its end
	sizes map[string]counted // of lists, by job
}

// counted is how many refusals are in a list and beyond it, and whether the job has one.
type counted struct {
	rows   int
	beyond int64
	begun  bool
}

var verdictSubject = subject{
	invariants: []Invariant{
		{"S71a", "When a one-shot is done, each revision that the target refused its run, and lacks, is in the list " +
			"of refused documents, or counted beyond it."},
		{"S71b", "When a one-shot is done, the list has no revision that the target took from its run alone, unless " +
			"the target cannot read which revisions of a document are asked for."},
		{"S71c", "The list is not longer than it may be, and refusals are counted beyond it only when it is full."},
		{"S71d", "When something leaves the list, and when it begins, the job's record says that checkpoints are to " +
			"tell that."},
		{"S73a", "Under on_refusal fail a run ends when its target refuses a document for good, and asks for " +
			"nothing more."},
		{"S73b", "A run says that it ends for a refusal only under on_refusal fail, and names a revision that the " +
			"target refused for good."},
		{"S73c", "A job that fails for a refusal tells so with the document, and lists it."},
		{"S73d", "A job that is completed under on_refusal fail lists nothing that its source has, whatever it " +
			"was told before."},
		{"S74", "The document of a one-shot that is done says how many revisions are in the list and beyond it."},
	},
	begin: func(c *chronicle) {
		o := &onRefusal{c, map[string]*run{}, map[string]counted{}}
		c.on.runCalls.add(func(x call) { x.verdicts.called(x) })
		c.on.runStepped.add(func(s runStep) { o.checkGoesOn(s) })
		c.on.runSaidEnd.add(func(e ending) {
			o.checkEnd(e)
			o.ended[e.JobID()] = e.run
		})
		c.on.followed.add(func(l landing) {
			for _, id := range l.jobs {
				o.checkSize(id, l)
				o.checkStored(id, l)
			}
		})
	},
}

// verdicts are what the target of a run said about revisions, as far as the run has heard. Only onRefusal changes
// them.
type verdicts struct {
	refused map[peers.Revision]int  // for good, so often
	took    map[peers.Revision]bool // when they were sent alone, and has not refused since
	wrote   map[peers.Revision]bool // the same, and may have refused since
	doubted map[peers.Revision]bool // refused over credentials
	sure    map[again]bool          // sent once more after the target was opened
	after   map[uint64]bool         // copies that were sent after the target was opened for them
	failed  []failedCopy            // copies that are to be sent once more after a pause
	// newer are refused over credentials as well, and came in place of such a revision: a copy sends what the source
	// has by then. The run may take that for the second refusal, or ask once more. Or the target took them before: the
	// copy that had them written passes over them when they come with the rest, and another one does not.
	newer map[peers.Revision]bool
	// unread are documents of which the target could not read which revisions it was asked for. The run does not know
	// which of those listed the target has by now.
	unread map[string]bool
}

// failedCopy is a copy that failed, or that the source lacked something of, or that met a conflict, and whether it was
// sent after the target was opened for it.
type failedCopy struct {
	peer.CopyDoc
	after bool
}

// again is a revision that a copy sends. The same one may be in two copies in flight.
type again struct {
	call uint64
	peers.Revision
}

// called notes a request that is about to leave: a copy of a document that was refused over credentials counts, if
// the target was asked before whether it knows them, and answered that it does. Another copy of the document, which a
// later change brought about, has to ask for itself.
func (v *verdicts) called(c call) {
	copied, is := c.op.(peer.CopyDoc)
	if !is || !opened(c.by) && !v.repeats(copied, c.by) {
		return
	}
	if v.after == nil {
		v.after = map[uint64]bool{}
	}
	v.after[c.id] = true
	for name := range v.doubted { // in any order; newer leaves come in place of those that are asked for
		if name.ID == copied.ID {
			v.sure[again{c.id, name}] = true
		}
	}
}

// opened reports whether a run was told that a database lets it in.
func opened(by replication.Event) bool {
	reply, _ := by.(replication.Reply)
	_, is := reply.Result.(peer.Opened)
	return is
}

// repeats reports whether a copy is surely one that was sent after the target was opened, failed, and is sent once more
// after a pause. If one that was sent before that has failed as well, it may be that.
func (v *verdicts) repeats(op peer.CopyDoc, by replication.Event) bool {
	if _, pause := by.(replication.Wake); !pause {
		return false
	}
	for _, after := range []bool{false, true} {
		i := slices.IndexFunc(v.failed, func(f failedCopy) bool {
			missing := func(rev string) bool { return !slices.Contains(f.Revs, rev) }
			return f.after == after && f.ID == op.ID && !slices.ContainsFunc(op.Revs, missing)
		})
		if i >= 0 {
			v.failed = slices.Delete(v.failed, i, i+1)
			return after
		}
	}
	return false
}

// tooLarge stands for the document of a bulk write that had no other and was too large: it is not named.
var tooLarge peers.Revision

// hear notes an answer that a run is told, and returns what the target refused for good in it.
func (v *verdicts) hear(id uint64, op peer.Op, got peer.Reply) (refused []peers.Revision) {
	if v.refused == nil {
		v.refused = map[peers.Revision]int{}
		v.took, v.wrote = map[peers.Revision]bool{}, map[peers.Revision]bool{}
		v.doubted, v.sure = map[peers.Revision]bool{}, map[again]bool{}
		v.newer, v.unread = map[peers.Revision]bool{}, map[string]bool{}
	}
	if diff, is := op.(peer.DiffRevs); is && len(diff.Docs) == 1 && got.Failure != nil && got.Failure.Status == 400 {
		v.unread[diff.Docs[0].ID] = true
	}
	if write, is := op.(peer.WriteDocs); is && len(write.Docs) == 1 && is413(got.Failure) {
		return []peers.Revision{tooLarge}
	}
	repeats := got.Failure != nil
	asksFirst := false // whether the target lets the run in
	switch result := got.Result.(type) {
	case peer.Written:
		for _, r := range result.Refused {
			if r.Error == "unauthorized" || r.Error == "forbidden" {
				refused = append(refused, nameOf(r))
			}
		}
	case peer.Copied:
		for _, rev := range result.Revs {
			name := peers.Revision{ID: op.(peer.CopyDoc).ID, Rev: rev.Rev}
			switch {
			case rev.Missing:
				repeats = true
			case rev.Refused == nil:
				v.took[name], v.wrote[name] = true, true
			case v.forGood(again{id, name}, rev.Refused):
				refused = append(refused, name)
			case overCredentials(rev.Refused):
				asksFirst = true
			default:
				repeats = true
			}
		}
	}
	for _, name := range refused {
		v.refused[name]++
		delete(v.took, name)
		v.newer[name] = v.newer[name] || v.wrote[name]
	}
	if copied, is := op.(peer.CopyDoc); is && repeats && !asksFirst {
		v.failed = append(v.failed, failedCopy{copied, v.after[id]})
	}
	return slices.DeleteFunc(refused, func(name peers.Revision) bool { return v.wrote[name] })
}

// overCredentials reports whether a target refused a document in words that it may have for each of our requests.
func overCredentials(r *peer.Refusal) bool {
	return (r.Status == 401 || r.Status == 403) && (r.Error == "unauthorized" || r.Error == "forbidden") ||
		r.Status == 400 && r.Error != ""
}

func is413(f *peer.Failure) bool { return f != nil && f.Kind == peer.Status && f.Status == 413 }

// forGood reports whether a refusal is about the document. One over credentials is, when it comes a second time
// though the target lets the run in.
func (v *verdicts) forGood(sent again, r *peer.Refusal) bool {
	name := sent.Revision
	switch r.Status {
	case 400, 401, 403:
		switch {
		case !overCredentials(r):
			return false
		case v.sure[sent]:
			return true
		}
		for other := range v.doubted {
			v.newer[name] = v.newer[name] || other != name && other.ID == name.ID
		}
		v.doubted[name] = true
		return false
	case 413, 415:
		return true
	}
	return r.Status == 500 && r.Error == "TypeError" // of the validation functions of this world
}

// heard is hear for the event of a step.
func (r *run) heard(asked peer.Op, ev replication.Event) []peers.Revision {
	if write, is := asked.(peer.WriteDocs); is && len(write.Docs) > 0 && r.bulk.inline[write.Docs[0].Fetch] {
		if reply := ev.(replication.Reply); is413(reply.Failure) {
			return nil // with attachments inside; smaller parts of it may be taken, or copies of single documents
		}
	}
	if reply, is := ev.(replication.Reply); is && asked != nil {
		return r.verdicts.hear(reply.ID, asked, reply.Reply)
	}
	return nil
}

// checkGoesOn is S73a for a run that goes on.
func (o *onRefusal) checkGoesOn(s runStep) {
	refused := s.heard(s.asked, s.ev)
	if len(refused) > 0 && s.Replication().OnRefusal == spec.FailRefused {
		o.Fail("S73a", "%s goes on under on_refusal fail, though its target refused %v", s.run, refused)
	}
}

// checkEnd is S73a and S73b for a run that ends. One that is told of a failure with a refusal may end for either.
func (o *onRefusal) checkEnd(e ending) {
	refused := e.heard(e.asked, e.ev)
	fails := e.Replication().OnRefusal == spec.FailRefused
	blames := e.end.Refused != nil || e.end.Trouble.Error == "refused"
	answer, _ := e.ev.(replication.Reply)
	named := slices.Contains(refused, tooLarge)
	if r := e.end.Refused; r != nil {
		named = named || slices.Contains(refused, nameOf(r.Refusal)) || e.verdicts.newer[nameOf(r.Refusal)]
	}
	switch {
	case fails && !blames && len(refused) > 0 && !fatal(answer):
		o.Fail("S73a", "%s ends as %v with %s, though its target refused %v",
			e.run, e.end.Cause, e.end.Trouble, refused)
	case !blames:
	case !fails:
		o.Fail("S73b", "%s ends for a refusal under on_refusal %q: %s", e.run, e.Replication().OnRefusal, e.end.Trouble)
	case !named || e.end.Cause != replication.Failed || e.end.Trouble.Error != "refused":
		o.Fail("S73b", "%s was refused %v, and ends with %+v", e.run, refused, e.end)
	}
}

// fatal reports whether an answer has what ends a run beside refusals: a failure, or a revision that the target did
// not take though it must.
func fatal(r replication.Reply) bool {
	copied, _ := r.Result.(peer.Copied)
	return r.Failure != nil && !is413(r.Failure) || slices.ContainsFunc(copied.Revs, func(rev peer.CopiedRev) bool {
		return rev.Refused != nil && !overCredentials(rev.Refused) &&
			!slices.Contains([]int{401, 403, 413, 415, 500}, rev.Refused.Status)
	})
}

// checkSize is S71c.
func (o *onRefusal) checkSize(jobID string, l landing) {
	was, now := o.sizes[jobID], counted{rows: len(o.lists[jobID].rows)}
	if s := o.shadows[jobID]; s.header != nil && s.record.Refused != nil {
		now.beyond, now.begun = s.record.Refused.Beyond, s.record.Refused.By != ""
	}
	o.sizes[jobID] = now
	added := 1 // by the end of a run
	switch q := l.Request.(type) {
	case node.StoreRefused:
		added = len(q.Findings)
		o.checkLeft(jobID, was.rows-now.rows, !was.begun)
	case node.Fail:
		o.checkLeft(jobID, was.rows-now.rows, !was.begun && q.Refused != nil)
	}
	if now.rows > o.maxListed() || now.beyond > was.beyond && was.rows+added <= o.maxListed() {
		o.Fail("S71c", "job %s lists %d refused documents, of %d, and %d beyond; it listed %d, and %d beyond",
			jobID, now.rows, o.maxListed(), now.beyond, was.rows, was.beyond)
	}
}

// checkLeft is S71d, for a list that has lost so many revisions, or begins.
func (o *onRefusal) checkLeft(jobID string, lost int, begins bool) {
	s := o.shadows[jobID]
	if lost <= 0 && !begins || s.header == nil || s.record.Refused == nil {
		return
	}
	if of := s.record.Refused; of.Left != of.Changes {
		o.Fail("S71d", "the list of job %s begins (%v), or %d have left it, so state %d is to be told, not %d",
			jobID, begins, max(0, lost), of.Changes, of.Left)
	}
}

// checkStored judges what a request stores of the refusals of its run.
func (o *onRefusal) checkStored(jobID string, l landing) {
	s := o.shadows[jobID]
	held, is := heldBy(l.Request)
	if !is || held.JobID != jobID || s.header == nil {
		return
	}
	switch q := l.Request.(type) {
	case node.Fail:
		o.checkFailed(jobID, s, q)
	case node.Complete:
		r := o.ended[jobID]
		if r != nil && r.Lock() == held.Lock && s.record.State.Terminal() {
			o.checkList(jobID, s, r)
			o.checkNumber(s, o.sizes[jobID])
			if r.Replication().OnRefusal == spec.FailRefused {
				o.checkNoneLeft(jobID, r)
			}
		}
	}
}

// checkNoneLeft is S73d.
func (o *onRefusal) checkNoneLeft(jobID string, r *run) {
	source := o.w.Database(r.Replication().Source.URL)
	for name := range o.lists[jobID].rows { // in any order
		if source != nil && source.Has(name.ID, name.Rev) {
			o.Fail("S73d", "%s is done under on_refusal fail, and lists %s, which %s has", r, name, source)
		}
	}
}

// checkFailed is S73c.
func (o *onRefusal) checkFailed(jobID string, s *shadow, q node.Fail) {
	if q.Refused == nil || !s.record.State.Terminal() {
		return
	}
	name, told := nameOf(q.Refused.Refusal), s.record
	_, listed := o.lists[jobID].rows[name]
	beyond := told.Refused != nil && told.Refused.Beyond > 0
	if told.Error != "refused" || !strings.Contains(told.Reason, name.ID) || !listed && !beyond {
		o.Fail("S73c", "job %s failed since %s was refused, which is listed: %v, and tells %s: %s",
			jobID, name, listed, told.Error, told.Reason)
	}
}

// checkList is S71a and S71b.
func (o *onRefusal) checkList(jobID string, s *shadow, r *run) {
	if !o.asBegun(r) {
		return
	}
	rows, rep, source := o.lists[jobID].rows, r.Replication(), r.begin.source
	target := o.w.Database(rep.Target.URL)
	for name, row := range rows { // in any order
		took := r.verdicts.took[name] && target.Has(name.ID, name.Rev)
		if took && !row.Failed && !r.verdicts.unread[name.ID] { // what failed may have got through
			o.Fail("S71b", "%s is done, and lists %s, which %s has taken from it", r, name, target)
		}
	}
	if s.record.Refused != nil && s.record.Refused.Beyond > 0 {
		return
	}
	for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
		for _, rev := range offer.Revs {
			name := peers.Revision{ID: offer.ID, Rev: rev}
			_, is := rows[name]
			if !is && r.verdicts.refused[name] > 0 && !target.Has(name.ID, name.Rev) {
				o.Fail("S71a", "%s is done, and %s, which %s refused, is not listed", r, name, target)
			}
		}
	}
}

// checkNumber is S74, for a document that says since this commit how its job ended.
func (o *onRefusal) checkNumber(s *shadow, n counted) {
	for _, t := range o.w.Tenants() {
		if s.instance() != jobstore.DocumentJobs(t.Instance()) {
			continue
		}
		var told struct {
			State string `json:"_replication_state"`
			Stats struct {
				Refused int64 `json:"refused"`
			} `json:"_replication_stats"`
		}
		doc := o.document(t, s.record.DocID)
		if doc == nil || json.Unmarshal(doc.Body, &told) != nil || told.State != "completed" {
			continue
		}
		if told.Stats.Refused != int64(n.rows)+n.beyond {
			o.Fail("S74", "document %s says that %d revisions were refused, and its job lists %d, and %d beyond",
				s.record.DocID, told.Stats.Refused, n.rows, n.beyond)
		}
	}
}
