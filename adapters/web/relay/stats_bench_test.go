package relay

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"

	"github.com/benbjohnson/clock"
)

var scrapedJobs = flag.Int("jobs", 20_000, "how many jobs BenchmarkScrape has, beside the 1,000 that it compares with")

// scrapeOf returns a node's metrics with a number of jobs in an embedded store.
func scrapeOf(b *testing.B, count int) http.Handler {
	db, err := embedded.Open(b.TempDir(), embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	server := repid.Server{UUID: "u", HostName: "h", Port: 1}
	o := Options{DB: db, Store: jobstore.New(tuple.Subspace("r"), jobstore.DefaultConfig(server)), Clock: clock.New(),
		Host: testHost{}}
	write := func(f func(tx kv.Tx) error) {
		if err := kv.Do(context.Background(), db, f); err != nil {
			b.Fatal(err)
		}
	}
	write(func(tx kv.Tx) error { return o.Store.Docs.Create(tx, "_replicator", tuple.UUID{1}, 0) })
	for made := 0; made < count; {
		edits := make([]docs.Edit, min(200, count-made))
		for i := range edits {
			id := made + i
			body := fmt.Appendf(nil, `{"_id":"doc%09d","source":"http://s/%d","target":"http://t/b"}`, id, id)
			doc, err := docs.ParseDocument(body, docs.ReplicationMembers...)
			if err != nil {
				b.Fatal(err)
			}
			edits[i] = docs.Edit{Document: *doc, Token: uint64(id + 1)}
		}
		written := 0
		write(func(tx kv.Tx) error {
			database, err := o.Store.Docs.Open(tx, "_replicator")
			if err != nil {
				return err
			}
			list, err := o.Store.WriteDocs(tx, database, edits, jobstore.Writer{Admin: true}, instant.Seconds(1))
			written = len(list)
			return err
		})
		made += written
	}
	return NewScrapes(o)
}

// BenchmarkScrape reads the metrics of a node, and reports the median in milliseconds with many jobs (-jobs), and how
// many times as long that is as with 1,000.
func BenchmarkScrape(b *testing.B) {
	handlers := []http.Handler{scrapeOf(b, 1000), scrapeOf(b, *scrapedJobs)}
	var took [2][]time.Duration
	for b.Loop() {
		for i, h := range handlers {
			w, start := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/_node/_local/_prometheus", nil))
			took[i] = append(took[i], time.Since(start))
			if w.Code != http.StatusOK {
				b.Fatal(w.Code, w.Body)
			}
		}
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return list[len(list)/2].Seconds() * 1000
	}
	b.ReportMetric(median(took[1]), "ms/scrape")
	b.ReportMetric(median(took[1])/median(took[0]), "times")
	b.ReportMetric(0, "ns/op")
}
