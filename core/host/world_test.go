package host

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// world drives a host and checks what a driver may rely on. It keeps what was asked for until a test
// answers it.
type world struct {
	t      failer
	h      *Host
	now    node.Clock
	asks   []node.Ask
	awaits []node.Await
	links  map[uint64]map[uint64]peer.Op // calls in flight, by run
	over   []call                        // calls that were cancelled, in order
	closed []uint64
	// refuses are the runs whose databases cannot be connected to.
	refuses func(run uint64) bool
	plans   map[uint64]replication.Plan
	steps   []string // events of all steps of machines
	exited  bool
}

type call struct{ run, id uint64 }

func newWorld(t failer, change func(*Config)) *world {
	start := instant.Seconds(1_700_000_000)
	w := &world{
		t: t, now: node.Clock{Steady: start, Wall: start},
		links: map[uint64]map[uint64]peer.Op{}, plans: map[uint64]replication.Plan{},
		refuses: func(uint64) bool { return false },
	}
	c := Config{
		Node: node.Config{
			Settings: node.DefaultSettings(), Name: "n", Roles: node.AllRoles, Worker: "w",
			Exclusive: true, Seed: 1,
		},
		Server: repid.Server{UUID: "u"}, Observer: w,
	}
	if change != nil {
		change(&c)
	}
	w.h = New(c)
	w.tell(node.Start{})
	return w
}

// NodeStepped is Observer's.
func (w *world) NodeStepped(c node.Clock, ev node.Event, _ []node.Effect) {
	if c != w.now {
		w.t.Errorf("%s is stepped at %v, and it is %v", ev, c, w.now)
	}
	w.steps = append(w.steps, ev.String())
}

// RunBegins is Observer's.
func (w *world) RunBegins(run uint64, plan replication.Plan) {
	if _, again := w.plans[run]; again {
		w.t.Errorf("run %d begins twice", run)
	}
	w.plans[run] = plan
}

// RunStepped is Observer's.
func (w *world) RunStepped(run uint64, now instant.Time, ev replication.Event, _ []replication.Effect) {
	if _, planned := w.plans[run]; !planned || now != w.now.Steady {
		w.t.Errorf("run %d is stepped at %s without a plan, or not at %s", run, now, w.now.Steady)
	}
	if slices.Contains(w.closed, run) || w.links[run] == nil {
		w.t.Errorf("run %d is told %s, and is gone", run, ev)
	}
	if reply, is := ev.(replication.Reply); is {
		if w.links[run][reply.ID] == nil {
			w.t.Errorf("run %d is told %s, and does not wait for that", run, ev)
		}
		delete(w.links[run], reply.ID)
	}
	w.steps = append(w.steps, fmt.Sprintf("run %d %s", run, ev))
}

// tell tells an event and performs all that comes of it.
func (w *world) tell(ev Event) {
	w.t.Helper()
	for w.h.Tell(ev); w.h.Next() != nil; {
		for _, e := range w.h.Step(w.now) {
			w.perform(e)
		}
	}
}

func (w *world) perform(e Effect) {
	w.t.Helper()
	switch e := e.(type) {
	case node.Ask:
		w.asks = append(w.asks, e)
	case node.Await:
		w.awaits = append(w.awaits, e)
	case node.StartRun:
		if w.refuses(e.Run) {
			w.h.Refuse(e.Run, "no such place")
			return
		}
		w.links[e.Run] = map[uint64]peer.Op{}
	case RunEffect:
		w.performRun(e.Run, e.Effect)
	case Close:
		if w.links[e.Run] == nil || len(w.links[e.Run]) > 0 {
			w.t.Errorf("run %d is closed, and has in flight %v", e.Run, w.links[e.Run])
		}
		delete(w.links, e.Run)
		w.closed = append(w.closed, e.Run)
	case node.Exit:
		w.exited = true
	}
}

func (w *world) performRun(run uint64, e replication.Effect) {
	w.t.Helper()
	calls := w.links[run]
	if calls == nil {
		w.t.Fatalf("run %d wants %s, and has no link", run, e)
	}
	switch e := e.(type) {
	case replication.Call:
		if calls[e.ID] != nil {
			w.t.Errorf("run %d has two calls %d", run, e.ID)
		}
		calls[e.ID] = e.Op
	case replication.Cancel:
		if calls[e.ID] == nil {
			w.t.Errorf("run %d cancels call %d, which is not in flight", run, e.ID)
		}
		delete(calls, e.ID)
		w.over = append(w.over, call{run, e.ID})
	}
}

// pass lets time pass and wakes what is due.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.now.Steady, w.now.Wall = w.now.Steady.Add(d), w.now.Wall.Add(d)
	woken := map[string]bool{}
	for ev := w.h.Due(w.now.Steady); ev != nil; ev = w.h.Due(w.now.Steady) {
		if woken[ev.String()] {
			w.t.Fatalf("%s is due twice at one moment", ev)
		}
		woken[ev.String()] = true
		w.tell(ev)
	}
}

// done answers the oldest request of a kind.
func done[Q node.Request](w *world, result node.Result) {
	w.t.Helper()
	for i, ask := range w.asks {
		if _, is := ask.Request.(Q); is {
			w.asks = slices.Delete(w.asks, i, i+1)
			w.tell(node.Done{ID: ask.ID, Result: result})
			return
		}
	}
	w.t.Fatalf("nobody asks for a %T: %v", *new(Q), w.asks)
}

// reply answers a call.
func (w *world) reply(run, id uint64, r peer.Reply) {
	w.t.Helper()
	w.tell(RunEvent{run, replication.Reply{ID: id, Reply: r}})
}

// calls are the ids of a run's calls in flight, in order.
func (w *world) calls(run uint64) []uint64 { return slices.Sorted(maps.Keys(w.links[run])) }

// work is a job that a worker accepted, and that has copied something before.
func work(t failer, id, more string) jobstore.Work {
	body := fmt.Appendf(nil, `{"source":"http://h/%s","target":"http://h/x"%s}`, id, more)
	rep, err := spec.ParseRequest(body, spec.DefaultConfig())
	if err != nil {
		t.Fatalf("%v", err)
	}
	lock, record := jobs.Lock{Worker: "w", Batch: 1}, &jobstore.Record{}
	record.Stats.RevisionsChecked = 1
	return jobstore.Work{JobID: id, Lock: lock, Record: record, Replication: rep}
}

// running is a world whose node has a lease and runs of these jobs.
func running(t *testing.T, list ...jobstore.Work) *world {
	w := newWorld(t, nil)
	w.begin(list...)
	return w
}

// begin gives the node a lease, and then jobs.
func (w *world) begin(list ...jobstore.Work) {
	done[node.Join](w, node.Ok{})
	done[node.Accept](w, node.Accepted{Work: list})
}

// open has a run go on until it opens both databases and looks for a log of each: four calls are in flight then.
func (w *world) open(run uint64) {
	w.t.Helper()
	w.pass(time.Second) // runs of one accept begin spread
	done[node.Claim](w, node.Claimed{})
	if len(w.calls(run)) != 4 {
		w.t.Fatalf("run %d has in flight %v", run, w.links[run])
	}
}
