package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
)

// Error is the answer to a request that fails, in CouchDB's words.
type Error struct {
	Status int    `json:"-"` // of HTTP
	Name   string `json:"error"`
	Reason string `json:"reason"`
}

func (e *Error) Error() string { return e.Name + ": " + e.Reason }

// statuses are the HTTP statuses for refusals by core/docs.
var statuses = map[docs.Kind]int{
	docs.Invalid:      http.StatusBadRequest,
	docs.Denied:       http.StatusForbidden,
	docs.NotFound:     http.StatusNotFound,
	docs.Conflict:     http.StatusConflict,
	docs.Precondition: http.StatusPreconditionFailed,
	docs.TooLarge:     http.StatusRequestEntityTooLarge,
	docs.Internal:     http.StatusInternalServerError,

	docs.Unauthenticated: http.StatusUnauthorized,
}

// Answers that are given in several places.
var (
	ErrMissing  = NotFound("missing")
	ErrEncoding = badType("Only gzip and identity content-encodings are supported")
	// errBodyLate answers a client that takes too long to send its body.
	errBodyLate = &Error{http.StatusRequestTimeout, "timeout", "the body of the request did not come in time " +
		"([limits] body_timeout_sec)"}
	// errTooLargeToWrite answers a write that does not fit into a transaction. A replication document is
	// written with the replication that it describes, so all but its other members counts twice.
	errTooLargeToWrite = tooLarge("what is written at once may have %d bytes; a replication document is kept "+
		"together with the replication that it describes, so doc_ids, selector and all else that describes it may "+
		"have about %d bytes",
		kv.MaxTxSize, maxDescription)
)

// maxDescription is the largest size in bytes that fits twice into a transaction, with some room for keys.
const maxDescription = kv.MaxTxSize/2 - 100_000

// BadRequest answers a request that makes no sense.
func BadRequest(format string, args ...any) *Error {
	return &Error{http.StatusBadRequest, "bad_request", fmt.Sprintf(format, args...)}
}

// Unauthorized answers a client that has to authenticate.
func Unauthorized(reason string) *Error {
	return &Error{http.StatusUnauthorized, "unauthorized", reason}
}

// Forbidden answers a client that may not do what it asks for.
func Forbidden(reason string) *Error { return &Error{http.StatusForbidden, "forbidden", reason} }

// NotFound answers a request for a thing that does not exist.
func NotFound(reason string) *Error { return &Error{http.StatusNotFound, "not_found", reason} }

// Conflict answers a request that what it names, as it is now, does not allow.
func Conflict(reason string) *Error { return &Error{http.StatusConflict, "conflict", reason} }

// NotImplemented answers a request for a part of CouchDB's interface that is not served.
func NotImplemented(reason string) *Error {
	return &Error{http.StatusNotImplemented, "not_implemented", reason}
}

// QueryError answers a request with a parameter that cannot be read.
func QueryError(reason string) *Error {
	return &Error{http.StatusBadRequest, "query_parse_error", reason}
}

// TooLarge answers a request whose body has more than limit bytes.
func TooLarge(limit int64) *Error {
	return tooLarge("the request entity is too large: it may have %d bytes", limit)
}

func tooLarge(format string, args ...any) *Error {
	return &Error{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf(format, args...)}
}

func badType(reason string) *Error {
	return &Error{http.StatusUnsupportedMediaType, "bad_content_type", reason}
}

// WithoutAddress returns an error of the network without names and addresses: which servers are behind this one is no
// client's business.
func WithoutAddress(err error) error {
	if dns, is := errors.AsType[*net.DNSError](err); is {
		return errors.New("lookup: " + dns.Err)
	}
	if op, is := errors.AsType[*net.OpError](err); is && op.Err != nil {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// errorOf returns the answer to any error.
func errorOf(err error) *Error {
	var answer *Error
	var refusal *docs.Error
	switch {
	case errors.As(err, &answer):
		return answer
	case errors.As(err, &refusal):
		return &Error{statuses[refusal.Kind], refusal.Name, refusal.Reason}
	case kv.CodeOf(err) == kv.TransactionTooLarge:
		return errTooLargeToWrite
	case kv.CodeOf(err) == kv.ValueTooLarge:
		return tooLarge("the request entity is too large")
	case errors.Is(err, kv.ErrUnavailable):
		return &Error{http.StatusServiceUnavailable, "service_unavailable", err.Error()}
	case kv.CodeOf(err) != 0, errors.Is(err, context.DeadlineExceeded):
		reason := "the store does not answer: " + err.Error()
		return &Error{http.StatusServiceUnavailable, "service_unavailable", reason}
	}
	return &Error{http.StatusInternalServerError, "internal_server_error", err.Error()}
}
