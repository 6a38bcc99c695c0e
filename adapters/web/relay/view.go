package relay

import (
	"cmp"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
)

// job is a job as GET /_scheduler/jobs shows it.
type job struct {
	Database  *string        `json:"database"`
	ID        *string        `json:"id"`
	PID       *string        `json:"pid"` // CouchDB shows an Erlang process here
	Source    string         `json:"source"`
	Target    string         `json:"target"`
	User      *string        `json:"user"`
	DocID     *string        `json:"doc_id"`
	Info      any            `json:"info"`
	History   []event        `json:"history"`
	Node      *string        `json:"node"`
	State     jobstore.State `json:"state"`
	StartTime timestamp      `json:"start_time"`
	Unknown   []string       `json:"unknown_fields,omitempty"`
	Weight    int64          `json:"weight"`
	steering
}

// steering is what a job has beyond CouchDB's: its own id, and what keeps it from running.
type steering struct {
	Job      string `json:"job"` // by which requests for the job name it, beside its replication id
	Pause    *pause `json:"pause,omitempty"`
	Reset    bool   `json:"reset,omitzero"`      // it starts over as soon as it runs
	HeldBy   string `json:"held_by,omitempty"`   // the id of a hold
	WaitsFor string `json:"waits_for,omitempty"` // the replication id that another job has
	// Refused is the number of documents that the target refused and has not got since.
	Refused int64 `json:"refused,omitzero"`
}

// pause is why a job is paused, or about to be.
type pause struct {
	By     *string    `json:"by"` // null for an unknown user, and if the document says it
	At     *timestamp `json:"at"` // null if the document says it
	Reason string     `json:"reason"`
}

func steeringOf(id string, v jobstore.View) steering {
	c := steering{Job: id, Reset: v.Reset != 0, HeldBy: v.HeldBy, WaitsFor: v.WaitsFor,
		Refused: v.Refused}
	switch {
	case v.Pause != nil:
		at := timestamp(v.Pause.At)
		c.Pause = &pause{By: orNull(v.Pause.By), At: &at, Reason: v.Pause.Reason}
	case v.PausedByDocument:
		c.Pause = &pause{Reason: `the document says "paused": true`}
	}
	return c
}

// event is an event of a job's history.
type event struct {
	Timestamp timestamp `json:"timestamp"`
	Type      string    `json:"type"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"` // the user that asked for it
}

func jobOf(id string, v jobstore.View) job {
	j := job{
		Database: orNull(v.Database), ID: orNull(v.RepID), PID: orNull(v.Run),
		Source: v.Source, Target: v.Target, User: orNull(v.User),
		DocID: orNull(v.DocID), Info: infoOf(v), History: make([]event, len(v.History)),
		Node: orNull(v.Node), State: v.State,
		StartTime: timestamp(v.Created), Weight: v.Weight,
		Unknown: v.Unknown, steering: steeringOf(id, v),
	}
	for i, e := range v.History {
		j.History[i] = event{Timestamp: timestamp(e.At), Type: e.Type, Reason: e.Reason, By: e.By}
	}
	return j
}

// document is a document's replication as GET /_scheduler/docs shows it.
type document struct {
	Database    string         `json:"database"`
	DocID       string         `json:"doc_id"`
	ID          *string        `json:"id"`
	Node        *string        `json:"node"`
	Source      *string        `json:"source"`
	Target      *string        `json:"target"`
	SourceProxy *string        `json:"source_proxy"`
	TargetProxy *string        `json:"target_proxy"`
	State       jobstore.State `json:"state"`
	Info        any            `json:"info"`
	ErrorCount  int            `json:"error_count"`
	LastUpdated timestamp      `json:"last_updated"`
	StartTime   timestamp      `json:"start_time"`
	PID         *string        `json:"pid"`
	Unknown     []string       `json:"unknown_fields,omitempty"`
	Weight      int64          `json:"weight"`
	steering
}

// documentOf shows a document whose job had an error of a class, if any.
func documentOf(id, class string, v jobstore.View) document {
	d := document{
		Database: v.Database, DocID: v.DocID, ID: orNull(v.ActiveID),
		Node: orNull(v.Node), Source: orNull(v.Source), Target: orNull(v.Target),
		SourceProxy: orNull(v.SourceProxy), TargetProxy: orNull(v.TargetProxy),
		State: v.State, Info: infoOf(v),
		ErrorCount: v.ErrorCount, LastUpdated: timestamp(v.LastUpdated),
		StartTime: timestamp(v.Created), PID: orNull(v.Run), Weight: v.Weight,
		Unknown: v.Unknown, steering: steeringOf(id, v),
	}
	if d.State = shownAs(v.State, class); d.State == errored {
		d.ID = nil // which depends on the filter function
	}
	return d
}

// task is a running job as GET /_active_tasks shows it.
type task struct {
	stats
	Type               string  `json:"type"`
	Node               string  `json:"node"`
	PID                *string `json:"pid"`
	ProcessStatus      string  `json:"process_status"`
	ReplicationID      *string `json:"replication_id"`
	Database           *string `json:"database"`
	DocID              *string `json:"doc_id"`
	User               *string `json:"user"`
	Source             string  `json:"source"`
	Target             string  `json:"target"`
	Continuous         bool    `json:"continuous"`
	CheckpointInterval int64   `json:"checkpoint_interval"`
	StartedOn          int64   `json:"started_on"`
	UpdatedOn          int64   `json:"updated_on"`
}

func taskOf(v jobstore.View) task {
	t := task{
		Type: "replication", Node: v.Node, PID: orNull(v.Run),
		ProcessStatus: "running", ReplicationID: orNull(v.RepID),
		Database: orNull(v.Database), DocID: orNull(v.DocID), User: orNull(v.User),
		Source: v.Source, Target: v.Target,
		Continuous: v.Continuous, CheckpointInterval: v.CheckpointInterval,
		StartedOn: v.LastStart.Unix(), UpdatedOn: v.LastUpdated.Unix(),
	}
	if v.Stats != nil {
		t.stats = statsOf(*v.Stats)
	} else {
		t.stats = statsOf(jobstore.Stats{})
	}
	return t
}

// stats are the numbers of a replication with CouchDB's names.
type stats struct {
	RevisionsChecked      int64            `json:"revisions_checked"`
	MissingRevisionsFound int64            `json:"missing_revisions_found"`
	DocsRead              int64            `json:"docs_read"`
	DocsWritten           int64            `json:"docs_written"`
	ChangesPending        *int64           `json:"changes_pending"`
	DocWriteFailures      int64            `json:"doc_write_failures"`
	BulkGetDocs           int64            `json:"bulk_get_docs"`
	BulkGetAttempts       int64            `json:"bulk_get_attempts"`
	CheckpointedSourceSeq jobstore.SeqText `json:"checkpointed_source_seq"`
	SourceSeq             jobstore.SeqText `json:"source_seq"`
	ThroughSeq            jobstore.SeqText `json:"through_seq,omitempty"`     // as in CouchDB there is none at first
	SourceReadOnly        bool             `json:"source_read_only,omitzero"` // CouchDB has no such member

	ListSaved [2]int64 `json:"-"` // it is for couchrelay's next run
}

// statsOf shows numbers. Clients use a sequence as "since", so none is empty.
func statsOf(s jobstore.Stats) stats {
	s.SourceSeq, s.CheckpointedSourceSeq = cmp.Or(s.SourceSeq, "0"), cmp.Or(s.CheckpointedSourceSeq, "0")
	return stats(s)
}

// infoOf returns the statistics, the problem, or null.
func infoOf(v jobstore.View) any {
	switch {
	case v.State == jobstore.Crashing || v.State == jobstore.Failed || v.State == jobstore.Unreadable:
		return struct {
			Error string `json:"error"`
		}{v.Problem}
	case v.Stats == nil || v.Stats.Untold():
		return nil
	}
	return statsOf(*v.Stats)
}

// timestamp is a time in whole seconds as CouchDB writes it: "2026-01-31T08:05:59Z".
type timestamp instant.Time

// MarshalText writes the time.
func (t timestamp) MarshalText() ([]byte, error) { return []byte(instant.Time(t).ISO8601()), nil }

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
