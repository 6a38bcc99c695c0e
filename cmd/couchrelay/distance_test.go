package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// BenchmarkDistance replicates documents of 1 kB to and from servers that are far away, and reports the rate as a ratio
// to that between near ones in the same run. With COUCHDB_URL the servers are that CouchDB, and its own replicator does
// the same for comparison.
func BenchmarkDistance(b *testing.B) {
	count := 100_000
	source, target := os.Getenv("COUCHDB_URL"), ""
	if source == "" {
		source, target = benchSandbox(b).url, benchSandbox(b).url
	} else {
		source, count = strings.TrimSuffix(source, "/")+"/", 40_000
		target = source
	}
	must(b, request("PUT", source+"distance", nil, nil))
	b.Cleanup(func() { must(b, request("DELETE", source+"distance", nil, nil)) })
	for from := 0; from < count; from += 10_000 {
		documents := make([]object, 10_000)
		for n := range documents {
			documents[n] = object{"_id": fmt.Sprintf("doc-%06d", from+n), "_rev": fmt.Sprintf("1-%032x", n),
				"text": strings.Repeat("x", 960)}
		}
		must(b, writeAll(source+"distance", documents, false))
	}
	near := 0.0
	for _, line := range []struct{ source, target time.Duration }{
		{0, 0}, {0, 80 * time.Millisecond}, {80 * time.Millisecond, 0}, {0, 250 * time.Millisecond},
		{250 * time.Millisecond, 250 * time.Millisecond},
	} {
		b.Run(fmt.Sprintf("source=%s,target=%s", line.source, line.target), func(b *testing.B) {
			from, to := far(b, source, line.source), far(b, target, line.target)
			rate := func(replicate func(source, target string, count int64)) float64 {
				must(b, request("PUT", target+"copy", nil, nil))
				took := timed(func() { replicate(from+"distance", to+"copy", int64(count)) })
				must(b, request("DELETE", target+"copy", nil, nil))
				return float64(count) / took.Seconds()
			}
			engine, couch := 0.0, 0.0
			for b.Loop() {
				engine += rate(func(source, target string, count int64) { replicateOnce(b, source, target, count) })
				if os.Getenv("COUCHDB_URL") != "" {
					couch += rate(func(from, to string, _ int64) {
						body := object{"source": from, "target": to}
						must(b, request("POST", source+"_replicate", body, nil))
					})
				}
			}
			if line.source+line.target == 0 {
				near = engine / float64(b.N)
			}
			b.ReportMetric(engine/float64(b.N), "docs/s")
			b.ReportMetric(engine/float64(b.N)/near, "ratio")
			if couch > 0 {
				b.ReportMetric(couch/float64(b.N), "couchdb-docs/s")
				b.ReportMetric(engine/couch, "times-couchdb")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// far returns the URL of a proxy in front of a server, with a round trip time. Each way takes half of it, however many
// bytes are on it.
func far(b *testing.B, server string, trip time.Duration) string {
	if trip == 0 {
		return server
	}
	through, err := url.Parse(server)
	must(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.Cleanup(func() { _ = l.Close() })
	host := through.Host
	through.Host = l.Addr().String()
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				time.Sleep(trip) // to open the connection
				server, err := net.Dial("tcp", host)
				if err != nil {
					_ = near.Close()
					return
				}
				go late(server, near, trip/2)
				late(near, server, trip/2)
			}()
		}
	}()
	return through.String()
}

// late copies bytes, each of them so much later.
func late(to, from net.Conn, by time.Duration) {
	type piece struct {
		due   time.Time
		bytes []byte
	}
	line := make(chan piece, 1<<16)
	go func() {
		defer to.Close()
		defer from.Close()
		for p := range line {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				return
			}
		}
	}()
	defer close(line)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		line <- piece{time.Now().Add(by), b[:n]}
	}
}
