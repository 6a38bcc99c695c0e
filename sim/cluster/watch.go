package cluster

import (
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// Observation is something that a reader of a run wants to see. Cluster.Watch is told of it with the time
// and the number of the event in which it happened; it may not change the world.
type Observation interface{ observation() }

type (
	// NodeChanged says that a node lives on in another way. Pauses are faults.
	NodeChanged struct {
		Node  string
		State NodeState
		Text  string
	}
	// JobChanged is what a commit made of a job.
	JobChanged struct {
		Job           string
		Database, Doc string         // both empty for the job of a request
		State         jobstore.State // empty when the job was removed
		Node, Reason  string
	}
	// RunStarted says that a node runs a job from now on.
	RunStarted struct {
		Node string
		Run  uint64 // counted in each life of a node
		Job  string
	}
	// RunEnded says that it does not any more.
	RunEnded struct {
		Node string
		Run  uint64
		Job  string
		Why  string
	}
	// Transacted is a step of a transaction with the store.
	Transacted struct {
		Who  string // a node, or "user"
		Step TransactionStep
	}
	// Fault is something that went wrong on purpose.
	Fault struct {
		Name string
		Whom string // a node, a server, a database SERVER/DB, "store", "user"
		Text string
		For  time.Duration // 0 for what does not last
	}
	// Healed ends the time of trouble.
	Healed struct{}
)

func (NodeChanged) observation() {}
func (JobChanged) observation()  {}
func (RunStarted) observation()  {}
func (RunEnded) observation()    {}
func (Transacted) observation()  {}
func (Fault) observation()       {}
func (Healed) observation()      {}

// NodeState is how a node lives.
type NodeState string

// States of nodes.
const (
	NodeUp       NodeState = "up"
	NodeDraining NodeState = "draining"
	NodeDown     NodeState = "down"
)

// TransactionStep is what may happen to a transaction more than once.
type TransactionStep uint8

// Steps. A commit that was sent and is neither followed by a conflict nor unknown is one that landed, or the
// last of a client that died.
const (
	CommitSent    TransactionStep = iota
	Conflicted                    // tried again, since another one changed what it had read (1020)
	ResultUnknown                 // tried again, since nobody can say whether the commit happened (1021, 1031, 1039)
	TriedAgain                    // for any other reason
)

// watch tells the watcher, if there is one.
func (w *Cluster) watch(o Observation) {
	if w.Watch != nil {
		w.Watch(w.Engine.Now(), w.Engine.Played(), o)
	}
}

// watchTransaction tells what an operation says of its transaction.
func (w *Cluster) watchTransaction(who string, op fakefdb.Op) {
	step := CommitSent
	if op.Kind == fakefdb.BackOff {
		switch {
		case op.Code == kv.NotCommitted:
			step = Conflicted
		case kv.MaybeCommitted(kv.NewError(op.Code)):
			step = ResultUnknown
		default:
			step = TriedAgain
		}
	} else if op.Kind != fakefdb.Commit {
		return
	}
	w.watch(Transacted{who, step})
}

// watchJob tells what became of a job.
func (o *oracle) watchJob(id string, before, after *shadow) {
	if o.w.Watch == nil {
		return
	}
	changed := JobChanged{Job: id}
	if rec := after.record; after.header != nil {
		changed.Database, changed.Doc, changed.State, changed.Node, changed.Reason = rec.Database, rec.DocID, rec.State, rec.Node, rec.Reason
		if rec.State != jobstore.Running {
			changed.Node = ""
		}
	} else if before.header == nil {
		return
	}
	o.w.watch(changed)
}

// watchEnd tells how a run ended.
func (o *oracle) watchEnd(r *run) {
	if o.w.Watch == nil {
		return
	}
	why := "dropped"
	if r.ending.Cause != 0 {
		why = r.ending.String()
	}
	o.w.watch(RunEnded{r.p.Name, r.id, r.work.Work.JobID, why})
}
