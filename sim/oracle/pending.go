package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// backlogs judge the number of changes to come that a run tells.
type backlogs struct{ *chronicle }

var backlogSubject = subject{
	invariants: []Invariant{
		{"S23a", "A run whose source told how many changes are to come tells of a number."},
		{"S23b", "A job tells of no fewer pending changes than there are."},
		{"S23c", "A run that has done all its source has tells of no pending changes."},
		{"S23d", "A run whose source does not tell how many changes are to come asks for that once."},
		{"S30x", "A run has its source count the changes to come every 30 seconds at most."},
	},
	begin: func(c *chronicle) {
		bl := &backlogs{c}
		c.on.runCalls.add(func(c call) {
			if op, is := c.op.(peer.CountPending); is {
				bl.checkAsked(c.run, op)
			}
		})
		c.on.runReplied.add(func(a reply) { a.backlog.note(a.Reply, a.counts.rows, c.w.Now()) })
		c.on.runTells.add(func(t telling) { bl.check(t.run, t.info) })
		c.on.runSaidEnd.add(func(e ending) { bl.check(e.run, e.end.Info) })
		c.on.atRest.add(func(struct{}) { bl.checkDone() })
	},
}

// backlog is the number of changes to come as the source told it to a run. Only backlogs change it.
type backlog struct {
	asked    peer.Seq     // behind which the source was last asked to count
	rows     int64        // that had been read when it was
	ended    bool         // the feed has ended since, so that the number is of no use
	answered instant.Time // when the source last answered with a number; 0 when it never did
	untold   bool         // the source has answered that it does not tell
	known    instant.Time // since when the run knows a number; 0 while it does not
	left     int64        // that number, less the rows that have come since the question
}

// countEvery is how long a run leaves a source alone that has counted the changes to come, which may take a
// view's rebuild.
const countEvery = 30 * time.Second

// checkAsked is S23d and S30x, and notes the question. The same question may be repeated, as after a failure.
func (bl *backlogs) checkAsked(r *run, op peer.CountPending) {
	b := &r.backlog
	if b.untold {
		bl.Fail("S23d", "%s asks how many changes are to come, and its source has said that it does not tell", r)
	}
	if op.Since == b.asked {
		return
	}
	if since := bl.w.Now().Sub(b.answered); b.answered != 0 && since < countEvery {
		bl.Fail("S30x", "%s has its source count %s after the last time", r, since)
	}
	b.asked, b.rows, b.ended = op.Since, r.counts.rows, false
}

// note notes an answer, whose rows are among those read.
func (b *backlog) note(reply peer.Reply, rows int64, now instant.Time) {
	switch got := reply.Result.(type) {
	case peer.Pending:
		if !b.ended {
			b.answered, b.untold = now, got.Count < 0
		}
		b.known, b.left = now, got.Count-(rows-b.rows)
	case peer.Changes:
		if b.left -= int64(len(got.Rows)); got.End {
			b.known, b.ended = 0, true
		}
	}
	if b.left < 0 || b.ended {
		b.known = 0
	}
}

// check is S23a and S23b. The changes that are due for certain are those that the source had when the run
// began, that the replication selects and that are not done. A run may know no number yet, then it tells -1.
// A filter function may select something else by now, and a source that was made again or put back counts
// otherwise: neither is judged. A node that stood still has not heard of the number, perhaps.
func (bl *backlogs) check(r *run, info replication.Info) {
	if !bl.goesOn(r) {
		return
	}
	rep, now := r.Replication(), bl.w.Now()
	source := bl.w.Database(rep.Source.URL)
	if info.ChangesPending < 0 {
		if told := r.backlog.known; told > max(0, r.p.PausedLast()) && now > told {
			bl.Fail("S23a", "%s from %s was told how much is to come, and does not know", r, source)
		}
		return
	}
	if rep.Filter.Kind == spec.FunctionFilter {
		return
	}
	left, last := int64(0), source.Number(r.begin.last)
	done := max(source.Number(info.ThroughSeq), beginsAt(rep, source))
	for _, offer := range source.OffersAfter(done, rep.Filter, rep.WinningRevsOnly) {
		if offer.Number <= last {
			left++
		}
	}
	if left > info.ChangesPending {
		bl.Fail("S23b", "%s from %s says that %d changes are pending, and %d are",
			r, source, info.ChangesPending, left)
	}
}

// checkDone is S23c. A run that waits to repeat a request does not know yet which changes that brings.
func (bl *backlogs) checkDone() {
	for _, r := range bl.runs {
		source, info := bl.w.Database(r.Replication().Source.URL), r.Info()
		if source == nil || source != r.begin.source || info.Waiting != "" {
			continue
		}
		if source.Number(info.ThroughSeq) == source.Number(source.Last()) && info.ChangesPending > 0 {
			bl.Fail("S23c", "%s has done all of %s, and says that %d changes are pending",
				r, source, info.ChangesPending)
		}
	}
}
