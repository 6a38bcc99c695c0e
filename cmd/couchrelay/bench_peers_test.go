package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// benchPeers are a source and a target to replicate between: two in this process, or the CouchDB of COUCHDB_URL.
type benchPeers struct {
	source, target string // URLs that end in a slash
	couch          bool   // both are the CouchDB
	compression    string // of the target; empty for the default
	memory         int    // bytes of documents that a run may hold; 0 for the default
}

func newBenchPeers(b *testing.B) benchPeers {
	if at := os.Getenv("COUCHDB_URL"); at != "" {
		at = strings.TrimSuffix(at, "/") + "/"
		return benchPeers{source: at, target: at, couch: true}
	}
	return benchPeers{source: benchSandbox(b).url, target: benchSandbox(b).url}
}

// fill makes a database at the source with documents of these fields.
func (p benchPeers) fill(b *testing.B, db string, count int, fields func(n int) object) {
	must(b, request("PUT", p.source+db, nil, nil))
	b.Cleanup(func() { must(b, request("DELETE", p.source+db, nil, nil)) })
	var documents []object
	for n := range count {
		doc := fields(n)
		doc["_id"], doc["_rev"] = fmt.Sprintf("doc-%06d", n), fmt.Sprintf("1-%032x", n)
		if documents = append(documents, doc); len(documents) == 100 || n == count-1 {
			must(b, writeAll(p.source+db, documents, false))
			documents = nil
		}
	}
}

// compare replicates a database over lines with these round trip times, and reports the rate; that of the CouchDB's own
// replicator too, where there is one. It returns the rate.
func (p benchPeers) compare(b *testing.B, db string, count int, source, target line) float64 {
	from, to := far(b, p.source, source), far(b, p.target, target)
	copies := 0
	rate := func(replicate func(from, to string)) float64 {
		copies++ // a CouchDB may take a moment to delete one
		name := fmt.Sprintf("%s-copy-%d", db, copies)
		must(b, request("PUT", p.target+name, nil, nil))
		took := timed(func() { replicate(from+db, to+name) })
		must(b, request("DELETE", p.target+name, nil, nil))
		return float64(count) / took.Seconds()
	}
	engine, couch := 0.0, 0.0
	for b.Loop() {
		engine += rate(func(from, to string) {
			target := object{"url": to, "compression": cmp.Or(p.compression, "auto")}
			replicateOnce(b, object{"source": from, "target": target}, p.memory, int64(count))
		})
		if p.couch {
			couch += rate(func(from, to string) {
				must(b, request("POST", p.source+"_replicate", object{"source": from, "target": to}, nil))
			})
		}
	}
	b.ReportMetric(engine/float64(b.N), "docs/s")
	if p.couch {
		b.ReportMetric(couch/float64(b.N), "couchdb-docs/s")
		b.ReportMetric(engine/couch, "times-couchdb")
	}
	b.ReportMetric(0, "ns/op")
	return engine / float64(b.N)
}

// near is the line between processes of one machine.
var near = line{}

// line is the way to a server.
type line struct {
	trip time.Duration // round trip time, of which each way takes half
	rate int           // bytes a second each way, shared by all connections; 0 is without limit
}

// far returns the URL of a proxy in front of a server, at the other end of a line.
func far(b *testing.B, server string, l line) string {
	if l == (line{}) {
		return server
	}
	through, err := url.Parse(server)
	must(b, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	host := through.Host
	through.Host = listener.Addr().String()
	there, back := &way{line: l}, &way{line: l}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				time.Sleep(l.trip) // to open the connection
				server, err := net.Dial("tcp", host)
				if err != nil {
					_ = near.Close()
					return
				}
				go there.carry(server, near)
				back.carry(near, server)
			}()
		}
	}()
	return through.String()
}

// way is one direction of a line.
type way struct {
	line
	mu   sync.Mutex
	free time.Time // when the bytes of all connections so far have been sent
}

// due returns when so many bytes, sent now, have arrived.
func (w *way) due(bytes int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	if w.rate > 0 {
		w.free = w.free.Add(time.Duration(bytes) * time.Second / time.Duration(w.rate))
	}
	return w.free.Add(w.trip / 2)
}

// carry copies bytes, each of them as late as it arrives. Buffers hold what is on the way of a fast line, and a
// megabyte for each connection of a slow one.
func (w *way) carry(to, from net.Conn) {
	type piece struct {
		due   time.Time
		bytes []byte
	}
	buffer := 1 << 16
	if w.rate > 0 {
		buffer = 1 << 5
	}
	sent := make(chan piece, buffer)
	go func() {
		defer to.Close()
		defer from.Close()
		for p := range sent {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				break
			}
		}
		for range sent { // the reader ends soon, since its connection is closed
		}
	}()
	defer close(sent)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		sent <- piece{w.due(n), b[:n]}
	}
}
