package embedded

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
)

var listedJobs = flag.Int("jobs", 20_000, "how many jobs BenchmarkLists has, beside the 1,000 that it compares with")

// manyJobs is a store with jobs of documents, written in bulks of 200.
type manyJobs struct {
	b     *testing.B
	db    *Database
	dir   string
	store *jobstore.Store
	made  int
}

// newManyJobs is without jobs. Unless it is indexed, jobs are written as if the index of an older store were still to
// be built.
func newManyJobs(b *testing.B, isIndexed bool) *manyJobs {
	m := &manyJobs{b: b, dir: b.TempDir()}
	m.db = mustOpen(b, m.dir, Options{})
	m.store = jobstore.New(tuple.Subspace("r"), jobstore.DefaultConfig(repid.Server{UUID: "u", HostName: "h", Port: 1}))
	do(b, m.db, func(tx kv.Tx) {
		if err := m.store.Docs.Create(tx, "_replicator", tuple.UUID{1}, 0); err != nil {
			b.Fatal(err)
		}
		if err := m.store.Jobs.Register(tx, "w", nil); err != nil {
			b.Fatal(err)
		}
		if !isIndexed {
			tx.Set(m.store.Keys.Reindex, []byte{})
		}
	})
	return m
}

const bulk = 200

// add writes n documents: of 8 servers and 5 users, a few that failed and some that are completed. Each list that is
// measured has a whole page of 1,000 jobs.
func (m *manyJobs) add(n int) {
	for end := m.made + n; m.made < end; {
		edits := make([]docs.Edit, min(bulk, end-m.made))
		for i := range edits {
			n := m.made + i
			state := ""
			switch {
			case n%20 == 7:
				state = `,"_replication_state":"failed","_replication_state_reason":"no luck"`
			case n%3 == 1:
				state = `,"_replication_state":"completed"`
			}
			body := fmt.Appendf(nil, `{"_id":"doc%09d","source":"http://s%d:5984/a%d","target":"http://t%d:5984/b",`+
				`"user_ctx":{"name":"u%d","roles":[]},"continuous":true%s}`, n, n%4, n, n%4, n%5, state)
			doc, err := docs.ParseDocument(body, docs.ReplicationMembers...)
			if err != nil {
				m.b.Fatal(err)
			}
			edits[i] = docs.Edit{Document: *doc, Token: uint64(n + 1)}
		}
		for len(edits) > 0 {
			written, err := kv.Run(bg, m.db, func(tx kv.Tx) ([]docs.Written, error) {
				db, err := m.store.Docs.Open(tx, "_replicator")
				if err != nil {
					return nil, err
				}
				return m.store.WriteDocs(tx, db, edits, jobstore.Writer{Admin: true}, instant.Seconds(1_700_000_000))
			})
			if err != nil {
				m.b.Fatal(err)
			}
			m.made, edits = m.made+len(written), edits[len(written):]
		}
	}
}

// accept has the worker run some jobs.
func (m *manyJobs) accept() {
	do(m.b, m.db, func(tx kv.Tx) {
		if _, err := m.store.Accept(tx, "w", "n", jobs.Demand{Batch: 1, Max: 100}, 1); err != nil {
			m.b.Fatal(err)
		}
	})
}

// page reads the first 25 jobs of a filter, and its total.
func (m *manyJobs) page(f jobstore.Filter, descending bool) {
	_, err := kv.Run(bg, m.db, func(tx kv.Tx) (int, error) {
		r := jobstore.Lists{Store: m.store, Reader: tx.Snapshot()}
		if _, _, err := r.Total(f); err != nil {
			return 0, err
		}
		page, err := r.Page(jobstore.Listing{Filter: f, Limit: 25, Descending: descending})
		return len(page.Jobs), err
	})
	if err != nil {
		m.b.Fatal(err)
	}
}

// BenchmarkLists reads pages of 25 of each list, and reports how many times as long that takes with many jobs as with
// 1,000 (medians). -jobs 1000000 takes two minutes to fill.
func BenchmarkLists(b *testing.B) {
	few, many := newManyJobs(b, true), newManyJobs(b, true)
	defer mustClose(b, few.db)
	defer mustClose(b, many.db)
	few.add(1000)
	many.add(*listedJobs)
	few.accept()
	many.accept()
	instance := jobstore.DocumentJobs(tuple.UUID{1})
	for name, f := range map[string]jobstore.Filter{
		"jobs": {}, "docs": {Documents: true}, "database": {Documents: true, Instance: instance},
		"state":  {Documents: true, States: []jobstore.State{jobstore.Failed}},
		"server": {Server: "s3:5984"}, "user": {User: "u3"}, "error": {Documents: true, Error: "failed"},
		"node": {Workers: []string{"w"}}, "running": {States: []jobstore.State{jobstore.Running}},
		"server and state": {Documents: true, Server: "s3:5984", States: []jobstore.State{jobstore.Completed}},
		"user and server":  {Server: "s3:5984", User: "u3"},
	} {
		b.Run(name, func(b *testing.B) {
			var took [2][]time.Duration
			for n := 0; b.Loop(); n++ {
				for i, m := range []*manyJobs{few, many} {
					start := time.Now()
					m.page(f, n%2 == 1)
					took[i] = append(took[i], time.Since(start))
				}
			}
			for _, times := range took {
				slices.Sort(times)
			}
			median := b.N / 2
			b.ReportMetric(float64(took[1][median])/float64(took[0][median]), "of-1000")
			b.ReportMetric(float64(took[1][median].Microseconds()), "us/page")
		})
	}
}

// BenchmarkAdds writes documents in bulks of 200, and reports the rate as a part of that without indexes.
func BenchmarkAdds(b *testing.B) {
	var all [2]time.Duration
	for b.Loop() {
		for i, isIndexed := range []bool{false, true} {
			m := newManyJobs(b, isIndexed)
			start := time.Now()
			m.add(20 * bulk)
			all[i] += time.Since(start)
			mustClose(b, m.db)
			if err := os.RemoveAll(m.dir); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*20*bulk/all[1].Seconds(), "docs/s")
	b.ReportMetric(float64(all[0])/float64(all[1]), "of-unindexed")
}
