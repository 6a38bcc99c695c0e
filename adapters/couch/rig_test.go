package couch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

const (
	testTimeout  = 30 * time.Second
	testUser     = "anna"
	testPassword = "s3cr3t+pa/ss"
)

// rig is a pair between two servers in memory. Inside a synctest bubble time is virtual and passes only when
// every goroutine waits; a goroutine that is left at the end fails the test.
type rig struct {
	t      *testing.T
	net    *memNet
	client *Client
	pair   *Pair
}

// inRig runs a test in a bubble between two servers; nil stands for one that is never asked.
func inRig(t *testing.T, source, target http.HandlerFunc, test func(r *rig),
	changes ...func(*spec.Replication)) {
	t.Helper()
	inRigWith(t, Options{}, source, target, test, changes...)
}

// always is one TLS configuration for all.
func always(c *tls.Config) func(string) (*tls.Config, error) {
	if c == nil {
		return nil
	}
	return func(string) (*tls.Config, error) { return c, nil }
}

// inRigWith is inRig for a client with options.
func inRigWith(t *testing.T, o Options, source, target http.HandlerFunc, test func(r *rig),
	changes ...func(*spec.Replication)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, net: &memNet{listeners: map[string]*memListener{}}}
		defer r.net.close()
		r.net.serve("source.test:80", source)
		r.net.serve("target.test:80", target)
		rep := testReplication()
		for _, change := range changes {
			change(&rep)
		}
		o.Version, o.Dial = "0.1", r.net.dial
		r.client = New(o)
		var err error
		if r.pair, err = r.client.Pair(rep); err != nil {
			t.Fatal(err)
		}
		defer r.client.Close()
		defer r.pair.Close()
		test(r)
	})
}

func testReplication() spec.Replication {
	e := spec.Endpoint{Timeout: testTimeout, Connections: 4,
		Credentials: spec.NewCredentials(testUser, testPassword)}
	rep := spec.Replication{Source: e, Target: e}
	rep.Source.URL, rep.Target.URL = "http://source.test/db/", "http://target.test/db/"
	return rep
}

func (r *rig) do(op peer.Op) peer.Reply {
	r.t.Helper()
	before := fmt.Sprintf("%#v", op)
	reply := r.pair.Do(context.Background(), 1, op)
	if after := fmt.Sprintf("%#v", op); after != before { // the run that asked still has it
		r.t.Errorf("%s was changed to %s", before, after)
	}
	return r.check(reply)
}

// check fails the test if a reply holds a secret, or texts longer than the bounds.
func (r *rig) check(reply peer.Reply) peer.Reply {
	r.t.Helper()
	if f := reply.Failure; f != nil {
		for _, secret := range []string{testPassword, "s3cr3t", "YW5uYTpzM2NyM3QrcGEvc3M="} {
			if strings.Contains(f.String()+f.Error+f.URL, secret) {
				r.t.Errorf("secret shown: %s", f)
			}
		}
		if len(f.Reason) > maxReason+3 || len(f.Error) > maxReason+3 {
			r.t.Errorf("reason of %d bytes", len(f.Reason))
		}
	}
	return reply
}

// must returns the result of an operation that succeeds.
func must[R peer.Result](r *rig, op peer.Op) R {
	r.t.Helper()
	reply := r.do(op)
	if reply.Failure != nil {
		r.t.Fatalf("%s: %s", op, reply.Failure)
	}
	return reply.Result.(R)
}

// memNet is a network in memory. Its connections have no buffers: a writer waits for its reader.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	servers   []*http.Server
	handlers  sync.WaitGroup
	dials     int
}

func (n *memNet) serve(address string, handler http.HandlerFunc) {
	if handler == nil {
		handler = func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "nobody should ask "+r.Method+" "+r.URL.String(), http.StatusTeapot)
		}
	}
	l := &memListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.handlers.Add(1)
		defer n.handlers.Done()
		isJSON := r.Header.Get("Content-Type") == jsonBody.Value
		if r.Method == "POST" && !isJSON && path.Base(r.URL.Path) != "_session" {
			says(415, `{"error":"bad_content_type"}`)(w, r) // as CouchDB does
			return
		}
		handler(w, r)
	})}
	n.listeners[address], n.servers = l, append(n.servers, s)
	go func() { _ = s.Serve(l) }()
}

func (n *memNet) close() {
	for _, s := range n.servers {
		s.Close()
	}
	synctest.Wait() // for handlers that are about to begin
	n.handlers.Wait()
	time.Sleep(time.Minute) // in false time: net/http's server lingers on connections that it closes
}

func (n *memNet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.dials++
	n.mu.Unlock()
	if address == "blackhole.test:80" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- memConn{theirs}:
		return memConn{ours}, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memConn fails as TCP does when the other side has closed.
type memConn struct{ net.Conn }

func (c memConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = syscall.EPIPE
	}
	return n, err
}

type memListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memListener) Addr() net.Addr { return &net.TCPAddr{} }

// says answers every request with a status and a body.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// raw answers with bytes as they are and closes.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hijack(w, answer).Close()
	}
}

func hijack(w http.ResponseWriter, answer string) net.Conn {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, answer)
	return conn
}
