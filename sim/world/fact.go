package world

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// Fact is something that happened. Observers are told of it at the moment at which it does, in the order of what
// happens. They read what it names, and change nothing.
type Fact interface{ fact() }

// Facts about the engine.
type (
	// Stepped ends every event of the engine.
	Stepped struct{}
	// Ticked comes every 30 seconds.
	Ticked struct{}
	// Healed ends the time of trouble.
	Healed struct{}
	// Fault is something that goes wrong on purpose.
	Fault struct {
		Name string
		Whom string // a node, a server, a database SERVER/DB, "store", "user"
		Text string
		For  time.Duration // 0 for what does not last
	}
)

// Facts about the store.
type (
	// Landed is a commit that takes effect, with the request that it carries out. The store may be read once the
	// present event is over.
	Landed struct {
		fakefdb.Landing
		Asked
	}
	// Repeated is a request that was carried out a second time, right after its first commit.
	Repeated struct {
		Request node.Request
		Changed bool // the store, once more
	}
	// Transacted is a step of a transaction.
	Transacted struct {
		Who  string // a node, or "user"
		Step TransactionStep
	}
)

// Facts about nodes.
type (
	// NodeChanged is a node that begins, leaves or ends a life. NodeUp comes before anything that the node does in that.
	NodeChanged struct {
		Node  *Node
		State NodeState
		Text  string
	}
	// NodeStepped is a step of a node's machine, before its effects are performed.
	NodeStepped struct {
		Node    *Node
		Event   node.Event
		Effects []node.Effect
	}
	// Answered is a request that succeeded, before the node hears of it.
	Answered struct {
		Node    *Node
		Request node.Request
		Result  node.Result
		Since   instant.Time // when it was asked
	}
	// AskFailed is a request that failed for good, before the node hears of it.
	AskFailed struct {
		Node    *Node
		Request node.Request
		Err     error
	}
	// Awaits is a node that is about to wait for a change.
	Awaits struct {
		Node  *Node
		Await node.Await
	}
	// Armed is a watch that begins, with the value of its counter in that transaction.
	Armed struct {
		Node  *Node
		Await node.Await
		Is    int64
	}
)

// Facts about runs.
type (
	// RunStarted is a job that a node runs from now on.
	RunStarted struct{ Run *Run }
	// RunEnded is one that it does not run any more, whether it was over, dropped or lost with its node.
	RunEnded struct{ Run *Run }
	// RunConfirmed is a run that was told by its node that its replication id is its own.
	RunConfirmed struct{ Run *Run }
	// RunCalls is a request that is about to leave.
	RunCalls struct {
		Run *Run
		Op  peer.Op
	}
	// RunCancels is a request that a run gives up after an event. Op is nil when no such request is in flight.
	RunCancels struct {
		Run   *Run
		ID    uint64
		Event replication.Event
		Op    peer.Op
	}
	// RunReplied is an answer that has arrived, before the run hears of it.
	RunReplied struct {
		Run   *Run
		Op    peer.Op
		Reply peer.Reply
	}
	// RunProgressed is what a run tells of itself. Asked is the request whose answer it was stepped by, if any.
	RunProgressed struct {
		Run   *Run
		Asked peer.Op
		Info  replication.Info
	}
	// RunSaidEnd is a run that says that it is over, by an event that may be the answer to Asked. RunEnded follows.
	RunSaidEnd struct {
		Run   *Run
		Asked peer.Op
		Event replication.Event
		End   replication.End
	}
	// RunStepped is a step of a run that goes on, after its effects were performed.
	RunStepped struct {
		Run     *Run
		Asked   peer.Op
		Event   replication.Event
		Effects []replication.Effect
	}
)

// Facts about servers.
type (
	// LogWritten is a checkpoint that is about to be written.
	LogWritten struct {
		DB   *peers.DB
		ID   string
		Body []byte
	}
	// Refused is a revision that a database did not take.
	Refused struct {
		DB      *peers.DB
		ID, Rev string
	}
	// Altered is a revision that is not as its author made it.
	Altered struct {
		DB   *peers.DB
		Name peers.Revision
		What string
	}
	// Wished is a server that asks a node for quiet until a moment of the node's steady clock.
	Wished struct {
		Node  *Node
		Key   ratelimit.Key
		Until instant.Time
	}
	// Sends is a request of a node that leaves for a server. It was to leave at Asked by the node's steady clock, and the
	// limiter held it back for Held.
	Sends struct {
		Node  *Node
		Key   ratelimit.Key
		Asked instant.Time
		Held  time.Duration
	}
)

// Facts about users.
type (
	// DocumentWritten is a replication document that was written as Token, or deleted, as its user was told.
	DocumentWritten struct {
		Doc     *JobDoc
		Token   uint64
		Present bool
	}
	// WriteRefused is a write of a replication document that was answered with an error for good.
	WriteRefused struct {
		Doc   *JobDoc
		Token uint64
		Err   error
	}
	// DatabaseDropped is a replicator database that was deleted.
	DatabaseDropped struct{ Tenant *Tenant }
	// RequestAnswered is the answer to POST /_replicate: the id of the job.
	RequestAnswered struct {
		ID          string
		Replication *spec.Replication
	}
	// RequestAccepted follows RequestAnswered, as soon as the store may be read. The request was sent at Made.
	RequestAccepted struct {
		ID          string
		Replication *spec.Replication
		Made        instant.Time
	}
	// RequestCanceled is a request of which its user was told that it was canceled, as asked at a moment.
	RequestCanceled struct {
		ID string
		At instant.Time
	}
	// SharingAsked is an operator who begins to put other settings in force.
	SharingAsked struct{}
	// SharingInForce is an operator who has put these settings in force.
	SharingInForce struct{ Sharing jobstore.Sharing }
)

func (Stepped) fact()         {}
func (Ticked) fact()          {}
func (Healed) fact()          {}
func (Fault) fact()           {}
func (Landed) fact()          {}
func (Repeated) fact()        {}
func (Transacted) fact()      {}
func (NodeChanged) fact()     {}
func (NodeStepped) fact()     {}
func (Answered) fact()        {}
func (AskFailed) fact()       {}
func (Awaits) fact()          {}
func (Armed) fact()           {}
func (RunStarted) fact()      {}
func (RunEnded) fact()        {}
func (RunConfirmed) fact()    {}
func (RunCalls) fact()        {}
func (RunCancels) fact()      {}
func (RunReplied) fact()      {}
func (RunProgressed) fact()   {}
func (RunSaidEnd) fact()      {}
func (RunStepped) fact()      {}
func (LogWritten) fact()      {}
func (Refused) fact()         {}
func (Altered) fact()         {}
func (Wished) fact()          {}
func (Sends) fact()           {}
func (DocumentWritten) fact() {}
func (WriteRefused) fact()    {}
func (DatabaseDropped) fact() {}
func (RequestAnswered) fact() {}
func (RequestAccepted) fact() {}
func (RequestCanceled) fact() {}
func (SharingAsked) fact()    {}
func (SharingInForce) fact()  {}

// Observe has an observer told of every fact from now on, after those that observe already.
func (w *World) Observe(see func(Fact)) { w.observers = append(w.observers, see) }

func (w *World) emit(f Fact) {
	for _, see := range w.observers {
		see(f)
	}
}

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
	ResultUnknown                 // tried again, since the commit may have happened (1021, 1031, 1039)
	TriedAgain                    // for any other reason
)

// watchTransaction tells what an operation says of its transaction.
func (w *World) watchTransaction(who string, op fakefdb.Op) {
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
	w.emit(Transacted{who, step})
}
