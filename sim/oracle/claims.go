package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// claims is S18, and what it knows of replication ids.
type claims struct {
	*chronicle
	owners      map[string]string     // job by replication id
	had         map[hold]instant.Time // when jobs last had replication ids that they have no more
	onlyPassing map[node.Held]bool    // whether only jobs that are in nobody's way for good have what a job wants to run as
}

var claimSubject = subject{
	invariants: []Invariant{{"S18", "Of the jobs with one replication id at most one runs: the one that came first, until it is over."}},
	begin: func(c *chronicle) {
		o := &claims{c, map[string]string{}, map[hold]instant.Time{}, map[node.Held]bool{}}
		c.on.jobChanged.add(func(j jobChange) { o.noteHold(j.id, j.before.record) })
		c.on.followed.add(o.checkClaims)
		c.on.jobMoved.add(o.checkFails)
		c.on.answered.add(func(f world.Answered) { o.answered(f.Request, f.Result, f.Since) })
		c.on.runConfirmed.add(o.confirmed)
		c.on.atRest.add(o.checkOwners)
	},
}

// hold is a job with a replication id.
type hold struct{ repID, jobID string }

// checkClaims is a part of S18: whoever claimed a replication keeps it until the job is over or another's.
func (o *claims) checkClaims(l landing) {
	space := o.w.Store().Keys.Claim
	for _, m := range l.Mutations {
		var repID string
		if !space.Contains(m.Key) || space.Scan(m.Key, &repID) != nil {
			continue
		}
		row, err := o.w.Present().Get(m.Key)
		if err != nil {
			o.Fail("S18", "claim of %s: %v", repID, err)
			return
		}
		before, after := o.owners[repID], string(row)
		o.owners[repID] = after
		if before != after && o.has(before, repID) {
			o.Fail("S18", "job %s had %s, and lost it to %q by %v", before, repID, after, l.Request)
		}
	}
}

// has says whether a job that is not over has a replication id.
func (o *claims) has(jobID, repID string) bool {
	s := o.shadows[jobID]
	return s != nil && s.header != nil && !s.record.State.Terminal() && s.record.RepID == repID
}

// noteHold remembers when a job had its replication id.
func (o *claims) noteHold(id string, r *jobstore.Record) {
	if r != nil && r.RepID != "" && !r.State.Terminal() {
		o.had[hold{r.RepID, id}] = o.w.Now()
	}
}

// answered is a part of S18: a claim is refused for the sake of a job that is not over, or was not when
// the transaction began.
func (o *claims) answered(q node.Request, result node.Result, asked instant.Time) {
	claim, ok := q.(node.Claim)
	if !ok || !result.(node.Claimed).Refused {
		return
	}
	reason := result.(node.Claimed).Reason
	found, named, passing, own := false, false, true, o.shadows[claim.JobID]
	for id, s := range o.shadows { // in any order
		if id != claim.JobID && o.has(id, claim.RepID) && own != nil && own.header != nil && own.header.Lock == claim.Lock && essence(own.spec) != essence(s.spec) {
			o.Fail("S18", "%s was refused in favour of %s, which does something else: %s, not %s", claim, id, s.spec, own.spec)
		}
		at, had := o.had[hold{claim.RepID, id}]
		if id != claim.JobID && (o.has(id, claim.RepID) || had && o.w.Now().Sub(at) < time.Minute) {
			named = named || s.header == nil || s.record.Transient() || strings.HasSuffix(reason, fmt.Sprintf(" document `%s` from db `%s`", s.record.DocID, s.record.Database))
			found, passing = true, passing && s.header != nil && (s.record.Transient() || o.isGone(s.record.Instance, asked))
		}
	}
	switch o.onlyPassing[claim.Held] = passing; {
	case !found:
		o.Fail("S18", "%s was refused, and no other job has it", claim)
	case !named:
		o.Fail("S29", "%s was refused for another job's sake, which %q does not name", claim, reason)
	}
}

// isGone says whether a database had been deleted at a time.
func (o *claims) isGone(instance string, at instant.Time) bool {
	since, gone := o.dropped[instance]
	return gone && since < at
}

// essence is what of a replication makes it another one.
func essence(spec string) string {
	var s struct {
		Replication struct {
			Source, Target struct{ URL string }
			Continuous     bool
			CreateTarget   bool `json:"create_target"`
			WinnersOnly    bool `json:"winning_revs_only"`
			Filter, Since  json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", s)
}

// checkFails is a part of S18: a job of a request or of a deleted database, which will be gone one day, is in no
// document's way for good.
func (o *claims) checkFails(j jobChange) {
	if q, is := j.Request.(node.Fail); is && q.JobID == j.id && !j.anew && o.onlyPassing[q.Held] {
		o.Fail("S18", "%s, and only a request or a deleted database has its replication", q)
	}
}

// checkOwners is the end of S18: claims belong to jobs that there are.
func (o *claims) checkOwners(struct{}) {
	for _, repID := range slices.Sorted(maps.Keys(o.owners)) {
		id := o.owners[repID]
		if s := o.shadows[id]; id != "" && (s == nil || s.header == nil || s.record.RepID != repID) {
			o.Fail("S18", "%s is claimed by job %s, which does not have it", repID, id)
		}
	}
}

// confirmed is S18: of the runs with one replication id at most one has the right to it.
func (o *claims) confirmed(r *run) {
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
