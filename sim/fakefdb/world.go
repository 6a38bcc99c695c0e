package fakefdb

import (
	"context"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
)

// World is what surrounds a store: time, the suspension of callers, and the decision what goes wrong.
// A simulation implements it with coroutines of which exactly one runs at a time; the default world
// has no faults and never suspends but for watches.
type World interface {
	// Now is the present. It never goes back.
	Now() instant.Time
	// Decide says how an operation fares. It is asked once per operation, again after an Outage.
	Decide(Op) Outcome
	// Sleep suspends the caller for d, also when that is 0, or until ctx ends, whose error it returns.
	Sleep(ctx context.Context, d time.Duration) error
	// Await calls arm and suspends the caller until the function given to arm has been called, which may
	// happen before arm returns, or until ctx ends, whose error it returns. That function may be called at
	// any time, also after the end, and must not call the store.
	Await(ctx context.Context, arm func(wake func())) error
	// After calls f after d, whatever has become of the caller: the store goes on when a client dies. It
	// returns before f is called; only a world without faults may call f at once.
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
	// Limbo says for ReadVersion that a commit has landed and is not acknowledged yet, so that
	// StaleReadVersion can have an effect.
	Limbo bool
	// Wait is for BackOff the longest wait that FoundationDB's client would choose, Code why it waits.
	Wait time.Duration
	Code kv.Code
}

// Outcome is the world's decision about an operation.
type Outcome struct {
	Fault Fault
	// Before is the time until the request takes effect, After the time from then until the answer.
	// BackOff, and faults where the request has no effect, take the sum of both.
	Before, After time.Duration
	// AtOnce has a Read take no time at all: the caller is not suspended. Since all reads of a transaction see one version,
	// only what happens between that and its commit can tell.
	AtOnce bool
	// Late is for TimedOutLate and ClusterLate the time from the answer to the landing of the
	// commit, for WatchDelayed that from the change to the signal, for WatchSpurious and WatchFailed that
	// from the watch's start to its end.
	Late time.Duration
	// SameBatch puts a commit into the batch of the commit that landed before it, with the same version
	// and the next order, where that is possible.
	SameBatch bool
	// Pick chooses among the versions that StaleReadVersion may give.
	Pick uint64
}

// Fault names what goes wrong with an operation.
type Fault string

// The faults.
const (
	// NoFault is the outcome of most operations.
	NoFault Fault = ""
	// Outage makes an operation wait for Outcome.Before and be decided again.
	Outage Fault = "fdb-outage"

	// StaleReadVersion gives a read version that leaves out commits which have landed and are not
	// acknowledged, the one thing that a read version may do; see Database.
	StaleReadVersion Fault = "fdb-stale-read-version"
	TagThrottled     Fault = "fdb-tag-throttled"   // 1213
	BatchThrottled   Fault = "fdb-batch-throttled" // 1051, for kv.PriorityBatch

	TooOldEarly    Fault = "fdb-too-old-early"    // 1007 before its time
	FutureVersion  Fault = "fdb-future-version"   // 1009
	ProcessBehind  Fault = "fdb-process-behind"   // 1037
	ReadTimedOut   Fault = "fdb-read-timed-out"   // 1031
	DatabaseLocked Fault = "fdb-database-locked"  // 1038
	SlowCommit     Fault = "fdb-slow-commit"      // only the times; named to be counted
	Conflict       Fault = "fdb-conflict"         // 1020 without a cause
	ProxyMemory    Fault = "fdb-proxy-memory"     // 1042
	CommitTooOld   Fault = "fdb-commit-too-old"   // 1007 before its time
	UnknownLanded  Fault = "fdb-unknown-landed"   // 1021, and the commit was tried
	UnknownDropped Fault = "fdb-unknown-dropped"  // 1021, and nothing happened
	TimedOutLate   Fault = "fdb-timed-out-late"   // 1031, and the commit is tried later
	TimedOutNever  Fault = "fdb-timed-out-never"  // 1031, and nothing happens
	ClusterLate    Fault = "fdb-cluster-late"     // 1039, and the commit is tried later
	ClusterNever   Fault = "fdb-cluster-never"    // 1039, and nothing happens
	WatchLost      Fault = "fdb-watch-lost"       // never ends by itself
	WatchFailed    Fault = "fdb-watch-failed"     // ends with 1101
	WatchSpurious  Fault = "fdb-watch-spurious"   // ends without a change
	WatchDelayed   Fault = "fdb-watch-delayed"    // ends late
	WatchRefused   Fault = "fdb-too-many-watches" // ends at once, with 1032
)

// Faults lists the faults that an operation of a kind can have. Others are ignored.
func Faults(k Kind) []Fault {
	switch k {
	case ReadVersion:
		return []Fault{Outage, StaleReadVersion, TagThrottled, BatchThrottled}
	case Read:
		return []Fault{Outage, TooOldEarly, FutureVersion, ProcessBehind, ReadTimedOut, DatabaseLocked}
	case Commit:
		return []Fault{Outage, SlowCommit, Conflict, ProxyMemory, CommitTooOld, UnknownLanded, UnknownDropped,
			TimedOutLate, TimedOutNever, ClusterLate, ClusterNever}
	case StartWatch:
		return []Fault{WatchLost, WatchFailed, WatchSpurious, WatchDelayed, WatchRefused}
	}
	return nil
}

// code is what the caller is told, 0 when all seems well.
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
