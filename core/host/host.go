package host

import (
	"container/heap"
	"fmt"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
)

// Config makes a host.
type Config struct {
	Node node.Config
	// Server is the identity that goes into replication ids.
	Server repid.Server
	// Memory bounds the bodies that a run holds at once, in bytes; 0 means replication.DefaultMemory.
	Memory int
	// MaxListed is how many refused documents the store lists for a job; 0 means replication.MaxListed.
	MaxListed int64
	// Broken is told of a broken invariant of a run, which then ends that run as crashed. Without it Step
	// panics.
	Broken func(*invariant.Broken)
	// Plan makes the plan of a run before the run's first step. Nil means that the host makes it from the
	// job; recordings set it, since they have the plans and not all of the jobs.
	Plan func(node.StartRun) replication.Plan
	// Observer is told of every step; it may be nil.
	Observer Observer
}

// Host is a node with its runs. It is made by New and changed by Tell, Step and Refuse alone.
type Host struct {
	cfg  Config
	node *node.Node
	// due is the node's deadline after its last step; Never before the first.
	due instant.Time
	// runs are the runs that were started and have neither ended nor been killed, by their numbers.
	runs map[uint64]*run
	// wakes holds the same runs as a heap, the one with the earliest deadline first.
	wakes wakes
	// settings are those which the node was told last. A run keeps those with which it began.
	settings node.Settings
	// queue holds the events that were told or brought about and are not handled yet, oldest first.
	queue []Event
	out   []Effect // of the present step
	tally replication.Tally
}

// run is a run of the node.
type run struct {
	start   node.StartRun
	machine *replication.Run  // nil until its first step
	calls   []uint64          // ids of the calls in flight, ascending: the machine counts its calls
	due     instant.Time      // the machine's deadline after its last step; Never before the first
	index   int               // in Host.wakes
	counted replication.Tally // of the machine, that the host has counted
}

// New prepares a host.
func New(cfg Config) *Host {
	h := &Host{
		cfg: cfg, node: node.New(cfg.Node), due: instant.Never, runs: map[uint64]*run{},
		settings: cfg.Node.Settings,
	}
	if h.cfg.Plan == nil {
		h.cfg.Plan = h.plan
	}
	return h
}

// Tell queues an event.
func (h *Host) Tell(ev Event) { h.queue = append(h.queue, ev) }

// Next is the event that Step handles, nil when none is queued. Events that come too late are left out:
// those of a run that is gone, and replies to a call that is not in flight.
func (h *Host) Next() Event {
	for ; len(h.queue) > 0; h.queue = h.queue[1:] {
		ev, is := h.queue[0].(RunEvent)
		if !is {
			return h.queue[0]
		}
		if r := h.runs[ev.Run]; r != nil && r.awaits(ev.Event) {
			return ev
		}
	}
	h.queue = nil
	return nil
}

// Step handles Next and returns what is to be done, in order.
func (h *Host) Step(c node.Clock) []Effect {
	ev := h.Next()
	if ev == nil {
		return nil
	}
	h.queue = h.queue[1:]
	switch ev := ev.(type) {
	case node.Event:
		h.stepNode(c, ev)
	case RunEvent:
		h.stepRun(c.Steady, ev)
	default:
		panic(fmt.Sprintf("host: unknown event %T", ev))
	}
	out := h.out
	h.out = nil
	return out
}

// stepNode steps the node. An event that a run brought about still reaches the node when the run was killed
// in between: the node knows that the run is gone, and the order of its events stays the same.
func (h *Host) stepNode(c node.Clock, ev node.Event) {
	if e, is := ev.(node.Configure); is {
		h.settings = e.Settings
	}
	effects := h.node.Step(c, ev)
	h.due = h.node.Deadline()
	if h.cfg.Observer != nil {
		h.cfg.Observer.NodeStepped(c, ev, effects)
	}
	for _, e := range effects {
		h.out = append(h.out, e)
		switch e := e.(type) {
		case node.StartRun:
			r := &run{start: e, due: instant.Never}
			h.runs[e.Run] = r
			heap.Push(&h.wakes, r)
			h.Tell(RunEvent{e.Run, replication.Begin{}})
		case node.Confirm:
			h.Tell(RunEvent{e.Run, replication.Identified{}})
		case node.StopRun:
			h.Tell(RunEvent{e.Run, replication.Stop{}})
		case node.TellRun:
			h.Tell(RunEvent{e.Run, e.Event})
		case node.KillRun:
			h.drop(e.Run)
		case node.Exit:
			h.queue = nil
		}
	}
}

// stepRun steps a run.
func (h *Host) stepRun(now instant.Time, ev RunEvent) {
	r := h.runs[ev.Run]
	if reply, is := ev.Event.(replication.Reply); is {
		r.settle(reply.ID)
	}
	if r.machine == nil {
		plan := h.cfg.Plan(r.start)
		r.machine = replication.New(plan)
		if h.cfg.Observer != nil {
			h.cfg.Observer.RunBegins(ev.Run, plan)
		}
	}
	effects := r.machine.Step(now, ev.Event)
	r.due = r.machine.Deadline()
	heap.Fix(&h.wakes, r.index)
	h.count(r)
	if h.cfg.Observer != nil {
		h.cfg.Observer.RunStepped(ev.Run, now, ev.Event, effects)
	}
	for _, e := range effects {
		h.out = append(h.out, RunEffect{ev.Run, e})
		switch e := e.(type) {
		case replication.Call:
			r.calls = append(r.calls, e.ID)
		case replication.Cancel:
			r.settle(e.ID)
		case replication.Identify:
			h.Tell(node.RunIdentifies{Run: ev.Run, ID: e.ID, Base: e.Base})
		case replication.Progress:
			h.Tell(node.RunProgress{Run: ev.Run, Info: e.Info})
		case replication.Refused:
			h.Tell(node.RunRefused{Run: ev.Run, Findings: e.Findings})
		case replication.ReadRefused:
			h.Tell(node.RunReadsRefused{Run: ev.Run, ReadRefused: e})
		case replication.GivesWay:
			h.Tell(node.RunGivesWay{Run: ev.Run})
		case replication.End:
			h.drop(ev.Run)
			h.Tell(node.RunEnded{Run: ev.Run, End: e})
		}
	}
}

// awaits reports whether an event is no reply, or one to a call in flight.
func (r *run) awaits(ev replication.Event) bool {
	reply, is := ev.(replication.Reply)
	return !is || slices.Contains(r.calls, reply.ID)
}

// settle forgets a call that is not in flight any more.
func (r *run) settle(id uint64) {
	r.calls = slices.DeleteFunc(r.calls, func(call uint64) bool { return call == id })
}

// drop forgets a run and cancels what it has in flight. Next leaves out what is queued for it.
func (h *Host) drop(id uint64) {
	r := h.runs[id]
	if r == nil {
		return
	}
	h.forget(id)
	for _, call := range r.calls {
		h.out = append(h.out, RunEffect{id, replication.Cancel{ID: call}})
	}
	h.out = append(h.out, Close{id})
}

func (h *Host) forget(id uint64) {
	heap.Remove(&h.wakes, h.runs[id].index)
	delete(h.runs, id)
}

// Refuse ends a run whose databases cannot be connected to: the run does not begin, and the node is told that
// it crashed, for a reason that people read. Refuse is called before the run's first step; later, and for a
// run that is gone, it does nothing. The simulator can connect to every database.
func (h *Host) Refuse(run uint64, reason string) {
	begin := slices.IndexFunc(h.queue, func(ev Event) bool {
		e, _ := ev.(RunEvent)
		_, begins := e.Event.(replication.Begin)
		return begins && e.Run == run
	})
	if begin < 0 || h.runs[run] == nil {
		return
	}
	h.forget(run)
	trouble := replication.Trouble{Error: "invalid_replication", Reason: reason}
	h.queue[begin] = node.RunEnded{Run: run, End: replication.End{Cause: replication.Crashed, Trouble: trouble}}
}

// plan is the plan of a run, made from its job.
func (h *Host) plan(s node.StartRun) replication.Plan {
	rec := s.Work.Record
	return replication.NewPlan(s.Work.Replication, replication.Terms{
		Server: h.cfg.Server, Created: rec.Created, Resumed: rec.Stats.Counters(), ResumedID: rec.Replicated(),
		Throttled: rec.Throttled, Delay: s.Delay, Seed: s.Seed, ProgressInterval: h.settings.ProgressInterval,
		Memory: h.cfg.Memory, Broken: h.cfg.Broken, Reset: rec.Reset != 0,
		Listed: rec.Listed(), MaxListed: h.cfg.MaxListed, List: s.Work.List(), ListSaved: rec.ListSaved(),
		Crashes: rec.Crashes(), StallTimeout: h.settings.StallTimeout, MissingPause: h.settings.MissingPause,
	})
}

// Deadline is when a machine wants to be woken at the latest: the earliest deadline of the node and all runs.
func (h *Host) Deadline() instant.Time { return min(h.due, h.wakes.next()) }

// Due is the wake of the run with the earliest deadline if that has come, else of the node if its deadline
// has come, else nil. Runs go first, since a run that ends in time need not be killed by the node.
func (h *Host) Due(now instant.Time) Event {
	switch {
	case h.wakes.next() <= now:
		return RunEvent{h.wakes[0].start.Run, replication.Wake{}}
	case h.due <= now:
		return node.Wake{}
	}
	return nil
}

// Node is the machine of the node, to be looked at.
func (h *Host) Node() *node.Node { return h.node }

// Run is the machine of a run, to be looked at; nil before the run's first step and once it is gone.
func (h *Host) Run(id uint64) *replication.Run {
	if r := h.runs[id]; r != nil {
		return r.machine
	}
	return nil
}

// Numbers calls tell with the job of each run that has begun to copy, and what the run says of itself. The order means
// nothing.
func (h *Host) Numbers(tell func(jobID string, info replication.Info)) {
	for _, r := range h.wakes {
		if r.machine == nil {
			continue
		}
		if info := r.machine.Info(); info.ThroughSeq != "" {
			tell(r.start.Work.JobID, info)
		}
	}
}
