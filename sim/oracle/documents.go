package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// documents are the invariants of what replication documents say, and whose jobs they have.
type documents struct{ *chronicle }

var documentSubject = subject{
	invariants: []Invariant{
		{"S19", "A write that happened is not answered with a conflict."},
		{"S22", "The job of a document or request whose replication is the same stays the same."},
	},
	begin: func(c *chronicle) {
		o := &documents{c}
		c.on.jobChanged.add(o.checkRemade)
		c.on.jobChanged.add(o.checkEnding)
		c.on.writeRefused.add(o.checkRefusedWrite)
	},
}

// docEnding is what a document tells of its end.
type docEnding struct {
	Reason string `json:"_replication_state_reason"`
	Time   string `json:"_replication_state_time"`
}

func endingOf(d *docs.Document) (e docEnding) {
	_ = json.Unmarshal(d.Body, &e) // what is no object tells nothing
	return e
}

// checkRemade is S22: a job that is not over is made anew only when what it shall do is something else. That is
// compared as it is stored, word by word.
func (o *documents) checkRemade(j jobChange) {
	before, after := j.before, j.after
	if after.header == nil || before.header != nil && after.record.Created == before.record.Created {
		return
	}
	o.checkNew(j.id, after)
	if before.header != nil && !before.record.State.Terminal() && after.spec != "" && after.spec == before.spec {
		o.Fail("S22", "job %s was made anew by %v, and does the same as before", j.id, j.Request)
	}
}

// checkRefusedWrite is S19.
func (o *documents) checkRefusedWrite(f world.WriteRefused) {
	t := f.Doc.Tenant()
	if found := o.document(t, f.Doc.ID()); found != nil && containsToken(found, f.Token) {
		o.Fail("S19", "the write of %s %s as %d happened, and was answered %v", t.Name(), f.Doc.ID(), f.Token, f.Err)
	}
}

// checkNew is a part of S29: what a new job tells of itself is true.
func (o *documents) checkNew(id string, s *shadow) {
	a := s.record
	if a.State.Terminal() { // it came with its state
		return
	}
	if len(a.History) != 1 || a.History[0].Type != "added" || a.History[0].At != a.Created || a.LastUpdated != a.Created {
		o.Fail("S29", "job %s was made at %s, and tells of %s and %+v", id, a.Created, a.LastUpdated, a.History)
	}
	if rep, err := o.w.Store().Spec(o.w.Present(), id); err == nil && rep != nil && (a.RepID == "") != (rep.Filter.Kind == spec.FunctionFilter) {
		o.Fail("S18", "job %s is made as replication %q, with a filter function: %v", id, a.RepID, rep.Filter.Kind == spec.FunctionFilter)
	}
	if !a.Transient() && a.User != world.UserOf(a.DocID) {
		o.Fail("S29", "document %s/%s is of %s, and its job of %q", a.Database, a.DocID, world.UserOf(a.DocID), a.User)
	}
	var spec struct {
		Replication struct {
			Source, Target struct{ URL string }
			Continuous     bool
			Interval       time.Duration `json:"checkpoint_interval_ns"`
		}
	}
	err := json.Unmarshal([]byte(s.spec), &spec)
	if r := &spec.Replication; err != nil || a.Source != r.Source.URL || a.Target != r.Target.URL || a.Continuous != r.Continuous ||
		time.Duration(a.CheckpointInterval)*time.Millisecond != r.Interval {
		o.Fail("S29", "job %s is %+v, and tells of %s, %s, continuous %v and checkpoints every %d ms: %v", id, *r, a.Source, a.Target, a.Continuous, a.CheckpointInterval, err)
	}
}

// asWritten says whether a replication is what its user wrote in a document, as far as documents of this world go.
func (c *chronicle) asWritten(rep *spec.Replication, body []byte) bool {
	w := struct {
		Source, Target  string
		Continuous      bool
		CreateTarget    bool     `json:"create_target"`
		WinningRevsOnly bool     `json:"winning_revs_only"`
		UseCheckpoints  bool     `json:"use_checkpoints"`
		UseBulkGet      bool     `json:"use_bulk_get"`
		BatchSize       int      `json:"worker_batch_size"`
		DocIDs          []string `json:"doc_ids"`
		Filter          string
		QueryParams     json.RawMessage `json:"query_params"`
		Selector        json.RawMessage
		SinceSeq        json.RawMessage `json:"since_seq"`
		Params          struct{ Q int } `json:"create_target_params"`
	}{UseCheckpoints: true, UseBulkGet: true, BatchSize: c.w.Config().BatchSize}
	if json.Unmarshal(body, &w) != nil {
		return false
	}
	slices.Sort(w.DocIDs)
	var params []peer.Param
	if w.Params.Q != 0 {
		params = []peer.Param{{Name: "q", Value: fmt.Sprint(w.Params.Q)}}
	}
	return rep.Source.URL == w.Source && rep.Target.URL == w.Target && rep.Continuous == w.Continuous && rep.CreateTarget == w.CreateTarget &&
		rep.WinningRevsOnly == w.WinningRevsOnly && rep.UseCheckpoints == w.UseCheckpoints && rep.UseBulkGet == w.UseBulkGet &&
		rep.WorkerBatchSize == w.BatchSize && slices.Equal(rep.Filter.DocIDs, w.DocIDs) && rep.Filter.Name == w.Filter && bytes.Equal(rep.Filter.QueryParams, w.QueryParams) &&
		bytes.Equal(rep.Filter.Selector, w.Selector) && bytes.Equal(rep.SinceSeq, w.SinceSeq) && rep.WorkerProcesses == c.w.Config().Workers && rep.Source.Retries == c.w.Config().Retries &&
		rep.CheckpointInterval == c.w.Config().CheckpointInterval && slices.Equal(rep.CreateTargetParams, params)
}

// checkEnding is a part of S7: from the commit that ends a job on, its document says so, and no other one. One of
// its name may belong to a job of its own, when the database was made again.
func (o *documents) checkEnding(j jobChange) {
	before, after := j.before, j.after
	rec := after.record
	if after.header == nil || rec.Transient() || !rec.State.Terminal() || before.header != nil && before.record.State.Terminal() {
		return
	}
	for _, t := range o.w.Tenants() {
		if t.Name() != rec.Database {
			continue
		}
		doc := o.document(t, rec.DocID)
		if doc == nil {
			return
		}
		want := jobstore.State("")
		own := o.shadows[jobstore.DocumentJobs(t.Instance())+rec.DocID]
		if own != nil && own.header != nil && own.record.State.Terminal() {
			want = own.record.State
		}
		if says := stateOf(doc); says == string(jobstore.Failed) && endingOf(doc).Reason == "" {
			o.Fail("S7", "document %s/%s failed, and does not say why", t.Name(), rec.DocID)
		} else if says != string(want) {
			o.Fail("S7", "document %s/%s says %q after the end of job %s, and its own job says %q", t.Name(), rec.DocID, says, rec.Instance+rec.DocID, want)
		} else if at := endingOf(doc).Time; before.header != nil && own == after && at != rec.LastUpdated.ISO8601() {
			o.Fail("S7", "document %s/%s is %s since %s, and says %q", t.Name(), rec.DocID, want, rec.LastUpdated.ISO8601(), at)
		} else if want == jobstore.Completed && !tellsNumbers(doc, own.record) {
			o.Fail("S7", "document %s/%s is completed, and does not tell the numbers %+v: %s", t.Name(), rec.DocID, own.record.Stats, doc.Body)
		}
	}
}
