// Package eventlog records every event given to the machines of a host (package core/host), with the clock,
// and the effects that they decided; and it replays such a log. The machines are deterministic, so a replay
// on another machine shows step by step what happened to a service.
//
// # Format
//
// A log is text. A line is a checksum of 8 hexadecimal digits, a space and a JSON object. The checksum is
// CRC-32C over all lines up to this one, without the checksums and line ends, so that a line that was
// changed, lost or moved is found. The first line is a header. The last line of a log that was closed is its
// end; a log without one was cut. All others are steps, or the plans of runs.
//
// # Secrets
//
// A log has ids of documents and revisions, replication ids, checkpoints, URLs without user, password and
// query, names of users, settings, and the errors and reasons of servers. It must not have passwords,
// headers, document bodies, selectors, query parameters or filter functions. Of a replication it has only the
// parts by which the core decides; a filter function is represented by its digest. A new event or effect with
// a secret in it needs a case in redacted.
//
// # Compatibility
//
// Logs of earlier releases are replayed too (see testdata). So names and order of the fields of events,
// results and effects must not change, nor the texts of effects.
package eventlog

import (
	"encoding/json"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/replication"
)

// Version is the version of the format. Replay reads no other.
const Version = 1

// format names the format in the header.
const format = "couchrelay-events"

// line is a line without its checksum. Exactly one of its fields is set.
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

// plan is a replication.Plan. A function cannot be written, so IDs has its value for the empty filter
// function, and the step that brings a filter function has its value for that.
type plan struct {
	Run       uint64              `json:"run"`
	Options   replication.Options `json:"options"`
	IDs       replication.IDs     `json:"ids"`
	Created   instant.Time        `json:"created"`
	Resumed   checkpoint.Counters `json:"resumed"`
	ResumedID string              `json:"resumed_id,omitempty"`
	Delay     int64               `json:"delay"` // nanoseconds
	Seed      uint64              `json:"seed"`
	Reset     bool                `json:"reset,omitempty"`
	Listed    int64               `json:"listed,omitempty"`
	MaxListed int64               `json:"max_listed,omitempty"`
	List      checkpoint.List     `json:"list,omitzero"`
	ListSaved [2]int64            `json:"list_saved,omitzero"`
	Refused   bool                `json:"refused,omitempty"` // releases that count no Listed: there are some
	Crashes   int                 `json:"crashes,omitempty"`
}

// step is one event of a machine, and what it decided.
type step struct {
	// Run is 0 for the node.
	Run    uint64       `json:"run,omitempty"`
	Steady instant.Time `json:"steady"`
	Wall   instant.Time `json:"wall,omitempty"` // only in steps of the node: runs have no wall clock
	Event  tagged       `json:"event"`          // without its member Result
	// Result is the Event's member of that name, which has one of several types.
	Result *tagged `json:"result,omitempty"`
	// IDs are the ids that the plan gives for the filter function in Result.
	IDs *replication.IDs `json:"ids,omitempty"`
	// Effects are the texts of the effects, for people; each is cut at maxText.
	Effects []string `json:"effects,omitempty"`
	// Digest covers the values of the effects as a whole.
	Digest uint64 `json:"digest,string"`
}

// tagged is a value with the name of its type.
type tagged struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}
