// Package spec reads replication documents and the bodies of POST /_replicate. It is the only place that
// knows their fields; all other code works with a Replication. It fetches nothing and needs no clock.
//
// Error messages are CouchDB's where it has one. Where CouchDB's parser crashes, rounds, or silently drops a
// value that it does not understand, this one refuses the document: see the comments at the fields. No error
// and no printed form of a value holds a password.
package spec

import (
	"time"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// Replication is a parsed and checked replication. Printed or marshalled as JSON it shows ***** for every
// secret. Encode keeps them.
type Replication struct {
	Source Endpoint `json:"source"`
	Target Endpoint `json:"target"`
	Filter Filter   `json:"filter"`

	Continuous   bool `json:"continuous,omitempty"`
	CreateTarget bool `json:"create_target,omitempty"`
	// CreateTargetParams are query parameters of the request that creates the target, in the user's order.
	// They are empty unless CreateTarget.
	CreateTargetParams []peer.Param `json:"create_target_params,omitempty"`
	WinningRevsOnly    bool         `json:"winning_revs_only,omitempty"`
	// SinceSeq is where to start if no checkpoint is found, as compact JSON; nil if the field is absent. An
	// explicit null is a value, and a part of the replication id.
	SinceSeq jsontext.Value `json:"since_seq,omitempty"`

	UseCheckpoints     bool          `json:"use_checkpoints"`
	CheckpointInterval time.Duration `json:"checkpoint_interval_ns"`
	UseBulkGet         bool          `json:"use_bulk_get"`
	Batches
	// OnRefusal is not a part of the replication id: it changes nothing of what a checkpoint covers.
	OnRefusal OnRefusal `json:"on_refusal,omitempty"`

	// DocID is a document's _id, empty for a request.
	DocID string `json:"doc_id,omitempty"`
	// User is the document's user_ctx, which may name any user. For a request jobstore sets it to the user who sent
	// it if that was a server admin, else to nobody.
	User UserCtx `json:"user_ctx"`
	// Owner is the document's owner field.
	Owner string `json:"owner,omitempty"`
	Orders

	// Cancel asks to stop a replication, in requests only. CancelID is its id as the user wrote it; if that
	// is empty, the request means the replication that it describes itself.
	Cancel   bool   `json:"cancel,omitempty"`
	CancelID string `json:"cancel_id,omitempty"`

	// Unknown names the fields without a meaning, see Unknown: CouchDB ignores them, but they may be misspelled.
	Unknown []string `json:"-"`
}

// Batches say how many changes are worked on at once.
type Batches struct {
	WorkerProcesses int `json:"worker_processes"`  // batches at the servers at once, at least 1
	WorkerBatchSize int `json:"worker_batch_size"` // changes in a batch, at least 1
	// MaxWorkers bounds the batches that are worked on at once while the servers are far away; the bound is never
	// less than WorkerProcesses, and is that if this is 0, as it is if the user sets worker_processes.
	MaxWorkers int `json:"max_worker_processes,omitempty"`
}

// Orders are what a document or a request says of the job. They are no part of the work (Equal), so that a change of
// them alone leaves the job's numbers and its back-off as they are.
type Orders struct {
	// Paused says, in a document, that the replication must not run.
	Paused bool `json:"paused,omitempty"`
	// Weight divides what the account of the job gets among its jobs; 0 is schedule.DefaultWeight. Only the job keeps
	// it.
	Weight int64 `json:"-"`
}

// OnRefusal is what becomes of a document that the target refuses.
type OnRefusal string

// Values of OnRefusal.
const (
	SkipRefused  OnRefusal = ""      // it is listed and left out, as with CouchDB; written as "skip"
	FailRefused  OnRefusal = "fail"  // the job fails at the first one
	RetryRefused OnRefusal = "retry" // it is listed and tried again, after growing pauses
)

// UserCtx is the user to whom a replication belongs.
type UserCtx struct {
	Name  string   `json:"name,omitempty"` // empty for an anonymous user
	Roles []string `json:"roles,omitempty"`
	// Admin reports that a server admin wrote this: who sent the request, or is the document's owner. jobstore sets
	// it, and nothing that a body says.
	Admin bool `json:"admin,omitempty"`
}

// Endpoint is the address of one of the two databases, with the options of requests to it.
type Endpoint struct {
	// URL is the database's URL without user and password. It ends in a slash unless it has a query.
	URL string `json:"url"`
	// Credentials are for HTTP basic authentication. They come from auth.basic, else from the URL, else from
	// an Authorization header.
	Credentials Credentials `json:"credentials"`
	// Headers are sent with every request, in the order in which replication ids hash them. They replace the
	// client's own headers of the same names.
	Headers []Header `json:"headers,omitempty"`
	Proxy   *Proxy   `json:"proxy,omitempty"`
	// Timeout ends a request when no byte was sent or received for so long.
	Timeout time.Duration `json:"connection_timeout_ns"`
	// Connections bounds the requests in flight. For the source it is at least 2, since the changes feed
	// holds one.
	Connections   int           `json:"http_connections"`
	Retries       int           `json:"retries_per_request"` // after the first attempt
	SocketOptions SocketOptions `json:"socket_options"`
	// Bearer is a token that is sent in place of Credentials. Replication ids leave it out.
	Bearer Secret `json:"bearer,omitzero"`
	// TLS names the section of the configuration that says how to connect; empty for [replicator].
	TLS string `json:"tls,omitempty"`
	// Compression says whether bodies travel compressed by gzip: documents to a target, answers from either.
	Compression Compression `json:"compression,omitempty" eventlog:"omitzero"`
}

// Compression says when bodies travel compressed.
type Compression string

// Values of Compression.
const (
	CompressAuto Compression = ""    // while that is faster, and answers as the server likes; written as "auto"
	CompressOn   Compression = "on"  // wherever the server takes it
	CompressOff  Compression = "off" // never, and answers are asked for as they are
)

// Header is an HTTP header from the document. Its value is hidden, since it may be a token.
type Header struct {
	Name  string `json:"name"`
	Value Secret `json:"value"`
}

// Proxy is a proxy server.
type Proxy struct {
	URL         string      `json:"url"` // as written, without user and password; http, https or socks5
	Credentials Credentials `json:"credentials"`
}

// Config has the settings of the [replicator] section that parsing needs. The Replication takes them over, so
// a later change reaches new jobs only.
type Config struct {
	WorkerProcesses int
	// MaxWorkers is Replication.MaxWorkers of replications that do not set worker_processes. If it is 0, it is
	// farWorkers, or 0 if WorkerProcesses is not nearWorkers.
	MaxWorkers         int
	WorkerBatchSize    int
	HTTPConnections    int
	RetriesPerRequest  int
	ConnectionTimeout  time.Duration
	Compression        string // auto, on or off, of endpoints that do not say it
	CheckpointInterval time.Duration
	UseCheckpoints     bool
	UseBulkGet         bool
	SocketOptions      SocketOptions
	// ValidSocketOptions names the socket options that a document may set.
	ValidSocketOptions []string
	// EndpointProtocols and ProxyProtocols are the URL schemes that are allowed.
	EndpointProtocols []string
	ProxyProtocols    []string
	// Local is the URL of the server whose databases sources and targets may name without a URL, empty for none. It
	// has no user, no query and no fragment.
	Local string
}

const (
	// nearWorkers is CouchDB's default of worker_processes.
	nearWorkers = 4
	// farWorkers are enough for 10,000 documents a second in batches of 500, with 1.5 seconds on the line.
	farWorkers = 32
)

// maxWorkers is MaxWorkers, or its default.
func (c Config) maxWorkers() int {
	if c.MaxWorkers == 0 && c.WorkerProcesses == nearWorkers {
		return farWorkers
	}
	return c.MaxWorkers
}

// DefaultConfig returns CouchDB's defaults, but with nodelay: while sockets delay small packets, a request
// takes 40 ms longer if the server delays its acknowledgement.
func DefaultConfig() Config {
	return Config{
		WorkerProcesses: nearWorkers, WorkerBatchSize: 500, HTTPConnections: 20, RetriesPerRequest: 5,
		ConnectionTimeout: 30 * time.Second, CheckpointInterval: 30 * time.Second,
		UseCheckpoints: true, UseBulkGet: true, Compression: "auto",
		SocketOptions:      SocketOptions{KeepAlive: true, NoDelay: true},
		ValidSocketOptions: []string{"buffer", "keepalive", "nodelay", "priority", "recbuf", "sndbuf"},
		EndpointProtocols:  []string{"http", "https"},
		ProxyProtocols:     []string{"http", "https", "socks5"},
	}
}
