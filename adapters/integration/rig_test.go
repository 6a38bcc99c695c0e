package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	binary string    // couchrelay, built for these tests
	pouch  [2]string // URLs of two pouchdb-servers, ending in a slash; empty when there are none
	couch  string    // URL of a CouchDB; empty when there is none
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	runtime.LockOSThread() // the servers are killed when the thread ends that has started them (Pdeathsig)
	dir, err := os.MkdirTemp("", "couchrelay-integration")
	check(err)
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "couchrelay")
	build := exec.Command("go", "build", "-o", binary, "couchrelay/cmd/couchrelay")
	build.Stderr = os.Stderr
	check(build.Run())
	if path := os.Getenv("POUCHDB_SERVER"); path != "" {
		for i := range pouch {
			p := startPouch(path, filepath.Join(dir, fmt.Sprint("pouch", i)))
			defer func() {
				p.kill()
				if code != 0 {
					fmt.Printf("pouchdb-server at %s: %s\n%s", p.url, p.cmd.ProcessState, p.out)
				}
			}()
			pouch[i] = p.url
		}
	} else {
		fmt.Println("SKIPPED: all tests against pouchdb-server, since POUCHDB_SERVER does not name one; " +
			"`make test` installs it")
	}
	if couch = os.Getenv("COUCHDB_URL"); couch != "" {
		couch = strings.TrimSuffix(couch, "/") + "/"
	} else {
		fmt.Println("SKIPPED: all tests against CouchDB, since COUCHDB_URL does not name one")
	}
	switch {
	case noNode != "":
		fmt.Println(noNode)
	case browser == "":
		fmt.Println(noBrowser)
	case os.Getenv("COUCHDB_FAUXTON_DOCROOT") == "":
		fmt.Println(noFauxton)
	}
	return m.Run()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// process is a server in a process group of its own.
type process struct {
	url string
	cmd *exec.Cmd
	out *output
}

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(dir, url string, name string, args ...string) *process {
	p := &process{url: url, out: &output{}, cmd: exec.Command(name, args...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	check(p.cmd.Start())
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(url)
		if err == nil {
			answer.Body.Close()
			return p
		}
		if time.Now().After(end) {
			panic(fmt.Sprintf("%s does not answer at %s: %s", name, url, p.out))
		}
	}
}

// kill ends the process and its children at once.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// freePort is one that nothing listens on, and no other test was given.
func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if _, given := givenPorts.LoadOrStore(port, true); given {
		return freePort()
	}
	return port
}

var givenPorts sync.Map

// alongside lets a test run beside others, except where all share one CouchDB: some tests change its configuration.
func alongside(t *testing.T) {
	if couch == "" {
		t.Parallel()
	}
}

func startPouch(path, dir string) *process {
	check(os.MkdirAll(dir, 0o700))
	port := freePort()
	return start(dir, "http://127.0.0.1:"+port+"/", path, "--in-memory", "--host",
		"127.0.0.1", "--port", port,
		"--no-stdout-logs", "--config", filepath.Join(dir, "config.json"))
}

// needPouch skips a test that has no pouchdb-server to run against.
func needPouch(t *testing.T) {
	t.Helper()
	if pouch[0] == "" {
		t.Skip("POUCHDB_SERVER is not set")
	}
}

// object is a JSON object.
type object = map[string]any

// call sends a JSON value and returns the status and the answer.
func call(t *testing.T, method, url string, body any) (int, object) {
	t.Helper()
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		sent = bytes.NewReader(raw)
	}
	q, err := http.NewRequestWithContext(t.Context(), method, url, sent)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, object{"error": err.Error()}
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var result object
	if json.Unmarshal(raw, &result) != nil {
		result = object{"text": string(raw)}
	}
	return answer.StatusCode, result
}

// want is call, and fails the test if the answer has another status.
func want(t *testing.T, status int, method, url string, body any) object {
	t.Helper()
	got, answer := call(t, method, url, body)
	if got != status {
		t.Fatalf("%s %s: %d %.500v, want %d", method, url, got, answer, status)
	}
	return answer
}

// await polls until the condition holds.
func await(t *testing.T, what string, look func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !look(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// database makes an empty database with a name of its own and deletes it at the end.
func database(t *testing.T, server string) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "_", "→", "-").Replace(t.Name()))
	db := fmt.Sprintf("%s%s-%d", server, url.PathEscape(strings.TrimLeft(name, "_")), time.Now().UnixNano())
	want(t, 201, "PUT", db, nil)
	t.Cleanup(func() {
		q, err := http.NewRequestWithContext(context.Background(), "DELETE", db, nil)
		check(err)
		if answer, err := http.DefaultClient.Do(q); err == nil {
			answer.Body.Close()
		}
	})
	return db
}

// write writes documents in bulk.
func write(t *testing.T, db string, newEdits bool, documents ...object) {
	t.Helper()
	for len(documents) > 0 {
		n := min(len(documents), 500)
		raw, err := json.Marshal(object{"docs": documents[:n], "new_edits": newEdits})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Post(db+"/_bulk_docs", "application/json", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 201 || bytes.Contains(body, []byte(`"error"`)) {
			t.Fatalf("%d %.500s %v", answer.StatusCode, body, err)
		}
		documents = documents[n:]
	}
}

// relay is couchrelay serving.
type relay struct {
	*process
	dir string
}

// serve starts the service on a store; sandbox makes it serve databases of its own too.
func serve(t *testing.T, dir string, extra ...string) *relay {
	t.Helper()
	port := freePort()
	config := filepath.Join(dir, "couchrelay.ini")
	check(os.WriteFile(config, []byte("[replicator]\nstartup_jitter = 0\ncheckpoint_interval = 200\n"),
		0o600))
	args := append([]string{"serve", "--store", filepath.Join(dir, "data"), "--port",
		port, "--config", config}, extra...)
	r := &relay{process: start(dir, "http://127.0.0.1:"+port+"/", binary, args...), dir: dir}
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Log(r.out)
		}
	})
	return r
}

func (r *relay) docState(t *testing.T, id string) string {
	t.Helper()
	_, view := call(t, "GET", r.url+"_scheduler/docs/_replicator/"+id, nil)
	state, _ := view["state"].(string)
	return state
}

// wiretap is a proxy in front of a server. It notes the requests for changes and the checkpoint.
type wiretap struct {
	url string // ends in a slash

	mu     sync.Mutex
	since  []string // of the requests for changes
	alone  int      // requests that read or write one document
	packed int      // compressed bulk writes
	log    string   // path of the checkpoint document, once it was written
	flying int      // requests in flight
}

func tap(t *testing.T, server string) *wiretap {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request,
		_ error) {
		rw.WriteHeader(http.StatusBadGateway)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		w.note(q, 1)
		defer w.note(q, -1)
		proxy.ServeHTTP(rw, q)
	})}
	go func() { _ = front.Serve(listener) }()
	t.Cleanup(func() { _ = front.Close() })
	through := url.URL{Scheme: "http", User: to.User, Host: listener.Addr().String(), Path: "/"}
	w.url = through.String()
	return w
}

// note notes that a request begins (1) or ends (-1).
func (w *wiretap) note(q *http.Request, begins int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying += begins
	switch {
	case begins < 0:
	case strings.HasSuffix(q.URL.Path, "/_changes"):
		w.since = append(w.since, q.URL.Query().Get("since"))
	case q.Method == "PUT" && strings.Contains(q.URL.Path, "/_local/"):
		w.log = q.URL.Path
	case q.Header.Get("Content-Encoding") == "gzip" && strings.HasSuffix(q.URL.Path, "/_bulk_docs"):
		w.packed++
	case q.URL.Query().Has("open_revs"), q.Method == "PUT" && strings.Count(q.URL.Path, "/") > 1:
		w.alone++
	}
}

// checkpoint returns the sequence that the checkpoint on the server covers. It waits until no request is in
// flight: a client that was killed may have sent one just before.
func (w *wiretap) checkpoint(t *testing.T, server string) string {
	t.Helper()
	await(t, "the last requests", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.flying == 0 })
	w.mu.Lock()
	path := w.log
	w.mu.Unlock()
	_, log := call(t, "GET", strings.TrimSuffix(server, "/")+path, nil)
	if log["source_last_seq"] == nil {
		return "0"
	}
	return fmt.Sprint(log["source_last_seq"])
}

func (w *wiretap) reads() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.since)
}
