package peer

import (
	"fmt"
	"strings"
)

type (
	// Opened is a database's description.
	Opened struct {
		UpdateSeq Seq
		// InstanceStartTime differs between a database and another one that was made under its name later;
		// "0" means that the server does not tell.
		InstanceStartTime string
	}

	// Created reports that the target database exists now.
	Created struct{}

	// Local is a checkpoint document, or its absence.
	Local struct {
		Found bool
		Rev   string
		Body  []byte // the JSON object as the server sent it
	}

	// LocalWritten carries the new revision of a checkpoint document.
	LocalWritten struct{ Rev string }

	// Filter is the source text of a filter function and the revision of its design document.
	Filter struct{ Code, Rev string }

	// Changes are rows of the changes feed.
	Changes struct {
		Rows []Change
		// End reports that the server's answer has been read to its end. Otherwise the next read goes on with
		// it.
		End bool
		// LastSeq is where the next read starts: last_seq at the End of the answer, else the sequence of the
		// last row. It is empty if there is neither.
		LastSeq Seq
		// Pending is the number of rows that follow, -1 if the server does not tell.
		Pending int64
		// Skipped counts rows without a document to copy: old servers send rows with empty ids, and local documents are
		// not replicated.
		Skipped int
	}

	// Diff lists the revisions that the target lacks. Documents of which it has all are left out.
	Diff struct{ Docs []DocMissing }

	// Fetched has the fates of the documents that were asked for, in their order. It may end before the last
	// of them.
	Fetched struct{ Docs []FetchedDoc }

	// Written lists the documents that the target did not write, with its error words. It took all others.
	Written struct{ Refused []Refusal }

	// Copied has the outcomes of the revisions that came, in the order in which they came.
	Copied struct {
		Revs  []CopiedRev
		Bytes int64 // sent to the target
	}

	// Committed has the database's instance start time, as Opened.
	Committed struct{ InstanceStartTime string }

	// Pending is the number of changes to come, -1 if the server does not tell.
	Pending struct{ Count int64 }

	// RevFound tells whether the source has all of the revisions.
	RevFound struct{ Found bool }

	// NewestChange is a document with its leaf revisions; zero if the source has no change, or tells none.
	NewestChange struct{ Doc DocRevs }

	// DocsRead has the documents that were asked for, in their order. It may end before the last of them.
	DocsRead struct{ Docs []DocRead }

	// Edited has the outcomes of the edits, in their order.
	Edited struct{ Docs []EditedDoc }
)

// DocRead is a document, or its absence: then Rev is empty.
type DocRead struct {
	ID, Rev string
	Deleted bool
	Body    []byte // the JSON object as the server sent it; nil if Deleted or TooLarge
	// TooLarge reports that the body is longer, or nested deeper, than ReadDocs takes.
	TooLarge bool
}

// EditedDoc is the revision that an edit made, or why it made none, in CouchDB's words.
type EditedDoc struct {
	ID, Rev       string
	Error, Reason string
}

// Change is a row of the changes feed: a document with its leaf revisions.
type Change struct {
	Seq  Seq
	ID   string
	Revs []string
}

// DocMissing names the revisions of one document that the target lacks.
type DocMissing struct {
	ID        string
	Missing   []string
	Ancestors []string // revisions that the target has and that may be ancestors of the missing ones
}

// Fate is what became of a document in FetchDocs.
type Fate uint8

// Fates.
const (
	Left        Fate = iota // not read: the answer ended, or the budget was used up, before it
	Taken                   // its body is kept
	Attachments             // it has attachments whose bytes did not come
	Missing                 // the source does not have it
	Unreadable              // the source answered something that is no document
)

// FetchedDoc is the fate of one document.
type FetchedDoc struct {
	Fate Fate
	// Size is the bytes of the body, if Taken. If Attachments, it is about those of the body that FetchDocs
	// brings with Attachments set; 0 if that is not known, or bringing them would be of no use.
	Size int
	Rev  string // of the body, if Taken: a newer leaf may come in place of the revision that was asked for
}

// Refusal is a document that the target did not take, and why.
type Refusal struct {
	ID, Rev string
	Status  int    // of the answer for this document, 0 if it was part of a bulk answer
	Error   string // CouchDB's error word: forbidden, unauthorized, ...
	Reason  string
}

// String is the refusal in traces, also where there is a pointer to it.
func (r *Refusal) String() string { return fmt.Sprintf("%+v", *r) }

// Thrown reports whether a server failed over this document, as it will at every attempt. Where a validation function
// ends with an exception, CouchDB answers 500 with JavaScript's name of it. InternalError does not count, since the
// engine may have had too little memory or time, nor does Error, which servers written in JavaScript answer to all
// kinds of trouble. PouchDB's server answers 500 to members that it does not know.
func (r *Refusal) Thrown() bool {
	if r.Status != 500 {
		return false
	}
	switch r.Error {
	case "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError", "doc_validation":
		return true
	}
	return r.Vague() && isText(r.Reason)
}

// Vague reports whether CouchDB has no word for a refusal: a validation function has thrown a text, or an object other
// than forbidden and unauthorized, or CouchDB itself has failed.
func (r *Refusal) Vague() bool { return r.Status == 500 && r.Error == "unknown_error" }

// isText reports whether the reason of an error is a text that a validation function has thrown. The reasons that
// CouchDB itself gives for such errors are atoms and terms of Erlang.
func isText(reason string) bool {
	return reason != "" && !strings.ContainsAny(reason[:1], "{[<\"#") && strings.Trim(reason, letters) != ""
}

// letters are those of the atoms that Erlang gives as reasons.
const letters = "abcdefghijklmnopqrstuvwxyz_"

// CopiedRev is the outcome for one revision: it was written, or Missing at the source, or Refused by the
// target.
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
func (RevFound) result()     {}
func (NewestChange) result() {}
func (DocsRead) result()     {}
func (Edited) result()       {}
