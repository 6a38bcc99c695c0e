package oracle

import "couchrelay/core/jobstore"

// JobChanged is what a commit made of a job.
type JobChanged struct {
	Job           string
	Database, Doc string         // both empty for the job of a request
	State         jobstore.State // empty when the job was removed
	Node, Reason  string
}

// watchJob tells the watcher what became of a job.
func (o *Oracle) watchJob(j jobChange) {
	id, before, after := j.id, j.before, j.after
	if o.Watch == nil {
		return
	}
	changed := JobChanged{Job: id}
	if rec := after.record; after.header != nil {
		changed.Database, changed.Doc, changed.State, changed.Node, changed.Reason = rec.Database, rec.DocID, rec.State, rec.Node, rec.Reason
		if rec.State != jobstore.Running {
			changed.Node = ""
		}
	} else if before.header == nil {
		return
	}
	o.Watch(changed)
}
