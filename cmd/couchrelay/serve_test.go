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

// ending is a service with a job that runs, and which is about to end.
type ending struct {
	*rig
	listener    net.Listener
	signal      func()
	ended       chan error
	checkpoints string // the URL of the job's log on the target
}

func newEnding(t *testing.T, db store) *ending {
	t.Helper()
	r := &rig{t: t, log: &syncBuffer{}}
	r.source, r.target = r.sandbox(), r.sandbox()
	r.fill(5)
	c := config.Default()
	c.Node.StartupJitter, c.Node.StopTimeout = 0, 10*time.Second
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	svc, err := newService(t.Context(), db, c, "test", nil, logger)
	if err != nil {
		t.Fatal(err)
	}
	listener, url := r.listen("http")
	r.url = url
	ctx, signal := context.WithCancel(t.Context())
	e := &ending{rig: r, listener: listener, signal: signal, ended: make(chan error, 1)}
	go func() { e.ended <- serve(ctx, signal, svc, doors{plain: listener}, logger, nil) }()
	r.want(201, "PUT", "_replicator/r", r.body(`,"continuous":true`))
	r.await("the run", func() bool { return request("GET", r.target.url+"copy/doc4", nil, nil) == nil })
	id, _ := r.want(200, "GET", "_scheduler/docs/_replicator/r", "")["id"].(string)
	base, _, _ := strings.Cut(id, "+")
	e.checkpoints = r.target.url + "copy/_local/" + base
	return e
}

// end returns the error with which the service has ended, and looks for the checkpoint of its run.
func (e *ending) end() error {
	e.t.Helper()
	select {
	case err := <-e.ended:
		if err := request("GET", e.checkpoints, nil, nil); err != nil {
			e.t.Errorf("no checkpoint: %v", err)
		}
		return err
	case <-time.After(20 * time.Second):
		e.t.Fatalf("goes on: %s", e.log)
		return nil
	}
}

// TestStoreEnds: a service whose store has failed stops its runs with a checkpoint each, logs why, and ends
// with an error, also if a signal came before it noticed the failure. Until then /_up answers 503.
func TestStoreEnds(t *testing.T) {
	t.Parallel()
	for _, signalled := range []bool{false, true} {
		db, fail := failingStore(t)
		e := newEnding(t, db)
		r := e.rig
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
			e.signal()
		}
		if err := e.end(); !errors.Is(err, embedded.ErrFailed) {
			t.Errorf("ended with %v", err)
		}
		if !signalled && !strings.Contains(r.log.String(), "level=ERROR msg=store_ended") {
			t.Errorf("log %s", r.log)
		}
		_ = db.Close()
	}
}

// TestListenerFails: a service whose listener has failed stops as after a signal, and ends with an error.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	db, _ := failingStore(t)
	e := newEnding(t, db)
	_ = e.listener.Close()
	err := e.end()
	if !errors.Is(err, net.ErrClosed) || !strings.Contains(e.log.String(), "level=ERROR msg=listener_failed") {
		t.Errorf("ended with %v, log %s", err, e.log)
	}
	if err := closed(db, nil); err != nil {
		t.Error(err)
	}
}

// TestStoreFailsAsItCloses: a process whose store cannot write its last to the disk ends with an error.
func TestStoreFailsAsItCloses(t *testing.T) {
	t.Parallel()
	db, fail := failingStore(t)
	fail()
	if err := closed(db, nil); err == nil || !strings.Contains(err.Error(), "the disk is broken") {
		t.Error(err)
	}
	if err := closed(db, net.ErrClosed); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the first error is lost: %v", err)
	}
}
