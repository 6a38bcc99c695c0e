//go:build !fdb

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"couchrelay/adapters/archive"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// typedIn types a command that must end with a status, and returns what it printed and its error.
func typedIn(t *testing.T, status int, line ...string) string {
	t.Helper()
	out, _, err := typed(t, 0, line...)
	if err != nil {
		out += err.Error()
	}
	if exitStatus(err) != status {
		t.Fatalf("%s: status %d, want %d: %s", line, exitStatus(err), status, out)
	}
	return out
}

// restored is the directory of a store that is made of a backup, with the key of another one. It has been checked.
func restored(t *testing.T, file, key string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(key, "secret.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "secret.key"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := typedIn(t, 0, "restore", file, "--store", dir); !strings.Contains(out, ": sound\n") {
		t.Errorf("restore prints %q", out)
	}
	return dir
}

// incarnation is that of a store.
func incarnation(t *testing.T, r *rig) int64 {
	t.Helper()
	n, err := kv.Run(t.Context(), r.svc.db, func(tx kv.Tx) (int64, error) {
		return jobstore.Incarnate(tx, jobstore.KeysBelow(rootOf("couchrelay")))
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBackupUnderLoad: backups that are taken while documents come and complete, the key changes, an older store is
// indexed and a deleted database is swept are sound, and a service on the last one has every document that was written
// before it, and completes it.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	r, dir := newStoredRig(t)
	r.source, r.target = r.sandbox(), r.sandbox()
	r.fill(20)
	r.want(201, "PUT", "old%2F_replicator", "")
	var bulk []string
	for i := range 300 {
		bulk = append(bulk,
			fmt.Sprintf(`{"_id":"o%d","source":"http://127.0.0.1:1/a%d","target":"http://127.0.0.1:1/b"}`, i, i))
	}
	r.want(201, "POST", "old%2F_replicator/_bulk_docs", `{"docs":[`+strings.Join(bulk, ",")+`]}`)
	r.stop()
	age(t, r)
	r.start(r.svc.started)
	ask := func(method, path, body string) int { status, _ := r.call(method, path, body); return status }
	var written atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := written.Load()
			body := fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true}`, r.source.url+"db",
				fmt.Sprint(r.target.url, "copy", n))
			if status := ask("PUT", fmt.Sprint("_replicator/load", n), body); status != 201 {
				t.Errorf("document %d is answered %d", n, status)
				return
			}
			written.Add(1)
		}
	})
	before := int64(0)
	var files []string
	for i, meanwhile := range []func(){
		func() {},
		func() { r.want(200, "POST", "_node/_local/_rekey", "{}") },
		func() { ask("DELETE", "old%2F_replicator", "") },
	} {
		r.await("some documents", func() bool { return written.Load() >= before+5 })
		before = written.Load()
		meanwhile()
		files = append(files, filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if out := typedIn(t, 0, "backup", files[i], "--server", r.url); !strings.Contains(out, " rows, ") {
			t.Errorf("backup prints %q", out)
		}
	}
	close(stop)
	load.Wait()
	was := incarnation(t, r)
	r.stop()
	var last string
	for _, file := range files {
		last = restored(t, file, dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	again := onStore(t, last)
	for i := range before {
		id := fmt.Sprint("load", i)
		again.await("document "+id, func() bool { return again.docState(id) == "completed" })
	}
	if n := incarnation(t, again); n != was+1 {
		t.Errorf("the incarnation is %d, and was %d", n, was)
	}
	checked(t, 0, ": sound\n", "--server", again.url)
}

// age makes the store of a service that has stopped one of a release without indexes.
func age(t *testing.T, r *rig) {
	t.Helper()
	k := jobstore.KeysBelow(rootOf("couchrelay"))
	db := r.open()
	err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
		tx.Set(k.Reindex, []byte{})
		tx.ClearRange(k.Index.Range())
		tx.ClearRange(k.Tally.Range())
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestBackupOfStoppedStore: the same rows come of a store that no service uses, also through a pipe.
func TestBackupOfStoppedStore(t *testing.T) {
	r, dir := newStoredRig(t)
	r.want(201, "PUT", "_replicator/r", `{"source":"http://u:hunter2@127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`)
	r.stop()
	file := filepath.Join(t.TempDir(), "backup")
	typedIn(t, 0, "backup", file, "--store", dir)
	piped := typedIn(t, 0, "backup", "-", "--store", dir)
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("hunter2")) || !strings.HasPrefix(piped, "couchrelay backup\n") {
		t.Errorf("the backup shows the password, or is none: %v", err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v", info.Mode(), err)
	}
	again := onStore(t, restored(t, file, dir))
	doc := again.want(200, "GET", "_replicator/r", "")
	if doc["source"] != "http://u:hunter2@127.0.0.1:1/a" {
		t.Errorf("the document came back as %v", doc)
	}
}

// TestStoreIsPrivate: in a directory that others can look into, the files of a store can be read by its user only.
func TestStoreIsPrivate(t *testing.T) {
	r, dir := newStoredRig(t)
	file := filepath.Join(t.TempDir(), "relay.backup")
	r.stop()
	syscall.Umask(0o022)
	typedIn(t, 0, "backup", file, "--store", dir)
	syscall.Umask(0o022)
	for _, store := range []string{dir, restored(t, file, dir)} {
		found, err := os.ReadDir(store)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
			}
		}
	}
}

// TestRestoredList: after a backup the target refuses one more document, for which the checkpoints rely on the list.
// The restored list lacks it, and it comes all the same.
func TestRestoredList(t *testing.T) {
	t.Parallel()
	r, dir := newStoredRig(t)
	r.source, r.target = r.sandbox(), r.sandbox()
	r.fill(6)
	target := newValidator(t, r.target.url)
	listed := func(n float64) func() bool {
		return func() bool { return r.want(200, "GET", "_scheduler/docs/_replicator/r", "")["refused"] == n }
	}
	r.want(201, "PUT", "_replicator/r", fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true,"continuous":true,`+
		`"on_refusal":"retry"}`, r.source.url+"db", target.URL+"/copy"))
	r.await("the first refusal", listed(1))
	file := filepath.Join(t.TempDir(), "backup")
	typedIn(t, 0, "backup", file, "--server", r.url)
	r.add(6, 10)
	r.await("the second refusal", listed(2))
	r.stop()
	target.corrected.Store(true)
	onStore(t, restored(t, file, dir))
	var info object
	r.await("all documents", func() bool {
		return request("GET", r.target.url+"copy", nil, &info) == nil && info["doc_count"] == 16.0
	})
}

// TestRestoreRefuses: what is no whole backup, or is to go where something is, changes nothing.
func TestRestoreRefuses(t *testing.T) {
	r, dir := newStoredRig(t)
	r.stop()
	file := filepath.Join(t.TempDir(), "backup")
	typedIn(t, 0, "backup", file, "--store", dir)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 1
	for wants, text := range map[string][]byte{
		"the checksum is wrong": flipped, "ends there": good[:len(good)-1],
		file + ": this is no backup of couchrelay; it takes what couchrelay backup writes": []byte("x"),
	} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		empty := t.TempDir()
		if out := typedIn(t, unchecked, "restore", file, "--store", empty); !strings.Contains(out, wants) {
			t.Errorf("it says %q, want %q", out, wants)
		}
		if names, err := os.ReadDir(empty); err != nil || len(names) > 0 {
			t.Errorf("%s: there are %v, %v", wants, names, err)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(t.TempDir(), "is", "not")
	if err := os.Symlink("gone", filepath.Dir(nowhere)); err != nil {
		t.Fatal(err)
	}
	for store, wants := range map[string]string{dir: "not empty", nowhere: "restore into " + nowhere + ": mkdir ",
		file: "--store " + file + ": is a file; must be a directory"} {
		if out := typedIn(t, unchecked, "restore", file, "--store", store); !strings.Contains(out, wants) ||
			strings.Contains(out, "\n") {
			t.Errorf("into %s: it says %q, want %q", store, out, wants)
		}
	}
	checked(t, 0, ": sound\n", "--store", dir)
}

// TestUpkeepOfNothing: a directory without a store, such as that of a disk which is not mounted, is left as it is: a
// store may still be restored into it.
func TestUpkeepOfNothing(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for status, line := range map[int][]string{unchecked: {"check", "--store", empty},
		failed: {"backup", filepath.Join(t.TempDir(), "file"), "--store", empty}} {
		if out := typedIn(t, status, line...); !strings.Contains(out, "the directory holds no store") {
			t.Errorf("%s says %q", line, out)
		}
		if names, err := os.ReadDir(empty); err != nil || len(names) > 0 {
			t.Errorf("%s: there are %v, %v", line, names, err)
		}
	}
}

// TestSilentService: a check or backup does not wait for ever for a service that has taken the connection and hangs,
// neither for the beginning of its answer nor for the rest.
func TestSilentService(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		begin  string
		line   []string
	}{
		{unchecked, "", []string{"check"}}, {unchecked, "\n\n", []string{"check", "--repair"}},
		{failed, "", []string{"backup", "-"}}, {failed, "couchrelay backup\n", []string{"backup", "-"}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				_, _ = io.WriteString(w, `{"vendor":{"name":"couchrelay"}}`)
				return
			}
			if c.begin != "" {
				_, _ = io.WriteString(w, c.begin)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}))
		defer server.Close()
		out := typedIn(t, c.status, append(c.line, "--server", server.URL, "--timeout", "200ms")...)
		if !strings.Contains(out, "nothing came from "+server.URL+" for 200ms (--timeout)") {
			t.Errorf("%q: %s says %q", c.begin, c.line, out)
		}
	}
}

// TestUpkeepThroughFront: where a CouchDB answers for _local, or does not answer, the service behind the same address
// looks after its store and its keys.
func TestUpkeepThroughFront(t *testing.T) {
	t.Parallel()
	r, _ := newStoredRig(t)
	couch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/" {
			_, _ = io.WriteString(w, `{"couchdb":"Welcome","vendor":{"name":"The Apache Software Foundation"}}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"not_found","reason":"of the CouchDB"}`)
	}))
	r.stop()
	c := r.svc.started
	if err := errors.Join(c.Set("front", "couchdb", couch.URL), c.Set("couch_auth", "url", "none")); err != nil {
		t.Fatal(err)
	}
	r.start(c)
	for range 2 {
		for wants, line := range map[string][]string{"seals": {"rekey", "--status"}, ": sound\n": {"check"},
			" rows, ": {"backup", filepath.Join(t.TempDir(), "file")}} {
			out := typedIn(t, 0, append(line, "--server", r.url)...)
			if !strings.Contains(strings.ToLower(out), wants) {
				t.Errorf("%s says %q, want %q", line, out, wants)
			}
		}
		couch.Close()
	}
}

// TestFullDisk: a backup that cannot be written ends with the reason. That the one before it stays is tested with
// durable.Replace.
func TestFullDisk(t *testing.T) {
	r, _ := newStoredRig(t)
	large := strings.Repeat("x", 1<<20) // more than what waits to be written
	r.want(201, "PUT", "_replicator/a", `{"source":"http://a/a","target":"http://a/b","paused":true,"x":"`+large+`"}`)
	full := &window{to: diskFull{}}
	command := backupCommand{remote: remote{Server: r.url, Timeout: time.Minute}, File: "-"}
	if err := command.Run(full); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "service") {
		t.Errorf("of a service the error is %v", err)
	}
}

// TestInterruptedBackup: a signal ends a backup with an error, so that the file is removed that was begun.
func TestInterruptedBackup(t *testing.T) {
	r, dir := newStoredRig(t)
	r.stop()
	err := (&backupCommand{Store: dir, File: "-"}).Run(&window{to: &interrupting{}})
	if !errors.Is(err, context.Canceled) || complaint(err) != "couchrelay: interrupted" {
		t.Errorf("the error is %v, told as %q", err, complaint(err))
	}
}

// TestInterruptedUpkeep: a command that is interrupted says so, and blames no service, whose answer it was reading.
func TestInterruptedUpkeep(t *testing.T) {
	for _, c := range []struct{ begin, command, file string }{
		{"\n", "check", ""}, {"couchrelay backup\n", "backup", "-"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				_, _ = io.WriteString(w, `{"vendor":{"name":"couchrelay"}}`)
				return
			}
			_, _ = io.WriteString(w, c.begin)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(100 * time.Millisecond)
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
			<-r.Context().Done()
		}))
		defer server.Close()
		line := append([]string{c.command, "--server", server.URL}, strings.Fields(c.file)...)
		if _, _, err := typed(t, 0, line...); err == nil || complaint(err) != "couchrelay: interrupted" {
			t.Errorf("%s: %v", c.command, err)
		}
	}
	err := statusError{fmt.Errorf("restore into store: %w", context.Canceled), unchecked}
	if text := complaint(err); text != "couchrelay: restore into store: interrupted" {
		t.Error(text)
	}
}

// interrupting is a writer that sends this process a signal with the first write, and waits for it to come.
type interrupting struct{ sync.Once }

func (i *interrupting) Write(p []byte) (n int, err error) {
	i.Do(func() {
		err = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(time.Second)
	})
	return len(p), err
}

// TestEscapesOfBackups: what a backup or a damaged store says does not reach the terminal as commands to it.
func TestEscapesOfBackups(t *testing.T) {
	t.Parallel()
	const escape = "\x1b[2J\u009b1A\r"
	file := filepath.Join(t.TempDir(), "backup")
	var text bytes.Buffer
	w, err := archive.NewWriter(&text, archive.Head{UUID: escape, KeyPrefix: "couchrelay", Schema: 2})
	if err == nil {
		err = w.Row(rootOf("couchrelay").Pack("docs", "\u009b1A"), []byte(escape))
	}
	if err == nil {
		_, err = w.Close()
	}
	if err = errors.Join(err, os.WriteFile(file, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	out := typedIn(t, unsound, "restore", file, "--store", t.TempDir())
	told := strings.Contains(out, "1 rows of") && strings.Contains(out, "docs/")
	if !told || strings.ContainsAny(out, "\x1b\r\u009b") {
		t.Errorf("%q", out)
	}
}
