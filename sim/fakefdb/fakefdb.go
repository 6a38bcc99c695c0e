// Package fakefdb is FoundationDB in memory, for tests and for the simulator: the whole contract of core/kv,
// with every fault that a client can see. New returns a store for plain tests with goroutines. With a World
// attached, every operation is a point at which the simulation may suspend the caller and decide what goes
// wrong; equal decisions give equal runs.
//
// # What a read version promises
//
// FoundationDB is strictly serializable. When a client asks for a read version, it gets at least the version
// of every commit that has been acknowledged to any client by then, and at least every read version that any
// client was given by then. What is left open is a commit that has landed and is not acknowledged yet: a new
// transaction may see it or not, and once one has seen it all later ones do. StaleReadVersion uses just that.
//
// # What an unknown result promises
//
// When CommitUnknownResult is returned the attempt is over: it has landed and every later transaction
// sees it, or it never will. After TransactionTimedOut, ClusterVersionChanged or the end of the
// caller's context during Commit it may still land later, unless it then conflicts or is too old.
package fakefdb

import (
	"context"
	"sync"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/watchers"
)

// window is how far back transactions may read, in versions, of which a second has a million.
const window = kv.MaxTxSeconds * 1_000_000

// Database is an in-memory store.
type Database struct {
	world    World
	onCommit func(Landing)
	// spared and onMisread are OnMisread's.
	spared    func(Row) bool
	onMisread func(Misreading)

	mu      sync.Mutex
	data    tree
	log     resolver.Log
	last    int64   // the highest version that was given to a commit or a reader; only grows
	order   uint16  // of the last commit in its batch
	landed  int64   // version of the last commit, at most last
	known   int64   // the highest version that a client was told (see the package comment), at most last; only grows
	limbo   []int64 // versions of commits that have landed and are not acknowledged yet, all above known
	began   uint64  // transactions begun
	watches watchers.Registry[*watch]
	stats   Stats
}

var _ kv.Database = (*Database)(nil)

// Landing is a commit that took effect.
type Landing struct {
	Tx        uint64 // number of the transaction, see Op
	Version   int64
	Stamp     [10]byte
	Mutations []ryw.Mutation // as applied; not to be changed
	Read      int64          // the version that the transaction read, 0 if it read nothing
	// Trips is how many round trips the reads of a client took that asks for nothing twice, and for all at once that
	// the transaction prefetched.
	Trips int
}

// Stats counts what the store did.
type Stats struct {
	Transactions uint64 // begun
	Attempts     uint64 // read versions given
	Commits      uint64 // landed with writes
	ReadOnly     uint64 // commits without writes
	Conflicts    uint64 // true ones, not those of the fault
	TooOld       uint64 // true ones
	Reads        uint64 // round trips
	KeysWritten  uint64
	BytesWritten uint64
	BytesRead    uint64
	WatchesFired uint64
}

// Option configures a new store.
type Option func(*Database)

// InWorld attaches a world.
func InWorld(w World) Option { return func(db *Database) { db.world = w } }

// WithClock gives the default world a clock, for the five-second rule. Without one the store's time
// goes on by 100 microseconds with every commit.
func WithClock(now func() instant.Time) Option {
	return func(db *Database) { db.world = calm{now} }
}

// OnCommit has f called for every commit when it lands. It must not call the store.
func OnCommit(f func(Landing)) Option { return func(db *Database) { db.onCommit = f } }

// New returns an empty store. Without a world it may be used by many goroutines at the same time.
func New(options ...Option) *Database {
	db := &Database{last: 1, landed: 1, known: 1}
	db.world = calm{func() instant.Time { return instant.Time(db.landed + 100) }}
	for _, o := range options {
		o(db)
	}
	return db
}

// Begin is kv.Database's.
func (db *Database) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.began++
	db.stats.Transactions++
	t := &transaction{db: db, ctx: ctx, options: o, number: db.began, attempt: 1}
	t.Buffer = ryw.New((*source)(t))
	return t
}

// Stats returns a copy of the counters.
func (db *Database) Stats() Stats {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.stats
}

// Hash returns a hash of the present contents, which every commit keeps up to date. It does not depend on how
// the contents came to be.
func (db *Database) Hash() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.data.hash
}

// Intact returns an error if the reader of a value has changed it, which is the store's own memory.
func (db *Database) Intact() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.data.intact()
}

// present returns the version of the present moment. The lock is held.
func (db *Database) present() int64 { return max(db.last, int64(db.world.Now())) }
