package node

import (
	"fmt"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
)

// Event is what happened to a node. Names, fields and words are part of the format of recorded logs.
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Start begins the node's life.
	Start struct{}
	// Done answers an Ask.
	Done struct {
		ID     uint64  // of the Ask
		Result Result  // if Committed: of the type that the registry has for the request
		Fault  Outcome // named as in recorded logs
		Text   string  // of the error, for people
		// Unreadable is the job of which a row could not be read, if that is the error.
		Unreadable string `eventlog:"omitzero"`
	}
	// Notified answers an Await.
	Notified struct{ Topic Topic }
	// RunIdentifies is a run's Identify.
	RunIdentifies struct {
		Run      uint64
		ID, Base string
	}
	// RunProgress is a run's Progress.
	RunProgress struct {
		Run  uint64
		Info replication.Info
	}
	// RunGivesWay is a run's GivesWay.
	RunGivesWay struct{ Run uint64 }
	// RunEnded is a run's End.
	RunEnded struct {
		Run uint64
		End replication.End
	}
	// RunRefused is a run's Refused.
	RunRefused struct {
		Run      uint64
		Findings []replication.Finding
	}
	// RunReadsRefused is a run's ReadRefused.
	RunReadsRefused struct {
		Run uint64
		replication.ReadRefused
	}
	// Configure changes the settings.
	Configure struct{ Settings Settings }
	// Drain asks the node to stop its runs in order and to leave.
	Drain struct{}
	// Wake tells that time has passed: the Deadline has come, or the driver chose to.
	Wake struct{}
)

func (Start) event()         {}
func (Done) event()          {}
func (Notified) event()      {}
func (RunIdentifies) event() {}
func (RunProgress) event()   {}
func (RunGivesWay) event()   {}
func (RunEnded) event()      {}

func (RunRefused) event()      {}
func (RunReadsRefused) event() {}

func (Configure) event() {}
func (Drain) event()     {}
func (Wake) event()      {}

// Events holds a zero value of each type of event, so that recorded events can be read.
func Events() []Event {
	return []Event{
		Start{}, Done{}, Notified{}, RunIdentifies{}, RunProgress{}, RunEnded{}, Configure{}, Drain{}, Wake{},
		RunRefused{}, RunReadsRefused{}, RunGivesWay{},
	}
}

func (Start) String() string           { return "start" }
func (e Notified) String() string      { return fmt.Sprintf("notified %s", e.Topic) }
func (e RunIdentifies) String() string { return fmt.Sprintf("run %d identifies as %s", e.Run, e.ID) }
func (e RunProgress) String() string   { return fmt.Sprintf("run %d progress %s", e.Run, e.Info) }
func (e RunGivesWay) String() string   { return fmt.Sprintf("run %d gives way", e.Run) }
func (e RunEnded) String() string      { return fmt.Sprintf("run %d %s", e.Run, e.End) }
func (e RunRefused) String() string    { return fmt.Sprintf("run %d refused %+v", e.Run, e.Findings) }
func (e RunReadsRefused) String() string {
	return fmt.Sprintf("run %d %s", e.Run, e.ReadRefused)
}
func (e Configure) String() string { return fmt.Sprintf("configure %+v", e.Settings) }
func (Drain) String() string       { return "drain" }
func (Wake) String() string        { return "wake" }
func (e Done) String() string {
	if e.Fault != Committed {
		return fmt.Sprintf("done %d %s: %s", e.ID, e.Fault, e.Text)
	}
	return fmt.Sprintf("done %d %+v", e.ID, e.Result)
}

// Outcome is how a request's transaction ended, as far as the node acts on it.
type Outcome uint8

// Outcomes. Recorded logs have them as numbers.
const (
	Committed Outcome = iota
	Halted            // the job may run elsewhere (jobs.ErrWorkerConflict); the run is dropped
	LeaseLost         // the worker was expired (jobs.ErrLeaseLost); all runs are dropped
	StoreDown         // any other error; the request is repeated
	Canceled          // the job was removed, replaced or is over (jobs.ErrCanceled); Halted in older logs
)

func (o Outcome) String() string {
	return [...]string{"", "halted", "lease lost", "store error", "canceled"}[o]
}

// Topic is what an Await waits for.
type Topic uint8

// Topics.
const (
	ReadyJobs   Topic = iota // a job became ready
	WorkerCalls              // a job was taken from this worker
)

func (t Topic) String() string { return [...]string{"ready jobs", "worker calls"}[t] }

// Effect is an order to the driver. Names, fields and words are part of the format of recorded logs.
type Effect interface {
	fmt.Stringer
	effect()
}

type (
	// Ask has a request performed in a transaction; see Perform.
	Ask struct {
		ID uint64
		Request
	}
	// Await has the node notified when a counter differs from Seen; see Arm. A newer one of its topic takes
	// its place.
	Await struct {
		Topic  Topic
		Worker string
		Seen   int64
		Part   jobs.Part // whose signal ReadyJobs is about
	}
	// StartRun has a run started for a job.
	StartRun struct {
		Run   uint64
		Work  jobstore.Work
		Delay time.Duration // before its first request
		Seed  uint64        // of the run's random choices
	}
	// Confirm lets a run go on under the id that it named.
	Confirm struct{ Run uint64 }
	// StopRun asks a run to stop in order.
	StopRun struct{ Run uint64 }
	// TellRun gives a run an event.
	TellRun struct {
		Run   uint64
		Event replication.Event
	}
	// KillRun drops a run at once.
	KillRun struct{ Run uint64 }
	// Note writes to the log: What is a constant name, Text is for people, Class is the name of an error.
	Note struct{ What, Job, Text, Class string }
	// Rename changes the name that people call the node by.
	Rename struct{ Name string }
	// Exit is the last effect of a drained node.
	Exit struct{}
)

func (Ask) effect()      {}
func (Await) effect()    {}
func (StartRun) effect() {}
func (Confirm) effect()  {}
func (StopRun) effect()  {}
func (KillRun) effect()  {}
func (TellRun) effect()  {}
func (Note) effect()     {}
func (Rename) effect()   {}
func (Exit) effect()     {}

func (e Ask) String() string      { return fmt.Sprintf("ask %d %s", e.ID, e.Request) }
func (e Await) String() string    { return fmt.Sprintf("await %s beyond %d", e.Topic, e.Seen) }
func (e StartRun) String() string { return fmt.Sprintf("start run %d of job %s", e.Run, e.Work.JobID) }
func (e Confirm) String() string  { return fmt.Sprintf("confirm run %d", e.Run) }
func (e StopRun) String() string  { return fmt.Sprintf("stop run %d", e.Run) }
func (e TellRun) String() string  { return fmt.Sprintf("tell run %d %s", e.Run, e.Event) }
func (e KillRun) String() string  { return fmt.Sprintf("kill run %d", e.Run) }
func (e Rename) String() string   { return "rename to " + e.Name }
func (Exit) String() string       { return "exit" }
func (e Note) String() string     { return fmt.Sprintf("note %s %s %s", e.What, e.Job, e.Text) }

// Warns reports whether a note is a warning: others take the node's jobs, or it theirs, the store fails, or a job
// fails for good.
func (e Note) Warns() bool {
	switch e.What {
	case "lease_lost", "worker_silent", "store_error", "job_unreadable", "failed":
		return true
	}
	return false
}
