package oracle

import (
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

// transactions are the invariants of how nodes use their store.
type transactions struct{ *chronicle }

var transactionSubject = subject{
	invariants: []Invariant{
		{"S17c", "A request that is carried out once more right after its commit changes nothing."},
		{"S17d", "No transaction of a node is too large for the store, or ends with an error that another " +
			"attempt gets over."},
	},
	begin: func(c *chronicle) {
		t := &transactions{c}
		c.on.askFailed.add(t.checkError)
		c.on.repeated.add(t.checkRepeated)
	},
}

// checkRepeated demands that a request may be repeated: a client whose answer is lost cannot know that it
// committed.
func (t *transactions) checkRepeated(f world.Repeated) {
	if f.Changed {
		t.Fail("S17c", "%s repeated changed the store", f.Request)
	}
}

// checkError demands that a request fails only because of the store. One that is too large fails on every
// node and every time, so that nothing behind it is ever done; a failure that another attempt gets over is to
// be tried again.
func (t *transactions) checkError(f world.AskFailed) {
	switch kv.CodeOf(f.Err) {
	case kv.TransactionTooLarge, kv.KeyTooLarge, kv.ValueTooLarge,
		kv.NotCommitted, kv.TransactionTooOld, kv.FutureVersion, kv.ProcessBehind, kv.DatabaseLocked,
		kv.TagThrottled, kv.CommitUnknownResult:
		t.Fail("S17d", "%s: %v", f.Request, f.Err)
	}
}
