package jobstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
)

// exempt reports whether a document of a replicator database is no replication: a design document or a
// local one.
func exempt(id string) bool { return docs.IsLocal(id) || strings.HasPrefix(id, "_design/") }

// Bounds of what WriteDocs takes at once, if that is more than one edit.
const (
	editsAtOnce = 250     // each reads sixteen times what was prefetched
	bytesAtOnce = 4 << 20 // written at most
)

// editSize is how many bytes an edit writes at most. There are the keys of the document and of its job with
// their conflict ranges: most hold the id, whose bytes may be escaped to twice as many. And there are body,
// replication and record, which may hold a URL twice and spell a character in six bytes.
func editSize(e *docs.Edit) int { return 8<<10 + 240*len(e.ID) + 25*len(e.Body) }

// atOnce is how many of the edits one transaction should write with their jobs.
func atOnce(edits []docs.Edit) int {
	size := 0
	for i := range edits[:min(len(edits), editsAtOnce)] {
		if size += editSize(&edits[i]); i > 0 && size > bytesAtOnce {
			return i
		}
	}
	return min(len(edits), editsAtOnce)
}

// content is the body of a document and the replication that it asks for. A body is parsed once in a
// transaction, though its replication says what to prefetch, and though it is validated, written, and then
// read again for its job.
type content struct {
	text   []byte
	body   ejson.Value
	rep    *spec.Replication
	err    error // why the body asks for no replication
	parsed bool  // rep and err are known
}

func parseContent(text []byte) (*content, error) {
	body, err := ejson.Parse(text)
	return &content{text: text, body: body}, err
}

// replication is what the body asks for.
func (c *content) replication(config spec.Config) (*spec.Replication, error) {
	if !c.parsed {
		if c.rep, c.err = spec.ParseDocument(c.body, config); c.err == nil && spec.MayBeMasked(c.text, true) {
			_, c.err = spec.Unmask(c.body, ejson.Value{})
		}
		c.parsed = true
	}
	return c.rep, c.err
}

// WriteDocs writes documents of a replicator database, as many as one transaction should, and lets
// their jobs follow. See docs.Database.Update for the result.
func (s *Store) WriteDocs(
	tx kv.Tx, db *docs.Database, edits []docs.Edit, by Writer, now instant.Time,
) ([]docs.Written, error) {
	if db.Follows != "" {
		return refuseAll(db, edits), nil
	}
	return writeDocs(s, tx, db, edits, by, now)
}

// writeDocs is WriteDocs for the service itself, which also writes into mirrors.
func writeDocs(
	s *Store, tx kv.Tx, db *docs.Database, edits []docs.Edit, by Writer, now instant.Time,
) ([]docs.Written, error) {
	edits = edits[:atOnce(edits)]
	accepted := map[string][]*content{} // by document, those that passed the validation
	w := &writing{s: s, tx: tx, db: db, by: by, checked: map[checkedBody]*outcome{}}
	db.Validate = func(next, prev *docs.Document, replicated bool) error {
		if exempt(next.ID) {
			if err := w.mayDesign(); err != nil {
				return err
			}
			return checkDesign(next)
		}
		if err := w.mayReplace(next.ID, prev); err != nil {
			return err
		}
		if err := unmask(next, prev); err != nil && !replicated {
			return err
		}
		c, err := w.check(next, replicated)
		if err == nil {
			err = w.ask(next, prev, by)
		}
		if err == nil {
			accepted[next.ID] = append(accepted[next.ID], c)
		}
		return err
	}
	if err := w.foresee(edits); err != nil {
		return nil, err
	}
	var err error
	if w.validators, err = s.validatorsOf(db); err != nil {
		return nil, err
	}
	written, err := db.Update(edits[:w.most(len(edits))])
	if err != nil {
		return nil, err
	}
	for i, done := range written {
		if edits[i].Kept {
			accepted[done.ID] = nil
		}
		if done.Changed && !done.Loses && !exempt(done.ID) {
			if err := w.follow(done.ID, accepted[done.ID], now); err != nil {
				return nil, err
			}
		}
	}
	return written, nil
}

// validate checks a document before it is written, sets its owner, as CouchDB does, and removes what a replicator
// wrote into it unless that says that its replication is over. It returns the body as it will be written. A replicated
// one is written also if it asks for no valid replication: its job fails then, see follow.
func (s *Store) validate(next *docs.Document, replicated bool, by Writer) (*content, error) {
	c, err := parseContent(next.Body)
	if err != nil {
		return nil, docs.BadRequest("invalid UTF-8 JSON")
	}
	if err := setOwner(&c.body, by); err != nil {
		return nil, err
	}
	if !next.Deleted && !State(stateOf(c.body)).Terminal() {
		unset(&c.body, docs.ReplicationMembers...) // marks of another replicator, or of the document's last run
	}
	c.text = c.body.Append(nil)
	next.Body = c.text
	if next.Deleted {
		return c, nil
	}
	if err := MayRefer(spec.ReferencesIn(c.body), by.ofServer() && !by.forOthers); err != nil {
		return nil, docs.Forbidden(err.Error())
	}
	if stateOf(c.body) == string(Failed) {
		return c, nil
	}
	if _, err := c.replication(s.Config.Parse); err != nil && !replicated {
		return nil, docs.Forbidden(err.Error())
	}
	return c, nil
}

// MayRefer returns an error for the names of secrets in a replication, unless it is a server admin's: whoever may name
// a secret and a server may read the secret. It holds for documents in any state: an order may have them run.
func MayRefer(names []string, admin bool) error {
	if len(names) > 0 && !admin {
		return fmt.Errorf("only server admins may name secrets of the service, as `%s`", names[0])
	}
	return nil
}

// unmask puts secrets of the revision that is replaced back into the next one where that has ***** instead. A tombstone
// has none to give: whoever writes a deleted document anew is its owner, and need not have been before.
func unmask(next, prev *docs.Document) error {
	if next.Deleted || !spec.MayBeMasked(next.Body, prev == nil) {
		return nil
	}
	var was ejson.Value
	if prev != nil && !prev.Deleted {
		was, _ = ejson.Parse(prev.Body) // which was checked when it was written
	}
	body, err := ejson.Parse(next.Body)
	if err != nil {
		return docs.BadRequest("invalid UTF-8 JSON")
	}
	if body, err = spec.Unmask(body, was); err != nil {
		return docs.Forbidden(err.Error())
	}
	next.Body = body.Append(nil)
	return nil
}

// setOwner makes the writer the owner of a document that has none. Only admins write documents of
// others.
func setOwner(body *ejson.Value, by Writer) error {
	name := ejson.Value{Kind: ejson.Null}
	if by.Name != "" {
		name = ejson.Value{Kind: ejson.String, Text: by.Name}
	}
	owner, has := body.Get("owner")
	switch {
	case !has, by.Admin && !by.order && owner.Kind == ejson.Null:
		set(body, "owner", name)
	case !by.Admin && (owner.Kind != name.Kind || owner.Text != name.Text):
		return errOthers
	}
	return nil
}

// stateOf is the _replication_state of a document, empty when there is none.
func stateOf(body ejson.Value) string {
	state, _ := body.Get("_replication_state")
	return state.Text
}

// follow brings the job of a document in line with the document's winning revision: no document, no job; a
// new or changed replication, a new job; a terminal state that a user wrote, or that another leaf has which wins now,
// a job that is over. written are the bodies that were written now, of which the winner's need not be one.
func (w *writing) follow(id string, written []*content, now instant.Time) error {
	s, tx, db := w.s, w.tx, w.db
	jobID := documentJobID(db.Instance, id)
	doc, err := db.Read(id, docs.Want{Deleted: true})
	if err != nil {
		return err
	}
	if doc.Deleted {
		return s.remove(tx, jobID)
	}
	c, wrote := theWritten(written, doc.Body)
	if !wrote {
		if c, err = parseContent(doc.Body); err != nil {
			return err
		}
	}
	old, err := s.Record(tx, jobID)
	if err != nil {
		return err
	}
	rec := &Record{Database: db.Name, Instance: instancePrefix(db.Instance), DocID: id, User: userOf(c.body)}
	if state := State(stateOf(c.body)); state.Terminal() {
		if old != nil && old.State == state && db.Follows == "" {
			return w.rejudge(jobID, old, c, wrote)
		}
		return s.putTerminal(tx, jobID, rec, c, state, now)
	}
	rep, err := c.replication(s.Config.Parse)
	if err != nil { // a replicated revision, or one that was written when other rules held
		return w.putFailed(jobID, rec, c, err.Error(), now)
	}
	var before *spec.Replication
	if old != nil {
		if before, err = s.Spec(tx, jobID); err != nil {
			return err
		}
	}
	w.judge(rep, before, wrote)
	if old != nil && !old.State.Terminal() {
		if before != nil && spec.Equal(before, rep) {
			if err := retell(s, tx, jobID, rec.User, rep.Unknown); err != nil {
				return err
			}
			return Operator{Store: s, Tx: tx, Now: now}.byDocument(jobID, rep)
		}
		rec.Pause, rec.Reset = old.Pause, old.Reset // an operator's orders outlive edits
	}
	rep.DocID = id // the body has none
	return s.put(tx, jobID, rec, rep, now)
}

// theWritten finds a body among those that were written.
func theWritten(written []*content, body []byte) (c *content, wrote bool) {
	for _, c := range written {
		if bytes.Equal(c.text, body) {
			return c, true
		}
	}
	return nil, false
}

// retell notes whose the job of a document or request is, and which fields there mean nothing. It goes on as it is.
func retell(s *Store, tx kv.Tx, jobID, user string, unknown []string) error {
	j, rec, err := readJob(s, tx, jobID)
	if err != nil || j == nil || rec.User == user && slices.Equal(rec.Unknown, unknown) {
		return err
	}
	before := rec.lasting()
	rec.User, rec.Unknown = user, unknown
	marks{s.Keys, tx, jobID}.change(false, before, rec.lasting())
	if j.State == jobs.Running {
		return s.Jobs.Update(tx, jobID, j.Lock, rec.encode())
	}
	return s.Jobs.Add(tx, jobID, j.Schedule, rec.encode())
}

// putTerminal stores a finished job for a document that was written with a terminal state, so that it is
// listed.
func (s *Store) putTerminal(
	tx kv.Tx, jobID string, rec *Record, c *content, state State, now instant.Time,
) error {
	if err := s.remove(tx, jobID); err != nil {
		return err
	}
	rec.title(c, s.Config.Parse)
	if reason, ok := c.body.Get("_replication_state_reason"); ok && state == Failed {
		rec.Error, rec.Reason = string(Failed), reason.Text
	}
	if stats, ok := c.body.Get("_replication_stats"); ok {
		_ = json.Decode(stats.Append(nil), &rec.Stats) // any program wrote it: members that do not fit are left out
		rec.Stats.ListSaved = [2]int64{}
	}
	rec.State, rec.Created, rec.LastUpdated = state, now, now
	marks{s.Keys, tx, jobID}.introduce(rec)
	return s.Jobs.AddFinished(tx, jobID, rec.encode())
}

// title copies what monitoring shows of a document, which may ask for no valid replication.
func (r *Record) title(c *content, config spec.Config) {
	if rep, err := c.replication(config); err == nil {
		r.describe(rep)
	} else {
		r.Source, r.Target = spec.Addresses(c.body)
		r.SourceProxy, r.TargetProxy = "", ""
	}
}

// putFailed stores a failed job for a document that asks for no valid replication, and says so in the
// document.
func (w *writing) putFailed(jobID string, rec *Record, c *content, reason string, now instant.Time) error {
	s, tx := w.s, w.tx
	if err := s.remove(tx, jobID); err != nil {
		return err
	}
	rec.Source, rec.Target = spec.Addresses(c.body)
	rec.State, rec.Created, rec.LastUpdated, rec.Error, rec.Reason = Failed, now, now, "parse_error", reason
	marks{s.Keys, tx, jobID}.introduce(rec)
	if err := s.Jobs.AddFinished(tx, jobID, rec.encode()); err != nil {
		return err
	}
	return s.writeTerminal(tx, rec, w.validators, now)
}

// databaseOf opens the database that a job's document is in. It is nil if that is gone, or was made again since.
func databaseOf(s *Store, tx kv.Tx, rec *Record) (*docs.Database, error) {
	db, err := s.Docs.Open(tx, rec.Database)
	if isRefusal(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if instancePrefix(db.Instance) != rec.Instance {
		return nil, nil
	}
	return db, nil
}

// documentOf reads the document of a job with its body. It is nil if the document, or its database, is gone.
func documentOf(s *Store, tx kv.Tx, rec *Record) (*docs.Database, *docs.Document, ejson.Value, error) {
	db, err := databaseOf(s, tx, rec)
	if err != nil || db == nil {
		return nil, nil, ejson.Value{}, err
	}
	doc, err := db.Read(rec.DocID, docs.Want{})
	if isRefusal(err) {
		return nil, nil, ejson.Value{}, nil
	}
	if err != nil {
		return nil, nil, ejson.Value{}, err
	}
	body, err := ejson.Parse(doc.Body)
	return db, doc, body, err
}

// writeTerminal writes the terminal state of a job into its document, unless the document or its database
// is gone, or the database was made again since. It is in the transaction that ends the job, so that both
// say the same at any time; but a validation function may keep the state out of the document, as in CouchDB. Then the
// job's record alone has it. v is nil if the transaction has not read the functions yet.
func (s *Store) writeTerminal(tx kv.Tx, rec *Record, v *validators, now instant.Time) error {
	db, doc, body, err := documentOf(s, tx, rec)
	if err != nil || doc == nil {
		return err
	}
	before := stateOf(body)
	members := map[string]ejson.Value{"_replication_state": text(string(rec.State))}
	if before != string(rec.State) {
		members["_replication_state_time"] = text(now.ISO8601())
	}
	if rec.State == Failed {
		members["_replication_state_reason"] = text(rec.Reason)
	} else {
		stats, err := ejson.Parse(rec.docStats())
		if err != nil {
			return err
		}
		members["_replication_stats"] = stats
	}
	unset(&body, "_replication_state_reason", "_replication_stats", "_replication_id")
	for _, name := range docs.ReplicationMembers {
		if v, ok := members[name]; ok {
			set(&body, name, v)
		}
	}
	prev := *doc
	doc.Body = body.Append(nil)
	if v == nil {
		if v, err = s.validatorsOf(db); err != nil {
			return err
		}
	}
	if v.ask(doc, &prev, replicator) != nil {
		// Reached: a validation function keeps the state of a job out of its document
		return nil
	}
	_, err = db.Update([]docs.Edit{{Document: *doc}}) // a refusal leaves the job's own state to tell
	return err
}

// docStats returns the numbers that a completed document shows: the statistics without the two sequences
// that change all the time, when the job was made, and how many documents the target refused and does not have.
func (r *Record) docStats() []byte {
	stats, err := json.Encode(struct {
		Stats
		SourceSeq  *SeqText `json:"source_seq,omitempty"`
		ThroughSeq *SeqText `json:"through_seq,omitempty"`
		ListSaved  any      `json:"list_saved,omitempty"`
		StartTime  string   `json:"start_time"`
		Refused    int64    `json:"refused,omitzero"`
	}{Stats: r.Stats, StartTime: r.Created.ISO8601(), Refused: r.RefusedTotal()})
	if err != nil {
		panic("jobstore: " + err.Error()) // plain numbers and strings
	}
	return stats
}

// isRefusal reports whether an error is an answer to the user, and not a failure of the store.
func isRefusal(err error) bool {
	_, is := errors.AsType[*docs.Error](err)
	return is
}

func text(s string) ejson.Value { return ejson.Value{Kind: ejson.String, Text: s} }

// set replaces or adds a member.
func set(object *ejson.Value, name string, v ejson.Value) {
	for i := range object.Members {
		if object.Members[i].Name == name {
			object.Members[i].Value = v
			return
		}
	}
	object.Members = append(object.Members, ejson.Member{Name: name, Value: v})
}

func unset(object *ejson.Value, names ...string) {
	kept := object.Members[:0:0]
	for _, m := range object.Members {
		wanted := true
		for _, name := range names {
			wanted = wanted && m.Name != name
		}
		if wanted {
			kept = append(kept, m)
		}
	}
	object.Members = kept
}
