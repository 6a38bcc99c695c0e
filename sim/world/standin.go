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

// Tests of observers tell facts of a world in which nothing happens by itself. They have no use for Begin, and make what
// facts name by these functions.

// Live begins a life of every node, whose machines do not start.
func (w *World) Live() {
	for _, p := range w.nodes {
		p.live()
	}
}

// NewRun is a run of a node. Its machine is not stepped.
func (w *World) NewRun(p *Node, s node.StartRun) *Run {
	r := p.newRun(s)
	r.machine = replication.New(replication.NewPlan(s.Work.Replication, replication.Terms{
		Server: w.store.Config.Server, ProgressInterval: p.settings.ProgressInterval, Memory: w.Config.Memory,
	}))
	return r
}

// SetInFlight has a request of a run be in flight, or no more when op is nil.
func (r *Run) SetInFlight(id uint64, op peer.Op) {
	if delete(r.calls, id); op != nil {
		r.calls[id] = &flight{op: op}
	}
}

// Commit has a transaction land at once that carries out a request of a node, or of a user when that is nil.
func (w *World) Commit(q node.Request, change func(kv.Tx) error) error {
	w.around.atOnce = true
	defer func() { w.around.atOnce = false }()
	w.asking(q, w.Engine.Now(), 0)
	defer w.asked()
	err := kv.Do(w.Engine.NewContext(nil, 0), w.db, change)
	w.emit(Stepped{})
	return err
}

// Occupy has a node's machine run n jobs, of which no observer is told.
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
		for _, e := range p.host.Step(p.clock()) {
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

// SetSettings gives a node other settings, of which its machine is not told.
func (p *Node) SetSettings(s node.Settings) { p.settings = s }

// Leave has a node be told to leave.
func (p *Node) Leave() { p.draining = true }

// StandStill has a node stand still.
func (p *Node) StandStill(d time.Duration) { p.pause(NodePause, d) }

// Suspend has a node stand still with its steady clock.
func (p *Node) Suspend(d time.Duration) { p.suspend(d) }

// MakeTenants makes the replicator databases at once.
func (w *World) MakeTenants() {
	w.around.atOnce = true
	defer func() { w.around.atOnce = false }()
	for _, t := range w.users.tenants {
		w.users.create(t)
	}
	w.emit(Stepped{})
}

// Keep has the run's connections hold the bodies of an answer.
func (r *Run) Keep(id uint64) { r.pair.Keep(id) }

// told is a machine that tells this of itself, and waits for nothing.
type told replication.Info

func (t told) Info() replication.Info { return replication.Info(t) }
func (t told) Deadline() instant.Time { return instant.Never }

// SetInfo has a run's machine tell this of itself.
func (r *Run) SetInfo(i replication.Info) { r.machine = told(i) }

// Identify has a run be that of a replication id.
func (r *Run) Identify(id string) { r.repID = id }

// GoBack has a run's source have repeated changes.
func (r *Run) GoBack() { r.pair.WentBack = true }
