package oracle

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// leases are the invariants of workers and of the jobs that they take: a worker's heartbeats keep its jobs,
// and a worker that is silent for its activity timeout loses all of them.
type leases struct {
	*chronicle
	grants map[node.Held]bool // every job under every lock that the store gave out; true once it was run
	takes  map[string]takes   // by job
}

var leaseSubject = subject{
	invariants: []Invariant{
		{"B1d", "No job is taken more than 30 times in a minute, unless its document is edited."},
		{"S24a", "A node runs only jobs that the store gave to it."},
		{"S24b", "A node runs a job that it was given once."},
		{"S24d", "A node drops a run at once only when its lease is lost or the run is refused its replication; all " +
			"others have stop_timeout to end in order."},
		{"S24c", "A node drops a run for its job only when that job was taken away from it."},
		{"S25", "No worker is given up within its activity timeout, unless by the process that it was, and " +
			"nothing lands for one that was given up."},
		{"S25b", "A node gives up another worker only for silence that it saw: what passes between two looks " +
			"counts as a quarter of its activity timeout at most, however long the store was away."},
		{"S26b", "A run is over when its worker's last heartbeat is as old as the activity timeout that it " +
			"told."},
		{"L3a", "A process that has the store to itself gives up the workers of earlier lives as soon as " +
			"it hears of them."},
		{"L3b", "A worker without a new heartbeat for the activity timeout is given up as soon as another " +
			"has seen that."},
		{"L3c", "A process that lost its lease gives up the worker that it was, and does not leave that to others."},
		{"L5e", "A heartbeat that lands late does not take the place of a newer one."},
	},
	begin: func(c *chronicle) {
		l := &leases{c, map[node.Held]bool{}, map[string]takes{}}
		c.on.nodeUp.add(func(p *process) { p.monitor = monitoring{givingUp: map[string]expiry{}} })
		c.on.landed.add(l.landed)
		c.on.jobChanged.add(l.checkTakes)
		c.on.nodeStepped.add(l.checkGivesUp)
		c.on.nodeStepped.add(l.checkOwnPast)
		c.on.nodeStepped.add(l.checkDrops)
		c.on.runStarted.add(l.checkGranted)
		c.on.runEnded.add(l.checkOutlives)
		c.on.ticked.add(func(world.Ticked) {
			for _, r := range c.runs {
				l.checkOutlives(r)
			}
		})
	},
}

// lease is a worker as the store knows it.
type lease struct {
	beat    instant.Time  // when its last heartbeat landed
	timeout time.Duration // activity timeout that this heartbeat told the others
	lag     time.Duration // of the worker's steady clock when it sent that
	gone    bool          // given up, by itself or by others
	number  uint64        // of the request that this heartbeat is, which grows; 0 for a join
}

// end is when others may give the worker up.
func (l lease) end() instant.Time { return l.beat.Add(l.timeout) }

// expiry is a request to give up a worker, by its ids: a node repeats it under another one while the store is away.
type expiry struct{ first, latest uint64 }

// monitoring is a node's knowledge of other workers.
type monitoring struct {
	givingUp map[string]expiry  // workers that it is about to give up, and by which request
	beats    map[string]sighted // by worker, at the last look
	looked   instant.Time       // when that was, by the node's steady clock
	worker   string             // that the node is at present, or is about to be
}

// sighted is a heartbeat and for how long a node has seen no other one.
type sighted struct {
	beat   [10]byte
	silent time.Duration
}

// takes counts how often a job was taken in a minute.
type takes struct {
	minute instant.Time
	made   instant.Time // when the job was made: an edit of its document makes it anew
	n      int
}

// maxTakes bounds that: a job that has begun runs for a minute unless something happens to it.
const maxTakes = 30

// landed follows the state of workers, and demands that only requests land that may.
func (l *leases) landed(landed landing) {
	now := l.w.Now()
	switch q := landed.Request.(type) {
	case node.Join:
		l.leases[q.Worker] = lease{beat: now, timeout: q.Info.ActivityTimeout, lag: landed.Lag}
	case node.Beat:
		l.checkLives(q.Worker, q)
		if newest := l.leases[q.Worker]; landed.Number < newest.number {
			l.Fail("L5e", "%s landed, and a newer one of %s had", q, newest.beat)
		}
		l.leases[q.Worker] = lease{
			beat: now, timeout: q.Info.ActivityTimeout, lag: landed.Lag, number: landed.Number,
		}
	case node.Accept:
		l.checkLives(q.Worker, q)
	case node.Retire:
		l.giveUp(q.Worker)
	case node.Expire:
		if known := l.leases[q.Worker]; !known.gone && now < known.end() && !l.isPast(q) {
			l.Fail("S25", "%s at %s, though its heartbeat of %s landed at %s",
				q, now, known.timeout, known.beat)
		}
		l.giveUp(q.Worker)
	}
}

// isPast reports whether a worker that is given up early can do no harm: an earlier life was that worker,
// or the process that was has another name now and has dropped all that it did under that one. A process
// that gives up another one's worker cannot know that, unless the store is its own.
func (l *leases) isPast(q node.Expire) bool {
	if q.Beat != nil && !l.w.Config().Exclusive() {
		return false
	}
	return !slices.ContainsFunc(l.nodes, func(p *process) bool {
		works := slices.ContainsFunc(p.runs, func(r *run) bool { return r.Lock().Worker == q.Worker })
		return works || p.Alive() && p.monitor.worker == q.Worker
	})
}

// isOf reports whether a worker is a node in one life, under whatever lease: leases after the first have a
// number behind the life's name.
func isOf(worker, life string) bool {
	ofLife, _, _ := strings.Cut(worker, "-")
	return ofLife == life
}

// checkLives demands that a worker's request lands only while it has a lease.
func (l *leases) checkLives(worker string, q node.Request) {
	if known, joined := l.leases[worker]; !joined || known.gone {
		l.Fail("S25", "%s landed, and the worker was given up", q)
	}
}

func (l *leases) giveUp(worker string) {
	known := l.leases[worker]
	known.gone = true
	l.leases[worker] = known
}

// checkGivesUp demands that a node which sees all leases gives up those that are over, or is doing so
// already. A node that drains leaves that to others.
func (l *leases) checkGivesUp(s nodeStep) {
	p := s.p
	done, _ := s.ev.(node.Done)
	if done.Fault != node.StoreDown { // else the request is repeated
		maps.DeleteFunc(p.monitor.givingUp, func(_ string, a expiry) bool { return a.latest == done.ID })
	}
	for _, e := range s.effects {
		ask, _ := e.(node.Ask)
		if expire, is := ask.Request.(node.Expire); is {
			a := p.monitor.givingUp[expire.Worker]
			p.monitor.givingUp[expire.Worker] = expiry{first: cmp.Or(a.first, ask.ID), latest: ask.ID}
		}
	}
	seen, is := done.Result.(node.Leases)
	if !is || p.Draining() {
		return
	}
	silent := p.silences(seen.List)
	for _, m := range seen.List {
		if isOf(m.Worker, p.Worker()) {
			continue
		}
		limit := max(p.applied.ActivityTimeout, m.Info.ActivityTimeout)
		if a, givesUp := p.monitor.givingUp[m.Worker]; givesUp {
			begins := a.first > done.ID && !m.Expired && !l.w.Config().Exclusive()
			if begins && silent[m.Worker] < limit {
				l.Fail("S25b", "%s gives up %s, and has seen it silent for %s only", p.Name, m.Worker, silent[m.Worker])
			}
			continue
		}
		if silent[m.Worker] >= limit {
			l.Fail("L3b", "%s has seen no heartbeat of %s for %s, and leaves it its jobs",
				p.Name, m.Worker, silent[m.Worker])
		}
		if l.w.Config().Exclusive() {
			l.Fail("L3a", "%s has the store to itself, and leaves worker %s its jobs", p.Name, m.Worker)
		}
	}
}

// checkOwnPast demands that a node which joins as another worker gives up, in the same step, the one that it
// was in this life: nothing of that runs any more.
func (l *leases) checkOwnPast(s nodeStep) {
	var past string
	gives := map[string]bool{}
	for _, e := range s.effects {
		ask, _ := e.(node.Ask)
		switch q := ask.Request.(type) {
		case node.Join:
			if s.p.monitor.worker != q.Worker {
				past, s.p.monitor.worker = s.p.monitor.worker, q.Worker
			}
		case node.Expire:
			gives[q.Worker] = q.Beat == nil
		}
	}
	if past != "" && !gives[past] {
		l.Fail("L3c", "%s joins as %s, and leaves %s to others", s.p.Name, s.p.monitor.worker, past)
	}
}

// silences notes the heartbeats that a node sees, and returns for how long it has seen none that is newer, by
// its own steady clock. A node that looks late has not seen what was in between.
func (p *process) silences(list []node.Member) (silent map[string]time.Duration) {
	known, passed := p.monitor.beats, min(p.Steady().Sub(p.monitor.looked), p.applied.ActivityTimeout/4)
	p.monitor.beats, p.monitor.looked, silent = map[string]sighted{}, p.Steady(), map[string]time.Duration{}
	for _, m := range list {
		s := sighted{beat: m.Beat}
		if was, is := known[m.Worker]; is && was.beat == m.Beat {
			s.silent = was.silent + passed
		}
		p.monitor.beats[m.Worker], silent[m.Worker] = s, s.silent
	}
	return silent
}

// checkTakes remembers to whom the store gave a job, and demands that jobs are not taken again and again: a
// job that no worker can keep would load the store and starve the others.
func (l *leases) checkTakes(j jobChange) {
	header := j.after.header
	if header == nil || header.State != jobs.Running {
		return
	}
	held := node.Held{JobID: j.id, Lock: header.Lock}
	if _, known := l.grants[held]; known {
		return
	}
	l.grants[held] = false
	t := l.takes[j.id]
	if minute, made := l.thisMinute(), j.after.record.Created; t.minute != minute || t.made != made {
		t = takes{minute: minute, made: made}
	}
	t.n++
	if l.takes[j.id] = t; t.n > maxTakes {
		l.Fail("B1d", "job %s was taken %d times in one minute", j.id, t.n)
	}
}

// checkGranted demands that a run which starts was given to its worker, and was not run before under that
// lock: a second run would not know the requests that the first one left in flight.
func (l *leases) checkGranted(r *run) {
	held := r.Held()
	switch ran, given := l.grants[held]; {
	case !given:
		l.Fail("S24a", "%s runs job %s, which the store never gave it", r.p.Name, held)
	case ran:
		l.Fail("S24b", "%s runs job %s once more", r.p.Name, held)
	}
	l.grants[held] = true
}

// checkDrops looks for runs that a node drops for their jobs: it says "halted" after the effect that drops
// the run.
func (l *leases) checkDrops(s nodeStep) {
	var killed *run
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.KillRun:
			if killed = s.p.find(e.Run); killed != nil { // else its end is on the way to the node
				defer l.checkTime(s, killed)
			}
		case node.StopRun:
			killed = s.p.find(e.Run)
		case node.Note:
			if e.What == "halted" && killed != nil && killed.JobID() == e.Job {
				l.checkDropped(killed, e.Text)
			}
		}
	}
}

// checkTime is S24d: a last checkpoint needs its time.
func (l *leases) checkTime(s nodeStep, r *run) {
	lost := slices.ContainsFunc(s.effects, func(e node.Effect) bool {
		note, is := e.(node.Note)
		return is && note.What == "lease_lost"
	})
	done, _ := s.ev.(node.Done)
	claimed, _ := done.Result.(node.Claimed)
	stopped := r.stopped && l.w.Now().Sub(r.stopAt) >= s.p.Settings().StopTimeout
	if !lost && !claimed.Refused && !stopped && !l.leases[r.Lock().Worker].gone {
		l.Fail("S24d", "%s drops run %d of job %s after %v", s.p.Name, r.ID(), r.Held(), s.ev)
	}
}

// checkDropped demands that a run that was dropped for its job has lost that job, or its worker its lease.
func (l *leases) checkDropped(r *run, why string) {
	if l.holds(r) && !l.leases[r.Lock().Worker].gone {
		l.Fail("S24c", "%s drops job %s, which is its own, for %q", r.p.Name, r.Held(), why)
	}
}

// checkOutlives demands that no run outlives its worker's lease: others may run its job from then on. A node
// that stands still notices when it goes on. By the clock of a node that was suspended its heartbeat is
// younger by that time. The lease ends by the timeout that the heartbeat told, whatever the node's settings
// became meanwhile.
func (l *leases) checkOutlives(r *run) {
	now := l.w.Now()
	if now <= r.p.PausedLast() || r.p.Paused() {
		return
	}
	if known := l.leases[r.Lock().Worker]; now > known.end().Add(r.p.Lag()-known.lag) {
		l.Fail("S26b",
			"%s runs job %s at %s, and its last heartbeat landed %s ago; its activity timeout is %s",
			r.p.Name, r.JobID(), now, now.Sub(known.beat), known.timeout)
	}
}
