package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/core/kv"
)

// faulty is a store of which one operation, a read or a commit, fails with an error.
type faulty struct {
	store
	countdown int // the operation that fails, counted down to 0
	read      kv.Code
	commit    kv.Code // the commit happens all the same
}

// strikes reports whether the operation is the one that fails.
func (f *faulty) strikes() bool {
	f.countdown--
	return f.countdown == 0
}

type faultyTx struct {
	kv.Transaction
	f *faulty
}

func (f *faulty) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return faultyTx{f.store.Begin(ctx, o), f}
}

func (tx faultyTx) Get(key []byte) ([]byte, error) {
	if tx.f.strikes() {
		return nil, kv.NewError(tx.f.read)
	}
	return tx.Transaction.Get(key)
}

func (tx faultyTx) GetAll(keys [][]byte) ([][]byte, error) {
	if tx.f.strikes() {
		return nil, kv.NewError(tx.f.read)
	}
	return tx.Transaction.GetAll(keys)
}

func (tx faultyTx) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if tx.f.strikes() {
		return nil, kv.NewError(tx.f.read)
	}
	return tx.Transaction.GetRange(r, o)
}

func (tx faultyTx) Commit() error {
	strikes := tx.f.strikes()
	err := tx.Transaction.Commit()
	if strikes && err == nil {
		err = kv.NewError(tx.f.commit)
	}
	return err
}

// TestStartSurvivesErrors: no error that passes ends a start, whichever operation it hits, on a new store and
// on one that exists. The log tells once that a store is new.
func TestStartSurvivesErrors(t *testing.T) {
	before := startPause
	startPause = time.Millisecond
	defer func() { startPause = before }()
	open, prefix := newStore(t)
	c := config.Default()
	c.Secrets.KeyFile = newKeyFile(t)
	for i, codes := range [][2]kv.Code{
		{kv.TransactionTooOld, kv.CommitUnknownResult},
		{kv.TransactionTimedOut, kv.TransactionTimedOut}, // which no transaction repeats by itself
		{kv.ClusterVersionChanged, kv.ClusterVersionChanged},
	} {
		for n, struck := 1, true; struck; n++ {
			db := &faulty{store: open(), countdown: n, read: codes[0], commit: codes[1]}
			c.KeyPrefix = fmt.Sprint(prefix, i, n/2) // each is started twice
			log := &syncBuffer{}
			logger := slog.New(slog.NewTextHandler(log, nil))
			if _, err := newService(t.Context(), db, c, "test", nil, logger); err != nil {
				t.Errorf("%v at operation %d: %v", codes, n, err)
			}
			made, isNew := strings.Count(log.String(), "msg=store_created"), n == 1 || n%2 == 0
			if made > 1 || isNew != (made == 1) {
				t.Errorf("%v at operation %d: store_created %d times, a new store: %v", codes, n, made, isNew)
			}
			struck = db.countdown <= 0
			_ = db.Close()
		}
	}
}

// TestStartEndsForMistakes: an error that does not pass ends a start.
func TestStartEndsForMistakes(t *testing.T) {
	open, prefix := newStore(t)
	c := config.Default()
	c.Secrets.KeyFile = newKeyFile(t)
	c.KeyPrefix = prefix
	db := &faulty{store: open(), countdown: 1, read: kv.KeyOutsideLegalRange}
	defer db.Close()
	_, err := newService(t.Context(), db, c, "test", nil, slog.New(slog.DiscardHandler))
	if kv.CodeOf(err) != kv.KeyOutsideLegalRange {
		t.Error(err)
	}
}

// absent is a store that does not answer until it is here.
type absent struct {
	store
	here chan struct{}
}

func (a *absent) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	select {
	case <-a.here:
	case <-ctx.Done():
	}
	return a.store.Begin(ctx, o)
}

func (a *absent) Err() error {
	select {
	case <-a.here:
		return nil
	default:
		return errors.New("it is switched off")
	}
}

// newAbsentRig is a rig whose service waits for its store. ended gets the result of serve.
func newAbsentRig(t *testing.T) (r *rig, db *absent, ended chan error) {
	r = &rig{t: t, log: &syncBuffer{}}
	open, prefix := newStore(t)
	r.source, r.target = r.sandbox(), r.sandbox()
	db = &absent{open(), make(chan struct{})}
	t.Cleanup(func() { _ = db.Close() })
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	c := config.Default()
	c.Secrets.KeyFile = newKeyFile(t)
	c.KeyPrefix, c.Node.StartupJitter = prefix, 0
	svc, err := assemble(db, c, "test", nil, logger)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	svc.layers.path = filepath.Join(t.TempDir(), "local.ini")
	r.url = "http://" + listener.Addr().String() + "/"
	ctx, signal := context.WithCancel(context.Background())
	r.stop, ended = signal, make(chan error, 1)
	go func() { ended <- serve(ctx, signal, svc, doors{plain: listener}, logger, nil) }()
	return r, db, ended
}

// TestStartWhileStoreIsAway: a node that waits for its store answers soon, with the reason to what needs
// the store, and does its work as soon as the store is there.
func TestStartWhileStoreIsAway(t *testing.T) {
	r, db, ended := newAbsentRig(t)
	r.fill(3)
	for _, request := range []string{"GET _up", "PUT _replicator/r", "GET _scheduler/jobs", "GET _scheduler/nodes",
		"POST _replicate"} {
		method, path, _ := strings.Cut(request, " ")
		refused := r.want(503, method, path, r.body(""))
		if reason, _ := refused["reason"].(string); !strings.Contains(reason, "the node is starting") ||
			!strings.Contains(reason, "it is switched off") || strings.Contains(reason, "look before") {
			t.Errorf("%s: %v", request, refused)
		}
	}
	if welcome := r.want(200, "GET", "", ""); welcome["uuid"] != nil {
		t.Errorf("a uuid that the store has not told: %v", welcome)
	}
	r.want(200, "PUT", "_node/_local/_config/couchdb/maintenance_mode", `"true"`)
	r.want(404, "GET", "_up", "")
	r.want(200, "PUT", "_node/_local/_config/couchdb/maintenance_mode", `"false"`)
	close(db.here)
	r.await("the start", func() bool { status, _ := r.call("GET", "_up", ""); return status == 200 })
	r.want(201, "PUT", "_replicator/r", r.body(""))
	r.await("completion", func() bool { return r.docState("r") == "completed" })
	r.same()
	r.stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStopWhileStarting: a signal ends a node in order that waits for its store.
func TestStopWhileStarting(t *testing.T) {
	r, _, ended := newAbsentRig(t)
	r.want(503, "GET", "_up", "")
	r.stop()
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(r.log.String(), "msg=stopping") {
			t.Errorf("%v, log %s", err, r.log)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("goes on")
	}
}

// TestStartOfQuickStore: a client that comes right after the start, while a store that works is being
// prepared, waits for that and is not refused.
func TestStartOfQuickStore(t *testing.T) {
	r, db, ended := newAbsentRig(t)
	time.AfterFunc(startGrace/5, func() { close(db.here) })
	r.want(200, "GET", "_up", "")
	r.stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
