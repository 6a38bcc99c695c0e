package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden output of the terminal's commands")

// typed runs a command line as the process does, and returns what it prints and its exit status. width is that of
// the terminal, 0 for none.
func typed(t *testing.T, width int, line ...string) (out string, status int, err error) {
	t.Helper()
	var c commands
	var printed, problems bytes.Buffer
	parser := newParser(&c, func(s int) { panic(s) })
	parser.Stdout, parser.Stderr = &printed, &problems
	defer func() {
		if exit := recover(); exit != nil {
			out, status, err = printed.String(), exit.(int), fmt.Errorf("%s", problems.String())
		}
	}()
	ctx, err := parser.Parse(line)
	parser.FatalIfErrorf(err)
	err = ctx.Run(&window{&printed, width})
	return printed.String(), exitStatus(err), err
}

// canned returns answers of a service, by request. In the file a request is a line, and its answer the lines behind
// it, up to an empty one.
func canned(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "answers.txt"))
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		request, answer, _ := strings.Cut(part, "\n")
		answers[request] = answer
	}
	return answers
}

// cannedServer gives those answers, and 404 to all other requests.
func cannedServer(t *testing.T) string {
	answers := canned(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := strings.TrimSpace(r.Method + " " + r.RequestURI + " " + string(body))
		w.Header().Set("Content-Type", "application/json")
		if text := answers[request]; text != "" {
			_, _ = io.WriteString(w, text+"\n")
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"error":"not_found","reason":%q}`, "missing "+request)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestGoldenOutput compares what each command prints on terminals of two widths, and on none, with a file that
// go test -run GoldenOutput -update writes.
func TestGoldenOutput(t *testing.T) {
	t.Parallel()
	server := cannedServer(t)
	var got strings.Builder
	for _, line := range []string{
		"jobs", "docs", "docs *", "docs a/_replicator x/y", "job c3ea+continuous", "explain c3ea",
		"failures 01|x/y --limit 2",
		"pause c3ea --reason disks", "pause run", "resume c3ea", "retry c3ea", "reset c3ea", "cancel c3ea", "hold list",
		"hold add --server-host db1:5984 --reason upgrade", "hold add --database _replicator --reason disks",
		"hold lift server:db1:5984", "nodes", "follows",
		"jobs --state crashing --state paused --server-host h:1 --user u --error x --node n --database a/_replicator " +
			"--limit 5 --cursor abc --descending",
	} {
		for _, width := range []int{80, 200, 0} {
			out, status, err := typed(t, width, append(strings.Fields(line), "--server", server)...)
			if err != nil || status != 0 {
				t.Fatalf("%s: %v", line, err)
			}
			fmt.Fprintf(&got, "$ couchrelay %s (%d columns)\n%s\n", line, width, out)
			for text := range strings.Lines(out) {
				if n := len([]rune(text)) - 1; width > 0 && n > width {
					t.Errorf("%s: a line of %d columns on a terminal of %d", line, n, width)
				}
			}
		}
	}
	path := filepath.Join("testdata", "terminal.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("printed\n%s\nwant that of %s", got.String(), path)
	}
}

// TestWidths: tables fit terminals of any width that has a column for each that must be shown.
func TestWidths(t *testing.T) {
	t.Parallel()
	server := cannedServer(t)
	for _, width := range []int{1, 2, 20, 42, 43, 44, 60, 61, 62, 80, 81, 100, 119, 120, 150, 200, 219} {
		for _, command := range []string{"jobs", "nodes"} {
			out, _, err := typed(t, width, command, "--server", server)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out) {
				if n := len([]rune(line)) - 1; width > 60 && n > width {
					t.Errorf("%s: a line of %d columns on a terminal of %d: %s", command, n, width, line)
				}
			}
			whole := strings.Contains(out, "c3ea6b4cefdc0f0804973a398c3178c0+continuous")
			if command == "jobs" && whole != (width >= 43) {
				t.Errorf("on %d columns the id is whole: %v", width, whole)
			}
		}
	}
}

// TestJSONOutput: with --json answers and errors come as they are.
func TestJSONOutput(t *testing.T) {
	server, answers := cannedServer(t), canned(t)
	for request, line := range map[string]string{
		"GET /_scheduler/nodes": "nodes", "GET /_scheduler/holds": "hold list",
		"GET /_scheduler/follow":               "follows",
		`POST /_scheduler/jobs/c3ea/resume {}`: "resume c3ea",
		"GET /_scheduler/jobs?limit=100":       "jobs", "GET /_scheduler/jobs/c3ea/explain": "explain c3ea",
	} {
		out, _, err := typed(t, 80, append(strings.Fields(line), "--json", "--server", server)...)
		if out != answers[request]+"\n" || err != nil {
			t.Errorf("%s: %s %v", line, out, err)
		}
	}
	out, status, err := typed(t, 80, "job", "gone", "--json", "--server", server)
	const missing = `{"error":"not_found","reason":"missing GET /_scheduler/jobs/gone"}` + "\n"
	if status != notFound || err == nil || out != missing {
		t.Errorf("%d %q %v", status, out, err)
	}
	for what, line := range map[string][]string{"job gone": {"job", "gone"},
		"document _replicator/gone": {"docs", "_replicator", "gone"}} {
		_, status, err := typed(t, 80, append(line, "--server", server)...)
		if status != notFound || err == nil || !strings.HasPrefix(err.Error(), what+": not_found: missing") {
			t.Errorf("%s: %d %v", what, status, err)
		}
	}
}

// TestNoGoodAnswer: the exit status and the message tell why there is no result.
func TestNoGoodAnswer(t *testing.T) {
	t.Parallel()
	answer := func(status int, contentType, text string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", "http://elsewhere/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	const closed = "http://127.0.0.1:1" // another test could get a port that was just closed
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-release }))
	t.Cleanup(func() { close(release); silent.Close() })
	const json = "application/json"
	for _, c := range []struct {
		name, server string
		status       int
		says         string
	}{
		{"no server", closed, failed, "no answer from " + closed},
		{"no login", answer(401, json, `{"error":"unauthorized","reason":"You are not a server admin."}`), refused,
			"unauthorized: You are not a server admin. (status 401)"},
		{"no job", answer(404, json, `{"error":"not_found","reason":"missing"}`), notFound,
			"not_found: missing (status 404)"},
		{"conflict", answer(409, json, `{"error":"conflict","reason":"it runs"}`), refused, "conflict: it runs"},
		{"outage", answer(503, json, `{"error":"unavailable","reason":"the store is away"}`), failed,
			"the store is away"},
		{"a page", answer(200, "text/html", "<html>Login</html>"), failed, `answers 200 OK with "text/html", no JSON`},
		{"a page with an error", answer(404, "text/html", "<html>"), failed, "no JSON: is it a couchrelay?"},
		{"a redirect", answer(302, "text/html", ""), failed, `redirects to "http://elsewhere/"`},
		{"an error of another shape", answer(418, json, `["teapot"]`), refused, "teapot"},
		{"silence", silent.URL, failed, "did not answer within 200ms (--timeout)"},
		{"no URL", "localhost:5980", badUsage, "--server, or COUCHRELAY_SERVER, must be a URL"},
	} {
		began := time.Now()
		timeout := "1m"
		if c.server == silent.URL {
			timeout = "200ms"
		}
		_, status, err := typed(t, 80, "jobs", "--timeout", timeout, "--server", c.server)
		if err == nil || status != c.status || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d %v", c.name, status, err)
		}
		if took := time.Since(began); took > 50*time.Second {
			t.Errorf("%s took %s", c.name, took)
		}
	}
	secret := strings.Replace(closed, "://", "://adm:secret@", 1)
	if _, _, err := typed(t, 80, "jobs", "--server", secret); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestOtherAnswer: JSON that is not what the command asked for, as of a proxy that answers all requests, does not
// pass for an empty list, or for an order that was carried out.
func TestOtherAnswer(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"{}", "[]", `{"ok":true}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		for _, line := range []string{"jobs", "docs", "failures x", "nodes", "follows", "hold list", "pause x",
			"cancel x", "hold add --database _replicator --reason x", "hold lift x"} {
			out, status, err := typed(t, 80, append(strings.Fields(line), "--server", server.URL)...)
			if err == nil || status != failed || out != "" || !strings.Contains(err.Error(), "is it a couchrelay?") {
				t.Errorf("%s, answered %s: %d %v\n%s", line, answer, status, err, out)
			}
		}
		server.Close()
	}
}

// TestInterrupt: Ctrl-C ends a command that waits for its answer.
func TestInterrupt(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
		<-release
	}))
	defer func() { close(release); silent.Close() }()
	_, status, err := typed(t, 80, "jobs", "--timeout", "20s", "--server", silent.URL)
	if status != failed || err == nil || err.Error() != "interrupted" {
		t.Errorf("%d %v", status, err)
	}
}

// TestUsage: mistakes on the command line have a status of their own.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "jobs --limit 0", "job", "pause", "hold", "hold add --reason x", "hold add --database a",
		"hold add --database a --server-host b --reason x", "jobs --colour", "unheard-of", "hold lift",
		"failures x --limit -1",
	} {
		if _, status, err := typed(t, 80, strings.Fields(line)...); status != badUsage || err == nil {
			t.Errorf("%q: %d %v", line, status, err)
		}
	}
	for _, line := range []string{
		"jobs", "docs", "job", "explain", "failures", "pause", "resume", "retry", "reset", "cancel",
		"hold", "hold list", "hold add", "hold lift", "nodes", "follows",
	} {
		out, status, _ := typed(t, 80, append(strings.Fields(line), "--help")...)
		if status != 0 || !strings.Contains(out, "Examples:\n") ||
			!strings.Contains(out, "\n    couchrelay "+line) {
			t.Errorf("%s --help: %d\n%s", line, status, out)
		}
	}
}

// TestCredentials: they come from a file that only its owner can read, the URL, or the environment, in this order.
func TestCredentials(t *testing.T) {
	var login string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		login = user + ":" + password
		_, _ = io.WriteString(w, `{"total_rows":0,"nodes":[]}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "login")
	write := func(text string, mode os.FileMode) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	want := func(login1 string, line ...string) {
		t.Helper()
		login = "not asked"
		if _, _, err := typed(t, 0, append([]string{"nodes", "--server"}, line...)...); err != nil || login != login1 {
			t.Errorf("asked as %q: %v", login, err)
		}
	}
	want(":", server.URL)
	t.Setenv("COUCHRELAY_PASSWORD", "e:pw")
	login = "not asked"
	if _, status, err := typed(t, 0, "nodes", "--server", server.URL); status != badUsage || login != "not asked" {
		t.Errorf("a password without a user: status %d, asked as %q, %v", status, login, err)
	}
	named := strings.Replace(server.URL, "://", "://env@", 1)
	want("env:e:pw", named)
	t.Setenv("COUCHRELAY_USER", "other")
	want("env:", named)
	t.Setenv("COUCHRELAY_USER", "env")
	want("env:e:pw", named)
	want("env:e:pw", server.URL)
	inURL := strings.Replace(server.URL, "://", "://url:u%2Fpw@", 1)
	want("url:u/pw", inURL)
	write("file:f:pw\n", 0o600)
	want("file:f:pw", inURL, "--credentials", file)
	t.Setenv("COUCHRELAY_SERVER", server.URL)
	if _, _, err := typed(t, 0, "nodes"); err != nil || login != "env:e:pw" {
		t.Errorf("asked as %q: %v", login, err)
	}
	for mode, text := range map[os.FileMode]string{0o640: "a:b", 0o604: "a:b", 0o600: "nothing", 0o400: ":x"} {
		write(text, mode)
		login = "not asked"
		if _, status, err := typed(t, 0, "nodes", "--credentials", file); status != badUsage || login != "not asked" ||
			!strings.Contains(err.Error(), "--credentials: "+file) {
			t.Errorf("%04o %q: asked as %q, status %d: %v", mode, text, login, status, err)
		}
	}
}

// TestTerminalOfService: the commands steer a real service.
func TestTerminalOfService(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(201, "PUT", "_replicator/r%2Bs", r.body(`,"continuous":true`))
	server := strings.TrimSuffix(r.url, "/")
	says := func(want string, line ...string) {
		t.Helper()
		out, _, err := typed(t, 0, append(line, "--server", server)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v\n%s", line, err, out)
		}
	}
	says("1 of 1 documents", "docs")
	out, _, err := typed(t, 0, "docs", "_replicator", "r+s", "--server", server)
	_, rest, found := strings.Cut(out, "\njob ")
	if err != nil || !found {
		t.Fatalf("%v\n%s", err, out)
	}
	id := strings.Fields(rest)[0]
	says("job "+id+" ", "pause", id, "--reason", "disks")
	says("nothing was to be done", "pause", id)
	says("disks", "job", id)
	says("job "+id+" is resumed", "resume", id)
	says("hold database:_replicator is in force", "hold", "add", "--database", "_replicator", "--reason", "why")
	says("database:_replicator", "hold", "list")
	says("is lifted", "hold", "lift", "database:_replicator")
	says("1 of 1 nodes", "nodes")
	says("1 of 1 jobs", "jobs")
	says("canceled", "cancel", id)
	for _, line := range [][]string{{"job", id}, {"pause", id}, {"hold", "lift", "database:_replicator"}} {
		if _, status, err := typed(t, 0, append(line, "--server", server)...); status != notFound {
			t.Errorf("%v: %d %v", line, status, err)
		}
	}
}
