package oracle

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// Oracle watches a run and checks the invariants of safety as things happen (see Invariants). It keeps a shadow of what
// the store says of every job, made of the commits alone.
type Oracle struct {
	// Violation is the first invariant that did not hold; nil while all do.
	Violation *Violation
	// Watch, when set, is told what becomes of jobs.
	Watch func(JobChanged)

	w        world.View
	nodes    []*process // in the order of their names
	of       map[*world.Run]*run
	landings []landing
	shadows  map[string]*shadow
	runs     []*run // under way
	docs     map[string]*docTruth
	denied   map[string]bool   // "URL ID REV" that a target did not take
	asksFor  map[string]string // what requests to _replicate are for, by the ids of their jobs
	wishes   map[wishKey]wish
	// How often the costly checks came up.
	checkpoints, billed int
	sharing
	claiming
	leasing
	yields  map[node.Held]schedule.Place // the first place that waited when a job gave way
	lone    map[string]lone              // by name of the checkpoint
	writers map[string]instant.Time      // by session of a checkpoint: when the run began that writes it
	placed  map[string]placement         // by job, of jobs whose places are foretold
	owes    map[node.Held]*owing         // of runs whose end is not told yet
	waits   map[int]alike                // after crashes, by their number in a row
	behind  string                       // the job for which the world was not settled at the last look
	ruling  ruling
	logs    logs
	// moment is the present instant, and busy the number of events in it.
	moment instant.Time
	busy   int
	// minute is the present one, and hectic the number of events in it.
	minute instant.Time
	hectic int
}

// Violation is a broken invariant.
type Violation struct {
	ID   string // of an invariant
	Text string
	At   instant.Time
	Step uint64
}

func (v *Violation) String() string {
	return fmt.Sprintf("%s at %s (event %d): %s", v.ID, v.At, v.Step, v.Text)
}

// Fail notes the first violation.
func (o *Oracle) Fail(id, format string, args ...any) {
	if o.Violation == nil {
		o.Violation = &Violation{ID: id, Text: fmt.Sprintf(format, args...), At: o.w.Now(), Step: o.w.Step()}
		o.w.Logf("oracle", "%s", o.Violation)
	}
}

// process is what the oracle knows of a node.
type process struct {
	*world.Node
	runs     []*run  // under way
	called   string  // the name that it goes by
	born     []birth // of all its lives
	member   membership
	paces    map[reflect.Type]pace // of what it does regularly
	looks    [looks]look
	stood    instant.Time // PausedLast, as far as looks may be late because of that
	charging charging
	crowded  bool // jobs waited for slots when it last looked
	sight    sight
	vain     vain
	expiring map[string]uint64 // workers that it gives up, and by which request
	silences map[string]silence
	ran      int // jobs after the last step
}

// begin begins a life of a node: what it knew is gone.
func (p *process) begin(now instant.Time) {
	*p = process{
		Node: p.Node, called: p.Title(), born: append(p.born, birth{p.Clock().Wall, p.Worker()}), stood: p.stood,
		vain: vain{awaits: map[node.Topic]node.Await{}}, expiring: map[string]uint64{},
		member: membership{applied: p.Settings(), since: now}, paces: map[reflect.Type]pace{},
	}
}

// run is what the oracle knows of a run.
type run struct {
	*world.Run
	p         *process
	confirmed bool
	strayed   instant.Time // since when its job is not its own; Never while it is
	begin     beginning
	outlook   outlook
	repeats   repeats
	failed    map[string]setback // calls that may succeed when they are repeated
	numbers   numbers
	// looks and reads: has begun to look for its checkpoint, and to read changes.
	looks, reads bool
	fresh        bool // it is another replication than its job was before, and has no checkpoint
	stopped      bool // by its node
	stopAt       instant.Time
	attempts     attempts
	fruitless    map[string]fruitless // attempts in a row of copies that brought nothing
	saved        saved
	reports      reports
}

// find is the run of a node with a number; nil when it is over.
func (p *process) find(id uint64) *run {
	for _, r := range p.runs {
		if r.ID() == id {
			return r
		}
	}
	return nil
}

// maxBusy bounds the events of one instant: more come only from a machine that is woken and has nothing to
// do.
const maxBusy = 100_000

// maxHectic bounds the events of a minute for each job that there is, or was at the beginning: there are some hundreds.
const maxHectic = 2_000

// landing is a commit with the jobs that it changed.
type landing struct {
	world.Landed
	jobs []string
}

// shadow is what the oracle knows of a job.
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

// New makes an oracle for a world that has not begun.
func New(w world.View) *Oracle {
	o := &Oracle{
		w: w, of: map[*world.Run]*run{}, shadows: map[string]*shadow{}, asksFor: map[string]string{}, wishes: map[wishKey]wish{},
		docs: map[string]*docTruth{}, denied: map[string]bool{}, sharing: sharing{map[payer]*bill{}},
		claiming: claiming{owners: map[string]string{}, had: map[hold]instant.Time{}, onlyPassing: map[node.Held]bool{}, gone: map[string]instant.Time{}},
		leasing:  leasing{leases: map[string]lease{}, taken: map[node.Held]bool{}, haste: map[string]haste{}},
		yields:   map[node.Held]schedule.Place{}, lone: map[string]lone{}, writers: map[string]instant.Time{}, placed: map[string]placement{},
		owes:  map[node.Held]*owing{},
		waits: map[int]alike{}, logs: logs{}, ruling: ruling{Sharing: w.Config().Sharing, tails: map[string]int64{}},
	}
	for _, n := range w.Nodes() {
		o.nodes = append(o.nodes, &process{Node: n})
	}
	return o
}

// process is what the oracle knows of a node.
func (o *Oracle) process(n *world.Node) *process {
	return o.nodes[slices.IndexFunc(o.nodes, func(p *process) bool { return p.Node == n })]
}

// See is told of every fact.
func (o *Oracle) See(f world.Fact) {
	switch f := f.(type) {
	case world.Stepped:
		o.step()
	case world.Ticked:
		o.checkStrays()
		o.checkCounts()
	case world.Landed:
		o.landings = append(o.landings, landing{f, o.touched(f)})
	case world.Repeated:
		if f.Changed {
			o.Fail("S17", "%s repeated changed the store", f.Request)
		}
	case world.LogWritten:
		o.checkpoint(f.DB, f.ID, f.Body)
	case world.Refused:
		o.denied[f.DB.String()+" "+f.ID+" "+f.Rev] = true
	case world.Altered:
		o.Fail("S15", "%s in %s %s", f.Name, f.DB, f.What)
	case world.Wished:
		o.wished(f)
	case world.Sends:
		o.checkQuiet(f)
	default:
		o.seeNode(f)
		o.seeRun(f)
		o.seeUser(f)
	}
}

func (o *Oracle) seeNode(f world.Fact) {
	switch f := f.(type) {
	case world.NodeChanged:
		if f.State == world.NodeUp {
			o.process(f.Node).begin(o.w.Now())
			o.forgetWishes(f.Node)
		}
	case world.NodeStepped:
		o.nodeStepped(o.process(f.Node), f.Event, f.Effects)
	case world.Answered:
		o.answered(f.Request, f.Result, f.Since)
		o.looked(o.process(f.Node), f.Result)
	case world.AskFailed:
		o.checkLimits(f.Request, f.Err)
	case world.Awaits:
		o.awaits(o.process(f.Node), f.Await)
	case world.Armed:
		o.checkArmed(f)
	}
}

func (o *Oracle) seeRun(f world.Fact) {
	switch f := f.(type) {
	case world.RunStarted:
		p := o.process(f.Run.Node())
		r := &run{Run: f.Run, p: p, reports: reports{interval: p.Settings().ProgressInterval}, strayed: instant.Never}
		o.of[f.Run] = r
		p.runs = append(p.runs, r)
		o.runStarted(r)
	case world.RunEnded:
		r := o.of[f.Run]
		o.runEnded(r)
		r.p.runs = slices.DeleteFunc(r.p.runs, func(other *run) bool { return other == r })
		delete(o.of, f.Run)
	case world.RunConfirmed:
		o.confirmed(o.of[f.Run])
	case world.RunCalls:
		o.called(o.of[f.Run], f.Op)
	case world.RunCancels:
		o.checkCancels(o.of[f.Run], f)
	case world.RunReplied:
		if r := o.of[f.Run]; r != nil {
			o.replied(r, f.Op, f.Reply)
		}
	case world.RunProgressed:
		o.progressed(o.of[f.Run], f.Asked, f.Info)
	case world.RunSaidEnd:
		r := o.of[f.Run]
		o.checkGivenUp(r, f.Asked, f.Event, f.End)
		o.runSaid(r, f.End)
	case world.RunStepped:
		o.runStepped(o.of[f.Run], f.Asked, f.Event, f.Effects)
	}
}

func (o *Oracle) seeUser(f world.Fact) {
	switch f := f.(type) {
	case world.DocumentWritten:
		o.docs[f.Doc.Tenant().Name()+" "+f.Doc.ID()] = &docTruth{j: f.Doc, token: f.Token, present: f.Present}
	case world.WriteRefused:
		o.checkRefusedWrite(f)
	case world.DatabaseDropped:
		o.dropped(f.Tenant)
	case world.RequestAnswered:
		o.checkID(f.ID, f.Replication)
	case world.RequestAccepted:
		o.accepted(f.ID, f.Replication, f.Made)
	case world.RequestCanceled:
		o.canceled(f.ID, f.At)
	case world.SharingAsked:
		o.ruling.changing, o.ruling.asked = true, o.w.Now()
	case world.SharingInForce:
		o.ruling.inForce(f.Sharing, o.w.Now())
	}
}

// thisMinute numbers the minutes of virtual time.
func (o *Oracle) thisMinute() instant.Time { return o.w.Now() / instant.Seconds(60) }

// step is called after every event.
func (o *Oracle) step() {
	if now := o.w.Now(); now != o.moment {
		o.moment, o.busy = now, 0
	}
	if o.busy++; o.busy > maxBusy {
		o.Fail("B1", "%d events at one moment: something waits busily", o.busy)
	}
	if minute := o.thisMinute(); minute != o.minute {
		o.minute, o.hectic = minute, 0
	}
	if o.hectic++; o.hectic > maxHectic*(10+max(o.w.Config().Jobs, len(o.shadows))) {
		o.Fail("B1", "%d events in one minute: something goes round in circles", o.hectic)
	}
	if len(o.landings) == 0 {
		return
	}
	landings := o.landings
	o.landings = nil
	for _, l := range landings {
		o.checkFencing(l)
		o.checkLeases(l)
		o.checkCharges(l)
		o.follow(l)
		o.checkRuling(l)
		o.checkClaims(l)
	}
}

// checkFencing is S2: a write for a job commits only under the job's present lock.
func (o *Oracle) checkFencing(l landing) {
	held, ok := heldBy(l.Request)
	if !ok || !slices.Contains(l.jobs, held.JobID) {
		return
	}
	s := o.shadows[held.JobID]
	if s == nil || s.header == nil || s.header.State != jobs.Running || s.header.Lock != held.Lock {
		o.Fail("S2", "%s committed, but the job is %v", l.Request, s)
	}
}

// heldBy is the job and lock of a request that writes under a lock.
func heldBy(q node.Request) (node.Held, bool) {
	h, is := q.(node.HeldRequest)
	if !is {
		return node.Held{}, false
	}
	return h.HeldJob(), true
}

// touched are the jobs that a commit changes.
func (o *Oracle) touched(l world.Landed) (jobs []string) {
	for _, m := range l.Mutations {
		if id, ok := o.w.Store().Jobs.JobOf(m.Key); ok && !slices.Contains(jobs, id) {
			jobs = append(jobs, id)
		}
	}
	return jobs
}

// follow brings the shadows up to date with a commit.
func (o *Oracle) follow(l landing) {
	for _, id := range l.jobs {
		header, err := o.w.Store().Jobs.Get(o.w.Present(), id)
		if err != nil {
			o.Fail("S3", "job %s cannot be read: %v", id, err)
			return
		}
		before := o.shadows[id]
		if before == nil {
			before = &shadow{}
		}
		after := &shadow{header: header, came: before.came, gone: before.gone, over: before.over, at: o.w.Now()}
		if before.header == nil {
			after.came = o.w.Now()
		}
		if header == nil {
			after.gone = o.w.Now()
			o.checkForgotten(id, before, l)
		} else {
			after.record = &jobstore.Record{}
			if err := json.Unmarshal(header.Data, after.record); err != nil {
				o.Fail("S3", "record of job %s: %v", id, err)
				return
			}
			if before.record != nil && before.record.Created != after.record.Created { // removed and added in one commit
				after.came, after.gone = o.w.Now(), o.w.Now()
			}
		}
		if header != nil && header.State == jobs.Finished && (before.header == nil || before.header.State != jobs.Finished) {
			after.over = o.w.Now()
		}
		o.shadows[id] = after
		o.checkSignal(id, before, after, l)
		o.watchJob(id, before, after)
		o.checkRemade(id, before, after, l)
		o.checkEnding(before, after)
		o.noteTaken(id, header)
		o.noteHold(id, before.record)
		o.checkPlace(id, after)
		o.checkTransition(id, before, after, l)
	}
}

// checkSignal is a part of L4: whoever waits for jobs is told of all that become ready.
func (o *Oracle) checkSignal(id string, before, after *shadow, l landing) {
	ready := func(s *shadow) bool { return s.header != nil && s.header.State == jobs.Pending && s.header.Due == 0 }
	if !ready(after) || ready(before) {
		return
	}
	if !slices.ContainsFunc(l.Mutations, func(m ryw.Mutation) bool { return string(m.Key) == signalKey }) {
		o.Fail("L4", "job %s is ready by %v, and nobody is told", id, l.Request)
	}
}

var signalKey = string(tuple.Subspace(tuple.Pack("couchrelay")).Sub("jobs").Sub("replication").Pack("signal"))

// checkTransition is S7, S8 and S16: states change in the ways that there are, waits after crashes are
// within their bounds, and counters never go back.
func (o *Oracle) checkTransition(id string, before, after *shadow, l landing) {
	if after.header == nil || before.header == nil {
		return
	}
	b, a := before.record, after.record
	anew := a.Created != b.Created || len(a.History) > 0 && a.History[0].Type == "added"
	if age := a.Expires.Sub(a.LastUpdated); a.Expires != 0 && age != o.w.Config().TransientMaxAge {
		o.Fail("S7", "job %s of a request is over, and forgotten after %s", id, age)
	}
	if !anew && !legal(b.State, a.State) {
		o.Fail("S7", "job %s went from %s to %s by %v", id, b.State, a.State, l.Request)
	}
	if b.State != a.State || before.header.State != after.header.State {
		o.checkViews(id, a)
	}
	o.checkBackoff(id, before, after, anew, l)
	o.checkLost(id, before, after, l)
	o.checkEnd(id, a, l)
	o.checkTurn(id, after, l)
	o.checkLife(id, before, after, anew, l)
	if !anew && a.RepID == b.RepID && b.RepID != "" {
		o.checkCounters(id, b.Stats, a.Stats)
	}
}

func legal(from, to jobstore.State) bool {
	switch from {
	case jobstore.Pending, jobstore.Crashing:
		return to == from || to == jobstore.Running
	case jobstore.Running:
		return true
	}
	return to == from
}

// fewer says whether a counter is less than it was.
func fewer(is, was checkpoint.Counters) bool {
	return is.MissingChecked < was.MissingChecked || is.MissingFound < was.MissingFound || is.DocsRead < was.DocsRead || is.DocsWritten < was.DocsWritten ||
		is.DocWriteFailures < was.DocWriteFailures || is.BulkGetDocs < was.BulkGetDocs || is.BulkGetAttempts < was.BulkGetAttempts
}

// checkCounters is S16.
func (o *Oracle) checkCounters(id string, b, a jobstore.Stats) {
	if fewer(a.Counters(), b.Counters()) {
		o.Fail("S16", "counters of job %s went back from %+v to %+v", id, b.Counters(), a.Counters())
	}
}

// runStarted is S1 and S5: one worker per lock, and no more runs than allowed.
func (o *Oracle) runStarted(r *run) {
	lock := r.Lock()
	for _, other := range o.runs {
		if other.JobID() != r.JobID() {
			continue
		}
		if other.Lock() == lock {
			o.Fail("S1", "job %s runs twice under lock %v", r.JobID(), lock)
		}
		if other.p == r.p {
			o.Fail("S1", "job %s runs on %s as %v, and now as %v too", r.JobID(), r.p.Name, other.Lock(), lock)
		}
		o.checkTakeover(other, r)
	}
	o.checkTaken(r)
	o.checkSuspect(r)
	o.checkWelcome(r)
	if !r.p.Roles().Has(node.Replication) {
		o.Fail("S5", "%s starts a run without the role replication", r.p.Name)
	}
	if n := len(r.p.runs); n > r.p.MaxJobs() {
		o.Fail("S5", "%s starts run %d though it may have %d", r.p.Name, n, r.p.MaxJobs())
	}
	r.begin = o.beginning(r)
	o.runs = append(o.runs, r)
	now, place := r.p.Clock().Steady, r.Work().Place
	o.owes[r.Held()] = &owing{until: now, standing: standing{epoch: place.Epoch, key: float64(place.Key), grown: now}, account: r.Record().Account()}
}

// checkTakeover is S1 too: a job that another worker took over because its worker was silent does not run
// there any more, unless that one stood still and does not know yet.
func (o *Oracle) checkTakeover(old, r *run) {
	now := o.w.Now()
	if r.p.Awoke() > 0 && now.Sub(r.p.Awoke()) < r.p.Settings().ActivityTimeout && !o.holds(r) {
		return // it was suspended, and by its clock its lease goes on
	}
	if old.p == r.p || old.p.Paused() || now.Sub(old.p.PausedLast()) < old.p.Settings().ActivityTimeout {
		return
	}
	s := o.shadows[old.JobID()]
	if s == nil || s.gone >= old.Began() { // it was removed and added again: the old run is told soon
		return
	}
	if old.p.Settings().ActivityTimeout != r.p.Settings().ActivityTimeout {
		return // in the middle of an upgrade that changes it nobody can promise this
	}
	o.Fail("S1", "job %s runs on %s since %s, and now on %s too", r.JobID(), old.p.Name, old.Began(), r.p.Name)
}

func (o *Oracle) runEnded(r *run) {
	if i := slices.Index(o.runs, r); i >= 0 {
		o.runs = slices.Delete(o.runs, i, i+1)
		o.checkLease(r)
		o.turnEnded(r)
		o.turnOver(r)
	}
}

func (o *Oracle) runSaid(r *run, e replication.End) {
	if known := o.owes[r.Held()]; known != nil {
		known.said = &e.Info.Counters
	}
	o.checkComplete(r, e)
	o.checkPending(r, e.Info)
	o.checkCovered(r, e)
	o.checkWritten(r, e.Info, e.Cause == replication.Completed)
	o.checkNumbers(r, e.Info, e.Cause == replication.Completed)
	o.checkStopped(r, e)
	o.checkAnswer(r, e)
	o.checkSaved(r, e.Info)
	if e.Cause == replication.Completed {
		o.checkThrough(r, e.Info)
	}
	o.checkFresh(r, e.Info)
	if r.Kept() > 0 && e.Cause == replication.Completed {
		o.Fail("S17", "run %d of %s completed and left %d groups of bodies", r.ID(), r.p.Name, r.Kept())
	}
}

// confirmed is S18: of the runs with one replication id at most one has the right to it.
func (o *Oracle) confirmed(r *run) {
	r.confirmed = true
	for _, other := range o.runs {
		if other == r || !other.confirmed || other.RepID() != r.RepID() || other.JobID() == r.JobID() {
			continue
		}
		if o.holds(other) && o.holds(r) {
			o.Fail("S18", "jobs %s and %s both run as %s", other.JobID(), r.JobID(), r.RepID())
		}
	}
}

// holds says whether the store agrees that the run has its job.
func (o *Oracle) holds(r *run) bool {
	s := o.shadows[r.JobID()]
	return s != nil && s.header != nil && s.header.State == jobs.Running && s.header.Lock == r.Lock()
}

// sampled says whether a costly check is made this time: one in every, and of these one in Sample.
func (o *Oracle) sampled(times *int, every int) bool {
	*times++
	return *times%(every*max(o.w.Config().Sample, 1)) == 0
}

// checkRefusedWrite is S19.
func (o *Oracle) checkRefusedWrite(f world.WriteRefused) {
	t := f.Doc.Tenant()
	if found := o.document(t, f.Doc.ID()); found != nil && containsToken(found, f.Token) {
		o.Fail("S19", "the write of %s %s as %d happened, and was answered %v", t.Name(), f.Doc.ID(), f.Token, f.Err)
	}
}

// dropped forgets the documents of a database that was deleted.
func (o *Oracle) dropped(t *world.Tenant) {
	o.gone[jobstore.DocumentJobs(t.Instance())] = o.w.Now()
	for key, truth := range o.docs {
		if truth.j.Tenant() == t {
			delete(o.docs, key)
		}
	}
}
