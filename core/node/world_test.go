package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/sim/fakefdb"
)

// world drives nodes on one store. Requests are performed at once; runs do only what a test makes them.
type world struct {
	t     *testing.T
	db    *fakefdb.Database
	s     *jobstore.Store
	now   instant.Time
	nodes []*driven
	down  bool // the store refuses everything

	weigh func(i int) int64        // the weights of jobs of tenants, nil for none
	ran   map[string]time.Duration // by job, while play let time pass
}

type driven struct {
	*Node
	w        *world
	name     string
	running  map[uint64]jobstore.Work // runs by number
	stopped  map[uint64]bool          // asked to stop
	awaits   []Await
	looked   uint64 // the commits of the store when the awaits were last looked at
	confirms int    // that runs were given
	notes    []string
	exited   bool
	paused   bool          // the process stands still
	stays    bool          // runs that are to give way do not answer
	skew     time.Duration // of the wall clock
	// hold keeps the answers to requests that it matches for later.
	hold func(Request) bool
	held []Ask

	texts []string // of the notes
	told  []string // what runs were told
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, db: fakefdb.New(), now: instant.Seconds(1_700_000_000), ran: map[string]time.Duration{}}
	w.s = jobstore.New(tuple.Subspace(tuple.Pack("test")), jobstore.DefaultConfig(repid.Server{UUID: "u"}))
	w.do(func(tx kv.Tx) error { return w.s.Docs.Create(tx, "_replicator", tuple.UUID{1}, w.now) })
	return w
}

func (w *world) do(f func(kv.Tx) error) {
	w.t.Helper()
	if err := kv.Do(context.Background(), w.db, f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start(name string, change func(*Config)) *driven {
	cfg := Config{Settings: DefaultSettings(), Name: name, Roles: AllRoles,
		Worker: fmt.Sprint(name, "-", len(w.nodes)), Seed: uint64(len(w.nodes) + 1)}
	if change != nil {
		change(&cfg)
	}
	d := &driven{Node: New(cfg), w: w, name: name, running: map[uint64]jobstore.Work{}, stopped: map[uint64]bool{}}
	w.nodes = append(w.nodes, d)
	d.step(Start{})
	return d
}

func (d *driven) clock() Clock { return Clock{Steady: d.w.now, Wall: d.w.now.Add(d.skew)} }

func (d *driven) step(ev Event) {
	effects := d.Step(d.clock(), ev)
	d.checkCalls()
	for _, e := range effects {
		switch e := e.(type) {
		case Ask:
			if d.hold != nil && d.hold(e.Request) {
				d.held = append(d.held, e)
				continue
			}
			d.step(d.perform(e))
		case Await:
			d.awaits, d.looked = append(d.awaits, e), 0
		case StartRun:
			d.running[e.Run] = e.Work
		case StopRun:
			d.stopped[e.Run] = true
		case TellRun:
			if _, is := e.Event.(replication.GiveWay); is && !d.stays {
				d.step(RunGivesWay{Run: e.Run})
				continue
			}
			d.told = append(d.told, fmt.Sprintf("%d %T", e.Run, e.Event))
		case Confirm:
			d.confirms++
		case KillRun:
			delete(d.running, e.Run)
		case Note:
			d.notes, d.texts = append(d.notes, e.What), append(d.texts, e.Text)
		case Exit:
			d.exited = true
		}
	}
}

// checkCalls wants no two requests of the node's own to be about the same: while the store is away they would pile up,
// and come all at once when it is back.
func (d *driven) checkCalls() {
	seen := map[string]bool{}
	for _, c := range d.own {
		what := fmt.Sprintf("%T", c.req)
		if e, is := c.req.(Expire); is {
			what += " " + e.Worker
		}
		if seen[what] {
			d.w.t.Fatalf("%s asks for two of %s", d.name, what)
		}
		seen[what] = true
	}
}

func (d *driven) perform(a Ask) Done {
	if d.w.down {
		return Done{ID: a.ID, Fault: StoreDown, Text: "down"}
	}
	result, err := kv.Run(context.Background(), d.w.db, func(tx kv.Tx) (Result, error) {
		return Perform(tx, d.w.s, a.Request, d.clock().Wall)
	})
	if err != nil {
		return Failed(a.ID, err)
	}
	if !answers(a.Request, result) {
		d.w.t.Fatalf("%s was answered with a %T", a.Request, result)
	}
	return Done{ID: a.ID, Result: result}
}

// pass lets time pass, and delivers what was awaited.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); ; {
		next := end
		for _, n := range w.nodes {
			if !n.paused {
				next = min(next, n.Deadline())
			}
		}
		for _, n := range w.nodes {
			n.wakeEarly(next)
		}
		w.now = max(w.now, next)
		for _, n := range w.nodes {
			if !n.paused {
				n.deliver()
				if n.Deadline() <= w.now {
					n.step(Wake{})
				}
			}
		}
		if w.now >= end {
			return
		}
	}
}

// wakeEarly wakes the node shortly before a time, if nothing is due until then. It must not act: nobody else wakes it,
// so it would have slept through what it does.
func (d *driven) wakeEarly(next instant.Time) {
	c := d.clock()
	if c.Steady = next - 1; d.paused || c.Steady <= d.w.now || d.Deadline() <= c.Steady {
		return
	}
	c.Wall = c.Steady.Add(d.skew)
	if effects := d.Step(c, Wake{}); len(effects) > 0 {
		d.w.t.Fatalf("at %s, before its deadline %s, a node does %v", c.Steady, next, effects)
	}
}

// deliver notifies the node of the counters that have changed. Nothing has if nothing was committed.
func (d *driven) deliver() {
	commits := d.w.db.Stats().Commits
	if commits == d.looked {
		return
	}
	awaits := d.awaits
	d.awaits, d.looked = nil, commits
	for _, a := range awaits {
		fired := false
		d.w.do(func(tx kv.Tx) error {
			watch, err := Arm(tx, d.w.s, a)
			if fired = watch == nil; !fired {
				watch.Cancel()
			}
			return err
		})
		if fired {
			d.step(Notified{Topic: a.Topic})
		} else {
			d.awaits = append(d.awaits, a)
		}
	}
}

func (w *world) put(id, body string) {
	w.t.Helper()
	w.do(func(tx kv.Tx) error {
		db, err := w.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		doc.ID = id
		if old, err := db.Read(id, docs.Want{Deleted: true}); err == nil {
			doc.Rev = old.Rev
		}
		written, err := w.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc}}, jobstore.Writer{Admin: true}, w.now)
		if err == nil && written[0].Err != nil {
			err = written[0].Err
		}
		return err
	})
}

func (w *world) putMany(n int, continuous bool) {
	for i := range n {
		w.put(fmt.Sprintf("r%03d", i),
			fmt.Sprintf(`{"source":"http://h/a%d","target":"http://h/b%d","continuous":%v}`, i, i, continuous))
	}
}

func (w *world) state(doc string) jobstore.State {
	w.t.Helper()
	var state jobstore.State = "absent"
	w.do(func(tx kv.Tx) error {
		rec, err := w.s.Record(tx, jobstore.DocumentJobs(tuple.UUID{1})+doc)
		if rec != nil {
			state = rec.State
		}
		return err
	})
	return state
}

func (w *world) audit() {
	w.t.Helper()
	w.do(func(tx kv.Tx) error { return errors.Join(w.s.Jobs.Audit(tx), w.s.Audit(tx)) })
}

// runOf is the run of a document's job on this node.
func (d *driven) runOf(doc string) uint64 {
	d.w.t.Helper()
	for id, work := range d.running {
		if strings.HasSuffix(work.JobID, "|"+doc) {
			return id
		}
	}
	d.w.t.Fatalf("%s does not run %s", d.name, doc)
	return 0
}

// endRun lets a run end.
func (d *driven) endRun(id uint64, cause replication.Cause) {
	delete(d.running, id)
	end := replication.End{Cause: cause}
	if cause == replication.Crashed {
		end.Trouble = replication.Trouble{Error: "boom", Reason: "it broke"}
	}
	d.step(RunEnded{Run: id, End: end})
}

// stopAll lets all runs that were asked to stop do so.
func (d *driven) stopAll() {
	for id := range d.stopped {
		if _, on := d.running[id]; on {
			d.endRun(id, replication.Stopped)
		}
	}
}
