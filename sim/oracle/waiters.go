package oracle

import (
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

// waiters are the invariants of users who wait for a state of a job.
type waiters struct {
	*chronicle
	all     []*waiting
	changes map[string]instant.Time // by job, of the engine
}

// waiting is a user who waits. Moments are of the engine, 0 for never.
type waiting struct {
	*world.Waiter
	p      *process
	so     instant.Time // since when the job has been as wanted, while it is
	looked instant.Time // when the last look began
	armed  instant.Time // when it was over, and a watch set
	due    instant.Time // when the watch should have fired
	misled bool         // the watch may be late, or never fire
	seen   []*shadow    // the job as it has been since the look began
}

// wokenWithin is how long a user may wait for what is so.
const wokenWithin = 2 * time.Second

var waiterSubject = subject{
	invariants: []Invariant{
		{"S79a", "A user who waits for a job is told only what has been so since the last look."},
		{"S79b", "A user who waits for a job is not told to wait for what is so, and is woken within two seconds " +
			"once it is so, unless the watch is lost or late."},
	},
	begin: func(c *chronicle) {
		w := &waiters{chronicle: c, changes: map[string]instant.Time{}}
		c.on.waiterLooks.add(func(f world.WaiterLooks) { w.looks(w.of(f.Waiter)) })
		c.on.waiterWaits.add(func(f world.WaiterWaits) { w.waits(w.of(f.Waiter)) })
		c.on.waiterWoken.add(func(f world.WaiterWoken) { w.checkWoken(w.of(f.Waiter)) })
		c.on.waiterLearns.add(func(f world.WaiterLearns) { w.checkLearned(w.of(f.Waiter), f.Learned) })
		c.on.waiterLeaves.add(func(f world.WaiterLeaves) {
			w.all = slices.DeleteFunc(w.all, func(u *waiting) bool { return u.Waiter == f.Waiter })
		})
		c.on.nodeUp.add(func(p *process) {
			w.all = slices.DeleteFunc(w.all, func(u *waiting) bool { return u.p.Node == p.Node })
		})
		c.on.jobChanged.add(w.changed)
		c.on.faultHit.add(w.mislead)
	},
}

func (w *waiters) of(who *world.Waiter) *waiting {
	for _, u := range w.all {
		if u.Waiter == who {
			return u
		}
	}
	u := &waiting{Waiter: who, p: w.process(who.Node)}
	if w.isWanted(u, w.shadows[u.JobID]) {
		u.so = max(1, w.changes[u.JobID])
	}
	w.all = append(w.all, u)
	return u
}

// isWanted reports whether a job is as a user wants it.
func (w *waiters) isWanted(u *waiting, s *shadow) bool {
	if s == nil || s.header == nil {
		return true
	}
	over := s.header.State == jobs.Finished
	switch u.Wanted {
	case world.Running:
		return over || s.header.State == jobs.Running
	case world.Named:
		return over || s.record.RepID != ""
	case world.Compared:
		return over || s.record.Stats.RevisionsChecked > 0
	}
	return over
}

func (w *waiters) looks(u *waiting) {
	u.looked, u.armed, u.due, u.misled = w.w.Now(), 0, 0, false
	u.seen = []*shadow{w.shadows[u.JobID]}
}

// waits is S79b for a look that did not find what was there. A commit after the look ends the watch at once. So does a
// commit at the moment of the look, which the look need not see: no user has been told of it yet.
func (w *waiters) waits(u *waiting) {
	u.armed = w.w.Now()
	if u.so == 0 {
		return
	}
	if u.due = u.armed; u.so < u.looked {
		w.Fail("S79b", "a user of %s has looked at job %s at %s, and waits for what is so since %s",
			u.p.Name, u.JobID, u.looked, u.so)
	}
}

// changed follows a job for which users wait.
func (w *waiters) changed(j jobChange) {
	w.changes[j.id] = w.w.Now()
	for _, u := range w.all {
		if u.JobID != j.id {
			continue
		}
		u.seen = append(u.seen, j.after)
		switch now := w.w.Now(); {
		case !w.isWanted(u, j.after):
			u.so = 0
		case u.so == 0:
			if u.so = now; u.armed != 0 && u.due == 0 {
				u.due = now
			}
		}
	}
}

// mislead takes note of a watch that is late or lost: one of the watches that a node sets now.
func (w *waiters) mislead(f world.FaultHit) {
	for _, u := range w.all {
		if u.armed == 0 && u.p.Name == f.Whom && strings.Contains(f.Name, "watch") {
			u.misled = true
		}
	}
}

// checkWoken is S79b. A process that stood still hears of it when it goes on.
func (w *waiters) checkWoken(u *waiting) {
	stood := max(u.p.PausedLast(), u.p.Awoke()) >= u.due
	if late := w.w.Now().Sub(u.due); u.due != 0 && late > wokenWithin && !u.misled && !stood {
		w.Fail("S79b", "a user of %s waits for job %s, which is as wanted since %s, and is woken %s late",
			u.p.Name, u.JobID, u.due, late)
	}
}

// checkLearned is S79a.
func (w *waiters) checkLearned(u *waiting, l world.Learned) {
	was := slices.ContainsFunc(u.seen, func(s *shadow) bool {
		if s == nil || s.header == nil {
			return l.Gone
		}
		state := s.record.State
		if s.header.State == jobs.Pending && state == jobstore.Running {
			state = jobstore.Pending // its worker has vanished
		}
		same := l.State == state && l.RepID == s.record.RepID
		if u.Wanted == world.Running {
			same = l.Header == s.header.State
		}
		return !l.Gone && same && w.isWanted(u, s)
	})
	if !was {
		w.Fail("S79a", "a user of %s is told of job %s that it is %+v, which it has not been since %s",
			u.p.Name, u.JobID, l, u.looked)
	}
}
