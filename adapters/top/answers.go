package top

import (
	"bytes"
	"encoding/json"
	"time"

	"couchrelay/adapters/terminal"
)

// Job is a row of the lists of jobs and of documents.
type Job struct {
	Job      string  `json:"job"`
	ID       *string `json:"id"`
	DocID    *string `json:"doc_id"`
	Database *string `json:"database"`
	State    string  `json:"state"`
	Source   *string `json:"source"`
	Target   *string `json:"target"`
	User     *string `json:"user"`
	Node     *string `json:"node"`
	Started  string  `json:"start_time"`
	HeldBy   string  `json:"held_by"`
	WaitsFor string  `json:"waits_for"`
	Refused  int64   `json:"refused"`
	Errors   *int64  `json:"error_count"` // of documents
	Info     *Info   `json:"info"`
	History  []Event `json:"history"` // the newest first
	Pause    *Pause  `json:"pause"`
}

// Info is what the last run of a job told: numbers, or why it ended.
type Info struct {
	Error          string `json:"error"`
	DocsRead       int64  `json:"docs_read"`
	DocsWritten    int64  `json:"docs_written"`
	Failures       int64  `json:"doc_write_failures"`
	ChangesPending *int64 `json:"changes_pending"`
}

// Event is one of a job's history.
type Event struct {
	Timestamp string `json:"timestamp"`
	Type      string `json:"type"`
	Reason    string `json:"reason"`
	By        string `json:"by"`
}

// Pause is why a job is paused.
type Pause struct {
	By     *string `json:"by"`
	At     *string `json:"at"`
	Reason string  `json:"reason"`
}

// Node is a node of the service.
type Node struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Status   string   `json:"status"`
	Running  int64    `json:"running"`
	MaxJobs  int64    `json:"max_jobs"`
	Roles    []string `json:"roles"`
	LastSeen string   `json:"last_seen"`
	Started  string   `json:"start_time"`
}

// rows is a page of a list.
type rows struct {
	Total  *int64 `json:"total_rows"`
	Cursor string `json:"cursor"`
	Jobs   []Job  `json:"jobs"`
	Docs   []Job  `json:"docs"`
}

// Counters are what a node has counted since its start, by which rates are measured.
type Counters struct {
	Starts, Crashes, Throttled, Docs, Bytes float64
	// Uptime is the node's, in seconds: one that falls tells of a new start.
	Uptime float64
}

// figures are the numbers that the view reads from the statistics of a node.
type figures struct {
	known    bool
	counters Counters
	jobs     map[string]int64 // by state; nil if they are not known
	slots    int64
	used     int64
	holds    int64
	store    bool
}

// readFigures reads the statistics of a node. Those of a CouchDB tell nothing that is known.
func readFigures(raw []byte) (f figures, err error) {
	var all struct {
		Relay tree `json:"couchrelay"`
		Couch tree `json:"couch_replicator"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return f, err
	}
	r := all.Relay
	if len(r.below) == 0 {
		return f, nil
	}
	f = figures{
		known: true, slots: int64(r.at("slots").sum()), used: int64(r.at("slots_used").sum()),
		holds: int64(r.at("holds").sum()), store: r.at("store_up").sum() != 0,
		counters: Counters{
			Starts: all.Couch.at("jobs", "starts").sum(), Crashes: all.Couch.at("jobs", "crashes").sum(),
			Throttled: r.at("endpoint_requests_total", "throttled").sum(), Docs: r.at("documents_written_total").sum(),
			Bytes: r.at("document_written_bytes_total").sum(), Uptime: r.at("uptime_seconds").sum(),
		},
	}
	if states := r.at("jobs"); len(states.below) > 0 {
		f.jobs = map[string]int64{}
		for name, n := range states.below {
			f.jobs[name] = int64(n.sum())
		}
	}
	return f, nil
}

// tree is a part of the statistics: a value, or parts with names.
type tree struct {
	value float64
	below map[string]tree
}

// UnmarshalJSON reads it. Values that are no numbers, of histograms, count as 0.
func (t *tree) UnmarshalJSON(raw []byte) error {
	var parts map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return nil // of a leaf: its description and type
	}
	if value, has := parts["value"]; has && bytes.HasPrefix(parts["type"], []byte{'"'}) { // no server of that name
		_ = json.Unmarshal(value, &t.value)
		return nil
	}
	t.below = map[string]tree{}
	for name, part := range parts {
		var b tree
		_ = b.UnmarshalJSON(part)
		t.below[name] = b
	}
	return nil
}

func (t tree) at(path ...string) tree {
	for _, name := range path {
		t = t.below[name]
	}
	return t
}

// sum returns the sum of all values in the tree.
func (t tree) sum() float64 {
	sum := t.value
	for _, b := range t.below {
		sum += b.sum()
	}
	return sum
}

// text is a text of the service, harmless, empty for none.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return terminal.Clean(*s)
}

// name is what people call a job: its document, or its replication id.
func (j *Job) name() string {
	for _, s := range []*string{j.DocID, j.ID} {
		if s != nil && *s != "" {
			return text(s)
		}
	}
	return terminal.Clean(j.Job)
}

// problem is why a job does not run, in words.
func (j *Job) problem() string {
	switch {
	case j.Pause != nil:
		return "paused: " + terminal.Clean(j.Pause.Reason)
	case j.HeldBy != "":
		return "held by " + terminal.Clean(j.HeldBy)
	case j.WaitsFor != "":
		return "waits for " + terminal.Clean(j.WaitsFor)
	case j.Info != nil:
		return terminal.Clean(j.Info.Error)
	}
	return ""
}

// errors counts the crashes that are still in the job's history, and the documents that its target refused.
func (j *Job) errors() int64 {
	n := j.Refused
	if j.Errors != nil {
		return n + *j.Errors
	}
	for _, e := range j.History {
		if e.Type == "crashed" {
			n++
		}
	}
	return n
}

// pending is how many changes the job has to copy; known is false while no run has told it.
func (j *Job) pending() (n int64, known bool) {
	if j.Info == nil || j.Info.ChangesPending == nil {
		return 0, false
	}
	return *j.Info.ChangesPending, true
}

// window is the time over which rates are measured: other nodes than the answering one tell numbers every ten seconds.
const window = 15 * time.Second

// sample is a value at a time.
type sample struct {
	at    time.Time
	value Counters
}

// series are samples of one window.
type series []sample

// late is by how much an answer may be told later than it was true, beside another one.
const late = 10 * time.Second

// add takes a sample in. Values that fall begin anew: a node, or a run, has started over. So do values of a node with
// another start: a load balancer may have the nodes answer in turn.
func (s series) add(at time.Time, value Counters) series {
	if n := len(s); n > 0 {
		last := s[n-1]
		moved := time.Duration((value.Uptime-last.value.Uptime)*float64(time.Second)) - at.Sub(last.at)
		if value.Uptime < last.value.Uptime || value.Docs < last.value.Docs || value.Uptime > 0 && moved.Abs() > late {
			s = nil
		}
	}
	for len(s) > 1 && at.Sub(s[1].at) >= window {
		s = s[1:]
	}
	return append(s, sample{at, value})
}

// rate is by how much a value grew in a second; known is false before there are two samples.
func (s series) rate(of func(Counters) float64) (perSecond float64, known bool) {
	if len(s) < 2 {
		return 0, false
	}
	from, to := s[0], s[len(s)-1]
	passed := to.at.Sub(from.at).Seconds()
	if passed <= 0 {
		return 0, false
	}
	return (of(to.value) - of(from.value)) / passed, true
}
