package world

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// Fact is something that happens. Observers are told of facts in their order, each synchronously at its
// moment: between the world's change and whatever follows from it, as the fact's comment says. They read what
// a fact names, and change nothing. Facts may come within a transaction of a node or a user; the store, which
// View.Present reads, then is as of the last commit that landed. Pointers and interfaces in facts are not nil
// unless the comment says so.
type Fact interface{ fact() }

// Facts about the engine.
type (
	// Stepped ends every event of the engine.
	Stepped struct{}
	// Ticked comes every 30 seconds.
	Ticked struct{}
	// Healed ends the time of trouble.
	Healed struct{}
	// FaultHit is something that goes wrong on purpose.
	FaultHit struct {
		Name string
		Whom string // a node, a server, a database SERVER/DB, "store", "user"
		Text string
		For  time.Duration // 0 for what does not last
	}
)

// Facts about the store.
type (
	// Landed is a commit that takes effect, with the request that it carries out, if any. It is told from
	// within the commit, so the store must not be read yet: wait for Stepped. Repetitions (Repeated) are not
	// told here.
	Landed struct {
		fakefdb.Landing
		Asked
	}
	// Repeated is a request that was carried out a second time, right after the event in which its commit
	// landed alone. It is told after the second commit, and after Stepped.
	Repeated struct {
		Request node.Request
		Changed bool // whether the second commit changed the store, though the request had been carried out
	}
	// Transacted is a step of a transaction, told before the step has an effect. Transactions of the world
	// itself, in which nothing fails, are not told.
	Transacted struct {
		Who  string // a node, or "user"
		Step TransactionStep
	}
)

// Facts about nodes.
type (
	// NodeChanged is a change in how a node lives. NodeUp is told once the node has its new name as a worker,
	// before its machine starts; NodeDraining before its machine is told to drain; NodeDown while its runs
	// still are there, whose RunEnded follow.
	NodeChanged struct {
		Node  *Node
		State NodeState
		Text  string // the number of the life, or how it ended; may be empty
	}
	// NodeStepped is a step of a node's machine, before the effects are performed.
	NodeStepped struct {
		Node    *Node
		Event   node.Event
		Effects []node.Effect
	}
	// Answered is a request to the store whose client has the answer of a commit. The node's machine is told
	// later, in an event of its own, if it lives then.
	Answered struct {
		Node    *Node
		Request node.Request
		Result  node.Result
		Since   instant.Time // when the node asked, by the engine
		Trips   int          // of the attempt that committed; see fakefdb.Landing
	}
	// AskFailed is a request to the store that failed, after all attempts of its client. It may have been
	// carried out. The node's machine is told later, as with Answered.
	AskFailed struct {
		Node    *Node
		Request node.Request
		Err     error
	}
	// Awaits is a node that is about to wait for a change, before it sets a watch.
	Awaits struct {
		Node  *Node
		Await node.Await
	}
	// Armed is a watch that is being set. It is told in each attempt of the transaction, before the commit
	// with which the watch begins, and only if the counter had not changed already.
	Armed struct {
		Node  *Node
		Await node.Await
		Is    int64 // the value of the counter in this transaction; 0 when it has none
	}
)

// Facts about runs.
type (
	// RunStarted is a job that a node runs from now on. Its machine is made later in the same event: until
	// then Run.Info must not be called.
	RunStarted struct{ Run *Run }
	// RunEnded is a run that its node does not carry out any more, since it is over, was dropped, or is lost
	// with the node's life. Run.Node().Runs() may still have it until the present event is over.
	RunEnded struct{ Run *Run }
	// RunConfirmed is a run that holds its replication id, before its machine is told.
	RunConfirmed struct{ Run *Run }
	// RunCalls is a request to a server that is about to leave. It is not in flight yet.
	RunCalls struct {
		Run *Run
		ID  uint64
		Op  peer.Op
		By  replication.Event // that brought it about
	}
	// RunCancels is a request that a run gives up after an event, while the request still is in flight. Op is
	// nil when the run names a request that is not in flight, which is a bug of the run.
	RunCancels struct {
		Run   *Run
		ID    uint64
		Event replication.Event
		Op    peer.Op
	}
	// RunReplied is the answer to a request, before the run's machine is told of it in an event of its own.
	// It also comes for a request that was given up, whose answer the run is never told.
	RunReplied struct {
		Run   *Run
		Op    peer.Op
		Reply peer.Reply
	}
	// RunProgressed is what a run tells of itself in a step. Asked is the request whose answer caused the
	// step, or nil.
	RunProgressed struct {
		Run   *Run
		Asked peer.Op
		Info  replication.Info
	}
	// RunSaidEnd is a run whose machine says, after an event, that it is over. Asked is the request that the
	// event answers, or nil. RunEnded follows.
	RunSaidEnd struct {
		Run   *Run
		Asked peer.Op
		Event replication.Event
		End   replication.End
		Tally replication.Tally
	}
	// RunStepped is a step of a run that goes on, after its effects were performed. Asked is the request that
	// the event answers, or nil.
	RunStepped struct {
		Run     *Run
		Asked   peer.Op
		Event   replication.Event
		Effects []replication.Effect
	}
)

// Facts about servers.
type (
	// LogWritten is a checkpoint that a database accepts, before it is written.
	LogWritten struct {
		DB   *peers.DB
		ID   string // without _local/
		Body []byte
	}
	// Refused is a revision that a database did not take and that its replication may leave out.
	Refused struct {
		DB      *peers.DB
		ID, Rev string
	}
	// Altered is a revision in a database that is not as its author made it, found when it was written or
	// checked.
	Altered struct {
		DB   *peers.DB
		Name peers.Revision
		What string // what is wrong with it, as the predicate of a sentence
	}
	// Wished is an answer of a server that asks a node for quiet, after the node's limiter was told.
	Wished struct {
		Node  *Node
		Key   ratelimit.Key // the requests that are not wanted
		Until instant.Time  // by the node's steady clock
	}
	// Welcomed is an answer of a server that does not ask for quiet, after the node's limiter was told.
	Welcomed struct {
		Node *Node
		Key  ratelimit.Key
	}
	// Withheld is a request of a node that fails now, since its limiter lets none of the kind leave.
	Withheld struct {
		Node *Node
		Key  ratelimit.Key
		Wait time.Duration // after which it may be tried again; positive
	}
	// Sends is a request of a node that leaves for a server now.
	Sends struct {
		Node  *Node
		Key   ratelimit.Key
		Asked instant.Time  // when the limiter was asked whether it may leave, by the node's steady clock
		Held  time.Duration // how long the limiter held it back; not negative
	}
)

// Facts about users.
type (
	// DocumentWritten is a replication document whose user was told that it was written, or deleted.
	DocumentWritten struct {
		Doc     *JobDoc
		Token   uint64 // of the write
		Present bool   // whether it was written; it was deleted if not
	}
	// WriteRefused is a write of a replication document whose user was told that it did not happen and will
	// not.
	WriteRefused struct {
		Doc   *JobDoc
		Token uint64
		Err   error
	}
	// DatabaseDropped is a replicator database that was deleted, before it is made again. Tenant.Instance
	// still is that of the deleted one.
	DatabaseDropped struct{ Tenant *Tenant }
	// RequestAnswered is the answer to POST /_replicate.
	RequestAnswered struct {
		ID          string // of the job
		Replication *spec.Replication
	}
	// RequestAccepted follows RequestAnswered in an event of its own, in which the store may be read.
	RequestAccepted struct {
		ID          string
		Replication *spec.Replication
		Made        instant.Time // when the request was sent, by the engine
	}
	// RequestCanceled is a request whose user was told that it is canceled, in an event of its own.
	RequestCanceled struct {
		ID string
		At instant.Time // when the cancellation was sent, by the engine
	}
	// SharingAsked is an operator who begins to put other settings in force, before the first transaction.
	SharingAsked struct{}
	// SharingInForce is an operator who knows that these settings are in force.
	SharingInForce struct{ Sharing jobstore.Sharing }
)

func (Stepped) fact()         {}
func (Ticked) fact()          {}
func (Healed) fact()          {}
func (FaultHit) fact()        {}
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
func (Welcomed) fact()        {}
func (Withheld) fact()        {}
func (Sends) fact()           {}
func (DocumentWritten) fact() {}
func (WriteRefused) fact()    {}
func (DatabaseDropped) fact() {}
func (RequestAnswered) fact() {}
func (RequestAccepted) fact() {}
func (RequestCanceled) fact() {}
func (SharingAsked) fact()    {}
func (SharingInForce) fact()  {}

// Observe has see called for every fact from now on, after the observers that there are already.
func (w *World) Observe(see func(Fact)) { w.observers = append(w.observers, see) }

func (w *World) emit(f Fact) {
	for _, see := range w.observers {
		see(f)
	}
}

// TransactionStep is a step that a transaction may take more than once.
type TransactionStep uint8

// Steps. A CommitSent that another step does not follow landed, failed for good, or was the last of a client
// that died.
const (
	CommitSent    TransactionStep = iota
	Conflicted                    // another attempt begins, since another transaction changed what this one read (1020)
	ResultUnknown                 // another attempt begins, since the commit may have happened (1021, 1031, 1039)
	TriedAgain                    // another attempt begins for any other reason
)

// NodeState is a state of a node.
type NodeState string

// States of nodes.
const (
	NodeUp       NodeState = "up"
	NodeDraining NodeState = "draining"
	NodeDown     NodeState = "down"
)
