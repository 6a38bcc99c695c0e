package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web/relay"
	"couchrelay/core/kv"
)

// TestFilesThatCannotBeWritten: a change that cannot be kept is not in force, on no node.
func TestFilesThatCannotBeWritten(t *testing.T) {
	r := newRig(t)
	path := r.svc.layers.path
	absent := filepath.Join(path, "none", "local.ini")
	for name, wrongPath := range map[string]string{"no directory": absent, "no file": ""} {
		r.svc.layers.path = wrongPath
		for _, key := range []string{"replicator/max_jobs", "replicator.shares/user:a"} {
			status, reason := r.setting("PUT", key, `"7"`)
			if want := map[string]int{"no directory": 500, "no file": 400}[name]; status != want ||
				!strings.Contains(reason, "local") {
				t.Errorf("%s: %d %s", name, status, reason)
			}
		}
		if status, _ := r.setting("PUT", "log/level", `"debug"`, "X-Couch-Persist", "false"); status != 200 {
			t.Errorf("%s: a change that is not kept: %d", name, status)
		}
	}
	r.svc.layers.path = path
	if status, text := r.setting("GET", "replicator/max_jobs", ""); text != `"500"` {
		t.Errorf("%d %s", status, text)
	}
	if told := r.want(200, "GET", configURL+"replicator.shares", ""); len(told) != 0 {
		t.Errorf("%v", told)
	}
	// A file that was edited is not written over.
	edited := []byte("; mine\n[replicator]\nmax_churn = 3\n")
	if err := os.WriteFile(path, edited, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, reason := r.setting("PUT", "replicator/max_jobs", `"7"`); status != 409 ||
		!strings.Contains(reason, "SIGHUP") {
		t.Errorf("%d %s", status, reason)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, edited) {
		t.Errorf("%s, %v", now, err)
	}
	r.want(200, "POST", configURL+"_reload", "{}")
	r.want(200, "PUT", configURL+"replicator/max_jobs", `"7"`)
	if status, text := r.setting("GET", "replicator/max_churn", ""); text != `"3"` {
		t.Errorf("%d %s", status, text)
	}
}

// ruinous is a store in which a directory vanishes during a client's transaction once a draft lies in it. Transactions
// of the service's own, which begin at any time, do no harm: the client would go before its change reached the store.
type ruinous struct {
	store
	dir string
}

// leaving is the key of the client's context under which its cancel function is: the client goes with the directory.
type leaving struct{}

func (r *ruinous) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	leave, client := ctx.Value(leaving{}).(context.CancelFunc)
	if drafts, _ := filepath.Glob(filepath.Join(r.dir, ".*")); client && len(drafts) > 0 {
		_ = os.RemoveAll(r.dir)
		leave()
	}
	return r.store.Begin(ctx, o)
}

// TestFileThatCannotBePlaced: a change that fails after it has reached the store is taken back there.
func TestFileThatCannotBePlaced(t *testing.T) {
	r := newRig(t)
	r.stop()
	open, dir := r.open, filepath.Join(t.TempDir(), "gone")
	db := &ruinous{dir: dir}
	r.open = func() store { db.store = open(); return db }
	r.start(config.Default())
	r.want(200, "PUT", configURL+"replicator.shares/user:a", `"7"`)
	path := r.svc.layers.path
	r.svc.layers.path = filepath.Join(dir, "local.ini")
	for _, ch := range []relay.ConfigChange{
		{Section: "replicator.shares", Values: map[string]*string{"user:a": new("8")}},
		{Section: "replicator.shares", Values: map[string]*string{"user:b": new("8")}},
		{Section: "follow couch", Values: map[string]*string{"url": &r.source.url, "databases": new("jobs")}},
	} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Link(path, r.svc.layers.path)); err != nil {
			t.Fatal(err)
		}
		gone, leave := context.WithCancel(t.Context())
		defer leave()
		client := context.WithValue(gone, leaving{}, leave)
		if _, err := r.svc.ChangeConfig(client, ch); err == nil || !strings.Contains(err.Error(), "is as before") {
			t.Errorf("%s: %v", ch.Section, err)
		}
	}
	r.svc.layers.path = path
	r.want(404, "GET", "couch%2Fjobs%2F_replicator", "")
	if told := r.want(200, "GET", configURL+"replicator.shares", ""); !maps.Equal(told, object{"user:a": "7"}) {
		t.Errorf("%v", told)
	}
	r.want(200, "PUT", configURL+"replicator.shares/user:b", `"9"`)
}
