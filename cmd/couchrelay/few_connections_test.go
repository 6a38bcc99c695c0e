package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// TestFewConnections replicates to a target that closes every connection but one, and from a source that allows two,
// since the changes feed holds one: with connections as many as they allow, and with those of the default. Requests
// wait for each other's connections, so on a busy machine a run could give up: no other test runs beside it, and a
// request may be repeated twice as often as by default.
func TestFewConnections(t *testing.T) {
	const count = 3000
	var docs []object
	for n := range count {
		docs = append(docs, object{"_id": fmt.Sprintf("doc-%06d", n), "text": strings.Repeat("x", 300)})
	}
	for _, connections := range []int{1, 20} {
		s := benchSandbox(t)
		must(t, request("PUT", s.url+"source", nil, nil))
		must(t, request("PUT", s.url+"target", nil, nil))
		must(t, writeAll(s.url+"source", docs, true))
		replicateOnce(t, object{"source": allowing(t, s.url, 2) + "source", "target": allowing(t, s.url, 1) + "target",
			"http_connections": connections, "retries_per_request": 10}, 0, count)
	}
}

// allowing returns the URL of a proxy that closes new connections while it has as many as it allows.
func allowing(t *testing.T, server string, most int64) string {
	through, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	host := through.Host
	through.Host = l.Addr().String()
	var open atomic.Int64
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			if open.Add(1) > most {
				open.Add(-1)
				_ = near.Close()
				continue
			}
			go func() {
				defer open.Add(-1)
				defer near.Close()
				far, err := net.Dial("tcp", host)
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(far, near)
					_ = far.Close()
				}()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
	return through.String()
}
