//go:build fdb

package fdb

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"couchrelay/core/kv"

	client "github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/benbjohnson/clock"
)

// Database is a cluster that is in use.
type Database struct {
	Options
	clusterFile string
	client      client.Database
	versions    versions
	monitor     monitor
	closed      chan struct{}
	closeOnce   sync.Once
}

var _ kv.Database = (*Database)(nil)

// Open uses the cluster that a cluster file names. It does not wait for the cluster: one that is away
// is waited for by the first transaction. Errors name the file and the cause; those of ErrClient mean
// the client library.
func Open(clusterFile string, o Options) (*Database, error) {
	db, err := open(clusterFile, o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("store fdb:%s: %w", clusterFile, err)
	}
	return db, nil
}

func open(clusterFile string, o Options) (*Database, error) {
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

// opening guards the bindings' table of open databases, which they do not.
var opening sync.Mutex

// connect is the client's handle of a cluster. There is one for each cluster file as long as the
// process lives: the bindings may free memory of transactions at any time after, so none is closed.
func connect(clusterFile string) (client.Database, error) {
	opening.Lock()
	defer opening.Unlock()
	if err := client.APIVersion(APIVersion); err != nil {
		return client.Database{}, fmt.Errorf("%w: %w; install FoundationDB's client package 7.3 or newer", ErrClient, err)
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
	handle, err := db.client.CreateTransaction()
	if err != nil {
		t.ended = wrap(err)
		return t
	}
	t.client = handle
	t.prepare()
	return t
}

// Exclusive says that no other process can use the store, which is not so: a cluster is shared.
func (db *Database) Exclusive() bool { return false }

// Err says why no operation can succeed at present, nil while the cluster answers.
func (db *Database) Err() error { return db.monitor.err() }

// Close ends the use of the cluster: no new transactions begin. It waits for nothing.
func (db *Database) Close() error {
	db.closeOnce.Do(func() {
		close(db.closed)
		db.monitor.stop()
	})
	return nil
}

// versions keeps the newest read version that is known, for transactions that may read what was true
// a moment ago.
type versions struct {
	mu      sync.Mutex
	version int64
	at      time.Time // when it was the newest
}

// maxStale is how old a read version may become for transactions with kv.Options.Stale.
const maxStale = 500 * time.Millisecond

// learn notes a read version that was asked for at a moment, or a commit's.
func (v *versions) learn(version int64, asked time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version >= v.version {
		v.version, v.at = version, asked
	}
}

// known is a version that is not too old, 0 when there is none.
func (v *versions) known(now time.Time) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.at) > maxStale {
		return 0
	}
	return v.version
}
