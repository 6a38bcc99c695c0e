package couch

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// everyOp is one operation of each kind.
var everyOp = []peer.Op{
	peer.Open{}, peer.Create{}, peer.GetLocal{ID: "x"}, peer.PutLocal{ID: "x", Body: []byte("{}")},
	peer.GetFilter{DesignDoc: "d", Name: "f"},
	peer.ReadChanges{Since: peer.Zero, Limit: 10}, peer.ReadChanges{Since: peer.Zero, Limit: 10, Wait: true},
	peer.DiffRevs{Docs: []peer.DocRevs{{ID: "a", Revs: []string{"1-a"}}}},
	peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}, Budget: 100},
	peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}, peer.Commit{}, peer.CountPending{Since: peer.Zero},
	peer.CountPending{Since: `"x"`}, peer.FindRev{ID: "a", Revs: []string{"1-a"}}, peer.ReadNewest{},
}

// TestBadAnswers gives every operation every kind of answer that no CouchDB gives.
func TestBadAnswers(t *testing.T) {
	endless := func(start, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, start)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(more, 1000)); err != nil {
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		kinds  []peer.Kind
		body   bool // matters only when the body is read
	}{
		{"no HTTP", raw("220 mail.test ESMTP\r\n"), []peer.Kind{peer.Malformed}, false},
		{"nothing", raw(""), []peer.Kind{peer.Broken}, false},
		{"half a header", raw("HTTP/1.1 200 OK\r\nContent-Le"), []peer.Kind{peer.Broken, peer.Malformed},
			false},
		{"long header", raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeaderBytes)),
			[]peer.Kind{peer.Malformed}, false},
		{"bad header", raw("HTTP/1.1 200 OK\r\n\x00: x\r\n\r\n{}"), []peer.Kind{peer.Malformed, peer.Broken},
			false},
		{"no length", raw("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}"),
			[]peer.Kind{peer.Malformed, peer.Broken}, false},
		{"HTML", raw("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 31\r\n\r\n" +
			"<html><title>T</title></html>\r\n"), []peer.Kind{peer.Malformed}, true},
		{"text", says(200, "It works!"), []peer.Kind{peer.Malformed}, true},
		{"empty", says(200, ""), []peer.Kind{peer.Malformed}, true},
		{"a number", says(200, "17"), []peer.Kind{peer.Malformed}, true},
		{"cut", raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n   "), []peer.Kind{peer.Broken}, true},
		{"cut chunk", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n   "),
			[]peer.Kind{peer.Broken}, true},
		{"bad chunk", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"),
			[]peer.Kind{peer.Malformed}, true},
		{"bad gzip", raw("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip at all"),
			[]peer.Kind{peer.Broken, peer.Malformed}, true},
		{"deep", says(200, strings.Repeat(`{"a":[`, 20_000)), []peer.Kind{peer.Malformed, peer.Broken}, true},
		{"endless string", endless(`{"results":[{"id":"`, "x"), []peer.Kind{peer.Malformed}, true},
		{"endless space", endless("", " "), []peer.Kind{peer.Malformed}, true},
		{"400", says(400, `{"error":"bad_request","reason":"x"}`), []peer.Kind{peer.Status}, false},
		{"401 in HTML", says(401, "<html><body><h1>Login</h1>"), []peer.Kind{peer.Status}, false},
		{"500 endless", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			endless(`{"error":"`, "x")(w, r)
		}, []peer.Kind{peer.Status}, false},
		{"204", raw("HTTP/1.1 204 No Content\r\n\r\n"), []peer.Kind{peer.Status}, false},
		{"304", raw("HTTP/1.1 304 Not Modified\r\n\r\n"), []peer.Kind{peer.Status}, false},
		{"101", raw("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
			[]peer.Kind{peer.Status}, false},
		{"1xx for ever", raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10_000)),
			[]peer.Kind{peer.Malformed, peer.Broken}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, c.answer, c.answer, func(r *rig) {
				for _, op := range everyOp {
					reply := r.do(op)
					if reply.Failure == nil {
						t.Errorf("%s: succeeded with %+v", op, reply.Result)
						continue
					}
					found := false
					for _, kind := range c.kinds {
						found = found || reply.Failure.Kind == kind
					}
					if !found {
						t.Errorf("%s: %s, want %v", op, reply.Failure, c.kinds)
					}
				}
			})
		})
	}
}

// TestCutRefusals: an answer that breaks off before its word tells nothing, unless it refuses a body, which a server
// need not have read to the end.
func TestCutRefusals(t *testing.T) {
	for status, read := range map[int]peer.Kind{
		401: peer.Broken, 403: peer.Broken, 404: peer.Broken, 414: peer.Status, 500: peer.Status,
	} {
		cut := raw(fmt.Sprintf("HTTP/1.1 %d No\r\nContent-Length: 100\r\n\r\n{\"error\":\"not_f", status))
		inRig(t, cut, cut, func(r *rig) {
			for _, c := range []struct {
				op   peer.Op
				want peer.Kind
			}{
				{peer.GetLocal{ID: "x"}, read}, {peer.Open{}, read},
				{peer.PutLocal{ID: "x", Body: []byte("{}")}, peer.Status},
			} {
				if f := r.do(c.op).Failure; f == nil || f.Kind != c.want {
					t.Errorf("%s: %v, want %s", c.op, f, c.want)
				}
			}
		})
	}
}

// TestSilence lets every operation wait: for a connection, for an answer, and for the rest of one.
func TestSilence(t *testing.T) {
	silent := func(start string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			conn := hijack(w, start)
			_, _ = conn.Read(make([]byte, 1)) // until the client gives up
			conn.Close()
		}
	}
	for _, c := range []struct {
		name, answer string
		body         bool
	}{
		{"no answer", "", false},
		{"half a header", "HTTP/1.1 200 OK\r\nContent-", false},
		{"no body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", true},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n ", true},
		{"half a multipart", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n" +
			"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, silent(c.answer), silent(c.answer), func(r *rig) {
				for _, op := range everyOp {
					start := time.Now()
					reply := r.do(op)
					_, copies := op.(peer.CopyDoc)
					if strings.Contains(c.answer, "multipart") && !copies {
						continue
					}
					if reply.Failure == nil || reply.Failure.Kind != peer.TimedOut {
						t.Errorf("%s: %+v %v", op, reply.Result, reply.Failure)
					}
					if took := time.Since(start); took != testTimeout {
						t.Errorf("%s: gave up after %v", op, took)
					}
				}
			})
		})
	}
}

// TestCancel ends every operation at once while it waits.
func TestCancel(t *testing.T) {
	blocked := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, " ")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	inRig(t, blocked, blocked, func(r *rig) {
		for _, op := range everyOp {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			start := time.Now()
			reply := r.check(r.pair.Do(ctx, 1, op))
			cancel()
			if reply.Failure == nil || reply.Failure.Kind != peer.Cancelled ||
				time.Since(start) != time.Second {
				t.Errorf("%s: %v after %v", op, reply.Failure, time.Since(start))
			}
		}
	})
}

// TestTrickle: a server that sends a byte now and then is given up in the end, except by a feed.
func TestTrickle(t *testing.T) {
	trickle := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for _, c := range " " + strings.Repeat(" ", 1000) + `{"results":[]}` {
			if _, err := fmt.Fprintf(w, "%c", c); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-time.After(testTimeout - time.Second): // in false time
			case <-r.Context().Done():
			}
		}
	}
	inRig(t, trickle, trickle, func(r *rig) {
		for _, op := range everyOp {
			start := time.Now()
			reply := r.do(op)
			took := time.Since(start)
			if _, feed := op.(peer.ReadChanges); feed {
				if reply.Failure != nil || took < 8*time.Hour {
					t.Errorf("%s: %v after %v", op, reply.Failure, took)
				}
			} else if took > 20*testTimeout || reply.Failure == nil || reply.Failure.Kind != peer.TimedOut {
				t.Errorf("%s: %+v %v after %v", op, reply.Result, reply.Failure, took)
			}
		}
	})
}

func TestGzip(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("asked for encoding %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"update_seq":1}`)
		z.Close()
	}, nil, func(r *rig) {
		if got := must[peer.Opened](r, peer.Open{}); got.UpdateSeq != "1" {
			t.Errorf("%+v", got)
		}
	}, func(rep *spec.Replication) {
		rep.Source.Headers = []spec.Header{{Name: "accept-encoding", Value: spec.Hide("br")}}
	})
}

// TestGzipBomb: an answer that grows without end when it is unpacked is cut off.
func TestGzipBomb(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		zeros := []byte(strings.Repeat(" ", 1<<20))
		for r.Context().Err() == nil {
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
	}, nil, func(r *rig) {
		for _, op := range []peer.Op{peer.Open{}, peer.ReadChanges{Since: peer.Zero, Limit: 1}} {
			if f := r.do(op).Failure; f == nil || f.Kind != peer.Malformed {
				t.Errorf("%s: %v", op, f)
			}
		}
	})
}
