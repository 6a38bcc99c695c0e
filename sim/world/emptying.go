package world

import (
	"fmt"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// RemoveAll deletes all replication documents and cancels all requests, in transactions in which nothing fails and
// which take no time. It does nothing, and returns false, where jobs of followed databases would stay.
func RemoveAll(w *World) (bool, error) {
	if len(w.follows.list) > 0 {
		return false, nil
	}
	all, err := w.store.Jobs.List(w.db.Present(), jobs.Page{Limit: 1 << 20})
	for _, job := range all {
		if err == nil {
			err = remove(w, job.ID)
		}
	}
	return true, err
}

// mostLeaves bounds how often a document is deleted until it has no leaf left.
const mostLeaves = 10

// remove removes a job with what it is of.
func remove(w *World, id string) error {
	rec, err := w.store.Record(w.db.Present(), id)
	if err != nil || rec == nil {
		return err
	}
	if rec.Transient() {
		calmly(w, func(tx kv.Tx) error { return w.store.Cancel(tx, id) })
		return nil
	}
	for _, t := range w.users.tenants {
		if t.name != rec.Database {
			continue
		}
		if id != (&JobDoc{tenant: t, id: rec.DocID}).JobID() {
			return nil // of a deleted database of that name, whose jobs nodes remove
		}
		if err := removeLosers(w, t, rec.DocID); err != nil {
			return err
		}
		for range mostLeaves {
			if rec, err = w.store.Record(w.db.Present(), id); err != nil || rec == nil {
				return err
			}
			if err := w.WriteNow(&JobDoc{tenant: t, id: rec.DocID}, false); err != nil {
				return err
			}
		}
		return fmt.Errorf("job %s is there though its document was deleted", id)
	}
	return fmt.Errorf("job %s is of no database", id)
}

// removeLosers deletes the leaves of a document that lose: else each of them would be the document for no time at all.
func removeLosers(w *World, t *Tenant, id string) (failed error) {
	db, err := w.store.Docs.Open(w.db.Glance(), t.name)
	if err != nil {
		return err
	}
	opened, err := db.OpenRevs([]docs.Wanted{{ID: id}}, false)
	if err != nil || len(opened) == 0 {
		return err
	}
	var edits []docs.Edit
	for i, leaf := range leavesIn(opened[0]) {
		if i > 0 && !leaf.Deleted {
			deleted := docs.Document{ID: id, Rev: leaf.Rev, Deleted: true, Body: []byte("{}")}
			edits = append(edits, docs.Edit{Document: deleted})
		}
	}
	if len(edits) == 0 {
		return nil
	}
	calmly(w, func(tx kv.Tx) error {
		db, err := w.store.Docs.Open(tx, t.name)
		if err != nil {
			return err
		}
		written, err := w.store.WriteDocs(tx, db, edits, admin, w.Engine.Now())
		for _, done := range written {
			if done.Err != nil {
				failed = done.Err
			}
		}
		return err
	})
	return failed
}

// UnderWay names a replication document that a user writes, or one of a database that a user deletes and makes anew;
// it is empty when there is none.
func UnderWay(w *World) string {
	for _, j := range w.users.jobs {
		if j.busy || j.tenant.busy {
			return j.tenant.name + "/" + j.id
		}
	}
	return ""
}
