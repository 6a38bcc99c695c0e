package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/loop"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// TestFewConnections replicates to a target that closes every connection but one, and from a source that allows two,
// since the changes feed holds one: with connections as many as they allow, and with those of the default.
func TestFewConnections(t *testing.T) {
	for _, member := range []string{`,"http_connections":1`, ``} {
		s, err := openSandbox(0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		const count = 3000
		var docs []object
		for n := range count {
			docs = append(docs, object{"_id": fmt.Sprintf("doc-%06d", n), "text": strings.Repeat("x", 300)})
		}
		for _, err := range []error{
			request("PUT", s.url+"source", nil, nil), request("PUT", s.url+"target", nil, nil),
			writeAll(s.url+"source", docs, true),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		from, to := allowing(t, s.url, 2)+"source", allowing(t, s.url, 1)+"target"
		body := fmt.Sprintf(`{"source":%q,"target":%q%s}`, from, to, member)
		rep, err := spec.ParseRequest([]byte(body), spec.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		wall := clock.New()
		client := couch.New(couch.Options{Version: version, Clock: wall})
		pair, err := client.Pair(*rep)
		if err != nil {
			t.Fatal(err)
		}
		plan := replication.NewPlan(rep, replication.Terms{Server: repid.Server{UUID: terminalUUID},
			Seed: randomSeed(), ProgressInterval: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		began := time.Now()
		end := loop.Replicate(ctx, nil, wall, plan, pair, func(replication.Info) {}, &loop.Refused{})
		cancel()
		client.Close()
		if end.Cause != replication.Completed || end.Info.Written != count {
			t.Errorf("%q: %s after %s, %d written", member, end, time.Since(began), end.Info.Written)
		}
		t.Logf("%q: %s", member, time.Since(began))
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
