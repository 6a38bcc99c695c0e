package protocol

// Transition is a step of the protocol that a run has taken.
type Transition uint8

// Transitions, in the order of a run.
const (
	readsFilter Transition = iota
	names
	opensSource // and the one behind it, by peer.Side
	opensTarget
	makesTarget
	looksForLog
	findsLog
	findsOlder
	migratesLog
	losesOlder
	discardsLog
	marksDatabase
	provesSource
	beginsAtCheckpoint
	beginsAlone
	beginsAtSince
	beginsAnew
	beginsWithoutList
	passesOthers

	readsChanges
	polls
	feedBreaks
	feedEnds
	countsPending
	compares
	isLacking
	has
	leavesOutComparison
	readsBulk
	readsInline
	comes
	hasAttachments
	doesNotFit
	cannotBeRead
	writesBulk
	compresses
	written
	refusedInBulk
	goesWrongInBulk
	tooLarge
	copiesAlone
	copied
	sourceLacks
	obstacle
	doubts
	letsIn
	refusedAlone
	refusedNewer
	superseded

	listsRefused
	stored
	readsList
	comparesList
	gotThrough
	unlists

	looksAtFilter
	filterChanged
	commitsSource // and the one behind it, by peer.Side
	commitsTarget
	sourceRefusesCommit
	findsOther
	writesSource // and the one behind it, by peer.Side
	writesTarget
	sourceRefusesLog
	writesForReadOnly
	logConflicts
	findsOwnLog
	findsOthersLog
	looksAtLog
	looksAtSource
	readsNewest
	looksAtDatabase

	failures
	repeats
	givesUp
	givesWay
	stops
	completes
	endsStopped
	endsChanged
	fails
	crashes

	transitions // their number
)

// words say what a transition is.
var words = [transitions]string{
	readsFilter: "read the filter function", names: "ask for the right to run",
	opensSource: "open the source", opensTarget: "open the target", makesTarget: "make the target",
	looksForLog: "look for a log", findsLog: "find one", findsOlder: "find one under an older id",
	migratesLog: "write that under the present id", losesOlder: "the older one is gone by then",
	discardsLog:        "discard a log",
	marksDatabase:      "write an empty log",
	provesSource:       "ask a read-only source for its last change",
	beginsAtCheckpoint: "begin at a common checkpoint", beginsAlone: "begin by the target's log alone",
	beginsAtSince: "begin at since_seq", beginsAnew: "begin at the beginning",
	beginsWithoutList: "the list that the checkpoints rely on is gone",
	passesOthers:      "the newest checkpoint relies on the list of another job",
	readsChanges:      "read changes", polls: "wait for changes", feedBreaks: "the feed breaks behind a row",
	feedEnds: "the feed of a one-shot ends", countsPending: "count changes to come",
	compares: "compare with the target", isLacking: "the target lacks a revision",
	has:                 "the target has a revision",
	leavesOutComparison: "leave out the comparison", readsBulk: "read in bulk",
	readsInline: "read in bulk with attachments", comes: "a body comes",
	hasAttachments: "attachments do not come",
	doesNotFit:     "a body does not fit", cannotBeRead: "a body cannot be had in bulk",
	writesBulk: "write in bulk",
	compresses: "write compressed", written: "the target takes a body",
	refusedInBulk:   "the target refuses a body",
	goesWrongInBulk: "a body goes wrong at the target", tooLarge: "a single body is too large",
	copiesAlone: "copy alone", copied: "the target takes a copy", sourceLacks: "the source lacks a revision",
	obstacle: "the target must take a copy, and does not", doubts: "the target refuses a copy over credentials",
	letsIn: "the target lets the run in", refusedAlone: "the target refuses a copy for good",
	refusedNewer: "the target refuses a newer revision", superseded: "a newer revision comes instead",
	listsRefused: "list a refused revision", stored: "the list knows", readsList: "read the list",
	comparesList: "compare the list with the target", gotThrough: "a listed revision has got through",
	unlists: "take a revision off the list", looksAtFilter: "look at the filter function again",
	filterChanged: "it has changed", commitsSource: "make the source durable",
	commitsTarget:       "make the target durable",
	sourceRefusesCommit: "the source refuses to", findsOther: "a database is another one",
	writesSource: "write the source's log", writesTarget: "write the target's log",
	sourceRefusesLog:  "the source stores no log",
	writesForReadOnly: "write the target's log for a read-only source",
	logConflicts:      "a log has another revision", findsOwnLog: "the run's own log is there",
	findsOthersLog: "another run's log is there", looksAtLog: "look at a log again",
	looksAtSource: "look for the last change again", readsNewest: "read the newest change of a read-only source",
	looksAtDatabase: "open a database again",
	failures:        "a request fails", repeats: "repeat a request", givesUp: "give up a request",
	givesWay:  "give way",
	stops:     "be told to stop",
	completes: "complete", endsStopped: "end as stopped", endsChanged: "end for another filter function",
	fails: "fail for a refusal", crashes: "crash",
}

// Counts are how often transitions were taken.
type Counts [transitions]uint64

// Add adds those of another run.
func (c *Counts) Add(o *Counts) {
	for t := range o {
		c[t] += o[t]
	}
}

// Never are the transitions that were not taken, in words, in the order of a run.
func (c *Counts) Never() (all []string) {
	for t, n := range c {
		if n == 0 {
			all = append(all, words[t])
		}
	}
	return all
}

func (r *Run) took(t Transition) { r.Counts[t]++ }
