package door

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/web"
)

// rig is a server behind a door, whose handler reads the body and sends as much as the path says.
type rig struct {
	*testing.T
	connect func() (net.Conn, error)
	count   *Connections

	mu     sync.Mutex // guards the fields below
	limits config.Limits
	errs   []error // of the handler
}

func newRig(t *testing.T, change func(l *config.Limits)) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newRigBehind(t, l, func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, change)
}

// inBubble runs a test of time limits in false time, which passes only while all goroutines wait, so a busy machine
// makes none of them late. Connections have no buffers: a writer waits for its reader.
func inBubble(t *testing.T, change func(l *config.Limits), test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := pipes{make(chan net.Conn), make(chan struct{})}
		test(newRigBehind(t, l, l.connect, change))
	})
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipes) connect() (net.Conn, error) {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours, nil
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipes) Close() error   { close(l.closed); return nil }
func (l pipes) Addr() net.Addr { return &net.TCPAddr{} }

func newRigBehind(t *testing.T, l net.Listener, connect func() (net.Conn, error), change func(l *config.Limits)) *rig {
	t.Helper()
	r := &rig{T: t, connect: connect, limits: config.Default().Limits}
	change(&r.limits)
	limits := func() config.Limits {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.limits
	}
	r.count = NewConnections(limits, nil, slog.New(slog.DiscardHandler))
	server := &http.Server{Handler: Bounded(limits, http.HandlerFunc(r.serve)), MaxHeaderBytes: 1 << 20}
	go func() { _ = server.Serve(r.count.Listener(l, true)) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

func (r *rig) serve(w http.ResponseWriter, q *http.Request) {
	var err error
	if q.Method == http.MethodPost {
		_, err = io.Copy(io.Discard, q.Body)
	}
	if err != nil {
		answer, _ := errors.AsType[*web.Error](web.ReadError(err))
		web.Refuse(w, q, answer)
	}
	var size int
	_, _ = fmt.Sscanf(q.URL.Path, "/%d", &size)
	for ; size > 0 && err == nil; size -= 1 << 20 {
		_, err = w.Write(make([]byte, 1<<20))
	}
	for range strings.Count(q.URL.Path, "wait") {
		select {
		case <-q.Context().Done():
			err = q.Context().Err()
		case <-time.After(100 * time.Millisecond):
			_, err = io.WriteString(w, "tick\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// outcome waits for the n-th error of the handler.
func (r *rig) outcome(n int) error {
	r.Helper()
	for range 1000 {
		r.mu.Lock()
		if len(r.errs) >= n {
			defer r.mu.Unlock()
			return r.errs[n-1]
		}
		r.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
	r.Fatal("the handler does not end")
	return nil
}

func (r *rig) dial() net.Conn {
	r.Helper()
	c, err := r.connect()
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// send sends bytes and returns the answer's status, 0 if there is none, and its body.
func (r *rig) send(c net.Conn, text string) (int, string) {
	r.Helper()
	if text != "" {
		_, _ = io.WriteString(c, text)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode, string(body)
}

func TestURLAndHeaders(t *testing.T) {
	r := newRig(t, func(l *config.Limits) { l.URL, l.Headers = 100, 10 })
	c := r.dial()
	for _, q := range []struct {
		url     int
		headers int
		status  int
		says    string
	}{
		{100, 9, 200, ""}, {101, 0, 414, `{"error":"too_long","reason":"the request uri is too long"}`},
		{1, 11, 431, `{"error":"too_large","reason":"the request has too many headers"}`}, {1, 1, 200, ""},
	} {
		text := "GET /" + strings.Repeat("x", q.url-1) + " HTTP/1.1\r\nHost: h\r\n" +
			strings.Repeat("X-A: b\r\n", q.headers) + "\r\n"
		if status, body := r.send(c, text); status != q.status || strings.TrimSpace(body) != q.says {
			t.Errorf("%+v: %d %s", q, status, body)
		}
	}
}

// TestSlowBody: a body that stands still is answered 408, one that comes at the least rate is not cut, and no deadline
// is left for the answer, or for the next request.
func TestSlowBody(t *testing.T) {
	inBubble(t, func(l *config.Limits) { l.BodyTime = 300 * time.Millisecond }, slowBody)
}

func slowBody(r *rig) {
	head := "POST /%s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
	status, body := r.send(r.dial(), fmt.Sprintf(head, "", 10)+"12345")
	if status != 408 || !strings.Contains(body, "body_timeout_sec") || r.outcome(1) == nil {
		r.Errorf("%d %s", status, body)
	}
	c := r.dial()
	_, _ = fmt.Fprintf(c, head, "waitwaitwaitwait", 1000)
	for range 10 { // takes 0.5 s
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(c, strings.Repeat("x", 100))
	}
	if status, body := r.send(c, ""); status != 200 || strings.Count(body, "tick") != 4 {
		r.Errorf("%d %s", status, body)
	}
	get := strings.Replace(head, "POST", "GET", 1)
	if status, body := r.send(r.dial(), fmt.Sprintf(get, "waitwaitwaitwaitwait", 5)+"12345"); status != 200 ||
		strings.Count(body, "tick") != 5 {
		r.Errorf("a feed that is asked for with a body: %d %s", status, body)
	}
	if status, _ := r.send(r.dial(), fmt.Sprintf(get, "", 10)+"12345"); status != 408 {
		r.Errorf("a GET whose body stands still: %d", status)
	}
	if status, _ := r.send(c, fmt.Sprintf(head, "", 0)); status != 200 {
		r.Errorf("the next request: %d", status)
	}
}

// TestSlowReader: an answer that gets nowhere is cut. One that is read slowly but steadily is not, nor is one that says
// little.
func TestSlowReader(t *testing.T) {
	inBubble(t, func(l *config.Limits) { l.WriteTime = 300 * time.Millisecond }, slowReader)
}

func slowReader(r *rig) {
	c := r.dial()
	_, _ = io.WriteString(c, "GET /50000000 HTTP/1.1\r\nHost: h\r\n\r\n")
	if err := r.outcome(1); err == nil {
		r.Error("50 MB are sent to a client that reads nothing")
	}
	c = r.dial()
	_, _ = io.WriteString(c, "GET /20000000 HTTP/1.0\r\nHost: h\r\n\r\n")
	total, part := 0, make([]byte, 16<<10)
	for err := error(nil); err == nil; time.Sleep(20 * time.Millisecond) {
		var n int
		n, err = c.Read(part)
		total += n
	}
	if err := r.outcome(2); err != nil || total < 20_000_000 {
		r.Errorf("%d bytes, %v", total, err)
	}
	if status, body := r.send(r.dial(), "GET /waitwaitwaitwaitwait HTTP/1.1\r\nHost: h\r\n\r\n"); status != 200 ||
		strings.Count(body, "tick") != 5 {
		r.Errorf("%d %s", status, body)
	}
}

// TestConnections: what is too many is told so, and closed; when one leaves there is room for another. Trusted proxies
// are bounded by the total alone.
func TestConnections(t *testing.T) {
	r := newRig(t, func(l *config.Limits) { l.Connections, l.PerAddress = 4, 2 })
	const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	first, second := r.dial(), r.dial()
	for _, c := range []net.Conn{first, second} {
		if status, _ := r.send(c, get); status != 200 {
			t.Fatal(status)
		}
	}
	status, body := r.send(r.dial(), get)
	if status != 503 || body != `{"error":"service_unavailable","reason":"your address has 2 connections already `+
		`([limits] max_connections_per_address)"}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
	_ = first.Close()
	r.wait(1)
	if status, _ := r.send(r.dial(), get); status != 200 {
		t.Errorf("no room again: %d", status)
	}
	r.mu.Lock()
	r.limits.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	r.mu.Unlock()
	for i, want := range []int{200, 200, 503} {
		status, body := r.send(r.dial(), get)
		if status != want || want == 503 && !strings.Contains(body, "max_connections)") {
			t.Errorf("%d: %d %s", i, status, body)
		}
	}
	_ = second.Close()
	r.wait(3)
}

// TestNoFiles: what would take the files of the store is closed at once, since an answer would keep it open; when one
// has left there is room again. One that is refused for another reason gives its file back.
func TestNoFiles(t *testing.T) {
	r := newRig(t, func(*config.Limits) {})
	r.count.mu.Lock()
	r.count.files = descriptors.New(4)
	r.count.mu.Unlock()
	const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	first, second := r.dial(), r.dial()
	for _, c := range []net.Conn{first, second} {
		if status, _ := r.send(c, get); status != 200 {
			t.Fatal(status)
		}
	}
	if status, body := r.send(r.dial(), ""); status != 0 {
		t.Errorf("a third connection of two is answered %d %s", status, body)
	}
	_ = first.Close()
	r.wait(1)
	r.mu.Lock()
	r.limits.Connections = 1
	r.mu.Unlock()
	for range 3 {
		refused := r.dial()
		if status, body := r.send(refused, ""); status != 503 {
			t.Errorf("%d %s", status, body)
		}
		_ = refused.Close()
		for len(r.count.refused) > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	_ = second.Close()
	r.wait(0)
	if status, _ := r.send(r.dial(), get); status != 200 {
		t.Errorf("no room again: %d", status)
	}
}

// wait waits until as many connections are left.
func (r *rig) wait(n int) {
	r.Helper()
	for range 20_000 {
		r.count.mu.Lock()
		total := r.count.total
		r.count.mu.Unlock()
		if total == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.Errorf("never %d connections", n)
}

// TestServersDeadline: what the server sets as the end of writes holds when it is earlier.
func TestServersDeadline(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	limits := config.Default().Limits
	c := &connection{Conn: a, limits: func() config.Limits { return limits }, left: func() {}}
	_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	began := time.Now()
	if _, err := c.Write([]byte("x")); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}
