// Package front lets one address be a CouchDB and the replication service: requests for replications stay here, and
// all others are streamed to the CouchDB behind, with their headers as they came. It decides nothing about users: each
// of the two servers asks for the credentials that it needs.
package front

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"couchrelay/adapters/certs"
	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
	"couchrelay/core/spec"
)

// Bounds of connections to the CouchDB. An answer may take as long as the client waits for it: a view may take an
// hour to build, and a changes feed never ends.
const (
	dialTimeout = 10 * time.Second
	idleTimeout = 90 * time.Second
	maxIdle     = 100
)

// Options of a front.
type Options struct {
	// CouchDB is the URL of the server behind: a scheme and a host, and a path when it has a prefix.
	CouchDB *url.URL
	// Service answers the requests that are for the replication service.
	Service http.Handler
	// Node is the name of this node, whose requests below /_node stay here. It may change while the node starts.
	Node func() string
	// TLS returns how to connect if the URL is one of https. It is asked for each connection.
	TLS func() (*tls.Config, error)
	// Files has the descriptors of connections to the CouchDB: each client needs one of these, too. Nil has no bound.
	Files *descriptors.Budget
	// Logger tells of a CouchDB that does not answer.
	Logger *slog.Logger
}

// front is the handler that New returns.
type front struct {
	Options
	proxy httputil.ReverseProxy
	via   string // names this process in the header Via
}

// TakesURL says what ParseURL accepts.
const TakesURL = "a URL like http://couch:5984, without user, query and fragment"

// ParseURL reads the address of a CouchDB. It has no user: the credentials of clients are passed on.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || !spec.IsServer(text, false) {
		return nil, errors.New("must be " + TakesURL)
	}
	return u, nil
}

// New returns the handler of an address that is both.
func New(o Options) http.Handler {
	f := &front{Options: o, via: "1.1 couchrelay-" + rand.Text()}
	t := &http.Transport{
		Proxy:          nil, // the environment's proxies are for the world outside
		DialContext:    f.Files.Dial((&net.Dialer{Timeout: dialTimeout}).DialContext),
		DialTLSContext: f.Files.Dial(certs.Dial(f.TLS, dialTimeout)), ExpectContinueTimeout: time.Second,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle,
		DisableCompression: true, // bodies pass as they are
	}
	f.Files.OnShortage(t.CloseIdleConnections)
	f.proxy = httputil.ReverseProxy{
		Rewrite: f.rewrite, ErrorHandler: f.fail, Transport: t,
		FlushInterval: -1, // each change of a feed goes out as it comes
		ErrorLog:      slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return f
}

// ServeHTTP answers a request, or passes it on.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.isService(r.URL.EscapedPath()):
		f.Service.ServeHTTP(w, r)
	case strings.Contains(strings.Join(r.Header.Values("Via"), ","), f.via):
		web.Refuse(w, r, &web.Error{Status: http.StatusLoopDetected, Name: "loop_detected",
			Reason: "[front] couchdb leads back to this service; it must be the address of a CouchDB"})
	case listsDatabases(r):
		f.databases(w, r)
	default:
		f.proxy.ServeHTTP(w, r)
	}
}

// isService reports whether a path is of the replication service.
func (f *front) isService(escaped string) bool {
	first, rest, _ := strings.Cut(strings.TrimLeft(escaped, "/"), "/")
	name, err := url.PathUnescape(first)
	if err != nil {
		return false
	}
	switch name {
	case "_replicate", "_scheduler", "_active_tasks", "_dashboard":
		return true
	case "_node":
		node, _, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		node, err := url.PathUnescape(node)
		return err == nil && node == f.Node()
	}
	return jobstore.IsReplicatorDB(name)
}

// rewrite addresses a request to the CouchDB. The Host stays that of the client, from which CouchDB makes Location.
func (f *front) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(f.CouchDB)
	r.Out.URL.RawQuery = r.In.URL.RawQuery // also parts that Go cannot parse
	r.Out.Host = r.In.Host
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	r.Out.Header.Add("Via", f.via)
}

// fail answers a request that the CouchDB did not.
func (f *front) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil || errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	f.Logger.Warn("front_failed", "method", r.Method, "path", r.URL.Path, "error", err)
	web.Refuse(w, r, &web.Error{Status: http.StatusBadGateway, Name: "bad_gateway",
		Reason: "the CouchDB behind this address does not answer: " + describe(err)})
}

// describe tells why a request failed, without the address of the server behind.
func describe(err error) string {
	if op, is := errors.AsType[*net.OpError](err); is {
		return web.WithoutAddress(op).Error()
	}
	return "the connection broke"
}
