package couch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// TestRequestTimeout: a request whose answer comes in time, but slowly, ends when the whole takes too long. The changes
// feed may take as long as it likes.
func TestRequestTimeout(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		for _, part := range []string{`{"results":[`, ` `, ` `, ` `, ` `, `],"last_seq":"1-a","update_seq":"1-a"}`} {
			time.Sleep(testTimeout - time.Second)
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}
	for _, limit := range []time.Duration{0, testTimeout - 5*time.Second, time.Hour} {
		inRigWith(t, Options{RequestTimeout: limit}, slow, says(201, "{}"), func(r *rig) {
			must[peer.Changes](r, peer.ReadChanges{Since: peer.Zero, Limit: 10})
			start := time.Now()
			f := r.do(peer.GetFilter{DesignDoc: "a", Name: "b"}).Failure
			if limit > 0 && limit < testTimeout {
				if f == nil || f.Kind != peer.TimedOut || time.Since(start) != limit {
					t.Errorf("limit %s: %v after %s", limit, f, time.Since(start))
				}
			} else if f == nil || f.Reason == errLong.Error() || time.Since(start) < testTimeout {
				t.Errorf("limit %s: %v after %s", limit, f, time.Since(start))
			}
		})
	}
}

// ringing is a clock that counts how often its timers call.
type ringing struct {
	*clock.Mock
	calls atomic.Int32
}

func (c *ringing) AfterFunc(d time.Duration, f func()) *clock.Timer {
	return c.Mock.AfterFunc(d, func() { c.calls.Add(1); f() })
}

// TestTimersEnd: a request that is over leaves no timer, which would keep the request in memory.
func TestTimersEnd(t *testing.T) {
	c := &ringing{Mock: clock.NewMock()}
	inRigWith(t, Options{Clock: c, RequestTimeout: time.Minute}, says(200, `{"update_seq":1}`), says(500, "{}"),
		func(r *rig) {
			must[peer.Opened](r, peer.Open{})
			r.do(peer.Open{Side: peer.Target})
			r.net.close()
			r.do(peer.Open{})
			c.Mock.Add(time.Hour)
			if n := c.calls.Load(); n > 0 {
				t.Errorf("%d timers are left", n)
			}
		})
}

// TestIdleTimeout: a connection that was not used for as long is not used again.
func TestIdleTimeout(t *testing.T) {
	for pause, dials := range map[time.Duration]int{4 * time.Second: 1, 6 * time.Second: 2} {
		inRigWith(t, Options{IdleTimeout: 5 * time.Second}, says(200, `{"update_seq":"1-a"}`), nil, func(r *rig) {
			must[peer.Opened](r, peer.Open{})
			time.Sleep(pause)
			must[peer.Opened](r, peer.Open{})
			if r.net.dials != dials {
				t.Errorf("%d connections after a pause of %s, want %d", r.net.dials, pause, dials)
			}
		})
	}
}

// TestAttempts: each request is counted with what it was about, and what came of it.
func TestAttempts(t *testing.T) {
	var got []string
	count := func(a Attempt) { got = append(got, fmt.Sprint(a.Server, " ", a.Operation, " ", a.Status, " ", a.Kind)) }
	inRigWith(t, Options{Attempted: count}, says(404, `{}`), raw("HTTP/1.1 200 OK\r\nbad\r\n\r\n"), func(r *rig) {
		r.do(peer.GetLocal{ID: "x"})
		r.do(peer.Open{Side: peer.Target})
	})
	inRigWith(t, Options{Attempted: count}, says(407, ""), nil, func(r *rig) { r.do(peer.Open{}) })
	want := []string{
		fmt.Sprint("source.test checkpoint 404 ", peer.Status),
		fmt.Sprint("target.test database 0 ", peer.Malformed),
		fmt.Sprint("source.test database 407 ", peer.Kind(0)),
	}
	if !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

// TestPlainHTTP tells of each endpoint without TLS, without its user.
func TestPlainHTTP(t *testing.T) {
	var told []string
	tell := func(side peer.Side, url string) { told = append(told, fmt.Sprint(side, " ", url)) }
	inRigWith(t, Options{PlainHTTP: tell}, nil, nil, func(r *rig) {
		if want := []string{"target http://target.test/db/"}; !slices.Equal(told, want) {
			t.Errorf("%q, want %q", told, want)
		}
	}, func(rep *spec.Replication) { rep.Source.URL = "https://source.test/db/" })
}

// TestProfiles: an endpoint connects with the TLS profile that it names. If there is no such profile, it does not
// connect.
func TestProfiles(t *testing.T) {
	var asked []string
	client := New(Options{TLS: func(name string) (*tls.Config, error) {
		asked = append(asked, name)
		if name == "none" {
			return nil, errors.New("no [tls none] is configured")
		}
		return &tls.Config{}, nil
	}})
	defer client.Close()
	rep := testReplication()
	rep.Source.TLS = "partner"
	pair, err := client.Pair(rep)
	if err != nil || !slices.Equal(asked, []string{"partner", ""}) {
		t.Fatalf("%q, %v", asked, err)
	}
	pair.Close()
	rep.Target.TLS = "none"
	if _, err := client.Pair(rep); err == nil || err.Error() != "target endpoint: no [tls none] is configured" {
		t.Error(err)
	}
	if n := len(client.transports); n > 0 {
		t.Errorf("%d pools are left", n)
	}
}
