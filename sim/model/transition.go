package model

// transition is a step in the life of a job.
type transition uint8

// Transitions.
const (
	adds transition = iota
	addsOver
	removes
	retells
	parks
	comesBack
	hurries
	promotes
	accepts
	holds
	updates
	absolves
	stops
	finishes
	queues
	backsOff
	expires
	returns
	labels
	rewrites

	transitions // their number
)

// What becomes of documents. It is counted with the transitions of jobs.
const (
	asksFirst transition = transitions + iota
	asksForOther
	goesOn
	staysOver
	comesOver
	isWrong
	isDeleted
	tells
	endsUntold
	runsAgain
	winsNow

	allSteps // the number of all
)

var ofDocuments = [allSteps - transitions]string{
	"make the job of a document", "make it anew for another replication", "go on after an edit",
	"stay over after an edit", "take a document that is over", "take a document with a wrong field",
	"delete a document", "tell the end of a job", "end without a word for a validation function",
	"run a document again by order", "take another leaf for the document",
}

// rule says what a transition is: the jobs that can take it, and the job that comes of it. found is the job as it was
// found after the commit, from which it takes what the specification leaves open.
type rule struct {
	words string
	from  func(j job) bool
	to    func(j, found job) job
	// header says that the transition changes the header, and so the sequence; calls, that it tells the worker that
	// runs the job.
	header, calls bool
}

var rules = [transitions]rule{
	adds: {words: "add", header: true, from: is(absent), to: func(_, found job) job {
		at := schedule{priority: found.priority, lot: found.lot}
		return withData(job{state: pending, schedule: at, spec: found.spec}, found)
	}},
	addsOver: {words: "add as over", header: true, from: is(absent), to: func(_, found job) job {
		return withData(job{state: finished}, found)
	}},
	removes: {words: "remove", header: true, calls: true, from: isNot(absent), to: func(job, job) job { return job{} }},
	retells: {words: "write the data of one that does not run", from: is(pending), to: withData},
	parks: {words: "park", header: true, from: is(pending), to: func(j, found job) job {
		j.lot = found.lot
		return withData(j, found)
	}},
	comesBack: {words: "bring back from a lot", header: true, from: parked, to: func(j, found job) job {
		j.lot, j.priority, j.due = "", found.priority, max(j.due, found.due)
		return withData(j, found)
	}},
	hurries: {words: "end a wait early", header: true, from: waiting, to: func(j, found job) job {
		j.due = 0
		return withData(j, found)
	}},
	promotes: {words: "make ready when it is due", header: true, from: waiting, to: func(j, _ job) job {
		j.due = 0
		return j
	}},
	accepts: {words: "accept", header: true, from: job.ready, to: func(j, found job) job {
		j.state, j.lock, j.label = running, found.lock, ""
		return j
	}},
	holds: {words: "park instead of accepting", header: true, from: job.ready, to: func(j, found job) job {
		j.lot = found.lot
		return j
	}},
	updates: {words: "write the data of one that runs", from: is(running), to: withData},
	absolves: {words: "forget workers that vanished", header: true,
		from: func(j job) bool { return j.state == running && j.lost > 0 },
		to:   func(j, _ job) job { j.lost = 0; return j },
	},
	stops: {words: "ask to stop", header: true, calls: true,
		from: func(j job) bool { return j.state == running && !j.stop },
		to:   func(j, _ job) job { j.stop = true; return j },
	},
	finishes: {words: "finish", header: true, from: is(running), to: func(j, found job) job {
		j.state, j.lock, j.stop, j.lost = finished, lock{}, false, 0
		return withData(j, found)
	}},
	queues: {words: "queue again", header: true, from: is(running), to: func(j, found job) job {
		at := schedule{priority: found.priority, lot: found.lot}
		return withData(job{state: pending, schedule: at, spec: j.spec}, found)
	}},
	backsOff: {words: "wait after a crash", header: true, from: is(running), to: func(j, found job) job {
		return withData(job{state: pending, schedule: found.schedule, spec: j.spec}, found)
	}},
	expires: {words: "take from a vanished worker", header: true, from: is(running), to: func(j, _ job) job {
		j.state, j.lock, j.stop, j.lost = pending, lock{}, false, j.lost+1
		return j
	}},
	returns: {words: "take from a worker that leaves", header: true, from: is(running), to: func(j, _ job) job {
		j.state, j.lock, j.stop = pending, lock{}, false
		return j
	}},
	rewrites: {words: "write the replication of one that is over", from: is(finished), to: func(j, found job) job {
		j.spec = found.spec
		return withData(j, found)
	}},
	labels: {words: "label as crashing", header: true, from: unlabeled, to: func(j, _ job) job {
		j.label = "crashing:" + j.record.err
		return j
	}},
}

func is(s state) func(job) bool    { return func(j job) bool { return j.state == s } }
func isNot(s state) func(job) bool { return func(j job) bool { return j.state != s } }
func parked(j job) bool            { return j.standing() == "parked" }
func waiting(j job) bool           { return j.standing() == "waiting" }

// unlabeled reports whether a job waits after a crash as an earlier release has it wait.
func unlabeled(j job) bool {
	return j.state == pending && j.record.state == stateCrashing && j.label == ""
}

func withData(j, found job) job {
	j.data, j.record = found.data, found.record
	return j
}

// Counts are how often transitions were taken.
type Counts [allSteps]uint64

// Add adds those of another world.
func (c *Counts) Add(o *Counts) {
	for t := range o {
		c[t] += o[t]
	}
}

// Never are the transitions that were not taken, in words.
func (c *Counts) Never() (all []string) {
	for t, n := range c {
		switch t := transition(t); {
		case n > 0:
		case t < transitions:
			all = append(all, rules[t].words)
		default:
			all = append(all, ofDocuments[t-transitions])
		}
	}
	return all
}
