package cluster

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

// watchEvery is the time between looks at what must not last.
const watchEvery = 30 * time.Second

// watch looks now and then after what only shows in time.
func (o *oracle) watch() {
	o.w.Engine.After(watchEvery, nil, "watchdog", func() {
		o.checkStrays()
		o.checkCounts()
		o.watch()
	})
}

// strayLimit is how long a node may run a job that is not its own any more: until it looks through all that
// it owns, which may be repeated for as long as its heartbeats get through, and a run that stops slowly.
func (p *process) strayLimit() time.Duration {
	return 4*p.settings.ActivityTimeout + p.settings.StopTimeout + 2*time.Minute
}

// checkStrays is the bound of S4: a run whose job is gone or somebody else's ends in a while, unless its node
// cannot know.
func (o *oracle) checkStrays() {
	now := o.w.Engine.Now()
	for _, r := range o.runs {
		o.checkLease(r)
		o.checkStops(r)
		switch {
		case o.holds(r), o.w.disturbed(r.p):
			r.strayed = instant.Never
		case r.strayed == instant.Never:
			r.strayed = now
		case now.Sub(r.strayed) > r.p.strayLimit():
			o.w.fail("S4", "%s runs job %s for %s though it is not its own any more", r.p.Name, r.work.Work.JobID, now.Sub(r.strayed))
		}
	}
}

// disturbed says whether a process cannot know at the moment what the store says.
func (w *Cluster) disturbed(p *process) bool {
	now := w.Engine.Now()
	return w.Engine.Paused(p.Process) || p.isolated > now || w.world.downUntil > now
}

// orphan is L3: a job that the store says is running, and nobody runs.
func (o *oracle) orphan(id string, s *shadow) string {
	if s.header.State != jobs.Running {
		return ""
	}
	for _, r := range o.runs {
		if r.work.Work.JobID == id && r.work.Work.Lock == s.header.Lock {
			return ""
		}
	}
	return fmt.Sprintf("job %s runs under %v, says the store, and nobody runs it", id, s.header.Lock)
}

// checkLogs is S12: whatever is in the logs of a replication's two databases, the point at which its next
// run would begin is covered by the target.
func (o *oracle) checkLogs() {
	for _, id := range slices.Sorted(maps.Keys(o.shadows)) {
		s := o.shadows[id]
		if s.header == nil || s.record.BaseID == "" {
			continue
		}
		rep, err := o.w.store.Spec(o.w.present(), id)
		if err != nil || rep == nil || rep.Filter.Kind == spec.FunctionFilter { // the function may be another one now
			continue
		}
		source, target := o.w.net.find(rep.Source.URL), o.w.net.find(rep.Target.URL)
		if source == nil || target == nil {
			continue
		}
		start := o.logs.agreed(source, target, s.record.BaseID)
		if lost := o.missing(rep, source, target, source.Number(start)); lost != "" {
			o.w.fail("S12", "job %s would begin at %s, and %s is not on %s", id, start, lost, target)
		}
	}
}

// checkLimits is the first half of S17: no transaction of a node is larger than the store takes, and none ends with what
// another attempt gets over.
func (o *oracle) checkLimits(what fmt.Stringer, err error) {
	switch kv.CodeOf(err) {
	case kv.TransactionTooLarge, kv.KeyTooLarge, kv.ValueTooLarge,
		kv.NotCommitted, kv.TransactionTooOld, kv.FutureVersion, kv.ProcessBehind, kv.DatabaseLocked, kv.TagThrottled, kv.CommitUnknownResult:
		o.w.fail("S17", "%s: %v", what, err)
	}
}
