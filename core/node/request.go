package node

import (
	"fmt"
	"reflect"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// Request is a transaction that a node asks for. A type of request is its fields, its words, what it does
// to the store, what the node makes of its answer, and a row in the registry below; nothing else lists the
// types.
//
// Names, fields and their order, and words are part of the format of recorded logs, which hold digests of
// them.
type Request interface {
	fmt.Stringer
	// perform carries the request out in a transaction. It runs once for every attempt of the transaction, so
	// it changes nothing but the store.
	perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error)
	// answered has the node act on the answer. A request of a run (call.run) gets here without a fault; one
	// of the node's own with no other fault than Halted and Canceled, and only Resume can fail so.
	answered(n *Node, c *call, e Done)
}

// HeldRequest is a request that concerns one job under the lock of this worker. Its transaction fails with
// jobs.ErrHalt when the job is not running under that lock any more (fencing). Requests have it from Held.
type HeldRequest interface {
	Request
	HeldJob() Held
}

// EndsTurn is a request that ends a run, so that the turn of its job counts against the job's account.
type EndsTurn interface {
	HeldRequest
	EndedTurn() jobstore.Turn
}

// leaseBound is a request that has no meaning once the lease is lost under which it was asked. The node
// forgets it then.
type leaseBound interface{ ofLease() }

// renewed is a request that must not be repeated as it was: it is made anew for an attempt that begins now.
type renewed interface{ renew(n *Node) Request }

// Held names a job and the lock under which this worker runs it.
type Held struct {
	JobID string
	Lock  jobs.Lock
}

func (h Held) String() string {
	return fmt.Sprintf("%s under %s/%d", h.JobID, h.Lock.Worker, h.Lock.Batch)
}

// HeldJob is the job and the lock that the request depends on.
func (h Held) HeldJob() Held { return h }

func (Held) ofLease() {}

// owned is the job in a transaction that writes under the lock.
func (h Held) owned(tx kv.Tx, s *jobstore.Store, now instant.Time) jobstore.Owned {
	return s.Owned(tx, h.JobID, h.Lock, now)
}

// resetting is owned for a run that has carried out an order to start over, or none.
func (h Held) resetting(tx kv.Tx, s *jobstore.Store, now, order instant.Time) jobstore.Owned {
	held := h.owned(tx, s, now)
	held.Reset = order
	return held
}

// Result is the answer to a request.
type Result interface{ result() }

// Ok is the answer of requests that tell nothing but that they happened.
type Ok struct{}

// Progressed is the answer of requests that do a bounded part of their work; they are asked again until Done.
type Progressed struct{ Done bool }

func (Ok) result()         {}
func (Progressed) result() {}

// registry has a row for each type of request: its zero value, that of its answer, and what people call it.
var registry = []struct {
	request Request
	answer  Result
	called  string
}{
	{Join{}, Ok{}, "join"},
	{Beat{}, Beaten{}, "heartbeat"},
	{ListOwned{}, Owned{}, "list of own jobs"},
	{Retire{}, Progressed{}, "departure"},
	{ListLeases{}, Leases{}, "look at the other nodes"},
	{Expire{}, Progressed{}, "return of a lost worker's jobs"},
	{Accept{}, Accepted{}, "accept of jobs"},
	{Resume{}, Accepted{}, "resumption of a job"},
	{Promote{}, Promoted{}, "look for due jobs"},
	{Sweep{}, Progressed{}, "sweep"},
	{Survey{}, Surveyed{}, "survey of the queue"},
	{Charge{}, Ok{}, "charge of use"},
	{Tune{}, Ok{}, "tuning of priority_coeff"},
	{EndRound{}, Ok{}, "end of a round"},
	{Claim{}, Claimed{}, "claim of a replication id"},
	{Record{}, Ok{}, "record of a job's progress"},
	{Complete{}, Ok{}, "record of a job's completion"},
	{Crash{}, Ok{}, "record of a job's crash"},
	{Fail{}, Ok{}, "record of a job's failure"},
	{Requeue{}, Ok{}, "return of a job to the queue"},
	{StandBy{}, Ok{}, "record that a job waits for another one"},
	{StoreRefused{}, Ok{}, "record of refused documents"},
	{ReadRefused{}, RefusedPage{}, "look at refused documents"},
}

// called returns what people call a request of this type.
func called(q Request) string {
	for _, row := range registry {
		if reflect.TypeOf(row.request) == reflect.TypeOf(q) {
			return row.called
		}
	}
	return q.String()
}

// Results holds a zero value of the answer of each type of request, so that recorded answers can be read.
// Answers of several requests come up several times.
func Results() []Result {
	list := make([]Result, len(registry))
	for i, row := range registry {
		list[i] = row.answer
	}
	return list
}
