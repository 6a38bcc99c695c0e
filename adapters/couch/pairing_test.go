package couch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// A document with attachments has two connections in step. These tests let each side stop first, in
// every way. That no goroutine is left behind, and that nothing waits for ever, is checked by the
// bubble that they run in.

const bigSize = 1 << 20

var bigAtt = att{name: "big", kind: "application/octet-stream", length: bigSize}

// streams is a source of one revision with a big attachment, of which it sends up to stop bytes, and
// of more parts behind it. Then it calls halt, if it is not at the end.
type streams struct {
	stop  int
	after string
	halt  func(w http.ResponseWriter, r *http.Request)
	ended chan error // how writing ended
}

func (s *streams) serve(w http.ResponseWriter, r *http.Request) {
	m := new(mixed).part(docWith("2-b", bigAtt), att{name: "big", kind: bigAtt.kind})
	head := strings.TrimSuffix(m.out.String(), "\r\n--inner--")
	w.Header().Set("Content-Type", `multipart/mixed; boundary="outer"`)
	_, err := io.WriteString(w, strings.TrimPrefix(head, "\r\n"))
	chunk := bytes.Repeat([]byte("x"), 16<<10)
	for sent := 0; err == nil && sent < s.stop; sent += len(chunk) {
		_, err = w.Write(chunk)
	}
	w.(http.Flusher).Flush()
	if s.stop < bigSize {
		s.halt(w, r)
	} else if err == nil {
		_, err = io.WriteString(w, "\r\n--inner--"+s.after+"\r\n--outer--")
	}
	s.ended <- err
}

func whole(after string) *streams {
	return &streams{stop: bigSize, after: after, ended: make(chan error, 1)}
}

// pairing is how one test ends.
type pairing struct {
	failure string // as printed, or empty
	side    peer.Side
	revs    []peer.CopiedRev
	took    time.Duration
}

func (p pairing) run(t *testing.T, s *streams, target http.HandlerFunc, revs ...string) {
	t.Helper()
	inRig(t, s.serve, target, func(r *rig) {
		start := time.Now()
		reply := r.do(peer.CopyDoc{ID: "doc", Revs: append(revs, "2-b")})
		took := time.Since(start)
		f := reply.Failure
		if (f != nil) != (p.failure != "") ||
			f != nil && (f.Side != p.side || !strings.Contains(f.String(), p.failure)) {
			t.Errorf("failure %v, want %s of %s", f, p.failure, p.side)
		}
		if got := reply.Result.(peer.Copied).Revs; !reflect.DeepEqual(got, p.revs) {
			t.Errorf("revisions %+v", got)
		}
		if took < p.took || took > p.took+time.Second {
			t.Errorf("took %v, want %v", took, p.took)
		}
		<-s.ended
	})
}

func refused(rev string, status int) []peer.CopiedRev {
	return []peer.CopiedRev{{Rev: rev,
		Refused: &peer.Refusal{ID: "doc", Rev: rev, Status: status, Error: "too_large"}}}
}

// refuses reads some of the body, answers 413 and then calls rest.
func refuses(read int64, rest func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, read)
		body := `{"error":"too_large"}`
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, body)
		_ = control.Flush()
		rest(w, r)
	}
}

func closes(w http.ResponseWriter, _ *http.Request) { hijack(w, "").Close() }

// goesOnReading reads the whole body, although it has answered.
func goesOnReading(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// readsNoMore leaves the connection open until the client ends it. A connection in memory notices that
// only by reading, so it reads a byte a second.
func readsNoMore(w http.ResponseWriter, _ *http.Request) {
	conn := hijack(w, "")
	for one := make([]byte, 1); ; time.Sleep(time.Second) {
		if _, err := conn.Read(one); err != nil {
			conn.Close()
			return
		}
	}
}

var rests = map[string]func(w http.ResponseWriter, r *http.Request){"closes": closes,
	"reads on": goesOnReading, "reads no more": readsNoMore}

func TestPairingWhole(t *testing.T) {
	target := &writes{t: t}
	pairing{revs: []peer.CopiedRev{{Rev: "2-b"}}}.run(t, whole(""), target.serve)
	if len(target.list) != 1 || len(target.list[0].atts) != 1 || len(target.list[0].atts[0].data) != bigSize {
		t.Errorf("wrote %d documents", len(target.list))
	}
}

func TestPairingTargetRefuses(t *testing.T) {
	for name, rest := range rests {
		for _, read := range []int64{0, 1, 1000, bigSize / 2} {
			t.Run(fmt.Sprint(name, " after ", read), func(t *testing.T) {
				pairing{revs: refused("2-b", 413)}.run(t, whole(""), refuses(read, rest))
			})
		}
	}
}

// TestPairingTargetRefusesAndMoreFollows: the next revision arrives although the one before was
// refused half-way.
func TestPairingTargetRefusesAndMoreFollows(t *testing.T) {
	for name, rest := range rests {
		t.Run(name, func(t *testing.T) {
			puts := 0
			target := func(w http.ResponseWriter, r *http.Request) {
				if puts++; puts == 1 {
					refuses(1000, rest)(w, r)
					return
				}
				body, _ := io.ReadAll(r.Body)
				if string(body) != docWith("3-c") {
					t.Errorf("then wrote %d bytes", len(body))
				}
				says(201, `{"ok":true}`)(w, r)
			}
			follows := strings.TrimSuffix(new(mixed).part(docWith("3-c")).out.String(), "\r\n--outer--")
			pairing{revs: append(refused("2-b", 413), peer.CopiedRev{Rev: "3-c"})}.run(t,
				whole(follows), target, "3-c")
		})
	}
}

// TestPairingTargetRefusesWhileSourceIsSilent: the target's answer ends the wait for the source.
func TestPairingTargetRefusesWhileSourceIsSilent(t *testing.T) {
	s := &streams{stop: 64 << 10, ended: make(chan error, 1),
		halt: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	pairing{revs: refused("2-b", 413), took: 5 * time.Second}.run(t, s,
		func(w http.ResponseWriter, r *http.Request) {
			read := make(chan bool)
			go func() {
				_, _ = io.Copy(io.Discard, r.Body)
				close(read)
			}()
			time.Sleep(5 * time.Second)
			refuses(0, func(http.ResponseWriter, *http.Request) { <-read })(w, r)
		})
}

func TestPairingTargetBreaks(t *testing.T) {
	for _, read := range []int64{0, 1000, bigSize / 2} {
		pairing{failure: "connection_closed", side: peer.Target}.run(t, whole(""),
			func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, read)
				hijack(w, "").Close()
			})
	}
}

func TestPairingTargetIsSilent(t *testing.T) {
	for _, read := range []int64{0, 1000, bigSize + 1000} {
		pairing{failure: "timeout", side: peer.Target, took: testTimeout}.run(t, whole(""),
			func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, read)
				readsNoMore(w, r)
			})
	}
}

// TestPairingTargetLies: an answer of success before the whole document was sent is a failure.
func TestPairingTargetLies(t *testing.T) {
	pairing{failure: "malformed_response: answered success before it had the request",
		side: peer.Target}.run(t, whole(""), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		hijack(w, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}").Close()
	})
}

// TestPairingTargetIsSlow: a target that takes its time, always less than the timeout, is waited for,
// and the source is not blamed for what it could not send.
func TestPairingTargetIsSlow(t *testing.T) {
	const steps = 16
	pairing{revs: []peer.CopiedRev{{Rev: "2-b"}}, took: steps * (testTimeout - time.Second)}.run(t,
		whole(""), func(w http.ResponseWriter, r *http.Request) {
			for range steps {
				_, _ = io.CopyN(io.Discard, r.Body, bigSize/steps)
				time.Sleep(testTimeout - time.Second)
			}
			says(201, `{"ok":true}`)(w, r)
		})
}

// TestPairingSourceIsSlow: a slow source is waited for as well, and the target is not blamed.
func TestPairingSourceIsSlow(t *testing.T) {
	s := &streams{stop: bigSize / 2, ended: make(chan error, 1)}
	s.halt = func(w http.ResponseWriter, _ *http.Request) {
		const steps = 16
		for range steps {
			time.Sleep(testTimeout - time.Second)
			_, _ = w.Write(make([]byte, bigSize/2/steps))
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, "\r\n--inner--\r\n--outer--")
	}
	pairing{revs: []peer.CopiedRev{{Rev: "2-b"}}, took: 16 * (testTimeout - time.Second)}.run(t,
		s, (&writes{t: t}).serve)
}

// TestPairingBothAreSlow: the time that one side takes does not count against the other.
func TestPairingBothAreSlow(t *testing.T) {
	const steps, pause = 8, testTimeout * 2 / 3
	s := &streams{ended: make(chan error, 1)}
	s.halt = func(w http.ResponseWriter, _ *http.Request) {
		for range steps {
			time.Sleep(pause)
			_, _ = w.Write(make([]byte, bigSize/steps))
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, "\r\n--inner--\r\n--outer--")
	}
	pairing{revs: []peer.CopiedRev{{Rev: "2-b"}}, took: (steps + 2) * pause}.run(t, s,
		func(w http.ResponseWriter, r *http.Request) {
			for range steps {
				_, _ = io.CopyN(io.Discard, r.Body, bigSize/steps)
				time.Sleep(pause)
			}
			says(201, `{"ok":true}`)(w, r)
		})
}

func TestPairingSourceStops(t *testing.T) {
	for name, c := range map[string]struct {
		halt func(w http.ResponseWriter, r *http.Request)
		p    pairing
	}{
		"breaks": {func(w http.ResponseWriter, _ *http.Request) { hijack(w, "").Close() },
			pairing{failure: "connection_closed"}},
		"ends": {func(http.ResponseWriter, *http.Request) {}, pairing{failure: "connection_closed"}},
		"is silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			pairing{failure: "timeout", took: testTimeout}},
	} {
		for _, stop := range []int{0, 16 << 10, bigSize / 2} {
			t.Run(fmt.Sprint(name, " after ", stop), func(t *testing.T) {
				c.p.run(t, &streams{stop: stop, halt: c.halt, ended: make(chan error, 1)},
					func(w http.ResponseWriter, r *http.Request) {
						if _, err := io.Copy(io.Discard, r.Body); err == nil {
							t.Error("the target believes that it has everything")
						}
					})
			})
		}
	}
}

func TestPairingCancel(t *testing.T) {
	halt := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, s := range map[string]*streams{
		"source is silent": {stop: 64 << 10, halt: halt, ended: make(chan error, 1)},
		"target is silent": whole(""),
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, s.serve, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, 32<<10)
				readsNoMore(w, r)
			}, func(r *rig) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				start := time.Now()
				f := r.pair.Do(ctx, 1, peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}}).Failure
				if f == nil || f.Kind != peer.Cancelled || time.Since(start) != time.Second {
					t.Errorf("%v after %v", f, time.Since(start))
				}
				<-s.ended
			})
		})
	}
}

// TestRefusalSurvivesReset is about real connections: a server that answers and closes while we write
// makes the next write fail, and what it answered must still be read.
func TestRefusalSurvivesReset(t *testing.T) {
	s := whole("")
	s.ended = make(chan error, 1000)
	source := httptest.NewServer(http.HandlerFunc(s.serve))
	defer source.Close()
	target := httptest.NewServer(refuses(1000, closes)) // bytes left unread turn the close into a reset
	defer target.Close()
	rep := testReplication()
	rep.Source.URL, rep.Target.URL = source.URL+"/db/", target.URL+"/db/"
	rep.Target.SocketOptions = spec.SocketOptions{NoDelay: true}
	client := New(Options{})
	pair, err := client.Pair(rep)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	for range 200 {
		reply := pair.Do(context.Background(), 1, peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}})
		if got := reply.Result.(peer.Copied).Revs; reply.Failure != nil ||
			!reflect.DeepEqual(got, refused("2-b", 413)) {
			t.Fatalf("%+v %v", got, reply.Failure)
		}
	}
}
