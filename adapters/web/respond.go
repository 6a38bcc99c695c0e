package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"couchrelay/core/kv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fail answers with an error, or cuts an answer off that has begun.
func (q *Request) fail(err error) {
	// net/http takes a client that sends too slowly for one that has gone.
	gone := q.Context().Err() != nil && !errors.Is(context.Cause(q.Context()), kv.ErrUnavailable) &&
		!errors.Is(err, errBodyLate)
	if q.Began() && !gone {
		q.breakOff(errorOf(err))
	}
	if q.Began() || gone {
		// The client must not take the part that it has for the whole. A client that has only stopped sending
		// still listens, and would take silence for 200.
		panic(http.ErrAbortHandler)
	}
	if cause := context.Cause(q.Context()); errors.Is(err, context.Canceled) && errors.Is(cause, kv.ErrUnavailable) {
		err = cause // of work that does not use Run
	}
	answer := errorOf(err)
	switch answer.Status {
	case http.StatusUnauthorized:
		if !strings.Contains(q.Header.Get("Accept"), "application/json") { // as in CouchDB: else a page asks itself
			q.W.Header().Set("WWW-Authenticate", `Basic realm="couchrelay"`)
		}
	case http.StatusServiceUnavailable:
		if q.sent {
			answer = &Error{answer.Status, answer.Name, answer.Reason + inDoubt}
		}
		_ = q.SendUnavailable(answer)
		return
	}
	_ = q.SendJSON(answer.Status, answer)
}

// breakOff sends the reason why an answer is cut off behind what it has of JSON so far, as CouchDB does. An answer that
// has announced its length might be whole with it.
func (q *Request) breakOff(err *Error) {
	h := q.W.Header()
	text, bad := Encode(err)
	if bad != nil || h.Get("Content-Type") != "application/json" || h.Get("Content-Length") != "" {
		return
	}
	_, _ = q.W.Write(append(append([]byte("\n\n"), text...), '\n'))
	_ = http.NewResponseController(q.W).Flush()
}

// protect tells browsers that an answer is data: not to be taken for a page, shown within another one, or named to
// other servers.
func protect(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
}

// Refuse answers a request that no router has seen with an error. A client that is gone needs no answer.
func Refuse(w http.ResponseWriter, r *http.Request, err *Error) {
	protect(w.Header())
	_ = (&Request{Request: r, W: w}).SendJSON(err.Status, err)
}

var asGiven = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true),
	json.Deterministic(true),
)

// Encode returns a value as JSON. As in CouchDB's answers, characters that mean something in HTML are not
// escaped; raw values stay as servers and clients wrote them.
func Encode(value any) ([]byte, error) {
	return json.Marshal(value, asGiven)
}

// SendJSON answers with a value.
func (q *Request) SendJSON(status int, value any) error {
	text, err := Encode(value)
	if err != nil {
		return err
	}
	return q.SendRaw(status, text)
}

// SendRaw answers with a value that is JSON already.
func (q *Request) SendRaw(status int, text []byte) error {
	q.Begin(status, "application/json")
	_, err := q.W.Write(append(text, '\n'))
	return err
}

// Begin writes the status line and headers.
func (q *Request) Begin(status int, contentType string) {
	h := q.W.Header()
	h.Set("Content-Type", contentType)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "must-revalidate")
	}
	q.W.WriteHeader(status)
	q.status = status
}

// Began reports whether the status line is written.
func (q *Request) Began() bool { return q.status != 0 }

// Writer returns what handlers of net/http write the answer to, so that its status is known.
func (q *Request) Writer() http.ResponseWriter { return writer{q.W, q} }

type writer struct {
	http.ResponseWriter
	q *Request
}

// WriteHeader is http.ResponseWriter's.
func (w writer) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	w.q.status = status
}

// Unwrap is for http.ResponseController.
func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Unchanged answers 304, and returns true, when the client has the version that tag names.
func (q *Request) Unchanged(tag string) bool {
	q.W.Header().Set("ETag", tag)
	for known := range strings.SplitSeq(q.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimSpace(known); known == tag || known == "*" {
			q.W.WriteHeader(http.StatusNotModified)
			q.status = http.StatusNotModified
			return true
		}
	}
	return false
}

// OK is the answer to a request that has nothing to tell.
var OK = struct {
	OK bool `json:"ok"`
}{true}
