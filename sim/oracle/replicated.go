package oracle

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/sim/world"
)

// replicated are the invariants of documents that come from another server as they are (new_edits=false).
type replicated struct {
	*chronicle
	came map[string]arrived // by key of docs, those that nobody has written since
}

// arrived is a document as it was sent.
type arrived struct {
	token uint64
	body  map[string]json.RawMessage
}

var replicatedSubject = subject{
	invariants: []Invariant{
		{"S92a", "A document that is replicated into the service is not refused for what it asks for."},
		{"S92b", "A replicated document that asks for no valid replication says as failed which field is wrong, " +
			"and so does its job, which never runs."},
		{"S92c", "A replicated document that says that its replication is over stays as it was sent, and does not " +
			"run unless a user retries it."},
		{"S92d", "A revision that is replicated once more changes nothing."},
	},
	begin: func(c *chronicle) {
		r := &replicated{c, map[string]arrived{}}
		c.on.documentWritten.add(func(f world.DocumentWritten) { delete(r.came, r.key(f.Doc)) })
		c.on.documentReplicated.add(r.note)
		c.on.documentRepeated.add(func(f world.DocumentRepeated) {
			if f.Changed {
				r.Fail("S92d", "document %s was sent again as %d, and that changed it", r.key(f.Doc), f.Token)
			}
		})
		c.on.replicatedRefused.add(func(f world.ReplicatedRefused) {
			if !errors.Is(f.Err, docs.ErrNoDatabase) {
				r.Fail("S92a", "replicated document %s is refused: %v", r.key(f.Doc), f.Err)
			}
		})
		c.on.runStarted.add(r.checkRun)
		c.on.atRest.add(func(struct{}) { r.checkAtRest() })
	},
}

func (r *replicated) key(j *world.JobDoc) string { return j.Tenant().Name() + " " + j.ID() }

func (r *replicated) note(f world.DocumentReplicated) {
	a := arrived{token: f.Token}
	if json.Unmarshal(f.Body, &a.body) == nil {
		r.came[r.key(f.Doc)] = a
	}
}

// wrong is the first field with which a document asks for no valid replication, empty if there is none.
func (a arrived) wrong() string {
	for _, w := range world.Invalid {
		value, err := json.Marshal(w.Value)
		if err == nil && sameJSON(a.body[w.Field], value) {
			return w.Field
		}
	}
	return ""
}

// state is the one that a document says, if its replication is over by that.
func (a arrived) state() jobstore.State {
	var state jobstore.State
	_ = json.Unmarshal(a.body["_replication_state"], &state)
	return state
}

// checkRun is S92b and S92c for a job that runs. A run that began before the document arrived is that of no replicated
// one, since these have names of their own.
func (r *replicated) checkRun(run *run) {
	for key, a := range r.came {
		truth := r.docs[key]
		if truth == nil || truth.j.Unsure() || truth.j.JobID() != run.JobID() || a.token != truth.token {
			continue
		}
		switch {
		case a.wrong() != "":
			r.Fail("S92b", "document %s has a wrong field %s, and runs", key, a.wrong())
		case a.state() == jobstore.Completed:
			r.Fail("S92c", "document %s came as completed, and runs", key)
		}
	}
}

func (r *replicated) checkAtRest() {
	for _, key := range slices.Sorted(maps.Keys(r.came)) {
		truth := r.docs[key]
		if truth == nil || truth.j.Unsure() || truth.token != r.came[key].token {
			continue
		}
		found, s := r.document(truth.j.Tenant(), truth.j.ID()), r.shadows[truth.j.JobID()]
		if found != nil && s != nil && s.header != nil {
			r.check(key, r.came[key], found, s)
		}
	}
}

// check is S92b and S92c for a document whose users know what they wrote. A job that failed elsewhere may have been
// retried, unless its document is wrong.
func (r *replicated) check(key string, a arrived, found *docs.Document, s *shadow) {
	told := toldBy(found)
	switch state, wrong := a.state(), a.wrong(); {
	case state == jobstore.Completed, state == jobstore.Failed && wrong != "":
		for name, sent := range a.body {
			is, has := memberOf(found, name)
			if name[0] == '_' && !strings.HasPrefix(name, "_replication") {
				continue // its id and revision
			}
			if !has || !sameJSON(is, sent) {
				r.Fail("S92c", "document %s came as %s with %s %.100s, and has %.100s", key, state, name, sent, is)
			}
		}
		if s.record.State != state {
			r.Fail("S92c", "document %s came as %s, and its job is %s", key, state, s.record.State)
		}
	case state == "" && wrong != "":
		if told.State != string(jobstore.Failed) || !strings.Contains(told.Reason, "`"+wrong+"`") {
			r.Fail("S92b", "document %s has a wrong field %s, and says %q: %s", key, wrong, told.State, told.Reason)
		}
		if s.record.State != jobstore.Failed || !strings.Contains(s.record.View().Problem, "`"+wrong+"`") {
			r.Fail("S92b", "document %s has a wrong field %s, and its job is %s: %s", key, wrong, s.record.State,
				s.record.View().Problem)
		}
	}
}

// sameJSON reports whether two texts mean the same: a server may write characters in another way than they came.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// memberOf is a member of a document's body.
func memberOf(d *docs.Document, name string) (value json.RawMessage, has bool) {
	var body map[string]json.RawMessage
	_ = json.Unmarshal(d.Body, &body) // a body that is no object has none
	value, has = body[name]
	return value, has
}
