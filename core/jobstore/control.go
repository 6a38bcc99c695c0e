package jobstore

import (
	"couchrelay/core/docs"
)

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
	db, err := o.Store.Docs.Open(o.Tx, rec.Database)
	if isRefusal(err) {
		return false, nil // the database is gone, and a sweep takes its jobs
	}
	if err != nil || instancePrefix(db.Instance) != rec.Instance {
		return false, err
	}
	for {
		doc, err := db.Read(rec.DocID, docs.Want{Deleted: true})
		if err != nil || doc.Deleted {
			return err == nil, err
		}
		deletion := docs.Edit{Document: docs.Document{ID: rec.DocID, Rev: doc.Rev, Deleted: true, Body: []byte("{}")}}
		written, err := o.Store.WriteDocs(o.Tx, db, []docs.Edit{deletion}, Writer{Name: o.By, Admin: true}, o.Now)
		if err != nil {
			return false, err
		}
		if written[0].Err != nil {
			return false, written[0].Err
		}
	}
}
