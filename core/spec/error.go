package spec

// Kind is the class of a mistake in a replication. It is the "error" member of CouchDB's answers. All kinds
// are answered with status 400 to /_replicate and 403 to writes of documents.
type Kind string

// Kinds of mistakes.
const (
	BadRequest         Kind = "bad_request"         // a field has a wrong type or value, or fields exclude each other
	InvalidReplication Kind = "invalid_replication" // source, target, proxy or filter cannot be used
	NotSupported       Kind = "not_supported"       // valid, but couchrelay does not do it yet
)

// Error is a mistake in a replication.
type Error struct {
	Kind Kind
	// Reason is CouchDB's message, where it has one.
	Reason string
	// Detail names the field and its accepted values where Reason does not. It may be empty.
	Detail string
}

// Error begins with the reason, so that it can be the "reason" of an answer.
func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Detail
}
