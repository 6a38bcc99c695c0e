package follow

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/backoff"
	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// Event is what happened to a worker.
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Configure names the jobs that the worker may take, by their ids. The first event is one. All runs end, and those
	// that may go on begin anew, with connections as they are configured now.
	Configure struct{ Jobs []string }
	// Answer answers an Ask.
	Answer struct {
		ID      uint64
		Result  Result // if Committed
		Outcome Outcome
		Text    string // of the error, for people
		// Unreadable is the job of which a row could not be read, if that is the error.
		Unreadable string
		Part       bool   // the job can be read, and a row of one of its documents cannot
		Doc        string // the id of that document, if it is known
	}
	// Reply answers a Call.
	Reply struct {
		Run, ID uint64
		peer.Reply
	}
	// Refused says that the followed database of a run cannot be connected to, for a reason that people read.
	Refused struct {
		Run    uint64
		Reason string
	}
	// Changed answers an Await: the mirror may have changed.
	Changed struct{ Run uint64 }
	// Wake says that the deadline has come.
	Wake struct{}
	// Drain asks the worker to give its jobs back and to leave.
	Drain struct{}
)

func (Configure) event() {}
func (Answer) event()    {}
func (Reply) event()     {}
func (Refused) event()   {}
func (Changed) event()   {}
func (Wake) event()      {}
func (Drain) event()     {}

func (e Configure) String() string { return fmt.Sprintf("configure %q", e.Jobs) }
func (e Answer) String() string {
	return fmt.Sprintf("answer %d %s %s %.300v", e.ID, e.Outcome, e.Text, fmt.Sprintf("%+v", e.Result))
}
func (e Reply) String() string {
	s := fmt.Sprintf("run %d reply %d %.300v", e.Run, e.ID, fmt.Sprintf("%T%+v", e.Result, e.Result))
	if e.Failure != nil {
		s += " failed: " + e.Failure.String()
	}
	return s
}
func (e Refused) String() string { return fmt.Sprintf("run %d refused: %s", e.Run, e.Reason) }
func (e Changed) String() string { return fmt.Sprintf("run %d: the mirror changed", e.Run) }
func (Wake) String() string      { return "wake" }
func (Drain) String() string     { return "drain" }

// Effect is something for the driver to do.
type Effect interface {
	fmt.Stringer
	effect()
}

type (
	// Ask asks for a transaction; see Perform.
	Ask struct {
		ID      uint64
		Request Request
	}
	// Open opens connections to the followed database of a job. Refused answers it if that is impossible.
	Open struct {
		Run uint64
		Job Job
	}
	// Call asks for an operation on the followed database.
	Call struct {
		Run, ID uint64
		Op      peer.Op
	}
	// Cancel gives a call up. Its reply is not wanted any more.
	Cancel struct{ Run, ID uint64 }
	// Await waits for a change of the mirror after At, with the watch of Arm; Changed answers it. If there can be no
	// watch, the answer comes after Unwatched. It takes the place of an earlier Await of the run.
	Await struct {
		Run uint64
		Job string
		At  docs.Seq
	}
	// Close closes the connections of a run and ends its Await. It is the last effect of the run.
	Close struct{ Run uint64 }
	// Note is something that operators want to know.
	Note struct {
		// What is follow_started, follow_current, follow_reread, follow_failed, follow_states_failed, follow_unreadable
		// or follow_lease_lost.
		What  string
		Job   string
		Error string // in one word, as errors of replications; empty for none
		Text  string
	}
	// Exit is the last effect of a worker that was told to leave.
	Exit struct{}
)

func (Ask) effect()    {}
func (Open) effect()   {}
func (Call) effect()   {}
func (Cancel) effect() {}
func (Await) effect()  {}
func (Close) effect()  {}
func (Note) effect()   {}
func (Exit) effect()   {}

func (e Ask) String() string    { return fmt.Sprintf("ask %d %s", e.ID, e.Request) }
func (e Open) String() string   { return fmt.Sprintf("open run %d of %s", e.Run, e.Job.ID()) }
func (e Call) String() string   { return fmt.Sprintf("run %d call %d %s", e.Run, e.ID, e.Op) }
func (e Cancel) String() string { return fmt.Sprintf("run %d cancel %d", e.Run, e.ID) }
func (e Await) String() string {
	return fmt.Sprintf("run %d await changes of %s after %s", e.Run, e.Job, e.At)
}
func (e Close) String() string { return fmt.Sprintf("close run %d", e.Run) }
func (e Note) String() string {
	return fmt.Sprintf("note %s %s %s: %s", e.What, e.Job, e.Error, e.Text)
}
func (Exit) String() string { return "exit" }

// Warns reports whether a note is a warning.
func (e Note) Warns() bool {
	return slices.Contains([]string{"follow_failed", "follow_states_failed", "follow_unreadable"}, e.What)
}

const (
	// ActivityTimeout is how long a worker may be silent before others get its jobs.
	ActivityTimeout = 30 * time.Second
	// beatEvery and scanEvery are between two heartbeats, and two looks at those of others.
	beatEvery = ActivityTimeout / 4
	scanEvery = ActivityTimeout / 4
	// pollEvery is between two looks at jobs that nobody runs.
	pollEvery = 3 * time.Second
	// passFor is how long a job is passed over that could not be read.
	passFor = time.Minute
	// lookEvery is between two looks at states in the mirror while it does not change: a watch may be lost. After a
	// change the next look comes at once, but lookPause after the last one.
	lookEvery = 30 * time.Second
	lookPause = 200 * time.Millisecond
	// Unwatched is the time after which the answer to an Await comes without a watch.
	Unwatched = 2 * time.Second

	// readBudget is how many bytes of documents are read at once.
	readBudget = 1 << 20
	// maxBody is the longest body that the mirror takes: it is written with its replication in one transaction.
	maxBody = 3_000_000
)

// pauses are those of runs that failed.
var pauses = backoff.Policy{Min: 2 * time.Second, Max: 5 * time.Minute, Health: 2 * time.Minute}
