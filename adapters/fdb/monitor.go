//go:build fdb

package fdb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"couchrelay/core/kv"
)

// monitor probes whether the cluster answers, and logs when that changes.
type monitor struct {
	cancel context.CancelFunc // ends the goroutine
	done   chan struct{}      // closed when the goroutine has ended

	mu      sync.Mutex              // guards the fields below
	away    error                   // why no operation can succeed, nil while the cluster answers; ErrClosed at the end
	present context.Context         // lasts as long as away is nil, and ends with it as its cause
	leaving context.CancelCauseFunc // ends present
}

// start starts the monitor's goroutine.
func (m *monitor) start(db *Database) {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done = cancel, make(chan struct{})
	m.present, m.leaving = context.WithCancelCause(context.Background())
	go func() {
		defer close(m.done)
		for ctx.Err() == nil && !errors.Is(m.err(), ErrReplaced) {
			m.probe(ctx, db)
			select {
			case <-db.Clock.After(db.Probe):
			case <-ctx.Done():
			}
		}
	}()
}

// stop ends the monitor's goroutine and waits for it.
func (m *monitor) stop() {
	m.cancel()
	<-m.done
	m.set(ErrClosed)
}

// probe asks for a read version and reads a key, and waits for the answers as long as it takes. If it takes
// longer than Patience, the cluster counts as away, but the question stays: an unreachable cluster should not
// find many of them when it comes back. Only storage servers answer reads, and other processes give read
// versions, so that each can go away without the other.
func (m *monitor) probe(ctx context.Context, db *Database) {
	asked := db.Clock.Now()
	answer := make(chan error, 1)
	var reading atomic.Bool           // there is a read version
	var refused atomic.Pointer[error] // the last error that may pass, nil if there was none
	go func() {
		answer <- kv.Do(ctx, db, func(tx kv.Tx) error {
			_, err := tx.ReadVersion()
			if reading.Store(err == nil); err == nil {
				_, err = tx.Snapshot().Get(db.Key)
			}
			if err != nil {
				refused.Store(&err)
			}
			return err
		})
	}()
	late := db.Clock.Timer(db.Patience)
	defer late.Stop()
	var err error
	select {
	case err = <-answer:
	case <-late.C:
		m.leave(db, db.away(asked, reading.Load(), refused.Load()))
		err = <-answer
	}
	switch {
	case ctx.Err() != nil || errors.Is(m.err(), ErrReplaced):
	case err != nil:
		m.leave(db, fmt.Errorf("FoundationDB cluster of %s: %w", db.clusterFile, err))
	default:
		m.back(db, asked)
	}
}

// away returns the error for a cluster that answers nothing, or no reads. refused is the last error that it answered
// with, after which the question was asked again; nil for none.
func (db *Database) away(since time.Time, reading bool, refused *error) error {
	what, advice := "", "whether its machines and coordinators can be reached"
	if reading {
		what, advice = " reads, though it gives read versions", "which of its storage servers are missing"
	}
	err := fmt.Errorf("%w%s (cluster file %s, since %s): see %s, with fdbcli's status",
		ErrAway, what, db.clusterFile, since.UTC().Format(time.RFC3339), advice)
	if refused != nil {
		err = fmt.Errorf("%w; its last answer: %w", err, *refused)
	}
	return err
}

// replaced notes, and logs once, that the cluster is away for good, since it has other data.
func (m *monitor) replaced(db *Database, err error) {
	if before := m.set(err); !errors.Is(before, ErrReplaced) {
		db.Logger.Error("store_replaced", "cluster_file", db.clusterFile, "error", err)
	}
}

// leave notes, and logs once, why the cluster is away.
func (m *monitor) leave(db *Database, err error) {
	if m.set(err) == nil {
		db.Logger.Warn("fdb_away", "cluster_file", db.clusterFile, "error", err)
	}
}

// back notes that the cluster answers, and logs it if it was away before.
func (m *monitor) back(db *Database, asked time.Time) {
	if before := m.set(nil); before != nil {
		waited := db.Clock.Since(asked).Round(time.Millisecond)
		db.Logger.Info("fdb_back", "cluster_file", db.clusterFile, "after", waited)
	}
}

// set changes the state, unless that is for good, and returns the one before.
func (m *monitor) set(err error) (before error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(m.away, ErrReplaced) && !errors.Is(err, ErrClosed) {
		return m.away
	}
	before, m.away = m.away, err
	if err != nil {
		m.leaving(fmt.Errorf("%w: %w", kv.ErrUnavailable, err))
	} else if before != nil {
		m.present, m.leaving = context.WithCancelCause(context.Background())
	}
	return before
}

// while returns the present context; see Database.Available.
func (m *monitor) while() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.present
}

// err returns why the cluster is away, nil while it answers.
func (m *monitor) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}
