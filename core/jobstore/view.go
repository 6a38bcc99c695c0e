package jobstore

import (
	"cmp"
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
)

// Job is a job as lists return it.
type Job struct {
	ID string
	*Record
}

// DocumentJobs returns the prefix of the ids of all jobs of documents of a database; the rest of an id is the
// document's.
func DocumentJobs(instance tuple.UUID) string { return instancePrefix(instance) }

// View is what users are told of a job, in lists of jobs, of documents and of tasks alike. Empty texts are
// unknown, or do not apply.
type View struct {
	Database string // of the document; empty for a job of a request
	DocID    string
	User     string // who sent the request, or whose the document is

	Source, Target           string // URLs without credentials
	SourceProxy, TargetProxy string
	Continuous               bool
	CheckpointInterval       int64    // in milliseconds
	Unknown                  []string // fields of the document or request that mean nothing

	State State
	// RepID is the replication id, once it is known.
	RepID string
	// ActiveID is RepID until the job is over: as in CouchDB, a document has no id then.
	ActiveID string
	// Node and Run name the node and the run; Run is empty unless the job is running.
	Node, Run string
	// ErrorCount is how many times the job crashed in a row, and 1 for a failed one.
	ErrorCount int
	// Problem says in words why the job is crashing or failed; it is empty in all other states.
	Problem string
	// Stats is nil as long as there are no numbers, and when there is a problem to tell instead.
	Stats *Stats
	// Refused is the number of documents that the target refused and has not got since.
	Refused int64
	History []Event // newest first

	Created, LastStart, LastUpdated instant.Time // LastStart is 0 before the first start

	Control
}

// View returns what users are told of the job.
func (r *Record) View() View {
	v := View{
		Database: r.Database, DocID: r.DocID, User: r.User,
		Source: r.Source, Target: r.Target, SourceProxy: r.SourceProxy,
		TargetProxy: r.TargetProxy, Continuous: r.Continuous, CheckpointInterval: r.CheckpointInterval,
		Unknown: r.Unknown,
		State:   r.State, RepID: r.RepID, Node: r.Node, ErrorCount: r.ErrorCount, History: r.History,
		Refused: r.RefusedTotal(),
		Created: r.Created, LastStart: r.LastStart, LastUpdated: r.LastUpdated,
		Control: r.Control,
	}
	if r.Paused {
		v.State = Paused
	}
	v.Weight = cmp.Or(r.Weight, schedule.DefaultWeight)
	if r.State.Terminal() {
		v.Reset = 0 // no run is left to carry the order out
	} else {
		v.ActiveID = r.RepID
	}
	if r.State == Running {
		v.Run = r.Node + "@" + r.LastStart.ISO8601()
	}
	if r.State == Failed {
		v.ErrorCount = 1
	}
	switch {
	case r.State == Unreadable:
		v.Database, v.Problem = "", r.Reason
	case r.State == Crashing || r.State == Failed:
		v.Problem = r.explanation()
	case r.LastStart != 0 || !r.Stats.Untold():
		v.Stats = &r.Stats
	}
	return v
}

// Redacted is what users are told that may know of the job and nothing more: URLs have no queries.
func (v View) Redacted() View {
	for _, address := range []*string{&v.Source, &v.Target, &v.SourceProxy, &v.TargetProxy} {
		if *address != "" {
			*address = RedactURL(*address)
		}
	}
	v.Problem, v.History = RedactText(v.Problem), slices.Clone(v.History)
	for i := range v.History {
		v.History[i].Reason = RedactText(v.History[i].Reason)
	}
	return v
}

// explanation is the error in words: CouchDB's text for the errors that CouchDB knows, else with the error's
// name.
func (r *Record) explanation() string {
	if r.Error == "" || r.Error == string(Failed) || r.Error == "duplicate" || r.Error == "parse_error" ||
		strings.Contains(r.Reason, r.Error) {
		return r.Reason
	}
	return r.Error + ": " + r.Reason
}
