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

// scrapeOf returns a node's metrics with a number of jobs in an embedded store, and all that the node serves.
func scrapeOf(b *testing.B, count int) (scrapes, all http.Handler) {
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
	return NewScrapes(o), New(o)
}

// picture is what the dashboard asks for until it has drawn its overview and a page of jobs.
var picture = []string{"/_dashboard/", "/_session", "/_scheduler/nodes", "/_scheduler/errors?limit=200",
	"/_node/_local/_stats", "/_scheduler/jobs?limit=50", "/_scheduler/accounts?limit=50",
	"/_scheduler/servers?limit=50"}

// timed is how long requests take, one after the other.
func timed(b *testing.B, h http.Handler, paths ...string) time.Duration {
	start := time.Now()
	for _, path := range paths {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		if w.Code != http.StatusOK {
			b.Fatal(path, w.Code, w.Body)
		}
	}
	return time.Since(start)
}

// BenchmarkScrape reads the metrics of a node, and what the dashboard's first pictures need, and reports the medians in
// milliseconds with many jobs (-jobs), and how many times as long they are as with 1,000.
func BenchmarkScrape(b *testing.B) {
	var scrapes, all [2]http.Handler
	scrapes[0], all[0] = scrapeOf(b, 1000)
	scrapes[1], all[1] = scrapeOf(b, *scrapedJobs)
	var scrape, first [2][]time.Duration
	for b.Loop() {
		for i := range scrapes {
			scrape[i] = append(scrape[i], timed(b, scrapes[i], "/_node/_local/_prometheus"))
			first[i] = append(first[i], timed(b, all[i], picture...))
		}
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return list[len(list)/2].Seconds() * 1000
	}
	b.ReportMetric(median(scrape[1]), "ms/scrape")
	b.ReportMetric(median(scrape[1])/median(scrape[0]), "times")
	b.ReportMetric(median(first[1]), "ms/picture")
	b.ReportMetric(median(first[1])/median(first[0]), "picture-times")
	b.ReportMetric(0, "ns/op")
}
