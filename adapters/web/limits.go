package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"couchrelay/core/docs"
)

// Limits bound what a request can take. 0 stands for the default.
type Limits struct {
	Request    int64 // bytes of a body that has to be in memory: everything but attachments; 64 MiB
	Document   int64 // bytes of one document without attachments; 8,000,000
	Attachment int64 // stored bytes of one attachment; 1 GiB
	Depth      int   // of JSON; 1000
	Memory     int64 // bytes of all bodies that are in memory, and of documents for answers; 512 MiB each
}

// orDefault returns limits without a 0.
func (l Limits) orDefault() Limits {
	bound := func(field *int64, value int64) {
		if *field == 0 {
			*field = value
		}
	}
	bound(&l.Request, 64<<20)
	bound(&l.Document, docs.MaxBody)
	bound(&l.Attachment, 1<<30)
	bound(&l.Memory, 512<<20)
	if l.Depth == 0 {
		l.Depth = 1000
	}
	return l
}

// budget is the memory of a router for bodies, and for answers.
type budget struct {
	taken, answers atomic.Int64
	reading        chan struct{} // has one for each request that reads for its answer
}

// maxReading is how many requests read for their answers at a time. One reads a few megabytes, of a document with large
// conflicts up to 90.
const maxReading = 8

func newBudget() *budget { return &budget{reading: make(chan struct{}, maxReading)} }

var (
	errBusy = &Error{http.StatusServiceUnavailable, "service_unavailable",
		"the bodies of other requests take all the memory that there is for bodies ([limits] max_body_memory)"}
	errManyAnswers = &Error{http.StatusServiceUnavailable, "service_unavailable",
		"the answers to other requests take all the memory that there is for answers ([limits] max_body_memory)"}
	// errNeverFits answers a body that would be too large at any time.
	errNeverFits = tooLarge("what the body is made into takes more than all the memory that there is for bodies " +
		"([limits] max_body_memory)")
)

// rationed is a body that takes memory for what is read, as long as there is some.
type rationed struct {
	io.Reader
	q *Request
}

func (r rationed) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if full := r.q.Hold(int64(n)); full != nil {
		return 0, full
	}
	return n, err
}

// Hold takes memory for what a body is made into, until the answer is sent, as long as there is some.
func (q *Request) Hold(bytes int64) error {
	q.held += bytes
	b := q.budget
	switch {
	case b == nil || b.taken.Add(bytes) <= q.Limits.Memory:
		return nil
	case q.held > q.Limits.Memory:
		return errNeverFits
	}
	return errBusy
}

// perValue is about how many bytes of memory a value takes once the text is parsed in which it had two bytes.
const perValue = 150

// HoldParsed takes memory for the values of a JSON text, of which a comma or the beginning of an array or object stands
// before each but the first. The largest text of a request counts: others are parsed before or after it.
func (q *Request) HoldParsed(text []byte) error { return q.HoldValues(Values(text)) }

// Values is about how many values a JSON text has, and no less.
func Values(text []byte) (n int64) {
	for _, before := range []string{",", "[", "{"} {
		n += int64(bytes.Count(text, []byte(before)))
	}
	return 1 + n
}

// HoldValues is HoldParsed of as many values, which several texts have that are parsed together.
func (q *Request) HoldValues(n int64) error {
	more := max(0, perValue*n-q.parsed)
	q.parsed += more
	return q.Hold(more)
}

// freeAnswer is up to how many bytes a part of an answer does not count, so that large ones that clients do not take
// are not in the way of most others.
const freeAnswer = 1 << 20

// Carry reads a part of the answer, in the place of the part before, and takes memory for it, as long as there is
// some: clients may take their time. An answer that is alone always has enough. read returns how much it is, which is
// not known before; so there are few that read at a time.
func (q *Request) Carry(read func() (int64, error)) error {
	q.drop()
	wait, cancel := context.WithTimeoutCause(q.Context(), Patience, errSlow)
	defer cancel()
	select {
	case q.budget.reading <- struct{}{}:
		defer func() { <-q.budget.reading }()
	case <-wait.Done():
		return context.Cause(wait)
	}
	bytes, err := read()
	if err != nil || bytes <= freeAnswer {
		return err
	}
	if all := q.budget.answers.Add(bytes); all > q.Limits.Memory && all > bytes {
		q.budget.answers.Add(-bytes)
		return errManyAnswers
	}
	q.carried = bytes
	return nil
}

// drop gives the memory of the part back that was sent.
func (q *Request) drop() {
	if q.budget != nil {
		q.budget.answers.Add(-q.carried)
	}
	q.carried = 0
}

// Release gives the memory of the body back. It is called when nothing of the body is in use any more, which may be
// long before the answer.
func (q *Request) Release() {
	if q.budget != nil {
		q.budget.taken.Add(-q.held)
	}
	q.held, q.parsed = 0, 0
}

// checkDepth refuses JSON that is nested deeper than a request's may be. It reads no further than that, and leaves
// other mistakes to parsers.
func (q *Request) checkDepth(text []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > q.Limits.Depth {
				return BadRequest("the JSON is nested more than %d deep", q.Limits.Depth)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}
