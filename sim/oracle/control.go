package oracle

import (
	"slices"
	"strings"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/sim/world"
)

// control are the invariants of orders that users give to jobs, and of holds.
type control struct {
	*chronicle
	orders map[string]*orders // by job
}

var controlSubject = subject{
	invariants: []Invariant{
		{"S90a", "A job that is paused is given to no worker."},
		{"S90b", "A run whose job is paused, or under a hold, ends within some activity timeouts " +
			"and the time to stop."},
		{"S90c", "A pause is kept until a user ends it."},
		{"S90d", "A job that no pause is left for is not parked for one."},
		{"S90e", "A wait that a user has ended is over."},
		{"S90f", "A job starts over only for a user, and the first run after the order begins at the beginning."},
		{"S90g", "The counters of a run that starts over begin at 0."},
		{"S91a", "No job is given to a worker once a hold is in force that stops it."},
		{"S91b", "Jobs that a lifted hold had stopped come back at different times."},
		{"L10", "Once all holds are lifted, no job is parked for one."},
	},
	begin: func(c *chronicle) {
		k := &control{c, map[string]*orders{}}
		c.on.ordered.add(func(f world.Ordered) { k.of(f.ID).asked(f) })
		c.on.obeyed.add(k.obeyed)
		c.on.holdAsked.add(k.holdAsked)
		c.on.holdMade.add(k.holdMade)
		c.on.holdLifted.add(k.holdLifted)
		c.on.landed.add(k.landed)
		c.on.jobChanged.add(k.checkNew)
		c.on.jobMoved.add(k.checkGiven)
		c.on.followed.add(k.checkReleased)
		c.on.runCalls.add(k.checkStart)
		c.on.ticked.add(func(world.Ticked) { k.checkRuns(); k.checkPauses() })
		c.on.unsettled = append(c.on.unsettled, k.unsettled)
	},
}

// orders are what users have asked of a job. Moments are of the engine, 0 for never.
type orders struct {
	paused  instant.Time // since when a user knows that the job is paused, while no user asks for the end of that
	resumed instant.Time // when a user asked last for the end of a pause
	resumes bool         // no answer has come to that, so that it may end a later pause
	ended   instant.Time // when an answer to such a wish came last: it may have ended a pause that was asked for before
	reset   instant.Time // since when a user knows that the job is to start over, while no run has
}

func (k *control) of(id string) *orders {
	o := k.orders[id]
	if o == nil {
		o = &orders{}
		k.orders[id] = o
	}
	return o
}

func (o *orders) asked(f world.Ordered) {
	switch f.Verb {
	case world.Resume:
		o.paused, o.resumed, o.resumes = 0, f.At, true
	case world.Cancel:
		*o = orders{resumed: f.At}
	}
}

// obeyed takes note of an order that is carried out. A job that is made anew by another user in the meantime
// knows nothing of it.
func (k *control) obeyed(f world.Obeyed) {
	o, s := k.of(f.ID), k.shadows[f.ID]
	if s == nil || s.header == nil || s.record.State.Terminal() || s.came >= f.Asked {
		return
	}
	switch f.Verb {
	case world.Resume:
		o.resumes, o.ended = o.resumes && o.resumed != f.Asked, k.w.Now()
	case world.Pause:
		if max(o.resumed, o.ended) < f.Asked && !o.resumes {
			o.paused = k.w.Now()
		}
	case world.Reset:
		if r := k.runOf(f.ID); f.Changed && (r == nil || r.Began() < f.Asked) && s.record.Reset == f.Asked {
			o.reset = k.w.Now()
		}
	case world.Retry:
		waits := s.header.State == jobs.Pending && s.header.Lot == "" && s.header.Due > 0
		if f.Changed && waits && s.record.History[0].Type == "retried" {
			k.Fail("S90e", "the wait of job %s was ended, and it waits until %s", f.ID, s.header.Due)
		}
	}
}

// checkNew forgets what was asked of a job that is gone, or that begins anew for another replication.
func (k *control) checkNew(j jobChange) {
	if j.after.header == nil || j.after.record.State.Terminal() {
		delete(k.orders, j.id)
	}
}

// isOrdered reports whether what a node is told of its jobs asks for the end of a run.
func isOrdered(r *run, owned node.Owned) bool {
	for _, h := range owned.Jobs {
		if h.ID == r.JobID() && h.Lock == r.Lock() && h.Stop {
			return true
		}
	}
	return slices.ContainsFunc(owned.Holds, func(e jobstore.Hold) bool {
		return stops(e.Database, e.Server, r.Record())
	})
}

// stops reports whether a hold stops a job. URLs of this world have no ports.
func stops(database, server string, rec *jobstore.Record) bool {
	on := func(url string) bool { return strings.HasPrefix(url, "http://"+server+"/") }
	return database != "" && rec.Database == database || server != "" && (on(rec.Source) || on(rec.Target))
}

// checkGiven is S90a and S91a.
func (k *control) checkGiven(j jobChange) {
	if j.before.header.State != jobs.Pending || j.after.header.State != jobs.Running {
		return
	}
	if since := k.of(j.id).paused; since != 0 {
		k.Fail("S90a", "job %s is paused since %s, and was given to %s", j.id, since, j.after.header.Lock.Worker)
	}
	if j.after.record.PausedByDocument {
		k.Fail("S90a", "job %s is paused by its document, and was given to %s", j.id, j.after.header.Lock.Worker)
	}
	if e := k.stoppedBy(j.after); e != nil {
		k.Fail("S91a", "hold %s is in force since %s, and job %s was given to %s",
			e.ID, e.since, j.id, j.after.header.Lock.Worker)
	}
}

// checkRuns is the bound of S90b.
func (k *control) checkRuns() {
	for _, r := range k.runs {
		s, now := k.shadows[r.JobID()], k.w.Now()
		if s == nil || s.header == nil || r.p.Disturbed() || k.w.StoreDown() {
			r.defies = now
			continue
		}
		since := k.of(r.JobID()).paused
		if e := k.stoppedBy(s); e != nil && since == 0 {
			since = e.since
		}
		if since == 0 || r.defies == 0 {
			r.defies = max(now, since)
			continue
		}
		if at := max(since, r.defies); now.Sub(at) > r.p.strayLimit() {
			k.Fail("S90b", "%s runs job %s, which should have stopped at %s", r.p.Name, r.JobID(), at)
		}
	}
}

// checkPauses is S90c and S90d.
func (k *control) checkPauses() {
	for _, id := range k.ids() {
		s := k.shadows[id]
		if s.header == nil || s.record.State.Terminal() {
			continue
		}
		if o := k.orders[id]; o != nil && o.paused != 0 && s.record.Pause == nil {
			k.Fail("S90c", "job %s was paused at %s, and is not any more", id, o.paused)
		}
		if s.header.Lot == "paused" && s.record.Pause == nil && !s.record.PausedByDocument {
			k.Fail("S90d", "job %s is parked for a pause that there is not", id)
		}
	}
}

// checkReleased is S91b, for the jobs that a commit brings back.
func (k *control) checkReleased(l landing) {
	due := map[instant.Time]int{}
	for _, id := range l.jobs {
		s := k.shadows[id]
		if l.Request == nil || s.header == nil || s.header.State != jobs.Pending ||
			s.header.Lot != "" || s.header.Due == 0 {
			continue
		}
		if due[s.header.Due]++; due[s.header.Due] > 2 {
			k.Fail("S91b", "%d jobs come back at %s at once", due[s.header.Due], s.header.Due)
		}
	}
}

// checkStart is S90f and S90g, for the first request of a run for changes.
func (k *control) checkStart(c call) {
	op, reads := c.op.(peer.ReadChanges)
	if !reads || c.feed.begun {
		return
	}
	if counts := c.Info().Counters; c.Record().Reset != 0 && counts != (checkpoint.Counters{}) {
		k.Fail("S90g", "%s starts over, and begins with %+v", c.run, counts)
	}
	o := k.orders[c.JobID()]
	if o == nil || o.reset == 0 || c.Began() < o.reset {
		return
	}
	want := peer.Zero
	if since := c.Replication().SinceSeq; since != nil {
		want = peer.Seq(since)
	}
	if source := c.begin.source; source != nil && source.Number(op.Since) != source.Number(want) {
		k.Fail("S90f", "job %s starts over since %s, and %s begins at %s", c.JobID(), o.reset, c.run, op.Since)
	}
	o.reset = 0
}

// unsettled is L10.
func (k *control) unsettled() *Violation {
	if k.w.Releasing() {
		return missed("L10", "users still end pauses and holds")
	}
	for _, id := range k.ids() {
		if s := k.shadows[id]; s.header != nil && strings.HasPrefix(s.header.Lot, "held/") {
			return missed("L10", "job %s is parked as %s, and there is no hold", id, s.header.Lot)
		}
	}
	return nil
}

// pausedByUser reports whether a job waits until its document says so no more, which users may never do.
func (s *shadow) pausedByUser() bool {
	return s.header != nil && s.record.PausedByDocument && s.header.Lot == "paused"
}

// behindPaused reports whether a job waits for the end of one that users have paused.
func (k *known) behindPaused(s *shadow) bool {
	repID, waits := strings.CutPrefix(s.header.Lot, "behind/")
	for _, other := range k.shadows { // in any order: one is enough
		if waits && other.pausedByUser() && other.record.RepID == repID {
			return true
		}
	}
	return false
}
