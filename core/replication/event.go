package replication

import (
	"fmt"

	"couchrelay/core/peer"
)

// Event is what a run is told.
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
	// Identified answers Identify: the run may go on under the id that it named.
	Identified struct{}
	// Wake says that the deadline has come.
	Wake struct{}
	// Stop asks for an orderly end: a checkpoint, then End.
	Stop struct{}
)

func (Begin) event()      {}
func (Reply) event()      {}
func (Identified) event() {}
func (Wake) event()       {}
func (Stop) event()       {}

func (Begin) String() string      { return "begin" }
func (Identified) String() string { return "identified" }
func (Wake) String() string       { return "wake" }
func (Stop) String() string       { return "stop" }
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

// Effect is what a run wants done.
type Effect interface {
	fmt.Stringer
	effect()
}

type (
	// Identify asks for the right to run as the replication ID, whose checkpoints are named Base.
	// The driver answers Identified, or drops the run.
	Identify struct{ ID, Base string }
	// Call asks for an operation on an endpoint.
	Call struct {
		ID uint64
		Op peer.Op
	}
	// Cancel gives up a Call that is under way; its reply is not wanted any more.
	Cancel struct{ ID uint64 }
	// Release gives up the bodies that the FetchDocs with this id kept.
	Release struct{ ID uint64 }
	// Progress publishes the state of the run.
	Progress struct{ Info Info }
	// End is the last effect of a run.
	End struct {
		Cause   Cause
		Trouble Trouble // when Crashed
		// Result is the answer to POST /_replicate when Completed, a JSON object without "ok".
		Result []byte
		Info   Info
	}
)

func (Identify) effect() {}
func (Call) effect()     {}
func (Cancel) effect()   {}
func (Release) effect()  {}
func (Progress) effect() {}
func (End) effect()      {}

func (e Identify) String() string { return "identify " + e.ID }
func (e Call) String() string     { return fmt.Sprintf("call %d %s", e.ID, e.Op) }
func (e Cancel) String() string   { return fmt.Sprintf("cancel %d", e.ID) }
func (e Release) String() string  { return fmt.Sprintf("release %d", e.ID) }
func (e Progress) String() string { return "progress " + e.Info.String() }
func (e End) String() string {
	s := "end " + e.Cause.String()
	if e.Cause == Crashed {
		s += ": " + e.Trouble.String()
	}
	return s
}

// Cause is why a run ended.
type Cause uint8

// Causes.
const (
	Completed Cause = iota + 1 // a one-shot reached the end of the feed and everything is on the target
	Stopped                    // asked to
	Changed                    // the filter function is another one now, and so is the replication id
	Crashed                    // could not go on; another run may succeed
)

func (c Cause) String() string {
	switch c {
	case Completed:
		return "completed"
	case Stopped:
		return "stopped"
	case Changed:
		return "changed"
	}
	return "crashed"
}

// Trouble is why a run crashed, in CouchDB's words where it has some.
type Trouble struct {
	Error  string // one word: db_not_found, unauthorized, ...
	Reason string // for people; never holds credentials
	// Throttled says that an endpoint answered 429 until patience ran out.
	Throttled bool
}

func (t Trouble) String() string { return t.Error + ": " + t.Reason }
