// Package checkpoint reads, compares and writes replication logs: the `_local` documents in which
// source and target remember how far a replication came, in the format of CouchDB's replicator
// (version 4). It is pure computation; who reads and writes the documents is the replication's affair.
package checkpoint

import (
	"bytes"
	"fmt"

	json "github.com/go-json-experiment/json/v1"

	"couchrelay/core/peer"
)

// Version is the replication_id_version that is written.
const Version = 4

// MaxHistory is the number of history entries kept, as in CouchDB.
const MaxHistory = 50

// Log is a replication log document. The zero value stands for a document that does not exist.
type Log struct {
	SessionID     string   `json:"session_id"`
	SourceLastSeq peer.Seq `json:"-"`
	History       []Entry  `json:"history"`
	// InstanceStart is the instance_start_time of the database that the log was written for, empty where that tells
	// nothing. CouchDB neither writes nor reads it.
	InstanceStart string `json:"instance_start_time,omitempty"`
}

// Entry is what one run achieved; its counters are totals over the life of the log.
type Entry struct {
	SessionID   string
	StartTime   string // RFC 1123, when the job was created
	EndTime     string // RFC 1123, when the entry was written
	StartSeq    peer.Seq
	EndSeq      peer.Seq
	RecordedSeq peer.Seq
	Counters
}

// Counters are the numbers of a replication that live in its log.
type Counters struct {
	MissingChecked   int64 `json:"missing_checked"`
	MissingFound     int64 `json:"missing_found"`
	DocsRead         int64 `json:"docs_read"`
	DocsWritten      int64 `json:"docs_written"`
	DocWriteFailures int64 `json:"doc_write_failures"`
	BulkGetDocs      int64 `json:"bulk_get_docs"`
	BulkGetAttempts  int64 `json:"bulk_get_attempts"`
}

// Max is the field-wise maximum, by which totals are resumed from several places.
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

// wireEntry is Entry as JSON, sequences raw.
type wireEntry struct {
	SessionID   string          `json:"session_id"`
	StartTime   string          `json:"start_time"`
	EndTime     string          `json:"end_time"`
	StartSeq    json.RawMessage `json:"start_last_seq"`
	EndSeq      json.RawMessage `json:"end_last_seq"`
	RecordedSeq json.RawMessage `json:"recorded_seq"`
	Counters
}

// wireLog is Log as JSON. The flat fields are written only for doc_ids replications, as CouchDB does
// for 1.0 peers.
type wireLog struct {
	SessionID     string          `json:"session_id"`
	SourceLastSeq json.RawMessage `json:"source_last_seq"`
	Version       int             `json:"replication_id_version"`
	InstanceStart any             `json:"instance_start_time,omitempty"` // a string, or somebody else's

	StartTime        string `json:"start_time,omitempty"`
	EndTime          string `json:"end_time,omitempty"`
	DocsRead         *int64 `json:"docs_read,omitempty"`
	DocsWritten      *int64 `json:"docs_written,omitempty"`
	DocWriteFailures *int64 `json:"doc_write_failures,omitempty"`

	History []wireEntry `json:"history"`
}

// Parse reads a log document. A document that is no log, or a part of it that is none, is an error:
// it must not be overwritten, nor trusted.
func Parse(body []byte) (Log, error) {
	var w wireLog
	if err := json.Unmarshal(body, &w); err != nil {
		return Log{}, fmt.Errorf("checkpoint document: %w", err)
	}
	log := Log{SessionID: w.SessionID, SourceLastSeq: seq(w.SourceLastSeq)}
	log.InstanceStart, _ = w.InstanceStart.(string)
	for _, e := range w.History {
		log.History = append(log.History, Entry{
			SessionID: e.SessionID, StartTime: e.StartTime, EndTime: e.EndTime,
			StartSeq: seq(e.StartSeq), EndSeq: seq(e.EndSeq), RecordedSeq: seq(e.RecordedSeq), Counters: e.Counters,
		})
	}
	return log, nil
}

// Encode writes the log as a JSON object without underscore members. flat adds the fields of 1.0 from
// the newest entry.
func (l Log) Encode(flat bool) []byte {
	w := wireLog{SessionID: l.SessionID, SourceLastSeq: raw(l.SourceLastSeq), Version: Version, History: []wireEntry{}}
	if l.InstanceStart != "" {
		w.InstanceStart = l.InstanceStart
	}
	for _, e := range l.History {
		w.History = append(w.History, wireEntry{
			SessionID: e.SessionID, StartTime: e.StartTime, EndTime: e.EndTime,
			StartSeq: raw(e.StartSeq), EndSeq: raw(e.EndSeq), RecordedSeq: raw(e.RecordedSeq), Counters: e.Counters,
		})
	}
	if flat && len(l.History) > 0 {
		e := &l.History[0]
		w.StartTime, w.EndTime = e.StartTime, e.EndTime
		w.DocsRead, w.DocsWritten, w.DocWriteFailures = &e.DocsRead, &e.DocsWritten, &e.DocWriteFailures
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // sequences go back as they came
	if err := e.Encode(w); err != nil {
		panic("checkpoint: " + err.Error()) // sequences come from parsed JSON
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// seq reads an absent sequence as the beginning.
func seq(raw json.RawMessage) peer.Seq {
	seq, err := peer.SeqOf(raw)
	if err != nil {
		return peer.Zero
	}
	return seq
}

func raw(s peer.Seq) json.RawMessage {
	if s == "" {
		s = peer.Zero
	}
	return json.RawMessage(s)
}
