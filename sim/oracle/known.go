package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// known is the knowledge of jobs, nodes and runs from all facts so far. All checkers read it; where nothing
// else is said only the chronicle changes it.
type known struct {
	w world.View
	// violation is the first invariant that did not hold; nil while all do.
	violation *Violation

	shadowed
	nodes []*process // in the order of their names
	of    map[*world.Run]*run
	runs  []*run // under way, in the order in which they began
	docs  map[string]*docTruth
	// forbidden are the tags that functions ever forbade; kept by validation.
	forbidden forbiddenTags
	denied    map[string]bool         // "URL ID REV" that a target did not take
	lists     map[string]refusedList  // of refused documents, by job; kept by refusedLists
	dropped   map[string]instant.Time // when databases were deleted, by the prefix of their jobs
	leases    map[string]lease        // by worker; kept by leases
	sharing   sharing
	bills     bills              // kept by charges
	tabs      map[node.Held]*tab // of runs whose end no node has told yet; kept by turns
	logs      logs
	senders   senders
	moves     int                  // of jobs to nodes that run fewer; kept by balancing
	rules     map[string]*holdRule // by id, of all that users ever asked for; kept by control
	// firstTurns is kept by waits.
	firstTurns firstTurns
}

// maxListed is how long the list of a job may be.
func (k *known) maxListed() int { return cmp.Or(k.w.Config().MaxRefused, 10_000) }

// process is a node with the oracle's knowledge of it.
type process struct {
	*world.Node
	runs     []*run                // under way
	called   string                // the name that it goes by
	applied  settings              // that it was told last
	born     []birth               // of all its lives
	member   membership            // kept by members
	duties   [allDuties]carriedOut // kept by duties
	unread   []string              // jobs that its last look for due jobs was to leave out, likewise
	stood    instant.Time          // PausedLast, as far as duties are excused by that
	sight    sight                 // kept by turns
	knows    knowledge             // kept by idleAsks
	paces    map[reflect.Type]pace // of its regular requests, kept by spreading
	charging charging              // kept by charges
	monitor  monitoring            // kept by leases
	ran      int                   // slots in use after its last step, kept by duties
	waits    bool                  // it waits to be told of ready jobs, kept by duties
	sweptAt  instant.Time          // when it sent the last sweep, kept by duties
	lull     lull                  // before the next sweep, kept by duties
	outlook  outlook               // kept by parts
	round    roundSight            // kept by rounds
}

// settings are the settings of a node, and since when it has them.
type settings struct {
	node.Settings
	since instant.Time
}

// birth is how a process began a life: when by its wall clock, and under which name as a worker.
type birth struct {
	at     instant.Time
	worker string
}

// run is a run with the oracle's knowledge of it. The checker whose file defines the type of a field is the
// only one that changes it.
type run struct {
	*world.Run
	p         *process
	begin     beginning
	confirmed bool
	yields    bool // its node wants it to give way
	stopped   bool // by its node
	stopAt    instant.Time
	strayed   instant.Time // since when its job is not its own; Never while it is
	defies    instant.Time // since when it can be expected to obey users, kept by control

	feed       feed
	counts     counts
	backlog    backlog
	bulk       bulk
	rate       callRate
	admissions admissions
	failures   failures
	attempts
	atLogs
	stall   stall
	reports reports
}

// goesOn reports whether the run's node has neither stopped it nor told it to give way.
func (r *run) goesOn() bool { return !r.stopped && !r.yields }

// atLogs is what a run does with its logs.
type atLogs struct {
	lookup  lookup
	history history
	saving  saving
	looking looking
}

// attempts are what a run tries again, by the text of the request.
type attempts struct {
	failing map[string]failing
	// described is when each database was last described to the run; 0 for never.
	described [2]instant.Time
	// fruitless are attempts in a row of a copy that brought nothing.
	fruitless map[string]fruitless
	unbroken  map[string]unbroken // by document
	told      map[string]int      // how often the feed has told of several leaves, by document
	verdicts  verdicts
	packed    packed
	spent     spending
	page      instant.Time // when it asked last for a page of the list of refused documents; kept by triedAgain
	// lacked is until when the run may leave alone what the source told it that it does not have, and gone when the
	// source did so first; kept by triedAgain.
	lacked   map[peers.Revision]instant.Time
	gone     instant.Time
	protocol conversation
}

// shadowed are all jobs that ever were.
type shadowed struct {
	shadows     map[string]*shadow    // by id
	sorted      []string              // their ids, for the function ids
	populations map[string]population // by account
}

// know notes what a job is now.
func (s *shadowed) know(id string, now *shadow) {
	s.count(s.shadows[id], -1)
	s.count(now, 1)
	s.shadows[id] = now
}

// ids are those of all jobs that ever were, in order.
func (s *shadowed) ids() []string {
	if len(s.sorted) != len(s.shadows) { // none is ever forgotten
		s.sorted = slices.Sorted(maps.Keys(s.shadows))
	}
	return s.sorted
}

// shadow is a job as commits told it.
type shadow struct {
	header *jobs.Job // nil: removed
	record *jobstore.Record
	spec   string            // the replication, as it is stored
	rep    *spec.Replication // the same, for the function replication
	came   instant.Time      // when it was added last
	over   instant.Time      // when it came to an end
	at     instant.Time      // when it was changed last
	gone   instant.Time      // when it was removed last
}

// replication is the replication of the job; nil if it has none. It is read once, and must not be changed.
func (s *shadow) replication() (rep *spec.Replication, err error) {
	if s.rep == nil && s.spec != "" {
		s.rep, err = spec.Decode([]byte(s.spec))
	}
	return s.rep, err
}

// docTruth is a replication document as it must be, as far as its user was told.
type docTruth struct {
	j       *world.JobDoc
	token   uint64
	present bool
}

func newKnown(w world.View) known {
	k := known{
		w: w, of: map[*world.Run]*run{},
		shadowed:  shadowed{shadows: map[string]*shadow{}, populations: map[string]population{}},
		docs:      map[string]*docTruth{},
		forbidden: forbiddenTags{},
		denied:    map[string]bool{}, lists: map[string]refusedList{}, dropped: map[string]instant.Time{},
		leases: map[string]lease{},
		logs:   logs{}, senders: senders{}, sharing: sharing{Sharing: w.Config().Sharing}, bills: bills{},
		tabs: map[node.Held]*tab{}, rules: map[string]*holdRule{}, firstTurns: firstTurns{had: map[string]bool{}},
	}
	for _, n := range w.Nodes() {
		k.nodes = append(k.nodes, &process{Node: n})
	}
	return k
}

// readable is the promise that the oracle itself relies on.
var readable = subject{
	invariants: []Invariant{
		{"S3a", "What the store holds of jobs, documents, accounts and settings can be read."},
	},
	begin: func(*chronicle) {},
}

// Fail notes that an invariant did not hold, if it is the first one.
func (k *known) Fail(id, format string, args ...any) {
	if k.violation == nil {
		k.violation = &Violation{ID: id, Text: fmt.Sprintf(format, args...), At: k.w.Now(), Step: k.w.Step()}
		k.w.Logf("oracle", "%s", k.violation)
	}
}

// unreadable is S3a.
func (k *known) unreadable(what string, err error) {
	k.Fail("S3a", "%s cannot be read: %v", what, err)
}

// process returns the chronicle's knowledge of a node.
func (k *known) process(n *world.Node) *process {
	return k.nodes[slices.IndexFunc(k.nodes, func(p *process) bool { return p.Node == n })]
}

func (r *run) String() string { return fmt.Sprintf("run %d of %s", r.ID(), r.p.Name) }

// find is the run of a node with a number; nil when it is over.
func (p *process) find(id uint64) *run {
	for _, r := range p.runs {
		if r.ID() == id {
			return r
		}
	}
	return nil
}

// holds reports whether the store agrees that the run has its job.
func (k *known) holds(r *run) bool {
	s := k.shadows[r.JobID()]
	return s != nil && s.header != nil && s.header.State == jobs.Running && s.header.Lock == r.Lock()
}

// runOf is a job's run, nil when there is none.
func (k *known) runOf(jobID string) *run {
	for _, r := range k.runs {
		if r.JobID() == jobID {
			return r
		}
	}
	return nil
}

// freeSlots is how many more jobs the nodes could run.
func (k *known) freeSlots() int {
	free := 0
	for _, p := range k.nodes {
		if p.Alive() && !p.Draining() && p.Roles().Has(node.Replication) {
			free += max(0, p.MaxJobs()-p.Running())
		}
	}
	return free
}

// document reads a replication document; nil when there is none.
func (k *known) document(t *world.Tenant, id string) *docs.Document {
	var found *docs.Document
	err := k.w.ReadDatabase(t, func(db *docs.Database) error {
		doc, err := db.Read(id, docs.Want{})
		if _, refused := err.(*docs.Error); refused {
			return nil
		}
		found = doc
		return err
	})
	if err != nil {
		k.unreadable(fmt.Sprintf("document %s of %s", id, t.Name()), err)
	}
	return found
}

// sampled reports whether a costly check is made this time: one time in Sample.
func (k *known) sampled(times *int) bool {
	*times++
	return *times%max(k.w.Config().Sample, 1) == 0
}

// thisMinute numbers the minutes of virtual time.
func (k *known) thisMinute() instant.Time { return k.w.Now() / instant.Seconds(60) }
