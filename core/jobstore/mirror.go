package jobstore

import (
	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// Mirrored is a document as a followed database has it.
type Mirrored struct {
	ID      string
	Deleted bool
	Body    ejson.Value // an object without _id, _rev and others that are not ReplicationMembers
	// Refusal, if not empty, says why the document cannot be read; then its Body is empty.
	Refusal string
}

// Mirror writes documents into a mirror, as many as one transaction should, and lets their jobs follow. It returns
// how many. A document that asks for no valid replication is written with the state failed and the reason.
func Mirror(s *Store, tx kv.Tx, db *docs.Database, list []Mirrored, now instant.Time) (int, error) {
	wanted := make([]docs.Wanted, len(list))
	for i, d := range list {
		wanted[i].ID = d.ID
	}
	found, err := db.OpenRevs(wanted, false)
	if err != nil {
		return 0, err
	}
	list = list[:len(found)] // fewer than editsAtOnce
	m := mirroring{foreseen: foreseen{s: s}, db: db, contents: map[string][]*content{}, now: now}
	n := 0
	for size := 0; n < len(list); n++ {
		var edit docs.Edit
		if edit, err = m.edit(list[n], found[n]); err != nil {
			return 0, err
		}
		if size += editSize(&edit); n > 0 && size > bytesAtOnce {
			break
		}
		m.edits = append(m.edits, edit)
	}
	return n, m.write(tx)
}

// mirroring is one call of Mirror.
type mirroring struct {
	foreseen
	db       *docs.Database
	edits    []docs.Edit
	contents map[string][]*content // by document
	now      instant.Time
}

// edit makes the edit that brings a document's winner, of the leaves that there are, in line.
func (m *mirroring) edit(d Mirrored, leaves []docs.Opened) (docs.Edit, error) {
	edit := docs.Edit{Document: docs.Document{ID: d.ID, Deleted: d.Deleted, Body: []byte("{}")}}
	jobID := documentJobID(m.db.Instance, d.ID)
	if m.job(jobID, len(leaves) > 0); len(leaves) > 0 {
		edit.Rev = leaves[0].Doc.Rev
		if edit.Deleted && leaves[0].Doc.Deleted {
			edit.ID = "" // as it should be
		}
	} else if edit.Deleted {
		edit.ID = ""
	}
	if d.Deleted {
		return edit, nil
	}
	c, err := m.content(d)
	if err != nil {
		return edit, err
	}
	if c.rep != nil && c.rep.Filter.Kind != spec.FunctionFilter {
		m.claim(repid.New(m.s.Config.Server, c.rep, "").String())
	}
	m.contents[d.ID], edit.Body = []*content{c}, c.text
	return edit, nil
}

// content is the body as the mirror has it: with marks of a replicator only if these say that the replication is
// over, and with the reason for which it must not begin.
func (m *mirroring) content(d Mirrored) (*content, error) {
	c := &content{body: d.Body}
	c.body.Kind = ejson.Object
	if err := setOwner(&c.body, Writer{Admin: true}); err != nil {
		return nil, err
	}
	if !State(stateOf(c.body)).Terminal() {
		unset(&c.body, docs.ReplicationMembers...)
		reason := d.Refusal
		if err := MayRefer(spec.ReferencesIn(c.body), m.db.Trusted); err != nil && reason == "" {
			reason = err.Error()
		}
		if reason != "" {
			set(&c.body, "_replication_state", text(string(Failed)))
			set(&c.body, "_replication_state_time", text(m.now.ISO8601()))
			set(&c.body, "_replication_state_reason", text(clip(reason, maxReason)))
		}
	}
	c.text = c.body.Append(nil)
	_, _ = c.replication(m.s.Config.Parse) // whose error the job has
	return c, nil
}

// write writes the edits with their jobs.
func (m *mirroring) write(tx kv.Tx) error {
	edits := m.edits[:0]
	for _, e := range m.edits {
		if e.ID != "" {
			edits = append(edits, e)
		}
	}
	m.order(m.db.Name)
	m.db.Prefetch(edits, m.keys, m.ranges)
	// Validation functions decide where the documents are written.
	following := writing{s: m.s, tx: tx, db: m.db, validators: &validators{}}
	for len(edits) > 0 {
		written, err := m.db.Update(edits)
		if err != nil {
			return err
		}
		for _, w := range written {
			if w.Err != nil {
				return w.Err
			}
			if w.Changed {
				if err := following.follow(w.ID, m.contents[w.ID], m.now); err != nil {
					return err
				}
			}
		}
		edits = edits[len(written):]
	}
	return nil
}

// refuseAll answers edits of a mirror by others than the service.
func refuseAll(db *docs.Database, edits []docs.Edit) []docs.Written {
	refusal := docs.Forbidden("This database mirrors " + db.Follows + ": write the document there.")
	written := make([]docs.Written, len(edits))
	for i, e := range edits {
		written[i] = docs.Written{ID: e.ID, Rev: e.Rev, Err: refusal}
	}
	return written
}
