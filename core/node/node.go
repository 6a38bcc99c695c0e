// Package node is one node of the fleet as a stepped machine: it keeps a lease, by which others see it,
// accepts jobs, starts and stops their runs, rotates them, records how they end, promotes jobs that are
// due, gives the jobs of vanished nodes back, and sweeps up. It decides; transactions, runs and watches are
// effects. A node without the role replication does all but accept jobs.
//
// # Obligations of the driver
//
// Package host keeps 1 and 4 for its drivers.
//
//  1. Step is called with Start once, then with one event at a time. Clock.Steady never goes back.
//  2. Every Ask is answered by one Done with the same id, after Perform ran in a transaction that
//     committed, or with why it did not.
//  3. Every Await is answered by one Notified: when the counter differs, when the watch was lost, or
//     after a minute at the latest.
//  4. StartRun makes a run (package replication) whose Identify, Progress and End effects come back as
//     events; Confirm is its Identified, StopRun its Stop. A run that is killed is dropped at once.
//  5. Step is called with Wake at Deadline, or any time.
//  6. After Exit nothing else comes.
package node

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/prng"
	"couchrelay/core/schedule"
)

// Clock is what time it is: Steady for durations, Wall for what is stored and shown. Steady never jumps;
// Wall may.
type Clock struct{ Steady, Wall instant.Time }

// Settings may change while the node runs. Their names are those of the [replicator] section.
type Settings struct {
	schedule.Limits
	// Interval is the time between rotations.
	Interval time.Duration
	// ActivityTimeout is how long a worker may be silent before its jobs are given to others.
	ActivityTimeout time.Duration
	// StartupJitter is the longest delay of a run's first request when many start at once.
	StartupJitter time.Duration
	// StopTimeout is how long a run may take to stop in order.
	StopTimeout time.Duration
	// ProgressInterval is the time between records of a run's progress.
	ProgressInterval time.Duration
	// PollInterval is how often the node looks for ready and due jobs by itself.
	PollInterval time.Duration
	// Maintenance has the node hand its jobs back, and accept none ([couchdb] maintenance_mode).
	Maintenance bool
}

// DefaultSettings are those of CouchDB where it has them.
func DefaultSettings() Settings {
	return Settings{
		Limits:   schedule.Limits{MaxJobs: 500, MaxChurn: 20, MinRun: 60 * time.Second},
		Interval: 60 * time.Second, ActivityTimeout: 20 * time.Second, StartupJitter: 5 * time.Second, StopTimeout: 5 * time.Second,
		ProgressInterval: 10 * time.Second, PollInterval: 5 * time.Second,
	}
}

// Config makes a node.
type Config struct {
	Settings
	// Name is what people call the node. Of two with one name, one is renamed.
	Name    string
	Version string // of couchrelay, for others to see
	Roles   Roles
	// Worker is a name that no other process, this one's predecessors included, ever had.
	Worker string
	// Exclusive says that the store is this process's alone, so that every other worker is gone.
	Exclusive bool
	Seed      uint64
}

const (
	beatsPerTimeout = 4  // heartbeats, and looks at those of others, in an ActivityTimeout
	acceptLimit     = 50 // jobs in one accept
	// acceptWindow is the number of ready jobs among which workers that share a store choose. It stays small,
	// since it bounds the priority inversion, but grows with the workers: 64 that choose among 16 conflict
	// six times for an accept, 64 that choose among 256 once in five.
	acceptWindow, windowPerWorker = 16, 4
	promoteLimit                  = 100
	expireLimit                   = 100
	// sweepLimit is small, since the removal of a job takes several reads one after the other, and a
	// transaction has five seconds. One that is always too old would sweep nothing, for ever.
	sweepLimit = 10
	// surveyLimit is the number of accounts in one look at the queue, each of which is read after the one before.
	surveyLimit = 200
	// spread is how much later than the one before each run of an accept starts, on the average.
	spread        = 20 * time.Millisecond
	sweepInterval = time.Minute
	// maxLost is the number of workers that may vanish in a row, each before the job ran long enough to be
	// healthy, before it is suspected of bringing them down.
	maxLost = 5
)

type leaseState uint8

const (
	noLease leaseState = iota
	joining
	live
	leaving
	left
)

// Node is the state of a worker. It is made by New and changed by Step alone.
type Node struct {
	cfg    Config
	name   string
	rng    prng.Source
	clock  Clock
	out    []Effect
	calls  []*call // waiting for an answer or their next attempt, oldest first
	nextID uint64

	lease   leaseState
	epoch   int           // leases so far
	worker  string        // name of the present lease
	ends    instant.Time  // when others may take the jobs, unless another heartbeat gets through
	granted time.Duration // activity timeout that others know of
	seen    int64         // call counter of the worker
	others  []other
	started instant.Time // by the wall clock

	batch     uint64
	accepting bool
	hungry    bool // there may be ready jobs

	runs    []*run
	nextRun uint64
	share   share

	awaiting [2]bool // by topic
	draining bool
	timers   timers
}

// timers are the next times of what happens regularly, on the steady clock.
type timers struct {
	beat, owned, scan, poll, promote, rotate, charge, sweep instant.Time
}

// New prepares a node.
func New(cfg Config) *Node {
	return &Node{cfg: cfg, name: cfg.Name, rng: prng.New(cfg.Seed), hungry: true}
}

// Step handles one event and returns what is to be done, in order.
func (n *Node) Step(c Clock, ev Event) []Effect {
	invariant.Check(c.Steady >= n.clock.Steady, steadyClock, int(c.Steady), int(n.clock.Steady))
	n.clock = c
	n.checkLease() // first of all: a process that stood still must not act for a lease that ended meanwhile
	if n.lease != left {
		n.handle(ev)
		n.advance()
	}
	lasts := n.clock.Steady.Add(n.granted)
	invariant.Check(n.lease != live || n.ends <= lasts, leaseEnds, int(n.ends), int(lasts))
	out := n.out
	n.out = nil
	return out
}

func (n *Node) handle(ev Event) {
	switch ev := ev.(type) {
	case Start:
		n.begin()
	case Done:
		n.onDone(ev)
	case Notified:
		n.onNotified(ev)
	case RunIdentifies:
		n.onIdentify(ev)
	case RunProgress:
		n.onProgress(ev)
	case RunEnded:
		n.onEnded(ev)
	case Configure:
		n.configure(ev.Settings)
	case Drain:
		n.drain()
	case Wake:
	default:
		panic(fmt.Sprintf("node: unknown event %T", ev))
	}
}

func (n *Node) begin() {
	now := n.clock.Steady
	n.started = n.clock.Wall
	n.timers = timers{
		beat: instant.Never, owned: instant.Never, scan: now, poll: now.Add(n.jitter(n.cfg.PollInterval)), promote: now,
		rotate: now.Add(n.cfg.Interval), charge: now, sweep: now.Add(n.jitter(sweepInterval)),
	}
	n.join()
}

// advance does what the time and the state allow.
func (n *Node) advance() {
	n.retryDue()
	n.keepLease()
	n.watchOthers()
	n.promoteDue()
	n.chargeDue()
	n.rotateDue()
	n.stopSlow()
	n.sweepDue()
	n.accept()
	n.leaveWhenDrained()
}

// Deadline is when the node wants to be woken at the latest, on the steady clock.
func (n *Node) Deadline() instant.Time {
	if n.lease == left {
		return instant.Never
	}
	t := &n.timers
	at := min(t.scan, t.poll, t.promote, t.charge, t.sweep)
	if n.lease == live { // who is woken for what only a live worker does would be woken again and again
		at = min(at, t.beat, t.owned, t.rotate, n.ends)
	}
	for _, c := range n.calls {
		if !c.flying {
			at = min(at, c.due)
		}
	}
	for _, r := range n.runs {
		if r.state == stopping {
			at = min(at, r.deadline)
		}
	}
	return at
}

func (n *Node) emit(e Effect) { n.out = append(n.out, e) }

// due says whether a timer has come, and sets it anew.
func (n *Node) due(timer *instant.Time, every time.Duration) bool {
	if n.clock.Steady < *timer {
		return false
	}
	*timer = n.clock.Steady.Add(n.jitter(every))
	return true
}

// jitter draws from the last quarter of d, so that nodes do not act in step.
func (n *Node) jitter(d time.Duration) time.Duration {
	if d < 4 {
		return d
	}
	return d - time.Duration(n.rng.Uint64n(uint64(d/4)))
}

// configure changes the settings. A node in maintenance stops its runs in order.
func (n *Node) configure(s Settings) {
	n.cfg.Settings = s
	n.timers.rotate = min(n.timers.rotate, n.clock.Steady)
	n.hungry = true
	n.tell()
	if s.Maintenance {
		n.stopAll()
	}
}

// drain stops everything in order; the node leaves when all runs have ended.
func (n *Node) drain() {
	n.draining = true
	n.tell()
	n.stopAll()
}

func (n *Node) stopAll() {
	for _, r := range n.runs {
		n.stopRun(r)
	}
}

// accepts says whether the node takes jobs at present.
func (n *Node) accepts() bool {
	return n.cfg.Roles.Has(Replication) && !n.cfg.Maintenance && !n.draining
}

func (n *Node) leaveWhenDrained() {
	if !n.draining || len(n.runs) > 0 || n.accepting {
		return
	}
	switch n.lease {
	case live:
		if n.storeCharges() {
			n.lease = leaving
			n.ask(Retire{Worker: n.worker, Limit: expireLimit})
		}
	case noLease, joining:
		n.exit()
	}
}

func (n *Node) exit() {
	n.lease = left
	n.emit(Exit{})
}

// Running is the number of slots in use.
func (n *Node) Running() int { return len(n.runs) }

// MaxJobs is the present limit of slots.
func (n *Node) MaxJobs() int { return n.cfg.MaxJobs }

// note tells the log.
func (n *Node) note(what, job, format string, args ...any) {
	n.emit(Note{What: what, Job: job, Text: fmt.Sprintf(format, args...)})
}
