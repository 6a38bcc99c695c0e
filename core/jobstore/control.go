package jobstore

import (
	"cmp"
	"errors"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
)

// Retry ends the wait of a job, at the place that it has in the queue. A job that failed for good runs again, and so
// does one that completed without documents that its target refused: a new job is made of its document, whose
// terminal state goes, or of its request. It reports whether there was anything to end. Documents that the target
// refused are tried again as well. Crashes are still counted, so that the next one is followed by a longer wait.
func (o Operator) Retry(jobID, reason string) (changed bool, err error) {
	j, rec, err := readJob(o.Store, o.Tx, jobID)
	switch {
	case err != nil || j == nil:
		return false, err
	case o.hasGiven(rec, "retried"):
		return true, nil
	case rec.State == Failed:
		return o.runAgain(jobID, rec, reason)
	case rec.State == Completed && rec.Listed() > 0:
		// Reached: a job that completed without refused documents runs again
		return o.runAgain(jobID, rec, reason)
	case rec.State.Terminal():
		return false, isOver(rec)
	}
	if err := o.barred(rec); err != nil {
		return false, err
	}
	waits := j.State == jobs.Pending && !j.Ready()
	asked, err := o.retryRefused(jobID, rec)
	if err != nil || !asked && !waits {
		return false, err
	}
	o.note(rec, "retried", reason)
	if waits {
		j.Due = 0
	}
	if j.Lot != "" { // of a hold that was lifted
		return true, o.lots().unpark(j, rec, 0)
	}
	return true, o.lots().save(j, rec)
}

// barred is why a job does not run though its wait may be over; nil if nothing keeps it from running.
func (o Operator) barred(rec *Record) error {
	switch {
	case rec.PausedByDocument:
		return byItsDocument(rec)
	case rec.Pause != nil:
		return Obstacle("the job is paused; resume it")
	case rec.WaitsFor != "":
		return Obstacle("the job waits until no other job has replication " + rec.WaitsFor)
	}
	holds, err := o.Store.Keys.Holds(o.Tx)
	if err != nil {
		return err
	}
	for i := range holds {
		if holds[i].Matches(rec) {
			return Obstacle("hold " + holds[i].ID() + " keeps the job from running")
		}
	}
	return nil
}

// runAgain makes a job of one that is over, which tries at once what the target refused.
func (o Operator) runAgain(jobID string, over *Record, reason string) (changed bool, err error) {
	if over.Transient() {
		rep, err := o.Store.Spec(o.Tx, jobID)
		if err != nil || rep == nil {
			return false, err
		}
		if other, err := rival(o.Store, o.Tx, jobID, over.RepID); err != nil || other != nil {
			return false, cmp.Or(err, error(Obstacle("another job has replication "+over.RepID)))
		}
		rep.Weight, rep.Unknown = over.Weight, over.Unknown // which the replication does not keep
		if err := o.Store.put(o.Tx, jobID, &Record{User: over.User}, rep, o.Now); err != nil {
			return false, err
		}
	} else if err := o.unfinish(over); err != nil {
		return false, err
	}
	j, rec, err := readJob(o.Store, o.Tx, jobID)
	if err != nil || j == nil || rec.State.Terminal() {
		return false, err
	}
	if _, err := o.retryRefused(jobID, rec); err != nil {
		return false, err
	}
	o.note(rec, "retried", reason)
	return true, o.lots().save(j, rec)
}

// unfinish removes the terminal state from the document of a job, which gets another one in turn.
func (o Operator) unfinish(rec *Record) error {
	db, doc, body, err := documentOf(o.Store, o.Tx, rec)
	if err != nil || doc == nil {
		return err
	}
	unset(&body, docs.ReplicationMembers...)
	doc.Body = body.Append(nil)
	err = o.write(db, []docs.Edit{{Document: *doc}})
	if isRefusal(err) {
		return Obstacle("the document asks for no replication that can run: " + err.Error())
	}
	return err
}

// write writes as many revisions of a document of a replicator database as can be written at once. Who may give the
// order was decided before.
func (o Operator) write(db *docs.Database, edits []docs.Edit) error {
	by := Writer{
		Name: o.By, Admin: true, Roles: []string{"_admin"}, order: true, forOthers: db.Follows != "" && !db.Trusted,
	}
	written, err := writeDocs(o.Store, o.Tx, db, edits, by, o.Now)
	if err != nil {
		return err
	}
	for _, w := range written {
		if w.Err != nil {
			return w.Err
		}
	}
	return nil
}

// Reset has a job that is not over start over: its next run discards the checkpoints on both sides and copies
// everything anew, with statistics that begin at 0. A running job is stopped first. It reports whether that is
// new: an order that no run has begun to carry out is the same order.
func (o Operator) Reset(jobID, reason string) (changed bool, err error) {
	j, rec, err := readJob(o.Store, o.Tx, jobID)
	switch {
	case err != nil || j == nil:
		return false, err
	case o.hasGiven(rec, "reset"):
		return false, nil
	case rec.State.Terminal():
		return false, isOver(rec)
	case rec.Reset != 0 && j.State != jobs.Running:
		return false, nil
	}
	rec.Reset, rec.Stats = o.Now, Stats{}
	o.note(rec, "reset", reason)
	if _, err := o.Store.Jobs.Stop(o.Tx, jobID); err != nil {
		return false, err
	}
	return true, o.lots().save(j, rec)
}

// Cancel removes a job that is not over, and reports whether there was one. A document's job goes with its
// document, all leaves of it: one that stayed would bring another job.
func (o Operator) Cancel(jobID string) (changed bool, err error) {
	rec, err := o.Store.Record(o.Tx, jobID)
	switch {
	case err != nil || rec == nil || rec.State.Terminal():
		return false, err
	case rec.Transient():
		return true, o.Store.remove(o.Tx, jobID)
	}
	db, err := databaseOf(o.Store, o.Tx, rec)
	if err != nil || db == nil {
		return false, err
	}
	if db.Follows != "" {
		return false, Obstacle("its document is in " + db.Follows + "; delete it there")
	}
	for {
		doc, err := db.Read(rec.DocID, docs.Want{Deleted: true, Conflicts: true})
		if errors.Is(err, docs.ErrMissing) || err == nil && doc.Deleted {
			return true, o.Store.remove(o.Tx, jobID) // which is gone with its document, unless the store is damaged
		}
		if err != nil {
			return false, err
		}
		// The winner goes last: no other leaf makes a job on the way.
		deletions := make([]docs.Edit, 0, len(doc.Meta.Conflicts)+1)
		for _, rev := range append(doc.Meta.Conflicts, doc.Rev) {
			end := docs.Document{ID: rec.DocID, Rev: rev, Deleted: true, Body: []byte("{}")}
			deletions = append(deletions, docs.Edit{Document: end})
		}
		if err := o.write(db, deletions); err != nil {
			return false, err
		}
	}
}
