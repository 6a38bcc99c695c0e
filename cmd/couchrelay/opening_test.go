package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/embedded"
)

// newOpeningRig is a rig whose embedded store is opened once open is closed, unless that fails. ended gets the result
// of serve.
func newOpeningRig(t *testing.T, open <-chan struct{}, fails error) (r *rig, ended chan error) {
	r = &rig{t: t, log: &syncBuffer{}}
	r.source, r.target = r.sandbox(), r.sandbox()
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	dir := t.TempDir()
	db, err := openWithin(time.Millisecond, func() (store, error) {
		if <-open; fails != nil {
			return nil, fails
		}
		return embedded.Open(dir, embedded.Options{Logger: logger})
	})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Secrets.KeyFile, c.Node.StartupJitter = newKeyFile(t), 0
	svc, err := assemble(db, c, "test", nil, logger)
	if err != nil {
		t.Fatal(err)
	}
	listener, url := r.listen("http")
	r.url = url
	ctx, signal := context.WithCancel(context.Background())
	r.stop, ended = signal, make(chan error, 1)
	go func() {
		err := serve(ctx, signal, svc, doors{plain: listener}, logger, nil)
		ended <- errors.Join(err, db.Close())
	}()
	t.Cleanup(signal)
	return r, ended
}

// TestServeWhileStoreOpens: a service whose store takes long to be opened answers soon that it is, and works when
// that is over.
func TestServeWhileStoreOpens(t *testing.T) {
	open := make(chan struct{})
	r, ended := newOpeningRig(t, open, nil)
	r.fill(3)
	for _, request := range []string{"GET _up", "PUT _replicator/r", "GET _scheduler/jobs", "POST _replicate",
		"GET _replicator/r", "GET _session", "GET _node/_local/_check", "POST _node/_local/_backup",
		"PUT _users/org.couchdb.user:joe"} {
		method, path, _ := strings.Cut(request, " ")
		if path == "_session" {
			r.want(200, method, path, "")
			continue
		}
		body := r.body("")
		if strings.HasPrefix(path, "_node") {
			body = "{}"
		}
		refused := r.want(503, method, path, body)
		if reason, _ := refused["reason"].(string); !strings.Contains(reason, "the store is being opened") {
			t.Errorf("%s: %v", request, refused)
		}
	}
	if status, _ := r.call("GET", "_node/_local/_prometheus", ""); status != 200 {
		t.Errorf("metrics: %d", status)
	}
	close(open)
	r.await("the start", func() bool { status, _ := r.call("GET", "_up", ""); return status == 200 })
	r.want(201, "PUT", "_replicator/r", r.body(""))
	r.await("completion", func() bool { return r.docState("r") == "completed" })
	if status, _ := r.call("POST", "_node/_local/_backup", "{}"); status != 200 {
		t.Errorf("backup: %d", status)
	}
	r.stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStoreThatCannotBeOpened: a service ends with the error of a store that took long to fail.
func TestStoreThatCannotBeOpened(t *testing.T) {
	open := make(chan struct{})
	r, ended := newOpeningRig(t, open, embedded.ErrNewer)
	r.want(503, "GET", "_up", "")
	close(open)
	if err := <-ended; !errors.Is(err, embedded.ErrNewer) {
		t.Error(err)
	}
}

// TestStopWhileStoreOpens: a signal ends a service whose store is being opened, without a wait for that.
func TestStopWhileStoreOpens(t *testing.T) {
	r, ended := newOpeningRig(t, make(chan struct{}), nil)
	r.want(503, "GET", "_up", "")
	r.stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("goes on")
	}
}
