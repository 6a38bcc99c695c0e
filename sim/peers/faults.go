package peers

import "couchrelay/core/peer"

// Fault names what goes wrong with one request. The first word says where: on the way (net), in the
// server's answer (http), in what CouchDB does (couch).
type Fault = string

// The faults of requests.
const (
	Refused      Fault = "net-refused"      // no connection
	NoSuchHost   Fault = "net-no-such-host" // the name has no address for a moment
	BadTLS       Fault = "net-tls"          // the handshake fails
	ResetBefore  Fault = "net-reset-before" // the connection breaks before the request arrives
	ResetAfter   Fault = "net-reset-after"  // ... after it took effect
	LostBefore   Fault = "net-lost-before"  // the request never arrives, and nothing comes back
	LostAfter    Fault = "net-lost-after"   // it took effect, and nothing comes back
	Slow         Fault = "net-slow"         // seconds instead of milliseconds
	Unauthorized Fault = "http-401"
	Forbidden    Fault = "http-403"
	Timeout408   Fault = "http-408"
	TooLarge     Fault = "http-413" // of a bulk write
	Teapot       Fault = "http-418" // a status that nobody expects
	Throttled    Fault = "http-429"
	RetryAfter   Fault = "http-429-retry-after"
	ServerError  Fault = "http-500"
	Unavailable  Fault = "http-503"
	ErrorAfter   Fault = "http-500-after" // it took effect, but the server says it failed
	HTML         Fault = "http-html"      // a proxy's page instead of JSON
	Truncated    Fault = "http-truncated" // a part of the answer, then the connection breaks

	Repeats      Fault = "couch-changes-repeat" // rows come twice
	LosesPending Fault = "couch-pending-null"   // the answer does not say how many changes follow
	RevMissing   Fault = "couch-rev-missing"    // the cluster does not find a revision for a moment
	LeavesOut    Fault = "couch-bulk-get-part"  // _bulk_get answers for some documents only
	WritesPart   Fault = "couch-bulk-docs-part" // _bulk_docs fails half-way
	FailsSome    Fault = "couch-bulk-docs-some" // _bulk_docs does not write some documents, and says that something went wrong
	StubMissing  Fault = "couch-missing-stub"   // the target wants an attachment that was sent as a stub
	Conflict409  Fault = "couch-write-conflict" // a write of a single document meets another
	NotSynced    Fault = "couch-no-full-commit" // _ensure_full_commit fails
)

// RequestFaults lists the faults that a request can have.
func RequestFaults(op peer.Op) []Fault {
	all := []Fault{Refused, NoSuchHost, BadTLS, ResetBefore, ResetAfter, LostBefore, LostAfter, Slow, Unauthorized, Forbidden, Timeout408,
		Teapot, Throttled, RetryAfter, ServerError, Unavailable, HTML}
	switch op.(type) {
	case peer.ReadChanges:
		return append(all, Truncated, Repeats, LosesPending)
	case peer.FetchDocs:
		return append(all, Truncated, LeavesOut, RevMissing)
	case peer.WriteDocs:
		return append(all, TooLarge, ErrorAfter, WritesPart, FailsSome)
	case peer.CopyDoc:
		return append(all, TooLarge, Truncated, RevMissing, StubMissing, Conflict409)
	case peer.PutLocal:
		return append(all, ErrorAfter)
	case peer.Commit:
		return append(all, NotSynced)
	}
	return all
}
