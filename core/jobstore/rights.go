package jobstore

import (
	"bytes"
	"slices"

	"couchrelay/core/jobs"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// Writer is the user that writes documents.
type Writer struct {
	Name  string // empty without a login
	Admin bool   // may write documents of other owners: of the server, or of the database
	Roles []string
	// order marks who gives an order about a document: that is no write of its own, so whose the document is and what
	// its job may do stay as they are.
	order bool
	// forOthers marks an admin who gives an order about a document that others wrote.
	forOthers bool
}

// ofServer reports whether the writer is a server admin.
func (by Writer) ofServer() bool { return slices.Contains(by.Roles, "_admin") }

// answersFor reports whether a replication is a server admin's: its owner is the writer, or was one when it was written
// before. An order has an admin's rights to write, whoever gives it, so it makes nobody an admin.
func (by Writer) answersFor(rep, before *spec.Replication) bool {
	if !by.ofServer() || rep.Owner == "" {
		return false
	}
	return rep.Owner == by.Name && !by.order || before != nil && before.User.Admin && before.Owner == rep.Owner
}

// judge leaves a replication the rights that its job may have.
func (w *writing) judge(rep, before *spec.Replication, wrote bool) {
	if !w.believes(rep, before, wrote) {
		rep.Owner = ""
	}
	rep.User.Admin = w.by.answersFor(rep, before)
}

// believes reports whether a job may have the rights of the owner that its document names. What a server admin writes
// is believed, but not a branch of somebody else that wins once the admin has deleted another one, nor a body that the
// admin has copied, or attached a file to, unless the job stays as it was. An admin of the database can name any owner,
// others have no rights to give, and an order leaves what there was.
func (w *writing) believes(rep, before *spec.Replication, wrote bool) bool {
	switch {
	case w.db.Follows != "":
		return w.db.Trusted
	case w.by.order:
		return before != nil && before.Owner == rep.Owner
	}
	return w.by.ofServer() && (wrote || before != nil && before.Owner == rep.Owner && sameWork(before, rep))
}

// sameWork reports whether a document asks for what its job does.
func sameWork(job, document *spec.Replication) bool {
	asked := *document
	asked.User.Admin = job.User.Admin
	return spec.Equal(job, &asked)
}

// rejudge has a job that is over, and stays so, be listed by what its edited document says, and the replication be that
// of the document: an order may run it again, and leaves what rights there were. What the job did stays.
func (w *writing) rejudge(jobID string, old *Record, c *content, wrote bool) error {
	before, err := w.s.Spec(w.tx, jobID)
	if err != nil {
		return err
	}
	rep, wrong := c.replication(w.s.Config.Parse)
	if wrong != nil {
		rep = nil
	}
	switch err := w.retitle(jobID, old, c, w.sameID(before, rep)); {
	case err != nil || before == nil:
		return err
	case rep == nil:
		w.s.clearSpec(w.tx, jobID) // an order cannot run it either
		return nil
	}
	if w.judge(rep, before, wrote); spec.Equal(before, rep) {
		return nil
	}
	rep.DocID = before.DocID
	return w.s.setSpec(w.tx, jobID, rep)
}

// sameID reports whether two replications have one id, whatever their filter functions are; nil is none.
func (w *writing) sameID(a, b *spec.Replication) bool {
	id := func(r *spec.Replication) string { return repid.New(w.s.Config.Server, r, "").String() }
	return a != nil && b != nil && id(a) == id(b)
}

// retitle has a job that is over be listed by what its document says. The id is that of what it ran, so one that asks
// for another replication now has none until that runs, as one that was written as over.
func (w *writing) retitle(jobID string, old *Record, c *content, same bool) error {
	rec := *old
	rec.User = userOf(c.body)
	rec.title(c, w.s.Config.Parse)
	if !same {
		if err := (lots{w.s, w.tx}).dropClaim(jobID, old); err != nil {
			return err
		}
		rec.RepID, rec.BaseID = "", ""
	}
	if data := rec.encode(); !bytes.Equal(data, old.encode()) {
		marks{w.s.Keys, w.tx, jobID}.change(true, old.standing(), rec.standing())
		jobs.Rewrite(w.tx, w.s.Jobs, jobID, data)
	}
	return nil
}
