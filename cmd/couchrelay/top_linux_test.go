package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"couchrelay/adapters/terminal"
	"couchrelay/adapters/top"

	"golang.org/x/term"
)

// asProgram has the test's executable be the program.
const asProgram = "COUCHRELAY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// thisProgramWith is a process of the program.
func thisProgramWith(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm", "NO_COLOR=", "COUCHRELAY_USER=")
	return c
}

// mortal is a service that can be gone.
func mortal(t *testing.T, service string) (at string, gone *atomic.Bool) {
	to, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	gone = &atomic.Bool{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, gone
}

// missing is a document whose job crashes at once: its source is not there.
func (r *rig) missing() string {
	return fmt.Sprintf(`{"source":"%smissing","target":"%smissing"}`, r.source.url, r.target.url)
}

// stopped reports whether a process is stopped.
func stopped(pid int) bool {
	raw, _ := os.ReadFile(fmt.Sprint("/proc/", pid, "/stat"))
	_, behind, _ := strings.Cut(string(raw), ") ")
	return strings.HasPrefix(behind, "T")
}

// widest returns the widest line of pictures, without escape sequences.
func widest(pictures string) (line string) {
	for picture := range strings.SplitSeq(pictures, "\x1b[H") {
		for l := range strings.SplitSeq(picture, "\r\n") {
			if l = unstyled(l); terminal.Width(l) > terminal.Width(line) {
				line = l
			}
		}
	}
	return line
}

// unstyled is a text without escape sequences.
func unstyled(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != 0x1b {
			b.WriteByte(text[i])
			continue
		}
		for i++; i+1 < len(text) && (text[i] == '[' || text[i] < 0x40 || text[i] > 0x7e); i++ {
		}
	}
	return b.String()
}

// TestTop: the program on a terminal, with a service that does what keys say, goes away and comes back.
func TestTop(t *testing.T) {
	r := newRig(t)
	r.fill(3)
	r.want(201, "PUT", "_replicator/good", r.body(`,"continuous":true`))
	r.want(201, "PUT", "_replicator/%1B%5B31mb%C2%9B%E6%BC%A2", r.missing())
	r.await("the job to run", func() bool { return r.docState("good") == "running" })
	at, gone := mortal(t, r.url)

	p := newPTY(t, 80, 24)
	before := p.state()
	program := thisProgramWith("top", "--server", at, "--interval", "500ms", "--sort", "name")
	p.start(program)
	picture := p.sees("good", "\uFFFD[31mb\uFFFD漢", "every 500ms", "rows 1-2 of 2")
	if strings.Contains(picture, "\x1b[31mb") || strings.Contains(picture, "\u009b") {
		t.Errorf("the document's name reaches the terminal: %q", picture)
	}
	if reflect.DeepEqual(p.state(), before) {
		t.Error("the terminal is not in raw mode")
	}
	p.types("?")
	p.sees("filter by words")
	p.types("\x1b[D/state=running\r")
	p.sees("state=running: rows 1-1 of 1", "> running")
	p.types("\r")
	p.sees("history, the newest first", "documents")
	p.types("p")
	r.await("the job to be paused", func() bool { return r.docState("good") == "paused" })
	p.types("x")
	p.sees("discard the checkpoints of good")
	p.types("n")
	p.sees("nothing was done")
	p.types("rqx") // what is behind q is for nothing
	if err := program.Wait(); err != nil {
		t.Errorf("the program ends with %v", err)
	}
	r.await("the job to run again", func() bool { return r.docState("good") == "running" })
	p.isAsBefore(before)

	p.forget()
	program = thisProgramWith("top", "--server", at, "--interval", "500ms")
	p.start(program)
	p.sees("rows 1-2 of 2")
	p.forget()
	p.resize(40, 12)
	p.sees("rows 1-2 of 2")
	time.Sleep(300 * time.Millisecond) // a picture of the old size may have been under way
	p.forget()
	gone.Store(true)
	p.sees("NO ANSWER since")
	gone.Store(false)
	p.forget()
	p.sees("rows 1-2 of 2")
	if line := widest(p.text()); terminal.Width(line) > 40 {
		t.Errorf("too wide for the terminal: %q", line)
	}
	p.forget()
	p.types("\x1a")
	r.await("the process to stop", func() bool { return stopped(program.Process.Pid) })
	p.isAsBefore(before)
	p.forget()
	_ = program.Process.Signal(syscall.SIGCONT)
	p.sees("rows 1-2 of 2")
	if reflect.DeepEqual(p.state(), before) || !strings.Contains(p.text(), terminal.Enter) {
		t.Error("the terminal is not taken again")
	}
	_ = program.Process.Signal(syscall.SIGTERM)
	if err := program.Wait(); err == nil || program.ProcessState.ExitCode() != failed {
		t.Errorf("after a signal the program ends with %v", err)
	}
	p.isAsBefore(before)
}

// isAsBefore demands that the terminal has been given back.
func (p *pty) isAsBefore(before *term.State) {
	p.t.Helper()
	p.sees(terminal.Leave)
	if _, after, _ := strings.Cut(p.text(), terminal.Leave); strings.Contains(after, "\x1b[H") {
		p.t.Errorf("something is drawn after the end: %q", after)
	}
	if !reflect.DeepEqual(p.state(), before) {
		p.t.Error("the terminal is not as it was")
	}
}

// TestTopWithoutTerminal: one picture in plain text, or objects.
func TestTopWithoutTerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(201, "PUT", "_replicator/a", r.missing())
	r.await("the job to crash", func() bool { return r.docState("a") == "crashing" })
	out, err := thisProgramWith("top", "--server", r.url).Output()
	if err != nil || strings.Contains(string(out), "\x1b") || !strings.Contains(string(out), "\n  crashing  a ") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = thisProgramWith("top", "--server", r.url, "--json", "--once").Output()
	if err != nil || !strings.Contains(string(out), `"doc_id":"a","database":"_replicator","state":"crashing"`) {
		t.Errorf("%v\n%s", err, out)
	}
	p := newPTY(t, 60, 20)
	dumb := thisProgramWith("top", "--server", r.url)
	dumb.Env = append(dumb.Env, "TERM=dumb")
	p.start(dumb)
	if err := dumb.Wait(); err != nil {
		t.Error(err)
	}
	p.sees("crashing  a")
	if strings.Contains(p.text(), "\x1b") {
		t.Errorf("a dumb terminal gets %q", p.text())
	}
	program := thisProgramWith("top", "--server", r.url, "--json", "--interval", "500ms")
	objects, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	text := ""
	for strings.Count(text, "\n") < 3 {
		part := make([]byte, 1<<16)
		n, err := objects.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		text += string(part[:n])
	}
	_ = program.Process.Signal(os.Interrupt)
	if err := program.Wait(); err != nil || !strings.Contains(text, `"docs_per_second":0`) {
		t.Errorf("%v\n%s", err, text)
	}
	for line, want := range map[string]int{
		"top --interval 1ms": badUsage, "top --sort x": badUsage, "top --once --server http://127.0.0.1:1": failed,
		"top --once --state unheard --server " + r.url: refused,
	} {
		if out, status, err := typed(t, 0, strings.Fields(line)...); status != want || err == nil {
			t.Errorf("%s: %d %v %s", line, status, err, out)
		}
	}
}

// TestCompletionInBash: keys in a real bash complete what is typed.
func TestCompletionInBash(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	out, _, err := typed(t, 0, "completion", "bash")
	if err != nil || os.WriteFile(script, []byte(out), 0o600) != nil {
		t.Fatal(err)
	}
	p := newPTY(t, 200, 24)
	bash := exec.Command("bash", "--noprofile", "--norc", "-i")
	bash.Env = append(os.Environ(), "PS1=ready> ", "TERM=xterm", "INPUTRC=/dev/null")
	bash.Dir = filepath.Dir(script)
	p.start(bash)
	p.types("set +o history; bind 'set enable-bracketed-paste off'; . ./script; echo load''ed\n")
	p.sees("loaded\r\n")
	for keys, want := range map[string]string{
		"couchrelay ho\t": "couchrelay hold ", "couchrelay jobs --state=cras\t": "couchrelay jobs --state=crashing ",
		"couchrelay jobs --state paused,cras\t":       "couchrelay jobs --state paused,crashing ",
		"couchrelay config replicator/max_chu\t":      "couchrelay config replicator/max_churn ",
		"couchrelay serve --config=scr\t":             "couchrelay serve --config=script ",
		"couchrelay pause 'an id' --reas\t":           "couchrelay pause 'an id' --reason ",
		"couchrelay hold add --server-host h:1 --d\t": "couchrelay hold add --server-host h:1 --database ",
	} {
		p.forget()
		p.types(keys)
		p.sees(want)
		p.types("\x15")
	}
	p.types("exit\n")
	_ = bash.Wait()
}

// TestTopPanic: the terminal is given back before the program dies, also of what another goroutine does.
func TestTopPanic(t *testing.T) {
	p := newPTY(t, 80, 24)
	before := p.state()
	v := newViewer(&topCommand{}, top.New("", time.Second, top.Filter{}, "state"), false)
	v.rounds <- answered{panic: "a defect"}
	func() {
		defer func() {
			if cause := recover(); cause != "a defect" {
				t.Errorf("it ends with %v", cause)
			}
		}()
		_ = v.live(p.slave, p.slave)
	}()
	p.isAsBefore(before)
}
