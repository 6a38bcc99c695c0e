package peer

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the class of a failure, as far as it can be told from outside the server.
type Kind uint8

// Kinds of failure.
const (
	Status       Kind = iota // an answer with a status that the operation does not expect
	Unresolvable             // the host name has no address
	Unreachable              // no connection: refused, no route, proxy failure
	Insecure                 // TLS handshake or certificate refused
	Broken                   // the connection ended before the answer did
	TimedOut                 // nothing came for the connection timeout
	Malformed                // an answer that is not what the protocol says, for example HTML
	Oversized                // the request cannot be made small enough for the server
	Cancelled                // the call was given up
	NoSecret                 // a secret that the endpoint's document names is not there
	Denied                   // the configuration lets the job not connect there
)

var kindText = [...]string{
	Status: "status", Unresolvable: "nxdomain", Unreachable: "connect_failed", Insecure: "tls_failed",
	Broken: "connection_closed", TimedOut: "timeout", Malformed: "malformed_response",
	Oversized: "request_too_large", Cancelled: "cancelled", NoSecret: "secret_missing", Denied: "endpoint_denied",
}

func (k Kind) String() string { return kindText[k] }

// Failure describes why an operation did not succeed. It never holds credentials.
type Failure struct {
	Side   Side
	Method string
	URL    string // without user, password and query
	Kind   Kind
	Status int    // of the answer, 0 if there was none
	Error  string // CouchDB's error word from the answer's body, or empty
	Reason string // from the answer's body, or what went wrong in words; bounded in length
	// RetryAfter is the time that the answer's Retry-After asks for, 0 without one.
	RetryAfter time.Duration
}

// String returns one line for logs and job states.
func (f *Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", f.Method, f.URL)
	if f.Kind == Status {
		fmt.Fprintf(&b, "%d", f.Status)
	} else {
		b.WriteString(f.Kind.String())
	}
	if f.Error != "" {
		b.WriteString(" " + f.Error)
	}
	if f.Reason != "" {
		b.WriteString(": " + f.Reason)
	}
	return b.String()
}
