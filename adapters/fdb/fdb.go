//go:build fdb

package fdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"couchrelay/core/kv"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/benbjohnson/clock"
)

// Database is a cluster that is in use.
type Database struct {
	Options                                 // with all defaults filled in
	clusterFile string                      // path, as given to Open
	client      client.Database             // shared by all Databases with this cluster file; never closed, see connect
	expected    atomic.Pointer[kv.KeyValue] // see Expect; nil for nothing
	versions    versions
	monitor     monitor
	closed      chan struct{} // closed by Close: no new transactions begin
	closeOnce   sync.Once
}

var _ kv.Database = (*Database)(nil)

// Open prepares the use of the cluster that a cluster file names. It does not wait for the cluster; if that
// is away, the first transaction waits for it. Errors name the file and the cause, and have ErrClient in
// their chain if the client library cannot be used.
func Open(clusterFile string, o Options) (*Database, error) {
	db, err := open(clusterFile, o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("store fdb:%s: %w", clusterFile, err)
	}
	return db, nil
}

func open(clusterFile string, o Options) (*Database, error) {
	if err := checkNetworkOptions(os.Environ()); err != nil {
		return nil, err
	}
	if err := checkClusterFile(clusterFile); err != nil {
		return nil, err
	}
	handle, err := connect(clusterFile)
	if err != nil {
		return nil, err
	}
	db := &Database{Options: o, clusterFile: clusterFile, client: handle, closed: make(chan struct{})}
	db.monitor.start(db)
	return db, nil
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Probe <= 0 {
		o.Probe = 2 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 5 * time.Second
	}
	return o
}

// opening guards the bindings' table of open databases, which has no lock of its own.
var opening sync.Mutex

// connect returns the client's handle of a cluster. The process has one for each cluster file and never
// closes it: the bindings free transactions when Go's garbage collector finds them, which may be after any
// Close.
func connect(clusterFile string) (client.Database, error) {
	opening.Lock()
	defer opening.Unlock()
	if err := client.APIVersion(APIVersion); err != nil {
		return client.Database{},
			fmt.Errorf("%w: %w; install FoundationDB's client package 7.3 or newer", ErrClient, err)
	}
	handle, err := client.OpenDatabase(clusterFile)
	return handle, wrap(err)
}

// Begin is kv.Database's.
func (db *Database) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	t := &transaction{db: db, ctx: ctx, options: o}
	select {
	case <-db.closed:
		t.ended = ErrClosed
		return t
	default:
	}
	if err := db.Err(); errors.Is(err, ErrReplaced) {
		t.ended = fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
		return t
	}
	handle, err := db.client.CreateTransaction()
	if err != nil {
		t.ended = wrap(err)
		return t
	}
	t.client = handle
	t.prepare()
	return t
}

// Exclusive reports that other processes may use the store at the same time: a cluster is shared.
func (db *Database) Exclusive() bool { return false }

// Err returns why no operation can succeed at present, nil while the cluster answers.
func (db *Database) Err() error { return db.monitor.err() }

// Expect names a key, and the value that it has in the store which the process began with. A cluster can be emptied,
// restored, or lose its data under a running process. So each transaction that writes reads the key, and commits
// nothing if it has another value. That transaction and all later ones fail with ErrReplaced, and the cluster counts
// as away until the process ends, since what the process knows belongs to the earlier data. Expect is called once,
// before the node runs.
func (db *Database) Expect(key, value []byte) {
	db.expected.Store(&kv.KeyValue{Key: key, Value: value})
}

// prove returns ErrReplaced, and has the cluster count as away, unless the key of Expect has the value found.
func (db *Database) prove(found []byte) error {
	e := db.expected.Load()
	if bytes.Equal(found, e.Value) {
		return nil
	}
	const problem = "FoundationDB cluster of %s: %w: %q has the value %q, not %q; restore it with all nodes stopped, " +
		"or restart the nodes, which begin with what there is"
	err := fmt.Errorf(problem, db.clusterFile, ErrReplaced, e.Key, found, e.Value)
	db.monitor.replaced(db, err)
	return fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
}

// Available returns a context that lasts until the cluster goes away. Its cause is then the reason, with
// kv.ErrUnavailable in its chain. While the cluster is away it has ended. It is for requests, whose clients
// should not wait for a cluster that may be away for long.
func (db *Database) Available() context.Context { return db.monitor.while() }

// Close ends the use of the cluster. New transactions fail with ErrClosed; those that have begun go on until
// their contexts end.
func (db *Database) Close() error {
	db.closeOnce.Do(func() {
		close(db.closed)
		db.monitor.stop()
	})
	return nil
}

// versions keeps the newest version that this process knows of, for transactions that may read a moment-old
// state (kv.Options.Stale). Since it is the newest of all that the process has read or committed, such a
// transaction sees everything that the process did before.
type versions struct {
	mu      sync.Mutex // guards the fields below
	version int64      // 0 before the first
	at      time.Time  // a moment, by Options.Clock, at which the version was still the newest of the cluster
}

// maxStale is the age up to which a version may serve a transaction with kv.Options.Stale.
const maxStale = 500 * time.Millisecond

// learn notes a version: a read version, or that of a commit. asked is when it was asked for, since the
// cluster may have gone on between its answer and now.
func (v *versions) learn(version int64, asked time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version >= v.version {
		v.version, v.at = version, asked
	}
}

// known returns a version that is not older than maxStale, 0 if there is none.
func (v *versions) known(now time.Time) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.at) > maxStale {
		return 0
	}
	return v.version
}
