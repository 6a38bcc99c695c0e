// Package kv is the storage contract of the core: an ordered, transactional key-value store with
// FoundationDB's semantics. It has the interfaces, the error codes, the limits and the retry loop.
// Implementations are in adapters and in the simulator; the packages below this one are what they share.
//
// # What every implementation promises
//
//  1. A transaction reads from one snapshot, taken with its first read (its read version), and sees its own writes on
//     top of it.
//  2. Commit is atomic and serializable: it fails with NotCommitted if a key that the transaction read was written by a
//     transaction that committed after the read version. Reads through Snapshot, and the reads implied by atomic
//     operations, do not count. A transaction that wrote nothing always commits.
//  3. A commit that returned nil is durable, and visible to every transaction begun afterwards.
//  4. A commit that returned an error with MaybeCommitted may have happened, or may still happen later. Therefore
//     every function given to Run is idempotent: applied twice, it leaves the store as if applied once. A function
//     that must take effect exactly once writes a key that proves that it has.
//  5. The commit of a transaction whose read has failed fails with the error of the first such read, and commits
//     nothing, whether the caller passed over the error or not. Reads through Snapshot and ReadVersion are reads; the
//     one that a watch makes is not: its error is the watch's.
//  6. The limits below hold. An operation beyond one fails with the code named there.
//
// # What every caller owes
//
// A function that takes a Tx may run more than once, must not keep the Tx, must not change anything but the
// store, and returns the store's errors unchanged or wrapped with %w. The bytes that a read returned may be
// the store's own, and must not be changed; appending to them is safe.
package kv

import "context"

// Limits of the contract, which are FoundationDB's.
const (
	MaxKeySize   = 10_000     // bytes; longer fails with KeyTooLarge
	MaxValueSize = 100_000    // bytes; longer fails with ValueTooLarge
	MaxTxSize    = 10_000_000 // bytes of keys, values and conflict ranges; more fails with TransactionTooLarge
	MaxTxSeconds = 5          // from the first read; later reads and the commit fail with TransactionTooOld
)

// KeyValue is a key with its value.
type KeyValue struct {
	Key, Value []byte
}

// Range is the keys k with Begin <= k < End.
type Range struct {
	Begin, End []byte
}

// RangeOptions are options of a range read.
type RangeOptions struct {
	Limit   int  // at most so many pairs; 0 means all
	Reverse bool // from the end, in descending order; the limit then keeps the last pairs
}

// Reader reads from a transaction's snapshot.
type Reader interface {
	// Get returns the value of key, or nil if there is none. An empty value is not nil.
	Get(key []byte) ([]byte, error)
	// GetAll returns the values of several keys, as Get does, in one round trip.
	GetAll(keys [][]byte) ([][]byte, error)
	// GetRange returns the pairs of r in order. If the limit cuts the result short, only the keys up to the
	// last one returned count as read.
	GetRange(r Range, o RangeOptions) ([]KeyValue, error)
	// Prefetch reads keys and ranges in one round trip, so that the transaction's later reads of the same take
	// none. It is a hint, which a store may ignore: it counts for no conflict, and has neither result nor
	// error, which the later reads have. Of a range longer than some 80 KB it reads the beginning.
	Prefetch(keys [][]byte, ranges []Range)
}

// Tx is a transaction without its end, as the core's functions use it. The error of a write is returned by
// the next read or by the commit.
type Tx interface {
	Reader
	// Snapshot returns a reader of the same data whose reads do not count for conflicts.
	Snapshot() Reader
	// ReadVersion returns the version of the snapshot. It never decreases from one transaction of a client to
	// the next.
	ReadVersion() (int64, error)

	Set(key, value []byte)
	Clear(key []byte)
	ClearRange(r Range)
	// Add adds delta to a little-endian 64-bit counter, 0 if absent. It reads nothing, so it conflicts with
	// no other Add.
	Add(key []byte, delta int64)
	// Max raises a little-endian unsigned 64-bit value, 0 if absent, to v if it is below. It reads nothing
	// either.
	Max(key []byte, v uint64)
	// SetVersionstampedKey writes value under key, in which ten bytes are replaced by the commit's
	// versionstamp. Their offset is the little-endian number in key's last four bytes, which are cut off.
	// Until the commit, the whole range of possible keys is unreadable.
	SetVersionstampedKey(key, value []byte)
	// SetVersionstampedValue does the same with ten bytes of the value. Until the commit, the key is
	// unreadable.
	SetVersionstampedValue(key, value []byte)

	// AddReadConflict makes the commit fail as if r had been read.
	AddReadConflict(r Range)
	// AddWriteConflict makes the commits of other transactions that read in r fail, as if r had been written.
	AddWriteConflict(r Range)

	// Watch returns a watch that fires when the value of one of the keys, of which there is at least one, is no
	// longer what this transaction saw.
	Watch(keys ...[]byte) Watch
}

// Watch waits for the change of a key, or of one of several. It takes effect when its transaction has
// committed. It is only a hint: it may fire without a change, it may miss a change that is undone, and it may
// be lost, so its user must also look at the keys now and then.
type Watch interface {
	// Wait returns nil once a key may have changed, ctx's error, or a store error if the watch was lost. It
	// may be called once: the watch ends with ctx.
	Wait(ctx context.Context) error
	// Cancel gives the watch up. Wait then returns OperationCancelled.
	Cancel()
}

// Transaction is a Tx with its end. It is used by one caller at a time.
type Transaction interface {
	Tx
	// Commit makes the writes durable. Afterwards only OnError, Versionstamp, Cancel and the watches may be
	// used.
	Commit() error
	// Versionstamp returns the ten bytes that the committed transaction's versionstamps received. It fails if
	// nothing was written.
	Versionstamp() ([10]byte, error)
	// OnError prepares for another attempt after err: it waits as long as the store asks for, and resets the
	// transaction. It returns an error if err cannot pass with another attempt, or if the context has ended.
	OnError(err error) error
	// Cancel releases the transaction. A transaction that was not committed leaves no trace.
	Cancel()
}

// Priority orders transactions when the store is busy.
type Priority uint8

// Priorities, as FoundationDB names them.
const (
	PriorityDefault Priority = iota
	PriorityBatch            // background work that may wait
)

// Options of one transaction. The zero value suits most.
type Options struct {
	Priority Priority
	// Tag names the kind of work, for throttling and tracing. At most 16 bytes.
	Tag string
	// SizeLimit makes larger transactions fail with TransactionTooLarge before they are sent to the store; 0
	// means MaxTxSize.
	SizeLimit int
	// Stale allows a read version that is up to half a second old, which saves a request for one. It is never
	// older than what this process has committed or read before, but it may lack what other processes have
	// committed, so that promise 3 of the package does not hold for that. It serves views of state that
	// changes all the time, and writes whose refusal is no answer yet: what commits has read nothing old. It
	// holds for the first attempt only.
	Stale bool
}

// Database begins transactions. It may be used by many callers at once.
type Database interface {
	// Begin starts a transaction that ends with ctx: its operations that wait then return ctx's error.
	Begin(ctx context.Context, o Options) Transaction
}

// Run calls fn in a transaction and commits it. It repeats that until it succeeds, fails with an error that
// cannot pass, or ctx ends. The attempts share nothing but the store. An attempt whose outcome is unknown is
// repeated too.
func Run[T any](ctx context.Context, db Database, fn func(Tx) (T, error)) (T, error) {
	return RunWith(ctx, db, Options{}, fn)
}

// RunWith is Run with options.
func RunWith[T any](ctx context.Context, db Database, o Options, fn func(Tx) (T, error)) (T, error) {
	tx := db.Begin(ctx, o)
	defer tx.Cancel()
	var none T
	for {
		result, err := fn(tx)
		if err == nil {
			err = tx.Commit()
		}
		if err == nil {
			return result, nil
		}
		if err := tx.OnError(err); err != nil {
			return none, err
		}
	}
}

// Do is Run for a function without a result.
func Do(ctx context.Context, db Database, fn func(Tx) error) error {
	_, err := Run(ctx, db, func(tx Tx) (struct{}, error) { return struct{}{}, fn(tx) })
	return err
}
