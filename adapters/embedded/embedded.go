// Package embedded is the durable store for one machine: the contract of core/kv on Pebble
// (github.com/cockroachdb/pebble). A commit is answered when it is on the disk; commits that wait at
// the same time share one write and one sync. It holds no decision of its own: conflicts, own writes
// and watches are those of core/kv, as in the simulator's store.
//
// # Versions
//
// The commits of one group have one version and an order within it. Versions are microseconds of the
// injected clock, or one more than the last where the clock does not get ahead; the last one is stored
// with every group, so that versionstamps never go back. A read version is that of the last group that
// is on the disk: nobody sees what a crash could undo.
//
// # Failures
//
// The first write or sync that fails ends the store: nobody can know what is on the disk then, and a
// second sync may lie. Every operation from then on returns an error of ErrFailed that names the file
// and the cause, nothing hangs, and the operator restarts when the cause is gone.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/watchers"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors of the store as a whole.
var (
	// ErrFailed is in the chain of all errors after a write to the disk has failed.
	ErrFailed = errors.New("the store has failed and takes no more operations until it is restarted")
	// ErrClosed is in the chain of all errors after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrInUse means that another process has the directory open.
	ErrInUse = errors.New("the store is in use by another process")
	// ErrNewer means that a newer release wrote the directory in a format that this one does not know.
	ErrNewer = errors.New("the store was written by a newer release")
)

// Options of a store. The zero value is right for production.
type Options struct {
	Clock  clock.Clock  // for the five-second rule; default the system's
	Logger *slog.Logger // for what Pebble has to say; default silence
	Cache  int64        // bytes of memory for blocks read from the disk; default 64 MiB
	FS     vfs.FS       // the file system, for tests; default the system's
}

// window is how old a transaction may become.
const window = kv.MaxTxSeconds * time.Second

// Database is an open store.
type Database struct {
	dir     string
	clock   clock.Clock
	start   time.Time    // of the store's time, on the clock
	base    instant.Time // the store's time at start
	pebble  *pebble.DB
	lock    *pebble.Lock
	cache   *pebble.Cache
	failure *failure

	use    sync.RWMutex // held for reading while Pebble is used, for writing to close it
	closed bool         // guarded by use

	mu      sync.Mutex
	log     resolver.Log
	view    *view          // of the last group
	views   map[*view]bool // all that are in use
	gaps    gaps
	watches watchers.Registry[*watch]

	groups groups
}

var _ kv.Database = (*Database)(nil)

// Open opens the store in dir, which is created when it does not exist. Errors name the directory and
// the cause; those of ErrInUse and ErrNewer are told apart.
func Open(dir string, o Options) (*Database, error) {
	db, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return db, nil
}

func open(dir string, o Options) (db *Database, err error) {
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Cache <= 0 {
		o.Cache = 64 << 20
	}
	if err := prepareDirectory(dir, o.FS); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(dir, o.FS)
	if err != nil {
		return nil, lockError(err)
	}
	db = &Database{dir: dir, clock: o.Clock, lock: lock, failure: newFailure(o.Logger), views: map[*view]bool{}}
	db.cache = pebble.NewCache(o.Cache)
	if err := db.openPebble(o); err != nil {
		db.cache.Unref()
		return nil, errors.Join(err, lock.Close())
	}
	if err := errors.Join(db.load(), db.failure.err()); err != nil {
		return nil, errors.Join(err, db.closePebble())
	}
	db.failure.arm()
	db.groups.start(db)
	return db, nil
}

// present is the store's time. It does not follow jumps of the wall clock.
func (db *Database) present() instant.Time { return db.base.Add(db.clock.Since(db.start)) }

// Begin is kv.Database's.
func (db *Database) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	t := &transaction{db: db, ctx: ctx, options: o}
	t.Buffer = ryw.New((*source)(t))
	return t
}

// Exclusive says that no other process can use the store.
func (db *Database) Exclusive() bool { return true }

// Err says why the store takes no more operations, nil while it does.
func (db *Database) Err() error { return db.failure.err() }

// enter begins a use of Pebble, which the caller ends with leave.
func (db *Database) enter() error {
	if err := db.failure.err(); err != nil {
		return err
	}
	db.use.RLock()
	if db.closed {
		db.use.RUnlock()
		return ErrClosed
	}
	return nil
}

func (db *Database) leave() { db.use.RUnlock() }

// Close waits for the commits under way and closes the store. Transactions that are still open fail
// with ErrClosed. It returns the error of ErrFailed when the store had failed.
func (db *Database) Close() error {
	db.groups.stop(db.failure)
	if err := db.failure.err(); err != nil {
		return err // Pebble's goroutines may be stuck; the process's end releases the directory
	}
	db.use.Lock()
	defer db.use.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	db.mu.Lock()
	for v := range db.views {
		_ = v.snapshot.Close()
	}
	db.views = nil
	db.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- db.closePebble() }()
	select {
	case err := <-done:
		return err
	case <-db.failure.happened:
		return db.failure.err()
	}
}

func (db *Database) closePebble() error {
	err := db.pebble.Close()
	db.cache.Unref()
	return errors.Join(err, db.lock.Close())
}

// prepareDirectory creates dir, and refuses one that holds other things than a store.
func prepareDirectory(dir string, files vfs.FS) error {
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "LOCK" {
			return nil
		}
	}
	for _, name := range names {
		if name != "lost+found" {
			return fmt.Errorf("the directory holds no store and is not empty: there is %q", name)
		}
	}
	return nil
}

// lockError tells a directory that is in use from one that cannot be written.
func lockError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%w (%v)", ErrInUse, err)
}
