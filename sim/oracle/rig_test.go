package oracle

import (
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// rig is an oracle over a world in which nothing happens by itself: a test tells it facts.
type rig struct {
	t *testing.T
	w *world.World
	o *Oracle
	// runs and calls so far, for their ids.
	runs, calls uint64
	heard       replication.Event // by which the last run that heard something goes on
}

// case_ are facts and the invariant that they break; empty when they break none.
type case_ struct {
	name   string
	tell   func(*rig)
	breaks string
}

// check tells the facts of each case to an oracle of its own that knows one subject.
func check(t *testing.T, about *subject, cases []case_) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, about)
			c.tell(r)
			switch v := r.o.Violation(); {
			case v == nil && c.breaks != "":
				t.Errorf("breaks nothing, and should break %s", c.breaks)
			case v != nil && v.ID != c.breaks:
				t.Errorf("breaks %s, and should break %q", v, c.breaks)
			}
		})
	}
}

// newRig has two nodes with both roles that have just started, three servers with databases a1 and b1, and no
// jobs.
func newRig(t *testing.T, about *subject) *rig { return newRigIn(t, world.Default(), about) }

// newRigIn is one for a world of any kind.
func newRigIn(t *testing.T, c world.Config, about *subject) *rig {
	w := world.New(c, decide.New(decide.Seed(1)))
	t.Cleanup(w.Close)
	for _, db := range w.View().Databases() {
		delete(db.Deny, peers.Logs)
	}
	r := &rig{t: t, w: w, o: judging(w.View(), about)}
	w.Observe(r.o.See)
	if c.Older > 0 {
		older := binary.LittleEndian.AppendUint64(nil, 1)
		r.commit(nil, func(tx kv.Tx) error { tx.Set(w.View().Store().Keys.Schema, older); return nil })
	}
	w.Live()
	return r
}

// see tells facts.
func (r *rig) see(facts ...world.Fact) {
	for _, f := range facts {
		r.o.See(f)
	}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) { r.w.Engine.Run(r.w.Engine.Now().Add(d), nil) }

// node is a node by its number, from 1.
func (r *rig) node(number int) *world.Node { return r.w.View().Nodes()[number-1] }

// db is a database by SERVER and name.
func (r *rig) db(server, name string) *peers.DB { return r.w.View().Database(world.URL(server, name)) }

// replication is parsed from a body as POST /_replicate takes it, from s1/a1 to s2/b1 unless members say
// something else.
func (r *rig) replication(members map[string]any) *spec.Replication {
	body := map[string]any{"source": world.URL("s1", "a1"), "target": world.URL("s2", "b1")}
	for name, v := range members {
		body[name] = v
	}
	raw, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	rep, err := spec.ParseRequest(raw, r.w.View().Store().Config.Parse)
	if err != nil {
		r.t.Fatal(err)
	}
	return rep
}

// run starts a run of a job of its own on the first node, for a replication with these members.
func (r *rig) run(members map[string]any) *world.Run {
	r.runs++
	return r.runOf(r.node(1), jobstore.Work{
		JobID: "job", Lock: jobs.Lock{Worker: "n1/1"}, Replication: r.replication(members),
		Record: &jobstore.Record{Created: r.w.Engine.Now()},
	})
}

// runOf starts a run of a job on a node.
func (r *rig) runOf(n *world.Node, work jobstore.Work) *world.Run {
	run := r.w.NewRun(n, node.StartRun{Run: r.runs, Work: work})
	r.see(world.RunStarted{Run: run})
	return run
}

// call has a run send a request, and answers its id.
func (r *rig) call(run *world.Run, op peer.Op) uint64 {
	r.calls++
	r.see(world.RunCalls{Run: run, ID: r.calls, Op: op, By: r.heard})
	run.SetInFlight(r.calls, op)
	return r.calls
}

// answer has the answer to a request arrive, and the run step by it.
func (r *rig) answer(run *world.Run, id uint64, op peer.Op, reply peer.Reply, effects ...replication.Effect) {
	r.heard = replication.Reply{ID: id, Reply: reply}
	r.see(world.RunReplied{Run: run, Op: op, Reply: reply})
	run.SetInFlight(id, nil)
	r.see(world.RunStepped{Run: run, Asked: op, Event: r.heard, Effects: effects})
}

// commit has a transaction of a request land; nil is one of users.
func (r *rig) commit(q node.Request, change func(kv.Tx) error) {
	if err := r.w.Commit(q, change); err != nil {
		r.t.Fatal(err)
	}
}
