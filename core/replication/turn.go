package replication

import (
	"slices"

	"couchrelay/core/instant"
)

// turn is the time of the run in its slot.
type turn struct {
	*Run

	begun instant.Time // when the run got its slot; without meaning while it is idle
	first instant.Time // when it asked for the first documents; 0 before
	asked instant.Time // when it was told to give way; 0 before
	gave  bool         // it has answered that with GivesWay
}

// due is when a delayed run makes its first request.
func (t *turn) due() instant.Time { return t.begun.Add(t.plan.Delay) }

// giveWay tells that the run may be stopped for another job, once all documents are over that it began in the first
// half of the time from its first document until it was told so. Otherwise a document that takes longer than a turn
// would be begun anew in each turn, for ever; so the first ones are finished in every turn. What comes before the first
// comes anew in each turn, and does not count. One whose attempt fails has lost its time already, and does not keep the
// slot for a pause. The run copies other documents as well meanwhile, as the slot is taken anyway.
func (t *turn) giveWay() {
	if t.asked == 0 || t.gave || t.phase == ended || t.stopping {
		return
	}
	early := t.first.Add(t.asked.Sub(t.first) / 2)
	stays := func(c *call) bool { return c.id != 0 && ofDocuments(c.op) && c.began <= early }
	if !slices.ContainsFunc(t.calls, stays) {
		t.gave = true
		t.emit(GivesWay{})
	}
}
