// Package eventlog records what a node was told and what it decided, and plays that again: every event
// given to the machines of a host (package core/host), with the clock, and what came out. The machines are
// deterministic, so what happened to a service can be looked at step by step elsewhere, later.
//
// # Format
//
// A log is text. A line is a checksum of 8 hexadecimal digits, a space and a JSON object. The checksum is
// CRC-32C over all lines up to this one, without the checksums and line ends, so that a line that was
// changed, lost or moved is found. The first line is a header, the last one of a log that was closed says
// why; all others are steps, or the plans of runs.
//
// # What is in it
//
// There are ids of documents and revisions, replication ids, checkpoints, URLs without user, password and
// query, names of users, settings, and what servers said of their failures. There are no passwords,
// headers, document bodies, selectors, query parameters or filter functions: of a replication a log has only
// what the core decides by, and a filter function is known by its digest.
package eventlog

import (
	"encoding/json"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/replication"
)

// Version is that of the format.
const Version = 1

// format names the format in the header.
const format = "couchrelay-events"

// line is any line but for its checksum.
type line struct {
	Header *header `json:"header,omitempty"`
	Plan   *plan   `json:"plan,omitempty"`
	Step   *step   `json:"step,omitempty"`
	End    string  `json:"end,omitempty"`
}

// header begins a log.
type header struct {
	Format  string       `json:"format"`
	Version int          `json:"version"`
	Program string       `json:"program"` // that wrote it
	Began   instant.Time `json:"began"`
	Node    node.Config  `json:"node"`
}

// plan is a replication.Plan. Its function is replaced by what it says: here of the empty filter function,
// in steps of those that came.
type plan struct {
	Run       uint64              `json:"run"`
	Options   replication.Options `json:"options"`
	IDs       replication.IDs     `json:"ids"`
	Created   instant.Time        `json:"created"`
	Resumed   checkpoint.Counters `json:"resumed"`
	ResumedID string              `json:"resumed_id,omitempty"`
	Delay     int64               `json:"delay"` // nanoseconds
	Seed      uint64              `json:"seed"`
}

// step is one event of a machine, and what it decided.
type step struct {
	// Run is 0 for the node.
	Run    uint64       `json:"run,omitempty"`
	Steady instant.Time `json:"steady"`
	Wall   instant.Time `json:"wall,omitempty"` // of the node
	Event  tagged       `json:"event"`
	// Result is the member of Event that may have several types.
	Result *tagged `json:"result,omitempty"`
	// IDs are what the plan says to the filter function that came.
	IDs     *replication.IDs `json:"ids,omitempty"`
	Effects []string         `json:"effects,omitempty"`
	// Digest covers all of the effects, of which the texts are only a part.
	Digest uint64 `json:"digest,string"`
}

// tagged is a value with the name of its type.
type tagged struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}
