package oracle

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"couchrelay/core/explain"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

// explanations are the invariants of what users are told of why a job runs or does not.
type explanations struct {
	*chronicle
	last  string // the job that was asked about last
	times int    // that jobs moved
}

var explanationSubject = subject{
	invariants: []Invariant{
		{"S60a", "Every job is explained, by its state and what stops it, in words; and no job that is gone."},
		{"S60b", "The place that a ready job is told is the number of ready jobs before it."},
		{"S60c", "The holds by which a job is explained are those in force that match it."},
		{"S60d", "The node, due time, error, numbers and account by which a job is explained are its own."},
		{"S60e", "An explanation has an estimate of the wait, or says why there is none; it is 0 for free slots " +
			"only."},
		{"S60f", "The slots and the node by which a job is explained are what nodes have told last."},
	},
	begin: func(c *chronicle) {
		x := &explanations{chronicle: c}
		c.on.ticked.add(func(world.Ticked) { x.askNext() })
		c.on.jobMoved.add(x.moved)
		c.on.atRest.add(func(struct{}) {
			for _, id := range x.ids() {
				x.ask(id)
			}
		})
	},
}

// askedOnce is how often users ask about a job that has moved: one time in so many.
const askedOnce = 4

// askNext asks about the job behind the one of the last time. To explain reads much.
func (x *explanations) askNext() {
	if ids := x.ids(); len(ids) > 0 {
		next, _ := slices.BinarySearch(ids, x.last+"\x00")
		x.last = ids[next%len(ids)]
		x.ask(x.last)
	}
}

// moved asks about a job whose state has changed, now and then. Other jobs of the same transaction may not be known
// yet, so that only the job itself is judged.
func (x *explanations) moved(j jobChange) {
	if j.before.header.State == j.after.header.State {
		return
	}
	if x.times++; x.times%askedOnce == 0 {
		if e := x.read(j.id); e != nil {
			x.checkState(j.after, e)
			x.checkOwn(j.after, e)
		}
	}
}

func (x *explanations) ask(id string) {
	if e := x.read(id); e != nil && x.violation == nil {
		x.judge(x.shadows[id], e)
	}
}

func (x *explanations) judge(s *shadow, e *explain.Explanation) {
	x.checkState(s, e)
	x.checkPlace(s, e)
	x.checkHolds(s, e)
	x.checkOwn(s, e)
	x.checkWait(s, e)
	x.checkSlots(e)
}

// read asks for the explanation of a job. It is nil if there is no job, or its database is deleted.
func (x *explanations) read(id string) *explain.Explanation {
	s, store := x.shadows[id], x.w.Store()
	e, err := explain.Read(x.w.Present(), store, id, explain.Asking{Now: x.w.Now(), MaxChurn: 1})
	if err != nil {
		x.Fail("S60a", "job %s is not explained: %v", id, err)
		return nil
	}
	there := s != nil && s.header != nil
	if there && !s.record.Transient() {
		prefix, _, _ := strings.Cut(id, "|")
		dropped, err := x.w.Present().Get(store.Keys.Dropped.Pack(prefix + "|"))
		there = err == nil && dropped == nil
	}
	if there != (e != nil) {
		x.Fail("S60a", "job %s is there: %v; and is explained: %v", id, there, e != nil)
	}
	return e
}

// expected are the causes of which one must be told, and those of which none may.
func expected(h *jobs.Job, r *jobstore.Record) (one, none []explain.Cause) {
	ready := []explain.Cause{explain.Queued, explain.Next}
	paused := []explain.Cause{explain.Paused, explain.ByDoc}
	held := []explain.Cause{explain.Held, explain.Lifted}
	over := []explain.Cause{explain.Completed, explain.Failed}
	switch {
	case h.State == jobs.Finished && r.State == jobstore.Completed:
		return over[:1], []explain.Cause{explain.Failed, explain.Running, explain.Next, explain.Queued}
	case h.State == jobs.Finished:
		return over[1:], []explain.Cause{explain.Completed, explain.Running, explain.Next, explain.Queued}
	case h.State == jobs.Running:
		return []explain.Cause{explain.Running}, slices.Concat(over, ready, []explain.Cause{explain.Backoff})
	case h.Lot == "paused":
		return paused, slices.Concat(over, ready, []explain.Cause{explain.Running})
	case strings.HasPrefix(h.Lot, "held/"):
		return held, slices.Concat(over, ready, []explain.Cause{explain.Running})
	case h.Lot != "":
		return []explain.Cause{explain.Waits}, slices.Concat(over, ready, []explain.Cause{explain.Running})
	case r.Pause != nil || r.PausedByDocument: // it was given back, and is parked when its turn comes
		return paused, slices.Concat(over, ready, []explain.Cause{explain.Running})
	case h.Due == 0:
		return append(ready, explain.Held), slices.Concat(over, []explain.Cause{explain.Running, explain.Backoff})
	case r.State == jobstore.Crashing:
		return []explain.Cause{explain.Backoff}, append(ready, explain.Running)
	}
	return []explain.Cause{explain.Returning}, append(ready, explain.Running)
}

// checkState is S60a.
func (x *explanations) checkState(s *shadow, e *explain.Explanation) {
	one, none := expected(s.header, s.record)
	told := func(list []explain.Cause) bool { return slices.ContainsFunc(list, e.Is) }
	if !told(one) || told(none) {
		x.Fail("S60a", "job %s, which is %s in the queue, lot %q, due %s, is explained by %v",
			s.header.ID, s.header.State, s.header.Lot, s.header.Due, e.Why)
	}
	if text := e.Sentence(); len(text) < len("It runs.") || !strings.HasSuffix(text, ".") {
		x.Fail("S60a", "job %s is explained in words by %q", s.header.ID, text)
	}
	stops := s.header.State == jobs.Running && (s.header.Stop || s.record.Pause != nil || s.record.PausedByDocument)
	if stops && !e.Is(explain.Stopping) {
		x.Fail("S60a", "the run of job %s was asked to stop, and the job is explained by %v", s.header.ID, e.Why)
	}
	if repID, waits := strings.CutPrefix(s.header.Lot, "behind/"); waits && s.header.State == jobs.Pending {
		x.checkBehind(repID, s, e)
	}
}

// checkBehind is S60a for a job that waits for another: the one that has the replication.
func (x *explanations) checkBehind(repID string, s *shadow, e *explain.Explanation) {
	owner, err := x.w.Present().Get(x.w.Store().Keys.Claim.Pack(repID))
	if err != nil {
		return
	}
	other := x.shadows[string(owner)]
	known := other != nil && other.header != nil
	if b := e.Behind; b == nil || b.RepID != repID || known && (b.JobID != string(owner) ||
		b.DocID != other.record.DocID) {
		x.Fail("S60a", "job %s waits for %s, which job %q has, and is explained by %+v", s.header.ID, repID, owner, b)
	}
}

// checkPlace is S60b.
func (x *explanations) checkPlace(s *shadow, e *explain.Explanation) {
	isReady := func(h *jobs.Job) bool { return h != nil && h.State == jobs.Pending && h.Due == 0 && h.Lot == "" }
	if !isReady(s.header) {
		if e.Position != nil {
			x.Fail("S60b", "job %s is not ready, and is told place %+v", s.header.ID, *e.Position)
		}
		return
	}
	ahead := 0
	for id, other := range x.shadows {
		if h := other.header; isReady(h) {
			order := bytes.Compare(h.Priority, s.header.Priority)
			if order < 0 || order == 0 && id < s.header.ID {
				ahead++
			}
		}
	}
	if p := e.Position; p == nil || p.Ahead != ahead || p.More {
		x.Fail("S60b", "%d jobs are before job %s, and it is told %+v", ahead, s.header.ID, p)
	}
}

// checkHolds is S60c.
func (x *explanations) checkHolds(s *shadow, e *explain.Explanation) {
	rows, err := x.w.Present().GetRange(x.w.Store().Keys.Held.Range(), kv.RangeOptions{})
	if err != nil {
		return
	}
	var want, got []string
	for _, row := range rows {
		var h struct{ Database, Server string }
		if json.Unmarshal(row.Value, &h) != nil || s.header.State == jobs.Finished {
			continue
		}
		switch {
		case h.Database != "" && h.Database == s.record.Database:
			want = append(want, "database:"+h.Database)
		case h.Server != "" && (isOn(s.record.Source, h.Server) || isOn(s.record.Target, h.Server)):
			want = append(want, "server:"+h.Server)
		}
	}
	for i := range e.Holds {
		got = append(got, e.Holds[i].ID())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) || len(want) > 0 != e.Is(explain.Held) {
		x.Fail("S60c", "holds %q match job %s, and it is explained by %q: %v", want, s.header.ID, got, e.Why)
	}
}

// isOn reports whether a database is on a server, which is named with or without its port.
func isOn(database, server string) bool {
	u, err := url.Parse(database)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return server == u.Hostname() || server == u.Hostname()+":"+port
}

// checkOwn is S60d.
func (x *explanations) checkOwn(s *shadow, e *explain.Explanation) {
	h, r := s.header, s.record
	due := h.Due
	if h.State != jobs.Pending {
		due = 0
	}
	account := r.Database
	if account == "" {
		account = "user:" + r.User
	}
	wrong := ""
	switch {
	case e.Due != due:
		wrong = "due time"
	case (e.Problem != nil) != (r.Error != ""):
		wrong = "error"
	case e.Problem != nil && (e.Problem.Error != r.Error || e.Problem.Class == "" || e.Problem.Reason != r.Reason ||
		r.State == jobstore.Crashing && e.Problem.Count != r.ErrorCount):
		wrong = "error"
	case (h.State == jobs.Running) != (e.Node != nil) && !e.Is(explain.Lost):
		wrong = "node"
	case e.Node != nil && (e.Node.Worker != h.Lock.Worker || e.Node.Stop != h.Stop):
		wrong = "node"
	case e.Account.Name != account:
		wrong = "account"
	case e.Checkpoint != r.Stats.CheckpointedSourceSeq,
		e.Pending != nil && (r.Stats.ChangesPending == nil || *e.Pending != *r.Stats.ChangesPending):
		wrong = "progress"
	}
	if wrong != "" {
		x.Fail("S60d", "job %s is explained with another %s: %+v, and it is %+v, %+v", h.ID, wrong, *e, *h, *r)
	}
}

// checkWait is S60e.
func (x *explanations) checkWait(s *shadow, e *explain.Explanation) {
	waits := s.header.State == jobs.Pending
	why := slices.ContainsFunc(e.Unknown, func(u explain.Unknown) bool { return u.Field == "estimated_wait_seconds" })
	switch {
	case (waits && e.Wait == nil) != why:
		x.Fail("S60e", "job %s is told a wait of %v, and that it is unknown: %v", s.header.ID, e.Wait, why)
	case e.Wait != nil && (!waits || e.Position == nil || *e.Wait < 0):
		x.Fail("S60e", "job %s is told a wait of %v", s.header.ID, *e.Wait)
	case e.Wait != nil && (*e.Wait == 0) != (e.Position.Ahead < e.Slots.Free):
		x.Fail("S60e", "job %s is told a wait of %v as number %d for %+v", s.header.ID, *e.Wait,
			e.Position.Ahead, e.Slots)
	}
}

// ownWords is what a worker says of itself with its heartbeats, after their versionstamp.
type ownWords struct {
	Roles   json.RawMessage `json:"roles"`
	Status  string          `json:"status"`
	MaxJobs int             `json:"max_jobs"`
	Running int             `json:"running"`
}

// ownWordsOf is what all workers with a lease that is in force have told last, by their names.
func ownWordsOf(w world.View) map[string]ownWords {
	keys, all := w.Store().Keys.Jobs, map[string]ownWords{}
	rows, err := w.Present().GetRange(keys.Worker.Range(), kv.RangeOptions{})
	if err != nil {
		return nil
	}
	for _, row := range rows {
		name, err := keys.Worker.Unpack(row.Key)
		if err != nil || len(name) != 1 || row.Value[0] != 'L' {
			continue
		}
		beat, err := w.Present().Get(keys.Beat.Pack(name[0]))
		var t ownWords
		if err == nil && len(beat) > 10 && json.Unmarshal(beat[10:], &t) == nil {
			all[name[0].(string)] = t
		}
	}
	return all
}

// checkSlots is S60f.
func (x *explanations) checkSlots(e *explain.Explanation) {
	var want explain.Slots
	all := ownWordsOf(x.w)
	for _, t := range all { // sums: the order does not matter
		if t.Status != "up" || !strings.Contains(string(t.Roles), `"replication"`) {
			continue
		}
		want.Nodes++
		want.MaxJobs += t.MaxJobs
		want.Running += t.Running
		want.Free += max(0, t.MaxJobs-t.Running)
	}
	if e.Slots != want {
		x.Fail("S60f", "job %s is explained with slots %+v, and nodes have told %+v", e.JobID, e.Slots, want)
	}
	if n := e.Node; n != nil && !n.Expired {
		if t := all[n.Worker]; n.MaxJobs != t.MaxJobs || n.Running != t.Running {
			x.Fail("S60f", "job %s is explained by node %+v, which has told %+v", e.JobID, *n, t)
		}
	}
}
