//go:build fdb

package fdb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"couchrelay/core/kv"
)

// monitor knows whether the cluster answers, and says so in the log when that changes.
type monitor struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	away error // why no operation can succeed, nil while the cluster answers
}

func (m *monitor) start(db *Database) {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done = cancel, make(chan struct{})
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			m.probe(ctx, db)
			select {
			case <-db.Clock.After(db.Probe):
			case <-ctx.Done():
			}
		}
	}()
}

func (m *monitor) stop() {
	m.cancel()
	<-m.done
	m.set(ErrClosed)
}

// probe asks for a read version and waits for it as long as it takes. Only the log and Err hear of it
// when that is too long, so a cluster that is away is asked one question, not many.
func (m *monitor) probe(ctx context.Context, db *Database) {
	asked := db.Clock.Now()
	answer := make(chan error, 1)
	go func() {
		_, err := kv.Run(ctx, db, kv.Tx.ReadVersion)
		answer <- err
	}()
	late := db.Clock.Timer(db.Patience)
	defer late.Stop()
	var err error
	select {
	case err = <-answer:
	case <-late.C:
		m.leave(db, asked, nil)
		err = <-answer
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.leave(db, asked, err)
	default:
		m.back(db, asked)
	}
}

// leave notes that the cluster does not answer, or answers with an error.
func (m *monitor) leave(db *Database, asked time.Time, cause error) {
	err := fmt.Errorf("%w (cluster file %s, since %s): see whether its machines and coordinators can be reached, with fdbcli's status",
		ErrAway, db.clusterFile, asked.UTC().Format(time.RFC3339))
	if cause != nil {
		err = fmt.Errorf("FoundationDB cluster of %s: %w", db.clusterFile, cause)
	}
	if m.set(err) == nil {
		db.Logger.Warn("fdb_away", "cluster_file", db.clusterFile, "error", err)
	}
}

func (m *monitor) back(db *Database, asked time.Time) {
	if before := m.set(nil); before != nil {
		db.Logger.Info("fdb_back", "cluster_file", db.clusterFile, "after", db.Clock.Since(asked).Round(time.Millisecond))
	}
}

// set changes the state and returns the one before.
func (m *monitor) set(err error) (before error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.away = m.away, err
	return before
}

func (m *monitor) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}
