package oracle

import "couchrelay/core/jobstore"

// JobChanged is a job as a commit left it.
type JobChanged struct {
	Job           string
	Database, Doc string         // both empty for the job of a request
	State         jobstore.State // empty when the job was removed
	Node          string         // that runs the job; empty unless it is running
	Reason        string         // of the last crash or failure
}

// watchJob tells the watcher how a job changed. A job that came and went in one commit is not worth
// telling.
func (o *Oracle) watchJob(j jobChange) {
	if o.Watch == nil || j.before.header == nil && j.after.header == nil {
		return
	}
	changed := JobChanged{Job: j.id}
	if rec := j.after.record; j.after.header != nil {
		changed.Database, changed.Doc = rec.Database, rec.DocID
		changed.State, changed.Reason = rec.State, rec.Reason
		if rec.State == jobstore.Running {
			changed.Node = rec.Node
		}
	}
	o.Watch(changed)
}
