package oracle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// strays looks for what must not last.
type strays struct{ *chronicle }

var straySubject = subject{
	invariants: []Invariant{
		{"S4", "A job whose document was deleted, or whose request was canceled, is gone, and stops running in a while."},
		{"S12", "Where the next run of a replication would begin, the target has everything before."},
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
		c.on.atRest.add(func(struct{}) { o.checkLogs() })
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

// checkLogs is S12: whatever is in the logs of a replication's two databases, the point at which its next
// run would begin is covered by the target.
func (o *strays) checkLogs() {
	for _, id := range slices.Sorted(maps.Keys(o.shadows)) {
		s := o.shadows[id]
		if s.header == nil || s.record.BaseID == "" {
			continue
		}
		rep, err := o.w.Store().Spec(o.w.Present(), id)
		if err != nil || rep == nil || rep.Filter.Kind == spec.FunctionFilter { // the function may be another one now
			continue
		}
		source, target := o.w.Database(rep.Source.URL), o.w.Database(rep.Target.URL)
		if source == nil || target == nil {
			continue
		}
		start := o.logs.agreed(source, target, s.record.BaseID)
		if lost := o.missing(rep, source, target, source.Number(start)); lost != "" {
			o.Fail("S12", "job %s would begin at %s, and %s is not on %s", id, start, lost, target)
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
