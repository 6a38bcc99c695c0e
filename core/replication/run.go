package replication

import (
	"cmp"
	"fmt"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/peer"
	"couchrelay/core/prng"
)

type phase uint8

const (
	idle        phase = iota // before Begin
	delayed                  // waiting for Plan.Delay
	identifying              // reading the filter function, then waiting for Identified
	opening                  // opening both databases, reading checkpoints, and migrating those of older ids
	copying
	ended // after End; only the driver still holds the run
)

// Run is the state of one run. It is made by New and changed by Step alone.
//
// Its parts have their own state and methods: each asks for operations and is given their answers. They embed
// the run, for what they have in common (the plan, the present, the calls) and to reach each other. Step lets
// the event take effect in one part, and then lets every part do what has become possible (advance).
type Run struct {
	plan     Plan
	now      instant.Time // of the present step; never goes back
	phase    phase        // only grows, from idle to ended
	stopping bool         // set by Stop: nothing new is read or copied, only what is done is checkpointed
	out      []Effect     // of the present step

	calls  []*call // waiting for an answer or for their next attempt, in the order in which they were asked for
	nextID uint64  // id of the newest attempt; attempts count from 1 and ids are never used again

	// readOnly is set when the source has refused to store its log. Checkpoints are on the target alone from
	// then on.
	readOnly bool

	identity
	sides [2]side // by peer.Side

	opener  opener     // until the copying starts
	feed    feed       // reads changes
	work    pipeline   // copies what changed
	commits committer  // writes checkpoints
	watch   watcher    // looks after the databases of an idle run
	stalls  stallWatch // ends a run that gets nowhere
	turn    turn       // its time in the slot
	reports reporter
	refused refusals // keeps the list of refused documents
	figures
}

// figures are what the run tells of itself.
type figures struct {
	info   Info
	tally  Tally
	behind instant.Time // see Lag
}

// identity is what the run is known by, once it is identified.
type identity struct {
	ids    IDs
	filter peer.Filter // as it was when the run began; empty without a filter function
}

// side is what the run knows of one database.
type side struct {
	// start is the instance_start_time when the database was opened. It identifies the database among those
	// that have had its name, unless it is unknown (see known).
	start string
	// clustered reports whether the server words sequences as CouchDB does since 2.0.
	clustered bool
	// seq is where the database was when it was opened or looked at last, or the newest that the feed told since.
	seq    peer.Seq
	log    checkpoint.Log // as it was found or written last; the zero value if there is none
	logRev string         // revision of the log's document, empty if there is none
}

// New prepares a run.
func New(plan Plan) *Run {
	plan.Memory = cmp.Or(plan.Memory, DefaultMemory)
	plan.MaxWorkers = max(plan.Workers, min(plan.MaxWorkers, plan.Connections-2)) // for the feed and a checkpoint
	r := &Run{plan: plan}
	r.opener.Run, r.feed.Run, r.work.Run, r.commits.Run, r.watch.Run, r.reports.Run = r, r, r, r, r, r
	r.refused.Run, r.stalls.Run, r.turn.Run, r.work.window.Run, r.work.packing.Run = r, r, r, r, r
	r.work.packing.gap = firstGap
	r.feed.pending, r.work.docSize, r.commits.rng = -1, firstDocSize, prng.New(plan.Seed)
	r.info.Counters, r.info.ListSaved = plan.Resumed, plan.ListSaved
	return r
}

// Step handles one event and returns the effects to carry out, in their order.
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
	r.stalls.look()
	r.noteLag()
	if r.phase != ended {
		r.handle(ev)
	}
	if r.phase != ended {
		r.advance()
	}
}

// abandon ends a run whose state can no longer be relied on. Nothing that the present step decided is done:
// its effects may follow from the broken state. The driver drops the calls in flight, as after every End.
func (r *Run) abandon(broken *invariant.Broken) {
	r.phase, r.calls = ended, nil
	trouble := Trouble{Error: "invariant_broken", Reason: broken.Error()}
	r.out = []Effect{End{Cause: Crashed, Trouble: trouble, Info: r.Info()}}
}

func (r *Run) handle(ev Event) {
	switch ev := ev.(type) {
	case Begin:
		r.phase, r.turn.begun = delayed, r.now
	case Reply:
		r.onReply(ev)
	case Identified:
		if r.phase == identifying {
			r.opener.open()
		}
	case GiveWay:
		r.turn.asked = r.now
	case Stop:
		r.stalls.trouble = Trouble{} // it stops anyway
		r.stop()
	case Stored:
		r.refused.onStored()
	case RefusedPage:
		r.refused.onPage(ev)
	case TryRefused:
		r.refused.passBy(0)
	case Wake:
	default:
		panic(fmt.Sprintf("replication: unknown event %T", ev))
	}
}

// advance does all that the present state allows. It may be called at any time: what has been started is not
// started again.
func (r *Run) advance() {
	if r.refused.failed() {
		return
	}
	if r.phase == delayed && r.now >= r.turn.due() {
		r.opener.identify()
	}
	r.retryDue()
	if r.phase == copying && !r.stopping {
		r.work.startBatches()
		r.refused.store() // before a page is read, which would have what leaves the list just now
		r.refused.passWhenDue()
		r.feed.readMore()
	}
	if r.phase == copying {
		r.stalls.endWhenStalled()
	}
	if r.phase == copying {
		r.commits.commitWhenDue()
		r.watch.lookWhenDue()
		r.commits.noteReset()
		r.endWhenDone()
	}
	if r.phase == copying && r.now >= r.reports.next {
		r.reports.report()
	}
	r.turn.giveWay()
	if r.phase == copying {
		r.audit()
	}
}

// Deadline returns when the run wants to be woken at the latest. It must name no moment at which the run
// would have nothing to do, or the driver would wake it in a busy loop.
func (r *Run) Deadline() instant.Time {
	at := instant.Never
	switch r.phase {
	case delayed:
		return r.turn.due()
	case copying:
		at = min(r.reports.next, r.feed.notBefore(r.now), r.commits.due(), r.watch.due(), r.refused.due())
		at = min(at, r.stalls.due())
	}
	for _, c := range r.calls {
		if c.id == 0 && !r.opener.premature(c) {
			at = min(at, c.due)
		}
	}
	return at
}

func (r *Run) emit(e Effect) { r.out = append(r.out, e) }

// endWhenDone ends a one-shot that has read and copied everything, and a stopped run, once the last
// checkpoint is written.
func (r *Run) endWhenDone() {
	if r.commits.busy() || r.watch.looking || r.stopping && r.refused.holds(filed.leaves) {
		return
	}
	switch {
	case r.stopping:
		r.end(r.stalls.stopped())
	case r.feed.over && len(r.work.batches) == 0 && !r.commits.wanted() && r.refused.settled():
		r.end(End{Cause: Completed, Result: r.commits.result()})
	}
}

// stop ends the run in order: work in flight is given up, finished work is checkpointed.
func (r *Run) stop() {
	r.stopping = true
	if r.phase != copying {
		r.end(End{Cause: Stopped})
		return
	}
	r.cancelCalls(func(c *call) bool { return !c.survives })
	r.feed.pending = r.Info().ChangesPending // rows that were read and given up will be read again
	r.work.batches = nil
	r.refused.stop()
}

// crash ends the run with a reason.
func (r *Run) crash(e Trouble) { r.end(End{Cause: Crashed, Trouble: e}) }

func (r *Run) end(e End) {
	r.cancelCalls(func(*call) bool { return true })
	r.phase = ended
	e.Info = r.Info()
	r.emit(e)
}
