package couch

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"
)

func TestEscapeID(t *testing.T) {
	for id, want := range map[string]string{
		"plain-1_a.b:c": "plain-1_a.b:c", "a b": "a%20b", "a/b": "a%2Fb", "a+b": "a%2Bb", "a%2Fb": "a%252Fb",
		"ü":         "%C3%BC",
		"_design/x": "_design/x", "_design/x/y": "_design/x%2Fy", "_local/a/b": "_local/a%2Fb",
		"_design": "_design",
		"..":      "%2E%2E", ".": "%2E", "...": "...", "_design/..": "_design/%2E%2E", "?#&=": "%3F%23%26%3D",
		"~": "%7E", "\x00": "%00",
	} {
		if got := escapeID(id); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
}

// TestEscapedIDsArrive checks with net/url that a server which decodes the path gets the id back.
func TestEscapedIDsArrive(t *testing.T) {
	base, _ := url.Parse("http://h/a%2Fb/")
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.String().Filter(func(s string) bool { return s != "" && utf8.ValidString(s) }).Draw(t,
			"id")
		u, err := locate(base, request{path: escapeID(id)})
		if err != nil || u.Path != "/a/b/"+id || u.EscapedPath() != "/a%2Fb/"+escapeID(id) {
			t.Fatalf("%q: %v %v", id, u, err)
		}
	})
}

func TestEndpointURLs(t *testing.T) {
	for _, c := range []struct{ url, host, uri string }{
		{"http://source.test/db/", "source.test", "/db/_local/x"},
		{"http://source.test/db", "source.test", "/db/_local/x"},
		{"http://source.test:80/pre/fix/a%2Fb/", "source.test:80", "/pre/fix/a%2Fb/_local/x"},
		{"http://source.test/a%2F?a=b", "source.test", "/a%2F/_local/x?a=b"},
		{"http://source.test/db?a=b&c", "source.test", "/db/_local/x?a=b&c"},
		{"http://source.test/it's(odd)/", "source.test", "/it's(odd)/_local/x"},
	} {
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Host != c.host || r.RequestURI != c.uri {
				t.Errorf("%s: asked %s %s", c.url, r.Host, r.RequestURI)
			}
			says(200, "{}")(w, r)
		}, nil, func(r *rig) { must[peer.Local](r, peer.GetLocal{ID: "x"}) },
			func(rep *spec.Replication) { rep.Source.URL = c.url })
	}
}

func TestHeaders(t *testing.T) {
	var got http.Header
	var host string
	answer := func(w http.ResponseWriter, r *http.Request) {
		got, host = r.Header.Clone(), r.Host
		says(200, "{}")(w, r)
	}
	inRig(t, answer, nil, func(r *rig) {
		must[peer.Local](r, peer.GetLocal{ID: "x"})
		want := http.Header{
			"Accept": {"application/json"}, "User-Agent": {"couchrelay/0.1"}, "Accept-Encoding": {"gzip"},
			"Authorization": {"Basic YW5uYTpzM2NyM3QrcGEvc3M="},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("headers %v, want %v", got, want)
		}
	})
	inRig(t, answer, nil, func(r *rig) {
		r.do(peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}})
		want := http.Header{
			"Accept": {"x/y"}, "User-Agent": {"me"}, "Accept-Encoding": {"gzip"},
			"Authorization": {"Bearer tok"}, "X-Api": {"k1"},
			"Content-Type": {"application/json"}, "Content-Length": {got.Get("Content-Length")},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || host != "other.test" {
			t.Errorf("headers %v to %s, want %v", got, host, want)
		}
	}, func(rep *spec.Replication) {
		rep.Source.Credentials = spec.Credentials{}
		for name, value := range map[string]string{
			"accept": "x/y", "user-agent": "me", "authorization": "Bearer tok", "x-api": "k1",
			"HOST": "other.test", "content-type": "text/plain",
			"Content-Length": "7", "Transfer-Encoding": "chunked", "Connection": "close",
		} {
			rep.Source.Headers = append(rep.Source.Headers, spec.Header{Name: name, Value: spec.Hide(value)})
		}
	})
}

// TestSecretsOfHeaders: tokens that the user put into headers stay out of failures too.
func TestSecretsOfHeaders(t *testing.T) {
	inRig(t, says(401, `{"error":"bearer-tok","reason":"Bearer bearer-tok is wrong, so is k-e-y"}`),
		nil, func(r *rig) {
			f := r.do(peer.Open{}).Failure
			if f.Error != "*****" || f.Reason != "***** is wrong, so is *****" {
				t.Errorf("%s", f)
			}
		}, func(rep *spec.Replication) {
			rep.Source.Headers = []spec.Header{
				{Name: "Authorization", Value: spec.Hide("Bearer bearer-tok")},
				{Name: "X-Key", Value: spec.Hide("k-e-y")},
			}
		})
}

// TestSecretsOfQueries: a token in the URL of an endpoint stays out of failures, also where a server shows what it was
// asked for.
func TestSecretsOfQueries(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no "+r.RequestURI+" with to/ken+1 for "+r.URL.Query().Get("v"), http.StatusNotFound)
	}, nil, func(r *rig) {
		f := r.do(peer.GetLocal{ID: "x"}).Failure
		if f.Reason != "no /db/_local/x?key=*****&v=3&odd=***** with ***** for 3" {
			t.Errorf("%s", f)
		}
	}, func(rep *spec.Replication) { rep.Source.URL += "?key=to%2fken%2B1&v=3&odd=%zz45678" })
}

func TestFailureText(t *testing.T) {
	inRig(t, says(500, `{"error":"e","reason":"`+strings.Repeat("ü\\n", 400)+`"}`), nil, func(r *rig) {
		f := r.do(peer.GetLocal{ID: "x"}).Failure
		if f.Side != peer.Source || f.Method != "GET" || f.URL != "http://source.test/db/_local/x" ||
			f.Error != "e" {
			t.Errorf("%+v", f)
		}
		if len(f.Reason) > maxReason+3 || !utf8.ValidString(f.Reason) || strings.Contains(f.Reason, "\n") {
			t.Errorf("reason %q", f.Reason)
		}
	})
}

func TestUnreachable(t *testing.T) {
	inRig(t, nil, nil, func(r *rig) {
		for _, c := range []struct {
			op   peer.Op
			kind peer.Kind
		}{{peer.Open{}, peer.Unreachable}, {peer.Open{Side: peer.Target}, peer.Insecure}} {
			if f := r.do(c.op).Failure; f == nil || f.Kind != c.kind {
				t.Errorf("%s: %v", c.op, f)
			}
		}
	}, func(rep *spec.Replication) {
		rep.Source.URL = "http://nowhere.test/db/"
		rep.Target.URL = "https://target.test:80/db/" // speaks no TLS
	})
}

// TestNoConnection: connecting takes no longer than waiting for an answer, and is given up when the last
// request that wants the connection has ended.
func TestNoConnection(t *testing.T) {
	inRig(t, nil, nil, func(r *rig) {
		start := time.Now()
		f := r.do(peer.Open{}).Failure
		if f == nil || f.Kind != peer.TimedOut || time.Since(start) != testTimeout {
			t.Errorf("%v after %v", f, time.Since(start))
		}
	}, func(rep *spec.Replication) { rep.Source.URL = "http://blackhole.test/db/" })
}

// TestTLS: certificates are verified unless the process says otherwise.
func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(says(200, `{"update_seq":1}`))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	known := server.Client().Transport.(*http.Transport).TLSClientConfig
	for _, c := range []struct {
		name string
		tls  *tls.Config
		kind peer.Kind
		ok   bool
	}{
		{"default", nil, peer.Insecure, false},
		{"other name", &tls.Config{RootCAs: known.RootCAs, ServerName: "other.test"}, peer.Insecure, false},
		{"too old for us", &tls.Config{RootCAs: known.RootCAs, MaxVersion: tls.VersionTLS10,
			MinVersion: tls.VersionTLS10}, peer.Insecure, false},
		{"known", known, 0, true},
		{"not verified", &tls.Config{InsecureSkipVerify: true}, 0, true},
	} {
		rep := testReplication()
		rep.Source.URL = server.URL + "/db/"
		pair, err := New(Options{TLS: always(c.tls)}).Pair(rep)
		if err != nil {
			t.Fatal(err)
		}
		if f := pair.Do(context.Background(), 1, peer.Open{}).Failure; (f == nil) != c.ok ||
			f != nil && f.Kind != c.kind {
			t.Errorf("%s: %v", c.name, f)
		}
		pair.Close()
	}
}

// TestSharedConnections: pairs with the same route share connections, others do not. The last pair that
// closes takes the idle connections with it.
func TestSharedConnections(t *testing.T) {
	inRig(t, says(200, `{}`), nil, func(r *rig) {
		pairs := []*Pair{r.pair}
		for _, options := range []spec.SocketOptions{{}, {NoDelay: true}} {
			rep := testReplication()
			rep.Source.SocketOptions = options
			pair, err := r.client.Pair(rep)
			if err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, pair)
		}
		for _, pair := range pairs {
			pair.Do(context.Background(), 1, peer.GetLocal{ID: "x"})
		}
		if r.net.dials != 2 || len(r.client.transports) != 2 {
			t.Errorf("%d connections, %d pools", r.net.dials, len(r.client.transports))
		}
		pairs[1].Close()
		pairs[2].Close()
		if len(r.client.transports) != 1 {
			t.Errorf("%d pools are left", len(r.client.transports))
		}
	})
}

// TestProxyOfTwoUsers: what one password has opened at a proxy serves no replication with another one.
func TestProxyOfTwoUsers(t *testing.T) {
	c := New(Options{})
	for i, password := range []string{"a", "a", "b"} {
		proxy := &spec.Proxy{URL: "http://proxy.test", Credentials: spec.NewCredentials("p", password)}
		if _, _, err := c.acquire(spec.Endpoint{Proxy: proxy}, &everywhere); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 1, 2}[i]; len(c.transports) != want {
			t.Errorf("%d pools after password %q, want %d", len(c.transports), password, want)
		}
	}
}

// TestUnresolvable asks for a name that RFC 6761 keeps from ever existing.
func TestUnresolvable(t *testing.T) {
	rep := testReplication()
	rep.Source.URL = "http://no-such-host.invalid/db/"
	c := New(Options{})
	pair, err := c.Pair(rep)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	if f := pair.Do(context.Background(), 1, peer.Open{}).Failure; f == nil || f.Kind != peer.Unresolvable {
		t.Errorf("%v", f)
	}
}

// TestSlots: never more requests are in flight than the endpoint allows.
func TestSlots(t *testing.T) {
	now, most := make(chan int, 1), 0
	now <- 0
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		n := <-now + 1
		most = max(most, n)
		now <- n
		time.Sleep(time.Second) // in false time
		now <- <-now - 1
		says(200, "{}")(w, r)
	}, nil, func(r *rig) {
		done := make(chan peer.Reply)
		start := time.Now()
		for range 12 {
			go func() { done <- r.pair.Do(context.Background(), 1, peer.GetLocal{ID: "x"}) }()
		}
		for range 12 {
			if reply := <-done; reply.Failure != nil {
				t.Errorf("%s", reply.Failure)
			}
		}
		if took := time.Since(start); most != 4 || took != 3*time.Second || r.net.dials != 4 {
			t.Errorf("%d at one time, %d connections, %v", most, r.net.dials, took)
		}
	})
}

// TestThrottle: 429 delays the next request, of all replications with that server.
func TestThrottle(t *testing.T) {
	busy := true
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if busy {
			w.Header().Set("Retry-After", "7")
			says(429, `{"error":"too_many_requests"}`)(w, r)
			return
		}
		says(200, "{}")(w, r)
	}, nil, func(r *rig) {
		f := r.do(peer.GetLocal{ID: "x"}).Failure
		if f == nil || f.Status != 429 || f.RetryAfter != 7*time.Second {
			t.Fatalf("%+v", f)
		}
		start := time.Now()
		r.do(peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}}) // POST has a pause of its own
		if took := time.Since(start); took != 0 {
			t.Errorf("after another method: waited %v", took)
		}
		busy = false
		other, err := r.client.Pair(testReplication())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		start = time.Now()
		if f := other.Do(context.Background(), 1, peer.GetLocal{ID: "x"}).Failure; f != nil ||
			time.Since(start) != 7*time.Second {
			t.Errorf("%v after %v", f, time.Since(start))
		}
		start = time.Now()
		must[peer.Local](r, peer.GetLocal{ID: "x"})
		if took := time.Since(start); took != 0 {
			t.Errorf("after success: waited %v", took)
		}
	})
}

// settable is a clock whose wall clock can be set while it runs.
type settable struct {
	*clock.Mock
	ahead time.Duration
}

func (s *settable) Now() time.Time { return s.Mock.Now().Add(s.ahead) }

// TestThrottleClock: setting the wall clock, back or forth, changes no pause of the limiter.
func TestThrottleClock(t *testing.T) {
	for _, jump := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		wall := &settable{Mock: clock.NewMock()}
		wall.Mock.Add(24 * time.Hour)
		c, key := New(Options{Clock: wall}), ratelimit.Key{Endpoint: "x", Method: "GET"}
		c.report(key, 429, 10*time.Second)
		wall.ahead = jump
		wall.Mock.Add(time.Second)
		if v := c.delay(key); v.Wait != 9*time.Second {
			t.Errorf("%v: %+v", jump, v)
		}
		c.report(key, 429, 10*time.Second)
		if v := c.delay(key); v.Wait != 10*time.Second {
			t.Errorf("%v: %+v after another answer", jump, v)
		}
	}
}

// TestPausesStay: a server in trouble of another kind neither lengthens nor shortens a pause.
func TestPausesStay(t *testing.T) {
	for status, want := range map[int]time.Duration{
		200: 0, 404: 0, 429: 29 * time.Millisecond, 408: 24 * time.Millisecond, 500: 24 * time.Millisecond,
		503: 24 * time.Millisecond,
	} {
		now := clock.NewMock()
		c, key := New(Options{Clock: now}), ratelimit.Key{Endpoint: "x", Method: "GET"}
		c.report(key, 429, 0)
		now.Add(2 * time.Second)
		c.report(key, status, 0)
		if v := c.delay(key); v.Wait != want {
			t.Errorf("%s after %d, want %s", v.Wait, status, want)
		}
	}
}

// TestRetryAfterDate: a date in Retry-After is compared with the answer's own Date, if it has one.
func TestRetryAfterDate(t *testing.T) {
	for _, c := range []struct {
		date bool
		want time.Duration
	}{{true, 10 * time.Second}, {false, time.Hour + 10*time.Second}} {
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			theirs := time.Now().Add(time.Hour).UTC()
			w.Header()["Date"] = nil
			if c.date {
				w.Header().Set("Date", theirs.Format(http.TimeFormat))
			}
			w.Header().Set("Retry-After", theirs.Add(10*time.Second).Format(http.TimeFormat))
			says(503, "{}")(w, r)
		}, nil, func(r *rig) {
			if f := r.do(peer.GetLocal{ID: "x"}).Failure; f == nil || f.RetryAfter != c.want {
				t.Errorf("date %v: %+v", c.date, f)
			}
		})
	}
}

// TestThrottleCeiling: at the limiter's ceiling requests fail at once, with the time to wait.
func TestThrottleCeiling(t *testing.T) {
	asked := 0
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))
		says(429, `{"error":"too_many_requests"}`)(w, r)
	}, nil, func(r *rig) {
		r.do(peer.GetLocal{ID: "x"})
		f := r.do(peer.GetLocal{ID: "x"}).Failure
		if f == nil || f.Status != 429 || f.Error != "max_backoff" || f.RetryAfter <= 50*time.Second ||
			asked != 1 {
			t.Errorf("%+v, asked %d times", f, asked)
		}
	})
}

// TestStaleConnection: a kept connection that the server has closed costs no attempt.
func TestStaleConnection(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn := hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		_, _ = conn.Read(make([]byte, 1)) // the next request is read and not answered
		conn.Close()
	}, nil, func(r *rig) {
		for range 3 {
			must[peer.Local](r, peer.GetLocal{ID: "x"})
			if f := r.do(peer.FetchDocs{Docs: []peer.DocRev{{ID: "a",
				Rev: "1-a"}}}).Failure; f.Kind != peer.Malformed {
				t.Errorf("%s", f) // {} has no results, but it was answered
			}
		}
	})
}

// TestProxy: a proxy's refusal is not taken for an answer of the server.
func TestProxy(t *testing.T) {
	var seen string
	proxy := func(w http.ResponseWriter, r *http.Request) {
		seen = r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization")
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		says(200, "{}")(w, r)
	}
	through := func(url string) func(*spec.Replication) {
		return func(rep *spec.Replication) {
			rep.Source.URL = url
			rep.Source.Proxy = &spec.Proxy{URL: "http://target.test",
				Credentials: spec.NewCredentials("p", testPassword)}
		}
	}
	inRig(t, nil, proxy, func(r *rig) {
		must[peer.Local](r, peer.GetLocal{ID: "x"})
		if seen != "GET http://far.test/db/_local/x Basic cDpzM2NyM3QrcGEvc3M=" {
			t.Errorf("proxy saw %s", seen)
		}
	}, through("http://far.test/db/"))
	inRig(t, nil, proxy, func(r *rig) {
		f := r.do(peer.GetLocal{ID: "x"}).Failure
		if f == nil || f.Kind != peer.Unreachable || !strings.Contains(f.Reason, "403") ||
			!strings.HasPrefix(seen, "CONNECT far.test:443") {
			t.Errorf("%v, proxy saw %s", f, seen)
		}
	}, through("https://far.test/db/"))
	inRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		sent := r.Header.Get("Proxy-Authorization")
		says(502, `{"error":"`+sent+`","reason":"p may not pass with `+testPassword+`"}`)(w, r)
	}, func(r *rig) {
		if f := r.do(peer.GetLocal{ID: "x"}).Failure; f == nil || f.Error != "Basic *****" ||
			f.Reason != "p may not pass with *****" {
			t.Errorf("%v", f)
		}
	}, through("http://far.test/db/"), func(rep *spec.Replication) { rep.Source.Credentials = spec.Credentials{} })
	refuses := says(407, "<h1>Cache Access Denied</h1>")
	inRig(t, nil, refuses, func(r *rig) {
		for _, op := range []peer.Op{peer.Open{}, peer.CopyDoc{ID: "x", Revs: []string{"1-a"}}} {
			const want = "the proxy answered 407 Proxy Authentication Required"
			if f := r.do(op).Failure; f == nil || f.Kind != peer.Unreachable || f.Reason != want {
				t.Errorf("%s: %v", op, f)
			}
		}
	}, through("http://far.test/db/"))
}
