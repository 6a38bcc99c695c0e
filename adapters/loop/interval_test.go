package loop

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/eventlog"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"
)

// sink is a log in memory.
type sink struct{ bytes.Buffer }

func (*sink) Close() error { return nil }

// TestIntervalOfLaterSettings: a run reports as often as the settings say with which it starts.
func TestIntervalOfLaterSettings(t *testing.T) {
	rep, err := spec.ParseRequest([]byte(`{"source":"http://127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`), spec.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	out, wall := &sink{}, clock.New()
	client := couch.New(couch.Options{Version: "x", Clock: wall})
	defer client.Close()
	l := New(Options{
		Clock: wall, DB: fakefdb.New(), Store: jobstore.New(nil, jobstore.Config{}), Client: client,
		Log:  eventlog.NewWriter(out, "x", 0, slog.New(slog.DiscardHandler)),
		Node: node.Config{Settings: node.DefaultSettings(), Name: "n", Roles: node.AllRoles, Worker: "w"},
	})
	ctx, cancel := context.WithCancel(context.Background())
	l.ctx = ctx
	later := node.DefaultSettings()
	later.ProgressInterval = 77 * time.Second
	intervals := func(run uint64) bool {
		out.Reset()
		l.startRun(node.StartRun{Run: run, Work: jobstore.Work{Replication: rep, Record: &jobstore.Record{}}})
		l.dropRun(run)
		return strings.Contains(out.String(), fmt.Sprintf(`"ProgressInterval":%d`, later.ProgressInterval))
	}
	before := intervals(1)
	l.handle(node.Configure{Settings: later})
	if after := intervals(2); before || !after {
		t.Errorf("the run before the change has its interval: %v; the one after: %v", before, after)
	}
	cancel()
}
