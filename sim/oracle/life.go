package oracle

import (
	"bytes"
	"encoding/json"
	"reflect"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// lives are the invariants of what jobs tell of their lives.
type lives struct{ *chronicle }

var lifeSubject = subject{
	invariants: []Invariant{{"S29", "What a job tells of its starts, ends and errors is what happened."}},
	begin: func(c *chronicle) {
		o := &lives{c}
		c.on.jobChanged.add(o.checkForgotten)
		c.on.jobMoved.add(o.checkEnd)
		c.on.jobMoved.add(o.checkLife)
		c.on.runTells.add(func(t telling) { o.checkFresh(t.run, t.info) })
		c.on.runSaidEnd.add(func(e ending) {
			o.checkAnswer(e.run, e.end)
			o.checkFresh(e.run, e.end.Info)
		})
	},
}

// checkLife is S29: what a job tells of its life is what happened in the commit.
func (o *lives) checkLife(j jobChange) {
	id, before, after, anew, l := j.id, j.before, j.after, j.anew, j.landing
	b, a := before.record, after.record
	if !anew && a.RepID != b.RepID && b.RepID != "" && a.Stats != (jobstore.Stats{}) {
		o.Fail("S16", "job %s is replication %s now, and tells the numbers of %s", id, a.RepID, b.RepID)
	}
	if a.State != jobstore.Failed && a.ErrorCount == 0 && (a.Error != "" || a.Throttled) {
		o.Fail("S29", "job %s is %s without crashes, and tells of error %q, throttled %v", id, a.State, a.Error, a.Throttled)
	}
	if q, is := l.Request.(node.Accept); is && after.header.Lock != before.header.Lock {
		o.checkNewest(id, a, "started", l)
		if a.LastStart != l.Wall || a.LastUpdated != l.Wall || a.Node != q.Node {
			o.Fail("S29", "job %s was given to %s at %s, and tells that it runs on %s since %s", id, q.Node, l.Wall, a.Node, a.LastStart)
		}
	}
	if held, is := heldBy(l.Request); is && held.JobID == id && !anew {
		o.checkLifeEnd(id, after, l)
	}
}

// checkLifeEnd is the part of S29 of requests of runs.
func (o *lives) checkLifeEnd(id string, after *shadow, l landing) {
	a := after.record
	if a.LastUpdated != l.Wall {
		o.Fail("S29", "job %s changed at %s by %s, and tells of %s", id, l.Wall, l.Request, a.LastUpdated)
	}
	switch q := l.Request.(type) {
	case node.Record:
		if l.Wall.Sub(a.LastStart) > o.w.Config().Backoff.Health && after.header.Lost > 0 {
			o.Fail("S29", "job %s has run for %s, and %d workers that it lost are not forgotten", id, l.Wall.Sub(a.LastStart), after.header.Lost)
		}
	case node.Requeue:
		o.checkNewest(id, a, "pending", l)
		if len(a.History) < 2 || a.History[1].Type != "stopped" {
			o.Fail("S29", "job %s was stopped, and its history ends with %+v", id, a.History)
		}
	case node.Complete:
		o.checkNewest(id, a, "stopped", l)
		if a.ErrorCount > 0 || a.Error != "" {
			o.Fail("S29", "job %s is completed, and tells of %d crashes: %s", id, a.ErrorCount, a.Error)
		}
		if !bytes.Equal(a.Result, q.End.Result) {
			o.Fail("S29", "job %s is over with %s, and answers %s", id, q.End.Result, a.Result)
		}
	case node.Fail:
		o.checkTrouble(id, a, q.Trouble, l)
	case node.Crash:
		o.checkTrouble(id, a, q.Trouble, l)
		if fails := a.Transient() && !q.Trouble.Throttled; fails != (a.State == jobstore.Failed) {
			o.Fail("S29", "job %s, of a request: %v, is %s after %s, throttled %v", id, a.Transient(), a.State, q.Trouble, q.Trouble.Throttled)
		}
		if a.State == jobstore.Crashing && a.Throttled != q.Trouble.Throttled {
			o.Fail("S29", "job %s crashed with throttled %v, and tells %v", id, q.Trouble.Throttled, a.Throttled)
		}
	}
}

// checkAnswer is a part of S29: a run that is done answers with the log that it wrote last, and whether its feed had
// any changes.
func (o *lives) checkAnswer(r *run, e replication.End) {
	var answer struct {
		SessionID string `json:"session_id"`
		NoChanges bool   `json:"no_changes"`
	}
	if e.Cause != replication.Completed {
		return
	}
	wrote, idle := r.saved.put[peer.Target].session, r.numbers.rows == 0
	if err := json.Unmarshal(e.Result, &answer); err != nil || wrote != "" && answer.SessionID != wrote || answer.NoChanges != idle {
		o.Fail("S29", "run %d of %s wrote log %q, read nothing: %v, and answers %s", r.ID(), r.p.Name, wrote, idle, e.Result)
	}
}

// checkTrouble: a job that crashed says why.
func (o *lives) checkTrouble(id string, a *jobstore.Record, t replication.Trouble, l landing) {
	o.checkNewest(id, a, "crashed", l)
	if a.Error != t.Error || a.Reason != t.Reason {
		o.Fail("S29", "job %s crashed with %s, and tells %s: %s", id, t, a.Error, a.Reason)
	}
}

// checkNewest: a job's history ends with what happened last, and is no longer than max_history.
func (o *lives) checkNewest(id string, a *jobstore.Record, what string, l landing) {
	switch n := len(a.History); {
	case n == 0 || n > o.w.Store().Config.MaxHistory:
		o.Fail("S29", "job %s has a history of %d events", id, n)
	case a.History[0].Type != what || a.History[0].At != l.Wall:
		o.Fail("S29", "job %s %s at %s, and its history ends with %+v", id, what, l.Wall, a.History[0])
	}
}

// checkForgotten is a part of S3: a finished job of a request is there until its time is over.
func (o *lives) checkForgotten(j jobChange) {
	id, before, l := j.id, j.before, j.landing
	if _, sweeps := l.Request.(node.Sweep); !sweeps || j.after.header != nil || before.record == nil || !before.record.Transient() {
		return
	}
	if b := before.record; !b.State.Terminal() || b.Expires > l.Wall {
		o.Fail("S3", "job %s of a request is %s until %s, and was forgotten at %s", id, b.State, b.Expires, l.Wall)
	}
}

// tellsNumbers says whether a completed document has the numbers of its job, and when that was made.
func tellsNumbers(d *docs.Document, r *jobstore.Record) bool {
	var body struct {
		Stats struct {
			jobstore.Stats
			StartTime string `json:"start_time"`
		} `json:"_replication_stats"`
	}
	want := r.Stats
	want.SourceSeq, want.ThroughSeq = "", "" // of the last moment
	return json.Unmarshal(d.Body, &body) == nil && reflect.DeepEqual(body.Stats.Stats, want) && body.Stats.StartTime == r.Created.ISO8601()
}

// checkFresh is a part of S16: the numbers of a replication are its own.
func (o *lives) checkFresh(r *run, info replication.Info) {
	if r.fresh && info.DocsWritten != info.Written {
		o.Fail("S16", "run %d of %s is replication %s for the first time, has written %d documents, and tells %d", r.ID(), r.p.Name, r.RepID(), info.Written, info.DocsWritten)
	}
}

// checkEnd is a part of S7 and S16: a job that was stopped tells what its run said last, and names no node.
func (o *lives) checkEnd(j jobChange) {
	id, rec, l := j.id, j.after.record, j.landing
	held, ended := heldBy(l.Request)
	var told *jobstore.Stats
	switch q := l.Request.(type) {
	case node.Requeue:
		told = q.Stats
	case node.Crash:
		told = q.Stats
	case node.Complete:
		if rec.Stats.Counters() != q.End.Info.Counters {
			o.Fail("S16", "job %s is over with %+v, and tells %+v", id, q.End.Info.Counters, rec.Stats.Counters())
		}
	case node.Fail:
	default:
		ended = false
	}
	if !ended || held.JobID != id {
		return
	}
	if told != nil && !reflect.DeepEqual(*told, rec.Stats) {
		o.Fail("S16", "job %s was stopped with %+v, and tells %+v", id, *told, rec.Stats)
	}
	if rec.Node != "" {
		o.Fail("S7", "job %s is %s, and says that it runs on %s", id, rec.State, rec.Node)
	}
}
