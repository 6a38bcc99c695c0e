//go:build fdb

package fdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/adapters/web/relay"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
)

// roundTrip is how far the double is in benchmarks of documents and jobs, about as far as a cluster in the
// same room.
const roundTrip = 500 * time.Microsecond

// frontend is the host of a node that serves clients.
type frontend struct{ relay.Host }

func (frontend) Roles() node.Roles { return node.AllRoles }

// newRelay is a service's store with its empty replicator database.
func newRelay(b *testing.B, db kv.Database, prefix []byte) *jobstore.Store {
	root := tuple.Subspace(prefix)
	s := jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "bench"}))
	if err := kv.Do(b.Context(), db, func(tx kv.Tx) error {
		if _, _, err := jobstore.Init(tx, root, "bench"); err != nil {
			return err
		}
		return errors.Join(s.Docs.Create(tx, "_replicator", tuple.UUID{1}, instant.Of(time.Now())),
			s.Jobs.Register(tx, "w", nil))
	}); err != nil {
		b.Fatal(err)
	}
	return s
}

// post has clients write n new replications over HTTP, so many in each request, and returns how many of them
// a second were written.
func post(b *testing.B, db kv.Database, prefix []byte, clients, bulk, n int) float64 {
	server := httptest.NewServer(relay.New(relay.Options{
		DB: db, Store: newRelay(b, db, prefix), Clock: clock.New(), Host: frontend{},
	}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range clients {
		all.Go(func() {
			for {
				last := int(next.Add(int64(bulk)))
				if last-bulk >= n {
					return
				}
				if err := postSome(client, server.URL, last-bulk, last); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(next.Load()-int64(clients*bulk)) / time.Since(start).Seconds()
}

func postSome(client *http.Client, url string, from, to int) error {
	var docs []string
	for i := from; i < to; i++ {
		docs = append(docs, fmt.Sprintf(
			`{"_id":"doc-%08d","source":"http://source.example/db%d","target":"http://target.example/db%d"}`, i, i, i))
	}
	method, path, body := "PUT", fmt.Sprintf("/_replicator/doc-%08d", from), docs[0]
	if to-from > 1 {
		method, path, body = "POST", "/_replicator/_bulk_docs", `{"docs":[`+strings.Join(docs, ",")+`]}`
	}
	q, err := http.NewRequest(method, url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	reply, err := client.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	answer, err := io.ReadAll(reply.Body)
	if err == nil && (reply.StatusCode != http.StatusCreated || bytes.Contains(answer, []byte(`"error"`))) {
		err = fmt.Errorf("%s %s: %s: %.200s", method, path, reply.Status, answer)
	}
	return err
}

// BenchmarkDocuments measures the documents a second that clients write over HTTP, here and, in the same run,
// to a store on this machine's disk.
func BenchmarkDocuments(b *testing.B) {
	for _, c := range []struct{ clients, bulk int }{{1, 1}, {4, 1}, {1, 100}, {4, 100}, {1, 500}} {
		b.Run(fmt.Sprintf("clients=%d/bulk=%d", c.clients, c.bulk), func(b *testing.B) {
			n := max(b.N, 4*c.clients*c.bulk)
			db, prefix := fdbtest.OpenDistant(b, roundTrip)
			disk, err := embedded.Open(b.TempDir(), embedded.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = disk.Close() }()
			here := post(b, db, prefix, c.clients, c.bulk, n)
			there := post(b, disk, []byte("bench/"), c.clients, c.bulk, n)
			b.ReportMetric(here, "docs/s")
			b.ReportMetric(here/there, "of-embedded")
		})
	}
}

// BenchmarkJob is the life of a replication that runs once: its document is written, a node takes the job,
// stores its progress and its end, and the document is deleted.
func BenchmarkJob(b *testing.B) {
	db, prefix := fdbtest.OpenDistant(b, roundTrip)
	counted := &counter{Database: db}
	s := newRelay(b, counted, prefix)
	counted.reset()
	l := &lives{B: b, db: counted, s: s}
	for b.Loop() {
		l.one()
	}
	counted.report(b, b.N)
}

type lives struct {
	*testing.B
	db    kv.Database
	s     *jobstore.Store
	batch uint64
}

// one is the life of a job.
func (l *lives) one() {
	l.batch++
	id := fmt.Sprint("doc", l.batch)
	body := fmt.Sprintf(`{"source":"http://h/s%d","target":"http://h/t"}`, l.batch)
	l.write(docs.Document{ID: id, Body: []byte(body)})
	accept := node.Accept{Worker: "w", Node: "n", Demand: jobs.Demand{Batch: l.batch, Max: 1}}
	work := l.ask(accept).(node.Accepted).Work[0]
	held := node.Held{JobID: work.JobID, Lock: work.Lock}
	if !work.Claimed {
		l.ask(node.Claim{Held: held, RepID: work.Record.RepID, BaseID: work.Record.BaseID})
	}
	l.ask(node.Record{Held: held})
	l.ask(node.Complete{Held: held, End: replication.End{Cause: replication.Completed}})
	doc := run(l, func(tx kv.Tx) (*docs.Document, error) {
		at, err := l.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return nil, err
		}
		return at.Read(id, docs.Want{})
	})
	l.write(docs.Document{ID: id, Rev: doc.Rev, Deleted: true, Body: []byte("{}")})
}

func run[T any](l *lives, f func(tx kv.Tx) (T, error)) T {
	v, err := kv.Run(l.Context(), l.db, f)
	if err != nil {
		l.Fatal(err)
	}
	return v
}

func (l *lives) ask(q node.Request) node.Result {
	return run(l, func(tx kv.Tx) (node.Result, error) { return node.Perform(tx, l.s, q, instant.Of(time.Now())) })
}

func (l *lives) write(d docs.Document) {
	run(l, func(tx kv.Tx) ([]docs.Written, error) {
		at, err := l.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return nil, err
		}
		admin, now := jobstore.Writer{Admin: true}, instant.Of(time.Now())
		written, err := l.s.WriteDocs(tx, at, []docs.Edit{{Document: d}}, admin, now)
		if err == nil && written[0].Err != nil {
			err = written[0].Err
		}
		return written, err
	})
}
