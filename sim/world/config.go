package world

import (
	"maps"
	"slices"
	"time"

	"couchrelay/core/backoff"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/sim/decide"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// Config is a scenario: everything about a run but the answers of its decider.
type Config struct {
	Nodes int // processes with both roles
	// FrontendOnly and ReplicationOnly are how many more there are with one role.
	FrontendOnly, ReplicationOnly int
	Namesakes                     int // processes that are called like the first one
	Servers                       int
	Databases                     int // on each server
	Tenants                       int // replicator databases
	Jobs                          int // replication documents at the beginning
	Docs                          int // documents in each database at the beginning

	// Duration is the time of trouble, in which users act and faults happen; then everything is healed,
	// and within Settle all must have converged.
	Duration, Settle time.Duration

	// Shares of the jobs and documents, in percent.
	Continuous, Filtered, Attached, Denied int
	// LongURLs is the percentage of replications whose records are large, by the URL of a proxy.
	LongURLs int
	// NumericServers, BareServers: percent of servers that number their changes; that lack _bulk_get
	// and do not tell pending changes.
	NumericServers, BareServers int

	// Think is the longest time between two actions of the users.
	Think time.Duration
	// StoreLatency and NetLatency bound the time of one way.
	StoreLatency, NetLatency time.Duration
	// SlowReads is the percentage of transactions whose reads take time; those of the others suspend nobody.
	SlowReads int

	Settings           node.Settings
	Sharing            jobstore.Sharing // without shares as yet; Settings.Interval holds
	Backoff            backoff.Policy
	TransientMaxAge    time.Duration
	CheckpointInterval time.Duration
	BatchSize, Workers int
	Retries            int
	Memory             int // bytes of bodies that a run holds

	// Rates is how often each fault comes up: of a request or store operation out of decide.Scale, of all
	// others out of decide.Scale in each turn of the nemesis, which has one every NemesisTick.
	Rates map[string]int
	// Actions is how often users do what, as weights out of decide.Scale in each turn.
	Actions map[string]int
	// Events happen at fixed times, whatever the decider says.
	Events []Event

	// Sample makes the costly checks (S9, S11, S17) only one time in so many; 0 and 1 mean always.
	Sample int
}

// Processes is the number of all processes, whatever their roles. Those with both come first.
func (c *Config) Processes() int { return c.Nodes + c.FrontendOnly + c.ReplicationOnly }

// Exclusive says that the store belongs to one process, as an embedded one does.
func (c *Config) Exclusive() bool { return c.Processes() == 1 }

// Event is something that a scenario wants to happen.
type Event struct {
	At   time.Duration // from the beginning
	What string        // a fault of the nemesis, or an action
	Whom string        // a node, a server, a database SERVER/DB, a document; empty for the decider's choice
	For  time.Duration // how long, for what lasts; 0 for the decider's choice
}

// NemesisTick is the time between turns of the nemesis.
const NemesisTick = 5 * time.Second

// Faults of the nemesis, in families: the store as a whole, processes, the network, servers, databases.
const (
	StoreDown = "fdb-down" // nothing gets through to the store for a while

	NodeCrash       = "node-crash"       // killed, and restarted after a while
	NodePause       = "node-pause"       // stands still for a while, as long as a lease or longer
	NodeStall       = "node-stall"       // as node-pause, in the middle of a transaction or before its answer
	NodeSuspend     = "node-suspend"     // as node-pause, and its clocks that never jump stood still too
	NodeDrain       = "node-drain"       // stops in order, and is started again
	NodeStorm       = "node-storm"       // all are killed at once
	NodeSkew        = "node-skew"        // its wall clock is wrong from now on
	NodeJump        = "node-jump"        // its wall clock jumps forward or back for a while
	NodeOtherSpeed  = "node-other-setup" // restarted with other settings, as during an upgrade
	NodeMaxJobs     = "node-max-jobs"    // its max_jobs changes while it runs, down to 0 too
	NodeTimeout     = "node-timeout"     // its activity timeout changes while it runs
	NodeMaintenance = "node-maintenance" // it hands its jobs back, and takes none for a while

	NetPartition = "net-partition" // a process does not reach a server
	NetIsolated  = "net-isolated"  // a process does not reach the store
	NetSwizzle   = "net-swizzle"   // connections are cut one by one and come back in another order

	ServerDown      = "server-down"      // refuses everything
	ServerSlow      = "server-slow"      // takes seconds for every answer
	ServerThrottles = "server-throttles" // answers 429 to everything, or to requests of one kind
	ServerLocksOut  = "server-locks-out" // answers 401 to everything
	ServerBreaks    = "server-breaks"    // all its open connections break
	ServerRestarts  = "server-restarts"  // loses what no replication had made durable

	DBRecreated = "db-recreated"   // deleted and made again, empty
	DBSnared    = "db-snared"      // deleted and made again when the next checkpoint arrives
	DBLateLogs  = "db-late-logs"   // deleted and made again, and checkpoints that were under way arrive
	DBDeleted   = "db-deleted"     // deleted, made again after a while
	DBRestored  = "db-restored"    // put back to an earlier state
	FilterEdit  = "filter-changed" // the filter function is another one
)

// NemesisFaults are all faults of the nemesis.
var NemesisFaults = []string{StoreDown, NodeCrash, NodePause, NodeStall, NodeSuspend, NodeDrain, NodeStorm, NodeSkew, NodeJump, NodeOtherSpeed, NodeMaxJobs, NodeTimeout, NodeMaintenance, NetPartition,
	NetIsolated, NetSwizzle, ServerDown, ServerSlow, ServerThrottles, ServerLocksOut, ServerBreaks, ServerRestarts, DBRecreated, DBSnared, DBLateLogs, DBDeleted, DBRestored, FilterEdit}

// Actions of the users.
const (
	EditDoc        = "doc-edit"
	DeleteDoc      = "doc-delete"
	ConflictDoc    = "doc-conflict"
	BurstDocs      = "doc-burst"
	HugeDoc        = "doc-huge"
	DeepConflict   = "doc-deep-conflict"
	HeavyConflict  = "doc-heavy-conflict"
	AddJob         = "job-add"
	AddDuplicate   = "job-duplicate" // another document for a replication that there is
	ChangeJob      = "job-change"    // another target
	TouchJob       = "job-touch"     // the document changes, the replication does not
	RemoveJob      = "job-remove"
	StormJobs      = "job-storm" // many documents at once, then most of them deleted
	Request        = "request"   // POST /_replicate
	CancelRequest  = "request-cancel"
	RecreateTenant = "tenant-recreated" // a replicator database is deleted and made again
	ChangeSharing  = "sharing-changed"  // an operator puts another policy and other shares in force
)

// AllActions are what users can do.
var AllActions = []string{EditDoc, DeleteDoc, ConflictDoc, BurstDocs, HugeDoc, DeepConflict, HeavyConflict, AddJob, AddDuplicate, ChangeJob, TouchJob,
	RemoveJob, StormJobs, Request, CancelRequest, RecreateTenant, ChangeSharing}

// AllFaults are all names that Rates may have.
func AllFaults() []string {
	names := map[string]bool{}
	for _, kind := range []fakefdb.Kind{fakefdb.ReadVersion, fakefdb.Read, fakefdb.Commit, fakefdb.StartWatch} {
		for _, f := range fakefdb.Faults(kind) {
			if f != fakefdb.Outage {
				names[string(f)] = true
			}
		}
	}
	for _, op := range allOps {
		for _, f := range peers.RequestFaults(op) {
			names[f] = true
		}
	}
	for _, f := range NemesisFaults {
		names[f] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Default is a small cluster without faults.
func Default() Config {
	s := node.DefaultSettings()
	s.MaxJobs, s.MaxChurn, s.StartupJitter = 10, 3, time.Second
	return Config{
		Nodes: 2, Servers: 3, Databases: 2, Tenants: 2, Jobs: 8, Docs: 5, Duration: 10 * time.Minute, Settle: 6 * time.Hour,
		Continuous: 70, Filtered: 20, Attached: 10, Denied: 5, NumericServers: 30, BareServers: 20,
		Think: 20 * time.Second, StoreLatency: 5 * time.Millisecond, SlowReads: 100, NetLatency: 30 * time.Millisecond,
		Settings: s, Sharing: jobstore.DefaultSharing(), Backoff: backoff.Policy{Min: 5 * time.Second, Max: 10 * time.Minute, Health: 2 * time.Minute},
		TransientMaxAge: 10 * time.Minute, CheckpointInterval: 10 * time.Second, BatchSize: 10, Workers: 2, Retries: 3, Memory: replication.DefaultMemory,
		Rates: map[string]int{}, Actions: map[string]int{EditDoc: 500_000, DeleteDoc: 50_000, ConflictDoc: 50_000},
	}
}

// table builds the choice among faults from the rates.
func (c *Config) table(names []string) *decide.Table {
	t := &decide.Table{}
	for _, name := range names {
		t.Add(name, c.Rates[name])
	}
	return t
}
