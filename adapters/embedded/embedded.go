// Package embedded is the durable store for one machine: the contract of core/kv on Pebble
// (github.com/cockroachdb/pebble). It makes no decision of its own: conflicts, own writes and watches are
// those of core/kv, as in the simulator's store.
//
// # Commits
//
// One goroutine (groups.run) commits, one group at a time. While it syncs a group, further commits queue up
// and form the next group, so commits that wait at the same time share one write and one sync. A group passes
// these steps in this order, on which everything else rests:
//
//  1. decide: conflicts are checked against all earlier groups and the earlier commits of this one; the
//     commits without a conflict get versionstamps.
//  2. write: their mutations, and the group's version, go to the disk as one batch with one sync. After a
//     crash Pebble has all of the batch or nothing of it.
//  3. publish: new transactions read the group, and the watches that it changes end.
//  4. the callers of Commit are answered.
//
// So no transaction reads what a crash could undo, and no caller hears of a commit that is not on the disk. A
// process that dies between 2 and 4 leaves a commit in the store whose caller never hears of it, as every
// database may.
//
// # Versions
//
// The commits of one group have one version and an order within it. A version is the time of the injected
// clock in microseconds, or the last version plus one if the clock is not ahead of that. The version is
// stored with its group and the next start continues above it, so versionstamps never go back, whatever the
// wall clock does. A read version is the version of the last group that was published.
//
// # Failures
//
// The first write or sync that fails ends the store: it is unknown then what is on the disk, and a second
// sync may report success for data that the first one lost. From then on nothing is written any more, and
// every operation returns an error of ErrFailed that names the file and the cause. Nothing hangs. The
// operator restarts the process when the cause is gone.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
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

// Errors of the store as a whole. kv.Retryable is false for all of them.
var (
	// ErrFailed is in the chain of all errors after a write to the disk has failed. A commit that was in
	// flight may or may not be on the disk. Clients are told to come back: the store may be restarted soon.
	ErrFailed = fmt.Errorf("%w: it has failed and takes no more operations until it is restarted", kv.ErrUnavailable)
	// ErrClosed is in the chain of all errors after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrInUse means that another process has the directory open.
	ErrInUse = errors.New("the store is in use by another process")
	// ErrDamaged means that what a file has is not what was written into it.
	ErrDamaged = errors.New("a file of the store is damaged, as by its disk: restore a backup")
	// ErrNewer means that a newer release wrote the directory in a format that this one does not know.
	ErrNewer = errors.New("the store was written by a newer release")
)

// Options of a store. The zero value is right for production.
type Options struct {
	Clock  clock.Clock  // for versions and the age of transactions; nil: the system's
	Logger *slog.Logger // for Pebble's messages and the store's failure; nil: none
	Cache  int64        // bytes of memory for blocks read from the disk; 0 or less: 64 MiB
	FS     vfs.FS       // the file system, for tests; nil: the system's
	// Existing refuses a directory without a store, and leaves it as it is.
	Existing bool

	restored func(*Database) error // writes the rows of a store that is restored, before it is loaded
}

// window is the age from which on a transaction is too old to read and to commit. The conflict log reaches
// back as far.
const window = kv.MaxTxSeconds * time.Second

// Database is an open store. Of its locks, use is taken before mu; groups.mu is taken alone.
type Database struct {
	dir     string
	clock   clock.Clock
	start   time.Time    // when the store was opened, by clock
	base    instant.Time // the store's time at start, above all stored versions; see present
	pebble  *pebble.DB
	lock    *pebble.Lock // of the directory, against other processes
	cache   *pebble.Cache
	failure *failure

	// use is held for reading while Pebble is used (enter, leave), and for writing by Close, which must not
	// close Pebble under a reader. It guards closed.
	use    sync.RWMutex
	closed bool

	mu      sync.Mutex                // guards the fields below
	log     resolver.Log              // the writes of the last window, for conflicts; only decide adds to it
	view    *view                     // of the last group published; only publish replaces it
	views   map[*view]bool            // all views whose snapshots are open, for Close; nil after it
	gaps    gaps                      // true of every view from their versions on
	watches watchers.Registry[*watch] // those in effect

	groups groups // has a lock of its own
}

var _ kv.Database = (*Database)(nil)

// Open opens the store in dir, and creates it when it does not exist. Errors name the directory and the
// cause; ErrInUse and ErrNewer are in their chain where they apply.
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
	if o.restored == nil {
		if err := prepareDirectory(dir, o); err != nil {
			return nil, err
		}
	}
	lock, err := pebble.LockDirectory(dir, o.FS)
	if err != nil {
		return nil, lockError(err)
	}
	if err := secure(dir, o); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	db = &Database{dir: dir, clock: o.Clock, lock: lock, failure: newFailure(o.Logger),
		views: map[*view]bool{}}
	db.cache = pebble.NewCache(o.Cache)
	err = db.openPebble(o)
	if err == nil && o.restored != nil {
		err = db.whileGood(func() error { return o.restored(db) })
	}
	if err == nil {
		err = db.whileGood(db.load)
	}
	switch {
	case db.failure.err() != nil:
		return nil, db.failure.first // goroutines of Pebble may have stopped for good
	case err != nil:
		return nil, errors.Join(err, db.whileGood(db.closePebble))
	}
	db.groups.start(db)
	return db, nil
}

// present returns the store's time. It follows the monotonic clock, so setting the wall clock neither moves
// versions nor makes a transaction look old.
func (db *Database) present() instant.Time { return db.base.Add(db.clock.Since(db.start)) }

// Begin is kv.Database's.
func (db *Database) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	t := &transaction{db: db, ctx: ctx, options: o}
	t.Buffer = ryw.New((*source)(t))
	return t
}

// Exclusive reports that no other process can use the store.
func (db *Database) Exclusive() bool { return true }

// Err returns the failure that ended the store, nil as long as there is none.
func (db *Database) Err() error { return db.failure.err() }

// Available returns a context that lasts until the store goes away to come back, which it does not: one that
// has failed says so at once.
func (db *Database) Available() context.Context { return context.Background() }

// enter begins a use of Pebble. If it succeeds, the caller ends the use with leave; Close waits for that.
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

// leave ends a use of Pebble that enter began.
func (db *Database) leave() { db.use.RUnlock() }

// Close refuses further commits, waits for those in flight and closes the store. Transactions that are still
// open fail with ErrClosed. A store that has failed, or fails in the meantime, is not closed: Close returns
// its error. More calls do nothing.
func (db *Database) Close() error {
	db.groups.stop(db.failure)
	if err := db.failure.err(); err != nil {
		return err // goroutines of Pebble may have stopped for good; the process's end releases the directory
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

// closePebble closes Pebble, if it is open, and releases the directory.
func (db *Database) closePebble() (err error) {
	if db.pebble != nil {
		err = db.pebble.Close()
	}
	db.cache.Unref()
	return errors.Join(err, db.lock.Close())
}

// prepareDirectory creates dir, unless it must exist, and refuses a directory that has files and no store among them:
// it was probably named by mistake. A store is known by its LOCK, which is created first and stays.
func prepareDirectory(dir string, o Options) error {
	if !o.Existing {
		if err := makeDirectory(dir, o.FS); err != nil {
			return err
		}
	}
	names, err := o.FS.List(dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, "LOCK") || slices.Contains(names, unfinished) {
		return nil
	}
	for _, name := range names {
		if name != "lost+found" {
			return fmt.Errorf("the directory holds no store and is not empty: there is %q", name)
		}
	}
	if o.Existing {
		return errors.New("the directory holds no store")
	}
	return nil
}

// secure makes the LOCK of a directory durable, or a crash could leave other files, and no LOCK. It refuses a directory
// in which a restore was broken off.
func secure(dir string, o Options) error {
	if err := syncDirectory(dir, o.FS); err != nil || o.restored != nil {
		return err
	}
	_, err := o.FS.Stat(o.FS.PathJoin(dir, unfinished))
	switch {
	case err == nil:
		return ErrUnfinished
	case errors.Is(err, fs.ErrNotExist):
		return beginAgain(dir, o.FS)
	}
	return err
}

// beginAgain removes what a crash left of a store's first opening, if that is Pebble's marker without the manifest that
// it names: neither name was durable yet, so nothing has been stored, and Pebble would not open it.
func beginAgain(dir string, files vfs.FS) error {
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	isMarker := func(name string) bool { return strings.HasPrefix(name, "marker.") }
	for _, name := range names {
		if name != "LOCK" && !beside[name] && !isMarker(name) {
			return nil
		}
	}
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return !isMarker(name) }) {
		err = errors.Join(err, files.Remove(files.PathJoin(dir, name)))
	}
	return err
}

// makeDirectory creates dir and those above it, and makes their names durable. Pebble does so for a directory in one
// that exists.
func makeDirectory(dir string, files vfs.FS) error {
	if _, err := files.Stat(dir); err == nil {
		return nil
	}
	above := files.PathDir(dir)
	if above != dir {
		if err := makeDirectory(above, files); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDirectory(above, files)
}

// syncDirectory makes what became of the names in a directory durable.
func syncDirectory(dir string, files vfs.FS) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockError turns the error of a lock into ErrInUse, unless the lock's file could not even be opened.
func lockError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%w (%v)", ErrInUse, err)
}
