package follow

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/ejson"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// Database is a database to follow, as the configuration has it.
type Database struct {
	Section string // NAME of [follow NAME]
	Name    string // of the database at its server
	URL     string // of the database, without credentials
	Trusted bool   // its documents count as an admin's
}

// ID is the name of the database's mirror, and of its job.
func (d Database) ID() string { return d.Section + "/" + d.Name + "/_replicator" }

// Job is the data of a job. It holds no credentials.
type Job struct {
	Database
	// Instance is the instance_start_time of the followed database when it was opened last; empty before that.
	Instance string `json:",omitempty"`
	// Since is up to where its changes are in the mirror.
	Since peer.Seq `json:",omitempty"`
	// Epoch grows when the followed database turns out to be another one. While Reconciling, all of its changes are
	// read again, and documents that are in none of them go at the end.
	Epoch       int64
	Reconciling bool
	// Missing is set when a run has left out documents that could not be read, or a row of them. The next run asks the
	// followed database for these.
	Missing bool `json:",omitempty"`
	// Last is the newest change that was announced or read, also behind Since; empty if there is none. A followed
	// database that does not know its revision any more was put back to an earlier state.
	Last peer.Mark `json:",omitzero"`
	// Before is a place in the feed from which the feed brings Last; empty for the beginning of the feed.
	Before peer.Seq `json:",omitempty"`
	// Goal is where the followed database was when a feed began that has not been read to its end; empty once it has. A
	// database that is behind that was put back to an earlier state, from which changes up to Since may be missing.
	Goal peer.Seq `json:",omitempty"`
	// Behind is how many changes followed on Since when it was stored, -1 if the server did not tell.
	Behind int64 `json:",omitempty"`
	// Looked is up to where the states in the mirror are known.
	Looked string `json:",omitempty"`
	// Errors counts failures in a row; Error and Reason are the last one's, empty once the run got through. Then they
	// tell of a document that the followed database cannot read, if there is one.
	Errors        int    `json:",omitempty"`
	Error, Reason string `json:",omitempty"`
}

func (j *Job) encode() []byte {
	b, err := json.Encode(j)
	if err != nil {
		panic("follow: " + err.Error()) // plain strings and numbers
	}
	return b
}

func decodeJob(j *jobs.Job) (*Job, error) {
	var data Job
	if err := json.Decode(j.Data, &data); err != nil {
		return nil, fmt.Errorf("%w: follow job %q: %w", jobs.ErrCorrupt, j.ID, err)
	}
	return &data, nil
}

// Keys says where the rows are.
type Keys struct {
	Jobs jobs.Keys
	Rows tuple.Subspace
}

// Store works on the jobs and rows below a root, beside the replications.
type Store struct {
	Relay *jobstore.Store
	Queue *jobs.Queue
	Keys  Keys
	Pages Pages
}

// NewStore returns the store below root, which relay shares.
func NewStore(root tuple.Subspace, relay *jobstore.Store) *Store {
	keys := Keys{Jobs: jobs.KeysBelow(root.Sub("jobs"), "follow"), Rows: root.Sub("follow")}
	queue := jobs.New(keys.Jobs)
	queue.Timeout = ActivityTimeout
	return &Store{Relay: relay, Queue: queue, Keys: keys, Pages: DefaultPages()}
}

// row is what is known of a document of the followed database.
type row struct {
	Rev    string // that was applied, or written, last
	Digest string // of its body, but for owner and state
	State  string // digest of the state that it has there
	Sent   string // digest of the state that was sent last, while it is not known whether that arrived
	Was    string // digests of states sent before that, likewise: newest first, separated by spaces, at most maxWas
	Epoch  int64  // of the job, when the document was last seen
	// Over is the revision before Rev, that ours was written over, or that was announced when Rev was read; and those
	// before it that ours were written over: newest first, separated by spaces, at most maxWas.
	Over string
	// Announced are the leaves that the feed told of a document which the run could not read, and left out: the one
	// that wins first, with spaces between them; empty for none. They count in the Epoch of leftIn alone.
	Announced string
}

// maxWas bounds the states in Was, and the revisions in Over. If a state is forgotten that had arrived, the feed brings
// it as if a user had written it. That takes more than eight later writes of other states, none of which arrived, while
// the feed brought nothing.
const maxWas = 8

// sent are the digests of all states that were sent and may have arrived, newest first.
func (r *row) sent() []string { return strings.Fields(r.Sent + " " + r.Was) }

// isSent reports whether a revision may be ours, which has a state that was sent and may have arrived. A revision
// without a state is not, but a user's, who wants the job to run again, if it is of a later generation: each state was
// written over Rev, or over one that was sent before it.
func (r *row) isSent(state, rev string) bool {
	sent := r.sent()
	i := slices.Index(sent, state)
	if i < 0 || state != noState {
		return i >= 0
	}
	last, err := revtree.ParseRev(r.Rev)
	is, isErr := revtree.ParseRev(rev)
	return err != nil || isErr != nil || is.Gen <= last.Gen+int64(len(sent)-i)
}

// mayArrive are the states that were sent and may still arrive, though the document is known to have another one: late,
// and in a cluster they may win. What removes one could be a user's next write.
func (r *row) mayArrive(has string) string {
	return strings.Join(slices.DeleteFunc(r.sent(), func(s string) bool { return s == noState || s == has }), " ")
}

// over are the revisions that Rev has replaced, newest first.
func (r *row) over() []string { return strings.Fields(r.Over) }

// replace notes that a revision of ours, or of a user with our state, has replaced another one.
func (r *row) replace(over, rev string) {
	before := slices.DeleteFunc(r.over(), func(s string) bool { return s == over })
	r.Rev, r.Over = rev, strings.Join(append([]string{over}, before[:min(len(before), maxWas-1)]...), " ")
}

// send notes that a state is about to be sent.
func (r *row) send(digest string) {
	before := slices.DeleteFunc(r.sent(), func(s string) bool { return s == digest })
	r.Sent, r.Was = digest, strings.Join(before[:min(len(before), maxWas)], " ")
}

func (k Keys) doc(job, id string) []byte { return k.Rows.Pack(job, "doc", id) }
func (k Keys) due(job, id string) []byte { return k.Rows.Pack(job, "due", id) }

func (k Keys) put(tx kv.Tx, job, id string, r row) {
	elements := []any{r.Rev, r.Digest, r.State, r.Sent, r.Was, r.Epoch, r.Over}
	if r.Announced != "" {
		elements = append(elements, r.Announced)
	}
	tx.Set(k.doc(job, id), tuple.Pack(elements...))
}

// scan decodes a row.
func (r *row) scan(value []byte) error {
	elements := []any{&r.Rev, &r.Digest, &r.State, &r.Sent, &r.Was, &r.Epoch, &r.Over}
	err := tuple.Subspace(nil).Scan(value, elements...)
	if err != nil && tuple.Subspace(nil).Scan(value, append(elements, &r.Announced)...) == nil {
		return nil
	}
	return err
}

// row reads a row; nil if there is none.
func (k Keys) row(tx kv.Tx, job, id string) (*row, error) {
	value, err := tx.Get(k.doc(job, id))
	if err != nil || value == nil {
		return nil, err
	}
	var r row
	if err := r.scan(value); err != nil {
		return nil, fmt.Errorf("%w: row of document %q of follow job %q: %w", jobs.ErrCorrupt, id, job, err)
	}
	return &r, nil
}

// noState is the digest of no state: it differs from a digest that is not known.
const noState = "-"

// split parts a document as its server sent it: the body that the mirror gets, and the digests of body and state.
func split(raw []byte) (body ejson.Value, digest, state string, err error) {
	doc, err := ejson.Parse(raw)
	if err != nil {
		return ejson.Value{Kind: ejson.Object}, digestOf(raw), noState, err
	}
	body.Kind = ejson.Object
	for _, m := range doc.Members {
		if !strings.HasPrefix(m.Name, "_") || slices.Contains(docs.ReplicationMembers, m.Name) {
			body.Members = append(body.Members, m)
		}
	}
	return body, bodyDigest(body), stateDigest(stateMembers(body)), nil
}

// bodyDigest is that of the members which users write. The owner is not among them: servers set it.
func bodyDigest(body ejson.Value) string {
	var members []ejson.Member
	for _, m := range body.Members {
		if !strings.HasPrefix(m.Name, "_") && m.Name != "owner" {
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b ejson.Member) int { return strings.Compare(a.Name, b.Name) })
	return digestOf(ejson.Value{Kind: ejson.Object, Members: members}.Append(nil))
}

// stateMembers are those that a replicator writes, in a fixed order.
func stateMembers(body ejson.Value) (members []ejson.Member) {
	for _, name := range docs.ReplicationMembers {
		if v, has := body.Get(name); has {
			members = append(members, ejson.Member{Name: name, Value: v})
		}
	}
	return members
}

func stateDigest(members []ejson.Member) string {
	if len(members) == 0 {
		return noState
	}
	return digestOf(ejson.Value{Kind: ejson.Object, Members: members}.Append(nil))
}

// over reports whether members say that a replication has ended for good.
func over(body ejson.Value) bool {
	state, _ := body.Get("_replication_state")
	return jobstore.State(state.Text).Terminal()
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawStdEncoding.EncodeToString(sum[:15])
}

// withState returns a document with other members of state. All else is as it was.
func withState(raw []byte, members []ejson.Member) ([]byte, error) {
	doc, err := ejson.Parse(raw)
	if err != nil {
		return nil, err
	}
	doc.Members = slices.DeleteFunc(doc.Members, func(m ejson.Member) bool {
		return slices.Contains(docs.ReplicationMembers, m.Name)
	})
	doc.Members = append(doc.Members, members...)
	return doc.Append(nil), nil
}

// stateIn reads a document of the mirror, of a size in bytes, and the digest of its state; that of one which is not
// there is empty.
func stateIn(db *docs.Database, id string) (body ejson.Value, digest string, size int, err error) {
	doc, err := db.Read(id, docs.Want{})
	if errors.Is(err, docs.ErrMissing) || errors.Is(err, docs.ErrDeleted) {
		return body, "", 0, nil
	}
	if err != nil {
		return body, "", 0, err
	}
	body, err = ejson.Parse(doc.Body)
	return body, stateDigest(stateMembers(body)), len(doc.Body), err
}

// Follow makes the jobs and mirrors of databases, and removes those of all others: the configuration that was read
// last counts. It may be repeated. instances are new, one for each database. It returns the names of the mirrors that
// it made and removed. It fails with a jobs.UnreadableError if a job cannot be read. The jobs in without stay as they
// are.
func Follow(tx kv.Tx, s *Store, list []Database, instances []tuple.UUID, now instant.Time, without ...string) (
	made, gone []string, err error,
) {
	kept := map[string]bool{}
	for _, id := range without {
		kept[id] = true
	}
	for i, d := range list {
		if kept[d.ID()] {
			continue
		}
		kept[d.ID()] = true
		changed, err := s.add(tx, d, instances[i], now)
		if err != nil {
			return nil, nil, jobs.OfJob(d.ID(), err)
		}
		if changed {
			made = append(made, d.ID())
		}
	}
	ids, err := s.Keys.Jobs.IDs(tx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		if kept[id] {
			continue
		}
		gone = append(gone, id)
		if err := s.remove(tx, id); err != nil {
			return nil, nil, jobs.OfJob(id, err)
		}
	}
	return made, gone, nil
}

// add makes the job of a database unless there is one as the configuration has it.
func (s *Store) add(tx kv.Tx, d Database, instance tuple.UUID, now instant.Time) (changed bool, err error) {
	old, err := s.Queue.Get(tx, d.ID())
	if err != nil {
		return false, err
	}
	data := &Job{Database: d}
	if old == nil {
		if err := s.create(tx, d, instance, now); err != nil {
			return false, err
		}
	} else {
		was, err := decodeJob(old)
		if err != nil || was.Database == d {
			return false, err
		}
		if was.Trusted != d.Trusted {
			return true, s.anew(tx, d, instance, now)
		}
		data = was
		if was.URL != d.URL {
			data.another("")
		}
		data.Database = d
		if _, err := s.Queue.Remove(tx, d.ID()); err != nil { // its run ends, and another one begins
			return false, err
		}
	}
	db, err := s.Relay.Docs.Open(tx, d.ID())
	if err != nil {
		return false, err
	}
	docs.Mirror(db, d.URL, d.Trusted)
	return true, s.Queue.Add(tx, d.ID(), ready, data.encode())
}

// create makes the mirror of a database.
func (s *Store) create(tx kv.Tx, d Database, instance tuple.UUID, now instant.Time) error {
	if err := s.Relay.Docs.Create(tx, d.ID(), instance, now); err != nil {
		return fmt.Errorf("[follow %s]: mirror %s of database %s: %w", d.Section, d.ID(), d.Name, err)
	}
	return nil
}

// anew makes the job and the mirror of a database anew, since other documents are trusted: what its documents may do
// was decided when they were read. The security object stays.
func (s *Store) anew(tx kv.Tx, d Database, instance tuple.UUID, now instant.Time) error {
	db, err := s.mirror(tx, d.ID())
	if err != nil {
		return err
	}
	security, err := db.Security()
	if err != nil {
		return err
	}
	if err := s.remove(tx, d.ID()); err != nil {
		return err
	}
	if _, err := s.add(tx, d, instance, now); err != nil {
		return err
	}
	if db, err = s.mirror(tx, d.ID()); err != nil {
		return err
	}
	return db.SetSecurity(security)
}

// another begins to reconcile the mirror with another database.
func (j *Job) another(instance string) {
	j.Instance, j.Since, j.Last, j.Before, j.Goal = instance, "", peer.Mark{}, "", ""
	j.Missing, j.Reconciling = false, true // all documents are read again
	j.Epoch++
}

// reach notes up to where changes are in the mirror after q, or a part of it.
func (j *Job) reach(since peer.Seq, q Apply) {
	if j.Last != q.Last {
		j.Before = j.Since
	}
	j.Since, j.Last, j.Goal = since, q.Last, q.Goal
}

// leftUnread notes why a document was left out that the followed database cannot read, unless there is none.
func (j *Job) leftUnread(t replication.Trouble) {
	if t.Error != "" {
		j.Missing, j.Errors, j.Error, j.Reason = true, 0, t.Error, t.Reason
	}
}

// remove forgets a job with its mirror.
func (s *Store) remove(tx kv.Tx, id string) error {
	if _, err := s.Queue.Remove(tx, id); err != nil {
		return err
	}
	tx.ClearRange(s.Keys.Rows.Sub(id).Range())
	db, err := s.Relay.Docs.Open(tx, id)
	if err != nil {
		return err
	}
	s.Relay.Drop(tx, db.Instance)
	return s.Relay.Docs.Delete(tx, id, db.Instance)
}

// ready is where jobs stand: in no order.
var ready = jobs.Schedule{Priority: tuple.Pack(0)}

// MaxDatabases is how many databases can be followed: all jobs run at any time.
const MaxDatabases = 100
