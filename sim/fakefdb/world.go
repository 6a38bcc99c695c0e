package fakefdb

import (
	"context"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
)

// World is what surrounds a store: time, the suspension of callers, and the decision what goes wrong. A
// simulation implements it with coroutines of which exactly one runs at a time. The default world has no
// faults, and suspends a caller only to wait for a watch.
type World interface {
	// Now is the present. It never goes back.
	Now() instant.Time
	// Decide decides what happens to an operation. It is called once for each operation, and again after an
	// Outage.
	Decide(Op) Outcome
	// Sleep suspends the caller for d, also when that is 0, or until ctx ends, whose error it returns.
	Sleep(ctx context.Context, d time.Duration) error
	// Await calls arm and suspends the caller until the function given to arm has been called, which may
	// happen before arm returns, or until ctx ends, whose error it returns. That function may be called at
	// any time, also after the end, and must not call the store.
	Await(ctx context.Context, arm func(wake func())) error
	// After calls f after d, also if the caller has died by then, since the store goes on without its
	// clients. It returns before f is called; only a world without faults may call f before it returns.
	After(d time.Duration, f func())
}

// Kind is the kind of an operation.
type Kind uint8

// The operations, each a point at which the caller may be suspended.
const (
	ReadVersion Kind = iota // begin the transaction's snapshot
	Read                    // Get, GetAll and GetRange
	Commit                  // of a transaction that wrote
	StartWatch              // a watch takes effect
	BackOff                 // OnError waits before another attempt
)

func (k Kind) String() string {
	return [...]string{"read version", "read", "commit", "watch", "back off"}[k]
}

// Op describes an operation to the world.
type Op struct {
	Kind    Kind
	Tx      uint64 // number of the transaction, from 1 in the order of Begin
	Attempt int    // from 1, counted by OnError
	Options kv.Options
	Key     []byte // Read: the first key, or the begin of the range; StartWatch: the key
	// Limbo reports, for ReadVersion, that a commit has landed and is not acknowledged yet, so that
	// StaleReadVersion can have an effect.
	Limbo bool
	// Wait is, for BackOff, the longest wait that FoundationDB's client would choose, and Code the error that
	// it waits for.
	Wait time.Duration
	Code kv.Code
}

// Outcome is the world's decision about an operation.
type Outcome struct {
	Fault Fault
	// Before is the time until the request takes effect, After the time from then until the answer.
	// BackOff, and faults where the request has no effect, take the sum of both.
	Before, After time.Duration
	// AtOnce makes a Read take no time: the caller is not suspended. All reads of a transaction see one
	// version, so it makes a difference only to what happens before the transaction's commit.
	AtOnce bool
	// Late is, for TimedOutLate and ClusterLate, the time from the answer to the landing of the commit; for
	// WatchDelayed, the time from the change to the signal; for WatchSpurious and WatchFailed, the time from
	// the watch's start to its end.
	Late time.Duration
	// SameBatch puts a commit into the batch of the commit that landed before it, with the same version
	// and the next order, where that is possible.
	SameBatch bool
	// Pick chooses among the versions that StaleReadVersion may give, and among the rows that Misread may spoil.
	Pick uint64
}

// Fault names what goes wrong with an operation.
type Fault string

// The faults. Catalogue says what each does.
const (
	// NoFault is the outcome of most operations.
	NoFault Fault = ""
	// Outage makes an operation wait for Outcome.Before and be decided again. It is not in the catalogue: the
	// world decides on it by itself, while the whole store is down.
	Outage Fault = "fdb-outage"

	// StaleReadVersion gives a read version that leaves out commits which have landed and are not
	// acknowledged yet; see the package comment.
	StaleReadVersion Fault = "fdb-stale-read-version"
	TagThrottled     Fault = "fdb-tag-throttled"
	BatchThrottled   Fault = "fdb-batch-throttled" // for kv.PriorityBatch

	TooOldEarly    Fault = "fdb-too-old-early"
	FutureVersion  Fault = "fdb-future-version"
	ProcessBehind  Fault = "fdb-process-behind"
	ReadTimedOut   Fault = "fdb-read-timed-out"
	DatabaseLocked Fault = "fdb-database-locked"
	// Misread gives one row as one of which nothing can be made: with the value 0xff, or with a row more behind it
	// whose key begins no element. The stored row stays whole. Empty values do, too, and OnMisread says which others.
	Misread Fault = "fdb-misread"

	SlowCommit     Fault = "fdb-slow-commit" // changes only the times; it has a name to be counted
	Conflict       Fault = "fdb-conflict"
	ProxyMemory    Fault = "fdb-proxy-memory"
	CommitTooOld   Fault = "fdb-commit-too-old"
	UnknownLanded  Fault = "fdb-unknown-landed"
	UnknownDropped Fault = "fdb-unknown-dropped"
	TimedOutLate   Fault = "fdb-timed-out-late"
	TimedOutNever  Fault = "fdb-timed-out-never"
	ClusterLate    Fault = "fdb-cluster-late"
	ClusterNever   Fault = "fdb-cluster-never"

	WatchLost     Fault = "fdb-watch-lost"
	WatchFailed   Fault = "fdb-watch-failed"
	WatchSpurious Fault = "fdb-watch-spurious"
	WatchDelayed  Fault = "fdb-watch-delayed"
	WatchRefused  Fault = "fdb-too-many-watches"
)

// Entry describes a fault.
type Entry struct {
	Fault Fault
	Kind  Kind // of the operations that can have it
	What  string
}

// Catalogue has every fault but Outage. Worlds choose among the faults of a kind in this order.
var Catalogue = []Entry{
	{StaleReadVersion, ReadVersion,
		"a version from before the last commits, while one of them is not acknowledged yet"},
	{TagThrottled, ReadVersion, "throttled by tag (1213)"},
	{BatchThrottled, ReadVersion, "batch priority is throttled (1051)"},

	{TooOldEarly, Read, "the transaction is too old, before its time (1007)"},
	{FutureVersion, Read, "the storage server is behind (1009)"},
	{ProcessBehind, Read, "the storage server is too far behind (1037)"},
	{ReadTimedOut, Read, "no answer in time (1031)"},
	{DatabaseLocked, Read, "the database is locked (1038)"},
	{Misread, Read, "a row comes with a value, or a key, of which nothing can be made; the next read has it whole"},

	{SlowCommit, Commit, "takes up to four seconds instead of milliseconds"},
	{Conflict, Commit, "a conflict without a cause (1020)"},
	{ProxyMemory, Commit, "the proxy's memory is used up (1042)"},
	{CommitTooOld, Commit, "the transaction is too old, before its time (1007)"},
	{UnknownLanded, Commit, "the result is unknown (1021), and the commit was tried"},
	{UnknownDropped, Commit, "the result is unknown (1021), and nothing happened"},
	{TimedOutLate, Commit, "no answer in time (1031), and the commit is tried up to a minute later"},
	{TimedOutNever, Commit, "no answer in time (1031), and nothing happens"},
	{ClusterLate, Commit, "the cluster changes its version (1039), and the commit is tried up to a minute later"},
	{ClusterNever, Commit, "the cluster changes its version (1039), and nothing happens"},

	{WatchLost, StartWatch, "never ends by itself"},
	{WatchFailed, StartWatch, "ends with an error (1101)"},
	{WatchSpurious, StartWatch, "ends without a change"},
	{WatchDelayed, StartWatch, "ends up to 20 seconds late"},
	{WatchRefused, StartWatch, "ends at once: there are too many (1032)"},
}

// Faults returns the faults that an operation of a kind can have. The store ignores others.
func Faults(k Kind) (all []Fault) {
	switch k {
	case ReadVersion, Read, Commit:
		all = append(all, Outage)
	}
	for _, e := range Catalogue {
		if e.Kind == k {
			all = append(all, e.Fault)
		}
	}
	return all
}

// code returns the error that the caller is told, or 0 for none.
func (f Fault) code() kv.Code {
	switch f {
	case TagThrottled:
		return kv.TagThrottled
	case BatchThrottled:
		return kv.BatchThrottled
	case TooOldEarly, CommitTooOld:
		return kv.TransactionTooOld
	case FutureVersion:
		return kv.FutureVersion
	case ProcessBehind:
		return kv.ProcessBehind
	case DatabaseLocked:
		return kv.DatabaseLocked
	case Conflict:
		return kv.NotCommitted
	case ProxyMemory:
		return kv.ProxyMemoryExceeded
	case UnknownLanded, UnknownDropped:
		return kv.CommitUnknownResult
	case ReadTimedOut, TimedOutLate, TimedOutNever:
		return kv.TransactionTimedOut
	case ClusterLate, ClusterNever:
		return kv.ClusterVersionChanged
	case WatchFailed:
		return kv.OperationCancelled
	case WatchRefused:
		return kv.TooManyWatches
	}
	return 0
}

// calm is the default world, for goroutines: nothing fails and nothing takes time.
type calm struct{ now func() instant.Time }

func (c calm) Now() instant.Time { return c.now() }

func (calm) Decide(Op) Outcome { return Outcome{} }

func (calm) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (calm) Await(ctx context.Context, arm func(wake func())) error {
	done := make(chan struct{})
	arm(func() { close(done) })
	select {
	case <-done: // also when ctx has ended meanwhile
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (calm) After(_ time.Duration, f func()) { f() }
