package peers

import "couchrelay/core/peer"

// Fault names what goes wrong with one request. The first word says where: on the way (net), in the server's
// answer (http), or in what CouchDB does (couch).
type Fault = string

// The faults of requests. Catalogue says what each does.
const (
	Refused     Fault = "net-refused"
	NoSuchHost  Fault = "net-no-such-host"
	BadTLS      Fault = "net-tls"
	ResetBefore Fault = "net-reset-before"
	ResetAfter  Fault = "net-reset-after"
	LostBefore  Fault = "net-lost-before"
	LostAfter   Fault = "net-lost-after"
	Slow        Fault = "net-slow"

	Unauthorized Fault = "http-401"
	Forbidden    Fault = "http-403"
	Timeout408   Fault = "http-408"
	TooLarge     Fault = "http-413"
	Teapot       Fault = "http-418"
	Throttled    Fault = "http-429"
	RetryAfter   Fault = "http-429-retry-after"
	ServerError  Fault = "http-500"
	Unavailable  Fault = "http-503"
	Maintenance  Fault = "http-503-retry-after"
	ErrorAfter   Fault = "http-500-after"
	HTML         Fault = "http-html"
	Truncated    Fault = "http-truncated"
	Stalls       Fault = "http-stalls"
	Pauses       Fault = "http-pauses"

	Repeats      Fault = "couch-changes-repeat"
	FeedStalls   Fault = "couch-changes-stall"
	FeedPauses   Fault = "couch-changes-pause"
	LosesPending Fault = "couch-pending-null"
	RevMissing   Fault = "couch-rev-missing"
	RevDamaged   Fault = "couch-rev-damaged"
	LeavesOut    Fault = "couch-bulk-get-part"
	WritesPart   Fault = "couch-bulk-docs-part"
	FailsSome    Fault = "couch-bulk-docs-some"
	StubMissing  Fault = "couch-missing-stub"
	Conflict409  Fault = "couch-write-conflict"
	NotSynced    Fault = "couch-no-full-commit"
)

// Entry describes a fault.
type Entry struct {
	Fault  Fault
	Family string // what goes wrong: the network, servers, databases
	Where  string // the requests or answers that can have it
	What   string
}

// Catalogue has every fault of requests, by families.
var Catalogue = []Entry{
	{Refused, "network", "request", "no connection"},
	{NoSuchHost, "network", "request", "the name has no address for a moment"},
	{BadTLS, "network", "request", "the TLS handshake fails"},
	{ResetBefore, "network", "request", "the connection breaks before the request arrives"},
	{ResetAfter, "network", "request", "the connection breaks after the request took effect"},
	{LostBefore, "network", "request", "the request never arrives, and nothing comes back"},
	{LostAfter, "network", "request", "it took effect, and nothing comes back"},
	{Slow, "network", "request", "seconds instead of milliseconds"},

	{Unauthorized, "servers", "answer", "401"},
	{Forbidden, "servers", "answer", "403"},
	{Timeout408, "servers", "answer", "408"},
	{TooLarge, "servers", "answer to a bulk write", "413"},
	{Teapot, "servers", "answer", "418, a status that no client expects"},
	{Throttled, "servers", "answer", "429"},
	{RetryAfter, "servers", "answer", "429 with Retry-After"},
	{ServerError, "servers", "answer", "500"},
	{Unavailable, "servers", "answer", "503"},
	{Maintenance, "servers", "answer", "503 with a Retry-After of ten minutes"},
	{ErrorAfter, "servers", "answer to a write", "500, though it took effect"},
	{HTML, "servers", "answer", "a proxy's page instead of JSON"},
	{Truncated, "servers", "answer to a read", "a part, then the connection breaks"},
	{Stalls, "servers", "answer with documents", "a part, then nothing until the client gives up"},
	{Pauses, "servers", "answer with documents", "a part, and the rest just before the client gives up"},

	{Repeats, "databases", "_changes", "rows come twice"},
	{FeedStalls, "databases", "_changes", "half of the rows, then nothing until the client gives up"},
	{FeedPauses, "databases", "_changes", "half of the rows, and the rest just before the client gives up"},
	{LosesPending, "databases", "_changes", "the answer does not say how many changes follow"},
	{RevMissing, "databases", "_bulk_get, open_revs", "a revision is not found for a moment, or the one before is"},
	{RevDamaged, "databases", "_bulk_get, open_revs, _all_docs", "a revision cannot be read until all trouble is over"},
	{LeavesOut, "databases", "_bulk_get", "answers for some documents only"},
	{WritesPart, "databases", "_bulk_docs", "fails half-way"},
	{FailsSome, "databases", "_bulk_docs", "some documents are not written, or an attachment is missing"},
	{StubMissing, "databases", "write of a document", "the target wants an attachment that was sent as a stub"},
	{Conflict409, "databases", "write of a document", "meets another write"},
	{NotSynced, "databases", "_ensure_full_commit", "fails"},
}

// RequestFaults lists the faults that a request can have.
func RequestFaults(op peer.Op) []Fault {
	all := []Fault{Refused, NoSuchHost, BadTLS, ResetBefore, ResetAfter, LostBefore, LostAfter, Slow, Unauthorized,
		Forbidden, Timeout408,
		Teapot, Throttled, RetryAfter, ServerError, Unavailable, Maintenance, HTML}
	switch op.(type) {
	case peer.ReadChanges:
		return append(all, Truncated, Repeats, LosesPending, FeedStalls, FeedPauses)
	case peer.FetchDocs:
		return append(all, Truncated, LeavesOut, RevMissing, RevDamaged, Stalls, Pauses)
	case peer.WriteDocs:
		return append(all, TooLarge, ErrorAfter, WritesPart, FailsSome)
	case peer.CopyDoc:
		return append(all, TooLarge, Truncated, RevMissing, RevDamaged, StubMissing, Conflict409, Stalls, Pauses)
	case peer.PutLocal:
		return append(all, ErrorAfter)
	case peer.ReadDocs:
		return append(all, LeavesOut, RevMissing, RevDamaged)
	case peer.EditDocs:
		return append(all, ErrorAfter, WritesPart, FailsSome, Conflict409)
	case peer.Commit:
		return append(all, NotSynced)
	}
	return all
}
