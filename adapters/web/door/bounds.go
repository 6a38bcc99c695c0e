package door

import (
	"errors"
	"io"
	"net/http"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
)

// Bounded returns a handler that refuses requests with too long a URL or too many headers, and ends bodies that come
// too slowly.
func Bounded(limits func() config.Limits, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, headers := limits(), 0
		for _, values := range r.Header {
			headers += len(values)
		}
		switch {
		case len(r.RequestURI) > l.URL:
			web.Refuse(w, r, &web.Error{Status: http.StatusRequestURITooLong, Name: "too_long",
				Reason: "the request uri is too long"})
		case headers > l.Headers:
			web.Refuse(w, r, &web.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Name: "too_large",
				Reason: "the request has too many headers"})
		default:
			timed, err := withTimedBody(w, r, l.BodyTime)
			if err != nil {
				web.Refuse(w, r, err)
				return
			}
			h.ServeHTTP(w, timed)
		}
	})
}

// maxUnread bounds a body that means nothing.
const maxUnread = 64 << 10

// withTimedBody returns the request with a body that must come in time. That of GET and HEAD, which nothing reads, is
// taken away before: its deadline would end the answer, which may be a feed.
func withTimedBody(w http.ResponseWriter, r *http.Request, limit time.Duration) (*http.Request, *web.Error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	r2 := *r
	body := newTimed(w, r.Body, limit)
	r2.Body = body
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch n, err := io.Copy(io.Discard, io.LimitReader(body, maxUnread+1)); {
		case err != nil:
			answer, _ := errors.AsType[*web.Error](web.ReadError(err))
			return r, answer
		case n > maxUnread:
			return r, web.TooLarge(maxUnread)
		}
		r2.Body, r2.ContentLength, r2.TransferEncoding = http.NoBody, 0, nil
	}
	return &r2, nil
}

// leastRate is the speed in bytes a second at which a body may come for as long as it takes.
const leastRate = 1000

// timed is a body that must come within a time, and a second more for each leastRate bytes.
type timed struct {
	io.ReadCloser
	connection *http.ResponseController
	until      time.Time
}

func newTimed(w http.ResponseWriter, body io.ReadCloser, limit time.Duration) *timed {
	b := &timed{body, http.NewResponseController(w), time.Now().Add(limit)}
	_ = b.connection.SetReadDeadline(b.until) // what has no connection has no deadline either
	return b
}

// Read reads on. At the end of the body the deadline ends, too: the server goes on reading, to see the client leave.
func (b *timed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.until = b.until.Add(time.Duration(n) * time.Second / leastRate)
	if err == io.EOF {
		b.until = time.Time{}
	}
	_ = b.connection.SetReadDeadline(b.until)
	return n, err
}
