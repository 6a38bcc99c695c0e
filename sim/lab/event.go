package lab

import "time"

// Event is something that happened to a job, a node or an account. Observers get all of them, in the order of
// their times.
type Event struct {
	At   time.Duration // since the beginning
	What What
	Job  int // its place in Workload.Jobs; -1 when the event concerns no job
	// Node has the job, or is the node itself, from 0; -1 when the event concerns none.
	Node int
	Why  Why // of an Ended
	// Copied is how many changes the run has copied for good (Ended): up to its last checkpoint if it did not
	// end in order.
	Copied float64
	// Slots are those of the node from now on (NodeUp).
	Slots int
	// Account and Shares say which account has other shares from now on (SharesSet).
	Account int
	Shares  int64
	// Delay is how long the run waits in its slot before it starts up (Started).
	Delay time.Duration
}

// What says what happened.
type What uint8

// Events.
const (
	Submitted What = iota // the job is new, and ready to run
	Ready                 // a job is ready again: its back-off is over, or its Completed or Crashed was not stored
	Started               // the job has a slot; its first change is copied Delay and Job.Startup later
	Ended                 // the job has left its slot; Why says how, and whether it is ready to run again
	Removed               // the job is gone, after an Ended if it ran
	NodeUp                // a node has Slots, from its start on and whenever they change
	NodeDown              // a node has none any more; an Ended (Vanished) for each of its jobs came before
	SharesSet
)

// Why says why a run ended.
type Why uint8

// Reasons.
const (
	GaveWay Why = iota // to another job, or its node drains; it is ready to run again
	Killed             // as GaveWay, but it did not stop in time
	// Completed: a one-shot has copied everything. The job is over, unless its node dies, or loses its lease, before
	// that is stored: then it is Ready, and runs once more.
	Completed
	Crashed  // it is in back-off until Ready
	Vanished // its node died; it is ready to run again once another node has noticed
	Taken    // its job was removed
)

// Observer is told what happens. It must not keep the run from going on: it decides nothing.
type Observer interface{ Observe(Event) }
