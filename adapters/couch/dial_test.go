package couch

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"couchrelay/adapters/descriptors"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// accepts lets a function have each connection to an address. It closes them.
func (n *memNet) accepts(address string, talk func(net.Conn)) (stop func()) {
	l := &memListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			talk(conn)
			conn.Close()
		}
	}()
	return func() { l.Close() }
}

// TestHandshakeBreaksOff: a proxy that closes during the handshake is a failed connection, at once. No
// goroutine stays behind, which the bubble checks.
func TestHandshakeBreaksOff(t *testing.T) {
	for name, c := range map[string]struct {
		source, proxy string
		talk          func(net.Conn)
		kind          peer.Kind
	}{
		"SOCKS": {"http://source.test/db/", "socks5://proxy.test:1080", func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 3))
			_, _ = conn.Write([]byte{5, 0}) // what we say next meets a closed connection
		}, peer.Unreachable},
		"CONNECT": {"https://source.test/db/", "http://proxy.test:1080", func(net.Conn) {}, peer.Broken},
		"TLS":     {"https://proxy.test:1080/db/", "", func(net.Conn) {}, peer.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, nil, func(r *rig) {
				defer r.net.accepts("proxy.test:1080", c.talk)()
				start := time.Now()
				for range 3 {
					if f := r.do(peer.Open{}).Failure; f == nil || f.Kind != c.kind {
						t.Errorf("%v", f)
					}
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("took %v", took)
				}
			}, func(rep *spec.Replication) {
				if rep.Source.URL = c.source; c.proxy != "" {
					rep.Source.Proxy = &spec.Proxy{URL: c.proxy}
				}
			})
		})
	}
}

// TestSilentHandshake: the connection to a proxy or server that says nothing in the handshake is closed, too, though
// no request waits for it any more. The limit of the handshake does not end a connection through SOCKS that is in use.
func TestSilentHandshake(t *testing.T) {
	for name, c := range map[string]struct{ source, proxy string }{
		"SOCKS":   {"http://source.test/db/", "socks5://proxy.test:1080"},
		"CONNECT": {"https://source.test/db/", "http://proxy.test:1080"},
		"TLS":     {"https://proxy.test:1080/db/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, nil, func(r *rig) {
				var closed atomic.Bool
				defer r.net.accepts("proxy.test:1080", func(conn net.Conn) {
					_, _ = io.Copy(io.Discard, conn)
					closed.Store(true)
				})()
				if f := r.do(peer.Open{}).Failure; f == nil {
					t.Error("no failure")
				}
				time.Sleep(2 * dialTimeout)
				if !closed.Load() {
					t.Error("the connection is still open")
				}
			}, func(rep *spec.Replication) {
				if rep.Source.URL = c.source; c.proxy != "" {
					rep.Source.Proxy = &spec.Proxy{URL: c.proxy}
				}
			})
		})
	}
	socks := func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 3))
		_, _ = conn.Write([]byte{5, 0})
		_, _ = io.ReadFull(conn, make([]byte, 5+len("source.test")+2))
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		for in := bufio.NewReader(conn); ; {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			time.Sleep(testTimeout - time.Second) // in false time
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{\"update_seq\":\"1\"}")
		}
	}
	inRig(t, nil, nil, func(r *rig) {
		defer r.net.accepts("proxy.test:1080", socks)()
		for range 3 {
			must[peer.Opened](r, peer.Open{})
		}
		if r.net.dials != 1 {
			t.Errorf("%d connections", r.net.dials)
		}
	}, func(rep *spec.Replication) { rep.Source.Proxy = &spec.Proxy{URL: "socks5://proxy.test:1080"} })
}

// TestTLSBreaksOff: TLS's farewell to a server that is gone blocks nothing, neither while a request is on its
// way nor when its answer is given up.
func TestTLSBreaksOff(t *testing.T) {
	certificates := httptest.NewTLSServer(nil)
	server := certificates.TLS.Clone()
	certificates.Close()
	server.NextProtos = nil
	for name, c := range map[string]struct {
		answer string
		kind   peer.Kind
	}{
		"no answer":   {"", peer.Broken},
		"half answer": {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", peer.Broken},
		"a lie":       {"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n{\"update_seq\":", peer.Broken},
		"a refusal":   {"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}", peer.Status},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, nil, func(r *rig) {
				defer r.net.accepts("source.test:443", func(conn net.Conn) {
					secure := tls.Server(conn, server)
					if _, err := http.ReadRequest(bufio.NewReader(secure)); err != nil {
						t.Error(err)
					}
					_, _ = io.WriteString(secure, c.answer)
				})()
				rep := testReplication()
				rep.Source.URL = "https://source.test/db/"
				client := New(Options{Dial: r.net.dial, TLS: always(&tls.Config{InsecureSkipVerify: true})})
				defer client.Close()
				pair, err := client.Pair(rep)
				if err != nil {
					t.Fatal(err)
				}
				defer pair.Close()
				start := time.Now()
				f := r.check(pair.Do(context.Background(), 1, peer.Open{})).Failure
				if took := time.Since(start); f == nil || f.Kind != c.kind || took != 0 {
					t.Errorf("%v after %v", f, took)
				}
			})
		})
	}
}

// TestNoFiles: where connections would take the files of the store, none is opened, and one that is closed, or was not
// opened, makes room for another.
func TestNoFiles(t *testing.T) {
	failure := error(nil)
	c := New(Options{Files: descriptors.New(8), Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, _ := net.Pipe()
		return ours, failure
	}})
	dial := func() (net.Conn, error) {
		return c.dialer(route{policy: &everywhere})(t.Context(), "tcp", "source.test:80")
	}
	var open []net.Conn
	full := func(most int) {
		t.Helper()
		for {
			conn, err := dial()
			op, is := errors.AsType[*net.OpError](err)
			if is && op.Op == "dial" && op.Err == descriptors.ErrNone && len(open) == most {
				return
			}
			if err != nil || len(open) > most {
				t.Fatalf("%d connections: %v", len(open), err)
			}
			open = append(open, conn)
		}
	}
	full(2)
	_, _ = open[0].Close(), open[0].Close()
	open = open[1:]
	failure = syscall.ECONNREFUSED
	for range 5 {
		if _, err := dial(); !errors.Is(err, failure) {
			t.Fatal(err)
		}
	}
	failure = nil
	full(2)
}

// TestOptionsRefused: a connection that cannot have the options of its endpoint is closed.
func TestOptionsRefused(t *testing.T) {
	defer func(set func(*net.TCPConn, int) error) { setPriority = set }(setPriority)
	setPriority = func(*net.TCPConn, int) error { return syscall.EPERM }
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c := New(Options{})
	dial := c.dialer(route{policy: &everywhere, socket: spec.SocketOptions{Priority: 7}})
	if _, err := dial(t.Context(), "tcp", server.Addr().String()); !errors.Is(err, syscall.EPERM) {
		t.Fatal(err)
	}
	conn, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is still open: %v", err)
	}
}

// TestIdleGivesWay: connections that are kept for later requests to one server are closed before a job of another one
// is refused a connection.
func TestIdleGivesWay(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	c := New(Options{Files: descriptors.New(16)})
	t.Cleanup(c.Close)
	for n := range 10 {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		transport, r, err := c.acquire(spec.Endpoint{}, &everywhere)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.release(r) })
		response, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err != nil {
			t.Fatalf("server %d: %v", n, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}
