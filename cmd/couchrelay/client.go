package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"couchrelay/core/ejson"

	"golang.org/x/term"
)

// Exit statuses of the process. Mistakes on the command line are badUsage.
const (
	failed   = 1 // no answer, or one that tells of a failure of the service
	badUsage = 2
	notFound = 3 // there is no such job, document, hold or database
	refused  = 4 // the service refuses the request, or its user
	differs  = 5 // there are differences
)

// errDifferent ends a comparison that finds differences.
var errDifferent = errors.New("there are differences")

// remote are the flags of commands that ask a running service.
type remote struct {
	Server      string        `help:"${remote_server}" default:"${server}" env:"COUCHRELAY_SERVER" placeholder:"URL"`
	Credentials string        `help:"File with USER:PASSWORD; ${credentials}" placeholder:"FILE" complete:"file"`
	Timeout     time.Duration `help:"${remote_timeout}" default:"30s" placeholder:"TIME"`
	JSON        bool          `name:"json" help:"${json}"`

	within context.Context // ends all requests, as a signal ends the one that is under way; may be nil
}

func (r *remote) context() context.Context {
	if r.within == nil {
		return context.Background()
	}
	return r.within
}

// localNode is the path of the node that answers, whichever that is behind a balancer.
const localNode = "/_node/_local"

// node returns the path of the service's node, such as /_node/_local. Behind a front /_node/_local is the
// CouchDB's; there, and where the CouchDB does not answer, the path has the name of the service's node.
func (r *remote) node() (path string, err error) {
	var here struct{ Vendor struct{ Name string } }
	var nodes struct {
		By string `json:"answered_by"`
	}
	err = r.into("GET", "/", nil, nil, &here)
	if err == nil && here.Vendor.Name == "couchrelay" {
		return localNode, nil
	}
	if _, refused := errors.AsType[*rejection](err); err == nil || refused {
		err = r.into("GET", "/_scheduler/nodes", nil, nil, &nodes)
	}
	return "/_node/" + url.PathEscape(nodes.By), err
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 20

// answer is what the service says.
type answer struct {
	raw   []byte
	value ejson.Value
}

// rejection is an error that the service answers with.
type rejection struct {
	status int
	raw    []byte
	Name   string `json:"error"`
	Reason string `json:"reason"`
}

func (r *rejection) Error() string {
	return fmt.Sprintf("%s: %s (status %d)", r.Name, r.Reason, r.status)
}

// exitStatus is the status of a process that ends with an error.
func exitStatus(err error) int {
	r, is := errors.AsType[*rejection](err)
	own, isOwn := errors.AsType[statusError](err)
	switch {
	case err == nil:
		return 0
	case isOwn:
		return own.status
	case is && r.status == http.StatusNotFound:
		return notFound
	case is && r.status >= 400 && r.status < 500:
		return refused
	case errors.Is(err, errDifferent):
		return differs
	}
	return failed
}

// ask sends a request, and returns the answer to it if that is a list or an object, and tells of no error. body may be
// nil.
func (r *remote) ask(method, path string, query url.Values, body any) (*answer, error) {
	raw, err := r.fetch(method, path, query, body)
	if err != nil {
		return nil, err
	}
	value, err := ejson.Parse(raw)
	if err != nil || value.Kind != ejson.Object && value.Kind != ejson.Array {
		return nil, fmt.Errorf("%s answers %s %s with %.20q: is it a couchrelay?", r.shown(), method, path, raw)
	}
	return &answer{raw, value}, nil
}

// fetch sends a request, and returns the answer to it, in JSON, if that tells of no error. body may be nil.
func (r *remote) fetch(method, path string, query url.Values, body any) ([]byte, error) {
	ctx, stop := signal.NotifyContext(r.context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	q, err := r.request(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := http.Client{CheckRedirect: stay}
	resp, err := client.Do(q)
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := readAtMost(resp.Body, maxAnswer)
	switch {
	case errors.Is(err, errLongAnswer):
		return nil, err
	case err != nil:
		return nil, r.explain(ctx, err)
	}
	return read(q, resp, raw)
}

var (
	errLongAnswer  = errors.New("the answer is too long")
	errLongRequest = errors.New("the request is too long")
)

// readAtMost reads an answer, unless it is longer than some bytes.
func readAtMost(body io.Reader, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(body, most+1))
	if err == nil && int64(len(raw)) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", errLongAnswer, most)
	}
	return raw, err
}

// Errors that end requests.
var (
	errSilent      = errors.New("the service is silent")
	errInterrupted = errors.New("interrupted")
)

// untilSignal returns a context that ends with the first signal. A second signal ends the process: a command that waits
// for somebody to take its output does not see that the context has ended.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// stream sends a request whose answer may take as long as it likes while something of it comes, and hands that on,
// unless it tells of an error.
func (r *remote) stream(method, path string, take func(io.Reader) error) error {
	ctx, stop := untilSignal()
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := r.streamed(ctx, method, path, take, func() *time.Timer {
		return time.AfterFunc(r.Timeout, func() { cancel(errSilent) })
	})
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errSilent):
		return fmt.Errorf("nothing came from %s for %s (--timeout)", r.shown(), r.Timeout)
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	}
	return err
}

// streamed is stream with a timer for each time that it waits for the service.
func (r *remote) streamed(
	ctx context.Context, method, path string, take func(io.Reader) error, wait func() *time.Timer,
) error {
	q, err := r.request(ctx, method, path, nil, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	timer := wait()
	resp, err := transport.RoundTrip(q)
	timer.Stop()
	if err != nil {
		return r.explain(ctx, err)
	}
	defer resp.Body.Close()
	body := patient{resp.Body, wait}
	if resp.StatusCode == http.StatusOK {
		return take(body)
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err == nil {
		_, err = read(q, resp, raw)
	}
	if err == nil {
		err = fmt.Errorf("%s answers %s: is it a couchrelay?", r.shown(), resp.Status)
	}
	return err
}

// patient is an answer with a timer for each wait for more of it.
type patient struct {
	io.Reader
	wait func() *time.Timer
}

func (p patient) Read(b []byte) (int, error) {
	defer p.wait().Stop()
	return p.Reader.Read(b)
}

// serverURL parses the URL of a server: http or https, with a host, and neither query nor fragment. It returns nil for
// any other text.
func serverURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery+u.Fragment != "" {
		return nil
	}
	return u
}

// request is a request with the user's credentials.
func (r *remote) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	server := serverURL(r.Server)
	if server == nil {
		return nil, misused(errors.New("--server, or COUCHRELAY_SERVER, must be a URL such as http://127.0.0.1:5980"))
	}
	user, err := r.user(server)
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	at := server.Scheme + "://" + server.Host + strings.TrimSuffix(server.EscapedPath(), "/") + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, method, at, content)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", "application/json")
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "couchrelay/"+version)
	if password, _ := user.Password(); user != nil {
		q.SetBasicAuth(user.Username(), password)
	}
	return q, nil
}

// user is who asks: by the file of --credentials, else by the URL of the server, else by the environment, which may
// also have the password of the user in the URL.
func (r *remote) user(server *url.URL) (*url.Userinfo, error) {
	name, password := os.Getenv("COUCHRELAY_USER"), os.Getenv("COUCHRELAY_PASSWORD")
	switch {
	case r.Credentials != "":
		user, err := readCredentials(r.Credentials)
		if err != nil {
			return nil, misused(fmt.Errorf("--credentials: %w", err))
		}
		return user, nil
	case server.User != nil:
		inURL := server.User.Username()
		if _, has := server.User.Password(); !has && (name == "" || name == inURL) {
			return url.UserPassword(inURL, password), nil
		}
		return server.User, nil
	case name != "":
		return url.UserPassword(name, password), nil
	case password != "":
		return nil, misused(errors.New("COUCHRELAY_PASSWORD is set without a user: COUCHRELAY_USER or the URL of the " +
			"service can name one"))
	}
	return nil, nil
}

// readCredentials reads user:password of a file that only its owner may read.
func readCredentials(path string) (*url.Userinfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): chmod 600 it",
			path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	user, password, found := strings.Cut(strings.TrimRight(string(text), "\r\n"), ":")
	if !found || user == "" || strings.ContainsAny(password, "\r\n") {
		return nil, fmt.Errorf("%s must hold one line, user:password", path)
	}
	return url.UserPassword(user, password), nil
}

// explain says why there is no answer. It shows no password that the URL may have.
func (r *remote) explain(ctx context.Context, err error) error {
	if e, is := errors.AsType[*url.Error](err); is {
		err = e.Err
	}
	server := r.shown()
	switch timeout, is := errors.AsType[net.Error](err); {
	case errors.Is(ctx.Err(), context.Canceled):
		return errInterrupted
	case ctx.Err() != nil || is && timeout.Timeout():
		return fmt.Errorf("%s did not answer within %s (--timeout)", server, r.Timeout)
	}
	return fmt.Errorf("no answer from %s: %w", server, err)
}

// shown is the service's URL without a password.
func (r *remote) shown() string {
	u, err := url.Parse(r.Server)
	if err != nil {
		return r.Server
	}
	return u.Redacted()
}

// read returns an answer that tells of no error.
func read(q *http.Request, resp *http.Response, raw []byte) ([]byte, error) {
	_, err := ejson.Parse(raw)
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, fmt.Errorf("%s redirects to %q: name the service itself with --server",
			q.URL.Redacted(), resp.Header.Get("Location"))
	case err != nil && resp.StatusCode == http.StatusRequestEntityTooLarge: // of a proxy
		return nil, fmt.Errorf("%w: %s answers %s", errLongRequest, q.URL.Redacted(), resp.Status)
	case err != nil:
		return nil, fmt.Errorf("%s answers %s with %q, no JSON: is it a couchrelay?",
			q.URL.Redacted(), resp.Status, resp.Header.Get("Content-Type"))
	case resp.StatusCode >= 400:
		r := &rejection{status: resp.StatusCode, raw: raw}
		if json.Unmarshal(raw, r) != nil || r.Name == "" {
			r.Name, r.Reason = resp.Status, string(raw)
		}
		return nil, r
	}
	return raw, nil
}

// window is where results go.
type window struct {
	to    io.Writer
	width int // columns of a terminal, 0 for none
}

// json prints an answer as it is.
func (w *window) json(raw []byte) error {
	_, err := w.to.Write(append(bytes.TrimRight(raw, "\n"), '\n'))
	return err
}

// object prints an object with one member on a line.
func (w *window) object(name string, value any) error {
	raw, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return err
	}
	return w.json(raw)
}

// standardOutput is the window of the process.
func standardOutput() *window {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return &window{os.Stdout, width}
}

// show asks, and prints the answer: as it is for --json, also one that tells of an error, else what print makes of
// it.
func (r *remote) show(
	w *window, method, path string, query url.Values, body any, print func(*screen, ejson.Value),
) error {
	a, err := r.ask(method, path, query, body)
	if err != nil {
		return r.refused(w, err)
	}
	if r.JSON {
		return w.json(a.raw)
	}
	s := &screen{width: w.width}
	print(s, a.value)
	if s.lacks != "" {
		return fmt.Errorf("%s answers %s %s without `%s`: is it a couchrelay?", r.shown(), method, path, s.lacks)
	}
	_, err = io.WriteString(w.to, s.text.String())
	return err
}

// refused prints for --json the answer that is an error, and returns the error.
func (r *remote) refused(w *window, err error) error {
	if no, is := errors.AsType[*rejection](err); is && r.JSON {
		_ = w.json(no.raw) // err tells more than a failure to print
	}
	return err
}
