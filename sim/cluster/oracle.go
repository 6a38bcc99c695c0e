package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/mix"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// oracle watches a run and checks the invariants of safety as things happen (see Invariants). It keeps a shadow of what
// the store says of every job, made of the commits alone.
type oracle struct {
	w        *Cluster
	landings []landing
	requests map[uint64]asked // of the commits of nodes that have not landed, by number of the transaction
	current  map[any]asked    // of the coroutines that ask
	asked    uint64           // requests
	shadows  map[string]*shadow
	runs     []*run // under way
	docs     map[string]*docTruth
	denied   map[string]bool // "URL ID REV" that a target did not take
	// How often the costly checks came up.
	replays, checkpoints, billed int
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

// maxBusy bounds the events of one instant: more come only from a machine that is woken and has nothing to
// do.
const maxBusy = 100_000

// maxHectic bounds the events of a minute for each job that there is, or was at the beginning: there are some hundreds.
const maxHectic = 2_000

// asked is a request of a node, with the wall clock that it goes by and how far its steady clock was behind.
type asked struct {
	request node.Request
	wall    instant.Time
	lag     time.Duration
	number  uint64 // in the order of asking
}

// landing is a commit with the request that made it.
type landing struct {
	fakefdb.Landing
	asked
	jobs []string // that it changed
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
	j       *jobDoc
	token   uint64
	present bool
}

func newOracle(w *Cluster) *oracle {
	return &oracle{
		w: w, requests: map[uint64]asked{}, current: map[any]asked{}, shadows: map[string]*shadow{},
		docs: map[string]*docTruth{}, denied: map[string]bool{}, sharing: sharing{map[payer]*bill{}},
		claiming: claiming{owners: map[string]string{}, had: map[hold]instant.Time{}, onlyPassing: map[node.Held]bool{}, gone: map[string]instant.Time{}},
		leasing:  leasing{leases: map[string]lease{}, taken: map[node.Held]bool{}, haste: map[string]haste{}},
		yields:   map[node.Held]schedule.Place{}, lone: map[string]lone{}, writers: map[string]instant.Time{}, placed: map[string]placement{},
		owes:  map[node.Held]*owing{},
		waits: map[int]alike{}, logs: logs{}, ruling: ruling{Sharing: w.Config.Sharing, tails: map[string]int64{}},
	}
}

// asking notes what the running coroutine is about to ask of the store.
func (o *oracle) asking(q node.Request, wall instant.Time, lag time.Duration) {
	o.asked++
	o.current[o.w.Engine.Self()] = asked{q, wall, lag, o.asked}
}

// operation connects a transaction with the request that it carries out.
func (o *oracle) operation(op fakefdb.Op) {
	if op.Kind != fakefdb.Commit {
		return
	}
	if q, ok := o.current[o.w.Engine.Self()]; ok {
		o.requests[op.Tx] = q
	}
}

// landed takes note of a commit. It is looked at when the event is over, since the store may not be asked
// now.
func (o *oracle) landed(l fakefdb.Landing) {
	o.w.Engine.Note(mix.Pair(uint64(l.Version), uint64(len(l.Mutations))))
	o.landings = append(o.landings, landing{l, o.requests[l.Tx], o.touched(l)})
	delete(o.requests, l.Tx)
}

// thisMinute numbers the minutes of virtual time.
func (o *oracle) thisMinute() instant.Time { return o.w.Engine.Now() / instant.Seconds(60) }

// step is called after every event.
func (o *oracle) step() {
	if now := o.w.Engine.Now(); now != o.moment {
		o.moment, o.busy = now, 0
	}
	if o.busy++; o.busy > maxBusy {
		o.w.fail("B1", "%d events at one moment: something waits busily", o.busy)
	}
	if minute := o.thisMinute(); minute != o.minute {
		o.minute, o.hectic = minute, 0
	}
	if o.hectic++; o.hectic > maxHectic*(10+max(o.w.Config.Jobs, len(o.shadows))) {
		o.w.fail("B1", "%d events in one minute: something goes round in circles", o.hectic)
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
	if len(landings) == 1 {
		o.replay(landings[0].asked)
	}
}

// checkFencing is S2: a write for a job commits only under the job's present lock.
func (o *oracle) checkFencing(l landing) {
	held, ok := heldBy(l.request)
	if !ok || !slices.Contains(l.jobs, held.JobID) {
		return
	}
	s := o.shadows[held.JobID]
	if s == nil || s.header == nil || s.header.State != jobs.Running || s.header.Lock != held.Lock {
		o.w.fail("S2", "%s committed, but the job is %v", l.request, s)
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
func (o *oracle) touched(l fakefdb.Landing) (jobs []string) {
	for _, m := range l.Mutations {
		if id, ok := o.w.store.Jobs.JobOf(m.Key); ok && !slices.Contains(jobs, id) {
			jobs = append(jobs, id)
		}
	}
	return jobs
}

// follow brings the shadows up to date with a commit.
func (o *oracle) follow(l landing) {
	for _, id := range l.jobs {
		header, err := o.w.store.Jobs.Get(o.w.present(), id)
		if err != nil {
			o.w.fail("S3", "job %s cannot be read: %v", id, err)
			return
		}
		before := o.shadows[id]
		if before == nil {
			before = &shadow{}
		}
		after := &shadow{header: header, came: before.came, gone: before.gone, over: before.over, at: o.w.Engine.Now()}
		if before.header == nil {
			after.came = o.w.Engine.Now()
		}
		if header == nil {
			after.gone = o.w.Engine.Now()
			o.checkForgotten(id, before, l)
		} else {
			after.record = &jobstore.Record{}
			if err := json.Unmarshal(header.Data, after.record); err != nil {
				o.w.fail("S3", "record of job %s: %v", id, err)
				return
			}
			if before.record != nil && before.record.Created != after.record.Created { // removed and added in one commit
				after.came, after.gone = o.w.Engine.Now(), o.w.Engine.Now()
			}
		}
		if header != nil && header.State == jobs.Finished && (before.header == nil || before.header.State != jobs.Finished) {
			after.over = o.w.Engine.Now()
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
func (o *oracle) checkSignal(id string, before, after *shadow, l landing) {
	ready := func(s *shadow) bool { return s.header != nil && s.header.State == jobs.Pending && s.header.Due == 0 }
	if !ready(after) || ready(before) {
		return
	}
	if !slices.ContainsFunc(l.Mutations, func(m ryw.Mutation) bool { return string(m.Key) == signalKey }) {
		o.w.fail("L4", "job %s is ready by %v, and nobody is told", id, l.request)
	}
}

var signalKey = string(tuple.Subspace(tuple.Pack("couchrelay")).Sub("jobs").Sub("replication").Pack("signal"))

// checkTransition is S7, S8 and S16: states change in the ways that there are, waits after crashes are
// within their bounds, and counters never go back.
func (o *oracle) checkTransition(id string, before, after *shadow, l landing) {
	if after.header == nil || before.header == nil {
		return
	}
	b, a := before.record, after.record
	anew := a.Created != b.Created || len(a.History) > 0 && a.History[0].Type == "added"
	if age := a.Expires.Sub(a.LastUpdated); a.Expires != 0 && age != o.w.Config.TransientMaxAge {
		o.w.fail("S7", "job %s of a request is over, and forgotten after %s", id, age)
	}
	if !anew && !legal(b.State, a.State) {
		o.w.fail("S7", "job %s went from %s to %s by %v", id, b.State, a.State, l.request)
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
func (o *oracle) checkCounters(id string, b, a jobstore.Stats) {
	if fewer(a.Counters(), b.Counters()) {
		o.w.fail("S16", "counters of job %s went back from %+v to %+v", id, b.Counters(), a.Counters())
	}
}

// runStarted is S1 and S5: one worker per lock, and no more runs than allowed.
func (o *oracle) runStarted(r *run) {
	lock := r.work.Work.Lock
	for _, other := range o.runs {
		if other.work.Work.JobID != r.work.Work.JobID {
			continue
		}
		if other.work.Work.Lock == lock {
			o.w.fail("S1", "job %s runs twice under lock %v", r.work.Work.JobID, lock)
		}
		if other.p == r.p {
			o.w.fail("S1", "job %s runs on %s as %v, and now as %v too", r.work.Work.JobID, r.p.Name, other.work.Work.Lock, lock)
		}
		o.checkTakeover(other, r)
	}
	o.checkTaken(r)
	o.checkSuspect(r)
	o.checkWelcome(r)
	if !r.p.roles.Has(node.Replication) {
		o.w.fail("S5", "%s starts a run without the role replication", r.p.Name)
	}
	if n := len(r.p.runs); n > r.p.node.MaxJobs() {
		o.w.fail("S5", "%s starts run %d though it may have %d", r.p.Name, n, r.p.node.MaxJobs())
	}
	r.begin = o.beginning(r)
	o.runs = append(o.runs, r)
	now, place := r.p.clock().Steady, r.work.Work.Place
	o.owes[r.held()] = &owing{until: now, standing: standing{epoch: place.Epoch, key: float64(place.Key), grown: now}, account: r.work.Work.Record.Account()}
	o.w.watch(RunStarted{r.p.Name, r.id, r.work.Work.JobID})
}

// checkTakeover is S1 too: a job that another worker took over because its worker was silent does not run
// there any more, unless that one stood still and does not know yet.
func (o *oracle) checkTakeover(old, r *run) {
	now := o.w.Engine.Now()
	if r.p.awoke > 0 && now.Sub(r.p.awoke) < r.p.settings.ActivityTimeout && !o.holds(r) {
		return // it was suspended, and by its clock its lease goes on
	}
	if old.p == r.p || o.w.Engine.Paused(old.p.Process) || now.Sub(old.p.pausedLast) < old.p.settings.ActivityTimeout {
		return
	}
	s := o.shadows[old.work.Work.JobID]
	if s == nil || s.gone >= old.began { // it was removed and added again: the old run is told soon
		return
	}
	if old.p.settings.ActivityTimeout != r.p.settings.ActivityTimeout {
		return // in the middle of an upgrade that changes it nobody can promise this
	}
	o.w.fail("S1", "job %s runs on %s since %s, and now on %s too", r.work.Work.JobID, old.p.Name, old.began, r.p.Name)
}

func (o *oracle) runEnded(r *run) {
	if i := slices.Index(o.runs, r); i >= 0 {
		o.runs = slices.Delete(o.runs, i, i+1)
		o.checkLease(r)
		o.turnEnded(r)
		o.turnOver(r)
		o.watchEnd(r)
	}
}

func (o *oracle) runSaid(r *run, e replication.End) {
	r.ending = e
	if known := o.owes[r.held()]; known != nil {
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
	if r.pair.Kept() > 0 && e.Cause == replication.Completed {
		o.w.fail("S17", "run %d of %s completed and left %d groups of bodies", r.id, r.p.Name, r.pair.Kept())
	}
}

// confirmed is S18: of the runs with one replication id at most one has the right to it.
func (o *oracle) confirmed(r *run) {
	r.confirmed = true
	for _, other := range o.runs {
		if other == r || !other.confirmed || other.repID != r.repID || other.work.Work.JobID == r.work.Work.JobID {
			continue
		}
		if o.holds(other) && o.holds(r) {
			o.w.fail("S18", "jobs %s and %s both run as %s", other.work.Work.JobID, r.work.Work.JobID, r.repID)
		}
	}
}

// holds says whether the store agrees that the run has its job.
func (o *oracle) holds(r *run) bool {
	s := o.shadows[r.work.Work.JobID]
	return s != nil && s.header != nil && s.header.State == jobs.Running && s.header.Lock == r.work.Work.Lock
}

// sampled says whether a costly check is made this time: one in every, and of these one in Sample.
func (o *oracle) sampled(times *int, every int) bool {
	*times++
	return *times%(every*max(o.w.Config.Sample, 1)) == 0
}

// refused notes a document that a target did not take (S14 looks for its count).
func (o *oracle) refused(db *peers.DB, id, rev string) { o.denied[db.String()+" "+id+" "+rev] = true }

// replay is S17: a request carried out a second time, right after its commit, changes nothing.
func (o *oracle) replay(a asked) {
	switch a.request.(type) {
	case nil, node.Join, node.Beat, node.Promote, node.Expire, node.Retire, node.Sweep:
		return // no request of a node; or these make progress, or say that time has passed
	}
	if !o.sampled(&o.replays, 8) {
		return
	}
	before := o.w.db.Hash()
	o.w.world.atOnce = true
	_, err := kv.Run(context.Background(), o.w.db, func(tx kv.Tx) (node.Result, error) {
		return node.Perform(tx, o.w.store, a.request, a.wall)
	})
	o.w.world.atOnce = false
	o.landings = nil
	if after := o.w.db.Hash(); after != before && err == nil {
		o.w.fail("S17", "%s repeated changed the store", a.request)
	}
}

// wrote notes what a user was told of a document.
func (o *oracle) wrote(j *jobDoc, token uint64, present bool) {
	o.docs[j.tenant.name+" "+j.id] = &docTruth{j: j, token: token, present: present}
}

// refusedWrite is S19.
func (o *oracle) refusedWrite(j *jobDoc, token uint64, err error) {
	if found := o.document(j.tenant, j.id); found != nil && containsToken(found, token) {
		o.w.fail("S19", "the write of %s %s as %d happened, and was answered %v", j.tenant.name, j.id, token, err)
	}
}

// dropped forgets the documents of a database that was deleted.
func (o *oracle) dropped(t *tenant) {
	o.gone[jobstore.DocumentJobs(t.instance)] = o.w.Engine.Now()
	for key, truth := range o.docs {
		if truth.j.tenant == t {
			delete(o.docs, key)
		}
	}
}
