// Package replication is one run of one replication as a stepped machine: it identifies itself, opens
// both databases, finds the common checkpoint, then reads changes, asks which revisions are missing,
// copies them and writes checkpoints, all overlapping, until it is done, stopped or in trouble. It
// speaks CouchDB's replication protocol (version 3 of its replicator) in the words of package peer and
// touches nothing itself.
//
// # Obligations of the driver
//
// Package host keeps 1 and 4 for its drivers, and has them not told of late replies.
//
//  1. Step is called with Begin once, then with one event at a time; now never goes back.
//  2. Every Call is answered by exactly one Reply with the same id, unless it was cancelled; a Reply
//     to a cancelled Call is ignored.
//  3. Step is called with Wake at Deadline, or any time.
//  4. After End nothing else comes; what is still under way may be dropped.
//  5. Bodies that a FetchDocs kept stay until Release or the end of the run; one that failed keeps none.
//
// # The promise
//
// A checkpoint never covers a change that is not durably on the target: batches are numbered in the
// order of the feed, a batch is done when each of its revisions was written, was found on the target, or
// was refused by the target and counted, and the checkpoint takes the sequence of the last batch
// before the first that is not done.
package replication

import (
	"cmp"
	"fmt"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/peer"
	"couchrelay/core/prng"
)

// Plan is all that a run needs to know.
type Plan struct {
	Options
	// IDs computes the replication's ids from the source text of its filter function, which is empty
	// without one.
	IDs func(filterCode string) IDs
	// Created is when the job was made; checkpoints carry it as start_time.
	Created instant.Time
	// Resumed are the counters of earlier runs of the job.
	Resumed checkpoint.Counters
	// ResumedID is the replication that these counters are of; empty for whichever this is. Another one, as with a
	// changed filter function, counts from the beginning.
	ResumedID string
	// Delay postpones the first request, so that many runs that start at once spread.
	Delay time.Duration
	// Seed makes the session ids. No two runs may share one.
	Seed uint64
	// Broken is told of a broken invariant, which then ends the run as crashed. Without it Step panics.
	Broken func(*invariant.Broken)
}

// IDs names a replication.
type IDs struct {
	// Bases are the ids without options, of version 4, 3, 2 and 1. The first names the checkpoint
	// documents; the others are where older servers left theirs.
	Bases []string
	// Extension is what the options add to the first: the id of the job.
	Extension string
}

// Options are the settings of a replication that the machine acts on.
type Options struct {
	Continuous     bool
	CreateTarget   bool
	CreateParams   []peer.Param
	UseCheckpoints bool
	UseBulkGet     bool
	// FlatLog writes the fields of CouchDB 1.0 into checkpoints; doc_ids replications do.
	FlatLog bool
	// Filter is the filter function whose text is part of the id, nil when there is none.
	Filter *peer.GetFilter
	// SinceSeq is where to start without a checkpoint; empty means from the beginning.
	SinceSeq peer.Seq

	Workers     int // batches under way at once
	BatchSize   int // rows in a batch
	Connections int // requests to one database at once
	Retries     int // further attempts of a failed request
	Memory      int // bytes of bodies held at once, but for one larger answer; 0 means DefaultMemory

	CheckpointInterval time.Duration
	// ProgressInterval is the time between Progress effects.
	ProgressInterval time.Duration
}

type phase uint8

const (
	idle phase = iota
	delayed
	identifying // reading the filter, then waiting for Identified
	opening
	locating // reading and migrating checkpoints
	copying
	ended
)

// Run is the state of one run. It is made by New and changed by Step alone.
type Run struct {
	plan  Plan
	rng   prng.Source
	now   instant.Time
	phase phase
	wake  instant.Time // when a delayed run begins
	out   []Effect

	ids    IDs
	filter peer.Filter // as it was when the run began
	sides  [2]side

	calls  []*call // waiting for a reply or for their next attempt, oldest first
	nextID uint64

	feed     feed
	batches  []*batch // not all done, in the order of the feed
	numbered int64    // batches so far
	furthest int64    // number of the newest batch that is done
	memory   int      // bytes of bodies kept or asked for
	copies   int      // CopyDoc operations under way
	docSize  int      // estimate of a document's bytes
	skipDiff ratio
	skipBulk ratio
	commits  committer
	info     Info
	reports  reporter
	stopping bool
}

// side is what the run knows of one database.
type side struct {
	opened bool
	start  string // instance_start_time when it was opened
	// clustered servers word sequences as CouchDB does since 2.0.
	clustered bool
	version   int // index into ids.Bases of the checkpoint that is being looked for
	located   bool
	log       checkpoint.Log
	logRev    string // revision of the checkpoint document, empty when there is none
}

// New prepares a run.
func New(plan Plan) *Run {
	plan.Memory = cmp.Or(plan.Memory, DefaultMemory)
	r := &Run{plan: plan, rng: prng.New(plan.Seed), docSize: 1024, feed: feed{pending: -1}}
	r.info.Counters = plan.Resumed
	return r
}

// Step handles one event and returns what is to be done, in order.
func (r *Run) Step(now instant.Time, ev Event) []Effect {
	r.now = now
	if broken := invariant.Guard(r.plan.Broken, func() { r.step(ev) }); broken != nil {
		r.abandon(broken)
	}
	out := r.out
	r.out = nil
	return out
}

func (r *Run) step(ev Event) {
	if r.phase != ended {
		r.handle(ev)
	}
	if r.phase != ended {
		r.advance()
	}
}

// abandon ends a run whose state can no longer be relied on. Nothing that the present step decided is done: its
// effects may follow from the broken state. The driver drops what is in flight, as after every End.
func (r *Run) abandon(broken *invariant.Broken) {
	r.phase, r.calls = ended, nil
	r.out = []Effect{End{Cause: Crashed, Trouble: Trouble{Error: "invariant_broken", Reason: broken.Error()}, Info: r.Info()}}
}

func (r *Run) handle(ev Event) {
	switch ev := ev.(type) {
	case Begin:
		r.phase, r.wake = delayed, r.now.Add(r.plan.Delay)
	case Reply:
		r.onReply(ev)
	case Identified:
		if r.phase == identifying {
			r.open()
		}
	case Stop:
		r.stop()
	case Wake:
	default:
		panic(fmt.Sprintf("replication: unknown event %T", ev))
	}
}

// advance does whatever the present state allows; it is safe to call at any time.
func (r *Run) advance() {
	if r.phase == delayed && r.now >= r.wake {
		r.identify()
	}
	r.retryDue()
	if r.phase == copying && !r.stopping {
		r.startBatches()
		r.readMore()
	}
	if r.phase == copying {
		r.commitWhenDue()
		r.lookWhenDue()
		r.endWhenDone()
	}
	if r.phase == copying && r.now >= r.reports.next {
		r.report()
	}
	if r.phase == copying {
		r.audit()
	}
}

// Deadline is when the run wants to be woken at the latest.
func (r *Run) Deadline() instant.Time {
	at := instant.Never
	switch r.phase {
	case idle, ended:
		return at
	case delayed:
		return r.wake
	case copying:
		at = min(r.reports.next, r.feed.notBefore(r.now), r.commits.due(r), r.commits.lookDue(r))
	}
	for _, c := range r.calls {
		if c.id == 0 {
			at = min(at, c.due)
		}
	}
	return at
}

func (r *Run) emit(e Effect) { r.out = append(r.out, e) }

// endWhenDone ends a one-shot that has read and copied everything, and a stopped run.
func (r *Run) endWhenDone() {
	if r.commits.busy() {
		return
	}
	switch {
	case r.stopping:
		r.end(End{Cause: Stopped})
	case r.feed.over && len(r.batches) == 0 && !r.commits.wanted(r):
		r.end(End{Cause: Completed, Result: r.result()})
	}
}

// stop ends the run in order: what is under way is given up, what is done is checkpointed.
func (r *Run) stop() {
	r.stopping = true
	if r.phase != copying {
		r.end(End{Cause: Stopped})
		return
	}
	r.cancelCalls(func(c *call) bool { return !c.commits })
	r.feed.pending = r.Info().ChangesPending // what was read and is given up is to come again
	r.batches, r.feed.reading = nil, nil
}

// crash ends the run with a reason.
func (r *Run) crash(e Trouble) { r.end(End{Cause: Crashed, Trouble: e}) }

func (r *Run) end(e End) {
	r.cancelCalls(func(*call) bool { return true })
	r.phase = ended
	e.Info = r.Info()
	r.emit(e)
}

// newSession makes the id of one checkpoint: 32 hexadecimal digits, as CouchDB's.
func (r *Run) newSession() string {
	return fmt.Sprintf("%016x%016x", r.rng.Uint64(), r.rng.Uint64())
}
