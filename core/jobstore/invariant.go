package jobstore

import "couchrelay/core/invariant"

// What the store relies on. A breach rolls its transaction back. Numbers that are kept by atomic maximum
// are read as unsigned there, so a negative one would stay for ever.
const (
	usedTime   invariant.ID = "jobstore.used: a charge is not negative"
	validTag   invariant.ID = "jobstore.tag: a tag is not negative"
	owedTime   invariant.ID = "jobstore.owed: a turn owes no negative time"
	countsJobs invariant.ID = "jobstore.count: an account has no negative number of jobs"
	terminal   invariant.ID = "jobstore.terminal: a job finishes in a terminal state"
)
