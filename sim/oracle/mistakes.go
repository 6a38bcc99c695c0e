package oracle

import (
	"encoding/json"
	"strings"

	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

// mistakes are the documents that were edited on another server so that they ask for no valid replication, and the
// edit was replicated to this one.
type mistakes struct {
	*chronicle
	begun map[uint64]*world.Write // edits that are under way, by token
	wrong map[string]*mistake     // by job; those of which a user was told that they are there
}

// mistake is such a document, until somebody writes it or deletes its database.
type mistake struct {
	doc   *world.JobDoc
	token uint64
}

var mistakeSubject = subject{
	invariants: []Invariant{
		{"S92e", "A document that was edited elsewhere so that it cannot be replicated says failed and why, and its " +
			"job is over as failed, until somebody writes the document anew."},
	},
	begin: func(c *chronicle) {
		m := &mistakes{c, map[uint64]*world.Write{}, map[string]*mistake{}}
		c.on.writeBegins.add(m.writeBegins)
		c.on.documentWritten.add(m.written)
		c.on.dropBegins.add(m.dropped)
		c.on.jobChanged.add(m.changed)
		c.on.ticked.add(func(world.Ticked) { m.check() })
		c.on.atRest.add(func(struct{}) { m.check() })
	},
}

// writeBegins forgets a document that somebody writes from now on.
func (m *mistakes) writeBegins(f world.WriteBegins) {
	delete(m.wrong, f.Write.JobID)
	if f.Write.Wrong {
		m.begun[f.Write.Token] = f.Write
	}
}

func (m *mistakes) written(f world.DocumentWritten) {
	w := m.begun[f.Token]
	if w == nil {
		delete(m.wrong, f.Doc.JobID()) // by an order
		return
	}
	delete(m.begun, f.Token)
	m.wrong[w.JobID] = &mistake{f.Doc, f.Token}
	m.checkOne(w.JobID)
}

func (m *mistakes) dropped(f world.DropBegins) {
	for id := range m.wrong {
		if strings.HasPrefix(id, databasePrefix(f.Instance)) {
			delete(m.wrong, id)
		}
	}
}

// changed has a job do nothing any more once its document cannot be replicated.
func (m *mistakes) changed(j jobChange) {
	if m.wrong[j.id] != nil && j.after.header != nil && !j.after.isOver() {
		m.Fail("S92e", "job %s is %s by %v, and its document asks for no valid replication", j.id,
			j.after.record.State, j.Request)
	}
}

func (m *mistakes) check() {
	for id := range m.wrong { // in any order: each fails by itself
		m.checkOne(id)
	}
}

func (m *mistakes) checkOne(id string) {
	it := m.wrong[id]
	found, s := m.document(it.doc.Tenant(), it.doc.ID()), m.shadows[id]
	if s == nil || s.header == nil || s.record.State != jobstore.Failed {
		m.Fail("S92e", "document %s asks for no valid replication, and its job is %+v", it.doc.ID(), s)
		return
	}
	var tells struct {
		told
		Reason string `json:"_replication_state_reason"`
	}
	if found != nil {
		_ = json.Unmarshal(found.Body, &tells) // it is an object
	}
	if tells.Token != it.token || tells.State != string(jobstore.Failed) || tells.Reason == "" {
		m.Fail("S92e", "document %s asks for no valid replication since %d, and is %v", it.doc.ID(), it.token, found)
	}
}
