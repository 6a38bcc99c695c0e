package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"couchrelay/adapters/compare"
	"couchrelay/adapters/config"
	"couchrelay/adapters/eventlog"
	"couchrelay/adapters/seal"
	"couchrelay/adapters/web"
)

func init() { web.Patience = time.Minute }

// rig is a service between two servers, all in this process.
type rig struct {
	t              testing.TB
	source, target *sandbox
	open           func() store // the service's
	svc            *service
	keyPrefix      string
	url            string
	secureURL      string // empty without TLS
	stop           func()
	log            *syncBuffer
	record         *eventlog.Writer // of the next start
	keyFile        string           // of the store; empty before the first start
}

// syncBuffer collects the log.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, log: &syncBuffer{}}
	r.open, r.keyPrefix = newStore(t)
	r.source, r.target = r.sandbox(), r.sandbox()
	r.start(config.Default())
	return r
}

func (r *rig) sandbox() *sandbox {
	b, err := openSandbox(0, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = b.Close() })
	return b
}

// seal gives a service the rig's key, unless it has one or needs none.
func (r *rig) seal(c *config.Config) {
	if !c.Secrets.Encrypt || c.Secrets.KeyFile != "" {
		return
	}
	if r.keyFile == "" {
		r.keyFile = newKeyFile(r.t)
	}
	c.Secrets.KeyFile = r.keyFile
}

// newKeyFile makes a key file.
func newKeyFile(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "secret.key")
	if err := seal.WriteFile(path, []seal.Key{seal.NewKey()}); err != nil {
		t.Fatal(err)
	}
	return path
}

// listen opens a port for a service, and returns the URL there.
func (r *rig) listen(scheme string) (listener net.Listener, url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	return listener, scheme + "://" + listener.Addr().String() + "/"
}

// start starts the service, again after stop.
func (r *rig) start(c config.Config) {
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	entrance := doors{}
	entrance.plain, r.url = r.listen("http")
	if c.SSL.Enable {
		entrance.secure, r.secureURL = r.listen("https")
	}
	db := r.open()
	c.KeyPrefix = r.keyPrefix
	c.Node.StartupJitter = 0
	r.seal(&c)
	ctx, cancel := context.WithCancel(context.Background())
	svc, err := newService(ctx, db, c, "test", r.record, logger)
	if err != nil {
		r.t.Fatal(err)
	}
	svc.layers.path, r.svc = filepath.Join(r.t.TempDir(), "local.ini"), svc
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serve(ctx, cancel, svc, entrance, logger, nil); err != nil {
			r.t.Error(err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		if err := db.Close(); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(func() { r.stop() })
}

// call sends a request and returns the status and the answer.
func (r *rig) call(method, path, body string, header ...string) (int, object) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var result object
	if json.Unmarshal(raw, &result) != nil {
		result = object{"text": string(raw)}
	}
	return answer.StatusCode, result
}

// want sends a request that must be answered with a status.
func (r *rig) want(status int, method, path, body string) object {
	r.t.Helper()
	got, answer := r.call(method, path, body)
	if got != status {
		r.t.Fatalf("%s %s %s: %d %v, want %d", method, path, body, got, answer, status)
	}
	return answer
}

// await polls until the condition holds.
func (r *rig) await(what string, look func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !look(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited in vain for %s\n%s", what, r.log)
		}
	}
}

func (r *rig) fill(n int) {
	r.t.Helper()
	if err := request("PUT", r.source.url+"db", nil, nil); err != nil {
		r.t.Fatal(err)
	}
	r.add(0, n)
}

func (r *rig) add(from, n int) {
	r.t.Helper()
	var documents []object
	for i := range n {
		documents = append(documents, object{"_id": fmt.Sprint("doc", from+i)})
	}
	if err := writeAll(r.source.url+"db", documents, true); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) body(more string) string {
	return fmt.Sprintf(`{"source":%q,"target":%q,"create_target":true%s}`, r.source.url+"db",
		r.target.url+"copy", more)
}

func (r *rig) same() {
	r.t.Helper()
	if _, err := compare.Databases(r.t.Context(), r.source.url+"db", r.target.url+"copy"); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) docState(id string) string {
	_, view := r.call("GET", "_scheduler/docs/_replicator/"+id, "")
	state, _ := view["state"].(string)
	return state
}
