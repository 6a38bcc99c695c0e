package cluster

import (
	"reflect"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
)

// checkViews is a part of S29: what users are shown of a job is what is stored of it.
func (o *oracle) checkViews(id string, r *jobstore.Record) {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	over, wrong := r.State == jobstore.Completed || r.State == jobstore.Failed, r.State == jobstore.Crashing || r.State == jobstore.Failed
	repID, errors := r.RepID, r.ErrorCount
	if over {
		repID = ""
	}
	if r.State == jobstore.Failed {
		errors = 1
	}
	if found, err := o.w.store.Record(o.w.present(), id); err == nil && found != nil && o.shadows[id].header.State == jobs.Pending && (found.State == jobstore.Running || found.Node != "") {
		o.w.fail("S29", "job %s waits, and is shown as %s on %q", id, found.State, found.Node)
	}
	account := r.Database
	if r.Database == "" {
		account = "user:" + r.User
	}
	if r.Account() != account {
		o.w.fail("S9", "job %s of %q is of account %s, and should be of %s", id, r.User, r.Account(), account)
	}
	j, d := r.JobView(), r.DocView()
	switch {
	case text(j.ID) != r.RepID, text(d.ID) != repID, text(j.Database) != r.Database, d.Database != r.Database, text(j.DocID) != r.DocID, d.DocID != r.DocID:
		o.w.fail("S29", "job %s is shown by other names: %+v, %+v", id, j, d)
	case j.State != r.State, d.State != r.State, d.ErrorCount != errors, text(j.Node) != r.Node, text(d.Node) != r.Node, text(j.User) != r.User:
		o.w.fail("S29", "job %s of %q on %q is %s after %d errors, and is shown as %+v, %+v", id, r.User, r.Node, r.State, errors, j, d)
	case j.Source != r.Source, j.Target != r.Target, text(d.Source) != r.Source, text(d.Target) != r.Target:
		o.w.fail("S29", "job %s is from %s to %s, and is shown as %+v, %+v", id, r.Source, r.Target, j, d)
	case j.StartTime != r.Created.ISO8601(), d.StartTime != j.StartTime, d.LastUpdated != r.LastUpdated.ISO8601():
		o.w.fail("S29", "job %s is of %s, changed at %s, and is shown as %+v, %+v", id, r.Created, r.LastUpdated, j, d)
	case (j.PID != nil) != (r.State == jobstore.Running), text(j.PID) != text(d.PID), !slices.EqualFunc(j.History, r.History, isShown):
		o.w.fail("S29", "job %s is %s after %+v, and is shown as %+v, %+v", id, r.State, r.History, j, d)
	case !tells(j.Info, r, wrong), !tells(d.Info, r, wrong):
		o.w.fail("S29", "job %s is %s after %s: %s with %+v, and tells %+v, %+v", id, r.State, r.Error, r.Reason, r.Stats, j.Info, d.Info)
	}
	if t := r.TaskView(); r.State == jobstore.Running && (!reflect.DeepEqual(t.Stats, r.Stats) || t.Node != r.Node || text(t.ReplicationID) != r.RepID ||
		text(t.DocID) != r.DocID || t.Source != r.Source || t.Target != r.Target || t.Continuous != r.Continuous || t.StartedOn != r.LastStart.Unix() || t.UpdatedOn != r.LastUpdated.Unix()) {
		o.w.fail("S29", "job %s is %+v, and its task is shown as %+v", id, r, t)
	}
}

func isShown(v jobstore.EventView, e jobstore.Event) bool {
	return v == jobstore.EventView{Timestamp: e.At.ISO8601(), Type: e.Type, Reason: e.Reason}
}

// tells says whether a job's info is the reason of what is wrong, or else its numbers, once there are any.
func tells(info any, r *jobstore.Record, wrong bool) bool {
	if wrong {
		why, is := info.(map[string]string)
		return is && strings.HasSuffix(why["error"], r.Reason)
	}
	if info == nil {
		return r.LastStart == 0 && reflect.DeepEqual(r.Stats, jobstore.Stats{})
	}
	return reflect.DeepEqual(info, r.Stats)
}
