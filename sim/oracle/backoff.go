package oracle

import (
	"time"

	"couchrelay/core/backoff"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
)

// backoffs is S8.
type backoffs struct {
	*chronicle
	waits map[int]alike // after crashes, by their number in a row
}

var backoffSubject = subject{
	invariants: []Invariant{{"S8", "The wait after a crash is within its bounds and kept, and crashes are forgotten after a healthy run only."}},
	begin: func(c *chronicle) {
		c.on.jobMoved.add((&backoffs{c, map[int]alike{}}).checkBackoff)
	},
}

// checkBackoff is S8: crashes are counted and forgotten by the rules, the wait after each is within its bounds,
// and nobody runs before it is over, unless only a clock that is more than a day ahead can have given it.
func (o *backoffs) checkBackoff(j jobChange) {
	id, before, after, anew, l := j.id, j.before, j.after, j.anew, j.landing
	b, a := before.record, after.record
	ran, health := a.LastUpdated.Sub(b.LastStart), o.w.Config().Backoff.Health
	_, progress := l.Request.(node.Record)
	switch {
	case anew && a.ErrorCount != 0:
		o.Fail("S8", "job %s is new, and has crashed %d times", id, a.ErrorCount)
	case anew:
	case a.State == jobstore.Crashing && b.State == jobstore.Running:
		o.checkCrash(id, before, after, ran)
	case progress && ran > health && a.ErrorCount > 0:
		o.Fail("S8", "job %s has run for %s, and is still said to have crashed %d times", id, ran, a.ErrorCount)
	case a.ErrorCount < b.ErrorCount && a.State != jobstore.Completed && ran <= health:
		o.Fail("S8", "job %s: %d crashes were forgotten by %v", id, b.ErrorCount-a.ErrorCount, l.Request)
	case before.header.Due > 0 && after.header.Due != before.header.Due && l.Wall < before.header.Due && before.header.Due.Sub(l.Wall) <= o.w.Config().Backoff.Max+24*time.Hour:
		o.Fail("S8", "job %s waits until %s, and was taken out at %s by %v", id, before.header.Due, l.Wall, l.Request)
	}
}

// checkCrash checks what follows a crash.
func (o *backoffs) checkCrash(id string, before, after *shadow, ran time.Duration) {
	policy := o.w.Config().Backoff
	n, expected := after.record.ErrorCount, before.record.ErrorCount+1
	if ran > policy.Health {
		expected = 1
	}
	if n != expected {
		o.Fail("S8", "job %s has crashed %d times in a row after a run of %s, and %d times before", id, n, ran, before.record.ErrorCount)
	}
	wait, most := after.header.Due.Sub(after.record.LastUpdated), longestWait(policy, n)
	o.checkSpread(id, n, wait)
	if wait > most || wait < most-most/4-time.Microsecond {
		o.Fail("S8", "job %s waits %s after crash %d in a row, which should be the last quarter of %s", id, wait, n, most)
	}
}

// longestWait is the definition: min(max, min*2^(n-1)). It is not taken from the core, whose mistakes it would
// have.
func longestWait(p backoff.Policy, n int) time.Duration {
	return min(p.Max, p.Min<<min(n-1, 20)) // in a million times the least wait is the longest
}

// alike are waits after the same number of crashes in a row, one after the other.
type alike struct {
	wait  time.Duration
	times int
}

// checkSpread is a part of S8: jobs that crash together do not come back together. Two waits may be the same
// by chance, four hardly.
func (o *backoffs) checkSpread(id string, n int, wait time.Duration) {
	last := o.waits[n]
	if last.wait != wait {
		last = alike{wait: wait}
	}
	last.times++
	o.waits[n] = last
	if last.times > 3 && wait > time.Second {
		o.Fail("S8", "job %s waits %s after crash %d in a row, as the %d before it did", id, wait, n, last.times-1)
	}
}
