// Package node is one node of the fleet as a stepped machine: it keeps a lease, by which others see it,
// accepts jobs, starts and stops their runs, rotates them, records how they end, promotes jobs that are
// due, gives the jobs of vanished nodes back, and sweeps up. It decides; transactions, runs and watches are
// effects. A node without the role replication does all but accept jobs.
//
// # Leases
//
// RFC 007 has every job report its activity, and a monitor that requeues the jobs which did not. Here the
// worker reports, for all its jobs at once, in a row with a versionstamp (a heartbeat). No clock of one
// node is ever compared with a clock of another:
//
//   - Another node watches that row. If the versionstamp stands still for the activity timeout, measured by
//     the watcher's own steady clock from its first look at it, the watcher expires the worker and gives
//     its jobs back. The timeout is the longer one of the watcher's setting and of what the worker
//     announced with its heartbeat. Only silence that the watcher saw counts: time in which it could not
//     look, as in an outage of the store, counts as one interval between two looks at most.
//   - The worker gives its lease up by itself when the timeout that it announced has passed, by its own
//     steady clock, since it sent the last heartbeat that it knows to have committed. The watcher saw that
//     heartbeat later than the worker sent it. So the worker stops before the watcher acts, unless its
//     process stood still; Step looks at the lease first thing for that case.
//   - Neither is relied upon for mutual exclusion. Every write for a job compares the job's lock in its
//     transaction (fencing, RFC 007 "Mutual Exclusion"), so a worker that is wrong about its lease can
//     waste work and write nothing.
//
// A worker name is never used again: a node that lost its lease joins under a new one, and expires the old
// one at once, without a look at its beat: it has dropped all runs of that name. An accept of the old name
// that commits late either commits before that and takes its jobs for the old name, and they are given back
// with the rest; or it reads the lease, finds it gone, and takes nothing. Likewise a late join: the name was
// joined by a later attempt, with which all earlier ones conflict.
//
// # Parts
//
// The nodes that take jobs divide them by their ids (fleet). A node takes jobs of its part first and is woken
// for these only; it leaves others to their nodes for a moment while these have free slots. A node that runs
// far more than its part gives some runs away, slowly. Nothing relies on parts for correctness: an accept
// conflicts with any other that takes the same job.
//
// # Obligations of the driver
//
// Package host keeps 4 for its drivers, and hands the node one event at a time.
//
//  1. Step is called with Start once, then with one event at a time. Clock.Steady never goes back.
//  2. Every Ask is answered by one Done with the same id, after Perform ran in a transaction that
//     committed, or with why it did not.
//  3. Every Await is answered by one Notified: when the counter differs, when the watch was lost, or
//     after a minute at the latest. One whose place a newer Await of its topic takes is not answered.
//  4. StartRun makes a run (package replication) whose Identify, Progress and End effects come back as
//     events, and so do its GivesWay, Refused and ReadRefused; Confirm is its Identified, StopRun its Stop, and
//     TellRun has any other event. A run that is killed is dropped at once.
//  5. Step is called with Wake at Deadline, or any time.
//  6. After Exit nothing else comes.
package node

import (
	"cmp"
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/prng"
	"couchrelay/core/schedule"
)

// Clock is the time of one step. Steady measures durations, leases and timers; it is monotonic. Wall is for
// what is stored and shown; it may be set forward and back at any moment.
type Clock struct{ Steady, Wall instant.Time }

// Settings may change while the node runs. Their names are those of the [replicator] section.
type Settings struct {
	schedule.Limits
	// Interval is the time between rotations.
	Interval time.Duration
	// UsageInterval is the length of the periods in which usage is charged; 0 is Interval.
	UsageInterval time.Duration
	// ActivityTimeout is how long a worker may be silent before its jobs are given to others. Nodes may
	// differ: each goes by the longer one of its own and of what the silent worker announced.
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
	// Rebalance has the node give some of its jobs to others when these run far fewer (rebalance).
	Rebalance bool
	// StallTimeout is how long a run may get nowhere while changes are pending, 0 for ever. It holds for new runs.
	StallTimeout time.Duration
	// MaxAcceptors is how many jobs one accept takes at most (max_acceptors); 0 is AcceptLimit.
	MaxAcceptors int
	// MissingPause is the time that a source has for finding what it announced (missing_doc_retry_msec); 0 is 2 s.
	MissingPause time.Duration
}

// DefaultSettings returns CouchDB's defaults, and ours where CouchDB has no such setting.
func DefaultSettings() Settings {
	return Settings{
		Limits:   schedule.Limits{MaxJobs: 500, MaxChurn: 20, MinRun: 60 * time.Second},
		Interval: 60 * time.Second, ActivityTimeout: 20 * time.Second, StartupJitter: 5 * time.Second,
		StopTimeout: 5 * time.Second, ProgressInterval: 10 * time.Second, PollInterval: 5 * time.Second,
		StallTimeout: 300 * time.Second, MissingPause: 2 * time.Second, Rebalance: true, MaxAcceptors: AcceptLimit,
	}
}

// Config makes a node.
type Config struct {
	Settings
	// Name is what people call the node. If two nodes have one name, one of them is renamed.
	Name    string
	Version string // of couchrelay, for others to see
	Roles   Roles
	// Worker is the name of the node's first lease. No other process may ever have had it, not even an
	// earlier one of this node: locks of jobs carry it.
	Worker string
	// Exclusive promises that no other process has the store open, so that every other worker is gone.
	Exclusive bool
	Seed      uint64
	// Settling is how long the node takes no jobs after its start, unless it is Exclusive: of nodes that start
	// together the first would take all jobs before it knows of the others. 0 or more.
	Settling time.Duration
	// Batches are those of DefaultBatches where one is not set.
	Batches Batches
}

// Batches bound what one request is about; each is 1 or more. Smaller ones are for simulations, whose worlds are
// small.
type Batches struct {
	// Promote is the most due jobs that are made ready at once.
	Promote int
	// Expire is the most jobs of a vanished or leaving worker that are given back at once.
	Expire int
	// Sweep is the most finished requests, and abandoned uploads, that are removed at once. It is small, since the
	// removal of a job takes several reads one after the other, and a transaction has five seconds. A sweep that is
	// too slow once is too slow at every retry, and sweeps nothing.
	Sweep int
	// Drop is the most jobs of deleted databases that are removed at once, and jobs that are put into a new index.
	Drop int
	// Survey is the number of accounts in one Survey. They are read one after the other, in the five seconds of a
	// transaction, also by a store that takes 50 ms for a read. A survey that never fits means that no run gives way.
	Survey int
}

// completed has the bounds of production for those that are not set.
func (b Batches) completed() Batches {
	d := DefaultBatches()
	return Batches{cmp.Or(b.Promote, d.Promote), cmp.Or(b.Expire, d.Expire), cmp.Or(b.Sweep, d.Sweep),
		cmp.Or(b.Drop, d.Drop), cmp.Or(b.Survey, d.Survey)}
}

// DefaultBatches are those of production.
func DefaultBatches() Batches {
	return Batches{Promote: 100, Expire: 100, Sweep: 10, Drop: jobstore.DropLimit, Survey: 50}
}

// DefaultSettling is right for production.
const DefaultSettling = 2 * time.Second

// AcceptLimit bounds the jobs of one accept.
const AcceptLimit = 50

const (
	beatsPerTimeout = 4 // heartbeats, and looks at those of others, in an ActivityTimeout
	// acceptWindow is the number of ready jobs among which nodes that share a store look for those of their
	// parts. It stays small, since it bounds the priority inversion, but grows by windowPerWorker for each
	// node, so that most find one.
	acceptWindow, windowPerWorker = 16, 4
	// spread is the mean time between the starts of two runs of one accept.
	spread        = 20 * time.Millisecond
	sweepInterval = time.Minute
	// maxLost is how many workers may vanish with a job, one after the other, before the job is suspected
	// of bringing them down and has to wait. A run that was healthy for long enough sets the count back.
	maxLost = 5
)

type leaseState uint8

// States of the lease. A node goes from joining to live and, when it lost the lease, back to joining; a
// drained one from live to leaving to left, or from joining to left.
const (
	noLease leaseState = iota // before Start
	joining                   // a Join is under way; nothing may be accepted
	live                      // the worker may hold jobs until ends
	leaving                   // a Retire is under way; nothing is held any more
	left                      // the last effect was Exit
)

// Node is the state of a worker. It is made by New and changed by Step alone.
type Node struct {
	cfg   Config
	name  string
	rng   prng.Source
	clock Clock
	out   []Effect
	requests

	lease  leaseState
	epoch  int    // leases so far, 1 or more after Start
	worker string // name of the present lease, never used before
	// ends is when the lease ends by the steady clock, while it is live: others may take the jobs from then
	// on. Each heartbeat that is known to have committed moves it to granted after the moment when the
	// heartbeat was sent. An attempt that announces a shorter timeout moves it nearer at once, since it may
	// commit unheard. Invariant: not later than granted from now.
	ends instant.Time
	news
	// seen is the worker's call counter at the last list of its jobs. While the store's is the same, no job
	// was taken from the worker since.
	seen int64
	watch
	started instant.Time // when the process started, by the wall clock, for others to see

	intake

	slots
	nextRun uint64 // number of the last run; every run has its own
	share   share

	awaiting [2]bool // whether an Await is in flight, by topic
	draining bool    // set by Drain, for good
	timers   timers
}

// timers are when the things that happen regularly are to happen next, by the steady clock. instant.Never
// means that the state of the lease allows none.
type timers struct {
	beat    instant.Time // a heartbeat; now, when the others have to be told something
	owned   instant.Time // a comparison of the runs with what the store says this worker holds
	scan    instant.Time // a look at the leases of others
	poll    instant.Time // a look for ready jobs, in case a notification was lost
	promote instant.Time // a look for jobs whose wait is over; no later than the next one that is known
	rotate  instant.Time // a Survey of the queue and, with its answer, a rotation
	charge  instant.Time // the next Charge, soon after the present interval ends by the wall clock
	sweep   instant.Time
}

// New prepares a node.
func New(cfg Config) *Node {
	cfg.Batches = cfg.Batches.completed()
	in := intake{hungry: true, promotes: cfg.Batches.Promote}
	asked := requests{flying: map[uint64]*call{}}
	return &Node{cfg: cfg, name: cfg.Name, rng: prng.New(cfg.Seed), requests: asked, intake: in}
}

// Step handles one event and returns what is to be done, in order. It also does what the time allows,
// whatever the event is.
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
	case RunGivesWay:
		if r := n.find(ev.Run); r != nil && r.state == yielding {
			n.stopRun(r)
		}
	case RunEnded:
		n.onEnded(ev)
	case RunRefused:
		listing{n}.onRefused(ev)
	case RunReadsRefused:
		listing{n}.onRead(ev)
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
	n.started, n.spared.due, n.opens = n.clock.Wall, instant.Never, now
	if !n.cfg.Exclusive {
		n.opens = now.Add(n.cfg.Settling)
	}
	n.timers = timers{
		beat: instant.Never, owned: instant.Never, scan: now, poll: now.Add(n.jitter(n.cfg.PollInterval)), promote: now,
		rotate: now.Add(n.cfg.Interval), charge: now, sweep: now.Add(n.jitter(sweepInterval)),
	}
	n.join()
}

// advance does everything that the time and the state allow. Each function looks at its own timer.
func (n *Node) advance() {
	n.retryDue()
	n.stopSlow() // before keepLease, which tells others of the slots in use
	n.keepLease()
	n.watchOthers()
	n.promoteDue()
	n.chargeDue()
	n.rotateDue()
	n.sweepDue()
	n.accept()
	n.leaveWhenDrained()
}

// Deadline is when the node wants to be woken at the latest, by the steady clock.
func (n *Node) Deadline() instant.Time {
	if n.lease == left {
		return instant.Never
	}
	t := &n.timers
	at := min(t.scan, t.poll, t.promote, t.charge, t.sweep)
	// Without a live lease these timers cannot be served; including them would wake the node in a busy loop.
	if n.lease == live {
		at = min(at, t.beat, t.owned, t.rotate, n.ends, n.spared.due)
		if n.clock.Steady < n.opens {
			at = min(at, n.opens)
		}
	}
	return min(at, n.waiting.next(), n.stopping.next())
}

func (n *Node) emit(e Effect) { n.out = append(n.out, e) }

// due reports whether a timer has come, and then sets it anew.
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
	n.timers.scan = min(n.timers.scan, n.clock.Steady)
	n.timers.charge = min(n.timers.charge, n.cfg.nextCharge(n.clock, &n.rng)) // its interval may have become shorter
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

// accepts reports whether the node takes jobs at present.
func (n *Node) accepts() bool {
	return n.cfg.Roles.Has(Replication) && !n.cfg.Maintenance && !n.draining
}

// leaveWhenDrained gives up the lease of a draining node once its runs have ended and what they used is
// charged. An accept in flight may still bring jobs, which startRun hands back.
func (n *Node) leaveWhenDrained() {
	if !n.draining || len(n.runs) > 0 || n.accepting {
		return
	}
	switch n.lease {
	case live:
		if n.storeCharges() {
			n.lease = leaving
			n.ask(Retire{Worker: n.worker, Limit: n.cfg.Batches.Expire})
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
