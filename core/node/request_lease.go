package node

import (
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// Join registers the worker.
type Join struct {
	Worker string
	Info   Info
}

func (q Join) String() string { return "join as " + q.Worker }

func (Join) ofLease() {}

// renew reports the node's present info, and not that of an attempt that failed long ago.
func (q Join) renew(n *Node) Request {
	return Join{Worker: q.Worker, Info: n.sent(n.info(), n.clock.Steady.Add(n.jitter(toldPause)))}
}

func (q Join) perform(tx kv.Tx, s *jobstore.Store, _ instant.Time) (Result, error) {
	info, err := q.Info.encode()
	if err != nil {
		return nil, err
	}
	return Ok{}, s.Jobs.Register(tx, q.Worker, info)
}

func (q Join) answered(n *Node, c *call, _ Done) { n.joined(c, q) }

// Beat shows that the worker lives.
type Beat struct {
	Worker string
	Info   Info
}

// Beaten carries the worker's call counter, which grows when a job is taken from the worker.
type Beaten struct{ Calls int64 }

func (q Beat) String() string { return "beat of " + q.Worker }

func (Beat) ofLease() {}

// renew reports the node's present info, as Join does. The heartbeat may commit though its answer is lost,
// and it may announce a shorter activity timeout than the last one did. So from this moment the node counts
// on the shorter lease.
func (q Beat) renew(n *Node) Request {
	n.ends = min(n.ends, n.clock.Steady.Add(n.cfg.ActivityTimeout))
	return Beat{Worker: q.Worker, Info: n.sent(n.info(), n.clock.Steady.Add(n.jitter(toldPause)))}
}

func (q Beat) perform(tx kv.Tx, s *jobstore.Store, _ instant.Time) (Result, error) {
	info, err := q.Info.encode()
	if err != nil {
		return nil, err
	}
	calls, err := s.Jobs.Heartbeat(tx, q.Worker, info)
	return Beaten{calls}, err
}

func (q Beat) answered(n *Node, c *call, e Done) { n.beaten(c, q, e.Result.(Beaten)) }

func (Beaten) result() {}

// ListOwned reads the jobs that the store says this worker holds.
type ListOwned struct {
	Worker  string
	Without []string `eventlog:"omitzero"` // jobs that the node could not read
}

// Owned lists the jobs that the worker holds, and its call counter at that moment.
type Owned struct {
	Jobs  []jobs.Held
	Calls int64
	Holds []jobstore.Hold // in force; the worker stops the runs that they match
	// Retries are demands to try refused documents of these jobs at once.
	Retries []jobstore.RetryAsked
}

func (q ListOwned) String() string { return "list jobs of " + q.Worker }

func (ListOwned) ofLease() {}

// renew has of the jobs that could not be read the keys alone.
func (q ListOwned) renew(n *Node) Request {
	q.Without = n.unreadable
	return q
}

// perform reads the counter, the list and the holds from one snapshot. A job that is taken away or is to stop
// later, and a new hold, change the counter, so the node learns of it from a watch or from its next heartbeat.
// Without a live lease an empty list would seem to say that users took all the jobs.
func (q ListOwned) perform(tx kv.Tx, s *jobstore.Store, _ instant.Time) (Result, error) {
	if err := s.Keys.Jobs.CheckLease(tx.Snapshot(), q.Worker); err != nil {
		return nil, err
	}
	calls, err := s.Jobs.Calls(tx, q.Worker)
	if err != nil {
		return nil, err
	}
	list, err := s.Jobs.Owned(tx.Snapshot(), q.Worker, q.Without...)
	if err != nil {
		return nil, err
	}
	holds, err := s.Keys.Holds(tx.Snapshot())
	if err != nil {
		return nil, err
	}
	retries, err := s.Keys.RetriesAsked(tx.Snapshot(), list, q.Without...)
	return Owned{Jobs: list, Calls: calls, Holds: holds, Retries: retries}, err
}

func (q ListOwned) answered(n *Node, c *call, e Done) { n.onOwned(c, e.Result.(Owned)) }

func (Owned) result() {}

// Resume reads a job that this worker turns out to hold.
type Resume struct{ Held }

func (q Resume) String() string { return "resume " + q.Held.String() }

func (q Resume) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	w, err := q.owned(tx, s, now).Work()
	if err != nil {
		return nil, err
	}
	return Accepted{Work: []jobstore.Work{*w}}, nil
}

func (q Resume) answered(n *Node, _ *call, e Done) { n.onResumed(e) }

// Retire gives up the lease; jobs that are still held become ready.
type Retire struct {
	Worker  string
	Limit   int      // jobs given back in one transaction
	Without []string `eventlog:"omitzero"` // jobs that the node could not read
}

func (q Retire) String() string { return "retire " + q.Worker }

func (Retire) ofLease() {}

// renew leaves out the jobs that could not be read.
func (q Retire) renew(n *Node) Request {
	q.Without = n.unreadable
	return q
}

func (q Retire) perform(tx kv.Tx, s *jobstore.Store, _ instant.Time) (Result, error) {
	done, err := s.Jobs.Expire(tx, q.Worker, nil, q.Limit, q.Without...)
	return Progressed{done}, err
}

func (q Retire) answered(n *Node, _ *call, e Done) {
	if !e.Result.(Progressed).Done {
		n.ask(q)
		return
	}
	n.exit()
}

// ListLeases reads all leases.
type ListLeases struct{}

// Leases lists all workers.
type Leases struct{ List []Member }

func (ListLeases) String() string { return "list leases" }

func (ListLeases) perform(tx kv.Tx, s *jobstore.Store, _ instant.Time) (Result, error) {
	list, err := Members(tx.Snapshot(), s)
	return Leases{list}, err
}

func (ListLeases) answered(n *Node, _ *call, e Done) { n.onLeases(e.Result.(Leases)) }

func (Leases) result() {}

// Expire gives the jobs of another worker back, unless that worker sent a heartbeat after Beat; see
// jobs.Queue.Expire. For an earlier lease of this process, which is certainly gone, Beat is nil.
type Expire struct {
	Worker  string
	Beat    *[10]byte
	Limit   int      // jobs given back in one transaction
	By      string   // name of the node that gives the other one up; empty if operators need not be told
	Without []string `eventlog:"omitzero"` // jobs that the node could not read
}

func (q Expire) String() string { return "expire " + q.Worker }

// renew leaves out the jobs that could not be read.
func (q Expire) renew(n *Node) Request {
	q.Without = n.unreadable
	return q
}

func (q Expire) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	if err := bury(tx, s, q, now); err != nil {
		return nil, err
	}
	done, err := s.Jobs.Expire(tx, q.Worker, q.Beat, q.Limit, q.Without...)
	return Progressed{done}, err
}

func (q Expire) answered(n *Node, _ *call, e Done) {
	if !e.Result.(Progressed).Done {
		n.ask(q)
	}
	n.hungry = true
}
