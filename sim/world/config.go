package world

import (
	"fmt"
	"time"

	"couchrelay/core/backoff"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/sim/decide"
)

// Config is a scenario: everything about a run but the answers of its decider.
type Config struct {
	Nodes int // processes with both roles
	Fleet
	Servers   int
	Databases int // on each server
	Replicators
	Jobs int // replication documents at the beginning
	Docs int // documents in each database at the beginning

	// Users act and faults happen for Duration. Then everything is healed, and must have converged within
	// Settle, or so long after all jobs had a turn.
	Duration, Settle time.Duration

	// Shares of the jobs and documents, in percent.
	Continuous, Filtered, Attached int
	Refusals
	Endpoints
	// NumericServers is the percentage of servers that number their changes, BareServers that of servers
	// without _bulk_get and without a number of pending changes.
	NumericServers, BareServers int

	// Think is the longest time between two actions of the users.
	Think time.Duration
	// StoreLatency and NetLatency bound the time of one way.
	StoreLatency, NetLatency time.Duration
	// SlowReads is the percentage of transactions whose reads take time. Other reads do not suspend their
	// caller.
	SlowReads int

	Settings           node.Settings
	Sharing            jobstore.Sharing // its interval is Settings.Interval
	Backoff            backoff.Policy
	TransientMaxAge    time.Duration
	CheckpointInterval time.Duration
	Batches
	Retries        int
	Memory         int  // bytes of bodies that a run holds
	DuplicatesFail bool // duplicates_wait = false

	// Rates is how often each fault happens, out of decide.Scale: in each request or operation of the store
	// that can have it, or in each turn of the nemesis.
	Rates map[string]int
	// Actions is how often users do each action, out of decide.Scale in each of their turns.
	Actions map[string]int
	// Events happen at fixed times, whatever the decider says.
	Events []Event

	// Sample has the costly checks (S9a, S11a, S17) made once in so many times; 0 and 1 mean always.
	Sample int
}

// Fleet is how the nodes differ.
type Fleet struct {
	// FrontendOnly and ReplicationOnly are numbers of further processes, which have one role.
	FrontendOnly, ReplicationOnly int
	Namesakes                     int // processes that have the name of the first one
	Older                         int // processes of an earlier release at first, which made the store; see older.go
	// NodeBatch is how many jobs or accounts one request of a node is about; 0 for those of production.
	NodeBatch int
}

// Replicators are the databases that have replication documents.
type Replicators struct {
	Tenants  int // replicator databases of the service
	Followed int // databases of servers that it follows
	// FollowPage is how many of their documents one request is about; 0 for those of production.
	FollowPage int
	// HandedOver is the percentage of edits of their documents that change nothing but the owner, if they have one,
	// beside those that come up anyway while a database was never put back.
	HandedOver int
}

// Processes is the number of all processes, whatever their roles. Those with both come first.
func (c *Config) Processes() int { return c.Nodes + c.FrontendOnly + c.ReplicationOnly }

// Exclusive reports whether the store belongs to one process, as an embedded one does.
func (c *Config) Exclusive() bool { return c.Processes() == 1 }

// batches are those of all nodes.
func (c *Config) batches() node.Batches {
	n := c.NodeBatch
	return node.Batches{Promote: n, Expire: n, Sweep: n, Drop: n, Survey: n}
}

// Accounts are all whose jobs there can be: those of the replicator databases, and the requester's.
func (c *Config) Accounts() []string {
	all := []string{"user:" + Requester}
	for i := range c.Tenants {
		all = append(all, replicatorDB(i))
	}
	return all
}

// replicatorDB is the name of the replicator database with an index.
func replicatorDB(i int) string {
	if i == 0 {
		return "_replicator"
	}
	return fmt.Sprintf("t%d/_replicator", i)
}

// Event is something that a scenario wants to happen.
type Event struct {
	At   time.Duration // from the beginning
	What string        // a fault of the nemesis, or an action of the users
	Whom string        // the target: a node, a server, a database SERVER/DB; empty for the decider's choice
	For  time.Duration // how long a fault lasts, if it takes time; 0 for the decider's choice
}

// NemesisTick is the time between turns of the nemesis.
const NemesisTick = 5 * time.Second

// Batches are worker_batch_size, worker_processes, max_worker_processes and compression.
type Batches struct {
	BatchSize, Workers, MaxWorkers int
	Compression                    string
}

// Default is a small cluster without faults.
func Default() Config {
	s := node.DefaultSettings()
	s.MaxJobs, s.MaxChurn, s.StartupJitter = 10, 3, time.Second
	return Config{
		Nodes: 2, Servers: 3, Databases: 2, Replicators: Replicators{Tenants: 2}, Jobs: 8, Docs: 5,
		Duration: 10 * time.Minute, Settle: 7 * time.Hour,
		Continuous: 70, Filtered: 20, Attached: 10, Refusals: Refusals{Denied: 5}, NumericServers: 30, BareServers: 20,
		Think: 20 * time.Second, StoreLatency: 5 * time.Millisecond, NetLatency: 30 * time.Millisecond, SlowReads: 100,
		Settings: s, Sharing: jobstore.DefaultSharing(),
		Backoff:         backoff.Policy{Min: 5 * time.Second, Max: 10 * time.Minute, Health: 2 * time.Minute},
		TransientMaxAge: 10 * time.Minute, CheckpointInterval: 10 * time.Second,
		Batches: Batches{BatchSize: 10, Workers: 2, Compression: "auto"}, Retries: 3, Memory: replication.DefaultMemory,
		Rates:   map[string]int{},
		Actions: map[string]int{EditDoc: 500_000, DeleteDoc: 50_000, ConflictDoc: 50_000},
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
