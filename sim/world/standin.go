package world

import (
	"fmt"
	"time"

	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// The functions of this file are for tests of observers. Such a test never calls Begin, so nothing happens in
// its world by itself; it makes the nodes' lives, runs and commits that it needs with these functions, and
// tells the facts.

// Live begins a life of every node, without starting the machines.
func (w *World) Live() {
	for _, p := range w.nodes {
		p.live()
	}
}

// NewRun returns a run of a node, which the node does not know of. Its machine is never stepped.
func (w *World) NewRun(p *Node, s node.StartRun) *Run {
	r := p.newRun(s)
	r.machine = replication.New(replication.NewPlan(s.Work.Replication, replication.Terms{
		Server: w.store.Config.Server, ProgressInterval: p.settings.ProgressInterval, Memory: w.Config.Memory,
	}))
	return r
}

// SetInFlight puts a request of a run in flight, or ends it when op is nil.
func (r *Run) SetInFlight(id uint64, op peer.Op) {
	if delete(r.calls, id); op != nil {
		r.calls[id] = &flight{op: op}
	}
}

// Commit commits a transaction that carries out a request of a node, or of a user when q is nil, without
// faults and without time passing.
func (w *World) Commit(q node.Request, change func(kv.Tx) error) error {
	w.storeWorld.undisturbed = true
	defer func() { w.storeWorld.undisturbed = false }()
	w.asks.begin(w.Engine.Self(), Asked{Request: q, Wall: w.Engine.Now()})
	defer w.asks.end(w.Engine.Self())
	err := kv.Do(w.Engine.NewContext(nil, 0), w.db, change)
	w.emit(Stepped{})
	return err
}

// Occupy makes a node's machine run n jobs, without telling observers.
func (p *Node) Occupy(n int) {
	p.host = host.New(host.Config{Node: node.Config{
		Settings: p.settings, Name: p.title, Roles: p.roles, Worker: p.worker, Seed: p.site.Seed64(),
	}})
	work := make([]jobstore.Work, n)
	for i := range work {
		work[i] = jobstore.Work{
			JobID: fmt.Sprint("busy-", i), Record: &jobstore.Record{}, Replication: &spec.Replication{Continuous: true},
		}
	}
	var answers []host.Event
	tell := func(ev host.Event) {
		p.host.Tell(ev)
		for _, e := range p.host.Step(p.Clock()) {
			ask, _ := e.(node.Ask)
			switch ask.Request.(type) {
			case node.Join:
				answers = append(answers, node.Done{ID: ask.ID, Result: node.Ok{}})
			case node.Accept:
				answers = append(answers, node.Done{ID: ask.ID, Result: node.Accepted{Work: work}})
			}
		}
	}
	tell(node.Start{})
	for ; len(answers) > 0 && p.Running() < n; answers = answers[1:] {
		tell(answers[0])
	}
}

// SetSettings gives a node other settings, without telling its machine.
func (p *Node) SetSettings(s node.Settings) { p.settings = s }

// Leave marks a node as draining, without telling its machine.
func (p *Node) Leave() { p.draining = true }

// StandStill pauses a node.
func (d *disturbances) StandStill(lasts time.Duration) { d.pause(NodePause, lasts) }

// Suspend stops a node together with its steady clock.
func (d *disturbances) Suspend(lasts time.Duration) { d.suspend(lasts) }

// MakeTenants makes the replicator databases, without faults and without time passing.
func (w *World) MakeTenants() {
	w.storeWorld.undisturbed = true
	defer func() { w.storeWorld.undisturbed = false }()
	for _, t := range w.users.tenants {
		w.users.create(t)
	}
	w.emit(Stepped{})
}

// ForkNow has a document be one that has conflicts.
func ForkNow(w *World, j *JobDoc) {
	j.forked = true
	w.emit(DocumentForked{j.JobID()})
}

// Keep makes the run's connections hold the bodies of a fetch.
func (r *Run) Keep(id uint64) { r.pair.Keep(id) }

// told is a machine that tells this of itself, and waits for nothing.
type told replication.Info

func (t told) Info() replication.Info   { return replication.Info(t) }
func (t told) Tally() replication.Tally { return replication.Tally{} }
func (t told) Deadline() instant.Time   { return instant.Never }

// SetInfo has a run's machine tell this of itself.
func (r *Run) SetInfo(i replication.Info) { r.machine = told(i) }

// Identify has a run be that of a replication id.
func (r *Run) Identify(id string) { r.repID = id }

// GoBack has a run's source have repeated changes.
func (r *Run) GoBack() { r.pair.WentBack = true }
