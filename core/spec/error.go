package spec

// Kind is the class of a mistake in a replication. It is the "error" member of CouchDB's answers; all
// kinds mean status 400 on /_replicate and 403 on writes of documents.
type Kind string

// Kinds of mistakes.
const (
	BadRequest         Kind = "bad_request"         // a field has a wrong type or value, or fields exclude each other
	InvalidReplication Kind = "invalid_replication" // source, target, proxy or filter cannot be used
	NotSupported       Kind = "not_supported"       // right, but couchrelay does not do it yet
)

// Error is a mistake in a replication.
type Error struct {
	Kind Kind
	// Reason is CouchDB's message where it has one.
	Reason string
	// Detail tells more where Reason alone does not name the field and what is accepted. It may be empty.
	Detail string
}

// Error begins with the reason, so it serves as the "reason" of an answer too.
func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Detail
}
