package jobstore

import (
	"fmt"
	"strings"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// State is the state of a replication, in the words of RFC 016. To the queue a Pending or Crashing job is
// pending, ready or waiting until its due time; Completed and Failed ones are finished.
type State string

// States.
const (
	Pending   State = "pending"
	Running   State = "running"
	Crashing  State = "crashing" // it crashed, and waits before it is tried again
	Paused    State = "paused"   // a user stopped it until further notice; see Record.Pause
	Completed State = "completed"
	Failed    State = "failed"
	// Unreadable is in lists alone: a row of the job cannot be read.
	Unreadable State = "unreadable"
)

// Terminal reports whether a replication in this state is over for good.
func (s State) Terminal() bool { return s == Completed || s == Failed }

// Record is the data of a job in the queue: what is known of the job besides the replication itself. It
// holds no credentials. While the job runs only the worker that holds it changes the record, under the
// lock. Times are of the wall clock of the node that wrote them.
type Record struct {
	Database string `json:"database,omitempty"` // of the document; empty for a job of a request
	Instance string `json:"instance,omitempty"` // of the database, as jobs' ids begin with it
	DocID    string `json:"doc_id,omitempty"`
	User     string `json:"user,omitempty"` // who sent the request, or whose the document is (userOf); empty for none

	// Source and the others describe the replication for lists, without users and passwords.
	Source      string `json:"source"`
	Target      string `json:"target"`
	SourceProxy string `json:"source_proxy,omitempty"`
	TargetProxy string `json:"target_proxy,omitempty"`
	Continuous  bool   `json:"continuous,omitempty"`
	// CheckpointInterval is in milliseconds.
	CheckpointInterval int64 `json:"checkpoint_interval"`
	// Unknown names fields of the document or request that mean nothing; see spec.Replication.
	Unknown []string `json:"unknown_fields,omitempty"`

	// State is never Paused: a job is paused while it stands in the lot for that (Parking), and keeps its state for
	// its return.
	State State `json:"state"`
	Control
	// RepID is the replication id, once it is known; BaseID is RepID without its extension. A job that is
	// not over and has a RepID has the claim to it, unless another job had it first (see Owned.Claim).
	RepID  string `json:"rep_id,omitempty"`
	BaseID string `json:"base_id,omitempty"`
	// Error and Reason tell why the job is crashing or failed, and else why it crashed last: the next
	// healthy run clears them.
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
	Lessons
	ErrorCount int   `json:"error_count,omitempty"` // crashes in a row; not negative; waits grow with it
	Stats      Stats `json:"stats"`                 // as the run told last; the next run counts on
	// Refused counts the rows of the list of refused documents; nil before the first.
	Refused *RefusedDocs `json:"refused,omitempty"`
	// Result is the answer to POST /_replicate of a completed job, a JSON object without "ok".
	Result json.Raw `json:"result,omitempty"`

	Created     instant.Time `json:"created"`
	LastStart   instant.Time `json:"last_start,omitempty"` // when it was accepted last, or 0
	LastUpdated instant.Time `json:"last_updated"`
	// Expires is when a finished job of a request is forgotten; 0 for all others. A row of the expire index
	// has it too.
	Expires instant.Time `json:"expires,omitempty"`
	Node    string       `json:"node,omitempty"` // the name of the node that runs it, while it is running
	History []Event      `json:"history"`        // newest first, bounded by max_history and maxHistory
}

// Lessons are what the next run does otherwise after crashes of those before it.
type Lessons struct {
	// Throttled reports that the last crash was because of answers 429. The next run is gentler then.
	Throttled bool `json:"throttled,omitempty"`
	// Stuck counts crashes in a row of runs that got no further; see Record.tell. After some the next run leaves out
	// documents that it cannot copy.
	Stuck int `json:"stuck,omitempty" eventlog:"omitzero"`
}

// Event is a moment in the life of a job.
type Event struct {
	Type   string       `json:"type"` // added, started, stopped, pending, crashed
	At     instant.Time `json:"at"`
	Reason string       `json:"reason,omitempty"`
	By     string       `json:"by,omitempty"` // the user that asked for it
}

// Stats are the numbers of a replication with CouchDB's names.
type Stats struct {
	RevisionsChecked      int64   `json:"revisions_checked"`
	MissingRevisionsFound int64   `json:"missing_revisions_found"`
	DocsRead              int64   `json:"docs_read"`
	DocsWritten           int64   `json:"docs_written"`
	ChangesPending        *int64  `json:"changes_pending"`
	DocWriteFailures      int64   `json:"doc_write_failures"`
	BulkGetDocs           int64   `json:"bulk_get_docs"`
	BulkGetAttempts       int64   `json:"bulk_get_attempts"`
	CheckpointedSourceSeq SeqText `json:"checkpointed_source_seq"`
	SourceSeq             SeqText `json:"source_seq"`
	ThroughSeq            SeqText `json:"through_seq"`
	// SourceReadOnly reports that the source stores no checkpoints.
	SourceReadOnly bool `json:"source_read_only,omitempty"`
	// ListSaved is for the next run; see replication.Plan. Documents and users are not told.
	ListSaved [2]int64 `json:"list_saved,omitzero" eventlog:"omitzero"`
}

// ofCheckpoints is what is known of the job's checkpoints, which counts as long as they do.
func (s Stats) ofCheckpoints() Stats { return Stats{ListSaved: s.ListSaved} }

// Untold reports whether no run has told any numbers.
func (s Stats) Untold() bool { return s == s.ofCheckpoints() }

// unbegun reports whether the numbers are of a run that could not begin, as a file of certificates was not there. Such
// numbers have no changes pending and no place in the feed, and are zero otherwise, whatever the job has done before.
func (s Stats) unbegun() bool {
	pending := s.ChangesPending
	s.ChangesPending = nil
	return pending != nil && *pending == 0 && s == Stats{}
}

// SeqText is a sequence as monitoring shows it: always a string, though servers may have any JSON for one.
type SeqText string

func seqText(s peer.Seq) SeqText {
	if len(s) == 0 {
		return ""
	}
	var text string
	if json.Decode([]byte(s), &text) == nil {
		return SeqText(text)
	}
	return SeqText(s)
}

// StatsOf converts what a run tells about itself.
func StatsOf(i replication.Info) Stats {
	s := Stats{
		RevisionsChecked: i.MissingChecked, MissingRevisionsFound: i.MissingFound,
		DocsRead: i.DocsRead, DocsWritten: i.DocsWritten, DocWriteFailures: i.DocWriteFailures,
		BulkGetDocs: i.BulkGetDocs, BulkGetAttempts: i.BulkGetAttempts,
		CheckpointedSourceSeq: seqText(i.CheckpointedSeq), SourceSeq: seqText(i.SourceSeq),
		ThroughSeq: seqText(i.ThroughSeq), SourceReadOnly: i.SourceReadOnly, ListSaved: i.ListSaved,
	}
	if i.ChangesPending >= 0 {
		s.ChangesPending = &i.ChangesPending
	}
	return s
}

// Counters are the totals that the next run continues.
func (s Stats) Counters() checkpoint.Counters {
	return checkpoint.Counters{
		MissingChecked: s.RevisionsChecked, MissingFound: s.MissingRevisionsFound,
		DocsRead: s.DocsRead, DocsWritten: s.DocsWritten, DocWriteFailures: s.DocWriteFailures,
		BulkGetDocs: s.BulkGetDocs, BulkGetAttempts: s.BulkGetAttempts,
	}
}

// Transient reports whether the job was made by a request to /_replicate.
func (r *Record) Transient() bool { return r.Database == "" }

// Bounds of what a record keeps, in bytes: it is written together with those of others, and with its
// document.
const (
	maxHistory = 256 << 10
	maxReason  = 100_000
	maxSeqText = 64 << 10 // each of a few, only for people
	maxResult  = 1 << 20
)

// note adds an event to the history. The oldest events go when there are more than limit, or than fit.
func (r *Record) note(limit int, events ...Event) {
	for _, e := range events {
		e.Reason = clip(e.Reason, maxReason)
		r.History = append([]Event{e}, r.History...)
	}
	r.History = r.History[:min(len(r.History), max(limit, 1))]
	size := 0
	for i, e := range r.History {
		if size += len(e.Type) + len(e.Reason) + 50; size > maxHistory {
			r.History = r.History[:i]
			break
		}
	}
}

// Waited returns how long a job that was just accepted had been waiting for its turn; known is false after a crash, for
// the wait for another attempt is no matter of the queue, and if the history does not tell. Time under a hold counts.
func (r *Record) Waited() (d time.Duration, known bool) {
	if len(r.History) < 2 || r.History[0].Type != "started" {
		return 0, false
	}
	switch before := r.History[1]; before.Type {
	case "added", "pending", "resumed", "retried":
		return max(0, r.History[0].At.Sub(before.At)), true
	}
	return 0, false
}

// clip shortens a text to a number of bytes and shows that it did.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// bound shortens the texts whose length servers and documents determine.
func (r *Record) bound() {
	r.Reason = clip(r.Reason, maxReason)
	for _, seq := range []*SeqText{&r.Stats.CheckpointedSourceSeq, &r.Stats.SourceSeq, &r.Stats.ThroughSeq} {
		*seq = SeqText(clip(string(*seq), maxSeqText))
	}
	if len(r.Result) > maxResult {
		r.Result = nil // the request is answered without the history
	}
}

// heal forgets earlier crashes.
func (r *Record) heal() { r.ErrorCount, r.Error, r.Reason, r.Throttled = 0, "", "", false }

// tell takes the numbers of a run. One that has moved the checkpoint on, or has done all there is, is not stuck. How
// long it lasts tells nothing of that: a document that cannot be copied may be slow to fail.
func (r *Record) tell(stats Stats) {
	if stats.unbegun() {
		return
	}
	before, now := r.Stats.CheckpointedSourceSeq, stats.CheckpointedSourceSeq
	moved := before != "" && now != "" && now != before // it is empty until the run has read the logs
	pending := stats.ChangesPending
	if moved || pending != nil && *pending == 0 && stats.ThroughSeq == stats.SourceSeq {
		r.Stuck = 0
	}
	r.Stats = stats
}

// Crashes is how many runs before the next one crashed in a row, or without getting further.
func (r *Record) Crashes() int { return max(r.ErrorCount, r.Stuck) }

// describe copies what monitoring shows of the replication.
func (r *Record) describe(rep *spec.Replication) {
	r.Source, r.Target, r.Continuous = rep.Source.URL, rep.Target.URL, rep.Continuous
	r.CheckpointInterval = rep.CheckpointInterval.Milliseconds()
	r.Unknown = rep.Unknown
	r.Weight = rep.Weight
	r.SourceProxy, r.TargetProxy = "", ""
	if rep.Source.Proxy != nil {
		r.SourceProxy = rep.Source.Proxy.URL
	}
	if rep.Target.Proxy != nil {
		r.TargetProxy = rep.Target.Proxy.URL
	}
}

func (r *Record) encode() []byte {
	r.bound()
	b, err := json.Encode(r)
	if err != nil {
		panic("jobstore: " + err.Error()) // Result is JSON that we made
	}
	return b
}

// decodeRecord reads the record of a job. When a worker vanishes, its jobs are requeued without parsing
// their records, so a record may still say "running". The job's header is authoritative.
func decodeRecord(j *jobs.Job) (*Record, error) {
	var r Record
	if err := json.DecodeRecord(j.Data, &r); err != nil {
		return nil, fmt.Errorf("%w: record of job %q: %w", jobs.ErrCorrupt, j.ID, err)
	}
	if j.State == jobs.Pending && r.State == Running {
		r.State, r.Node = Pending, ""
	}
	if j.State == jobs.Pending {
		r.Parking = parking(j.Lot)
	}
	return &r, nil
}

// readJob reads a job with its record; both are nil when there is none.
func readJob(s *Store, r kv.Reader, jobID string) (*jobs.Job, *Record, error) {
	j, err := s.Jobs.Get(r, jobID)
	if err != nil || j == nil {
		return nil, nil, err
	}
	rec, err := decodeRecord(j)
	return j, rec, err
}

// Subscribe reads a job's record, nil when there is no job; until it is wanted, with a watch that fires once the
// job is another: its state or, with data, anything of its record. See jobs.Queue.Subscribe.
func Subscribe(
	tx kv.Tx, s *Store, jobID string, data bool, wanted func(*Record) bool,
) (rec *Record, watch kv.Watch, err error) {
	_, watch, err = s.Jobs.Subscribe(tx, jobID, jobs.Interest{Data: data, Until: func(j *jobs.Job) (bool, error) {
		if j == nil {
			return true, nil
		}
		rec, err = decodeRecord(j)
		return err == nil && wanted(rec), err
	}})
	return rec, watch, err
}

// Record reads a job; nil when there is none.
func (s *Store) Record(r kv.Reader, jobID string) (*Record, error) {
	_, rec, err := readJob(s, r, jobID)
	return rec, err
}
