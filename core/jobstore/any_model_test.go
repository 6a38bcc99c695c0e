package jobstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// asks is what a document or a request asks for.
type asks struct {
	n                          int // which source
	continuous, function, slow bool
	paused                     bool
	weight                     int64
	wrong                      bool // it asks for no valid replication
}

func (a asks) body() string {
	more := ""
	for _, m := range []struct {
		text string
		is   bool
	}{
		{`"continuous":true`, a.continuous}, {`"filter":"d/f"`, a.function}, {`"checkpoint_interval":9000`, a.slow},
		{`"paused":true`, a.paused}, {`"filter":5`, a.wrong}, {fmt.Sprintf(`"weight":%d`, a.weight), a.weight != 0},
	} {
		if m.is {
			more += "," + m.text
		}
	}
	return fmt.Sprintf(`{"source":"http://h%d/a","target":"http://t/b"%s}`, a.n, more)
}

// work is what the run of a job does.
func (a asks) work() asks {
	return asks{n: a.n, continuous: a.continuous, function: a.function, slow: a.slow}
}

// ids are those of the replication, if they are known before it runs.
func (a asks) ids() (repID, base string) {
	if a.function {
		return "", ""
	}
	a.paused, a.wrong, a.weight = false, false, 0
	rep, err := spec.ParseRequest([]byte(a.body()), spec.DefaultConfig())
	if err != nil {
		panic(err)
	}
	id := repid.New(repid.Server{UUID: "uuid"}, rep, "")
	return id.String(), id.Base
}

// twinLeaf is a revision of a document.
type twinLeaf struct {
	rev     revtree.Rev
	deleted bool
	asks    asks
	state   State // that it says, if that is terminal
	user    string
}

// twinDB is a replicator database.
type twinDB struct {
	instance tuple.UUID
	docs     map[string][]*twinLeaf
}

// winner is the leaf that a document is.
func winner(leaves []*twinLeaf) *twinLeaf {
	if len(leaves) == 0 {
		return nil
	}
	return slices.MaxFunc(leaves, func(a, b *twinLeaf) int {
		if a.deleted != b.deleted {
			if a.deleted {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.rev.Gen, b.rev.Gen), cmp.Compare(a.rev.ID, b.rev.ID))
	})
}

// twinJob is a job.
type twinJob struct {
	id, database, doc, user string
	asks                    asks
	runs                    bool // its replication is known
	state                   State
	lot                     string
	due                     instant.Time
	pause                   bool
	reset, expires          instant.Time
	repID, base             string
	errors, lost            int
	event                   string // the newest of its history, if that is known
	place                   place
	twinRun
	twinList
}

// twinRun is the last run of a job.
type twinRun struct {
	lock    jobs.Lock
	stop    bool
	started instant.Time
}

// twinList is the list of refused documents of a job.
type twinList struct {
	listed map[string]bool // nil before the first
	of     string          // base id of the replication
	asked  bool            // an operator has demanded to try these again
}

func (j *twinJob) over() bool   { return j.state.Terminal() }
func (j *twinJob) paused() bool { return j.pause || j.asks.paused }
func (j *twinJob) ready() bool  { return j.state != Running && !j.over() && j.lot == "" && j.due == 0 }

func (j *twinJob) account() string {
	if j.database == "" {
		return userAccount + j.user
	}
	return j.database
}

func (j *twinJob) view() State {
	if j.lot == lotPaused {
		return Paused
	}
	return j.state
}

// place is what fifo queues a job by.
type place struct {
	epoch int64        // of the policy when the job was queued last
	key   instant.Time // when it was queued after a run, 0 before its first
}

// twin is what the store should say, as plain values.
type twin struct {
	dbs     map[string]*twinDB
	jobs    map[string]*twinJob
	rights  map[string]string // the job that has a replication, by that, while the job is not over
	holds   map[string]Hold
	lifted  map[string]bool
	dropped map[string]bool // prefixes of deleted databases
	waits   bool            // duplicates do
	odd     string          // a job that cannot be read
	silent  string          // the beginning of jobs whose documents a validation function keeps from telling states
	policy  schedule.Policy
	epoch   int64
}

// ids are the ids of all jobs, in order.
func (m *twin) ids() []string { return slices.Sorted(maps.Keys(m.jobs)) }

func (m *twin) isDropped(j *twinJob) bool { return m.dropped[instanceOf(j.id)] }

// held reports whether a hold stops a job.
func (m *twin) held(j *twinJob) bool {
	for _, h := range m.holds {
		if h.Database != "" && h.Database == j.database || h.Server != "" && h.Server == fmt.Sprint("h", j.asks.n) {
			return true
		}
	}
	return false
}

// giveUp has a job not be its replication any more. Another one that waits has it then.
func (m *twin) giveUp(j *twinJob) {
	if m.rights[j.repID] != j.id {
		return
	}
	delete(m.rights, j.repID)
	switch heir := m.heir(j.repID); {
	case heir != nil && heir.id == m.odd:
		m.lifted[lotBehind+j.repID] = true
	case heir != nil:
		m.rights[j.repID], heir.lot = heir.id, ""
	}
}

// heir is the first of the jobs that wait for a replication, but for those in without.
func (m *twin) heir(repID string, without ...string) *twinJob {
	for _, id := range m.ids() {
		if m.jobs[id].lot == lotBehind+repID && !slices.Contains(without, id) {
			return m.jobs[id]
		}
	}
	return nil
}

// succeed has a replication that was noted to be free be of a job that waits for it. It reports whether the note goes.
func (m *twin) succeed(row string, without ...string) bool {
	repID := strings.TrimPrefix(row, lotBehind)
	heir := m.heir(repID, without...)
	if m.rights[repID] == "" && heir == nil && m.heir(repID) != nil {
		return false
	}
	if m.rights[repID] == "" && heir != nil {
		m.rights[repID], heir.lot = heir.id, ""
	}
	delete(m.lifted, row)
	return true
}

// remove deletes a job.
func (m *twin) remove(id string) {
	if j := m.jobs[id]; j != nil {
		m.giveUp(j)
		delete(m.jobs, id)
	}
}

// other is the other job that has a replication, if one does.
func (m *twin) other(id, repID string) *twinJob {
	if owner := m.rights[repID]; owner != id {
		return m.jobs[owner]
	}
	return nil
}

// put makes a job anew. Only its pause and its reset are given.
func (m *twin) put(j *twinJob, now instant.Time) {
	old := m.jobs[j.id]
	j.event, j.place = "added", place{m.epoch, 0}
	j.repID, j.base = j.asks.ids()
	if old != nil {
		if old.repID != j.repID {
			m.giveUp(old)
		}
		if old.listed != nil && (j.base == "" || j.base == old.of) {
			j.twinList = old.twinList
		} else if old.listed != nil {
			j.listed = map[string]bool{}
		}
	}
	delete(m.jobs, j.id)
	other := m.other(j.id, j.repID)
	if j.repID != "" && other == nil {
		m.rights[j.repID] = j.id
	}
	j.runs, j.state = true, Pending
	switch {
	case j.paused():
		j.lot = lotPaused
	case other != nil && m.waits && j.database != "":
		j.lot = lotBehind + j.repID
	}
	m.jobs[j.id] = j
}

// follow has the job of a document be what that asks for.
func (m *twin) follow(name, id string, now instant.Time) {
	db := m.dbs[name]
	l, jobID := winner(db.docs[id]), documentJobID(db.instance, id)
	old := m.jobs[jobID]
	j := &twinJob{id: jobID, database: name, doc: id, user: l.user, asks: l.asks}
	switch {
	case l.deleted:
		m.remove(jobID)
	case l.state.Terminal() && old != nil && old.state == l.state:
		m.retitle(old, l)
	case l.state.Terminal(), l.asks.wrong:
		m.remove(jobID)
		j.state = cmp.Or(l.state, Failed)
		m.jobs[jobID] = j
		if l.state == "" {
			m.tell(j)
		}
	case old != nil && !old.over() && old.asks.work() == l.asks.work():
		old.user = l.user
		m.byDocument(old, l.asks)
	default:
		if old != nil && !old.over() {
			j.pause, j.reset = old.pause, old.reset
		}
		m.put(j, now)
	}
}

// retitle has a job that is over be of the replication that its document names now.
func (m *twin) retitle(j *twinJob, l *twinLeaf) {
	a, b := j.asks.work(), l.asks.work()
	a.slow, b.slow = false, false
	if j.user = l.user; a != b || l.asks.wrong || !j.runs {
		j.repID, j.base = "", ""
	}
	j.asks, j.runs = l.asks, j.runs && !l.asks.wrong
}

// byDocument pauses, resumes or weighs a job.
func (m *twin) byDocument(j *twinJob, a asks) {
	if j.asks.paused != a.paused {
		j.event = map[bool]string{true: "paused", false: "resumed"}[a.paused]
	}
	if j.asks.paused != a.paused || j.asks.weight != a.weight {
		j.asks.paused, j.asks.weight = a.paused, a.weight
		m.obey(j)
	}
}

func (m *twin) obey(j *twinJob) {
	switch {
	case j.state == Running:
		j.stop = j.stop || j.paused()
	case j.paused():
		j.lot = lotPaused
	case j.lot == lotPaused:
		j.lot = ""
	}
}

// tell writes the state of a job that is over into its document.
func (m *twin) tell(j *twinJob) {
	db := m.dbs[j.database]
	if db == nil || instancePrefix(db.instance) != instanceOf(j.id) || instanceOf(j.id) == m.silent {
		return
	}
	if l := winner(db.docs[j.doc]); l != nil && !l.deleted {
		l.state = j.state
		l.rev.Gen++
	}
}

// end has the run of a job be over.
func (m *twin) end(j *twinJob) { j.lock, j.stop, j.lost = jobs.Lock{}, false, 0 }

// finish has a job be over.
func (m *twin) finish(j *twinJob, state State, expires instant.Time) {
	m.end(j)
	m.giveUp(j)
	j.event = map[State]string{Completed: "stopped", Failed: "crashed"}[state]
	if j.state = state; j.database == "" {
		j.expires = expires
	} else {
		m.tell(j)
	}
}

// queue has a job wait for its next run, maybe in a lot.
func (m *twin) queue(j *twinJob, state State, lot string, due, now instant.Time) {
	m.end(j)
	j.event = map[State]string{Pending: "pending", Crashing: "crashed"}[state]
	j.place = place{m.epoch, now}
	if j.state, j.lot, j.due = state, lot, due; j.paused() {
		j.lot = lotPaused
	}
}

// become has a job be another replication.
func (m *twin) become(j *twinJob, repID, base string) {
	if j.repID == repID {
		return
	}
	m.giveUp(j)
	if j.listed != nil && j.of != base {
		j.twinList = twinList{listed: map[string]bool{}}
	}
	j.repID, j.base = repID, base
}

// rival removes the jobs of deleted databases that have a replication, and returns another one that has it.
func (m *twin) rival(id, repID string) *twinJob {
	for {
		other := m.other(id, repID)
		if other == nil || !m.isDropped(other) {
			return other
		}
		m.remove(other.id)
	}
}

// obstacle is a part of what keeps a job from running.
func (m *twin) obstacle(j *twinJob) string {
	switch {
	case j.asks.paused:
		return `says "paused": true`
	case j.pause:
		return "the job is paused"
	case strings.HasPrefix(j.lot, lotBehind):
		return "waits until"
	case m.held(j):
		return "hold "
	}
	return ""
}
