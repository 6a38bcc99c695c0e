package docs

import "fmt"

// Error is a refusal, in the words and with the status that CouchDB has for it. Every other error of
// this package comes from the store.
type Error struct {
	Status int    // of HTTP
	Name   string // CouchDB's word: conflict, not_found, ...
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Reason) }

// Refusals that callers ask for with errors.Is.
var (
	ErrNoDatabase = &Error{404, "not_found", "Database does not exist."}
	ErrExists     = &Error{412, "file_exists", "The database could not be created, the file already exists."}
	ErrMissing    = &Error{404, "not_found", "missing"}
	ErrDeleted    = &Error{404, "not_found", "deleted"}
	ErrConflict   = &Error{409, "conflict", "Document update conflict."}
	ErrRev        = &Error{400, "bad_request", "Invalid rev format"}
	ErrJSON       = &Error{400, "bad_request", "invalid UTF-8 JSON"}
	ErrNotObject  = &Error{400, "bad_request", "Document must be a JSON object"}
	ErrSeq        = &Error{400, "bad_request", "Malformed sequence supplied in 'since' parameter."}
	// ErrUploadGone says that an upload was discarded before a document could refer to it.
	ErrUploadGone = &Error{500, "internal_server_error", "the uploaded attachment has been discarded"}
)

// BadRequest refuses what a client may not say.
func BadRequest(format string, args ...any) *Error {
	return &Error{400, "bad_request", fmt.Sprintf(format, args...)}
}

// Forbidden is the refusal of a validation: the client may be known, but may not do this.
func Forbidden(reason string) *Error { return &Error{403, "forbidden", reason} }

// Unauthorized is the refusal of a validation: the client should say who it is.
func Unauthorized(reason string) *Error { return &Error{401, "unauthorized", reason} }

func illegalID(reason string) *Error { return &Error{400, "illegal_docid", reason} }

func invalidDocument(format string, args ...any) *Error {
	return &Error{400, "doc_validation", fmt.Sprintf(format, args...)}
}
