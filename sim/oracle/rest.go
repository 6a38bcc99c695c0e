package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

// rest is what a world has come to that rests.
type rest struct {
	*chronicle
	behind string // the job for which the world was not settled at the last look
}

var restSubject = subject{
	invariants: []Invariant{
		{"S3", "A replication document or request that was accepted is there, and has its job."},
		{"L1", "When all trouble is over, everything arrives."},
		{"L2", "When slots are free, no job waits that could run."},
		{"L6", "Jobs start and stop soon after their documents say so."},
		{"L7", "Checkpoints come as far as what was copied."},
		{"L8", "What a user writes arrives soon, and a checkpoint covers it not long after the interval."},
		{"P1", "Nothing panics, and nobody changes what a read returned."},
	},
	begin: func(c *chronicle) {
		o := &rest{chronicle: c}
		c.on.unsettled = append(c.on.unsettled, o.unsettledQueue, o.unsettledJobs, o.unsettledRuns)
		c.on.ticked.add(func(world.Ticked) { o.checkCounts() })
		c.on.atRest.add(o.atRest)
	},
}

// Unsettled is what a world that comes to rest still has to do; nil when nothing is left.
func (o *Oracle) Unsettled() *Violation {
	for _, ask := range o.on.unsettled {
		if why := ask(); why != nil {
			return why
		}
	}
	return nil
}

// AtRest checks what only holds when nothing moves.
func (o *Oracle) AtRest() { o.on.atRest.tell(struct{}{}) }

// unsettledQueue is what the queue and the nodes still have to do.
func (o *rest) unsettledQueue() *Violation {
	counts, err := o.w.Store().Jobs.Counts(o.w.Present())
	if err != nil {
		return &Violation{ID: "S3", Text: err.Error()}
	}
	if free := o.freeSlots(); counts.Ready > 0 && free > 0 {
		return &Violation{ID: "L2", Text: fmt.Sprintf("%d jobs are ready and %d slots are free", counts.Ready, free)}
	}
	for _, p := range o.nodes {
		switch {
		case p.Running() > p.MaxJobs():
			return &Violation{ID: "S5", Text: fmt.Sprintf("%s runs %d jobs, and may run %d", p.Name, p.Running(), p.MaxJobs())}
		case p.Running() > len(p.runs):
			return &Violation{ID: "L2", Text: fmt.Sprintf("%s has %d slots in use and %d runs", p.Name, p.Running(), len(p.runs))}
		}
	}
	return nil
}

// unsettledJobs is what jobs still have to do.
func (o *rest) unsettledJobs() *Violation {
	if why := o.unsettledJob(o.behind); why != nil { // as most often: this saves a look at all
		return why
	}
	for _, id := range slices.Sorted(maps.Keys(o.shadows)) {
		if why := o.unsettledJob(id); why != nil {
			o.behind = id
			return why
		}
	}
	return nil
}

// unsettledRuns is which runs still have to hear that they are over.
func (o *rest) unsettledRuns() *Violation {
	for _, r := range o.runs {
		if !o.holds(r) && o.w.Now() < o.hears(r) {
			return &Violation{ID: "S4", Text: fmt.Sprintf("%s still runs job %s", r.p.Name, r.JobID())}
		}
	}
	return nil
}

// unsettledJob is what unsettled says of a job.
func (o *rest) unsettledJob(id string) *Violation {
	s := o.shadows[id]
	if s == nil || s.header == nil {
		return nil
	}
	if at := s.record.Expires; at > 0 && at < o.w.Now().Add(-forgotten) {
		return &Violation{ID: "L4", Text: fmt.Sprintf("job %s of a request should have been forgotten at %s", id, at)}
	}
	if s.header.State == jobs.Pending && s.header.Due > 0 && s.header.Due < o.w.Now().Add(-time.Minute) {
		return &Violation{ID: "L4", Text: fmt.Sprintf("job %s is due since %s", id, s.header.Due)}
	}
	if why := o.orphan(id, s); why != "" {
		return &Violation{ID: "L3", Text: why}
	}
	if why := o.unfinished(id, s); why != "" {
		return &Violation{ID: "L1", Text: why}
	}
	if why := o.unsaved(id, s); why != "" {
		return &Violation{ID: "L7", Text: why}
	}
	return nil
}

// heldUp is how long after the healing a request may still be without an answer: it ends, and is repeated after the
// longest pause of nodes.
const heldUp = world.RequestLimit + 10*time.Second

// hears is when a node knows at the latest that the job of a run was removed. A watch tells it soon. But one that was
// lost before the healing stays so for its minute, and its next heartbeat has to tell it, or the one after a request
// that the trouble holds up.
func (o *rest) hears(r *run) instant.Time {
	s, healed := o.shadows[r.JobID()], o.w.End()
	switch {
	case s == nil || s.gone < r.Began(): // it was not removed: others took it, or it never was the run's
		return 0
	case s.gone >= healed.Add(world.AwaitLimit):
		return s.gone.Add(ProbeLimit)
	}
	return max(s.gone.Add(r.p.Settings().ActivityTimeout/4), healed.Add(heldUp)).Add(ProbeLimit)
}

// unfinished says what a job still has to do: everything that its source selects must be on the target,
// unless one of them does not exist. A one-shot must be over.
func (o *rest) unfinished(id string, s *shadow) string {
	if s.record.State.Terminal() {
		return ""
	}
	rep, err := o.w.Store().Spec(o.w.Present(), id)
	if err != nil || rep == nil {
		return fmt.Sprintf("job %s has no replication: %v", id, err)
	}
	source, target := o.w.Database(rep.Source.URL), o.w.Database(rep.Target.URL)
	if source == nil {
		return ""
	}
	if target == nil && !rep.CreateTarget {
		return ""
	}
	if target == nil {
		return fmt.Sprintf("job %s is %s, and %s does not exist", id, s.record.State, rep.Target.URL)
	}
	if source.FilterWorks(rep.Filter) != nil {
		return ""
	}
	if !rep.Continuous {
		return fmt.Sprintf("job %s is %s: %s", id, s.record.State, s.record.Reason)
	}
	if lost := o.missing(rep, source, target, 1<<62); lost != "" {
		return fmt.Sprintf("job %s from %s to %s: %s has not arrived; the job is %s %s", id, source, target, lost, s.record.State, s.record.Reason)
	}
	return ""
}

// unsaved says what the checkpoints of a running job do not cover, though it was copied.
func (o *rest) unsaved(id string, s *shadow) string {
	if s.header.State != jobs.Running {
		return ""
	}
	rep, err := o.w.Store().Spec(o.w.Present(), id)
	if err != nil || rep == nil {
		return fmt.Sprintf("job %s has no replication: %v", id, err)
	}
	if left := o.uncovered(id, rep, s.record.BaseID, 1<<62); left != "" {
		return fmt.Sprintf("job %s from %s to %s: no checkpoint covers %s", id, rep.Source.URL, rep.Target.URL, left)
	}
	return ""
}

// atRest checks that the store agrees with itself, and with what users and servers have.
func (o *rest) atRest(struct{}) {
	if err := o.w.Store().Jobs.Audit(o.w.Present()); err != nil {
		o.Fail("S3", "%v", err)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(o.docs)) {
		if truth := o.docs[key]; !truth.j.Unsure() {
			o.checkDoc(key, truth)
		}
	}
	o.checkJobs()
	o.checkRuns()
	o.checkRefusals()
	o.checkCounts()
	o.checkDocCounts()
	if err := o.w.StoreIntact(); err != nil {
		o.Fail("P1", "%v", err)
	}
	for _, db := range o.w.Databases() {
		db.CheckLeaves()
		if err := db.Intact(); err != nil {
			o.Fail("P1", "%s: %v", db, err)
		}
		if db.Misjudged != "" {
			o.Fail("S30", "%s: %s", db, db.Misjudged)
		}
	}
}

// checkCounts is a part of S3: the queue's counters say how many jobs stand where.
func (o *rest) checkCounts() {
	var want jobs.Counts
	for _, s := range o.shadows {
		switch h := s.header; {
		case h == nil:
		case h.State == jobs.Running:
			want.Running++
		case h.State == jobs.Finished:
			want.Finished++
		case h.Due > 0:
			want.Waiting++
		default:
			want.Ready++
		}
	}
	if got, err := o.w.Store().Jobs.Counts(o.w.Present()); err != nil || got != want {
		o.Fail("S3", "the queue counts %+v, and has %+v: %v", got, want, err)
	}
}

// checkDocCounts is a part of S15: a replicator database counts its documents.
func (o *rest) checkDocCounts() {
	for _, t := range o.w.Tenants() {
		err := o.w.ReadDatabase(t, func(db *docs.Database) error {
			info, err := db.Info()
			if err != nil {
				return err
			}
			rows, more, err := db.List(docs.Listing{Limit: 1 << 20})
			if n := int64(len(rows)); err == nil && n != info.Docs && !more {
				o.Fail("S15", "%s says that it has %d documents, and lists %d", t.Name(), info.Docs, n)
			}
			return err
		})
		if err != nil {
			o.Fail("S15", "%s cannot be counted: %v", t.Name(), err)
		}
	}
}

// checkDoc is S3: what a user was told of a document is true.
func (o *rest) checkDoc(key string, truth *docTruth) {
	found := o.document(truth.j.Tenant(), truth.j.ID())
	switch {
	case truth.present && found == nil:
		o.Fail("S3", "document %s was written, and is gone", key)
	case !truth.present && found != nil:
		o.Fail("S4", "document %s was deleted, and is there", key)
	case truth.present && !containsToken(found, truth.token):
		o.Fail("S3", "document %s was written as %d, and is %s", key, truth.token, found.Body)
	}
	if o.violation != nil {
		return
	}
	id := truth.j.JobID()
	s := o.shadows[id]
	has := s != nil && s.header != nil
	switch {
	case truth.present && !has:
		o.Fail("S3", "document %s has no job", key)
	case !truth.present && has:
		o.Fail("S4", "document %s is deleted, but its job is %s", key, s.header)
	case has && !s.record.State.Terminal() && !o.follows(id, found):
		o.Fail("S3", "the job of document %s does something else than %s", key, found.Body)
	case has && string(s.record.State) != stateOf(found) && (s.record.State.Terminal() || stateOf(found) != ""):
		o.Fail("S7", "document %s says %q, its job is %s", key, stateOf(found), s.record.State)
	}
}

// forgotten is how late a finished job of a request may be removed.
const forgotten = 3 * time.Minute

// follows says whether a job does what its document says.
func (o *rest) follows(id string, d *docs.Document) bool {
	rep, err := o.w.Store().Spec(o.w.Present(), id)
	return err == nil && rep != nil && o.asWritten(rep, d.Body)
}

func containsToken(d *docs.Document, token uint64) bool {
	var body struct{ N uint64 }
	return json.Unmarshal(d.Body, &body) == nil && body.N == token
}

func stateOf(d *docs.Document) string {
	var body struct {
		State string `json:"_replication_state"`
	}
	_ = json.Unmarshal(d.Body, &body) // what is no object has no state
	return body.State
}

// checkJobs is S4: every job of a document has a document, in a database that exists.
func (o *rest) checkJobs() {
	instances := map[string]*world.Tenant{}
	for _, t := range o.w.Tenants() {
		instances[jobstore.DocumentJobs(t.Instance())] = t
	}
	for _, id := range slices.Sorted(maps.Keys(o.shadows)) {
		s := o.shadows[id]
		if s.header == nil || s.record.Transient() {
			continue
		}
		t := instances[s.record.Instance]
		if t == nil {
			if !o.sweeping() {
				o.Fail("S4", "job %s belongs to a database that was deleted", id)
			}
			continue
		}
		if o.document(t, s.record.DocID) == nil {
			o.Fail("S4", "job %s has no document", id)
		}
	}
}

// sweeping says whether deleted databases still wait for the sweep of their jobs.
func (o *rest) sweeping() bool {
	rows, err := o.w.Present().GetRange(o.w.Store().Keys.Dropped.Range(), kv.RangeOptions{Limit: 1})
	return err == nil && len(rows) > 0
}

// checkRuns: what runs here is what the store says runs here.
func (o *rest) checkRuns() {
	for _, r := range o.runs {
		if !o.holds(r) {
			s := o.shadows[r.JobID()]
			o.Fail("S4", "%s runs job %s under %v, but the store says %+v", r.p.Name, r.JobID(), r.Lock(), s.header)
		}
	}
}

// checkRefusals is S14: a job whose target refused documents says so, unless that was made anew, which the run learns at
// its next checkpoint.
func (o *rest) checkRefusals() {
	for _, r := range o.runs {
		rep := r.Replication()
		source, target := o.w.Database(rep.Source.URL), o.w.Database(rep.Target.URL)
		if source == nil || target == nil || target != r.begin.target {
			continue
		}
		denied, info := 0, r.Info()
		for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
			if target.Deny[offer.ID] != nil && offer.Number <= source.Number(info.ThroughSeq) {
				denied++
			}
		}
		if denied > 0 && info.DocWriteFailures == 0 {
			o.Fail("S14", "%s refused %d documents of job %s, which tells of none", target, denied, r.JobID())
		}
	}
}

// orphan is L3: a job that the store says is running, and nobody runs.
func (o *rest) orphan(id string, s *shadow) string {
	if s.header.State != jobs.Running {
		return ""
	}
	for _, r := range o.runs {
		if r.JobID() == id && r.Lock() == s.header.Lock {
			return ""
		}
	}
	return fmt.Sprintf("job %s runs under %v, says the store, and nobody runs it", id, s.header.Lock)
}
