package oracle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// chronicle is what all checkers know of a run of the simulator: jobs, nodes and runs as facts told of them so far. It
// judges nothing, and only it changes what it knows, before or after the checkers hear of a fact as hearing's fields say.
type chronicle struct {
	w  world.View
	on hearing
	// violation is the first invariant that did not hold; nil while all do.
	violation *Violation

	nodes    []*process // in the order of their names
	of       map[*world.Run]*run
	runs     []*run             // under way, in the order in which they began
	shadows  map[string]*shadow // of all jobs that ever were, by id
	landings []landing          // of the present event
	docs     map[string]*docTruth
	denied   map[string]bool // "URL ID REV" that a target did not take
	dropped  map[string]instant.Time
	leases   map[string]lease // by worker
	sharing  sharing
	bills    bills              // kept by charges
	tabs     map[node.Held]*tab // kept by turns, of runs whose end no node has told yet
	logs     logs
	senders  senders
}

// process is what the chronicle knows of a node.
type process struct {
	*world.Node
	runs     []*run                // under way
	called   string                // the name that it goes by
	applied  settings              // that it was told last
	born     []birth               // of all its lives
	member   membership            // kept by members
	duties   [allDuties]carriedOut // kept by duties
	stood    instant.Time          // PausedLast, as far as duties are excused by that
	sight    sight                 // kept by turns
	knows    knowledge             // kept by idleAsks
	paces    map[reflect.Type]pace // of what it does regularly, kept by spreading
	charging charging              // kept by charges
	monitor  monitoring            // kept by leases
	ran      int                   // slots in use after its last step, kept by duties
}

// settings are those of a node, and since when.
type settings struct {
	node.Settings
	since instant.Time
}

// birth is how a process began a life: when by its wall clock, and under which name as a worker.
type birth struct {
	at     instant.Time
	worker string
}

// run is what the chronicle knows of a run. Fields are kept by the checker that their type stands with.
type run struct {
	*world.Run
	p         *process
	begin     beginning
	confirmed bool
	stopped   bool // by its node
	stopAt    instant.Time
	strayed   instant.Time // since when its job is not its own; Never while it is

	feed     feed
	counts   counts
	backlog  backlog
	bulk     bulk
	rate     callRate
	failures failures
	failing  map[string]failing // by the text of the request
	// fruitless are attempts in a row of a copy that brought nothing, by the text of the request.
	fruitless map[string]fruitless
	lookup    lookup
	history   history
	saving    saving
	reports   reports
}

// shadow is what commits told of a job.
type shadow struct {
	header *jobs.Job // nil: removed
	record *jobstore.Record
	spec   string       // the replication, as it is stored
	came   instant.Time // when it was added last
	over   instant.Time // when it came to an end
	at     instant.Time // when it was changed last
	gone   instant.Time // when it was removed last
}

// docTruth is what must be true of a replication document, as far as its user was told.
type docTruth struct {
	j       *world.JobDoc
	token   uint64
	present bool
}

// chronicleSubject is what the chronicle itself relies on.
var chronicleSubject = subject{
	invariants: []Invariant{{"S3a", "What the store holds of jobs, documents, accounts and settings can be read."}},
	begin:      func(*chronicle) {},
}

func newChronicle(w world.View) *chronicle {
	c := &chronicle{
		w: w, of: map[*world.Run]*run{}, shadows: map[string]*shadow{}, docs: map[string]*docTruth{}, denied: map[string]bool{},
		dropped: map[string]instant.Time{}, leases: map[string]lease{}, logs: logs{}, senders: senders{},
		sharing: sharing{Sharing: w.Config().Sharing}, bills: bills{}, tabs: map[node.Held]*tab{},
	}
	for _, n := range w.Nodes() {
		c.nodes = append(c.nodes, &process{Node: n})
	}
	return c
}

// Fail notes that an invariant did not hold, if it is the first one.
func (c *chronicle) Fail(id, format string, args ...any) {
	if c.violation == nil {
		c.violation = &Violation{ID: id, Text: fmt.Sprintf(format, args...), At: c.w.Now(), Step: c.w.Step()}
		c.w.Logf("oracle", "%s", c.violation)
	}
}

// unreadable is S3a.
func (c *chronicle) unreadable(what string, err error) {
	c.Fail("S3a", "%s cannot be read: %v", what, err)
}

// process is what the chronicle knows of a node.
func (c *chronicle) process(n *world.Node) *process {
	return c.nodes[slices.IndexFunc(c.nodes, func(p *process) bool { return p.Node == n })]
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

// boot begins a life of a node: what it knew is gone.
func (c *chronicle) boot(n *world.Node) {
	p := c.process(n)
	*p = process{
		Node: n, called: n.Title(), born: append(p.born, birth{n.Clock().Wall, n.Worker()}), stood: p.stood,
		applied: settings{n.Settings(), c.w.Now()},
	}
	c.on.nodeUp.tell(p)
}

// stepped tells of a node's step. What the step tells the node of itself is known before, and which runs it stops after.
func (c *chronicle) stepped(s nodeStep) {
	if configure, is := s.ev.(node.Configure); is {
		s.p.applied = settings{configure.Settings, c.w.Now()}
	}
	for _, e := range s.effects {
		if renamed, is := e.(node.Rename); is {
			s.p.called = renamed.Name
		}
	}
	c.on.nodeStepped.tell(s)
	for _, e := range s.effects {
		if stop, is := e.(node.StopRun); is {
			if r := s.p.find(stop.Run); r != nil {
				r.stopped, r.stopAt = true, c.w.Now()
			}
		}
	}
}

// started tells of a run before it is one of those under way.
func (c *chronicle) started(w *world.Run) {
	p := c.process(w.Node())
	r := &run{Run: w, p: p, strayed: instant.Never}
	r.begin = c.beginning(r)
	c.of[w] = r
	p.runs = append(p.runs, r)
	c.on.runStarted.tell(r)
	c.runs = append(c.runs, r)
}

// ended tells of a run when it is no more one of those under way.
func (c *chronicle) ended(w *world.Run) {
	r := c.of[w]
	is := func(other *run) bool { return other == r }
	c.runs = slices.DeleteFunc(c.runs, is)
	c.on.runEnded.tell(r)
	r.p.runs = slices.DeleteFunc(r.p.runs, is)
	delete(c.of, w)
}

// follow brings the shadows up to date with the commits of an event, and tells of each of them.
func (c *chronicle) follow() {
	landings := c.landings
	c.landings = nil
	for _, l := range landings {
		c.on.landed.tell(l)
		for _, id := range l.jobs {
			c.followJob(id, l)
		}
		c.on.followed.tell(l)
	}
}

// landing is a commit with the jobs that it changed.
type landing struct {
	world.Landed
	jobs []string
}

// touched are the jobs that a commit changes.
func (c *chronicle) touched(l world.Landed) (jobs []string) {
	for _, m := range l.Mutations {
		if id, ok := c.w.Store().Jobs.JobOf(m.Key); ok && !slices.Contains(jobs, id) {
			jobs = append(jobs, id)
		}
	}
	return jobs
}

func (c *chronicle) followJob(id string, l landing) {
	header, err := c.w.Store().Jobs.Get(c.w.Present(), id)
	if err != nil {
		c.unreadable("job "+id, err)
		return
	}
	before, now := c.shadows[id], c.w.Now()
	if before == nil {
		before = &shadow{}
	}
	after := &shadow{header: header, came: before.came, gone: before.gone, over: before.over, at: now}
	change := jobChange{id: id, before: before, after: after, landing: l}
	if before.header == nil {
		after.came = now
	}
	if header == nil {
		after.gone = now
	} else {
		after.record = &jobstore.Record{}
		if err := json.DecodeRecord(header.Data, after.record); err != nil {
			c.unreadable("record of job "+id, err)
			return
		}
		if before.record != nil && before.record.Created != after.record.Created { // removed and added in one commit
			after.came, after.gone = now, now
			change.anew = true
		}
		change.anew = change.anew || len(after.record.History) > 0 && after.record.History[0].Type == "added"
		if header.State == jobs.Finished && (before.header == nil || before.header.State != jobs.Finished) {
			after.over = now
		}
		c.readSpec(id, before, after)
	}
	c.shadows[id] = after
	c.on.jobChanged.tell(change)
	if before.header != nil && header != nil {
		c.on.jobMoved.tell(change)
	}
}

// readSpec reads the replication of a job that was made, as it is stored.
func (c *chronicle) readSpec(id string, before, after *shadow) {
	if before.header != nil && after.record.Created == before.record.Created {
		after.spec = before.spec
		return
	}
	rows, err := c.w.Present().GetRange(c.w.Store().Keys.Spec.Sub(id).Range(), kv.RangeOptions{})
	if err != nil {
		c.unreadable("replication of job "+id, err)
	}
	var spec strings.Builder
	for _, row := range rows {
		spec.Write(row.Value)
	}
	after.spec = spec.String()
}

// dropDatabase forgets the documents of a database that was deleted.
func (c *chronicle) dropDatabase(t *world.Tenant) {
	c.dropped[jobstore.DocumentJobs(t.Instance())] = c.w.Now()
	maps.DeleteFunc(c.docs, func(_ string, truth *docTruth) bool { return truth.j.Tenant() == t })
}

// holds reports whether the store agrees that the run has its job.
func (c *chronicle) holds(r *run) bool {
	s := c.shadows[r.JobID()]
	return s != nil && s.header != nil && s.header.State == jobs.Running && s.header.Lock == r.Lock()
}

// runOf is a job's run, nil when there is none.
func (c *chronicle) runOf(jobID string) *run {
	for _, r := range c.runs {
		if r.JobID() == jobID {
			return r
		}
	}
	return nil
}

// freeSlots is how many more jobs the nodes could run.
func (c *chronicle) freeSlots() int {
	free := 0
	for _, p := range c.nodes {
		if p.Alive() && !p.Draining() && p.Roles().Has(node.Replication) {
			free += max(0, p.MaxJobs()-p.Running())
		}
	}
	return free
}

// document reads a replication document; nil when there is none.
func (c *chronicle) document(t *world.Tenant, id string) *docs.Document {
	var found *docs.Document
	err := c.w.ReadDatabase(t, func(db *docs.Database) error {
		doc, err := db.Read(id, docs.Want{})
		if _, refused := err.(*docs.Error); refused {
			return nil
		}
		found = doc
		return err
	})
	if err != nil {
		c.unreadable(fmt.Sprintf("document %s of %s", id, t.Name()), err)
	}
	return found
}

// sampled reports whether a costly check is made this time: one time in Sample.
func (c *chronicle) sampled(times *int) bool {
	*times++
	return *times%max(c.w.Config().Sample, 1) == 0
}

// clocksWereSet reports whether clocks were wrong at times, or stood still.
func (c *chronicle) clocksWereSet() bool {
	return c.w.Fired(world.NodeJump)+c.w.Fired(world.NodeSkew)+c.w.Fired(world.NodeSuspend) > 0
}

// thisMinute numbers the minutes of virtual time.
func (c *chronicle) thisMinute() instant.Time { return c.w.Now() / instant.Seconds(60) }
