// Package kv is the storage contract of the core: an ordered, transactional key-value store with
// FoundationDB's semantics. It holds the interfaces, the error codes, the limits and the retry
// loop; implementations live in adapters and in the simulator. Nothing here may touch the world.
//
// # What every implementation promises
//
//  1. A transaction reads from one snapshot, the one of its first read (its read version), and sees
//     its own writes on top of it.
//  2. Commit is atomic and serializable: it fails with NotCommitted when a key that the transaction
//     read was written by a transaction that committed after the read version. Reads through
//     Snapshot and the reads implied by atomic operations do not count. A transaction that wrote
//     nothing commits always.
//  3. A commit that returned nil is durable and visible to every transaction begun afterwards.
//  4. A commit that returned an error with MaybeCommitted may have happened, or may still happen
//     later. Therefore every function given to Run is idempotent: applied twice it leaves the store as
//     if applied once. Whoever needs exactly-once proves it with a key.
//  5. The limits below hold; what breaks them fails with the code named there.
//
// # What every caller owes
//
// A function that takes a Tx may run more than once, must not keep the Tx, must not change anything
// but the store, and returns the store's errors unchanged or wrapped with %w. Nobody changes the bytes of
// what a read returned, which may be the store's own; appending to them is safe.
package kv

import "context"

// Limits of the contract, those of FoundationDB.
const (
	MaxKeySize   = 10_000     // bytes; longer fails with KeyTooLarge
	MaxValueSize = 100_000    // bytes; longer fails with ValueTooLarge
	MaxTxSize    = 10_000_000 // bytes of keys, values and conflict ranges; more fails with TransactionTooLarge
	MaxTxSeconds = 5          // from the first read; later reads and the commit fail with TransactionTooOld
)

// KeyValue is one pair as a range read returns it.
type KeyValue struct {
	Key, Value []byte
}

// Range is the keys k with Begin <= k < End.
type Range struct {
	Begin, End []byte
}

// RangeOptions says how to read a range.
type RangeOptions struct {
	Limit   int  // at most so many pairs; 0 means all
	Reverse bool // from the end, in descending order; the limit then keeps the last pairs
}

// Reader reads from a transaction's snapshot.
type Reader interface {
	// Get returns the value of key, or nil when there is none. An empty value is not nil.
	Get(key []byte) ([]byte, error)
	// GetAll reads several keys in one round trip; absent ones are nil.
	GetAll(keys [][]byte) ([][]byte, error)
	// GetRange returns the pairs of r in order. When the limit cut it short, only the keys up to the
	// last one returned count as read.
	GetRange(r Range, o RangeOptions) ([]KeyValue, error)
}

// Tx is a transaction as the core's functions see it: everything but its end. Writes report their
// errors at the next read or at the commit.
type Tx interface {
	Reader
	// Snapshot reads the same data without conflicting with those who write it.
	Snapshot() Reader
	// ReadVersion is the version of the snapshot; it never falls between transactions of one client.
	ReadVersion() (int64, error)

	Set(key, value []byte)
	Clear(key []byte)
	ClearRange(r Range)
	// Add adds delta to a little-endian 64-bit counter (absent counts as 0) without reading it.
	Add(key []byte, delta int64)
	// Max raises a little-endian unsigned 64-bit value to v (absent counts as 0) without reading it.
	Max(key []byte, v uint64)
	// SetVersionstampedKey writes value under key, ten bytes of which become the commit's versionstamp.
	// Their offset is the little-endian number in key's last four bytes, which are cut off. Until the
	// commit the whole range of possible keys is unreadable.
	SetVersionstampedKey(key, value []byte)
	// SetVersionstampedValue does the same in the value. Until the commit the key is unreadable.
	SetVersionstampedValue(key, value []byte)

	// AddReadConflict makes the commit fail when somebody writes in r, as if r had been read.
	AddReadConflict(r Range)
	// AddWriteConflict makes others that read in r fail, as if r had been written.
	AddWriteConflict(r Range)

	// Watch asks to be told when the value of key is no longer what this transaction saw.
	Watch(key []byte) Watch
}

// Watch waits for the change of one key. It takes effect when its transaction has committed. It is a
// hint: it may fire without a change, a change that is undone may go unseen, and it may be lost, so a
// waiter also looks now and then by itself.
type Watch interface {
	// Wait returns nil when the key may have changed, ctx's error, or a store error when the watch was
	// lost. It may be called once: with ctx the watch ends too.
	Wait(ctx context.Context) error
	// Cancel gives the watch up; Wait then returns OperationCancelled.
	Cancel()
}

// Transaction is a Tx with its end. It is used by one caller at a time.
type Transaction interface {
	Tx
	// Commit makes the writes durable. Afterwards only OnError, Versionstamp, Cancel and the watches
	// may be used.
	Commit() error
	// Versionstamp is the ten bytes that the committed transaction's versionstamps received. It fails
	// when nothing was written.
	Versionstamp() ([10]byte, error)
	// OnError prepares for another attempt after err: it waits as long as the store wants and resets the
	// transaction. It returns an error when err is not worth a retry or the context has ended.
	OnError(err error) error
	// Cancel releases the transaction; one that was not committed never will be by this call.
	Cancel()
}

// Priority orders transactions when the store is busy.
type Priority uint8

// Priorities, as FoundationDB names them.
const (
	PriorityDefault Priority = iota
	PriorityBatch            // background work that may wait
)

// Options of one transaction. The zero value is right for most.
type Options struct {
	Priority Priority
	// Tag names the kind of work, for throttling and tracing. At most 16 bytes.
	Tag string
	// SizeLimit fails larger transactions with TransactionTooLarge before they burden the store;
	// 0 means MaxTxSize.
	SizeLimit int
	// Stale allows a read version that is up to half a second old, which saves asking for one. It never
	// falls behind what this process has committed or read before. Only for looks at things that move
	// anyway: promise 3 of the package does not hold for what other processes commit.
	Stale bool
}

// Database begins transactions. It may be used by many callers at once.
type Database interface {
	// Begin starts a transaction that ends with ctx: everything that waits then returns ctx's error.
	Begin(ctx context.Context, o Options) Transaction
}

// Run calls fn in a transaction and commits, again and again until it succeeds, fails for good or ctx
// ends. The attempts share nothing but the store, and one whose outcome is unknown is repeated too.
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
