package peer

type (
	// Opened describes a database.
	Opened struct {
		UpdateSeq Seq
		// InstanceStartTime tells a re-created database from the one before; "0" means unknown.
		InstanceStartTime string
	}

	// Created says that the target database exists now.
	Created struct{}

	// Local is a checkpoint document, or its absence.
	Local struct {
		Found bool
		Rev   string
		Body  []byte // the JSON object as the server sent it
	}

	// LocalWritten carries the new revision of a checkpoint document.
	LocalWritten struct{ Rev string }

	// Filter is the text of a filter function, and the revision of its design document.
	Filter struct{ Code, Rev string }

	// Changes are rows of the changes feed.
	Changes struct {
		Rows []Change
		// End says that the server's answer is complete; otherwise the next read goes on with it.
		End bool
		// LastSeq is where the next read starts: the server's last_seq at the End, else that of the last row.
		// It is empty when there is neither.
		LastSeq Seq
		// Pending is how many rows follow, -1 when the server does not say.
		Pending int64
		// Skipped counts rows that cannot name a document to copy (old servers send empty ids).
		Skipped int
	}

	// Diff lists what the target lacks; documents of which it lacks nothing are left out.
	Diff struct{ Docs []DocMissing }

	// Fetched tells for each asked document, in order, what became of it.
	Fetched struct{ Docs []FetchedDoc }

	// Written lists the documents that the target did not write, with its error words; all others it took.
	Written struct{ Refused []Refusal }

	// Copied tells for each revision that came, in order of arrival, what became of it.
	Copied struct {
		Revs  []CopiedRev
		Bytes int64 // sent to the target
	}

	// Committed carries the database's instance start time; "0" means unknown.
	Committed struct{ InstanceStartTime string }

	// Pending is the number of changes to come, -1 when the server does not say.
	Pending struct{ Count int64 }
)

// Change is one row: a document with its leaf revisions.
type Change struct {
	Seq  Seq
	ID   string
	Revs []string
}

// DocMissing is what the target lacks of one document.
type DocMissing struct {
	ID        string
	Missing   []string
	Ancestors []string // revisions that the target has and that may be ancestors of the missing ones
}

// Fate says what became of a document in FetchDocs.
type Fate uint8

// Fates.
const (
	Left        Fate = iota // not read: the answer ended or the budget was used up before it
	Taken                   // its body is kept
	Attachments             // it has attachments, whose bodies this operation does not carry
	Missing                 // the source does not have it
	Unreadable              // the source answered something else for it
)

// FetchedDoc is the fate of one document.
type FetchedDoc struct {
	Fate Fate
	Size int    // bytes of the body when Taken
	Rev  string // of the body when Taken: a newer leaf may come instead of the asked one
}

// Refusal is a document that the target did not accept, with its reason.
type Refusal struct {
	ID, Rev string
	Status  int    // of the answer for this document, 0 when it was part of a bulk answer
	Error   string // CouchDB's error word: forbidden, unauthorized, ...
	Reason  string
}

// Thrown says whether a validation function ended with an exception over this document: CouchDB answers 500 then, with
// the name that JavaScript gives the exception. InternalError is left out, since the engine may have had too little
// memory or time, and so is Error, which servers written in JavaScript say of all kinds of trouble.
func (r *Refusal) Thrown() bool {
	if r.Status != 500 {
		return false
	}
	switch r.Error {
	case "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError":
		return true
	}
	return false
}

// CopiedRev is the outcome for one revision: written, or Missing at the source, or refused.
type CopiedRev struct {
	Rev     string
	Missing bool
	Refused *Refusal
}

func (Opened) result()       {}
func (Created) result()      {}
func (Local) result()        {}
func (LocalWritten) result() {}
func (Filter) result()       {}
func (Changes) result()      {}
func (Diff) result()         {}
func (Fetched) result()      {}
func (Written) result()      {}
func (Copied) result()       {}
func (Committed) result()    {}
func (Pending) result()      {}
