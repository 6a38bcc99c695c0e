package oracle

import (
	"couchrelay/core/docs"
	"couchrelay/sim/world"
)

// forbiddenTags are tags of documents.
type forbiddenTags map[string]bool

func (f forbiddenTags) note(w world.FunctionAsked) {
	for _, tag := range w.Forbidden {
		f[tag] = true
	}
}

// validation are the invariants of validation functions in replicator databases.
type validation struct {
	*chronicle
	was   map[string][]byte // design documents before the present event, by database
	stale bool              // a commit landed since was was read
}

var validationSubject = subject{
	invariants: []Invariant{
		{"S93a", "No replication document is stored that the validation function in force forbids."},
		{"S93b", "A job that ends while a function keeps its document from changing tells its state all the same."},
	},
	begin: func(c *chronicle) {
		v := &validation{chronicle: c, was: map[string][]byte{}, stale: true}
		c.on.jobChanged.add(v.checkStored)
		c.on.jobChanged.add(v.checkEnded)
		c.on.stepped.add(func(world.Stepped) { v.look() })
		c.on.landed.add(func(landing) { v.stale = true })
	},
}

// design is the design document of a database with its function, as it is now; nil if there is none.
func (v *validation) design(t *world.Tenant) []byte {
	if len(v.forbidden) == 0 {
		return nil
	}
	if d := v.document(t, world.Design); d != nil {
		return d.Body
	}
	return nil
}

// look notes the functions before the commits of an event are told. Those of the event itself have landed, so a
// function counts from the event after its commit on.
func (v *validation) look() {
	if !v.stale || len(v.forbidden) == 0 || len(v.landings) > 0 {
		return
	}
	v.stale = false
	for _, t := range v.w.Tenants() {
		v.was[t.Name()] = v.design(t)
	}
}

// written is the document of a job that a user's commit made; nil if another commit did.
func (v *validation) written(j jobChange) (*world.Tenant, *docs.Document) {
	if len(v.forbidden) == 0 || j.Request != nil || j.after.header == nil || j.after.record.Transient() {
		return nil, nil
	}
	if j.before.header != nil && j.before.record.Created == j.after.record.Created {
		return nil, nil
	}
	for _, t := range v.w.Tenants() {
		if t.Name() == j.after.record.Database {
			return t, v.document(t, j.after.record.DocID)
		}
	}
	return nil, nil
}

// checkStored is S93a for a commit that makes a job. The function must have been in force before the event, and still
// be.
func (v *validation) checkStored(j jobChange) {
	t, doc := v.written(j)
	if doc == nil || toldBy(doc).State != "" {
		return
	}
	if world.Forbidden(v.was[t.Name()], doc.Body) && world.Forbidden(v.design(t), doc.Body) {
		v.Fail("S93a", "document %s of %s is stored as %s, which %s forbids", doc.ID, t.Name(), doc.Body, v.design(t))
	}
}

// checkEnded is S93b.
func (v *validation) checkEnded(j jobChange) {
	if !j.after.isOver() || j.before.isOver() || len(v.forbidden) == 0 {
		return
	}
	view := j.after.record.View()
	if !view.State.Terminal() || view.State == "failed" && view.Problem == "" {
		v.Fail("S93b", "job %s has ended, and tells %s: %s", j.id, view.State, view.Problem)
	}
}
