package replication

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

const (
	// stalledStop bounds the time that a stalled run has for its last checkpoint: its databases may be what
	// does not answer.
	stalledStop = 30 * time.Second
	// stoodStill is how late a step may be at most to end a run as stalled. A process that stood still for
	// longer has answers that it has not heard yet.
	stoodStill = time.Second
)

// stallWatch ends a run that gets nowhere although changes are pending. The adapter bounds how long one request
// may be silent and how long a slow one may trickle, and retries have bounds of their own; so what is left
// above all is a source that keeps its feed open with heartbeats and sends no rows.
type stallWatch struct {
	*Run

	seen    milestone
	since   instant.Time // of the last step at which seen changed, or the run was idle for a good reason
	trouble Trouble      // why the run ends; Error is empty unless it is stalled
	bound   instant.Time // when it ends without its last checkpoint; without meaning while it is not stalled
}

// milestone is how far a run has come. Every sign of progress changes it: rows of the feed, or its position;
// answers of _revs_diff; documents read, written and refused; checkpoints.
type milestone struct {
	since, checkpoint                     peer.Seq
	rows, checked, read, written, refused int64
}

func (s *stallWatch) milestone() milestone {
	i := &s.info
	return milestone{s.feed.since, s.commits.committed, s.feed.rows, i.MissingChecked, i.DocsRead, i.Written, i.Refused}
}

// look sets the clock forward if there was progress, or if the run waits for a good reason. It is called before an
// event takes effect and after, so that a good reason counts until the event that ends it.
func (s *stallWatch) look() {
	if m := s.milestone(); m != s.seen || !s.suspicious() {
		s.seen, s.since = m, s.now
	}
}

// suspicious reports whether the run should get on: changes are pending, and it does not wait for the store to list
// what was refused, until it may ask a server again that said 429, or for documents. Of these the run hears nothing
// before they are over; an attachment that takes hours is no stall as long as it moves, and the adapter ends a
// request that does not.
func (s *stallWatch) suspicious() bool {
	if s.phase != copying || s.stopping || len(s.refused.storing) > 0 || !s.awaitsChanges() && !s.work.open() {
		return false
	}
	for _, c := range s.calls {
		if waits := c.id == 0 && asksForLess(c.failure); waits || c.id != 0 && ofDocuments(c.op) {
			return false
		}
	}
	return true
}

// asksForLess reports whether a server said that it is asked too much.
func asksForLess(f *peer.Failure) bool { return f != nil && f.Kind == peer.Status && f.Status == 429 }

// awaitsChanges reports whether the source is known to have changes that were not read. One that filters may
// send heartbeats for hours while it scans, so nothing is known of it. A source that has told no number had at
// least the changes up to where it was when it was opened.
func (s *stallWatch) awaitsChanges() bool {
	f := &s.feed
	if s.plan.Filtered || f.caught || f.over {
		return false
	}
	return f.pending > 0 || f.pending < 0 && f.since.Before(f.goal)
}

// open reports whether rows were read that are not done.
func (p *pipeline) open() bool { return len(p.batches) > 0 }

// ofDocuments reports whether an operation carries documents.
func ofDocuments(op peer.Op) bool {
	switch op.(type) {
	case peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		return true
	}
	return false
}

// due returns when the run is stalled unless it gets on before, and then when it ends at the latest.
func (s *stallWatch) due() instant.Time {
	switch {
	case s.trouble.Error != "":
		return s.bound
	case s.plan.StallTimeout == 0 || !s.suspicious():
		return instant.Never
	}
	return s.since.Add(s.plan.StallTimeout)
}

// endWhenStalled stops a stalled run: in order, as Stop does, but not for longer than stalledStop.
func (s *stallWatch) endWhenStalled() {
	s.look()
	due := s.due()
	switch {
	case s.now < due:
	case s.trouble.Error != "":
		// Reached: a stalled run gets no last checkpoint
		s.crash(s.trouble)
	case s.now.Sub(due) > stoodStill:
		// Reached: a node that stood still takes no run for stalled
		s.since = s.now
	default:
		// Reached: a run is stalled
		s.trouble, s.bound = Trouble{Error: "stalled", Reason: s.reason()}, s.now.Add(stalledStop)
		s.stop()
	}
}

// reason says what the run waited for, and for how long.
func (s *stallWatch) reason() string {
	what := "the changes of the source"
	if f := &s.feed; !s.work.open() && f.pending > 0 {
		what = fmt.Sprintf("%d changes of the source", f.pending)
	}
	for _, c := range s.calls {
		if _, diff := c.op.(peer.DiffRevs); diff || ofDocuments(c.op) {
			what = "the answer to " + c.op.String()
			break
		}
	}
	text := fmt.Sprintf("nothing was read, written or refused for %s; the run waited for %s", s.plan.StallTimeout, what)
	if waiting := s.Info().Waiting; waiting != "" {
		text += "; the last attempt: " + waiting
	}
	return text
}

// stopped is the end of a run that was stopped in order, or that stopped since it was stalled.
func (s *stallWatch) stopped() End {
	if s.trouble.Error != "" {
		return End{Cause: Crashed, Trouble: s.trouble}
	}
	return End{Cause: Stopped}
}
