package oracle

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
)

// lives are the invariants of the starts, ends and errors that jobs tell. They are judged by the request
// that a commit carries out, so that no clock and no pause excuses a job: Wall is the clock that the commit
// goes by.
type lives struct{ *chronicle }

var lifeSubject = subject{
	invariants: []Invariant{
		{"S7j", "A job that does not run any more names no node."},
		{"S16c", "A job that becomes another replication does not keep the numbers of the one before."},
		{"S16d", "A run of a replication that has no checkpoint counts only what it wrote itself."},
		{"S16e", "A job that is stopped tells the numbers that its run told last."},
		{"S29e", "A job that is started tells its node and the time of the start."},
		{"S29f", "The history of a job begins with what happened last, and is no longer than max_history."},
		{"S29q", "The history of a job loses nothing but what is oldest, when it is full."},
		{"S29r", "An order or an edit that leaves a job as it is changes nothing of what that tells of its crashes, " +
			"nor its wait after the last one."},
		{"S29g", "A job that its run changes tells the time of the change."},
		{"S29h", "A job without crashes, or that is completed, tells of no error."},
		{"S29i", "A job that crashed or failed tells why, and whether it was throttled."},
		{"S29j", "A job that is completed answers with the result of its run."},
		{"S29k", "A completed run answers with the log that it wrote last, and whether its source had any " +
			"changes."},
		{"S29l", "A job of a request fails with its first crash, unless it was throttled; a job of a " +
			"document does not."},
		{"S29s", "A run that crashes or fails gives its error in one word, for people to look up, and tells why."},
		{"S29m", "A job that has run for the health threshold forgets the workers that vanished with it."},
	},
	begin: func(c *chronicle) {
		l := &lives{c}
		c.on.jobMoved.add(l.moved)
		c.on.runTells.add(func(t telling) { l.checkFresh(t.run, t.info) })
		c.on.runSaidEnd.add(func(e ending) {
			l.checkAnswer(e.run, e.end)
			l.checkWords(e)
			l.checkFresh(e.run, e.end.Info)
		})
	},
}

// oneWord is what errors look like.
var oneWord = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// checkWords is S29s.
func (l *lives) checkWords(e ending) {
	t := e.end.Trouble
	fails := e.end.Cause == replication.Crashed || e.end.Cause == replication.Failed
	if fails && (!oneWord.MatchString(t.Error) || t.Reason == "") {
		l.Fail("S29s", "%s ends with error %q, reason %q", e.run, t.Error, t.Reason)
	}
}

// moved judges a job that a commit changed.
func (l *lives) moved(j jobChange) {
	a, b := j.after.record, j.before.record
	l.checkNumbers(j)
	edited := a.State.Terminal() && a.RepID == "" // the job that is over tells what it did before its document changed
	if !j.anew && a.RepID != b.RepID && b.RepID != "" && !edited && !untold(a.Stats) {
		l.Fail("S16c", "job %s is replication %s now, and tells the numbers of %s", j.id, a.RepID, b.RepID)
	}
	if a.State != jobstore.Failed && a.ErrorCount == 0 && (a.Error != "" || a.Throttled) {
		l.Fail("S29h", "job %s is %s without crashes, and tells of error %q, throttled %v",
			j.id, a.State, a.Error, a.Throttled)
	}
	if q, is := j.Request.(node.Accept); is && j.after.header.Lock != j.before.header.Lock {
		l.checkNewest(j.id, a, "started", j.Wall)
		if a.LastStart != j.Wall || a.LastUpdated != j.Wall || a.Node != q.Node {
			l.Fail("S29e", "job %s was given to %s at %s, and tells that it runs on %s since %s",
				j.id, q.Node, j.Wall, a.Node, a.LastStart)
		}
	}
	if held, is := heldBy(j.Request); is && held.JobID == j.id && !j.anew {
		l.checkHeld(j)
	}
	if !j.anew {
		l.checkHistory(j)
		l.checkCrashes(j)
	}
}

// checkHistory is S29q. A run that ends may bring a job two events, or three if it is queued again.
func (l *lives) checkHistory(j jobChange) {
	was, is := j.before.record.History, j.after.record.History
	for added := range min(len(is), 3) + 1 {
		stays := is[added:]
		full := len(is) == l.w.Store().Config.MaxHistory
		if len(stays) <= len(was) && slices.Equal(stays, was[:len(stays)]) && (full || len(stays) == len(was)) {
			return
		}
	}
	l.Fail("S29q", "the history of job %s was %+v, and is %+v by %v", j.id, was, is, j.Request)
}

// checkCrashes is S29r, for the transactions of users. A retry ends the wait.
func (l *lives) checkCrashes(j jobChange) {
	told := func(r *jobstore.Record) [5]any {
		return [...]any{r.ErrorCount, r.Error, r.Reason, r.Throttled, r.LastStart}
	}
	from, to := j.before.header, j.after.header
	if j.Request != nil || from.State == jobs.Finished {
		return
	}
	ends := to.Due == 0 && len(j.after.record.History) > 0 && j.after.record.History[0].Type == "retried"
	was, is := told(j.before.record), told(j.after.record)
	if was != is || from.State == to.State && from.Due != to.Due && !ends {
		l.Fail("S29r", "job %s told of %v and waited until %s, and by a user tells of %v and waits until %s",
			j.id, was, from.Due, is, to.Due)
	}
}

// checkHeld judges a job that is changed by the request of its run.
func (l *lives) checkHeld(j jobChange) {
	id, a, wall := j.id, j.after.record, j.Wall
	if a.LastUpdated != wall {
		l.Fail("S29g", "job %s changed at %s by %s, and tells of %s", id, wall, j.Request, a.LastUpdated)
	}
	switch q := j.Request.(type) {
	case node.Record:
		if ran := wall.Sub(a.LastStart); ran > l.w.Config().Backoff.Health && j.after.header.Lost > 0 {
			l.Fail("S29m", "job %s has run for %s, and still counts %d workers that vanished with it",
				id, ran, j.after.header.Lost)
		}
	case node.Requeue:
		l.checkNewest(id, a, "pending", wall)
		if len(a.History) < 2 || a.History[1].Type != "stopped" {
			l.Fail("S29f", "job %s was stopped, and its history begins with %+v", id, a.History)
		}
	case node.Complete:
		l.checkCompleted(j, q)
	case node.Fail:
		l.checkTrouble(id, a, q.Trouble, wall)
	case node.Crash:
		l.checkTrouble(id, a, q.Trouble, wall)
		l.checkCrash(id, a, q.Trouble)
	}
}

// checkCompleted is S29h and S29j. A one-shot that is to start over, and completes before its run hears of that, is
// queued again. An order that the run has carried out may still be in the record, as the write that would have taken
// it out failed; S90f judges whether it was carried out.
func (l *lives) checkCompleted(j jobChange, q node.Complete) {
	id, a := j.id, j.after.record
	if reset := j.before.record.Reset; reset != 0 && reset != q.Reset {
		l.checkNewest(id, a, "pending", j.Wall)
		return
	}
	l.checkNewest(id, a, "stopped", j.Wall)
	if a.ErrorCount > 0 || a.Error != "" {
		l.Fail("S29h", "job %s is completed, and tells of %d crashes: %s", id, a.ErrorCount, a.Error)
	}
	if !bytes.Equal(a.Result, q.End.Result) {
		l.Fail("S29j", "job %s is over with %s, and answers %s", id, q.End.Result, a.Result)
	}
}

// checkCrash is S29i and S29l: there is no document that could tell of crashes of a request, whose user
// waits.
func (l *lives) checkCrash(id string, a *jobstore.Record, t replication.Trouble) {
	if fails := a.Transient() && !t.Throttled; fails != (a.State == jobstore.Failed) {
		l.Fail("S29l", "job %s, of a request: %v, is %s after %s, throttled %v",
			id, a.Transient(), a.State, t, t.Throttled)
	}
	if a.State == jobstore.Crashing && a.Throttled != t.Throttled {
		l.Fail("S29i", "job %s crashed with throttled %v, and tells %v", id, t.Throttled, a.Throttled)
	}
}

// checkTrouble is S29i.
func (l *lives) checkTrouble(id string, a *jobstore.Record, t replication.Trouble, wall instant.Time) {
	event := "crashed"
	if t.Error == "stalled" {
		event = "stalled"
	}
	l.checkNewest(id, a, event, wall)
	if a.Error != t.Error || a.Reason != t.Reason {
		l.Fail("S29i", "job %s crashed with %s, and tells %s: %s", id, t, a.Error, a.Reason)
	}
}

// checkNewest is S29f.
func (l *lives) checkNewest(id string, a *jobstore.Record, event string, wall instant.Time) {
	switch n := len(a.History); {
	case n == 0 || n > l.w.Store().Config.MaxHistory:
		l.Fail("S29f", "job %s has a history of %d events", id, n)
	case a.History[0].Type != event || a.History[0].At != wall:
		l.Fail("S29f", "job %s %s at %s, and its history begins with %+v", id, event, wall, a.History[0])
	}
}

// checkAnswer is S29k. A run that wrote no log of its own may answer with whichever it found.
func (l *lives) checkAnswer(r *run, e replication.End) {
	if e.Cause != replication.Completed {
		return
	}
	var answer struct {
		SessionID string `json:"session_id"`
		NoChanges bool   `json:"no_changes"`
	}
	wrote, idle := r.saving.made.session, r.counts.rows == 0
	err := json.Unmarshal(e.Result, &answer)
	if err != nil || wrote != "" && answer.SessionID != wrote || answer.NoChanges != idle {
		l.Fail("S29k", "run %d of %s wrote log %q, read nothing: %v, and answers %s",
			r.ID(), r.p.Name, wrote, idle, e.Result)
	}
}

// checkFresh is S16d.
func (l *lives) checkFresh(r *run, info replication.Info) {
	if r.lookup.fresh && info.DocsWritten != info.Written {
		l.Fail("S16d",
			"run %d of %s is replication %s for the first time, has written %d documents, and tells %d",
			r.ID(), r.p.Name, r.RepID(), info.Written, info.DocsWritten)
	}
}

// checkNumbers is S7j and S16e. A run that crashed before it began, or told nothing when it was stopped, has
// no numbers, and its job keeps the numbers that it had.
func (l *lives) checkNumbers(j jobChange) {
	held, is := heldBy(j.Request)
	if !is || held.JobID != j.id {
		return
	}
	rec := j.after.record
	var told *jobstore.Stats
	switch q := j.Request.(type) {
	case node.Requeue:
		told = q.Stats
	case node.Crash:
		told = q.Stats
	case node.Complete:
		if rec.Stats.Counters() != q.End.Info.Counters {
			l.Fail("S16e", "job %s is over with %+v, and tells %+v",
				j.id, q.End.Info.Counters, rec.Stats.Counters())
		}
	case node.Fail:
		told = q.Stats
	default:
		return // the run goes on
	}
	if told != nil && !reflect.DeepEqual(*told, rec.Stats) {
		l.Fail("S16e", "job %s was stopped with %+v, and tells %+v", j.id, *told, rec.Stats)
	}
	if rec.Node != "" {
		l.Fail("S7j", "job %s is %s, and says that it runs on %s", j.id, rec.State, rec.Node)
	}
}
