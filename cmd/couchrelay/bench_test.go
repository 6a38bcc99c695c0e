package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/loop"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// BenchmarkReplication replicates documents of 1 kB between two servers in this process. It also writes the
// same documents into the same kind of target with plain _bulk_docs, and reports the ratio of the two rates,
// which does not depend on the machine as they do.
func BenchmarkReplication(b *testing.B) {
	const count = 20_000
	source, target := benchSandbox(b), benchSandbox(b)
	documents := make([]object, count)
	for n := range documents {
		documents[n] = object{"_id": fmt.Sprintf("doc-%06d", n), "_rev": fmt.Sprintf("1-%032x", n),
			"text": strings.Repeat("x", 960)}
	}
	must(b, request("PUT", source.url+"db", nil, nil))
	must(b, writeAll(source.url+"db", documents, false))
	var engine, plain time.Duration
	for n := 0; b.Loop(); n++ {
		copied, pushed := fmt.Sprintf("%scopy%d", target.url, n), fmt.Sprintf("%spushed%d", target.url, n)
		must(b, request("PUT", copied, nil, nil))
		must(b, request("PUT", pushed, nil, nil))
		engine += timed(func() { replicateOnce(b, object{"source": source.url + "db", "target": copied}, 0, count) })
		plain += timed(func() { must(b, writeAll(pushed, documents, false)) })
		must(b, request("DELETE", copied, nil, nil))
		must(b, request("DELETE", pushed, nil, nil))
	}
	total := float64(count * b.N)
	b.ReportMetric(total/engine.Seconds(), "docs/s")
	b.ReportMetric(total/plain.Seconds(), "plain-docs/s")
	b.ReportMetric(plain.Seconds()/engine.Seconds(), "ratio")
	b.ReportMetric(0, "ns/op")
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func benchSandbox(b testing.TB) *sandbox {
	s, err := openSandbox(0, nil, slog.New(slog.DiscardHandler))
	must(b, err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// replicateOnce runs the replication that a request to _replicate would, with so many bytes of memory (0 for the
// default). It must write so many documents.
func replicateOnce(b testing.TB, request object, memory int, count int64) {
	body, err := json.Marshal(request)
	must(b, err)
	rep, err := spec.ParseRequest(body, spec.DefaultConfig())
	must(b, err)
	wall := clock.New()
	client := couch.New(couch.Options{Version: version, Clock: wall})
	defer client.Close()
	pair, err := client.Pair(*rep)
	must(b, err)
	plan := replication.NewPlan(rep,
		replication.Terms{Server: repid.Server{UUID: terminalUUID}, Seed: randomSeed(),
			ProgressInterval: time.Second, Memory: memory})
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	end := loop.Replicate(ctx, nil, wall, plan, pair, func(replication.Info) {}, &loop.Refused{})
	if end.Cause != replication.Completed || end.Info.Written != count {
		b.Fatalf("%s, %d written", end, end.Info.Written)
	}
}
