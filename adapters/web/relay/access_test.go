package relay

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web/login"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
	"github.com/golang-jwt/jwt/v5"
)

// The users of a walk, by letters: Nobody, a User, a Member of the database, the Owner of the document and of the
// request, an owner of X, another document, an admin of the Database, an Admin of the server, a reader of Statistics.
const walkers = "NUMOXDAS"

var walkerNames = map[rune]string{'U': "usr", 'M': "mem", 'O': "own", 'X': "oth", 'D': "dba", 'A': "adm", 'S': "mon"}

// mayUse has the users of a walk to whom a right lets a route be used.
var mayUse = map[right]string{
	toAll: "NUMOXDAS", toMonitors: "AS", toUsers: "UMOXDAS", toMembers: "MOXDA", toListers: "MOXDA",
	toAdminsOfDB: "DA", toAdmins: "A",
}

// site is a small service with a database, documents and a request, whose endpoints have secrets everywhere.
type site struct {
	*testing.T
	service *service
	handler http.Handler
	rev     string
	jobs    []string // the document's and the request's
}

const planted = `{"source":{"url":"http://u:planted@h/a?token=planted","headers":{"X-Key":"planted"},` +
	`"auth":{"basic":{"username":"u","password":"planted"}}},"target":"http://u:planted@h/b?token=planted"`

func newSite(t *testing.T) *site {
	t.Helper()
	c := config.Default()
	for key, value := range map[string]string{"hmac:_default": "aGVsbG8="} {
		if err := c.Set("jwt_keys", key, value); err != nil {
			t.Fatal(err)
		}
	}
	c.Admins["adm"] = "secret"
	o := Options{DB: fakefdb.New(), Clock: clock.New(), Host: testHost{}, Store: jobstore.New(tuple.Subspace("service"),
		jobstore.DefaultConfig(repid.Server{UUID: "u", HostName: "h", Port: 1}))}
	var err error
	o.Login, err = login.New(login.Options{
		DB: o.DB, Users: o.Store.Docs, Secret: o.Store.Keys.Secret, Clock: o.Clock,
	}, c.Admins, c.Auth)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, service: &service{Options: o}, handler: New(o)}
	s.must('A', "PUT", "/team%2F_replicator", "")
	s.must('A', "PUT", "/team%2F_replicator/_security",
		`{"admins":{"names":["dba"]},"members":{"names":["mem"],"roles":["team"]}}`)
	w := s.must('O', "PUT", "/team%2F_replicator/doc", planted+"}")
	s.rev = strings.Trim(w.Header().Get("ETag"), `"`)
	s.must('X', "PUT", "/team%2F_replicator/other", `{"source":"http://h/x","target":"http://h/y"}`)
	rep, err := spec.ParseRequest([]byte(planted+`,"continuous":true}`), o.Store.Config.Parse)
	if err != nil {
		t.Fatal(err)
	}
	s.jobs, err = kv.Run(t.Context(), o.DB, func(tx kv.Tx) ([]string, error) {
		db, err := o.Store.Docs.Open(tx, "team/_replicator")
		if err != nil {
			return nil, err
		}
		id, err := o.Store.Replicate(tx, rep, "own", 1)
		return []string{jobstore.DocumentJobs(db.Instance) + "doc", id}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a request as one of the walkers.
func (s *site) ask(who rune, method, path, body string) *httptest.ResponseRecorder {
	s.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, s.request(who, method, path, body))
	return w
}

// request makes a request of one of the walkers.
func (s *site) request(who rune, method, path, body string) *http.Request {
	s.Helper()
	q := httptest.NewRequestWithContext(s.Context(), method, path, strings.NewReader(body))
	q.Host = "relay:5980"
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	if header := s.header(who); header != "" {
		q.Header.Set("Authorization", header)
	}
	return q
}

// header is the Authorization of a walker.
func (s *site) header(who rune) string {
	s.Helper()
	name := walkerNames[who]
	if name == "" {
		return ""
	}
	claims := jwt.MapClaims{"sub": name, "exp": 1 << 40, "_couchdb.roles": []string{}}
	switch who {
	case 'A':
		claims["_couchdb.roles"] = []string{"_admin"}
	case 'S':
		claims["_couchdb.roles"] = []string{"_metrics"}
	case 'O', 'X':
		claims["_couchdb.roles"] = []string{"team"}
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("hello"))
	if err != nil {
		s.Fatal(err)
	}
	return "Bearer " + token
}

func (s *site) must(who rune, method, path, body string) *httptest.ResponseRecorder {
	s.Helper()
	w := s.ask(who, method, path, body)
	if w.Code >= 300 {
		s.Fatalf("%c %s %s: %d %s", who, method, path, w.Code, w.Body)
	}
	return w
}

// TestFeedEndsWithItsRight: a member who is none any more is told of no later change.
func TestFeedEndsWithItsRight(t *testing.T) {
	s := newSite(t)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	q := s.request('M', "GET", server.URL+"/team%2F_replicator/_changes?feed=continuous&timeout=60000", "")
	q.RequestURI = ""
	answer, err := server.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for range 2 {
		if !lines.Scan() || !strings.Contains(lines.Text(), `"changes"`) {
			t.Fatal(lines.Text())
		}
	}
	s.must('A', "PUT", "/team%2F_replicator/_security", `{"members":{"names":["another"]}}`)
	s.must('A', "PUT", "/team%2F_replicator/later", `{"source":"http://h/x","target":"http://h/y"}`)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "later") {
			t.Error(lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// pathOf is a path for a route.
func (s *site) pathOf(method, pattern string) string {
	path := strings.NewReplacer("{db}", "team%2F_replicator", "{docid}", "doc", "{attachment...}", "file",
		"{node}", "_local", "{section}", "replicator", "{key...}", "max_jobs", "{part...}", "x", "{doc...}",
		"team%2F_replicator/doc", "{list...}", "x", "{rest...}", "x").Replace(pattern)
	if strings.HasPrefix(path, "/_scheduler/jobs/") {
		path = "/_scheduler/jobs/" + strings.ReplaceAll(s.jobs[0], "|", "%7C")
		if method == "POST" {
			path += "/pause"
		}
	}
	path = strings.ReplaceAll(path, "{id...}", "x")
	if strings.HasPrefix(pattern, "/{db}/{docid}") && method != "GET" {
		path += "?rev=" + s.rev
	}
	return path
}

// finer has the routes for which more than the table decides: which jobs a user sees, whose document it is.
var finer = map[string]string{
	"GET /_scheduler/docs":              "A", // those of _replicator, which is for admins
	"GET /_scheduler/jobs/{id...}":      "MOXDA",
	"POST /_scheduler/jobs/{id...}":     "ODA",
	"GET /_scheduler/docs/{doc...}":     "MOXDA",
	"PUT /{db}/{docid}":                 "ODA",
	"DELETE /{db}/{docid}":              "ODA",
	"PUT /{db}/{docid}/{attachment...}": "ODA",
}

// TestWalk: every route of the router answers those that the table names, refuses all others, and tells no secret.
func TestWalk(t *testing.T) {
	routes, walked := newSite(t).service.routes(), 0
	for _, route := range routes {
		for _, who := range walkers {
			if route.Path == rekeyPath && who == 'A' {
				continue // needs a store that is sealed
			}
			method, body := route.Method, "{}"
			if method == "*" {
				method = "POST"
			}
			if route.Path == "/{db}/{docid}" || route.Path == "/{db}" && method == "POST" {
				body = `{"source":"http://h/c","target":"http://h/d"}`
			}
			allowed := mayUse[ruleOf(route.Method, route.Path).right]
			if f, is := finer[route.Method+" "+route.Path]; is {
				allowed = f
			}
			s := newSite(t)
			path := s.pathOf(route.Method, route.Path)
			w := s.ask(who, method, path, body)
			refused := w.Code == 401 || w.Code == 403 || w.Code == 404 && strings.HasPrefix(path, "/_scheduler/jobs/")
			if refused == strings.ContainsRune(allowed, who) {
				t.Errorf("%c %s %s: %d %s, and the table names %s", who, method, path, w.Code, w.Body, allowed)
			}
			if who == 'N' && refused && w.Code == 403 {
				t.Errorf("%s %s: 403 without a login", method, path)
			}
			s.tellsNothing(who, method+" "+path, w)
			walked++
		}
	}
	if walked < 300 {
		t.Errorf("%d requests only", walked)
	}
}

// tellsNothing looks for secrets in an answer to a user that may not see them.
func (s *site) tellsNothing(who rune, request string, w *httptest.ResponseRecorder) {
	s.Helper()
	if strings.ContainsRune("NUMX", who) && (strings.Contains(w.Body.String(), "planted") ||
		strings.Contains(w.Header().Get("Location"), "planted")) {
		s.Errorf("%c %s tells secrets: %s", who, request, w.Body)
	}
}

// TestNoSecrets: the ways to read a document, and the jobs, with every parameter that brings more. Its owner and the
// admins of the database do see all.
func TestNoSecrets(t *testing.T) {
	s := newSite(t)
	const db = "/team%2F_replicator"
	selector := func(text string) string { return `{"selector":` + text + `}` }
	documents := []string{
		"GET " + db + "/doc",
		"GET " + db + "/doc?rev=" + s.rev,
		"GET " + db + "/doc?open_revs=all&revs=true",
		"GET " + db + "/doc?open_revs=[\"" + s.rev + "\"]",
		"GET " + db + "/doc?revs_info=true&conflicts=true&attachments=true",
		"GET " + db + "/_all_docs?include_docs=true",
		"GET " + db + "/_all_docs?include_docs=true&keys=[\"doc\"]",
		"GET " + db + "/_changes?include_docs=true&style=all_docs",
		"GET " + db + "/_changes?feed=continuous&timeout=1&include_docs=true",
		"POST " + db + `/_bulk_get {"docs":[{"id":"doc"}]}`,
		"POST " + db + `/_changes?filter=_selector&include_docs=true ` +
			selector(`{"source.headers.X-Key":"planted"}`),
	}
	lists := []string{
		"GET /_scheduler/jobs", "GET /_scheduler/docs?database=*", "GET /_scheduler/docs" + db,
		"GET /_scheduler/docs" + db + "/doc", "GET /_active_tasks",
	}
	for i, request := range slices.Concat(documents, lists) {
		shows := i < len(documents)
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		path = strings.ReplaceAll(path, `"`, "%22")
		for _, who := range walkers {
			w := s.ask(who, method, path, body)
			s.tellsNothing(who, request, w)
			if told := strings.Contains(w.Body.String(), "X-Key"); shows && strings.ContainsRune("ODA", who) && !told {
				t.Errorf("%c %s: %d %s", who, request, w.Code, w.Body)
			}
			if shows && strings.ContainsRune("MX", who) && w.Code != 200 {
				t.Errorf("%c %s: %d %s", who, request, w.Code, w.Body)
			}
		}
	}
	if w := s.ask('M', "GET", db+"/doc", ""); strings.Contains(w.Body.String(), s.rev) ||
		!strings.Contains(w.Body.String(), `"source":{"url":"http://h/a"},"target":"http://h/b"`) {
		t.Errorf("%s", w.Body)
	}
}

// TestJobsOfUsers: a user sees the jobs of its own requests and of its databases, and no other, and lists count so.
func TestJobsOfUsers(t *testing.T) {
	s := newSite(t)
	for who, want := range map[rune]string{
		'U': `{"total_rows":0,"offset":0,"jobs":[]`, 'M': `{"total_rows":2,`, 'X': `{"total_rows":2,`,
		'O': `{"total_rows":3,`, 'D': `{"total_rows":2,`, 'A': `{"total_rows":3,`,
	} {
		if w := s.ask(who, "GET", "/_scheduler/jobs", ""); !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%c: %s", who, w.Body)
		}
	}
	w := s.ask('O', "GET", "/_scheduler/jobs?skip=2", "")
	if !strings.HasPrefix(w.Body.String(), `{"total_rows":3,"offset":2,`) {
		t.Errorf("%s", w.Body)
	}
	for who, status := range map[rune]int{'N': 401, 'U': 404, 'M': 403, 'X': 403, 'O': 200, 'D': 200, 'A': 200} {
		for _, part := range []string{"/explain", "/failures"} {
			path := "/_scheduler/jobs/" + strings.ReplaceAll(s.jobs[0], "|", "%7C") + part
			if w := s.ask(who, "GET", path, ""); w.Code != status {
				t.Errorf("%c %s: %d %s", who, part, w.Code, w.Body)
			}
		}
	}
	cancel := `{"cancel":true,"id":"` + s.jobs[1] + `"}`
	for _, c := range []struct {
		who    rune
		status int
	}{{'N', 401}, {'U', 401}, {'D', 401}, {'O', 200}} {
		if w := s.ask(c.who, "POST", "/_replicate", cancel); w.Code != c.status {
			t.Errorf("%c cancels: %d %s", c.who, w.Code, w.Body)
		}
	}
	cancel = `{"cancel":true,"id":"` + s.jobs[0] + `"}`
	if w := s.ask('U', "POST", "/_replicate", cancel); w.Code != 404 || strings.Contains(w.Body.String(), "team") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestUsersDatabase: users are made by admins, log in with their passwords, see and change themselves alone.
func TestUsersDatabase(t *testing.T) {
	s := newSite(t)
	if err := s.service.Login.Configure(map[string]string{"adm": "secret"}, quick()); err != nil {
		t.Fatal(err)
	}
	s.must('A', "PUT", "/_users", "")
	s.must('A', "PUT", "/_users/org.couchdb.user:mem",
		`{"type":"user","name":"mem","roles":["dev"],"password":"planted"}`)
	if w := s.must('A', "GET", "/_users/org.couchdb.user:mem", ""); strings.Contains(w.Body.String(), "planted") ||
		!strings.Contains(w.Body.String(), `"derived_key"`) {
		t.Errorf("%s", w.Body)
	}
	if w := s.ask('M', "GET", "/_users/org.couchdb.user:mem", ""); w.Code != 403 {
		t.Errorf("a database for admins is open: %d", w.Code)
	}
	s.must('A', "PUT", "/_users/_security", `{}`)
	s.must('A', "PUT", "/_users/_design/d", `{"views":{}}`)
	for _, c := range []struct {
		who          rune
		method, path string
		body         string
		status       int
	}{
		{'M', "GET", "/_users/org.couchdb.user:mem", "", 200},
		{'X', "GET", "/_users/org.couchdb.user:mem", "", 404},
		{'N', "GET", "/_users/org.couchdb.user:mem", "", 404},
		{'M', "GET", "/_users/_design/d", "", 403},
		{'A', "GET", "/_users/_design/d", "", 200},
		{'M', "GET", "/_users/_all_docs", "", 401},
		{'M', "GET", "/_users/_changes", "", 401},
		{'M', "POST", "/_users/_bulk_get", `{"docs":[{"id":"org.couchdb.user:mem"}]}`, 200},
		{'X', "PUT", "/_users/org.couchdb.user:mem", `{"type":"user","name":"mem","roles":[]}`, 404},
		{'X', "PUT", "/_users/org.couchdb.user:new", `{"type":"user","name":"new","roles":[]}`, 404},
		{'N', "PUT", "/_users/org.couchdb.user:new", `{"type":"user","name":"new","roles":["dev"]}`, 403},
		{'N', "PUT", "/_users/org.couchdb.user:new", `{"type":"user","name":"new","roles":[],"password":"x"}`, 201},
		{'N', "PUT", "/_users/org.couchdb.user:mem?new_edits=false",
			`{"type":"user","name":"mem","roles":[],"password":"mine","_rev":"9-ff"}`, 403},
		{'A', "POST", "/_users", `{"type":"user","name":"a","roles":[],"password":7}`, 400},
		{'A', "PUT", "/_users/x", `{"type":"user","name":"a","roles":[]}`, 403},
	} {
		if w := s.ask(c.who, c.method, c.path, c.body); w.Code != c.status {
			t.Errorf("%c %s %s: %d %s", c.who, c.method, c.path, w.Code, w.Body)
		}
	}
	if w := s.ask('X', "POST", "/_users/_bulk_get", `{"docs":[{"id":"org.couchdb.user:mem"}]}`); w.Code != 200 ||
		strings.Contains(w.Body.String(), "derived_key") {
		t.Errorf("%s", w.Body)
	}
	bulk := `{"new_edits":false,"docs":[{"_id":"doc","source":"http://h/x","target":"http://h/y","_rev":"9-ff"}]}`
	w := s.ask('X', "POST", "/team%2F_replicator/_bulk_docs", bulk)
	if !strings.Contains(w.Body.String(), "forbidden") {
		t.Errorf("a branch takes the document of another owner over: %s", w.Body)
	}
	w = s.must('N', "POST", "/_session", `{"name":"mem","password":"planted"}`)
	if !strings.Contains(w.Body.String(), `{"ok":true,"name":"mem","roles":["dev"]}`) ||
		w.Header().Get("Set-Cookie") == "" {
		t.Errorf("%s", w.Body)
	}
}

// quick are settings of logins with keys that are soon derived.
func quick() config.Auth {
	auth := config.Default().Auth
	auth.Iterations = 2
	c := config.Default()
	if c.Set("jwt_keys", "hmac:_default", "aGVsbG8=") != nil {
		panic("key")
	}
	auth.JWT = c.Auth.JWT
	return auth
}

// TestLeavesInOneRequest: a member writes several leaves of its document at once, as replicators do.
func TestLeavesInOneRequest(t *testing.T) {
	s := newSite(t)
	w := s.must('X', "GET", "/team%2F_replicator/other", "")
	_, rev, _ := strings.Cut(strings.Trim(w.Header().Get("ETag"), `"`), "-")
	const ends = `"_id":"other","source":"http://h/x","target":"http://h/`
	leaves := `{"new_edits":false,"docs":[{"_revisions":{"start":2,"ids":["b","` + rev + `"]},` + ends + `z"},` +
		`{"_rev":"1-c",` + ends + `v"}]}`
	s.must('X', "POST", "/team%2F_replicator/_bulk_docs", leaves)
	w = s.must('X', "GET", "/team%2F_replicator/other?conflicts=true", "")
	if !strings.Contains(w.Body.String(), `"_conflicts":["1-c"]`) {
		t.Errorf("%s", w.Body)
	}
}

// TestOthersJobIsNotNamed: explain names the job that another one waits for only to users who may see that job.
func TestOthersJobIsNotNamed(t *testing.T) {
	s := newSite(t)
	s.must('A', "PUT", "/_replicator", "")
	s.must('A', "PUT", "/_replicator/hidden", `{"source":"http://h/p","target":"http://h/q"}`)
	s.must('X', "PUT", "/team%2F_replicator/twin", `{"source":"http://h/p","target":"http://h/q"}`)
	path := "/_scheduler/jobs/" + strings.TrimSuffix(s.jobs[0], "doc") + "twin/explain"
	if w := s.must('A', "GET", path, ""); !strings.Contains(w.Body.String(), `"doc_id":"hidden"`) {
		t.Errorf("%s", w.Body)
	}
	w := s.must('X', "GET", path, "")
	if strings.Contains(w.Body.String(), "hidden") ||
		!strings.Contains(w.Body.String(), `"job":null,"database":null,"doc_id":null,"state":"pending"`) {
		t.Errorf("%s", w.Body)
	}
}
