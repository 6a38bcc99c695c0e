package front

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/web/couchdb"
	"couchrelay/adapters/web/webtest"
	"couchrelay/core/docs"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
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
		"/_dashboard/main.js":                "service /_dashboard/main.js",
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
			r.Header["X-Forwarded-Host"], r.Header["X-Forwarded-For"], r.Header["Accept-Encoding"],
			string(body))
	}, "")
	r := s.Ask("COPY /db/doc {}", "Authorization", "Basic eDp5", "Cookie", "AuthSession=old",
		"X-Forwarded-For", "192.0.2.7")
	host := strings.TrimPrefix(s.URL, "http://")
	want := fmt.Sprintf("COPY %s [Basic eDp5] [AuthSession=old] [%s] [192.0.2.7, 127.0.0.1] [identity] {}\n",
		host, host)
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

// TestTrust: the CouchDB's certificate is verified as the settings of the moment say.
func TestTrust(t *testing.T) {
	couch := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "couch")
	}))
	defer couch.Close()
	u, err := ParseURL(couch.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := &tls.Config{RootCAs: x509.NewCertPool()}
	s := webtest.New(t, New(Options{
		CouchDB: u, Service: http.NotFoundHandler(), Node: func() string { return "n" },
		Logger: slog.New(slog.DiscardHandler), TLS: func() (*tls.Config, error) { return trusted, nil },
	}))
	get := func() int {
		answer, err := http.Get(s.URL + "/db")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	if got := get(); got == http.StatusOK {
		t.Errorf("an unknown authority: %d", got)
	}
	trusted = &tls.Config{RootCAs: x509.NewCertPool()}
	trusted.RootCAs.AddCert(couch.Certificate())
	if got := get(); got != http.StatusOK {
		t.Errorf("an authority of the settings: %d", got)
	}
}

func TestParseURL(t *testing.T) {
	for _, text := range []string{
		"", "couch:5984", "ftp://couch", "http://", "http://u:p@couch", "http://c/?a", "http://c/#a",
		"http://a%20b", "http://[1:2]", "http://c:0", "http://c:65536",
	} {
		if _, err := ParseURL(text); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// behind is a CouchDB with databases, and ours the service with its own, each as a server of databases answers. Their
// answers have a status of their own.
func behind(t *testing.T, status int, names ...string) http.Handler {
	t.Helper()
	store := fakefdb.New()
	server := couchdb.New(couchdb.Options{Store: store, Docs: docs.New(tuple.Subspace("docs"))})
	for _, name := range names {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest("PUT", "/"+url.PathEscape(name), nil))
		if w.Code != 201 {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Status", fmt.Sprint(status))
		if status != 200 {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":"refused"}`)
			return
		}
		server.ServeHTTP(w, r)
	})
}

func between(t *testing.T, status, second int) *webtest.Site {
	t.Helper()
	server := httptest.NewServer(behind(t, status, "_replicator", "_users", "a/_replicator", "m", "orders"))
	t.Cleanup(server.Close)
	u, err := ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ours := behind(t, second, "_replicator", "_users", "b/_replicator", "n/_replicator")
	return webtest.New(t, New(Options{CouchDB: u, Service: ours, Logger: slog.New(slog.DiscardHandler)}))
}

// TestAllDatabases: the list has the CouchDB's databases and the service's replicator databases, for those who may see
// both, in the order and as many as are asked for; otherwise the CouchDB's answer is the answer.
func TestAllDatabases(t *testing.T) {
	s := between(t, 200, 200)
	for query, want := range map[string]string{
		"":                                 `["_replicator","_users","b/_replicator","m","n/_replicator","orders"]`,
		"?limit=3":                         `["_replicator","_users","b/_replicator"]`,
		"?skip=2&limit=2":                  `["b/_replicator","m"]`,
		"?skip=9":                          `[]`,
		"?limit=0":                         `[]`,
		"?descending=true":                 `["orders","n/_replicator","m","b/_replicator","_users","_replicator"]`,
		"?descending=true&limit=1&skip=1":  `["n/_replicator"]`,
		"?start_key=%22b%22&limit=2":       `["b/_replicator","m"]`,
		"?startkey=%22b%22&endkey=%22n%22": `["b/_replicator","m"]`,
		"?end_key=%22m%22&inclusive_end=false&start_key=%22a%22": `["b/_replicator"]`,
		"?key=%22m%22":             `["m"]`,
		"?key=%22n/_replicator%22": `["n/_replicator"]`,
		"?key=%22a/_replicator%22": `[]`,
		"?keys=%5B%22orders%22,%22b/_replicator%22,%22a/_replicator%22%5D": `["orders","b/_replicator"]`,
	} {
		s.Want("GET /_all_dbs"+query, 200, want)
	}
	s.Fails("GET /_all_dbs?limit=x", 400, "query_parse_error", "limit must be an integer")
	s.Fails("GET /_all_dbs?descending=x", 400, "query_parse_error", "descending must be true or false")
	between(t, 200, 401).Want("GET /_all_dbs", 200, `["_replicator","_users","a/_replicator","m","orders"]`)
	between(t, 200, 401).Want("GET /_all_dbs?skip=1&limit=1", 200, `["_users"]`)
	between(t, 401, 200).Want("GET /_all_dbs", 401, `{"error":"refused"}`)
}

// TestListIsNeverUnchanged: the tag that CouchDB gives its list says nothing of the service's databases, so no list has
// it, and a client that knows it gets the list.
func TestListIsNeverUnchanged(t *testing.T) {
	tagged := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Set("ETag", `"t"`); r.Header.Get("If-None-Match") == `"t"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, `["orders"]`)
	}))
	t.Cleanup(tagged.Close)
	u, err := ParseURL(tagged.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := webtest.New(t, New(Options{CouchDB: u, Service: behind(t, 200, "_replicator"),
		Logger: slog.New(slog.DiscardHandler)}))
	s.Want("GET /_all_dbs", 200, `["_replicator","orders"]`, "If-None-Match", `"t"`)
	if tag := s.Ask("GET /_all_dbs").Header.Get("ETag"); tag != "" {
		t.Errorf("the list has the tag %s", tag)
	}
}

// TestDatabasesInfo: what there is to know of replicator databases is told by the service.
func TestDatabasesInfo(t *testing.T) {
	s := between(t, 200, 200)
	names := func(request string) string {
		var rows []struct{ Key, Error string }
		if err := json.Unmarshal([]byte(read(t, s.Ask(request))), &rows); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		var list []string
		for _, row := range rows {
			list = append(list, row.Key+strings.Replace(row.Error, "not_found", "?", 1))
		}
		return strings.Join(list, " ")
	}
	for request, want := range map[string]string{
		"GET /_dbs_info":                         "_replicator _users b/_replicator m n/_replicator orders",
		"GET /_dbs_info?limit=2&descending=true": "orders n/_replicator",
		`POST /_dbs_info {"keys":["m","b/_replicator","a/_replicator","none","_users"]}`: "m b/_replicator " +
			"a/_replicator? none? _users",
	} {
		if got := names(request); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	s.Fails("POST /_dbs_info {}", 400, "bad_request", "`keys` member must exist.")
}

// TestDescriptors: connections to the CouchDB take descriptors, and leave some to the store and to clients.
func TestDescriptors(t *testing.T) {
	came, release := make(chan struct{}), make(chan struct{})
	behind := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-release
	}))
	t.Cleanup(behind.Close)
	u, err := ParseURL(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	files := descriptors.New(16)
	s := webtest.New(t, New(Options{CouchDB: u, Files: files, Logger: slog.New(slog.DiscardHandler)}))
	var held sync.WaitGroup
	for range 5 {
		held.Go(func() { s.Ask("GET /db") })
		<-came
	}
	if r := s.Ask("GET /db"); r.StatusCode != http.StatusBadGateway || !strings.Contains(read(t, r), "too many open") {
		t.Errorf("without descriptors: %s", r.Status)
	}
	if !files.Client() {
		t.Error("nothing is left to clients")
	}
	close(release)
	held.Wait()
	go func() { <-came }()
	if r := s.Ask("GET /db"); r.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", r.Status)
	}
}

// TestBodiesOfLists: the front refuses a list of databases that it cannot read, and says why.
func TestBodiesOfLists(t *testing.T) {
	h := New(Options{CouchDB: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)})
	for status, body := range map[int]io.Reader{
		http.StatusRequestTimeout:        iotest.ErrReader(os.ErrDeadlineExceeded),
		http.StatusBadRequest:            iotest.ErrReader(io.ErrUnexpectedEOF),
		http.StatusRequestEntityTooLarge: strings.NewReader(strings.Repeat(" ", maxNames+1)),
	} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("POST", "/_dbs_info", body)); w.Code != status {
			t.Errorf("%d %s, want %d", w.Code, w.Body, status)
		}
	}
}
