package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

// BenchmarkAttached replicates documents with an attachment each, of 50 kB that do not compress, between two
// servers in this process, which are beside the replicator or farther away.
func BenchmarkAttached(b *testing.B) {
	const count, size = 1000, 50_000
	source, target := benchSandbox(b), benchSandbox(b)
	must(b, request("PUT", source.url+"db", nil, nil))
	for first := 0; first < count; first += 50 {
		documents := make([]object, 50)
		for n := range documents {
			data := bytes.Repeat(fmt.Appendf(nil, "%06d", first+n), size/6)
			documents[n] = object{"_id": fmt.Sprintf("doc-%06d", first+n), "_rev": fmt.Sprintf("1-%032x", first+n),
				"_attachments": object{"a": object{"content_type": "application/x-bytes", "data": data}}}
		}
		must(b, writeAll(source.url+"db", documents, false))
	}
	for _, latency := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond} {
		b.Run(fmt.Sprint("latency=", latency), func(b *testing.B) {
			from, to := distant(b, source.url, latency), distant(b, target.url, latency)
			var engine time.Duration
			for n := 0; b.Loop(); n++ {
				copied := fmt.Sprintf("copy%d", n)
				must(b, request("PUT", target.url+copied, nil, nil))
				engine += timed(func() { replicateOnce(b, from+"db", to+copied, count) })
				must(b, request("DELETE", target.url+copied, nil, nil))
			}
			b.ReportMetric(float64(count*b.N)/engine.Seconds(), "docs/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// distant returns the URL of a server that is that much farther away.
func distant(b *testing.B, server string, latency time.Duration) string {
	at, err := url.Parse(server)
	must(b, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		proxy.ServeHTTP(w, r)
	}))
	b.Cleanup(s.Close)
	return s.URL + "/"
}
