//go:build !fdb

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/embedded"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// newStoredRig is a service that keeps its store and its key in a directory, which is returned.
func newStoredRig(t testing.TB) (*rig, string) {
	dir := filepath.Join(t.TempDir(), "data")
	return onStore(t, dir), dir
}

// onStore is a service on the store and the key in a directory.
func onStore(t testing.TB, dir string) *rig {
	command := serveCommand{Store: dir}
	layers, err := command.load()
	if err != nil {
		t.Fatal(err)
	}
	c, err := layers.config()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, log: &syncBuffer{}, keyPrefix: "couchrelay", open: func() store {
		db, err := openStore(command.Store, "couchrelay", embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}}
	r.start(c)
	return r
}

// checked runs a check, and demands its exit status and output.
func checked(t *testing.T, status int, wants string, args ...string) string {
	t.Helper()
	out, _, err := typed(t, 0, append([]string{"check"}, args...)...)
	said := out
	if err != nil {
		said += err.Error()
	}
	if exitStatus(err) != status || !strings.Contains(said, wants) {
		t.Fatalf("check %s: status %d, %q; want %d, %q", args, exitStatus(err), said, status, wants)
	}
	return out
}

// TestCheck: a running service checks its store, and so does the command when none runs. What is damaged is told and
// repaired.
func TestCheck(t *testing.T) {
	t.Parallel()
	r, dir := newStoredRig(t)
	for _, id := range []string{"a", "b", "c"} {
		r.want(201, "PUT", "_replicator/"+id, // paused: a run would write again what the test damages
			`{"source":"http://u:hunter2@127.0.0.1:1/`+id+`","target":"http://127.0.0.1:1/b","paused":true}`)
	}
	checked(t, 0, ": sound\n", "--server", r.url)
	checked(t, unchecked, "--store", "--store", dir) // it is in use
	ready := jobstore.KeysBelow(tuple.Subspace(tuple.Pack("couchrelay"))).Index
	damage := func(db kv.Database) {
		t.Helper()
		err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
			rows, err := tx.GetRange(ready.Range(), kv.RangeOptions{})
			if err == nil {
				tx.Clear(rows[len(rows)-1].Key)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	damage(r.svc.db)
	out := checked(t, unsound, `"mendable":1`, "--server", r.url, "--json")
	var line struct {
		Finding struct{ Key, What, Repair string }
	}
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &line); err != nil ||
		!strings.HasPrefix(line.Finding.Key, "index/") || line.Finding.Repair == "" {
		t.Errorf("a finding is %+v, %v", line, err)
	}
	checked(t, unsound, "--repair would", "--server", r.url)
	checked(t, 0, "1 repaired: sound\n", "--server", r.url, "--repair")
	checked(t, 0, ": sound\n", "--server", r.url)
	r.stop()
	checked(t, unchecked, "no answer", "--server", r.url)
	checked(t, 0, ": sound\n", "--store", dir)
	db := r.open()
	damage(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	checked(t, 0, "repaired: write the row", "--store", dir, "--repair")
	forged := r.open() // its values as they are stored
	spec := jobstore.KeysBelow(rootOf("couchrelay")).Spec
	var was []kv.KeyValue
	write := func(change func(value []byte) []byte) {
		t.Helper()
		err := kv.Do(t.Context(), forged, func(tx kv.Tx) (err error) {
			if was == nil {
				was, err = tx.GetRange(spec.Range(), kv.RangeOptions{Limit: 1})
			}
			if err == nil {
				tx.Set(was[0].Key, change(was[0].Value))
			}
			return err
		})
		if err := errors.Join(err, forged.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write(func(value []byte) []byte {
		value = bytes.Clone(value)
		value[len(value)/2] ^= 1
		return value
	})
	checked(t, unsound, "a sealed value does not open", "--store", dir, "--repair")
	forged = r.open()
	write(func(value []byte) []byte { return value })
	checked(t, 0, ": sound\n", "--store", dir)
	checked(t, unchecked, "no such file", "--store", dir+"x")
	if err := os.Remove(filepath.Join(dir, "secret.key")); err != nil {
		t.Fatal(err)
	}
	checked(t, unchecked, "secret.key", "--store", dir)
}

// TestDiscard: a job that cannot be read is removed while no service runs; its document can be deleted then, and before
// that could not.
func TestDiscard(t *testing.T) {
	r, dir := newStoredRig(t)
	r.want(201, "PUT", "_replicator/a", `{"source":"http://127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`)
	r.stop()
	keys, id := jobstore.KeysBelow(rootOf("couchrelay")), ""
	db := r.open()
	err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
		rows, err := tx.GetRange(keys.Jobs.Job.Range(), kv.RangeOptions{Limit: 1})
		if err == nil {
			err = keys.Jobs.Job.Scan(rows[0].Key, &id)
		}
		return err
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	discard := []string{"--store", dir, "--repair", "--discard"}
	checked(t, 1, "--discard "+id+": needs --store and --repair", "--store", dir, "--discard", id)
	checked(t, unchecked, "--discard other: there is no such job", append(discard, "other")...)
	checked(t, unchecked, "all of the job can be read", append(discard, id)...)
	db = r.open()
	err = kv.Do(t.Context(), db, func(tx kv.Tx) error { tx.Set(keys.Jobs.Job.Pack(id), []byte("x")); return nil })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	checked(t, unsound, "cannot be read", "--store", dir, "--repair")
	checked(t, unsound, `document "a" of _replicator has no job: write it again`, append(discard, id)...)
	r.start(r.svc.started)
	rev := fmt.Sprint(r.want(200, "GET", "_replicator/a", "")["_rev"])
	r.want(200, "DELETE", "_replicator/a?rev="+rev, "")
	checked(t, 0, ": sound\n", "--server", r.url)
}

// TestOneCheckAtATime: a service that checks its store refuses another check, and one of another store goes on.
func TestOneCheckAtATime(t *testing.T) {
	t.Parallel()
	r, _ := newStoredRig(t)
	other, _ := newStoredRig(t)
	r.svc.checking.Lock()
	checked(t, unchecked, "another check of this store is under way", "--server", r.url)
	checked(t, 0, ": sound\n", "--server", other.url)
	r.svc.checking.Unlock()
	checked(t, 0, ": sound\n", "--server", r.url)
}

// TestCheckOfClearStore: a store that was never encrypted needs no key.
func TestCheckOfClearStore(t *testing.T) {
	r, dir := newStoredRig(t)
	r.stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c := r.svc.started
	c.Secrets.Encrypt, c.Secrets.MakeKey = false, false
	r.start(c)
	r.want(201, "PUT", "_replicator/r", `{"source":"http://u:p@127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`)
	r.stop()
	checked(t, 0, ": sound\n", "--store", dir)
}

// TestOtherKeyPrefix: a store whose rows are below another prefix than the command has is neither sound nor saved.
func TestOtherKeyPrefix(t *testing.T) {
	r, dir := newStoredRig(t)
	r.stop()
	const wants = `nothing below the key prefix "other"`
	checked(t, unchecked, wants, "--store", dir, "--key-prefix", "other")
	file := filepath.Join(t.TempDir(), "backup")
	if out := typedIn(t, 1, "backup", file, "--store", dir, "--key-prefix", "other"); !strings.Contains(out, wants) {
		t.Errorf("backup says %q", out)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a backup: %v", err)
	}
	typedIn(t, 0, "backup", file, "--store", dir)
	empty := t.TempDir()
	out := typedIn(t, unchecked, "restore", file, "--store", empty, "--key-prefix", "other")
	if !strings.Contains(out, "rows of ") || !strings.Contains(out, wants) {
		t.Errorf("restore says %q", out)
	}
}
