package follow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/sim/fakefdb"
)

// fataler is what tests, benchmarks and rapid have in common.
type fataler interface {
	Helper()
	Fatalf(string, ...any)
	Logf(string, ...any)
}

// world is a store, a server with a database that is followed, and workers.
type world struct {
	t     fataler
	db    kv.Database
	relay *jobstore.Store
	store *follow.Store
	couch *couch // nil while there is none
	now   instant.Time
	list  []follow.Database

	workers []*worker
	names   int
	made    byte // instances of databases
	batch   uint64

	// fault decides what goes wrong with an operation: nothing, what peers knows, or that its answer gets lost.
	fault func(op peer.Op) fault
	// asked is told of each transaction that a worker is about to make.
	asked func(q follow.Request)
	// done is told of each transaction of a worker that committed; true loses the answer.
	done func(q follow.Request) bool
	ops  []peer.Op
	runs int  // started so far
	vain int  // transactions that a worker asked for, and that failed
	deaf bool // watches are lost
}

type worker struct {
	w     *world
	m     *follow.Worker
	asks  []follow.Ask
	calls []follow.Call
	open  map[uint64]string // databases by run
	waits map[uint64]follow.Await
	notes []follow.Note
	left  bool
}

const mirror = "couch/reps/_replicator"

func newWorld(t fataler) *world {
	w := &world{t: t, db: fakefdb.New(), now: 1_000_000_000}
	root := tuple.Subspace(tuple.Pack("r"))
	w.relay = jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "u", HostName: "h", Port: 1}))
	w.store = follow.NewStore(root, w.relay)
	w.couch = newCouch("1")
	w.follow(follow.Database{Section: "couch", Name: "reps", URL: "http://s/reps/"})
	return w
}

func (w *world) do(f func(tx kv.Tx) error) {
	w.t.Helper()
	if err := kv.Do(context.Background(), w.db, f); err != nil {
		w.t.Fatalf("%v", err)
	}
}

func (w *world) follow(list ...follow.Database) {
	w.t.Helper()
	w.list = list
	instances := make([]tuple.UUID, len(list))
	for i := range instances {
		w.made++
		instances[i][0] = w.made
	}
	w.do(func(tx kv.Tx) error {
		_, _, err := follow.Follow(tx, w.store, list, instances, w.now)
		return err
	})
	for _, k := range w.workers {
		k.tell(follow.Configure{Jobs: w.ids()})
	}
}

func (w *world) ids() (ids []string) {
	for _, d := range w.list {
		ids = append(ids, d.ID())
	}
	return ids
}

// start adds a worker.
func (w *world) start() *worker {
	w.names++
	name := fmt.Sprint("w", w.names)
	machine := follow.New(follow.Config{Worker: name, Seed: uint64(w.names), Pages: w.store.Pages})
	k := &worker{w: w, m: machine, open: map[uint64]string{}, waits: map[uint64]follow.Await{}}
	w.workers = append(w.workers, k)
	k.tell(follow.Configure{Jobs: w.ids()})
	return k
}

// kill ends a worker at once.
func (w *world) kill(k *worker) {
	w.workers = slices.DeleteFunc(w.workers, func(o *worker) bool { return o == k })
}

// tell steps the worker, and returns how many effects that has.
func (k *worker) tell(ev follow.Event) int {
	effects := k.m.Step(k.w.now, ev)
	for _, e := range effects {
		switch e := e.(type) {
		case follow.Ask:
			if slices.ContainsFunc(k.asks, func(a follow.Ask) bool { return a.ID == e.ID }) {
				k.w.t.Fatalf("%v is asked for while it is on its way", e.Request)
			}
			k.asks = append(k.asks, e)
		case follow.Open:
			k.open[e.Run] = e.Job.Name
			k.w.runs++
		case follow.Call:
			k.calls = append(k.calls, e)
		case follow.Cancel:
			i := slices.IndexFunc(k.calls, func(c follow.Call) bool { return c.Run == e.Run && c.ID == e.ID })
			if i < 0 {
				k.w.t.Fatalf("call %d of run %d is canceled, and is not on its way", e.ID, e.Run)
			}
			k.calls = slices.Delete(k.calls, i, i+1)
		case follow.Await:
			k.waits[e.Run] = e
		case follow.Close:
			delete(k.open, e.Run)
			delete(k.waits, e.Run)
		case follow.Note:
			k.notes = append(k.notes, e)
		case follow.Exit:
			k.left = true
		}
	}
	return len(effects)
}

// act does one thing that the worker has asked for, and reports whether there was one.
func (k *worker) act(choose func(n int) int) bool {
	n := len(k.asks) + len(k.calls)
	if n == 0 {
		return false
	}
	i := choose(n)
	if i < len(k.asks) {
		a := k.asks[i]
		k.asks = slices.Delete(k.asks, i, i+1)
		k.perform(a)
		return true
	}
	c := k.calls[i-len(k.asks)]
	if op, is := c.Op.(peer.ReadChanges); is && op.Wait && k.w.couch != nil && len(k.w.couch.changes(op).Rows) == 0 {
		return k.actBeside(c, choose)
	}
	k.calls = slices.Delete(k.calls, i-len(k.asks), i-len(k.asks)+1)
	k.carry(c)
	return true
}

// actBeside acts on anything but a long poll that waits.
func (k *worker) actBeside(poll follow.Call, choose func(n int) int) bool {
	if len(k.asks) > 0 {
		a := k.asks[0]
		k.asks = k.asks[1:]
		k.perform(a)
		return true
	}
	for i, c := range k.calls {
		if c != poll {
			if op, is := c.Op.(peer.ReadChanges); is && op.Wait {
				continue
			}
			k.calls = slices.Delete(k.calls, i, i+1)
			k.carry(c)
			return true
		}
	}
	return false
}

func (k *worker) perform(a follow.Ask) {
	if k.w.asked != nil {
		k.w.asked(a.Request)
	}
	result, err := kv.Run(context.Background(), k.w.db, func(tx kv.Tx) (follow.Result, error) {
		return follow.Perform(tx, k.w.store, a.Request, k.w.now)
	})
	answer := follow.Answer{ID: a.ID, Result: result}
	if err != nil {
		k.w.vain++
		answer = follow.Failed(a.ID, err)
	}
	if k.w.done != nil && k.w.done(a.Request) {
		answer = follow.Answer{ID: a.ID, Outcome: follow.StoreDown, Text: "lost"}
	}
	k.tell(answer)
}

func (k *worker) carry(c follow.Call) {
	k.w.ops = append(k.w.ops, c.Op)
	read, reads := c.Op.(peer.ReadDocs)
	feed, feeds := c.Op.(peer.ReadChanges)
	if reads && read.Budget <= 0 || feeds && feed.Limit <= 0 {
		k.w.t.Fatalf("%v has no bound", c.Op)
	}
	wrong := fault("")
	if k.w.fault != nil {
		wrong = k.w.fault(c.Op)
	}
	gone := &peer.Failure{Kind: peer.Status, Status: 404, Error: "not_found", Reason: "Database does not exist."}
	reply := peer.Reply{Failure: gone}
	if k.w.couch != nil {
		reply = k.w.couch.answer(c.Op, wrong)
	}
	k.tell(follow.Reply{Run: c.Run, ID: c.ID, Reply: reply})
}

// fire answers waits for changes that have come, and reports whether there were any.
func (k *worker) fire() (fired bool) {
	for _, a := range k.waits {
		watch, err := kv.Run(context.Background(), k.w.db, func(tx kv.Tx) (kv.Watch, error) {
			return follow.Arm(tx, k.w.store, a)
		})
		if watch != nil && err == nil {
			watch.Cancel()
		} else if !k.w.deaf {
			fired = true
			delete(k.waits, a.Run)
			k.tell(follow.Changed{Run: a.Run})
		}
	}
	return fired
}

// wake wakes the worker, and reports whether the worker acts. It must act only after its deadline: nothing else would
// wake it.
func (k *worker) wake() bool {
	late := k.m.Deadline() <= k.w.now
	acts := k.tell(follow.Wake{}) > 0
	if acts && !late {
		k.w.t.Fatalf("a worker acts before its deadline, and would sleep until then")
	}
	if k.m.Deadline() <= k.w.now {
		k.w.t.Fatalf("a worker that was woken wants to be woken at once: a busy loop")
	}
	return acts
}

// pass has time pass, and reports whether that has workers do something.
func (w *world) pass(d time.Duration) (busy bool) {
	w.now = w.now.Add(d)
	for _, k := range slices.Clone(w.workers) {
		fired := k.fire()
		busy = k.wake() || fired || busy
	}
	return busy
}

func first(int) int { return 0 }

// tick is how much time passes at once while workers work.
const tick = 250 * time.Millisecond

// settle lets the workers work for a while.
func (w *world) settle(d time.Duration) {
	for end := w.now.Add(d); w.now < end; {
		for _, k := range slices.Clone(w.workers) {
			for n := 0; k.act(first); n++ {
				if n > 10_000 {
					w.t.Fatalf("a worker does not come to rest: %v %v", k.asks, k.calls)
				}
			}
		}
		if !w.pass(tick) {
			w.leap(end)
		}
	}
}

// leap passes over the time in which all workers sleep: up to the last tick before a deadline, or to the end.
func (w *world) leap(end instant.Time) {
	for _, k := range w.workers {
		end = min(end, k.m.Deadline()-1)
	}
	w.now = w.now.Add(max(0, end.Sub(w.now).Truncate(tick)))
	for _, k := range w.workers {
		k.wake()
	}
}

// unfed has the worker work for a while, without the feed's long poll.
func (k *worker) unfed(d time.Duration) {
	poll := func(c follow.Call) bool {
		op, is := c.Op.(peer.ReadChanges)
		return is && op.Wait
	}
	for end := k.w.now.Add(d); k.w.now < end; {
		for k.w.pass(250 * time.Millisecond); ; {
			if i := slices.IndexFunc(k.calls, func(c follow.Call) bool { return !poll(c) }); len(k.asks) > 0 {
				k.act(first)
			} else if i >= 0 {
				c := k.calls[i]
				k.calls = slices.Delete(k.calls, i, i+1)
				k.carry(c)
			} else {
				break
			}
		}
	}
}

// lastApply points to what a worker has asked to apply last.
func (w *world) lastApply() *follow.Apply {
	last := &follow.Apply{}
	w.done = func(q follow.Request) bool {
		if q, is := q.(follow.Apply); is {
			*last = q
		}
		return false
	}
	return last
}

// perform carries a request out as an attempt does that lands late.
func (w *world) perform(q follow.Request) {
	w.t.Helper()
	w.do(func(tx kv.Tx) error {
		_, err := follow.Perform(tx, w.store, q, w.now)
		return err
	})
}

// write writes a document of the followed database as a user does, over its newest revision; no body deletes it.
func (w *world) write(id, body string) {
	w.t.Helper()
	over := ""
	if latest := w.couch.docs[id]; latest != nil && !latest.deleted {
		over = latest.rev()
	}
	if w.couch.put(id, over, body, body == "") == "" {
		w.t.Fatalf("%s cannot be written", id)
	}
}

// remote is a document of the followed database, nil if there is none.
func (w *world) remote(id string) (body map[string]any) {
	doc := w.couch.docs[id]
	if doc == nil || doc.deleted {
		return nil
	}
	if err := json.Unmarshal([]byte(doc.body), &body); err != nil {
		w.t.Fatalf("%v", err)
	}
	return body
}

// job is the state of a document's job, empty if there is none.
func (w *world) job(id string) (state jobstore.State, jobID string) {
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		jobID = fmt.Sprintf("%x|%s", db.Instance[:], id)
		rec, err := w.relay.Record(tx, jobID)
		if state = ""; err == nil && rec != nil {
			state = rec.State
		}
		return err
	})
	return state, jobID
}

// complete ends the job of a document as a node does that has run it.
func (w *world) complete(id string) {
	w.t.Helper()
	_, jobID := w.job(id)
	w.batch++
	w.do(func(tx kv.Tx) error {
		if err := w.relay.Jobs.Register(tx, "node", nil); err != nil {
			return err
		}
		got, err := w.relay.Accept(tx, "node", "node", jobs.Demand{Batch: w.batch, Max: 100, Window: 100}, w.now)
		if err != nil {
			return err
		}
		for _, work := range got.Work {
			held := w.relay.Owned(tx, work.JobID, work.Lock, w.now)
			if work.JobID == jobID {
				err = held.Complete(replication.End{Cause: replication.Completed}, jobstore.Turn{})
			} else {
				err = held.Requeue(nil, jobstore.Turn{})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// fail ends the job of a document, the first in the queue, for good.
func (w *world) fail(id string) {
	w.t.Helper()
	_, jobID := w.job(id)
	w.batch++
	w.do(func(tx kv.Tx) error {
		if err := w.relay.Jobs.Register(tx, "node", nil); err != nil {
			return err
		}
		got, err := w.relay.Accept(tx, "node", "node", jobs.Demand{Batch: w.batch, Max: 1}, w.now)
		if err != nil {
			return err
		}
		return w.relay.Owned(tx, jobID, got.Work[0].Lock, w.now).Fail(trouble, jobstore.Turn{})
	})
}

// retry has the job of a document run again, as an operator does.
func (w *world) retry(id string) (refused error) {
	_, jobID := w.job(id)
	w.do(func(tx kv.Tx) error {
		_, refused = jobstore.Operator{Store: w.relay, Tx: tx, By: "adm", Now: w.now}.Retry(jobID, "")
		return nil
	})
	return refused
}
