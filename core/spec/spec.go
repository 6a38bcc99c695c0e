// Package spec reads replication documents and the bodies of POST /_replicate. It is the only place
// that knows their fields; everybody else works with a Replication. It fetches nothing and needs no
// clock.
//
// Messages are CouchDB's where it has one. Where its parser crashes, rounds or silently drops what it
// does not understand, this one refuses: see the comments at the fields. No error and no printed form
// of a value holds a password.
package spec

import (
	"time"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// Replication is a parsed and checked replication. Printed or marshalled as JSON it shows ***** for
// every secret; Encode keeps them.
type Replication struct {
	Source Endpoint `json:"source"`
	Target Endpoint `json:"target"`
	Filter Filter   `json:"filter"`

	Continuous   bool `json:"continuous,omitempty"`
	CreateTarget bool `json:"create_target,omitempty"`
	// CreateTargetParams are query parameters of the request that creates the target, in the order
	// written. They are empty unless CreateTarget.
	CreateTargetParams []peer.Param `json:"create_target_params,omitempty"`
	WinningRevsOnly    bool         `json:"winning_revs_only,omitempty"`
	// SinceSeq is where to start when no checkpoint is found, compact JSON. nil means that the field was
	// absent; an explicit null is a value and part of the replication id.
	SinceSeq jsontext.Value `json:"since_seq,omitempty"`

	UseCheckpoints     bool          `json:"use_checkpoints"`
	CheckpointInterval time.Duration `json:"checkpoint_interval_ns"`
	UseBulkGet         bool          `json:"use_bulk_get"`
	WorkerProcesses    int           `json:"worker_processes"`  // batches in work at once, at least 1
	WorkerBatchSize    int           `json:"worker_batch_size"` // changes in a batch, at least 1

	// DocID is a document's _id, empty for a request.
	DocID string `json:"doc_id,omitempty"`
	// User is the document's user_ctx. A request's user is whoever sent it, for the caller to fill in.
	User UserCtx `json:"user_ctx"`
	// Owner is the document's owner field.
	Owner string `json:"owner,omitempty"`

	// Cancel asks to stop a replication, in requests only. CancelID then names it as the user wrote it;
	// when empty, the replication meant is the one with the id of this body.
	Cancel   bool   `json:"cancel,omitempty"`
	CancelID string `json:"cancel_id,omitempty"`

	// Unknown lists top-level fields that mean nothing here, in document order, for warnings: CouchDB
	// ignores them, but they may be misspelled.
	Unknown []string `json:"-"`
}

// UserCtx is who a replication belongs to.
type UserCtx struct {
	Name  string   `json:"name,omitempty"` // empty for nobody
	Roles []string `json:"roles,omitempty"`
}

// Endpoint is one of the two databases and how to talk to it.
type Endpoint struct {
	// URL is the database's address without user and password. It ends in a slash unless it has a query.
	URL string `json:"url"`
	// Credentials are for HTTP basic authentication or a session, the winner among auth.basic, the URL
	// and an Authorization header, in this order.
	Credentials Credentials `json:"credentials"`
	// Headers are sent with every request, in the order in which replication ids hash them. They replace
	// the client's own of the same name.
	Headers []Header `json:"headers,omitempty"`
	Proxy   *Proxy   `json:"proxy,omitempty"`
	// Timeout ends a request when nothing has come or gone for so long.
	Timeout time.Duration `json:"connection_timeout_ns"`
	// Connections bounds the requests at one time. For the source it is at least 2, as the changes feed
	// holds one of them.
	Connections   int           `json:"http_connections"`
	Retries       int           `json:"retries_per_request"` // after the first attempt
	SocketOptions SocketOptions `json:"socket_options"`
}

// Header is an HTTP header of the user's; its value may be a token.
type Header struct {
	Name  string `json:"name"`
	Value Secret `json:"value"`
}

// Proxy is a proxy server.
type Proxy struct {
	URL         string      `json:"url"` // as written, without user and password; http, https or socks5
	Credentials Credentials `json:"credentials"`
}

// Config holds the values of the [replicator] section that parsing needs. They are frozen into the
// Replication: a later change reaches new jobs only.
type Config struct {
	WorkerProcesses    int
	WorkerBatchSize    int
	HTTPConnections    int
	RetriesPerRequest  int
	ConnectionTimeout  time.Duration
	CheckpointInterval time.Duration
	UseCheckpoints     bool
	UseBulkGet         bool
	SocketOptions      SocketOptions
	// ValidSocketOptions names what a document may set.
	ValidSocketOptions []string
	// EndpointProtocols and ProxyProtocols are the URL schemes allowed.
	EndpointProtocols []string
	ProxyProtocols    []string
}

// DefaultConfig holds CouchDB's defaults, except that sockets do not delay small packets (nodelay): with the
// delay, requests that a server answers slowly to acknowledge take 40 ms longer each.
func DefaultConfig() Config {
	return Config{
		WorkerProcesses: 4, WorkerBatchSize: 500, HTTPConnections: 20, RetriesPerRequest: 5,
		ConnectionTimeout: 30 * time.Second, CheckpointInterval: 30 * time.Second,
		UseCheckpoints: true, UseBulkGet: true,
		SocketOptions:      SocketOptions{KeepAlive: true, NoDelay: true},
		ValidSocketOptions: []string{"buffer", "keepalive", "nodelay", "priority", "recbuf", "sndbuf"},
		EndpointProtocols:  []string{"http", "https"},
		ProxyProtocols:     []string{"http", "https", "socks5"},
	}
}
