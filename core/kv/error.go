package kv

import (
	"context"
	"errors"
	"fmt"
)

// ErrUnavailable is in the chain of errors of an operation that was given up since the store did not answer,
// or was known to be away. A commit that was given up so may have happened, or may still happen.
var ErrUnavailable = errors.New("the store is not available")

// ErrUnreadable is in the chain of errors of a read whose value is there and does not open, as one that was damaged.
var ErrUnreadable = errors.New("a value in the store cannot be read")

// UnreadableError is an ErrUnreadable of the value of a key, of which there may be others in the range that was read.
type UnreadableError struct {
	Key []byte
	Err error
}

func (e *UnreadableError) Error() string { return fmt.Sprintf("%v: %v", ErrUnreadable, e.Err) }

// Unwrap returns ErrUnreadable, and what is wrong with the value.
func (e *UnreadableError) Unwrap() []error { return []error{ErrUnreadable, e.Err} }

// Code is an error code of the store, numbered as in FoundationDB.
type Code int

// Codes that the contract names (https://apple.github.io/foundationdb/api-error-codes.html).
const (
	TransactionTooOld     Code = 1007 // read or commit more than MaxTxSeconds after the read version
	FutureVersion         Code = 1009 // the store has not caught up with the read version
	NotCommitted          Code = 1020 // conflict with another transaction
	CommitUnknownResult   Code = 1021 // the commit may or may not have happened
	TransactionCancelled  Code = 1025
	TransactionTimedOut   Code = 1031 // gave up; a commit in flight may still happen
	TooManyWatches        Code = 1032
	WatchesDisabled       Code = 1034
	AccessedUnreadable    Code = 1036 // read of a key written with a versionstamp in this transaction
	ProcessBehind         Code = 1037
	DatabaseLocked        Code = 1038
	ClusterVersionChanged Code = 1039 // a commit in flight may still happen
	ProxyMemoryExceeded   Code = 1042
	BatchThrottled        Code = 1051
	GRVMemoryExceeded     Code = 1078 // of the proxy that gives read versions
	OperationCancelled    Code = 1101 // the watch or read was given up
	TagThrottled          Code = 1213
	ProxyTagThrottled     Code = 1223 // throttled for longer than a proxy keeps requests
	KeyOutsideLegalRange  Code = 2004 // a key that starts with 0xff, which belong to FoundationDB itself
	InvertedRange         Code = 2005
	UsedDuringCommit      Code = 2017
	TransactionTooLarge   Code = 2101
	KeyTooLarge           Code = 2102
	ValueTooLarge         Code = 2103
	BadVersionstamp       Code = 2000 // malformed versionstamp operation (FoundationDB's client_invalid_operation)
)

var codeText = map[Code]string{
	TransactionTooOld:     "transaction is too old to perform reads or be committed",
	FutureVersion:         "request for a version that the store has not reached",
	NotCommitted:          "transaction not committed due to conflict with another transaction",
	CommitUnknownResult:   "transaction may or may not have committed",
	TransactionCancelled:  "operation aborted because the transaction was cancelled",
	TransactionTimedOut:   "operation aborted because the transaction timed out",
	TooManyWatches:        "too many watches",
	WatchesDisabled:       "watches are disabled",
	AccessedUnreadable:    "read or wrote an unreadable key",
	ProcessBehind:         "storage process does not have recent mutations",
	DatabaseLocked:        "database is locked",
	ClusterVersionChanged: "the cluster changed its version",
	ProxyMemoryExceeded:   "commit proxy is out of memory",
	BatchThrottled:        "batch transactions are throttled",
	GRVMemoryExceeded:     "read version proxy is out of memory",
	OperationCancelled:    "operation was cancelled",
	TagThrottled:          "transaction tag is throttled",
	ProxyTagThrottled:     "transaction tag was throttled for too long",
	KeyOutsideLegalRange:  "key outside legal range",
	InvertedRange:         "range begin key is larger than its end key",
	UsedDuringCommit:      "operation issued while a commit was outstanding",
	TransactionTooLarge:   "transaction exceeds the byte limit",
	KeyTooLarge:           "key length exceeds limit",
	ValueTooLarge:         "value length exceeds limit",
	BadVersionstamp:       "invalid versionstamp operation",
}

// Error is a failure that the store reports.
type Error struct {
	Code Code
	// Hint is what an operator can do about the error, or empty.
	Hint string
}

// NewError returns the error with a code.
func NewError(c Code) error { return &Error{Code: c} }

func (e *Error) Error() string {
	text := codeText[e.Code]
	if text == "" {
		text = "store error"
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return fmt.Sprintf("%s (%d)", text, int(e.Code))
}

// CodeOf returns the code of the store error in err's chain, 0 if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Retryable reports whether another attempt may succeed after err: then OnError prepares one. The codes are
// those that FoundationDB's client calls retryable, without ClusterVersionChanged: after that the commit may
// still be in flight, and could land behind the next attempt.
func Retryable(err error) bool {
	switch CodeOf(err) {
	case TransactionTooOld, FutureVersion, NotCommitted, CommitUnknownResult, ProcessBehind,
		DatabaseLocked, ProxyMemoryExceeded, BatchThrottled, GRVMemoryExceeded, TagThrottled, ProxyTagThrottled:
		return true
	}
	return false
}

// MaybeCommitted reports whether a commit that failed with err may have happened, or may still happen. The
// end of a context counts: the commit may have been in flight.
func MaybeCommitted(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch CodeOf(err) {
	case CommitUnknownResult, TransactionTimedOut, ClusterVersionChanged:
		return true
	}
	return false
}
