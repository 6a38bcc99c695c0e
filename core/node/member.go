package node

import (
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
)

// Info is what a node tells about itself. It is stored with every heartbeat.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"` // of couchrelay
	Roles   Roles  `json:"roles"`
	Status  Status `json:"status"`
	MaxJobs int    `json:"max_jobs"` // 0 without the role replication
	Running int    `json:"running"`  // slots in use
	// ActivityTimeout is how long the node may be silent before others give its jobs away.
	ActivityTimeout time.Duration `json:"activity_timeout"` // nanoseconds
	// Started and Seen are when the process began and when it sent this, by its own wall clock. They are
	// for people, and to tell which of two nodes is older; liveness is never judged by them.
	Started instant.Time `json:"started"`
	Seen    instant.Time `json:"seen"`
	// Indexes says that the node's release writes the indexes of jobs; see jobstore.Store.Reindex.
	Indexes bool `json:"indexes,omitempty"`
}

// Status is whether a node takes jobs.
type Status string

// Statuses.
const (
	Up            Status = "up"
	InMaintenance Status = "maintenance" // it takes no jobs until that ends
	Draining      Status = "draining"    // it will leave when its runs have stopped
)

// accepts reports whether the node takes jobs.
func (i *Info) accepts() bool { return i.Roles.Has(Replication) && i.Status == Up }

// Member is a node with a lease, as other nodes see it.
type Member struct {
	Worker  string
	Beat    [10]byte // see jobs.Lease
	Expired bool     // its jobs are being given away
	Info    Info     // of the last heartbeat
}

// Members reads all nodes that have a lease, in the order of their workers' names.
func Members(r kv.Reader, s *jobstore.Store) ([]Member, error) {
	leases, err := s.Jobs.Leases(r)
	if err != nil {
		return nil, err
	}
	list := make([]Member, len(leases))
	for i, l := range leases {
		list[i] = Member{Worker: l.Worker, Beat: l.Beat, Expired: l.Expired}
		if json.Decode(l.Info, &list[i].Info) != nil { // another release may write what this one cannot read
			list[i].Info = Info{Name: l.Worker}
		}
	}
	return list, nil
}

// encode packs the info for its lease.
func (i Info) encode() ([]byte, error) { return json.Encode(i) }

// news is what the node told others last. Heartbeats come often enough for that, but the number of running jobs
// can change by hundreds between two of them, and others share the jobs by it.
type news struct {
	granted time.Duration // the activity timeout that others were told by the last heartbeat known to be there
	told    int           // running jobs, in the last attempt to join or to send a heartbeat
	again   instant.Time  // from when on another number may be told early, by the steady clock
}

// toldPause is about the least time between two heartbeats that tell nothing but another number of jobs.
const toldPause = time.Second

// sent notes what is about to be sent.
func (w *news) sent(i Info, again instant.Time) Info {
	w.told, w.again = i.Running, again
	return i
}

// outdated reports whether the number of running jobs is off by more than an eighth of what was told. Between
// none and some it always is.
func (w *news) outdated(running int) bool { return 8*max(running-w.told, w.told-running) > w.told }

// info is what this node tells about itself now.
func (n *Node) info() Info {
	i := Info{
		Name: n.name, Version: n.cfg.Version, Roles: n.cfg.Roles, Status: Up, Running: len(n.runs),
		ActivityTimeout: n.cfg.ActivityTimeout, Started: n.started, Seen: n.clock.Wall,
		Indexes: true,
	}
	if i.Roles.Has(Replication) {
		i.MaxJobs = n.cfg.MaxJobs
	}
	switch {
	case n.draining:
		i.Status = Draining
	case n.cfg.Maintenance:
		i.Status = InMaintenance
	}
	return i
}

// tell sends a heartbeat at once, so that others see what changed in the node's info.
func (n *Node) tell() {
	if n.lease == live {
		n.timers.beat = n.clock.Steady
	}
}

// tellLater sends another heartbeat at once if the node's info changed while the last one was in flight.
func (n *Node) tellLater(told Info) {
	now := n.info()
	now.Running, now.Seen = told.Running, told.Seen // these change all the time
	if now != told {
		n.tell()
	}
}

// wasOwn reports whether a lease is, or was, this process's.
func (n *Node) wasOwn(worker string) bool {
	return worker == n.cfg.Worker || strings.HasPrefix(worker, n.cfg.Worker+"-")
}

// beatsOfALiving is how many changes of another worker's beat it takes to be certain that its process
// lives: a single change may be a heartbeat that committed late.
const beatsOfALiving = 2

// checkName looks for another living process with this node's name. Of the two, the one that started later
// goes on under its worker's name, which is unique; both come to the same result without talking to each
// other. Names are for people only: jobs are locked by worker.
func (n *Node) checkName(o other) {
	if o.info.Name != n.name || o.beats < beatsOfALiving || n.wasOwn(o.worker) {
		return
	}
	if o.info.Started > n.started || o.info.Started == n.started && o.worker > n.cfg.Worker {
		return // the other node is the younger one and renames itself
	}
	n.note("duplicate_name", "", "another node is named %s; this one is called %s from now on; "+
		"give it a name of its own (--name)", n.name, n.cfg.Worker)
	n.name = n.cfg.Worker
	n.emit(Rename{Name: n.name})
}
