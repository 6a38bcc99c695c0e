// Package workload describes what is asked of a service: which jobs there are, when they come, and how much
// each has to copy. It has generators, and reads and writes traces. It says nothing of nodes, settings or
// policies: one workload is played under many of them.
package workload

import "time"

// Workload is everything that users and their databases do. All times count from the beginning.
type Workload struct {
	Accounts []Account // all that have jobs; a job and a change name one by its place
	Jobs     []Job     // in the order in which they are submitted
	Changes  []Change  // of shares, in the order of their times
	Outages  []Outage  // of servers
}

// Account is a replicator database, or a user of _replicate, with its shares.
type Account struct {
	Name   string // as in [replicator.shares]; see jobstore.IsAccount
	Shares int64  // from schedule.MinShares to schedule.MaxShares
}

// Change sets the shares of an account anew, as an edit of the configuration does.
type Change struct {
	At      time.Duration
	Account int
	Shares  int64
}

// Outage is a time in which runs that need a server crash, and new ones too, soon after their start.
type Outage struct {
	Server   int // as in Job.Server
	From, To time.Duration
}

// Job is a replication. What it copies is a fluid: changes come at the source at a rate, and are copied at a
// speed while the job has a slot.
type Job struct {
	ID      string // no other job has it
	Account int    // its place in Workload.Accounts
	Server  int    // the endpoint that it needs, 0 or more; only outages ask
	Submit  time.Duration
	Remove  time.Duration // when it is removed whatever it does; 0 for never

	Weight int64 // within its account, from schedule.MinWeight to schedule.MaxWeight; 0 is schedule.DefaultWeight

	// Continuous jobs run until they have to give way. One-shots run until they have copied their Backlog.
	Continuous bool
	// Startup passes between the start of a run and its first copied change: connections are opened, and
	// checkpoints compared. 0 or more.
	Startup time.Duration
	Backlog float64 // changes at the source that are not copied when the job is submitted, 0 or more
	Speed   float64 // changes copied per second, above 0
	Rate    float64 // changes that come at the source per second, on the average, 0 or more; 0 for an idle job
	// Every and Burst say when changes come: all of an Every within its first Burst. They come evenly when
	// Every is 0. Burst is above 0 and no more than Every.
	Every, Burst time.Duration
	// Phase is how much of an Every has passed when the job is submitted, 0 or more and less than Every: changes
	// come at the times t after the submission for which (t + Phase) modulo Every is less than Burst.
	Phase time.Duration
	// MTBF is the mean time of running between two crashes of the job's own; 0 for a job that never crashes.
	MTBF time.Duration
}
