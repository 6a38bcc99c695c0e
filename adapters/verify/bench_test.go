package verify

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"couchrelay/core/peer"
)

var documents = flag.Int("documents", 1_000_000, "documents of each database in BenchmarkVerify")

// feeds answers for two databases of so many documents, of which the target lacks one.
func feeds(n int) http.Handler {
	const missing = 1000
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasSuffix(q.URL.Path, "/_changes") && q.URL.Query().Get("filter") == "":
			out := bufio.NewWriterSize(w, 1<<16)
			fmt.Fprint(out, `{"results":[`)
			for i := range n {
				if strings.HasPrefix(q.URL.Path, "/b") && i == missing {
					continue
				}
				comma := ","
				if i == 0 {
					comma = ""
				}
				fmt.Fprintf(out, `%s{"seq":"%d-g1AAAACTeJzLYWBgYMpgTmHgz8tPSTV0MDQy1zMAQsMckEQiQ1L9____szKYExkzgAA",`+
					`"id":"document-%012d","changes":[{"rev":"1-967a00dff5e02add41819138abb3284d"}]}`+"\n", comma, i, i)
			}
			fmt.Fprintf(out, `],"last_seq":"%d","pending":0}`, n)
			_ = out.Flush()
		case strings.HasSuffix(q.URL.Path, "/_changes"):
			fmt.Fprintf(w, `{"results":[],"last_seq":"%d","pending":0}`, n)
		case strings.HasSuffix(q.URL.Path, "/_revs_diff"):
			body, _ := io.ReadAll(q.Body)
			if id := fmt.Sprintf("document-%012d", missing); strings.Contains(string(body), id) {
				fmt.Fprintf(w, `{"%s":{"missing":["1-967a00dff5e02add41819138abb3284d"]}}`, id)
			} else {
				fmt.Fprint(w, `{}`)
			}
		default:
			fmt.Fprintf(w, `{"db_name":"a","update_seq":"%d","instance_start_time":"0"}`, n)
		}
	})
}

// BenchmarkVerify measures comparisons of two databases against reading both feeds as often and doing nothing, which is
// twice if there is a difference. Most of the time is the test server's own.
func BenchmarkVerify(b *testing.B) {
	r, end := newRig(b)
	defer end()
	rate := func(b *testing.B, server http.Handler, run func(*Comparison)) float64 {
		r.behind(server)
		begun := time.Now()
		for b.Loop() {
			c := r.comparison()
			run(c)
			c.Client.Close()
		}
		b.ReportMetric(0, "ns/op")
		return float64(b.N) / time.Since(begun).Seconds()
	}
	var plain float64
	b.Run("read", func(b *testing.B) {
		plain = rate(b, feeds(*documents), func(c *Comparison) { readTwice(b, c) })
		b.ReportMetric(2*float64(*documents)*2*plain, "rows/s")
	})
	b.Run("verify", func(b *testing.B) {
		stop, most := make(chan struct{}), make(chan uint64)
		go watchHeap(stop, most)
		verified := rate(b, feeds(*documents), func(c *Comparison) {
			if got := r.run(c); len(got) != 1 {
				b.Errorf("found %d differences, and there is one", len(got))
			}
		})
		close(stop)
		b.ReportMetric(plain/verified, "times-the-reading")
		b.ReportMetric(float64(<-most)/(1<<20), "MiB-heap")
	})
}

// readTwice reads both feeds, twice.
func readTwice(b *testing.B, c *Comparison) {
	for range 2 {
		var both sync.WaitGroup
		for _, flip := range []bool{false, true} {
			rep := c.Replication
			if flip {
				rep.Source, rep.Target = rep.Target, rep.Source
			}
			pair, err := c.Client.Pair(rep)
			if err != nil {
				b.Fatal(err)
			}
			both.Go(func() {
				defer pair.Close()
				w := &way{Comparison: c}
				nothing := func([]peer.Change) error { return nil }
				if err := w.rows(context.Background(), pair, peer.Zero, nothing); err != nil {
					b.Error(err)
				}
			})
		}
		both.Wait()
	}
}

// watchHeap sends the most memory that was in use, the test server's included.
func watchHeap(stop <-chan struct{}, most chan<- uint64) {
	var max_ uint64
	for {
		select {
		case <-stop:
			most <- max_
			return
		case <-time.After(20 * time.Millisecond):
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			max_ = max(max_, m.HeapInuse)
		}
	}
}
