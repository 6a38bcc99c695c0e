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

// claims are the invariants of replication ids. Two jobs may ask for the same replication, which would write
// the same checkpoints: the job that claims its id first runs, and others are refused until it is over.
type claims struct {
	*chronicle
	owners map[string]string     // job by replication id, as the store says
	had    map[hold]instant.Time // when jobs last had replication ids
	// onlyPassing are claims that were refused, and whether all jobs in their way will be gone one day.
	onlyPassing map[node.Held]bool
}

// hold is a job with a replication id.
type hold struct{ repID, jobID string }

var claimSubject = subject{
	invariants: []Invariant{
		{"S18a", "A job keeps the replication id that it claimed until it is over, removed or another " +
			"replication."},
		{"S18b", "A claim is refused only while another job has the replication id."},
		{"S18c", "A claim is refused only in favor of a job that replicates the same."},
		{"S18d", "A job does not fail for good while only requests and deleted databases have its " +
			"replication id."},
		{"S18e", "Each claimed replication id is that of a job which has it."},
		{"S18i", "A job waits for a replication id only while another one that is not over has it, and its claim, " +
			"or a row tells nodes that it is free."},
		{"S18h", "A request for a replication that another job has makes no job."},
		{"S18f", "Of the jobs with one replication id at most one runs."},
		{"S29d", "The refusal of a claim names the document whose job has the replication id."},
	},
	begin: func(c *chronicle) {
		l := &claims{c, map[string]string{}, map[hold]instant.Time{}, map[node.Held]bool{}}
		c.on.jobChanged.add(func(j jobChange) { l.noteHold(j.id, j.before.record) })
		c.on.followed.add(l.checkKept)
		c.on.jobMoved.add(l.checkFailed)
		c.on.jobChanged.add(l.checkRequest)
		c.on.answered.add(l.answered)
		c.on.runConfirmed.add(l.confirmed)
		c.on.atRest.add(func(struct{}) { l.checkOwners() })
		c.on.ticked.add(func(world.Ticked) { l.checkWaiting() })
	},
}

// checkKept is S18a. A job that begins in the same commit does so behind the one that took the id: it was over.
func (c *claims) checkKept(l landing) {
	space := c.w.Store().Keys.Claim
	for _, m := range l.Mutations {
		var repID string
		if !space.Contains(m.Key) || space.Scan(m.Key, &repID) != nil {
			continue
		}
		row, err := c.w.Present().Get(m.Key)
		if err != nil {
			c.unreadable("claim of "+repID, err)
			return
		}
		before, after := c.owners[repID], string(row)
		c.owners[repID] = after
		if before != after && c.has(before, repID) && c.shadows[before].came < c.w.Now() {
			c.Fail("S18a", "job %s had %s, and lost it to %q by %v", before, repID, after, l.Request)
		}
	}
}

// has reports whether a job that is not over has a replication id.
func (c *claims) has(jobID, repID string) bool {
	s := c.shadows[jobID]
	return s != nil && s.header != nil && !s.record.State.Terminal() && s.record.RepID == repID
}

// noteHold remembers when a job had its replication id.
func (c *claims) noteHold(id string, r *jobstore.Record) {
	if r != nil && r.RepID != "" && !r.State.Terminal() {
		c.had[hold{r.RepID, id}] = c.w.Now()
	}
}

// answerLate is how long after the snapshot of a claim its answer may come. A job that had the replication id
// within that time may have been in the way.
const answerLate = time.Minute

// answered is S18b, S18c and S29d, and notes refusals for S18d.
func (c *claims) answered(f world.Answered) {
	claim, is := f.Request.(node.Claim)
	if !is || !f.Result.(node.Claimed).Refused {
		return
	}
	reason := f.Result.(node.Claimed).Reason
	found, named, passing := false, false, true
	for id, s := range c.shadows { // in any order
		if id == claim.JobID {
			continue
		}
		has := c.has(id, claim.RepID)
		if has {
			c.checkSame(claim, id, s)
		}
		if at, had := c.had[hold{claim.RepID, id}]; !has && (!had || c.w.Now().Sub(at) >= answerLate) {
			continue
		}
		found = true
		named = named || names(reason, s)
		passing = passing && s.header != nil &&
			(s.record.Transient() || c.droppedBefore(s.record.Instance, f.Since))
	}
	c.onlyPassing[claim.Held] = passing
	if !found {
		c.Fail("S18b", "%s was refused, and no other job has it", claim)
	} else if !named {
		c.Fail("S29d", "%s was refused for another job's sake, which %q does not name", claim, reason)
	}
}

// checkSame is S18c. A claim of a job that was made anew meanwhile, or is another worker's, tells nothing of
// the job as it is now.
func (c *claims) checkSame(claim node.Claim, id string, s *shadow) {
	own := c.shadows[claim.JobID]
	if own == nil || own.header == nil || own.header.Lock != claim.Lock {
		return
	}
	if essenceOf(own.spec) != essenceOf(s.spec) {
		c.Fail("S18c", "%s was refused in favor of %s, which does something else: %s, not %s",
			claim, id, s.spec, own.spec)
	}
}

// names reports whether a reason names a job, where it has to: jobs of requests have no document, and the
// kind of a job that is gone is not known any more.
func names(reason string, s *shadow) bool {
	return s.header == nil || s.record.Transient() ||
		strings.HasSuffix(reason, " document `"+s.record.DocID+"` from db `"+s.record.Database+"`")
}

// droppedBefore reports whether a database had been deleted before a moment.
func (c *claims) droppedBefore(instance string, at instant.Time) bool {
	since, gone := c.dropped[instance]
	return gone && since < at
}

// essence is the part of a replication on which its id depends.
type essence struct {
	matter       string
	filtered     bool // by a function, which may change
	continuous   bool
	createTarget bool
}

// matter says which documents are copied, from where and to where. Ids of checkpoints depend on nothing else.
type matter struct {
	Source, Target struct {
		URL         string
		Headers     json.RawMessage
		Credentials json.RawMessage // with ***** in place of users and passwords; all users have one name
	}
	Filter      json.RawMessage
	Since       json.RawMessage `json:"since_seq"`
	WinnersOnly bool            `json:"winning_revs_only"`
}

// essenceOf reads the essence of a replication from the store's JSON.
func essenceOf(stored string) essence {
	var s struct {
		Replication struct {
			matter
			Continuous   bool
			CreateTarget bool `json:"create_target"`
		}
	}
	var filter struct{ Kind string }
	err := json.Unmarshal([]byte(stored), &s)
	r := &s.Replication
	if err == nil && r.Filter != nil {
		err = json.Unmarshal(r.Filter, &filter)
	}
	text := fmt.Sprintf("%s %s %s to %s %s %s, filter %s, since %s, winners only: %v",
		r.Source.URL, r.Source.Headers, r.Source.Credentials, r.Target.URL, r.Target.Headers, r.Target.Credentials,
		r.Filter, r.Since, r.WinnersOnly)
	if err != nil {
		text = err.Error()
	}
	return essence{text, filter.Kind == "function", r.Continuous, r.CreateTarget}
}

// checkFailed is S18d. A job that fails is over for good, while a job of a request or of a deleted database
// only has to be waited for. A job that was made anew in the same commit is another one.
func (c *claims) checkFailed(j jobChange) {
	if q, is := j.Request.(node.Fail); is && q.JobID == j.id && !j.anew && c.onlyPassing[q.Held] {
		c.Fail("S18d", "%s, and only a request or a deleted database has its replication", q)
	}
}

// checkRequest is S18h. What a run finds out only by itself, as with a filter function, no request can be told.
func (c *claims) checkRequest(j jobChange) {
	r := j.after.record
	made := j.after.header != nil && (j.anew || j.before.header == nil)
	if !made || !r.Transient() || r.RepID == "" {
		return
	}
	if owner := c.owners[r.RepID]; owner != j.id && c.has(owner, r.RepID) {
		c.Fail("S18h", "job %s was made for %s, which is job %s's", j.id, r.RepID, owner)
	}
}

// checkOwners is S18e: a claim of a job that does not have the id any more would be in the way of others for
// ever.
func (c *claims) checkOwners() {
	for _, repID := range slices.Sorted(maps.Keys(c.owners)) {
		id := c.owners[repID]
		if s := c.shadows[id]; id != "" && (s == nil || s.header == nil || s.record.RepID != repID) {
			c.Fail("S18e", "%s is claimed by job %s, which does not have it", repID, id)
		}
	}
}

// checkWaiting is S18i: a job that waits for no other one would wait for ever.
func (c *claims) checkWaiting() {
	for _, id := range c.ids() {
		s := c.shadows[id]
		if s.header == nil {
			continue
		}
		repID, waits := strings.CutPrefix(s.header.Lot, "behind/")
		if owner := c.owners[repID]; waits && (owner == id || !c.has(owner, repID)) && !c.free(s.header.Lot) {
			c.Fail("S18i", "job %s waits for %s, which is %q's, and that job does not have it", id, repID, owner)
		}
	}
}

// free reports whether a row has nodes look for a job of the lot that gets its replication.
func (c *claims) free(lot string) bool {
	row, err := c.w.Present().Get(c.w.Store().Keys.Lifted.Pack(lot))
	return err == nil && row != nil
}

// confirmed is S18f: of the runs that were told that a replication id is their own. A run whose job was taken
// from it is excused, since its node learns that later.
func (c *claims) confirmed(r *run) {
	r.confirmed = true
	for _, other := range c.runs {
		if other == r || !other.confirmed || other.RepID() != r.RepID() || other.JobID() == r.JobID() {
			continue
		}
		if c.holds(other) && c.holds(r) {
			c.Fail("S18f", "jobs %s and %s both run as %s", other.JobID(), r.JobID(), r.RepID())
		}
	}
}
