package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/fdb"
	"couchrelay/adapters/inspect"
	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
)

// store is the store in which the service keeps its jobs and documents.
type store interface {
	kv.Database
	// Err returns why no operation can succeed at present, nil if the store works.
	Err() error
	// Available returns a context that lasts until the store goes away; see web.WhileAvailable.
	Available() context.Context
	// Exclusive reports whether this process alone can use the store.
	Exclusive() bool
	Close() error
}

// open opens the store that --store names. Where that takes long it goes on in the background, but for a cluster, which
// is shared, and is not asked yet.
func (s *serveCommand) open(keyPrefix string, logger *slog.Logger) (store, error) {
	if strings.HasPrefix(s.Store, "fdb:") {
		return openStore(s.Store, keyPrefix, embedded.Options{Logger: logger})
	}
	return openWithin(startGrace, func() (store, error) {
		return openStore(s.Store, keyPrefix, embedded.Options{Logger: logger})
	})
}

// openStore opens the store that --store names, with these options if it is a directory. All keys of the service are
// below keyPrefix.
func openStore(name, keyPrefix string, o embedded.Options) (store, error) {
	if clusterFile, isFDB := strings.CutPrefix(name, "fdb:"); isFDB {
		return fdb.Open(clusterFile, fdb.Options{Logger: o.Logger, Key: tuple.Pack(keyPrefix)})
	}
	keepPrivate()
	db, err := embedded.Open(name, o)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// keepPrivate has the process make files that only its user can read: the directory of a store may be one that others
// can look into.
func keepPrivate() { syscall.Umask(0o077) }

// lateStore is an embedded store that is opened while the service already answers: after a kill its log is read again,
// and after an upgrade its files may be written anew, which takes minutes where there are many jobs.
type lateStore struct {
	opened chan struct{}
	db     store // nil if err; both are set before opened is closed
	err    error
}

var _ inspect.Moments = (*lateStore)(nil)

// errOpening says why a store cannot be used yet.
var errOpening = errors.New("the store is being opened")

// openWithin opens a store. If that takes longer than limit, it returns the store that is being opened.
func openWithin(limit time.Duration, open func() (store, error)) (store, error) {
	o := &lateStore{opened: make(chan struct{})}
	go func() {
		defer close(o.opened)
		o.db, o.err = open()
	}()
	select {
	case <-o.opened:
		return o.db, o.err
	case <-time.After(limit):
		return o, nil
	}
}

// Begin is kv.Database's. It waits until the store is open, or ctx ends.
func (o *lateStore) Begin(ctx context.Context, options kv.Options) kv.Transaction {
	select {
	case <-o.opened:
		if o.err != nil {
			return newStillborn(o.err)
		}
		return o.db.Begin(ctx, options)
	case <-ctx.Done():
		return newStillborn(ctx.Err())
	}
}

// Err is store's.
func (o *lateStore) Err() error {
	select {
	case <-o.opened:
		if o.err != nil {
			return o.err
		}
		return o.db.Err()
	default:
		return errOpening
	}
}

// Available is store's. Requests do not ask before the store is open.
func (o *lateStore) Available() context.Context { return context.Background() }

// Exclusive is store's.
func (o *lateStore) Exclusive() bool { return true }

// Moment is inspect.Moments'.
func (o *lateStore) Moment() (*embedded.Moment, error) {
	switch err := o.Err(); {
	case errors.Is(err, errOpening):
		return nil, fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	case err != nil:
		return nil, err
	}
	return o.db.(inspect.Moments).Moment()
}

// Close is store's. A store that is still being opened is left to the end of the process, as after a kill.
func (o *lateStore) Close() error {
	if errors.Is(o.Err(), errOpening) || o.db == nil {
		return nil
	}
	return o.db.Close()
}

// stillborn is a transaction, and its watch, all of whose operations fail.
type stillborn struct {
	*ryw.Buffer
	err error
}

func newStillborn(err error) stillborn {
	s := stillborn{ryw.New(nil), err}
	s.Fail(err)
	return s
}

func (s stillborn) ReadVersion() (int64, error)     { return 0, s.err }
func (s stillborn) Watch(...[]byte) kv.Watch        { return s }
func (s stillborn) Wait(context.Context) error      { return s.err }
func (s stillborn) Commit() error                   { return s.err }
func (s stillborn) Versionstamp() ([10]byte, error) { return [10]byte{}, s.err }
func (s stillborn) OnError(error) error             { return s.err }
func (s stillborn) Cancel()                         {}
