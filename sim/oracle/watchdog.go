package oracle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
)

// strayLimit is how long a node may run a job that is not its own any more: until it looks through all that
// it owns, which may be repeated for as long as its heartbeats get through, and a run that stops slowly.
func (p *process) strayLimit() time.Duration {
	return 4*p.Settings().ActivityTimeout + p.Settings().StopTimeout + 2*time.Minute
}

// checkStrays is the bound of S4: a run whose job is gone or somebody else's ends in a while, unless its node
// cannot know.
func (o *Oracle) checkStrays() {
	now := o.w.Now()
	for _, r := range o.runs {
		o.checkLease(r)
		o.checkStops(r)
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

// orphan is L3: a job that the store says is running, and nobody runs.
func (o *Oracle) orphan(id string, s *shadow) string {
	if s.header.State != jobs.Running {
		return ""
	}
	for _, r := range o.runs {
		if r.JobID() == id && r.Lock() == s.header.Lock {
			return ""
		}
	}
	return fmt.Sprintf("job %s runs under %v, says the store, and nobody runs it", id, s.header.Lock)
}

// checkLogs is S12: whatever is in the logs of a replication's two databases, the point at which its next
// run would begin is covered by the target.
func (o *Oracle) checkLogs() {
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
func (o *Oracle) checkLimits(what fmt.Stringer, err error) {
	switch kv.CodeOf(err) {
	case kv.TransactionTooLarge, kv.KeyTooLarge, kv.ValueTooLarge,
		kv.NotCommitted, kv.TransactionTooOld, kv.FutureVersion, kv.ProcessBehind, kv.DatabaseLocked, kv.TagThrottled, kv.CommitUnknownResult:
		o.Fail("S17", "%s: %v", what, err)
	}
}
