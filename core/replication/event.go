package replication

import (
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// Event is something that happened, for Step.
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Begin starts the run.
	Begin struct{}
	// Reply answers a Call.
	Reply struct {
		ID uint64
		peer.Reply
	}
	// Identified answers Identify: the run may go on under the id that it asked for.
	Identified struct{}
	// Wake says that the deadline has come.
	Wake struct{}
	// GiveWay says that another job is to have the slot, as soon as the run answers with GivesWay.
	GiveWay struct{}
	// Stop asks for an orderly end: a checkpoint, then End.
	Stop struct{}
	// Stored answers Refused.
	Stored struct{}
	// RefusedPage answers ReadRefused: the first revisions in the list that come after the one that was
	// named, ordered by document. More says that others may follow. Demand is the time of the last order of an
	// operator to try all that is listed, by the clock of the node that took it; 0 if there is none. It only tells
	// orders apart.
	RefusedPage struct {
		Docs   []Listed
		More   bool
		Demand instant.Time `eventlog:"omitzero"`
	}
	// TryRefused says that an operator wants the listed revisions tried at once.
	TryRefused struct{}
)

func (Begin) event()      {}
func (Reply) event()      {}
func (Identified) event() {}
func (Wake) event()       {}
func (GiveWay) event()    {}
func (Stop) event()       {}

func (Stored) event()      {}
func (RefusedPage) event() {}
func (TryRefused) event()  {}

func (Begin) String() string      { return "begin" }
func (Identified) String() string { return "identified" }
func (Wake) String() string       { return "wake" }
func (GiveWay) String() string    { return "give way" }
func (Stop) String() string       { return "stop" }
func (Stored) String() string     { return "stored" }
func (TryRefused) String() string { return "try refused" }
func (e RefusedPage) String() string {
	return fmt.Sprintf("page of %d refused, more %v", len(e.Docs), e.More)
}
func (e Reply) String() string {
	s := fmt.Sprintf("reply %d", e.ID)
	if e.Result != nil {
		s += fmt.Sprintf(" %.300v", fmt.Sprintf("%T%+v", e.Result, e.Result))
	}
	if e.Failure != nil {
		s += " failed: " + e.Failure.String()
	}
	return s
}

// Effect is something for the driver to do.
type Effect interface {
	fmt.Stringer
	effect()
}

type (
	// Identify asks for the right to run as the replication ID, whose checkpoints have the id Base: two runs
	// under one Base would overwrite each other's checkpoints. The driver answers Identified, or drops the
	// run.
	Identify struct{ ID, Base string }
	// Call asks for an operation on an endpoint.
	Call struct {
		ID uint64
		Op peer.Op
	}
	// Cancel gives up a Call in flight. Its reply is not wanted any more.
	Cancel struct{ ID uint64 }
	// Release gives up the bodies that the FetchDocs with this id kept.
	Release struct{ ID uint64 }
	// Progress publishes the state of the run.
	Progress struct{ Info Info }
	// Refused changes the list of refused documents, which outlives the run: the findings take effect in
	// their order. The driver answers Stored once that is durable. There is one Refused at a time.
	Refused struct{ Findings []Finding }
	// ReadRefused asks for a page of the list, behind a revision or from the beginning. The driver answers
	// RefusedPage. What Refused told before is in it, or not, but for what was answered.
	ReadRefused struct {
		ID, Rev string // of the last revision of the page before; empty for the first page
		Limit   int
	}
	// GivesWay answers GiveWay: nothing keeps the run from being stopped.
	GivesWay struct{}
	// End is the last effect of a run.
	End struct {
		Cause   Cause
		Trouble Trouble // when Crashed
		// Result is the answer to POST /_replicate, a JSON object without "ok"; set when Completed.
		Result []byte
		Info   Info
		// Refused is what the target refused, to be listed; set when Failed.
		Refused *Finding
	}
)

func (Identify) effect() {}
func (Call) effect()     {}
func (Cancel) effect()   {}
func (Release) effect()  {}
func (Progress) effect() {}
func (GivesWay) effect() {}
func (End) effect()      {}

func (Refused) effect()     {}
func (ReadRefused) effect() {}

func (e Identify) String() string { return "identify " + e.ID }
func (e Call) String() string     { return fmt.Sprintf("call %d %s", e.ID, e.Op) }
func (e Cancel) String() string   { return fmt.Sprintf("cancel %d", e.ID) }
func (e Release) String() string  { return fmt.Sprintf("release %d", e.ID) }
func (e Progress) String() string { return "progress " + e.Info.String() }
func (GivesWay) String() string   { return "gives way" }
func (e Refused) String() string  { return fmt.Sprintf("refused %+v", e.Findings) }
func (e ReadRefused) String() string {
	return fmt.Sprintf("read %d refused after %q %s", e.Limit, e.ID, e.Rev)
}
func (e End) String() string {
	s := "end " + e.Cause.String()
	if e.Cause == Crashed || e.Cause == Failed {
		s += ": " + e.Trouble.String()
	}
	return s
}

// Cause is why a run ended.
type Cause uint8

// Causes of an end.
const (
	Completed Cause = iota + 1 // a one-shot has read the whole feed, and everything is on the target
	Stopped                    // Stop asked for it
	Changed                    // the filter function has changed, and with it the replication id
	Crashed                    // the run could not go on; another one may succeed
	Failed                     // the job is to fail for good, as its replication says
)

func (c Cause) String() string {
	switch c {
	case Completed:
		return "completed"
	case Stopped:
		return "stopped"
	case Changed:
		return "changed"
	case Failed:
		return "failed"
	}
	return "crashed"
}

// Trouble is why a run crashed, in CouchDB's words where it has some.
type Trouble struct {
	Error  string // one word: db_not_found, unauthorized, ...
	Reason string // for people; never holds credentials
	// Throttled reports that an endpoint answered 429 until patience ran out.
	Throttled bool
}

func (t Trouble) String() string { return t.Error + ": " + t.Reason }
