package web

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Route is an endpoint for one method.
type Route struct {
	// Method is that of HTTP, or Any. GET serves HEAD too.
	Method string
	// Path begins with a slash. A segment {name} takes any one segment, {docid} the id of a document (two
	// segments when the first is _design or _local), and {name...} at the end all that are left, if any. In paths with
	// {db} or {doc...} a plus is a space, as in CouchDB; in others it is a plus, as ids of replications have one.
	Path string
	// Reads says that a request changes nothing, whatever its method.
	Reads bool
	// Access decides whether the client may use what the path names; nil admits everybody.
	Access Access
	// Handler answers.
	Handler Handler
}

// Any is the method of a route that answers all methods alike.
const Any = "*"

// Access decides whether a request goes on. Its error is the answer.
type Access func(*Request) error

// Handler answers a request. Its error is the answer, or cuts an answer off that has begun.
type Handler func(*Request) error

// Router serves a table of routes.
type Router struct {
	// Record, unless nil, is told of each request that changes something or would have, and of each refused login, when
	// it is over.
	Record func(q *Request, took time.Duration)

	// Answered, unless nil, is told of each request when it is over.
	Answered func(q *Request, took time.Duration)

	// Limits are those of requests, which may change at any time. Nil stands for the defaults.
	Limits func() Limits

	guard     Access
	endpoints []*endpoint
	bodies    *budget
}

// endpoint is a path with its routes by method.
type endpoint struct {
	pattern []string
	named   bool   // of databases or documents, with spaces for pluses
	access  Access // of the first route, for methods without one
	routes  map[string]Route
}

// NewRouter returns a server of routes. The path that comes first wins when several match. The guard, if
// there is one, is asked before all else.
func NewRouter(guard Access, routes []Route) *Router {
	r := &Router{guard: guard, bodies: newBudget()}
	byPath := map[string]*endpoint{}
	for _, route := range routes {
		e := byPath[route.Path]
		if e == nil {
			e = &endpoint{
				pattern: strings.Split(route.Path[1:], "/"), access: route.Access, routes: map[string]Route{},
				named: strings.Contains(route.Path, "{db}") || strings.HasSuffix(route.Path, "{doc...}"),
			}
			byPath[route.Path] = e
			r.endpoints = append(r.endpoints, e)
		}
		if _, taken := e.routes[route.Method]; taken {
			panic("web: two routes for " + route.Method + " " + route.Path)
		}
		e.routes[route.Method] = route
	}
	return r
}

// ServeHTTP answers a request.
func (r *Router) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	h := w.Header()
	q := &Request{Request: hr, W: w, ID: requestID(), budget: r.bodies}
	if r.Limits != nil {
		q.Limits = r.Limits()
	}
	q.Limits = q.Limits.orDefault()
	defer q.drop()
	defer q.Release()
	h.Set("Server", "couchrelay")
	h.Set("X-Couch-Request-ID", q.ID)
	h.Set("X-CouchDB-Body-Time", "0")
	protect(h)
	began := time.Now()
	defer func() { r.over(q, time.Since(began)) }()
	if err := r.serve(q); err != nil {
		q.fail(err)
	}
}

// over tells of a request that is over.
func (r *Router) over(q *Request, took time.Duration) {
	if r.Record != nil && (q.changes || q.Denied) {
		r.Record(q, took)
	}
	if r.Answered != nil {
		r.Answered(q, took)
	}
}

func requestID() string {
	b := make([]byte, 5)
	_, _ = rand.Read(b) // it cannot fail
	return hex.EncodeToString(b)
}

func (r *Router) serve(q *Request) error {
	escaped := q.URL.EscapedPath()
	path, err := splitPath(escaped)
	if err != nil {
		return err
	}
	named := path
	if strings.Contains(escaped, "+") {
		named, _ = splitPath(strings.ReplaceAll(escaped, "+", "%20"))
	}
	e := r.find(q, path, named)
	if q.Query, err = url.ParseQuery(q.URL.RawQuery); err != nil {
		return BadRequest("malformed query string")
	}
	if r.guard != nil {
		if err := r.guard(q); err != nil {
			return err
		}
	}
	if e == nil {
		return ErrMissing
	}
	return e.serve(q)
}

// find returns the endpoint of a path, nil if there is none, and notes in q what is known of the request by that. named
// is the path with spaces for pluses.
func (r *Router) find(q *Request, path, named []string) *endpoint {
	for _, e := range r.endpoints {
		of := path
		if e.named {
			of = named
		}
		if e.match(q, of) {
			route, served := e.route(q.Method)
			safe := q.Method == http.MethodGet || q.Method == http.MethodHead || q.Method == http.MethodOptions
			q.Pattern, q.changes = route.Path, served && !safe && !route.Reads
			return e
		}
	}
	q.params = q.params[:0] // of the last that did not match
	return nil
}

// splitPath decodes a path's segments. Empty ones do not count, as in CouchDB: Fauxton asks for //_cluster_setup.
func splitPath(escaped string) ([]string, error) {
	segments := slices.DeleteFunc(strings.Split(escaped, "/"), func(s string) bool { return s == "" })
	if len(segments) == 0 {
		return []string{""}, nil
	}
	for i, s := range segments {
		var err error
		if segments[i], err = url.PathUnescape(s); err != nil {
			return nil, BadRequest("the path has a malformed escape")
		}
	}
	return segments, nil
}

// match reports whether the path is the endpoint's, and notes in q the parts of the path for the names of the
// pattern.
func (e *endpoint) match(q *Request, path []string) bool {
	q.params = q.params[:0]
	for _, want := range e.pattern {
		name, isParam := strings.CutPrefix(want, "{")
		if name, isRest := strings.CutSuffix(name, "...}"); isParam && isRest {
			q.params = append(q.params, param{name, strings.Join(path, "/")})
			q.Rest = path
			return true
		}
		if len(path) == 0 || !isParam && path[0] != want {
			return false
		}
		value := path[0]
		path = path[1:]
		if want == "{docid}" && (value == "_design" || value == "_local") && len(path) > 0 {
			value, path = value+"/"+path[0], path[1:]
		}
		if isParam {
			q.params = append(q.params, param{strings.TrimSuffix(name, "}"), value})
		}
	}
	return len(path) == 0
}

// route returns that of a method, and whether there is one.
func (e *endpoint) route(method string) (route Route, served bool) {
	route, served = e.routes[method]
	if !served && method == http.MethodHead {
		route, served = e.routes[http.MethodGet] // net/http sends no body
	}
	if !served {
		route, served = e.routes[Any]
	}
	return route, served
}

// serve lets the route of the request's method answer.
func (e *endpoint) serve(q *Request) error {
	route, served := e.route(q.Method)
	if !served {
		route.Access = e.access
	}
	q.access = route.Access
	if err := q.StillMay(); err != nil {
		return err
	}
	if served {
		return route.Handler(q)
	}
	methods := slices.Collect(maps.Keys(e.routes))
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ",")
	q.W.Header().Set("Allow", allow)
	return &Error{http.StatusMethodNotAllowed, "method_not_allowed", "Only " + allow + " allowed"}
}
