//go:build fdb && fdbctest

package fdb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/fdb"
	"couchrelay/adapters/fdb/fdbctest"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
)

// life is a service's store on the double, whose waits are counted.
type life struct {
	*testing.T
	cluster *fdbctest.Cluster
	db      kv.Database
	s       *jobstore.Store
	now     instant.Time
	written []docs.Written // of the last batch
	tokens  uint64         // that batches used
}

func newLife(t *testing.T) *life {
	cluster, db := openCluster(t, fdb.Options{})
	root := tuple.Subspace("test/")
	l := &life{T: t, cluster: cluster, db: tagged{db}, now: instant.Of(time.Now())}
	l.s = jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "test"}))
	l.do(func(tx kv.Tx) error {
		if _, _, err := jobstore.Init(tx, root, "test"); err != nil {
			return err
		}
		return l.s.Docs.Create(tx, "_replicator", tuple.UUID{1}, l.now)
	})
	return l
}

func (l *life) do(f func(tx kv.Tx) error) {
	l.Helper()
	if err := kv.Do(bg, l.db, f); err != nil {
		l.Fatal(err)
	}
}

// trips compares the round trips of a transaction: its read version and its commit are two of them.
func (l *life) trips(what string, want int, f func(tx kv.Tx) error) {
	l.Helper()
	before := l.cluster.RoundTrips("counted")
	l.do(f)
	if got := l.cluster.RoundTrips("counted") - before; got != want {
		l.Errorf("%s: %d round trips, want %d", what, got, want)
	}
}

// write is a batch of n documents, each of which replaces the one that the last batch made.
func (l *life) write(n int, body string, deleted bool) func(tx kv.Tx) error {
	edits := make([]docs.Edit, n)
	l.tokens += 1000
	for i := range edits {
		text := strings.ReplaceAll(body, "%d", fmt.Sprint(i))
		edits[i] = docs.Edit{Document: docs.Document{ID: fmt.Sprint("doc", i), Body: []byte(text), Deleted: deleted},
			Token: l.tokens + uint64(i)}
		if l.written != nil {
			edits[i].Rev = l.written[i].Rev
		}
	}
	return func(tx kv.Tx) error {
		db, err := l.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		l.written, err = l.s.WriteDocs(tx, db, edits, jobstore.Writer{Admin: true}, l.now)
		for _, w := range l.written {
			if w.Err != nil {
				return w.Err
			}
		}
		if len(l.written) != n {
			l.Fatalf("%d of %d written", len(l.written), n)
		}
		return err
	}
}

// TestRoundTripsOfJobs: what a job costs does not grow with the number of jobs in a transaction. A read more
// that depends on nothing belongs into a prefetch.
func TestRoundTripsOfJobs(t *testing.T) {
	for _, n := range []int{1, 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			l := newLife(t)
			l.do(func(tx kv.Tx) error {
				return errors.Join(l.s.Jobs.Register(tx, "w", nil), l.s.Jobs.Register(tx, "w2", nil))
			})
			const once = `{"source":"http://h/s%d","target":"http://h/t"}`
			const always = `{"source":"http://h/s%d","target":"http://h/t","continuous":true}`
			l.trips("new documents", 4, l.write(n, once, false))
			l.trips("changed documents", 5, l.write(n, always, false))
			l.trips("deleted documents", 5, l.write(n, `{}`, true))
			l.trips("documents again", 4, l.write(n, always, false))
			var work []jobstore.Work
			l.trips("accept", 6, func(tx kv.Tx) (err error) {
				taken, err := l.s.Accept(tx, "w", "n", jobs.Demand{Batch: 1, Max: n}, l.now)
				work = taken.Work
				return err
			})
			for _, w := range work {
				if !w.Claimed || len(work) != n {
					t.Errorf("%s has no claim, of %d", w.JobID, len(work))
				}
			}
			hold := func(tx kv.Tx) jobstore.Owned { return l.s.Owned(tx, work[0].JobID, work[0].Lock, l.now) }
			l.trips("progress", 3, func(tx kv.Tx) error { return hold(tx).Progress(jobstore.Stats{DocsRead: 1}) })
			l.trips("crash", 3, func(tx kv.Tx) error {
				return hold(tx).Crash(replication.Trouble{}, nil, jobstore.Turn{}, 1)
			})
			l.trips("promote", 4, func(tx kv.Tx) error {
				_, _, err := l.s.Jobs.Promote(tx, l.now.Add(time.Hour), 100)
				return err
			})
			l.trips("expire", 4+2*min(n-1, 1), func(tx kv.Tx) error {
				_, err := l.s.Jobs.Expire(tx, "w", nil, 100)
				return err
			})
			l.do(func(tx kv.Tx) (err error) {
				taken, err := l.s.Accept(tx, "w2", "n", jobs.Demand{Batch: 1, Max: 1}, l.now)
				work = taken.Work
				return err
			})
			l.trips("complete", 4, func(tx kv.Tx) error {
				return hold(tx).Complete(replication.End{Cause: replication.Completed}, jobstore.Turn{})
			})
		})
	}
}
