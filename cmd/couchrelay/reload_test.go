package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web/relay"
	"couchrelay/core/kv"
)

// silentStore is a store that can stop to answer, as a cluster does.
type silentStore struct {
	store
	silent *atomic.Bool
}

func (s silentStore) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	for s.silent.Load() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return s.store.Begin(ctx, o)
}

// newSilentRig is a service whose store does not answer any more.
func newSilentRig(t *testing.T) *rig {
	r := newRig(t)
	s, open := silentStore{silent: &atomic.Bool{}}, r.open
	r.open = func() store { s.store = open(); return s }
	r.restartAs("0123456789abcdef")
	s.silent.Store(true)
	t.Cleanup(func() { s.silent.Store(false) })
	return r
}

// TestReloadWithoutStore: a reload by a signal ends although the store does not answer, so that the node can be put
// into maintenance then.
func TestReloadWithoutStore(t *testing.T) {
	t.Parallel()
	r := newSilentRig(t)
	ended := make(chan error, 1)
	go func() { ended <- r.svc.ReloadConfig(context.Background()) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("reloaded without the store")
		}
	case <-time.After(changeTime + 10*time.Second):
		t.Error("the reload goes on for ever")
	}
}

// TestReloadIsWhole: a reload for which the store does not answer changes nothing in this process either, and one whose
// client leaves when its transaction begins comes to its end.
func TestReloadIsWhole(t *testing.T) {
	t.Parallel()
	r, s := &rig{t: t, log: &syncBuffer{}}, &leavingStore{}
	open, prefix := newStore(t)
	r.open, r.keyPrefix = func() store { s.store = open(); return s }, prefix
	c := config.Default()
	c.Secrets.Encrypt = false // so that nothing is asked before
	r.start(c)
	files := c.Clone()
	files.Node.MaxJobs, files.Replicator.Sharing.Shares["user:a"] = 7, 9
	r.svc.read = func() (layers, error) { return layers{files: files}, nil }
	ctx, cancel := context.WithCancel(t.Context())
	ctx = context.WithValue(ctx, leaving{}, cancel)
	s.refuses = true
	if err := r.svc.ReloadConfig(ctx); err == nil || inForce(r.svc).Node.MaxJobs != 500 {
		t.Errorf("without the store: %v, %d", err, inForce(r.svc).Node.MaxJobs)
	}
	s.refuses = false
	err := r.svc.ReloadConfig(ctx)
	shares := r.svc.Config(t.Context())["replicator.shares"]["user:a"].Value
	if err != nil || ctx.Err() == nil || inForce(r.svc).Node.MaxJobs != 7 || shares != "9" {
		t.Errorf("a client that leaves: %v, %d, %s", err, inForce(r.svc).Node.MaxJobs, shares)
	}
}

// leavingStore is a store that can refuse the transactions of a client, who leaves when one begins otherwise.
type leavingStore struct {
	store
	refuses bool
}

func (s *leavingStore) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	leave, client := ctx.Value(leaving{}).(context.CancelFunc)
	switch {
	case client && s.refuses:
		return newStillborn(errors.New("refused"))
	case client:
		leave()
	}
	return s.store.Begin(ctx, o)
}

// TestChangeWithoutStore: a request that changes what is not in the store needs no store, and one that would have to
// change something there changes nothing without it.
func TestChangeWithoutStore(t *testing.T) {
	t.Parallel()
	r := newSilentRig(t)
	change := func(section string, values map[string]*string) (err error) {
		t.Helper()
		ended := make(chan error, 1)
		go func() {
			_, err := r.svc.ChangeConfig(context.Background(), relay.ConfigChange{Section: section, Values: values})
			ended <- err
		}()
		select {
		case err = <-ended:
		case <-time.After(changeTime + 10*time.Second):
			t.Fatalf("the change of [%s] goes on for ever", section)
		}
		return err
	}
	err := change("couchdb", map[string]*string{"maintenance_mode": new("true")})
	if err != nil || r.svc.MaintenanceMode() != "true" {
		t.Errorf("maintenance: %v, %s", err, r.svc.MaintenanceMode())
	}
	err = change("follow couch", map[string]*string{"url": new("http://127.0.0.1:1"), "databases": new("jobs")})
	if err == nil || len(inForce(r.svc).Follow) != 0 || len(r.svc.layers.local) != 1 {
		t.Errorf("follow: %v, %v", err, r.svc.layers.local)
	}
}

// TestReloadTellsWhatItSkips: what files have that means nothing here is told by a reload as it is by a start.
func TestReloadTellsWhatItSkips(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "couchrelay.ini")
	if err := os.WriteFile(file, []byte("[fabric]\na = 1\n[tls_partner]\nverify = false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := config.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	r.svc.read = func() (layers, error) { return layers{files: files}, nil }
	if err := r.svc.ReloadConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"msg=config_skipped names=[fabric]", "msg=config_ignored name=[tls_partner]"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}

// TestReloadTellsWhatWaits: a reload names the settings that were changed, or taken back, and take effect at the next
// start.
func TestReloadTellsWhatWaits(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Secrets.Directory = t.TempDir()
	r.start(c)
	files := r.svc.started.Clone()
	files.Secrets.Directory, files.Node.MaxJobs, files.LogFormat = "", 7, "json"
	r.svc.read = func() (layers, error) { return layers{files: files}, nil }
	if err := r.svc.ReloadConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `restart="[[log] format [secrets] directory]"`
	if log := r.log.String(); !strings.Contains(log, want) {
		t.Errorf("%s", log[strings.LastIndex(log, "msg=reloaded"):])
	}
}

// TestReloadOfAnEmptyFile: an editor may empty a file before it writes it. A reload then changes nothing, unless the
// file was empty before. A local file that is removed takes its settings with it, as the error says.
func TestReloadOfAnEmptyFile(t *testing.T) {
	const some = "[couchdb]\nmaintenance_mode = nolb\n"
	for _, c := range []struct{ before, after, local, localAfter, want string }{
		{some, "", "", "", "main.ini: has no section any more"},
		{some, "; saved\n", "", "", "main.ini: has no section any more"},
		{some, some, some, "", "local.ini: has no setting any more"},
		{some, some, some, "; x", "local.ini: has no setting any more"},
		{"", "", "", "", ""},
		{"", some, some, some, ""},
		{some, "[couchdb]\n", some, some, ""},
	} {
		r := newRig(t)
		dir := t.TempDir()
		file, local := filepath.Join(dir, "main.ini"), filepath.Join(dir, "local.ini")
		r.svc.read = func() (layers, error) {
			files, err := config.Read(file)
			if err != nil {
				return layers{}, err
			}
			return readLayers(files, local, nil)
		}
		write := func(path, text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(file, "[admins]\nadm = secret\n"+c.before)
		if c.before == "" {
			write(file, "")
		}
		write(local, c.local)
		r.svc.layers, _ = r.svc.read()
		write(file, c.after)
		write(local, c.localAfter)
		err := r.svc.ReloadConfig(t.Context())
		if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		if !strings.Contains(fmt.Sprint(err), "remove it to mean it") {
			continue
		}
		if err := errors.Join(os.Remove(local), r.svc.ReloadConfig(t.Context())); err != nil {
			t.Errorf("%+v, removed: %v", c, err)
		}
	}
}

// TestReloadOfAPipe: a reload does not wait for a pipe that was read at the start.
func TestReloadOfAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := (&serveCommand{Config: []string{pipe}, Store: t.TempDir()}).loadAgain()
	if err == nil || !strings.Contains(err.Error(), pipe+": is no regular file") {
		t.Error(err)
	}
	_, err = (&serveCommand{LocalConfig: pipe, Store: t.TempDir()}).loadAgain()
	if err == nil || !strings.Contains(err.Error(), "local configuration: "+pipe+" is a pipe") {
		t.Error(err)
	}
}
