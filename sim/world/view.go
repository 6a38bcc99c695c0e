package world

import (
	"iter"
	"strings"

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
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// View reads a world. Observers have nothing else of the world, so that they cannot change a run. What it
// returns belongs to the world, and is as of now: observers copy what they want to keep. They must not change
// it.
type View struct{ w *World }

// View returns the world as observers have it.
func (w *World) View() View { return View{w} }

// Now returns the present moment of the engine.
func (v View) Now() instant.Time { return v.w.Engine.Now() }

// Step returns the number of the present event, from 1.
func (v View) Step() uint64 { return v.w.Engine.Played() }

// Logf adds a line to the trace, if there is one.
func (v View) Logf(actor, format string, args ...any) { v.w.Engine.Logf(actor, format, args...) }

// Config returns the world's scenario.
func (v View) Config() *Config { return &v.w.Config }

// End returns the planned end of the time of trouble.
func (v View) End() instant.Time { return v.w.End() }

// ClocksWereSet reports whether a fault has set a clock of a node so far, or has kept one from going on.
func (v View) ClocksWereSet() bool { return v.w.clocksWereSet }

// Nodes returns all nodes, dead ones too, in their order: n1, n2 and so on.
func (v View) Nodes() []*Node { return v.w.nodes }

// Tenants returns the replicator databases, also those that are being deleted or made again.
func (v View) Tenants() []*Tenant {
	all := v.w.users.tenants
	for _, f := range v.w.follows.list {
		all = append(all[:len(all):len(all)], f.tenant)
	}
	return all
}

// Store returns the format of what the store holds.
func (v View) Store() *jobstore.Store { return v.w.store }

// Root is below which the store is.
func (v View) Root() tuple.Subspace { return tuple.Subspace(tuple.Pack(root)) }

// Present reads the store as of the last commit that landed, outside of all transactions. It must not be used
// while Landed is told.
func (v View) Present() kv.Reader { return v.w.db.Present() }

// Glance is Present for what needs a transaction's read version.
func (v View) Glance() kv.Tx { return v.w.db.Glance() }

// StoreIntact returns an error if the reader of a value has changed it, which is the store's own memory.
func (v View) StoreIntact() error { return v.w.db.Intact() }

// StoreDown reports whether an outage keeps everything, or all reads, from the store now.
func (v View) StoreDown() bool { return v.w.storeWorld.outUntil(fakefdb.Read) > v.w.Engine.Now() }

// Asking yields the requests of nodes to the store that have no answer yet, also those of nodes that died
// meanwhile, in any order. A transaction of a stand-in user is a nil one.
func (v View) Asking() iter.Seq[node.Request] {
	return func(yield func(node.Request) bool) {
		for _, a := range v.w.asks.current {
			if !yield(a.Request) {
				return
			}
		}
	}
}

// Databases returns the databases of all servers, in the order of the servers and then of their names.
func (v View) Databases() []*peers.DB { return v.w.net.databases() }

// Database returns the database of a URL, or nil if there is none now.
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

// Worker returns the node's name as a worker in this life, or the last: the node's name and the number of the
// life.
func (l *life) Worker() string { return l.worker }

// Title returns the name that the node is configured to have. Several nodes may have the same.
func (p *Node) Title() string { return p.title }

// Roles returns the node's roles, which never change.
func (p *Node) Roles() node.Roles { return p.roles }

// Alive reports whether the process runs, paused or not.
func (l *life) Alive() bool { return l.alive }

// Draining reports whether the node was told to leave in this life, or the last.
func (l *life) Draining() bool { return l.draining }

// Settings returns the settings that the node is to have. Its machine may not have been told them yet.
func (p *Node) Settings() node.Settings { return p.settings }

// Booted returns when this life, or the last, began.
func (l *life) Booted() instant.Time { return l.booted }

// Running returns the number of slots in use, as the node's machine says. The node must have been started.
func (l *life) Running() int { return l.host.Node().Running() }

// MaxJobs returns the number of slots, as the node's machine says. The node must have been started.
func (l *life) MaxJobs() int { return l.host.Node().MaxJobs() }

// Runs returns the node's runs in the order in which they started. One that ends in the present event may
// still be among them.
func (l *life) Runs() []*Run { return l.runs }

// ID returns the number of the run, by which its node calls it. It is unique within a life of the node.
func (r *Run) ID() uint64 { return r.id }

// Node returns the node that carries the run out.
func (r *Run) Node() *Node { return r.p }

// Work returns the job as the node took it from the store.
func (r *Run) Work() jobstore.Work { return r.work.Work }

// JobID returns the job's id.
func (r *Run) JobID() string { return r.work.Work.JobID }

// Lock returns the lock under which the node took the job. The node may have lost it since.
func (r *Run) Lock() jobs.Lock { return r.work.Work.Lock }

// Held returns the job's id with its lock.
func (r *Run) Held() node.Held { return node.Held{JobID: r.work.Work.JobID, Lock: r.work.Work.Lock} }

// Record returns the job's record as it was when the node took the job.
func (r *Run) Record() *jobstore.Record { return r.work.Work.Record }

// Replication returns what the job is to do.
func (r *Run) Replication() *spec.Replication { return r.work.Work.Replication }

// Began returns when the run began.
func (r *Run) Began() instant.Time { return r.began }

// RepID returns the replication id with which the run identified itself. It is empty until then.
func (r *Run) RepID() string { return r.repID }

// Base returns the id of the run's checkpoints, which is BaseOf its replication id. It is empty until the run
// has identified itself.
func (r *Run) Base() string { return BaseOf(r.repID) }

// Info returns what the run's machine says of itself now. It must not be called before the machine's first
// step, which comes later in the event of RunStarted.
func (r *Run) Info() replication.Info { return r.machine.Info() }

// Ending returns how the run's machine said that it is over. It is the zero value until then, and for a run
// that was dropped.
func (r *Run) Ending() replication.End { return r.ending }

// InFlight yields the requests in flight with their ids, in any order.
func (r *Run) InFlight() iter.Seq2[uint64, peer.Op] {
	return func(yield func(uint64, peer.Op) bool) {
		for id, f := range r.calls {
			if !yield(id, f.op) {
				return
			}
		}
	}
}

// Flights returns the number of requests in flight.
func (r *Run) Flights() int { return len(r.calls) }

// IsInFlight reports whether a request is in flight.
func (r *Run) IsInFlight(id uint64) bool { return r.calls[id] != nil }

// Told returns what the answers that arrived at the run said of its target.
func (r *Run) Told() *peers.Tally { return &r.pair.Told }

// WentBack reports whether the source repeated changes to the run.
func (r *Run) WentBack() bool { return r.pair.WentBack }

// Kept returns the number of fetches whose bodies the run's connections still hold.
func (r *Run) Kept() int { return r.pair.Kept() }

// KeptBytes returns the size of the bodies that the run's connections hold, without those of the fetches that
// without reports.
func (r *Run) KeptBytes(without func(id uint64) bool) int { return r.pair.KeptBytes(without) }

// BaseOf returns the id of the checkpoints of a replication: its replication id without the options behind
// the "+".
func BaseOf(repID string) string {
	base, _, _ := strings.Cut(repID, "+")
	return base
}

// Name returns the database's name.
func (t *Tenant) Name() string { return t.name }

// Instance returns the id of the present database of this name, or of the last one. Each time it is made it
// has another.
func (t *Tenant) Instance() tuple.UUID { return t.instance }

// Tenant returns the document's database.
func (j *JobDoc) Tenant() *Tenant { return j.tenant }

// ID returns the document's id.
func (j *JobDoc) ID() string { return j.id }

// JobID returns the id of the document's job, in the present instance of its database.
func (j *JobDoc) JobID() string { return jobstore.DocumentJobs(j.tenant.instance) + j.id }

// Unsure reports whether the user cannot know what became of the last write, since it is under way or had no
// answer.
func (j *JobDoc) Unsure() bool { return j.busy || j.unknown }

// Servers returns the servers in their order: s1, s2 and so on.
func (w *World) Servers() []*peers.Server { return w.net.servers }
