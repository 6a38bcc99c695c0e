package oracle

import (
	"reflect"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
)

// views are the invariants of what users are told of jobs.
type views struct{ *chronicle }

var viewSubject = subject{
	begin: func(c *chronicle) {
		o := &views{c}
		c.on.jobMoved.add(func(j jobChange) {
			if j.before.record.State != j.after.record.State || j.before.header.State != j.after.header.State {
				o.checkViews(j.id, j.after.record)
			}
		})
	},
}

// checkViews is a part of S29: what users are told of a job is what is stored of it.
func (o *views) checkViews(id string, r *jobstore.Record) {
	if found, err := o.w.Store().Record(o.w.Present(), id); err == nil && found != nil && o.shadows[id].header.State == jobs.Pending && (found.State == jobstore.Running || found.Node != "") {
		o.Fail("S29", "job %s waits, and is shown as %s on %q", id, found.State, found.Node)
	}
	account := r.Database
	if r.Database == "" {
		account = "user:" + r.User
	}
	if r.Account() != account {
		o.Fail("S9", "job %s of %q is of account %s, and should be of %s", id, r.User, r.Account(), account)
	}
	over, active, errors := r.State == jobstore.Completed || r.State == jobstore.Failed, r.RepID, r.ErrorCount
	if over {
		active = ""
	}
	if r.State == jobstore.Failed {
		errors = 1
	}
	v := r.View()
	switch {
	case v.RepID != r.RepID, v.ActiveID != active, v.Database != r.Database, v.DocID != r.DocID:
		o.Fail("S29", "job %s is shown by other names: %+v", id, v)
	case v.State != r.State, v.ErrorCount != errors, v.Node != r.Node, v.User != r.User:
		o.Fail("S29", "job %s of %q on %q is %s after %d errors, and is shown as %+v", id, r.User, r.Node, r.State, errors, v)
	case v.Source != r.Source, v.Target != r.Target, v.Continuous != r.Continuous:
		o.Fail("S29", "job %s is from %s to %s, and is shown as %+v", id, r.Source, r.Target, v)
	case v.Created != r.Created, v.LastStart != r.LastStart, v.LastUpdated != r.LastUpdated:
		o.Fail("S29", "job %s is of %s, changed at %s, and is shown as %+v", id, r.Created, r.LastUpdated, v)
	case (v.Run != "") != (r.State == jobstore.Running), !slices.Equal(v.History, r.History):
		o.Fail("S29", "job %s is %s after %+v, and is shown as %+v", id, r.State, r.History, v)
	case !tells(v, r):
		o.Fail("S29", "job %s is %s after %s: %s with %+v, and tells %q, %+v", id, r.State, r.Error, r.Reason, r.Stats, v.Problem, v.Stats)
	}
}

// tells reports whether users are told the reason of a problem, or else the job's numbers, once there are any.
func tells(v jobstore.View, r *jobstore.Record) bool {
	if r.State == jobstore.Crashing || r.State == jobstore.Failed {
		return v.Stats == nil && strings.HasSuffix(v.Problem, r.Reason)
	}
	if v.Problem != "" {
		return false
	}
	if v.Stats == nil {
		return r.LastStart == 0 && reflect.DeepEqual(r.Stats, jobstore.Stats{})
	}
	return reflect.DeepEqual(*v.Stats, r.Stats)
}
