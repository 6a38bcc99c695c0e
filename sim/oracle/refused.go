package oracle

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// refusedLists compare the lists of refused documents with the answers of targets.
type refusedLists struct {
	*chronicle
	answers map[string]map[peers.Revision][]int // the statuses of refusals, by job
	whole   map[string][]int                    // likewise, of bulk writes that were refused as a whole
	inRun   map[*run]map[peers.Revision]bool    // refused since the run began
}

// refusedList is the list of a job. A replication with another base id has checkpoints, and so a list, of its own.
type refusedList struct {
	base   string // that of a job which does not know its own yet is the one before
	rows   map[peers.Revision]refusedRow
	beyond int64        // refusals that are only counted
	of     instant.Time // when the job came that has it
}

type refusedRow struct {
	Status   int
	Error    string
	First    instant.Time
	Last     instant.Time
	Attempts int
	Failed   bool // it was not refused, but could not be copied
}

// triedUnder reports whether runs try a row again by themselves. A proxy that takes no body of that size has no word.
func (row refusedRow) triedUnder(policy spec.OnRefusal) bool {
	proxy := row.Status == 413 && row.Error == ""
	return policy != spec.SkipRefused || row.Failed || proxy
}

var refusedSubject = subject{
	invariants: []Invariant{
		{"S42a", "Before a checkpoint covers a revision that the target refused, the list of the job's refused " +
			"documents has it, or it is counted beyond the list, or it is on the target."},
		{"S42b", "The list has revisions that the target refused, with the status of an answer, and counts " +
			"all attempts."},
		{"S42c", "A revision leaves the list only when the target has it, or the source has a newer one, or the job " +
			"replicates something else."},
		{"S42d", "A job counts the rows of its list of refused documents."},
		{"S42e", "A job that is made anew keeps its list if it copies the same between the same databases; if not, " +
			"the list begins anew, as soon as that is known."},
	},
	begin: func(c *chronicle) {
		l := &refusedLists{
			chronicle: c, answers: map[string]map[peers.Revision][]int{}, whole: map[string][]int{},
			inRun: map[*run]map[peers.Revision]bool{},
		}
		c.on.runReplied.add(l.replied)
		c.on.runEnded.add(func(r *run) { delete(l.inRun, r) })
		c.on.runStepped.add(l.leavesOut)
		c.on.logWritten.add(l.checkCovered)
		c.on.followed.add(func(f landing) {
			for _, id := range f.jobs {
				l.follow(id)
			}
		})
	},
}

// lenient reports whether the run leaves out documents that it cannot copy, since five before it crashed in a row, or
// without getting further.
func (r *run) lenient() bool {
	return max(r.Record().ErrorCount, r.Record().Stuck) >= 5 && r.Replication().OnRefusal != spec.FailRefused
}

// leavesOut notes what a lenient run lists: the target did not have to refuse it.
func (l *refusedLists) leavesOut(s runStep) {
	target := l.w.Database(s.Replication().Target.URL)
	if !s.lenient() || target == nil {
		return
	}
	for _, e := range s.effects {
		listed, _ := e.(replication.Refused)
		for _, f := range listed.Findings {
			if !f.Over {
				l.denied[target.String()+" "+f.ID+" "+f.Rev] = true
			}
		}
	}
}

// replied notes what the target refused. After most refusals of bulk writes a run copies the documents alone.
func (l *refusedLists) replied(r reply) {
	if f := r.Failure; f != nil && f.Kind == peer.Status {
		if _, writes := r.op.(peer.WriteDocs); writes {
			l.whole[r.JobID()] = append(l.whole[r.JobID()], f.Status)
		}
	}
	if f := r.Failure; f != nil && slices.Contains(r.counts.triable, documentOf(r.op)) {
		l.whole[r.JobID()] = append(l.whole[r.JobID()], f.Status) // an attempt that broke off counts, too
	}
	switch result := r.Result.(type) {
	case peer.Written:
		for _, v := range result.Refused {
			l.note(r.run, v)
		}
	case peer.Copied:
		for _, c := range result.Revs {
			if c.Refused == nil {
				continue
			}
			l.note(r.run, *c.Refused)
			if slices.Contains(r.counts.triable, documentOf(r.op)) { // the rest of the attempt ends with it
				l.whole[r.JobID()] = append(l.whole[r.JobID()], c.Refused.Status)
			}
		}
	}
}

// documentOf is the document that a request copies alone.
func documentOf(op peer.Op) string {
	c, _ := op.(peer.CopyDoc)
	return c.ID
}

func (l *refusedLists) note(r *run, v peer.Refusal) {
	rev, id := nameOf(v), r.JobID()
	if l.answers[id] == nil {
		l.answers[id] = map[peers.Revision][]int{}
	}
	if l.inRun[r] == nil {
		l.inRun[r] = map[peers.Revision]bool{}
	}
	l.answers[id][rev], l.inRun[r][rev] = append(l.answers[id][rev], v.Status), true
}

// checkCovered is S42a, for what was refused to the run that sends the checkpoint. S42c tells of earlier runs.
func (l *refusedLists) checkCovered(f world.LogWritten) {
	r, source, target := l.writer(f.ID)
	head, err := l.logs.head(f.Body)
	if err != nil || r == nil || len(l.inRun[r]) == 0 || l.senders[head.session] != r.Run || !l.asBegun(r) {
		return
	}
	s := l.shadows[r.JobID()]
	if !l.holds(r) || s.record.Refused != nil && s.record.Refused.Beyond > 0 {
		return
	}
	rep, from, through := r.Replication(), source.Number(r.feed.from), source.Number(peer.Seq(head.seq))
	for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
		for _, rev := range offer.Revs {
			name := peers.Revision{ID: offer.ID, Rev: rev}
			_, listed := l.lists[r.JobID()].rows[name]
			read := offer.Number > from && offer.Number <= through // else it came in place of a listed one
			if read && l.inRun[r][name] && !target.Has(offer.ID, rev) && !listed {
				l.Fail("S42a", "%s checkpoints %s, and %s, which %s refused, is not listed", r, head.seq, name, target)
			}
		}
	}
}

// follow reads the list of a job again that a commit changed.
func (l *refusedLists) follow(jobID string) {
	s, before := l.shadows[jobID], l.lists[jobID]
	if s.header == nil || s.record.Refused == nil && before.rows == nil {
		delete(l.lists, jobID)
		return
	}
	after := refusedList{base: cmp.Or(s.record.BaseID, before.base), rows: l.read(jobID), of: s.came}
	if s.record.Refused != nil {
		after.beyond = s.record.Refused.Beyond
	}
	l.lists[jobID] = after
	if told := s.record.Refused; told != nil && told.Listed != int64(len(after.rows)) ||
		told == nil && len(after.rows) > 0 {
		l.Fail("S42d", "job %s has %d refused documents in its list, and counts %+v", jobID, len(after.rows), told)
	}
	for name, row := range after.rows { // in any order: a job whose list is wrong fails whatever it has
		l.checkRow(jobID, name, before.rows[name], row)
	}
	switch {
	case before.base == after.base && s.came != l.w.Now():
		l.checkGone(jobID, before, after)
	case (len(before.rows) > 0 || before.beyond > 0) && !s.isOver():
		l.checkKept(jobID, before, after)
	}
}

// checkKept is S42e. The document of a job that is over by its user's word has no list.
func (l *refusedLists) checkKept(jobID string, before, after refusedList) {
	same := maps.Equal(before.rows, after.rows) && before.beyond == after.beyond
	switch {
	case before.base != after.base && (len(after.rows) > 0 || after.beyond > 0):
		l.Fail("S42e", "job %s copies %s now, and has %v and %d beyond in the list of %s",
			jobID, after.base, after.rows, after.beyond, before.base)
	case before.base == after.base && before.of != after.of && !same:
		l.Fail("S42e", "job %s is made anew and copies %s as before, and its list was %v and %d beyond, and is %v, %d",
			jobID, after.base, before.rows, before.beyond, after.rows, after.beyond)
	}
}

// read is the list of a job as it is stored.
func (l *refusedLists) read(jobID string) map[peers.Revision]refusedRow {
	space := l.w.Store().Keys.Refused.Sub(jobID)
	found, err := l.w.Present().GetRange(space.Range(), kv.RangeOptions{})
	rows := map[peers.Revision]refusedRow{}
	for _, kv := range found {
		var name peers.Revision
		var row refusedRow
		if err == nil {
			err = space.Scan(kv.Key, &name.ID, &name.Rev)
		}
		if err == nil {
			err = json.Unmarshal(kv.Value, &row)
		}
		rows[name] = row
	}
	if err != nil {
		l.unreadable("list of refused documents of job "+jobID, err)
	}
	return rows
}

// checkRow is S42b, for a row that may be as it was before.
func (l *refusedLists) checkRow(jobID string, name peers.Revision, before, now refusedRow) {
	if before.Attempts == now.Attempts && before.Last == now.Last {
		return
	}
	r := l.runOf(jobID)
	if r != nil && r.lenient() {
		return
	}
	lacking := now.Status == 404 // by its source, of which this knows nothing
	answered := slices.Contains(l.answers[jobID][name], now.Status) || slices.Contains(l.whole[jobID], now.Status)
	// What is tried again may fail, on whichever side that is, and nobody knows any more whether a run that is over was
	// lenient.
	failed := now.Failed && (before.Attempts > 0 || r == nil)
	if !lacking && !answered && !failed {
		l.Fail("S42b", "job %s lists %s with status %d, and the target answered %v", jobID, name, now.Status,
			l.answers[jobID][name])
	}
	most := before.Attempts + len(l.answers[jobID][name]) + len(l.whole[jobID]) // one in bulk, another alone, say
	if failed {
		most++
	}
	counts := now.Attempts > before.Attempts && now.Attempts <= most
	if !counts || before.Attempts > 0 && before.First != now.First {
		l.Fail("S42b", "job %s lists %s after %+v as %+v", jobID, name, before, now)
	}
}

// checkGone is S42c. It judges changes of runs whose databases have lost nothing.
func (l *refusedLists) checkGone(jobID string, before, after refusedList) {
	r := l.runOf(jobID)
	if r == nil || !l.holds(r) || !l.asBegun(r) {
		return
	}
	rep := r.Replication()
	source, target := l.w.Database(rep.Source.URL), l.w.Database(rep.Target.URL)
	leaves := map[peers.Revision]bool{}
	for _, offer := range source.OffersAfter(0, rep.Filter, rep.WinningRevsOnly) {
		for _, rev := range offer.Revs {
			leaves[peers.Revision{ID: offer.ID, Rev: rev}] = true
		}
	}
	for name := range before.rows { // in any order
		if _, stays := after.rows[name]; !stays && leaves[name] && !target.Has(name.ID, name.Rev) {
			l.Fail("S42c", "%s is not in the list of %s any more, and %s has not got it", name, r, target)
		}
	}
}
