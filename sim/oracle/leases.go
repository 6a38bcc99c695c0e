package oracle

import (
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// leases are the invariants of workers and what they took.
type leases struct {
	*chronicle
	taken map[node.Held]bool // every job under every lock that the store gave out; true once it was run
	haste map[string]haste   // by job
}

var leaseSubject = subject{
	invariants: []Invariant{
		{"S24", "A run is of a job that the store gave to its worker, the only one for that time, and is not dropped before that is over."},
		{"S25", "No worker is given up within its activity timeout, and none does anything afterwards."},
		{"S26", "A worker whose heartbeats do not get through tries again soon, and drops its runs within its activity timeout."},
		{"L3", "No job stays running that nobody runs."},
	},
	begin: func(c *chronicle) {
		o := &leases{c, map[node.Held]bool{}, map[string]haste{}}
		c.on.nodeUp.add(func(p *process) { p.giving = giving{expiring: map[string]uint64{}} })
		c.on.landed.add(o.checkLeases)
		c.on.jobChanged.add(func(j jobChange) { o.noteTaken(j.id, j.after.header) })
		c.on.nodeStepped.add(o.checkInherits)
		c.on.nodeStepped.add(o.checkDropped)
		c.on.runStarted.add(o.checkTaken)
		c.on.runEnded.add(o.checkLease)
		c.on.ticked.add(func(world.Ticked) {
			for _, r := range c.runs {
				o.checkLease(r)
			}
		})
	},
}

// giving is whom a process gives up, and for how long others have been silent.
type giving struct {
	expiring map[string]uint64 // workers that it gives up, and by which request
	silences map[string]silence
}

// haste counts how often a job was taken in a minute.
type haste struct {
	minute instant.Time
	n      int
}

// maxHaste bounds that: a job that has begun runs for a minute unless something happens to it.
const maxHaste = 30

// lease is a worker as the store knows it.
type lease struct {
	beat    instant.Time  // when its last heartbeat landed
	timeout time.Duration // that this heartbeat told the others
	lag     time.Duration // of the worker's steady clock when it sent that
	gone    bool          // given up, by itself or by others
	number  uint64        // of that heartbeat
}

func (l lease) end() instant.Time { return l.beat.Add(l.timeout) }

// checkLeases is S25: whom others take for dead was silent for its activity timeout, and nothing lands for a worker
// that was given up. A part of L5 is that a heartbeat which lands late does not take the place of a newer one.
func (o *leases) checkLeases(l landing) {
	now := o.w.Now()
	switch q := l.Request.(type) {
	case node.Join:
		o.leases[q.Worker] = lease{beat: now, timeout: q.Info.ActivityTimeout, lag: l.Lag}
	case node.Beat:
		o.checkLives(q.Worker, q)
		if newest := o.leases[q.Worker]; l.Number < newest.number {
			o.Fail("L5", "%s landed, and a newer one of %s had", q, newest.beat)
		}
		o.leases[q.Worker] = lease{beat: now, timeout: q.Info.ActivityTimeout, lag: l.Lag, number: l.Number}
	case node.Accept:
		o.checkLives(q.Worker, q)
	case node.Retire:
		o.giveUp(q.Worker)
	case node.Expire:
		if known := o.leases[q.Worker]; !known.gone && now < known.end() && !o.isPast(q.Worker) {
			o.Fail("S25", "%s at %s, though its heartbeat of %s landed at %s", q, now, known.timeout, known.beat)
		}
		o.giveUp(q.Worker)
	}
}

// isPast says whether a worker can only be one that is no more: the process that has the store to itself was another one
// then, or has dropped all that it did under that name.
func (o *leases) isPast(worker string) bool {
	p := o.nodes[0]
	return o.w.Config().Exclusive() && (!isOf(worker, p.Worker()) || !slices.ContainsFunc(p.runs, func(r *run) bool { return r.Lock().Worker == worker }))
}

// checkInherits is a part of L3: a process that has the store to itself gives back what it did in earlier lives as soon as
// it hears of that, and does not wait until it would take others for dead.
func (o *leases) checkInherits(s nodeStep) {
	p, ev, effects := s.p, s.ev, s.effects
	done, _ := ev.(node.Done)
	if done.Fault != node.StoreDown { // which is tried again
		maps.DeleteFunc(p.giving.expiring, func(_ string, id uint64) bool { return id == done.ID })
	}
	for _, e := range effects {
		if ask, is := e.(node.Ask); is {
			if expire, is := ask.Request.(node.Expire); is {
				p.giving.expiring[expire.Worker] = ask.ID
			}
		}
	}
	leases, is := done.Result.(node.Leases)
	if !is || p.Draining() {
		return
	}
	o.checkSilent(p, leases)
	if !o.w.Config().Exclusive() {
		return
	}
	for _, l := range leases.List {
		if _, giving := p.giving.expiring[l.Worker]; !giving && !isOf(l.Worker, p.Worker()) {
			o.Fail("L3", "%s has the store to itself, and leaves worker %s its jobs", p.Name, l.Worker)
		}
	}
}

// silence is a heartbeat and when a process first saw it, by its steady clock.
type silence struct {
	beat  [10]byte
	since instant.Time
}

// checkSilent is a part of L3: who has been silent for the activity timeout, its own or the monitor's, is given up at once.
func (o *leases) checkSilent(p *process, leases node.Leases) {
	known := p.giving.silences
	p.giving.silences = map[string]silence{}
	for _, l := range leases.List {
		s, is := known[l.Worker]
		if !is || s.beat != l.Beat {
			s = silence{l.Beat, p.Steady()}
		}
		p.giving.silences[l.Worker] = s
		_, giving := p.giving.expiring[l.Worker]
		if silent := p.Steady().Sub(s.since); !giving && !isOf(l.Worker, p.Worker()) && silent >= max(p.applied.ActivityTimeout, l.Info.ActivityTimeout) {
			o.Fail("L3", "%s has seen no heartbeat of %s for %s, and leaves it its jobs", p.Name, l.Worker, silent)
		}
	}
}

// isOf says whether a worker is a process in one life, under whatever lease.
func isOf(worker, life string) bool {
	process, _, _ := strings.Cut(worker, "-")
	return process == life
}

func (o *leases) checkLives(worker string, q node.Request) {
	if known, joined := o.leases[worker]; !joined || known.gone {
		o.Fail("S25", "%s landed, and the worker was given up", q)
	}
}

func (o *leases) giveUp(worker string) {
	known := o.leases[worker]
	known.gone = true
	o.leases[worker] = known
}

// noteTaken remembers whom the store gave a job, and is a part of B1: nobody takes one again and again.
func (o *leases) noteTaken(id string, header *jobs.Job) {
	if header == nil || header.State != jobs.Running {
		return
	}
	held := node.Held{JobID: id, Lock: header.Lock}
	if _, known := o.taken[held]; known {
		return
	}
	o.taken[held] = false
	h := o.haste[id]
	if minute := o.thisMinute(); h.minute != minute {
		h = haste{minute: minute}
	}
	h.n++
	if o.haste[id] = h; h.n > maxHaste {
		o.Fail("B1", "job %s was taken %d times in one minute", id, h.n)
	}
}

// checkTaken is S24: what runs was given to its worker, and was not run before.
func (o *leases) checkTaken(r *run) {
	held := r.Held()
	switch ran, given := o.taken[held]; {
	case !given:
		o.Fail("S24", "%s runs job %s, which the store never gave it", r.p.Name, held)
	case ran:
		o.Fail("S24", "%s runs job %s once more", r.p.Name, held)
	}
	o.taken[held] = true
}

// checkHalted is a part of S24: a run is dropped for its job only when that was taken away.
func (o *leases) checkHalted(r *run, why string) {
	s, held := o.shadows[r.JobID()], r.Held()
	if s != nil && s.header != nil && s.header.State == jobs.Running && s.header.Lock == held.Lock && !o.leases[held.Lock.Worker].gone {
		o.Fail("S24", "%s drops job %s, which is its own, for %q", r.p.Name, held, why)
	}
}

// checkLease is S26: a run is over when its worker's heartbeat is as old as its activity timeout. Who stands still
// notices when it goes on. By the clock of one that was suspended its heartbeat is younger by that time: it was told the
// timeout in force then, whatever its settings became meanwhile, and may stand still again before it can ask.
func (o *leases) checkLease(r *run) {
	now := o.w.Now()
	if now <= r.p.PausedLast() || r.p.Paused() {
		return
	}
	if known := o.leases[r.Lock().Worker]; now > known.end().Add(r.p.Lag()-known.lag) {
		o.Fail("S26", "%s runs job %s at %s, and its last heartbeat landed %s ago; its activity timeout is %s",
			r.p.Name, r.JobID(), now, now.Sub(known.beat), known.timeout)
	}
}

// checkDropped looks for runs that a node drops for their jobs.
func (o *leases) checkDropped(s nodeStep) {
	var killed *run
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.KillRun:
			killed = s.p.find(e.Run)
		case node.Note:
			if e.What == "halted" && killed != nil {
				o.checkHalted(killed, e.Text)
			}
		}
	}
}
