package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/protocol"
	"couchrelay/sim/world"
)

// stalls judge which runs are taken for stalled, and that those are which get nowhere.
type stalls struct{ *chronicle }

var stallSubject = subject{
	invariants: []Invariant{
		{"S36a", "A run is taken for stalled only if for the stall timeout it heard of no change and no " +
			"document, was not asked to slow down, and waited for no document."},
		{"S36b", "A run is taken for stalled only while it knows of changes that are pending."},
		{"S36c", "A run without a filter whose feed stays silent, though it knows of changes, is ended soon " +
			"after the stall timeout."},
	},
	begin: func(c *chronicle) {
		st := &stalls{c}
		c.on.runStarted.add(func(r *run) { r.stall.timeout = r.p.applied.StallTimeout })
		c.on.runReplied.add(st.note)
		c.on.runCancels.add(func(x cancel) {
			if carriesDocuments(x.Op) {
				x.stall.gotOn = c.w.Now()
			}
		})
		c.on.runSaidEnd.add(st.checkEnd)
		c.on.ticked.add(func(world.Ticked) { st.checkSilent() })
	},
}

// stall is when a run last got on. Only stalls change it.
type stall struct {
	timeout time.Duration // by the settings when the run began; 0 for ever
	gotOn   instant.Time  // it heard of changes or documents, or had a reason to wait
	may     instant.Time  // it may have got on: by a checkpoint, or what the target lacks; or a server asks it to wait
	goal    peer.Seq      // where its source was by the answer to the run's request to open it
	left    int64         // changes to come, as the last whole answer of the feed told, less the rows since
}

// note notes an answer. What comes before the feed may take long, on a slow line. A document that was waited for counts
// however its request ended. That the target lacks something may be about documents that it refused long ago; and the
// last checkpoint of a stalled run may be written, or answered 429.
func (st *stalls) note(a reply) {
	now := st.w.Now()
	changes, _ := a.Result.(peer.Changes)
	_, reads := a.op.(peer.ReadChanges)
	slower := a.Failure != nil && protocol.Throttles(a.Failure)
	if !a.feed.begun || carriesDocuments(a.op) || len(changes.Rows) > 0 || reads && slower {
		a.stall.gotOn = now
	}
	switch got := a.Result.(type) {
	case peer.LocalWritten, peer.Diff:
		a.stall.may = max(a.stall.may, now)
	case peer.Changes:
		a.stall.may, a.stall.left = max(a.stall.may, now), a.stall.left-int64(len(got.Rows))
		if got.End {
			a.stall.left = got.Pending
		}
	case peer.Opened:
		if op, _ := a.op.(peer.Open); op.Side == peer.Source && !a.feed.begun {
			a.stall.goal = got.UpdateSeq
		}
	}
	if slower {
		a.stall.may = max(a.stall.may, now.Add(min(a.Failure.RetryAfter, maxPause)))
	}
}

func carriesDocuments(op peer.Op) bool {
	switch op.(type) {
	case peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		return true
	}
	return false
}

// checkEnd is S36a and S36b. A checkpoint may be the run's last.
func (st *stalls) checkEnd(e ending) {
	if e.end.Trouble.Error != "stalled" {
		return
	}
	if quiet := st.w.Now().Sub(e.stall.gotOn); e.stall.timeout == 0 || quiet < e.stall.timeout {
		st.Fail("S36a", "%s got on %s ago, and ended after %s as %s", e.run, quiet, e.stall.timeout, e.end.Trouble)
	}
	if !st.goesOn(e.run) {
		return
	}
	source := e.begin.source
	if source.Number(e.feed.read) > source.Number(e.end.Info.ThroughSeq) {
		return // it has read rows that are not done
	}
	counted := e.backlog.known != 0 && e.backlog.left > 0
	behind := e.run.readTo(source) < source.Number(e.stall.goal) // though what follows may be purged
	knows := e.stall.left > 0 || !e.feed.ended && (counted || behind)
	if e.Replication().Filter.Kind != spec.NoFilter || !knows {
		st.Fail("S36b", "%s has done all that it knew of at %s, and ended as %s",
			e.run, e.end.Info.ThroughSeq, e.end.Trouble)
	}
}

// readTo is the number of the sequence up to which a run has read its source.
func (r *run) readTo(source *peers.DB) int64 {
	return max(source.Number(r.feed.from), source.Number(r.feed.read))
}

// lacks reports whether a run has not read changes that its source had when it was at a sequence.
func (st *stalls) lacks(r *run, source *peers.DB, at peer.Seq) bool {
	read := r.readTo(source)
	offers := source.OffersAfter(read, r.Replication().Filter, r.Replication().WinningRevsOnly)
	return len(offers) > 0 && read < source.Number(at)
}

// knows reports whether a run can tell that there are changes: by numbers of an unclustered source, or since the source
// has counted.
func (st *stalls) knows(r *run) bool {
	return r.begin.source.Server.Numeric || r.backlog.known != 0 && r.backlog.left > 0
}

// stallSlack is how long after the stall timeout a run may write its last checkpoint.
const stallSlack = 2 * time.Minute

// checkSilent is S36c. Only silence while the node was awake counts.
func (st *stalls) checkSilent() {
	for _, r := range st.runs {
		now, f := st.w.Now(), &r.feed
		since := max(r.Began(), r.stall.gotOn, r.stall.may, r.p.PausedLast())
		silent := r.stall.timeout > 0 && now.Sub(since) > r.stall.timeout+stallSlack
		if !silent || !f.begun || f.ended || r.stopped || !st.goesOn(r) ||
			r.Replication().Filter.Kind != spec.NoFilter {
			continue
		}
		reads := false
		for _, op := range r.InFlight() {
			if carriesDocuments(op) {
				reads = false
				break
			}
			if read, is := op.(peer.ReadChanges); is && !read.Wait {
				reads = true
			}
		}
		if reads && st.lacks(r, r.begin.source, r.begin.last) && st.knows(r) {
			st.Fail("S36c", "%s waits for changes of %s, and got nowhere since %s", r, r.begin.source, since)
		}
	}
}
