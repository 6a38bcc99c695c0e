package front

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/web/webtest"
)

// newSite is a front before a CouchDB that couch plays, at prefix.
func newSite(t *testing.T, couch http.HandlerFunc, prefix string) *webtest.Site {
	behind := httptest.NewServer(couch)
	t.Cleanup(behind.Close)
	u, err := ParseURL(behind.URL + prefix)
	if err != nil {
		t.Fatal(err)
	}
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "service ", r.URL.EscapedPath())
	})
	return webtest.New(t, New(Options{
		CouchDB: u, Service: service, Node: func() string { return "relay@host" },
		Logger: slog.New(slog.DiscardHandler),
	}))
}

func read(t *testing.T, r *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// TestPaths: which server answers which path, and that a path arrives as it was sent.
func TestPaths(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "couch ", r.RequestURI) }, "/p")
	for path, want := range map[string]string{
		"/":                                  "couch /p/",
		"/_replicate":                        "service /_replicate",
		"/_replicator/a%2Fb":                 "service /_replicator/a%2Fb",
		"/_%72eplicator":                     "service /_%72eplicator",
		"/team%2F_replicator/doc?rev=1":      "service /team%2F_replicator/doc",
		"/team%2freplicator/doc":             "couch /p/team%2freplicator/doc",
		"/_scheduler/jobs":                   "service /_scheduler/jobs",
		"/_active_tasks":                     "service /_active_tasks",
		"/_node/relay@host/_config":          "service /_node/relay@host/_config",
		"/_node/_local/_config":              "couch /p/_node/_local/_config",
		"/_node":                             "couch /p/_node",
		"/_users/org.couchdb.user%3Aa":       "couch /p/_users/org.couchdb.user%3Aa",
		"/db/_design/d/_view/v?key=%22a;b":   "couch /p/db/_design/d/_view/v?key=%22a;b",
		"/db/doc%2F1/a%20b?x=1&y=%zz":        "couch /p/db/doc%2F1/a%20b?x=1&y=%zz",
		"/_replicatorx":                      "couch /p/_replicatorx",
		"//_scheduler//jobs":                 "service //_scheduler//jobs",
		"/_scheduler2":                       "couch /p/_scheduler2",
		"/db//x/../y":                        "couch /p/db//x/../y",
		"/a+b/_changes?feed=longpoll&since=": "couch /p/a+b/_changes?feed=longpoll&since=",
	} {
		if got := read(t, s.Ask("GET "+path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestHeaders: the CouchDB sees the host and the credentials of the client, and the client the answer as it is.
func TestHeaders(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Set-Cookie"] = []string{"AuthSession=new; Path=/", "other=1"}
		w.Header().Set("Content-Encoding", "gzip") // not decoded on the way
		w.WriteHeader(http.StatusTeapot)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintln(w, r.Method, r.Host, r.Header["Authorization"], r.Header["Cookie"],
			r.Header["X-Forwarded-Host"], r.Header["Accept-Encoding"], string(body))
	}, "")
	r := s.Ask("COPY /db/doc {}", "Authorization", "Basic eDp5", "Cookie", "AuthSession=old")
	host := strings.TrimPrefix(s.URL, "http://")
	want := fmt.Sprintf("COPY %s [Basic eDp5] [AuthSession=old] [%s] [identity] {}\n", host, host)
	if got := read(t, r); got != want || r.StatusCode != http.StatusTeapot {
		t.Errorf("%d %s, want %s", r.StatusCode, got, want)
	}
	if got := r.Header["Set-Cookie"]; !slices.Equal(got, []string{"AuthSession=new; Path=/", "other=1"}) {
		t.Errorf("cookies %q", got)
	}
}

// TestFeedsFlow: a row of a feed arrives before the next one is written, and a client that leaves ends the request
// to the CouchDB.
func TestFeedsFlow(t *testing.T) {
	next, gone := make(chan bool), make(chan bool)
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		for range 2 {
			fmt.Fprintln(w, "row")
			w.(http.Flusher).Flush()
			<-next
		}
		<-r.Context().Done()
		close(gone)
	}, "")
	r := s.Ask("GET /db/_changes?feed=continuous")
	rows := bufio.NewScanner(r.Body)
	for range 2 {
		if !rows.Scan() || rows.Text() != "row" {
			t.Fatalf("got %q, %v", rows.Text(), rows.Err())
		}
		next <- true
	}
	r.Body.Close()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the CouchDB still serves a client that is gone")
	}
}

// TestTrouble: what clients are told of a CouchDB that is away, or is this service itself.
func TestTrouble(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	u, _ := url.Parse(dead.URL)
	s := webtest.New(t, New(Options{
		CouchDB: u, Node: func() string { return "" }, Logger: slog.New(slog.DiscardHandler),
	}))
	r := s.Ask("GET /db")
	if got := read(t, r); r.StatusCode != http.StatusBadGateway || strings.Contains(got, u.Host) ||
		!strings.Contains(got, `{"error":"bad_gateway","reason":"the CouchDB behind this address does not answer: `) {
		t.Errorf("%d %s", r.StatusCode, got)
	}
	var self *webtest.Site
	self = newSite(t, func(w http.ResponseWriter, r *http.Request) { self.Config.Handler.ServeHTTP(w, r) }, "")
	r = self.Ask("GET /db")
	if got := read(t, r); r.StatusCode != http.StatusLoopDetected || !strings.Contains(got, "[front] couchdb") {
		t.Errorf("%d %s", r.StatusCode, got)
	}
}

func TestParseURL(t *testing.T) {
	for _, text := range []string{
		"", "couch:5984", "ftp://couch", "http://", "http://u:p@couch", "http://c/?a", "http://c/#a",
	} {
		if _, err := ParseURL(text); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAllDatabases: the list has the CouchDB's databases and the service's replicator databases, for those who may see
// both; otherwise the CouchDB's answer is the answer.
func TestAllDatabases(t *testing.T) {
	const theirs = `["_replicator","_users","a/_replicator","orders"]`
	const ours = `["_replicator","_users","team/_replicator"]`
	for _, c := range []struct {
		query          string
		status, second int // of the two answers
		want           string
	}{
		{"", 200, 200, `200 ["_replicator","_users","orders","team/_replicator"]`},
		{"", 200, 401, "200 " + theirs},
		{"", 401, 200, "401 " + theirs},
		{"?limit=9", 200, 200, "200 " + theirs},
	} {
		answer := func(status int, list string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Status", fmt.Sprint(status))
				w.WriteHeader(status)
				fmt.Fprintln(w, list)
			}
		}
		behind := httptest.NewServer(answer(c.status, theirs))
		t.Cleanup(behind.Close)
		u, err := ParseURL(behind.URL)
		if err != nil {
			t.Fatal(err)
		}
		service := answer(c.second, ours)
		s := webtest.New(t, New(Options{CouchDB: u, Service: service, Logger: slog.New(slog.DiscardHandler)}))
		r := s.Ask("GET /_all_dbs" + c.query)
		got := fmt.Sprint(r.StatusCode, " ", strings.TrimSpace(read(t, r)))
		if got != c.want || r.Header.Get("X-Status") != fmt.Sprint(c.status) {
			t.Errorf("%+v: %s %v", c, got, r.Header)
		}
	}
}
