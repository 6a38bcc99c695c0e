package integration

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// site is a server that clients are tried with.
type site struct {
	url       string // with the name and password of an admin, ending in a slash
	host      string // host and port of url
	databases string // URL of a server with databases to replicate, ending in a slash
	relay     *relay // nil for a CouchDB
}

// eachServer runs a test with the service, and with a CouchDB if there is one: so a test that wants what CouchDB does
// not do is found out.
func eachServer(t *testing.T, test func(*testing.T, site)) {
	t.Helper()
	t.Run("couchrelay", func(t *testing.T) { test(t, newSite(t, "")) })
	if couch == "" {
		return
	}
	t.Run("CouchDB", func(t *testing.T) {
		u, err := url.Parse(couch)
		check(err)
		want(t, 200, "PUT", couch+"_node/_local/_config/couchdb/users_db_security_editable", "true")
		test(t, site{url: couch, host: u.Host, databases: couch})
	})
}

// newSite starts a service whose admin is adm with the password pass.
func newSite(t *testing.T, settings string, extra ...string) site {
	t.Helper()
	dir, box := t.TempDir(), freePort()
	config := filepath.Join(dir, "clients.ini")
	check(os.WriteFile(config, []byte("[admins]\nadm = pass\n"+
		"[replicator]\nduplicates_wait = false\nendpoint_allow = 127.0.0.0/8\n"+settings), 0o600))
	r := serve(t, dir, append([]string{"--config", config, "--sandbox", box}, extra...)...)
	host := strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/")
	s := site{url: "http://adm:pass@" + host + "/", host: host, databases: "http://127.0.0.1:" + box + "/", relay: r}
	call(t, "PUT", s.url+"_users", nil) // a CouchDB behind a front has its own
	want(t, 412, "PUT", s.url+"_replicator", nil)
	return s
}

// needNode skips a test that has no Node.js, or not the packages of package.json.
func needNode(t *testing.T) {
	t.Helper()
	if noNode != "" {
		t.Skip(noNode)
	}
}

// noNode says why scripts cannot run; empty if they can.
var noNode = func() string {
	if _, err := exec.LookPath("node"); err != nil {
		return "SKIPPED: nano, PouchDB, Fauxton and the dashboard, since there is no node"
	}
	for _, name := range []string{"nano", "pouchdb", "playwright-core"} {
		if _, err := os.Stat(filepath.Join("node_modules", name)); err != nil {
			return "SKIPPED: nano, PouchDB, Fauxton and the dashboard, since node_modules has no " + name +
				"; `make test` installs it"
		}
	}
	return ""
}()

// script runs the tests of a script of clients with a server.
func (s site) script(t *testing.T, name string, environment ...string) {
	t.Helper()
	s.execute(t, regexp.MustCompile(`(?m)^# (tests|pass|fail|skipped) [0-9]+$`), ".",
		environment, "node", "--test", "--test-reporter=tap", filepath.Join("clients", name))
}

// execute runs a program that tests a client, and tells what it counted.
func (s site) execute(t *testing.T, counts *regexp.Regexp, dir string, environment []string, name string,
	args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "SERVER="+s.url, "DATABASES="+s.databases), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	t.Logf("%s", bytes.Join(counts.FindAll(out, -1), []byte(" ")))
}

// TestNano: the client nano works as with CouchDB.
func TestNano(t *testing.T) {
	needNode(t)
	eachServer(t, func(t *testing.T, s site) { s.script(t, "nano.js") })
}

// TestPouchDB: PouchDB works as with CouchDB, as a client and as the other side of replications.
func TestPouchDB(t *testing.T) {
	needNode(t)
	eachServer(t, func(t *testing.T, s site) { s.script(t, "pouchdb.js") })
}

// TestKivik: the client kivik works as with CouchDB, with each of its ways to log in. Its tests are in a module of
// their own.
func TestKivik(t *testing.T) {
	alongside(t)
	eachServer(t, func(t *testing.T, s site) {
		s.execute(t, regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL): TestClients/\w+ `), "kivik",
			[]string{"GOFLAGS=-mod=readonly"}, "go", "test", "-count=1", "-timeout", "5m", "-v", ".")
	})
}

// TestPrometheus: Prometheus itself takes the alert rules and the dashboard's expressions, and finds that each alert
// fires when it should. These tests are in a module of their own.
func TestPrometheus(t *testing.T) {
	alongside(t)
	site{}.execute(t, regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL): TestAlerts/\w+ `), "prometheus",
		[]string{"GOFLAGS=-mod=readonly"}, "go", "test", "-count=1", "-timeout", "10m", "-v", ".")
}

// TestFauxton: CouchDB's web interface works in a browser, with its files served by the service, and by a CouchDB that
// the service is in front of.
func TestFauxton(t *testing.T) {
	needNode(t)
	if browser == "" {
		t.Skip(noBrowser)
	}
	t.Run("docroot", func(t *testing.T) {
		if os.Getenv("COUCHDB_FAUXTON_DOCROOT") == "" {
			t.Skip(noFauxton)
		}
		newSite(t, "").script(t, "fauxton.js", "CHROMIUM="+browser, "ADDED=fauxton/_replicator")
	})
	t.Run("front", func(t *testing.T) {
		needCouch(t)
		page, err := http.Get(couch + "/_utils/")
		check(err)
		page.Body.Close()
		if page.StatusCode == http.StatusNotFound {
			t.Skip("SKIPPED: the CouchDB of COUCHDB_URL was built without Fauxton")
		}
		u, err := url.Parse(couch)
		check(err)
		login := u.User.String() + "@"
		u.User = nil
		s := newSite(t, "[front]\ncouchdb = "+strings.TrimSuffix(u.String(), "/")+"\n")
		s.url, s.databases = "http://"+login+s.host+"/", couch
		s.script(t, "fauxton.js", "CHROMIUM="+browser, "ADDED=fauxton/_replicator")
	})
}

// TestDashboard: the service's page for people works in a browser, with good and bad users, nodes and names.
func TestDashboard(t *testing.T) {
	alongside(t)
	needNode(t)
	if browser == "" {
		t.Skip(noBrowser)
	}
	site{}.script(t, "dashboard.js", "CHROMIUM="+browser, "BINARY="+binary)
}

const (
	noBrowser = "SKIPPED: the dashboard and Fauxton, since there is no chromium, and CHROMIUM does not name one"
	noFauxton = "SKIPPED: Fauxton, since COUCHDB_FAUXTON_DOCROOT does not name its files, share/www of a CouchDB"
)

// browser is the path of Chromium; empty if there is none.
var browser = func() string {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}()
