package jobstore

import (
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Job is a job as lists return it.
type Job struct {
	ID string
	*Record
}

// DocumentJobs is the prefix of the ids of all jobs of documents of a database; the rest of an id is the
// document's.
func DocumentJobs(instance tuple.UUID) string { return instancePrefix(instance) }

// List reads jobs in the order of their ids: up to limit of those that begin with prefix and come after
// the id after.
func (s *Store) List(r kv.Reader, prefix, after string, limit int) ([]Job, error) {
	page, err := s.Jobs.List(r, jobs.Page{Prefix: prefix, After: after, Limit: limit})
	if err != nil {
		return nil, err
	}
	list := make([]Job, 0, len(page))
	for _, j := range page {
		rec, err := decodeRecord(j)
		if err != nil {
			return nil, err
		}
		list = append(list, Job{ID: j.ID, Record: rec})
	}
	return list, nil
}

// JobView is a job as GET /_scheduler/jobs shows it.
type JobView struct {
	Database  *string     `json:"database"`
	ID        *string     `json:"id"`
	PID       *string     `json:"pid"`
	Source    string      `json:"source"`
	Target    string      `json:"target"`
	User      *string     `json:"user"`
	DocID     *string     `json:"doc_id"`
	Info      any         `json:"info"`
	History   []EventView `json:"history"`
	Node      *string     `json:"node"`
	State     State       `json:"state"`
	StartTime string      `json:"start_time"`
}

// EventView is an Event with its time as CouchDB writes it.
type EventView struct {
	Timestamp string `json:"timestamp"`
	Type      string `json:"type"`
	Reason    string `json:"reason,omitempty"`
}

// JobView shows the job.
func (r *Record) JobView() JobView {
	v := JobView{
		Database: orNull(r.Database), ID: orNull(r.RepID), PID: r.pid(), Source: r.Source, Target: r.Target, User: orNull(r.User),
		DocID: orNull(r.DocID), Info: r.info(), Node: orNull(r.Node), State: r.State, StartTime: r.Created.ISO8601(),
		History: []EventView{},
	}
	for _, e := range r.History {
		v.History = append(v.History, EventView{Timestamp: e.At.ISO8601(), Type: e.Type, Reason: e.Reason})
	}
	return v
}

// DocView is a document's replication as GET /_scheduler/docs shows it.
type DocView struct {
	Database    string  `json:"database"`
	DocID       string  `json:"doc_id"`
	ID          *string `json:"id"`
	Node        *string `json:"node"`
	Source      *string `json:"source"`
	Target      *string `json:"target"`
	SourceProxy *string `json:"source_proxy"`
	TargetProxy *string `json:"target_proxy"`
	State       State   `json:"state"`
	Info        any     `json:"info"`
	ErrorCount  int     `json:"error_count"`
	LastUpdated string  `json:"last_updated"`
	StartTime   string  `json:"start_time"`
	PID         *string `json:"pid"`
}

// DocView shows the document's replication. As in CouchDB, one that is over has no id.
func (r *Record) DocView() DocView {
	v := DocView{
		Database: r.Database, DocID: r.DocID, Node: orNull(r.Node), Source: orNull(r.Source), Target: orNull(r.Target),
		SourceProxy: orNull(r.SourceProxy), TargetProxy: orNull(r.TargetProxy), State: r.State, Info: r.info(),
		ErrorCount: r.ErrorCount, LastUpdated: r.LastUpdated.ISO8601(), StartTime: r.Created.ISO8601(), PID: r.pid(),
	}
	if !r.State.Terminal() {
		v.ID = orNull(r.RepID)
	}
	if r.State == Failed {
		v.ErrorCount = 1
	}
	return v
}

// TaskView is a running job as GET /_active_tasks shows it.
type TaskView struct {
	Stats
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

// TaskView shows the run.
func (r *Record) TaskView() TaskView {
	return TaskView{
		Stats: r.Stats, Type: "replication", Node: r.Node, PID: r.pid(), ProcessStatus: "running", ReplicationID: orNull(r.RepID),
		Database: orNull(r.Database), DocID: orNull(r.DocID), User: orNull(r.User), Source: r.Source, Target: r.Target,
		Continuous: r.Continuous, CheckpointInterval: r.CheckpointInterval, StartedOn: r.LastStart.Unix(), UpdatedOn: r.LastUpdated.Unix(),
	}
}

// info is the statistics, or what is wrong.
func (r *Record) info() any {
	switch {
	case r.State == Crashing || r.State == Failed:
		return map[string]string{"error": r.explanation()}
	case r.LastStart == 0 && r.Stats == Stats{}:
		return nil
	}
	return r.Stats
}

// explanation is the error in words: CouchDB's text for what it knows, else with the error's name.
func (r *Record) explanation() string {
	if r.Error == "" || r.Error == string(Failed) || r.Error == "duplicate" || r.Error == "parse_error" || strings.Contains(r.Reason, r.Error) {
		return r.Reason
	}
	return r.Error + ": " + r.Reason
}

// pid names the run: CouchDB shows an Erlang process here.
func (r *Record) pid() *string {
	if r.State != Running {
		return nil
	}
	pid := r.Node + "@" + r.LastStart.ISO8601()
	return &pid
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
