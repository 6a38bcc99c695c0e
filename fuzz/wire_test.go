package fuzz

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"couchrelay/adapters/couch"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

const password = "s3cr3t+pa/ss"

// wire is a network in memory with one server at its other end. answer returns the bytes of the server's
// answer to a request. They travel in pieces of a size, or whole if it is 0.
type wire struct {
	answer func(r *http.Request, body []byte) []byte
	piece  int
}

// serve answers the requests of one connection until one of them is broken.
func (w wire) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		rest := w.answer(r, body)
		for len(rest) > 0 {
			n := len(rest)
			if w.piece > 0 {
				n = min(n, w.piece)
			}
			if _, err := conn.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		if r.Close {
			return
		}
	}
}

// says is a whole answer.
func says(status int, kind string, body []byte) []byte {
	head := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		status, kind, len(body))
	return append([]byte(head), body...)
}

// pair runs test with a client whose both endpoints are the wire's server.
func (w wire) pair(t *testing.T, test func(do func(peer.Op) peer.Reply)) {
	client := couch.New(couch.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go w.serve(theirs)
		return ours, nil
	}})
	defer client.Close()
	e := spec.Endpoint{Timeout: 10 * time.Second, Connections: 2,
		Credentials: spec.NewCredentials("anna", password)}
	r := spec.Replication{Source: e, Target: e}
	r.Source.URL, r.Target.URL = "http://source.test/db/", "http://target.test/db/"
	p, err := client.Pair(r)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	test(func(op peer.Op) peer.Reply {
		reply := p.Do(t.Context(), 1, op)
		checkReply(t, reply)
		return reply
	})
}

// checkReply checks that there is a result or a failure, and that a failure is one line of bounded size
// without the password.
func checkReply(t *testing.T, reply peer.Reply) {
	t.Helper()
	f := reply.Failure
	if f == nil {
		if reply.Result == nil {
			t.Fatal("neither a result nor a failure")
		}
		return
	}
	text := f.String()
	switch {
	case f.Kind == peer.TimedOut || f.Kind == peer.Cancelled:
		t.Fatalf("it hung: %s", text)
	case strings.Contains(text, password):
		t.Fatalf("the password is in %q", text)
	case len(text) > 1000 || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		t.Fatalf("no line of text: %q", text)
	case f.RetryAfter < 0:
		t.Fatalf("retry after %s", f.RetryAfter)
	}
}

// once answers every request with the same JSON.
func once(body []byte, piece int) wire {
	return wire{func(*http.Request, []byte) []byte { return says(200, "application/json", body) }, piece}
}

// FuzzRefusal answers a request for a checkpoint with any status, headers and body.
func FuzzRefusal(f *testing.F) {
	for _, answer := range recordings(f, "failure_*") {
		f.Add(404, "Content-Type: "+answer.kind, []byte(answer.body))
	}
	f.Add(429, "Retry-After: 120", []byte(`{"error":"too_many_requests","reason":"wait, `+password+`"}`))
	f.Add(503, "Retry-After: Wed, 21 Oct 2099 07:28:00 GMT",
		[]byte("<html><head><title>Bad\n gateway &amp; more</title></head></html>"))
	f.Add(500, "Retry-After: -5\r\nConnection: close", []byte(`{"error":{"deep":[1]},"reason":null}`))
	f.Add(301, "Location: http://other.test/db/_local/x", []byte(``))
	f.Add(200, "Transfer-Encoding: chunked", []byte("5\r\n{\"_id\r\n"))
	f.Fuzz(func(t *testing.T, status int, headers string, body []byte) {
		answer := append(fmt.Appendf(nil, "HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n\r\n",
			status, len(body), headers), body...)
		w := wire{answer: func(r *http.Request, _ []byte) []byte { r.Close = true; return answer }}
		w.pair(t, func(do func(peer.Op) peer.Reply) {
			reply := do(peer.GetLocal{ID: "x"})
			if failure := reply.Failure; failure != nil {
				if failure.Kind == peer.Status && failure.Status == http.StatusOK {
					t.Fatalf("%s", failure)
				}
				return
			}
			if got := reply.Result.(peer.Local); got.Found &&
				!bytes.HasPrefix(bytes.TrimSpace(got.Body), []byte("{")) {
				t.Fatalf("%s is a document", got.Body)
			}
		})
	})
}
