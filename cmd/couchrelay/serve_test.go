package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/embedded"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestStopLimitFollowsTheSetting: the runs always have stop_timeout_sec to stop.
func TestStopLimitFollowsTheSetting(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Node.StopTimeout = time.Minute
	r.start(c)
	r.stop()
	for _, limit := range []string{"limit=15s", "limit=1m10s"} {
		if !strings.Contains(r.log.String(), "msg=stopping "+limit) {
			t.Errorf("no %s in the log: %s", limit, r.log)
		}
	}
	c.Node.StopTimeout = math.MaxInt64
	db := r.open()
	defer db.Close()
	if limit := (&service{db: sealedStore{store: db}, config: c}).stopLimit(); limit != math.MaxInt64 {
		t.Errorf("without end: %s", limit)
	}
}

// failingStore is a store in memory whose disk fails from a moment on.
func failingStore(t *testing.T) (db store, fail func()) {
	t.Helper()
	disk := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return errors.New("the disk is broken")
		}
		return nil
	})}
	db, err := embedded.Open("store", embedded.Options{FS: errorfs.Wrap(vfs.NewMem(), disk)})
	if err != nil {
		t.Fatal(err)
	}
	return db, disk.On
}

// TestStoreEnds: a service whose store has failed stops its runs with a checkpoint each, logs why, and ends
// with an error, also if a signal came before it noticed the failure. Until then /_up answers 503.
func TestStoreEnds(t *testing.T) {
	t.Parallel()
	for _, signalled := range []bool{false, true} {
		r := &rig{t: t, log: &syncBuffer{}}
		r.source, r.target = r.sandbox(), r.sandbox()
		r.fill(5)
		db, fail := failingStore(t)
		c := config.Default()
		c.Node.StartupJitter, c.Node.StopTimeout = 0, 2*time.Second
		logger := slog.New(slog.NewTextHandler(r.log, nil))
		svc, err := newService(t.Context(), db, c, "test", nil, logger)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r.url = "http://" + listener.Addr().String() + "/"
		ctx, signal := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, signal, svc, doors{plain: listener}, logger, nil) }()
		r.want(201, "PUT", "_replicator/r", r.body(`,"continuous":true`))
		r.await("the run", func() bool { return request("GET", r.target.url+"copy/doc4", nil, nil) == nil })
		id, _ := r.want(200, "GET", "_scheduler/docs/_replicator/r", "")["id"].(string)
		base, _, _ := strings.Cut(id, "+")
		fail()
		r.await("the failure", func() bool {
			r.call("PUT", "_replicator/other",
				`{"source":"http://127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`)
			return db.Err() != nil
		})
		if up := r.want(503, "GET", "_up", ""); !strings.Contains(up["reason"].(string),
			"the disk is broken") {
			t.Errorf("_up %v", up)
		}
		if refused := r.want(503, "PUT", "_replicator/more", `{"source":"http://127.0.0.1:1/a",`+
			`"target":"http://127.0.0.1:1/b"}`); !strings.Contains(refused["reason"].(string), "the disk is broken") {
			t.Errorf("a write is answered %v", refused)
		}
		if signalled {
			signal()
		}
		select {
		case err := <-ended:
			if !errors.Is(err, embedded.ErrFailed) {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("goes on: %s", r.log)
		}
		if !signalled && !strings.Contains(r.log.String(), "level=ERROR msg=store_ended") {
			t.Errorf("log %s", r.log)
		}
		_ = db.Close()
		if err := request("GET", r.target.url+"copy/_local/"+base, nil, nil); err != nil {
			t.Errorf("no checkpoint: %v", err)
		}
	}
}
