package web

import (
	"compress/gzip"
	"errors"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Request is one request on its way.
type Request struct {
	*http.Request
	W     http.ResponseWriter
	Query url.Values
	// Rest are the segments of the path that a name {name...} of the route's pattern took.
	Rest []string
	// User is the user that sends the request. The router's guard sets it.
	User User
	// Claimed is the name with which the request tried to log in. Nothing proves it.
	Claimed string
	// Denied says that the login which the request carries was refused.
	Denied bool
	// Limits bound what the request can take.
	Limits Limits
	// ID is the answer's X-Couch-Request-ID.
	ID string
	// Pattern is the path of the request's route, empty if it has none.
	Pattern string
	// Admin says that the user may do everything with what the path names: it is an admin of the server, or of the
	// database. The route's Access sets it.
	Admin bool

	access  Access // of the route
	params  []param
	budget  *budget
	memory  // of the budget
	notes   []slog.Attr
	status  int  // of the answer, once its status line is written
	changes bool // the route changes something
	sent    bool // a transaction that may change something came as far as its commit
}

// memory is what a request has taken of a budget.
type memory struct {
	held    int64
	parsed  int64 // of held, for the values of the largest text
	carried int64 // of what there is for answers
}

// StillMay asks again whether the client may use what the path names. Answers that last ask it before they go on, since
// a right may have been taken away meanwhile.
func (q *Request) StillMay() error {
	if q.access == nil {
		return nil
	}
	return q.access(q)
}

// Param returns the part of the path that a name of the route's pattern took, empty for unknown names.
func (q *Request) Param(name string) string {
	for _, p := range q.params {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// Params are the names of the route's pattern with the parts of the path that they took.
func (q *Request) Params() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, p := range q.params {
			if !yield(p.name, p.value) {
				return
			}
		}
	}
}

// Note adds to what is recorded of the request: what it is about, as far as the path does not say that. It must be no
// secret.
func (q *Request) Note(key string, value any) { q.notes = append(q.notes, slog.Any(key, value)) }

// Notes are those that were added.
func (q *Request) Notes() []slog.Attr { return q.notes }

// Status is that of the answer; 0 if the client went before one was sent, or a bug kept it from being sent.
func (q *Request) Status() int { return q.status }

// param is a name of a route's pattern and the part of the path that it took.
type param struct{ name, value string }

// Number returns a parameter that must be a whole number, not negative.
func (q *Request) Number(name string, absent int64) (int64, error) {
	if !q.Query.Has(name) {
		return absent, nil
	}
	n, err := strconv.ParseInt(q.Query.Get(name), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n < 0:
		return 0, QueryError(name + " not in range of [0,infinity]")
	case err != nil:
		return 0, QueryError(name + " must be an integer")
	}
	return n, nil
}

// Unlimited is a limit that no list reaches.
const Unlimited = 1 << 40

// Page returns the parameters limit and skip of a list; a limit that is not given is absent.
func (q *Request) Page(absent int64) (limit, skip int64, err error) {
	if limit, err = q.Number("limit", absent); err != nil {
		return 0, 0, err
	}
	skip, err = q.Number("skip", 0)
	return limit, skip, err
}

// JSONBody reads a body of at most limit bytes that must be declared as JSON.
func (q *Request) JSONBody(limit int64) ([]byte, error) {
	if kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type")); kind != "application/json" {
		return nil, badType("Content-Type must be application/json")
	}
	return q.ReadBody(limit)
}

// ReadBody reads the whole body, of at most limit bytes, and decompresses it.
func (q *Request) ReadBody(limit int64) ([]byte, error) {
	if q.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	var body io.Reader = http.MaxBytesReader(q.W, q.Body, limit)
	switch encoding := strings.ToLower(q.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		plain, err := gzip.NewReader(body)
		if err != nil {
			return nil, ReadError(err)
		}
		body = plain
	default:
		return nil, ErrEncoding
	}
	return q.ReadPart(body, limit)
}

// ReadPart reads a part of the body, of at most limit bytes, whose JSON must not be nested too deep.
func (q *Request) ReadPart(body io.Reader, limit int64) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(rationed{body, q}, limit+1))
	if err != nil {
		return nil, ReadError(err)
	}
	if int64(len(all)) > limit {
		return nil, TooLarge(limit)
	}
	return all, q.checkDepth(all)
}

// ReadError answers a request whose body cannot be read.
func ReadError(err error) error {
	if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
		return TooLarge(over.Limit)
	}
	if answer, is := errors.AsType[*Error](err); is {
		return answer
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errBodyLate
	}
	return BadRequest("the request body cannot be read: %v", err)
}
