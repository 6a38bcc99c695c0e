package docs

import "fmt"

// Kind is why a request is refused.
type Kind int

// Kinds of refusals.
const (
	Invalid         Kind = iota // the request makes no sense, whatever is stored
	Denied                      // the client may not do this
	NotFound                    // what the request names does not exist
	Conflict                    // the request is about a revision that is not the newest any more
	Precondition                // what is stored is not as the request needs it
	TooLarge                    // there is a limit on how large this may be
	Internal                    // the request is in order, and cannot be served all the same
	Unauthenticated             // the client may do this if it logs in as somebody else
)

// Error is a refusal in CouchDB's words. Every other error of this package comes from the store.
type Error struct {
	Kind   Kind
	Name   string // CouchDB's word for it, finer than the kind: conflict, file_exists, ...
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Reason) }

// Refusals that callers look for with errors.Is.
var (
	ErrNoDatabase = &Error{NotFound, "not_found", "Database does not exist."}
	ErrExists     = &Error{Precondition, "file_exists", "The database could not be created, the file already exists."}
	ErrMissing    = &Error{NotFound, "not_found", "missing"}
	ErrDeleted    = &Error{NotFound, "not_found", "deleted"}
	ErrConflict   = &Error{Conflict, "conflict", "Document update conflict."}
	ErrRev        = &Error{Invalid, "bad_request", "Invalid rev format"}
	ErrJSON       = &Error{Invalid, "bad_request", "invalid UTF-8 JSON"}
	ErrNotObject  = &Error{Invalid, "bad_request", "Document must be a JSON object"}
	ErrSeq        = &Error{Invalid, "bad_request", "Malformed sequence supplied in 'since' parameter."}
	// ErrUploadGone refuses a document whose upload was discarded before the document could refer to it.
	ErrUploadGone = &Error{Internal, "internal_server_error", "the uploaded attachment has been discarded"}
)

// BadRequest refuses a request that makes no sense.
func BadRequest(format string, args ...any) *Error {
	return &Error{Invalid, "bad_request", fmt.Sprintf(format, args...)}
}

// Forbidden is the refusal of a validation: the client may be known, but may not do this.
func Forbidden(reason string) *Error { return &Error{Denied, "forbidden", reason} }

func illegalID(reason string) *Error { return &Error{Invalid, "illegal_docid", reason} }

func invalidDocument(format string, args ...any) *Error {
	return &Error{Invalid, "doc_validation", fmt.Sprintf(format, args...)}
}
