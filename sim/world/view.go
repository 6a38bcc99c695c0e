package world

import (
	"iter"
	"strings"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

// View reads a world. An observer has nothing else, so that it cannot change a run.
type View struct{ w *World }

// View is the world for observers.
func (w *World) View() View { return View{w} }

// Now is the present moment of the engine.
func (v View) Now() instant.Time { return v.w.Engine.Now() }

// Step is the number of the present event.
func (v View) Step() uint64 { return v.w.Engine.Played() }

// Logf writes a line into the trace, if there is one.
func (v View) Logf(actor, format string, args ...any) { v.w.Engine.Logf(actor, format, args...) }

// Config is the world's scenario.
func (v View) Config() *Config { return &v.w.Config }

// End is when the time of trouble is over.
func (v View) End() instant.Time { return v.w.End() }

// Fired is how often a fault has come up.
func (v View) Fired(fault string) uint64 { return v.w.Faults.Fired[fault] }

// Nodes are all processes, in the order of their names.
func (v View) Nodes() []*Node { return v.w.nodes }

// Tenants are the replicator databases.
func (v View) Tenants() []*Tenant { return v.w.users.tenants }

// Store is the format of what the store holds.
func (v View) Store() *jobstore.Store { return v.w.store }

// Present reads the store as it is, outside of all transactions.
func (v View) Present() kv.Reader { return v.w.db.Present() }

// StoreIntact returns an error when a value that a read of the store returned was changed by its reader.
func (v View) StoreIntact() error { return v.w.db.Intact() }

// StoreDown reports whether nothing gets through to the store.
func (v View) StoreDown() bool { return v.w.around.downUntil > v.w.Engine.Now() }

// Asking are the requests of nodes that are under way, in any order.
func (v View) Asking() iter.Seq[node.Request] {
	return func(yield func(node.Request) bool) {
		for _, a := range v.w.asks.current {
			if !yield(a.Request) {
				return
			}
		}
	}
}

// Databases are the databases of all servers, in order.
func (v View) Databases() []*peers.DB { return v.w.net.databases() }

// Database is the database of a URL; nil when it does not exist.
func (v View) Database(url string) *peers.DB { return v.w.net.find(url) }

// ReadDatabase reads a replicator database as it is. It does nothing while the database does not exist.
func (v View) ReadDatabase(t *Tenant, read func(*docs.Database) error) error {
	db, err := v.w.store.Docs.Open(v.w.db.Glance(), t.name)
	if isRefusal(err) {
		return nil // it is being made again
	}
	if err != nil {
		return err
	}
	return read(db)
}

// Worker is the node's name as a worker, in this life.
func (p *Node) Worker() string { return p.worker }

// Title is the name that the node is configured to have. Others may have the same.
func (p *Node) Title() string { return p.title }

// Roles are the node's roles.
func (p *Node) Roles() node.Roles { return p.roles }

// Alive reports whether the node lives.
func (p *Node) Alive() bool { return p.alive }

// Draining reports whether the node was told to leave.
func (p *Node) Draining() bool { return p.draining }

// Settings are the node's, which it may not have been told yet.
func (p *Node) Settings() node.Settings { return p.settings }

// Clock is what the node's clocks show.
func (p *Node) Clock() node.Clock { return p.clock() }

// Steady is what the steady clock shows, which the node, its runs and its limiter of requests go by.
func (p *Node) Steady() instant.Time { return p.steady() }

// Lag is by how much the steady clock is behind, since it stood still while the machine was suspended.
func (p *Node) Lag() time.Duration { return p.lag }

// Paused reports whether the node stands still.
func (p *Node) Paused() bool { return p.w.Engine.Paused(p.Process) }

// PausedLast is until when the node last stood still; 0 when it did not in this life.
func (p *Node) PausedLast() instant.Time { return p.pausedLast }

// Awoke is until when the node last stood still with its steady clock.
func (p *Node) Awoke() instant.Time { return p.awoke }

// ReachesSince is until when the node last was kept from the store.
func (p *Node) ReachesSince() instant.Time { return p.reachesSince }

// Disturbed reports whether the node cannot learn at the moment what the store says.
func (p *Node) Disturbed() bool {
	now := p.w.Engine.Now()
	return p.Paused() || p.isolated > now || p.w.around.downUntil > now
}

// Booted is when this life began.
func (p *Node) Booted() instant.Time { return p.booted }

// Running is the number of slots in use, as the machine says.
func (p *Node) Running() int { return p.host.Node().Running() }

// MaxJobs is the number of slots, as the machine says.
func (p *Node) MaxJobs() int { return p.host.Node().MaxJobs() }

// Runs are the node's runs, in the order in which they started.
func (p *Node) Runs() []*Run { return p.runs }

// ID counts the runs of each life of a node.
func (r *Run) ID() uint64 { return r.id }

// Node is the node that carries the run out.
func (r *Run) Node() *Node { return r.p }

// Work is the job, as the node took it from the store.
func (r *Run) Work() jobstore.Work { return r.work.Work }

// JobID is the job's id.
func (r *Run) JobID() string { return r.work.Work.JobID }

// Lock is the lock under which the node holds the job.
func (r *Run) Lock() jobs.Lock { return r.work.Work.Lock }

// Held is the job with its lock.
func (r *Run) Held() node.Held { return node.Held{JobID: r.work.Work.JobID, Lock: r.work.Work.Lock} }

// Record is the job's record when the run began.
func (r *Run) Record() *jobstore.Record { return r.work.Work.Record }

// Replication is what the job is to do.
func (r *Run) Replication() *spec.Replication { return r.work.Work.Replication }

// Began is when the run began.
func (r *Run) Began() instant.Time { return r.began }

// RepID is the replication id with which the run identified itself; empty until it has.
func (r *Run) RepID() string { return r.repID }

// Base is the id of the run's checkpoints: the replication id without its options.
func (r *Run) Base() string { return BaseOf(r.repID) }

// Info is what the machine says of itself now. A run that has only been started has none yet: its first step comes later in
// the same event.
func (r *Run) Info() replication.Info { return r.machine.Info() }

// Ending is how the machine said that it ended; the zero value until it did.
func (r *Run) Ending() replication.End { return r.ending }

// InFlight are the requests in flight by their ids, in any order.
func (r *Run) InFlight() iter.Seq2[uint64, peer.Op] {
	return func(yield func(uint64, peer.Op) bool) {
		for id, f := range r.calls {
			if !yield(id, f.op) {
				return
			}
		}
	}
}

// Flights is the number of requests in flight.
func (r *Run) Flights() int { return len(r.calls) }

// IsInFlight reports whether a request is in flight.
func (r *Run) IsInFlight(id uint64) bool { return r.calls[id] != nil }

// Told is what answers to the run told of its target.
func (r *Run) Told() *peers.Tally { return &r.pair.Told }

// WentBack reports whether the source repeated changes to the run.
func (r *Run) WentBack() bool { return r.pair.WentBack }

// Kept is the number of groups of bodies that the run's connections hold.
func (r *Run) Kept() int { return r.pair.Kept() }

// KeptBytes is the size of the bodies that the run's connections hold, without those of some requests.
func (r *Run) KeptBytes(without func(id uint64) bool) int { return r.pair.KeptBytes(without) }

// BaseOf is the id of the checkpoints of a replication: its replication id without its options.
func BaseOf(repID string) string {
	base, _, _ := strings.Cut(repID, "+")
	return base
}

// Name is the database's name.
func (t *Tenant) Name() string { return t.name }

// Instance is another one each time the database is made.
func (t *Tenant) Instance() tuple.UUID { return t.instance }

// Tenant is the document's database.
func (j *JobDoc) Tenant() *Tenant { return j.tenant }

// ID is the document's id.
func (j *JobDoc) ID() string { return j.id }

// JobID is the id of the document's job.
func (j *JobDoc) JobID() string { return jobstore.DocumentJobs(j.tenant.instance) + j.id }

// Unsure reports whether the user cannot know what became of the last write: it is under way, or had no answer.
func (j *JobDoc) Unsure() bool { return j.busy || j.unknown }

// Servers are the servers, in the order of their names.
func (w *World) Servers() []*peers.Server { return w.net.servers }
