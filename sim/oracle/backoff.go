package oracle

import (
	"time"

	"couchrelay/core/backoff"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
)

// backoffs are the invariants of waits after crashes: they spare servers that are in trouble, and let a job
// go on soon after a single failure.
type backoffs struct {
	*chronicle
	waits map[int]alike // after crashes, by their number in a row
}

var backoffSubject = subject{
	invariants: []Invariant{
		{"S8a", "A job counts its crashes in a row: a new one has none, each adds one, and a healthy run " +
			"ends the count."},
		{"S8b", "Crashes are forgotten by a healthy run or a completion, at the next record, and by " +
			"nothing else."},
		{"S8c", "The wait after a crash is in the last quarter of the least wait, doubled for each crash " +
			"before, up to the longest."},
		{"S8d", "A job does not leave its wait early."},
		{"S8e", "Jobs that crash do not all wait equally long."},
	},
	begin: func(c *chronicle) { c.on.jobMoved.add((&backoffs{c, map[int]alike{}}).check) },
}

// alike are waits after the same number of crashes in a row that were the same, one after the other.
type alike struct {
	wait  time.Duration
	times int
}

const (
	// mayBeAlike is how many waits in a row may be the same by chance.
	mayBeAlike = 3
	// clockError is how far a clock may be ahead for a wait that it gave to be kept. Longer waits may be cut
	// short.
	clockError = 24 * time.Hour
)

// check compares a job before and after a commit. A user who makes a job anew ends its wait and its count.
func (b *backoffs) check(j jobChange) {
	was, is := j.before.record, j.after.record
	if j.anew {
		if is.ErrorCount != 0 {
			b.Fail("S8a", "job %s is new, and has crashed %d times", j.id, is.ErrorCount)
		}
		return
	}
	ran := is.LastUpdated.Sub(was.LastStart)
	healthy := ran > b.w.Config().Backoff.Health
	_, recorded := j.Request.(node.Record)
	_, completed := j.Request.(node.Complete) // also of a job that begins anew then, as a user asked meanwhile
	switch {
	case is.State == jobstore.Crashing && was.State == jobstore.Running:
		b.checkCrash(j, ran)
	case recorded && healthy && is.ErrorCount > 0:
		b.Fail("S8b", "job %s has run for %s, and is still said to have crashed %d times",
			j.id, ran, is.ErrorCount)
	case is.ErrorCount < was.ErrorCount && !completed && !healthy:
		b.Fail("S8b", "job %s: %d crashes were forgotten by %v",
			j.id, was.ErrorCount-is.ErrorCount, j.Request)
	case b.leavesEarly(j):
		b.Fail("S8d", "job %s waits until %s, and was taken out at %s by %v",
			j.id, j.before.header.Due, j.Wall, j.Request)
	}
}

// leavesEarly reports whether a job's wait ends before it is over, by the clock of the node that ends it. A
// wait that only a clock which was more than a day ahead can have given may end at any time.
func (b *backoffs) leavesEarly(j jobChange) bool {
	due := j.before.header.Due
	if due == 0 || j.Request == nil && j.after.record.History[0].Type == "retried" {
		return false
	}
	left := due.Sub(j.Wall)
	return j.after.header.Due != due && left > 0 && left <= b.w.Config().Backoff.Max+clockError
}

// checkCrash looks at the count and the wait that follow a crash.
func (b *backoffs) checkCrash(j jobChange, ran time.Duration) {
	policy := b.w.Config().Backoff
	n, before := j.after.record.ErrorCount, j.before.record.ErrorCount
	want := before + 1
	if ran > policy.Health {
		want = 1
	}
	if n != want {
		b.Fail("S8a", "job %s has crashed %d times in a row after a run of %s, and %d times before",
			j.id, n, ran, before)
	}
	wait, most := j.after.header.Due.Sub(j.after.record.LastUpdated), longestWait(policy, n)
	b.checkSpread(j.id, n, wait)
	if wait > most || wait < most-most/4-time.Microsecond {
		b.Fail("S8c", "job %s waits %s after crash %d in a row, which should be the last quarter of %s",
			j.id, wait, n, most)
	}
}

// longestWait is the definition: min(longest, least*2^(n-1)). It is not taken from the core, whose mistakes
// it would have.
func longestWait(p backoff.Policy, n int) time.Duration {
	return min(p.Max, p.Min<<min(n-1, 20)) // in a million times the least wait is the longest
}

// checkSpread demands that jobs which crash together do not come back together. Waits below a second are too
// short to differ much.
func (b *backoffs) checkSpread(id string, n int, wait time.Duration) {
	last := b.waits[n]
	if last.wait != wait {
		last = alike{wait: wait}
	}
	last.times++
	b.waits[n] = last
	if last.times > mayBeAlike && wait > time.Second {
		b.Fail("S8e", "job %s waits %s after crash %d in a row, as the %d before it did",
			id, wait, n, last.times-1)
	}
}
