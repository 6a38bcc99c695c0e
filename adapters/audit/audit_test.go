package audit

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"couchrelay/adapters/web"
)

// answer has a router with a Log answer one request.
func answer(t *testing.T, l *Log, method, path string) {
	t.Helper()
	router := web.NewRouter(func(q *web.Request) error {
		q.User, q.Claimed = web.User{Name: "ann", Roles: []string{"a", "b"}, Via: "default"}, "bob"
		return nil
	}, []web.Route{{Method: "PUT", Path: "/{db}/{docid}", Handler: func(q *web.Request) error {
		q.Note("docs", []string{"d1", "d2"})
		q.Note("asked", 3)
		return q.SendJSON(201, web.OK)
	}}})
	router.Record = l.Record
	q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"password":"planted"}`))
	q.SetBasicAuth("bob", "planted")
	q.RemoteAddr = "[2001:db8::1]:55"
	q.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "client"}}}}
	router.ServeHTTP(httptest.NewRecorder(), q)
}

// TestLine: a line has who, what, from where and the result, in the log and in the file; no line of a client's making,
// no secret, no query, and no value without bound.
func TestLine(t *testing.T) {
	var log strings.Builder
	l := New(slog.New(slog.NewTextHandler(&log, nil)))
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := l.Open(path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	doc := strings.Repeat("x", 1000)
	answer(t, l, "PUT", "/a%0Aaudit%20user=eve/"+doc+"?token=planted")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for key, want := range map[string]any{
		"msg": "audit", "user": "ann", "roles": "a,b", "via": "default", "login": "bob", "method": "PUT",
		"route": "/{db}/{docid}", "database": "a\naudit user=eve", "doc": doc[:maxText] + "...", "docs": "d1 d2",
		"asked": 3.0, "status": 201.0, "from": "2001:db8::1", "certificate": "CN=client",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if took, err := time.ParseDuration(line["took"].(string)); err != nil || took <= 0 {
		t.Errorf("took %v", line["took"])
	}
	both := string(text) + log.String()
	if strings.Contains(both, "planted") || strings.Count(both, "\n") != 2 || len(line["request"].(string)) != 10 {
		t.Errorf("%s", both)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestRotation: a file that was moved away gets no line any more once the Log was opened again; a path that cannot be
// opened changes nothing; without a path there is no file.
func TestRotation(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler))
	path := filepath.Join(t.TempDir(), "audit.log")
	lines := func(path string) int {
		text, err := os.ReadFile(path)
		if err != nil {
			return -1
		}
		return strings.Count(string(text), "\n")
	}
	for i, c := range []struct {
		open       string
		old, fresh int
	}{{path, 1, -1}, {path, 1, 1}, {"/none/audit.log", 1, 2}, {"", 1, 2}} {
		if i == 1 {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
		}
		err := l.Open(c.open)
		if bad := strings.HasPrefix(c.open, "/none"); bad != (err != nil) || bad != (Check(c.open) != nil) {
			t.Errorf("%s: %v", c.open, err)
		}
		answer(t, l, "PUT", "/a/b")
		old, fresh := lines(path+".1"), lines(path)
		if i == 0 {
			old, fresh = fresh, -1
		}
		if old != c.old || fresh != c.fresh {
			t.Errorf("after %q: %d and %d lines", c.open, old, fresh)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullDisk: lines that cannot be written are in the log, which tells so once.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	var log strings.Builder
	l := New(slog.New(slog.NewTextHandler(&log, nil)))
	if err := l.Open("/dev/full"); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		answer(t, l, "PUT", "/a/b")
	}
	if strings.Count(log.String(), "msg=audit_failed") != 1 || strings.Count(log.String(), "msg=audit ") != 3 {
		t.Errorf("%s", &log)
	}
}

// TestPipe: a pipe that nothing reads is refused at once. One that is read gets the lines.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 2)
	l := New(slog.New(slog.DiscardHandler))
	go func() { refused <- Check(path); refused <- l.Open(path) }()
	for range 2 {
		select {
		case err := <-refused:
			if err == nil || !strings.Contains(err.Error(), path+" is a pipe that no program reads") {
				t.Errorf("the error is %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the audit log waits for a reader")
		}
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = l.Open(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answer(t, l, "PUT", "/a/b")
	if line, err := bufio.NewReader(reader).ReadString('\n'); err != nil || !strings.Contains(line, `"doc":"b"`) {
		t.Errorf("%q, %v", line, err)
	}
}

// TestStuckReader: a pipe whose reader has stopped reading holds no request up for long.
func TestStuckReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l := New(slog.New(slog.DiscardHandler))
	if err := l.Open(path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for range 1000 { // lines, of which a pipe takes 64 KiB
			answer(t, l, "PUT", "/a/b")
			l.mu.Lock()
			failing := l.failing
			l.mu.Unlock()
			if failing {
				return
			}
		}
		t.Error("the pipe took all lines")
	}()
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
		reader.Close() // which ends the wait
		t.Fatal("a request waits for the reader of the pipe")
	}
}

// disk takes so many bytes before it is full.
type disk struct {
	*os.File
	free int
}

func (d *disk) Write(p []byte) (int, error) {
	n, err := d.File.Write(p[:min(len(p), d.free)])
	if d.free -= n; n < len(p) && err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestTornLines: a line of which a full disk took a part, or a crash left one, does not spoil the lines behind it.
func TestTornLines(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler))
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"left by a`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Open(path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &disk{l.file.(*os.File), 1 << 20}
	l.file = d
	answer(t, l, "PUT", "/a/whole")
	d.free = 10
	answer(t, l, "PUT", "/a/cut")
	answer(t, l, "PUT", "/a/lost")
	d.free = 1 << 20
	answer(t, l, "PUT", "/a/again")
	answer(t, l, "PUT", "/a/last")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for line := range strings.Lines(string(text)) {
		var of struct{ Doc string }
		if json.Unmarshal([]byte(line), &of) == nil {
			told = append(told, of.Doc)
		}
	}
	if got := strings.Join(told, " "); got != "whole again last" || strings.Contains(string(text), "\n\n") {
		t.Errorf("the lines that can be read are of %q:\n%s", got, text)
	}
}

// TestNothingSent: a request without an answer has the status 0.
func TestNothingSent(t *testing.T) {
	var log strings.Builder
	l := New(slog.New(slog.NewTextHandler(&log, nil)))
	router := web.NewRouter(nil, []web.Route{{Method: "PUT", Path: "/a", Handler: func(*web.Request) error {
		panic(fs.ErrInvalid)
	}}})
	router.Record = l.Record
	func() {
		defer func() { _ = recover() }()
		router.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "PUT", "/a", nil))
	}()
	if !strings.Contains(log.String(), "status=0 ") {
		t.Errorf("%s", &log)
	}
}
