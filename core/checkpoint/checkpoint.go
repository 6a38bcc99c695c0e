// Package checkpoint reads, compares and encodes replication logs.
//
// A replication log is the document `_local/ID` that a replication keeps in both of its databases, in the
// format of CouchDB's replicator. It tells up to which sequence of the source everything is on the target: a
// checkpoint. The target's copy proves that the target is the database that got the changes, the source's
// copy that the sequence is of this source. So a checkpoint counts only if both logs have it (Compare); a
// database that was deleted and made again, or restored from a backup, lacks the newest ones, and the
// replication goes on from one that it still has.
//
// In CouchDB's documentation this is "Replication Protocol: Find Common Ancestry" and "Record Replication
// Checkpoint". Package replication decides when logs are read and written.
package checkpoint

import (
	"cmp"
	"fmt"

	"couchrelay/core/invariant"
	"couchrelay/core/json"
	"couchrelay/core/peer"
)

// Version is the replication_id_version of the logs that Encode writes.
const Version = 4

// MaxHistory is the number of history entries that a log keeps, as in CouchDB.
const MaxHistory = 50

const (
	isJSON    invariant.ID = "checkpoint.json: a log has sequences that are JSON"
	trailTidy invariant.ID = "checkpoint.trail: a log has the checkpoint before the newest, and at most maxOwn of a run"
)

// Log is a replication log document. The zero value stands for a document that does not exist.
type Log struct {
	// SessionID and SourceLastSeq are the newest checkpoint. In logs that this package made they repeat
	// History[0].
	SessionID     string   `json:"session_id"`
	SourceLastSeq peer.Seq `json:"-"`
	// History has this checkpoint and earlier ones, newest first, at most MaxHistory.
	History []Entry `json:"history"`
	// InstanceStart is the instance_start_time of the database that the log was written for, empty if that
	// server does not tell one. CouchDB neither writes nor reads this field.
	InstanceStart string `json:"instance_start_time,omitempty"`
	// Mark was made when the first log was written to the database, if that was one without a checkpoint, and all later
	// ones keep it. It tells the database from one that was made again, whose logs have the same revisions. CouchDB
	// neither writes nor reads this field.
	Mark string `json:"-"`
	// ReadOnly is set in the target's log while the source stores none: what the source is known by instead.
	// CouchDB neither writes nor reads this field.
	ReadOnly *ReadOnly `json:"-"`
}

// List tells a job's list of refused documents from what it was before, and from other jobs'. The zero List is none.
type List struct {
	Job     string `json:"job"`     // a digest of its id
	Changes int64  `json:"changes"` // how often its list has changed, counted from when the job was made
}

// unnamed is the list of checkpoints that say that they rely on one, and not on which. No job has it.
var unnamed = List{Job: "?"}

// Before reports whether l is an earlier state of the list that other is of.
func (l List) Before(other List) bool { return l.Job == other.Job && l.Changes < other.Changes }

// Entry is one checkpoint: up to RecordedSeq everything is on the target.
type Entry struct {
	// SessionID is the id of this checkpoint; of the whole run in logs that CouchDB wrote.
	SessionID   string
	StartTime   string   // RFC 1123, when the job was created
	EndTime     string   // RFC 1123, when the entry was written
	StartSeq    peer.Seq // where the run began
	EndSeq      peer.Seq // equals RecordedSeq in entries of this program; nothing here reads it
	RecordedSeq peer.Seq
	// List is the list that the checkpoint relies on: the job that wrote it goes on trying to copy revisions of that,
	// which are not on the target, though the checkpoint covers them. Other jobs do not, so they have to begin before
	// it. CouchDB does not know this field.
	List List
	// State is the list of the job that wrote the checkpoint as it was then, whether the checkpoint relies on it or
	// not; zero if that job had never listed anything. What has left the list since is lost to a database that is put
	// back to a backup with this checkpoint. CouchDB does not know this field, nor did the first releases.
	State List
	Counters
}

// Counters are totals over the life of a replication's log. They never decrease while the log lives.
type Counters struct {
	MissingChecked   int64 `json:"missing_checked"`
	MissingFound     int64 `json:"missing_found"`
	DocsRead         int64 `json:"docs_read"`
	DocsWritten      int64 `json:"docs_written"`
	DocWriteFailures int64 `json:"doc_write_failures"`
	BulkGetDocs      int64 `json:"bulk_get_docs"`
	BulkGetAttempts  int64 `json:"bulk_get_attempts"`
}

// Max returns the greater of each counter. A run resumes its totals from its job's record and from the log,
// either of which may be behind.
func (c Counters) Max(o Counters) Counters {
	return Counters{
		MissingChecked:   max(c.MissingChecked, o.MissingChecked),
		MissingFound:     max(c.MissingFound, o.MissingFound),
		DocsRead:         max(c.DocsRead, o.DocsRead),
		DocsWritten:      max(c.DocsWritten, o.DocsWritten),
		DocWriteFailures: max(c.DocWriteFailures, o.DocWriteFailures),
		BulkGetDocs:      max(c.BulkGetDocs, o.BulkGetDocs),
		BulkGetAttempts:  max(c.BulkGetAttempts, o.BulkGetAttempts),
	}
}

// wireEntry is Entry as JSON. Sequences are any JSON value.
type wireEntry struct {
	SessionID   string   `json:"session_id"`
	StartTime   string   `json:"start_time"`
	EndTime     string   `json:"end_time"`
	StartSeq    json.Raw `json:"start_last_seq"`
	EndSeq      json.Raw `json:"end_last_seq"`
	RecordedSeq json.Raw `json:"recorded_seq"`
	List        json.Raw `json:"list,omitempty"`
	State       json.Raw `json:"list_state,omitempty"` // absent if it is List
	Counters
}

// wireLog is Log as JSON. The fields in its middle are those of CouchDB 1.0, written for doc_ids replications
// only, as CouchDB does. Unfinished and List tell earlier releases of the newest checkpoint's list: their histories say
// nothing of lists.
type wireLog struct {
	SessionID     string   `json:"session_id"`
	SourceLastSeq json.Raw `json:"source_last_seq"`
	Version       int      `json:"replication_id_version"`
	InstanceStart any      `json:"instance_start_time,omitempty"` // a string, unless another program wrote it
	Mark          any      `json:"mark,omitempty"`                // a string, unless another program wrote it
	Unfinished    any      `json:"unfinished,omitempty"`          // true, unless another program wrote it
	List          json.Raw `json:"list,omitempty"`
	ReadOnly      json.Raw `json:"source_read_only,omitempty"`

	StartTime        string `json:"start_time,omitempty"`
	EndTime          string `json:"end_time,omitempty"`
	DocsRead         *int64 `json:"docs_read,omitempty"`
	DocsWritten      *int64 `json:"docs_written,omitempty"`
	DocWriteFailures *int64 `json:"doc_write_failures,omitempty"`

	History wireHistory `json:"history"`
}

// wireHistory is a history as JSON. Of a longer one than any program writes the newest entries count: two with a
// hundred thousand each would be compared for minutes.
type wireHistory []wireEntry

// UnmarshalJSON reads the first MaxHistory entries.
func (h *wireHistory) UnmarshalJSON(text []byte) error {
	var all []json.Raw
	if err := json.Decode(text, &all); err != nil {
		return err
	}
	*h = make(wireHistory, min(len(all), MaxHistory))
	for i := range *h {
		if err := json.Decode(all[i], &(*h)[i]); err != nil {
			return err
		}
	}
	return nil
}

// Empty reports whether the log has no checkpoint, nor anything else to begin from.
func (l Log) Empty() bool { return l.SessionID == "" && len(l.History) == 0 && l.ReadOnly == nil }

// Parse reads a log document. A document that is no log in whole or in part is an error: it must be neither
// trusted nor overwritten.
func Parse(body []byte) (Log, error) {
	var w wireLog
	if err := json.Decode(body, &w); err != nil {
		return Log{}, fmt.Errorf("checkpoint document: %w", err)
	}
	log := Log{SessionID: w.SessionID, SourceLastSeq: seq(w.SourceLastSeq)}
	log.InstanceStart, _ = w.InstanceStart.(string)
	log.Mark, _ = w.Mark.(string)
	log.ReadOnly = readOnly(w.ReadOnly)
	for _, e := range w.History {
		relies := list(e.List)
		log.History = append(log.History, Entry{
			SessionID: e.SessionID, StartTime: e.StartTime, EndTime: e.EndTime,
			StartSeq: seq(e.StartSeq), EndSeq: seq(e.EndSeq), RecordedSeq: seq(e.RecordedSeq),
			List: relies, State: cmp.Or(list(e.State), relies), Counters: e.Counters,
		})
	}
	if unfinished, _ := w.Unfinished.(bool); unfinished && log.Newest().List == (List{}) {
		log.allRelyOn(cmp.Or(list(w.List), unnamed))
	}
	return log, nil
}

// allRelyOn is for a log of an earlier release: which older checkpoints rely on its list is not known.
func (l *Log) allRelyOn(list List) {
	for i := range l.History {
		e := &l.History[i]
		e.List = cmp.Or(e.List, list)
		e.State = cmp.Or(e.State, e.List)
	}
}

// Newest is the newest checkpoint of the history; zero if that is empty.
func (l Log) Newest() Entry {
	if len(l.History) == 0 {
		return Entry{}
	}
	return l.History[0]
}

// Encode returns the log as a JSON object without _id and _rev. flat adds the fields of CouchDB 1.0, from the
// newest entry.
func (l Log) Encode(flat bool) []byte {
	w := wireLog{SessionID: l.SessionID, SourceLastSeq: raw(l.SourceLastSeq), Version: Version, History: wireHistory{}}
	if l.InstanceStart != "" {
		w.InstanceStart = l.InstanceStart
	}
	if l.Mark != "" {
		w.Mark = l.Mark
	}
	if list := l.Newest().List; list != (List{}) {
		w.Unfinished = true
		w.List = member(list)
	}
	if l.ReadOnly != nil {
		w.ReadOnly = member(l.ReadOnly.wire())
	}
	for _, e := range l.History {
		item := wireEntry{
			SessionID: e.SessionID, StartTime: e.StartTime, EndTime: e.EndTime,
			StartSeq: raw(e.StartSeq), EndSeq: raw(e.EndSeq), RecordedSeq: raw(e.RecordedSeq), Counters: e.Counters,
		}
		if e.List != (List{}) {
			item.List = member(e.List)
		}
		if e.State != e.List && e.State != (List{}) {
			item.State = member(e.State)
		}
		w.History = append(w.History, item)
	}
	if flat && len(l.History) > 0 {
		e := &l.History[0]
		w.StartTime, w.EndTime = e.StartTime, e.EndTime
		w.DocsRead, w.DocsWritten, w.DocWriteFailures = &e.DocsRead, &e.DocsWritten, &e.DocWriteFailures
	}
	return member(w)
}

// member encodes a log or a member of one. A sequence must go back to the source byte by byte as it came.
func member(v any) json.Raw {
	text, err := json.EncodeVerbatim(v)
	invariant.Check(err == nil, isJSON)
	return text
}

// list reads a member list. What is no such member names no list.
func list(member json.Raw) (l List) {
	if json.Decode(member, &l) != nil {
		return List{}
	}
	return l
}

// seq reads a sequence. One that is absent, or no JSON, means the beginning.
func seq(raw json.Raw) peer.Seq {
	seq, err := peer.SeqOf(raw)
	if err != nil {
		return peer.Zero
	}
	return seq
}

func raw(s peer.Seq) json.Raw {
	if s == "" {
		s = peer.Zero
	}
	return json.Raw(s)
}
