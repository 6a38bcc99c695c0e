package oracle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
)

// views are the invariants of the view of jobs that users get.
type views struct{ *chronicle }

var viewSubject = subject{
	invariants: []Invariant{
		{"S9f", "A job is of the account of its document's database, or of the user of its request."},
		{"S29n", "Users are told of a job what is stored of it."},
	},
	begin: func(c *chronicle) {
		v := &views{c}
		c.on.jobMoved.add(v.moved)
	},
}

// moved judges the view of a job whose state changes, or that goes into a lot or leaves one. Other changes leave
// most of it as it was.
func (v *views) moved(j jobChange) {
	r, from, to := j.after.record, j.before.header, j.after.header
	if j.before.record.State == r.State && from.State == to.State && from.Lot == to.Lot {
		return
	}
	v.checkAccount(j.id, r, r.Account())
	v.checkShown(j.id, r, r.View())
	if to.State != jobs.Pending {
		return
	}
	found, err := v.w.Store().Record(v.w.Present(), j.id)
	if err != nil || found == nil {
		return
	}
	if found.State == jobstore.Running || found.Node != "" {
		v.Fail("S29n", "job %s waits, and is shown as %s on %q", j.id, found.State, found.Node)
	}
	v.checkParked(j.id, to.Lot, r, found.View())
}

// checkParked is S29n for a job that waits, in a lot or in none.
func (v *views) checkParked(id, lot string, r *jobstore.Record, shown jobstore.View) {
	var want jobstore.Parking
	state := r.State
	if state == jobstore.Running {
		state = jobstore.Pending // its worker has vanished
	}
	if lot == "paused" {
		state, want.Paused = jobstore.Paused, true
	} else if hold, held := strings.CutPrefix(lot, "held/"); held {
		want.HeldBy = hold
	} else if other, behind := strings.CutPrefix(lot, "behind/"); behind {
		want.WaitsFor = other
	}
	if shown.State != state || shown.Parking != want {
		v.Fail("S29n", "job %s in lot %q is shown as %s, %+v", id, lot, shown.State, shown.Parking)
	}
}

// checkAccount is S9f.
func (v *views) checkAccount(id string, r *jobstore.Record, account string) {
	want := r.Database
	if r.Database == "" {
		want = "user:" + r.User
	}
	if account != want {
		v.Fail("S9f", "job %s of %q is of account %s, and should be of %s", id, r.User, account, want)
	}
}

// checkShown is S29n.
func (v *views) checkShown(id string, r *jobstore.Record, shown jobstore.View) {
	if differs := differing(shown, r); differs != "" {
		v.Fail("S29n", "job %s is shown with other %s: %+v, and %+v is stored", id, differs, shown, *r)
	}
}

// differing names the members of a view that differ from its record; empty when none does.
func differing(v jobstore.View, r *jobstore.Record) string {
	active, errors := r.RepID, r.ErrorCount
	if r.State.Terminal() {
		active = ""
	}
	if r.State == jobstore.Failed {
		errors = 1 // as CouchDB tells of a job that failed for good
	}
	switch {
	case v.RepID != r.RepID, v.ActiveID != active, v.Database != r.Database, v.DocID != r.DocID:
		return "names"
	case v.State != r.State, v.ErrorCount != errors, v.Node != r.Node, v.User != r.User:
		return fmt.Sprintf("state than %s after %d errors", r.State, errors)
	case float64(v.Weight) != weightOf(r):
		return "weight"
	case v.Source != r.Source, v.Target != r.Target, v.Continuous != r.Continuous:
		return "databases"
	case v.Created != r.Created, v.LastStart != r.LastStart, v.LastUpdated != r.LastUpdated:
		return "times"
	case (v.Run != "") != (r.State == jobstore.Running), !slices.Equal(v.History, r.History):
		return "history"
	case !tellsOutcome(v, r):
		return "outcome"
	}
	return ""
}

// tellsOutcome reports whether users are told the reason of a problem, or else the job's numbers, once there
// are any.
func tellsOutcome(v jobstore.View, r *jobstore.Record) bool {
	if r.State == jobstore.Crashing || r.State == jobstore.Failed {
		return v.Stats == nil && strings.HasSuffix(v.Problem, r.Reason)
	}
	if v.Problem != "" {
		return false
	}
	if v.Stats == nil {
		return r.LastStart == 0 && untold(r.Stats)
	}
	return reflect.DeepEqual(*v.Stats, r.Stats)
}

// untold reports whether no run has told any numbers: of the job's checkpoints users are told nothing.
func untold(s jobstore.Stats) bool {
	s.ListSaved = [2]int64{}
	return s == jobstore.Stats{}
}
