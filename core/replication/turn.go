package replication

import (
	"cmp"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// turn is the time of the run in its slot.
type turn struct {
	*Run

	begun instant.Time // when the run got its slot; without meaning while it is idle
	first instant.Time // when it asked for the first documents; 0 before
	moved instant.Time // when it knew what the target lacks of the first changes, or that there are none; 0 before
	asked instant.Time // when it was told to give way; 0 before
	gave  bool         // it has answered that with GivesWay
}

// due is when a delayed run makes its first request.
func (t *turn) due() instant.Time { return t.begun.Add(t.plan.Delay) }

// moves notes that the run has got as far as to documents, or that there is nothing to copy.
func (t *turn) moves() { t.moved = cmp.Or(t.moved, t.now) }

// giveWay tells that the run may be stopped for another job, once nothing is under way that would be begun anew in
// each turn, for ever, if it were given up now. The run copies other documents as well meanwhile, as the slot is
// taken anyway.
func (t *turn) giveWay() {
	if t.asked == 0 || t.gave || t.phase == ended || t.stopping {
		return
	}
	if !slices.ContainsFunc(t.calls, t.keepsSlot) {
		t.gave = true
		t.emit(GivesWay{})
	}
}

// keepsSlot reports whether the run does not give way before a call is over.
//
// Until the run has moved, every call does, as the way to the first documents is the same in each turn: servers
// may be slow, and a source with a filter may read for longer than a turn before it has a change. Reading ahead of
// the first changes is no part of that way. After that, only the documents count that the run began in the first
// half of the time from the first one until it was told to give way: a document that takes longer than a turn is
// begun early in the next. One that failed keeps the slot for its next attempts: otherwise the run would never
// come to the last one, after which it takes another way. But a run does not wait in its slot for a server that
// asks to come later, and a call that waits for another one does not count.
func (t *turn) keepsSlot(c *call) bool {
	later := func(f *peer.Failure) bool { return f != nil && (asksForLess(f) || f.RetryAfter > 0) }
	if c.id == 0 && (later(c.failure) || c.due == instant.Never || t.opener.premature(c)) {
		return false
	}
	if t.moved == 0 {
		_, reads := c.op.(peer.ReadChanges)
		return !reads || !t.work.open()
	}
	early := t.first.Add(t.asked.Sub(t.first) / 2)
	if t.moved > t.asked {
		early = t.moved
	}
	return (ofDocuments(c.op) || c.doubt) && c.began <= early
}
