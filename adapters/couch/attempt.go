package couch

import (
	"strings"
	"time"

	"couchrelay/core/peer"
)

// Attempt is an HTTP request to an endpoint, as it is counted.
type Attempt struct {
	Server    string // of the endpoint: its host, with the port if the URL has one
	Operation string // what was asked for, one of a few words
	Status    int    // of the answer; 0 if there was none
	Kind      peer.Kind
	Took      time.Duration // until the answer's headers, or until there was to be none
}

// Operations of attempts.
const (
	OfChanges   = "changes"
	OfDocuments = "document" // one, with its attachments
)

// attempted tells who counts of a request that is over as far as its headers.
func attempted(e *endpoint, r request, a Attempt, began time.Time) {
	if e.client.options.Attempted == nil {
		return
	}
	a.Server, a.Operation = strings.ToLower(e.base.Host), operationOf(r.path)
	a.Took = e.client.clock.Now().Sub(began)
	e.client.options.Attempted(a)
}

// operationOf returns what a path below a database is about.
func operationOf(path string) string {
	first, _, _ := strings.Cut(path, "/")
	switch first {
	case "":
		return "database"
	case "_changes":
		return OfChanges
	case "_local":
		return "checkpoint"
	case "_bulk_get", "_bulk_docs", "_revs_diff", "_all_docs", "_ensure_full_commit", "_session":
		return first[1:]
	}
	return OfDocuments
}
