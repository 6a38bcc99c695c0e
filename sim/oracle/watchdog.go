package oracle

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

// strays looks for what must not last.
type strays struct{ *chronicle }

var straySubject = subject{
	invariants: []Invariant{
		{"S4", "A job whose document was deleted, or whose request was canceled, is gone, and stops running in a while."},
		{"S17", "A transaction is as small as the store wants, carried out twice it leaves the same state, and a run or worker that is over leaves nothing behind."},
	},
	begin: func(c *chronicle) {
		o := &strays{c}
		c.on.ticked.add(func(world.Ticked) { o.checkStrays() })
		c.on.askFailed.add(func(f world.AskFailed) { o.checkLimits(f.Request, f.Err) })
		c.on.repeated.add(func(f world.Repeated) {
			if f.Changed {
				o.Fail("S17", "%s repeated changed the store", f.Request)
			}
		})
		c.on.runSaidEnd.add(func(e ending) {
			if e.Kept() > 0 && e.completed() {
				o.Fail("S17", "run %d of %s completed and left %d groups of bodies", e.ID(), e.p.Name, e.Kept())
			}
		})
	},
}

// strayLimit is how long a node may run a job that is not its own any more: until it looks through all that
// it owns, which may be repeated for as long as its heartbeats get through, and a run that stops slowly.
func (p *process) strayLimit() time.Duration {
	return 4*p.Settings().ActivityTimeout + p.Settings().StopTimeout + 2*time.Minute
}

// checkStrays is the bound of S4: a run whose job is gone or somebody else's ends in a while, unless its node
// cannot know.
func (o *strays) checkStrays() {
	now := o.w.Now()
	for _, r := range o.runs {
		switch {
		case o.holds(r), r.p.Disturbed():
			r.strayed = instant.Never
		case r.strayed == instant.Never:
			r.strayed = now
		case now.Sub(r.strayed) > r.p.strayLimit():
			o.Fail("S4", "%s runs job %s for %s though it is not its own any more", r.p.Name, r.JobID(), now.Sub(r.strayed))
		}
	}
}

// checkLimits is the first half of S17: no transaction of a node is larger than the store takes, and none ends with what
// another attempt gets over.
func (o *strays) checkLimits(what fmt.Stringer, err error) {
	switch kv.CodeOf(err) {
	case kv.TransactionTooLarge, kv.KeyTooLarge, kv.ValueTooLarge,
		kv.NotCommitted, kv.TransactionTooOld, kv.FutureVersion, kv.ProcessBehind, kv.DatabaseLocked, kv.TagThrottled, kv.CommitUnknownResult:
		o.Fail("S17", "%s: %v", what, err)
	}
}
