package explain

import (
	"maps"
	"slices"
	"strings"
)

// ErrorClass is what an error of a job means: its class in one word, and what to do about it.
type ErrorClass struct{ Class, Advice string }

// Advice that several errors share.
const (
	isUp    = "check that the server is up and reachable from the nodes" + byItself
	answers = "look into the server's log for the time of the error" + byItself
	rights  = "correct the user, the password or the rights of that user on the server"
	newer   = "correct the document, and retry the job or write the document without its _replication_state"

	nothing = "nothing"
	// byItself is true of jobs that have not failed for good.
	byItself = "; the job is tried again by itself"
)

// errorClasses are the errors that jobs end with.
var errorClasses = map[string]ErrorClass{
	"nxdomain":          {"network", "correct the host name in the document, or the name server that the nodes ask"},
	"connect_failed":    {"network", isUp},
	"connection_closed": {"network", isUp},
	"timeout":           {"network", isUp + ", with more time if connection_timeout is too short for it"},
	"tls_failed": {"network", "correct the server's certificate, or the [replicator] keys that say " +
		"which ones are trusted"},
	"endpoint_denied": {"configuration", "correct the URL in the document, or the [replicator] keys " +
		"endpoint_allow and endpoint_deny"},
	"malformed_response": {"server", "check that the URL is that of a database, and that no proxy answers " +
		"instead of the server"},

	"http_request_failed":  {"server", answers},
	"changes_req_failed":   {"server", answers},
	"revs_diff_failed":     {"server", answers},
	"bulk_docs_failed":     {"server", answers},
	"open_doc_revs_failed": {"server", answers},
	"max_backoff": {"throttled", nothing + ", unless it stays: the server asks for fewer requests, and " +
		"the next run is gentler"},
	"stalled": {"stalled", "see what the run waits for in the reason" + byItself},

	"secret_missing": {"credentials", "put the secret that the reason names where [secrets] directory says, or into " +
		"the environment of the nodes" + byItself},
	"unauthorized": {"credentials", rights},
	"forbidden":    {"credentials", rights},
	"db_not_found": {"missing", "create the database, or set `create_target`, or correct the URL in the document"},
	"missing_doc":  {"missing", "repair the source: it announces revisions that it does not have"},

	"doc_write_failed": {"refused", "see why the target does not take the document, and correct the document " +
		"or the target"},
	"refused": {"refused", "see why the target does not take the documents, and correct them or its " +
		"validation function"},
	"request_too_large": {"refused", "raise the target's max_http_request_size, or make the document smaller"},

	"filter_fetch_error": {"configuration", "check that the source has the design document with the " +
		"filter, and correct `filter`"},
	"failed": {"configuration", "see the reason, which the document came with, and retry the job or write the " +
		"document without its _replication_state"},
	"parse_error":         {"configuration", newer},
	"invalid_replication": {"configuration", newer},
	"duplicate": {"configuration", "end the job that the reason names and retry this one, or leave it: both ask " +
		"for one replication"},
	"checkpoint_unreadable": {"checkpoint", "remove or repair the _local document that the reason names"},
	"checkpoint_commit_failure": {"checkpoint", "give the user the right to write _local documents to the " +
		"database that the reason names"},

	"worker_lost": {"service", "look for the end of the nodes that ran it (memory, signals), in their logs"},
	"document_unreadable": {"service", "see what `couchrelay check` tells of the document, and restore the store " +
		"from a backup if the row does not come back" + byItself},
	"invariant_broken": {"service", "report it, with the log of the node: it is a defect of couchrelay"},
	"cancelled":        {"service", nothing + ": the run was given up, and the job runs again"},
}

// Classes are the classes of all errors, in alphabetical order.
func Classes() (names []string) {
	for _, c := range errorClasses { // order does not matter: the names are sorted below
		names = append(names, c.Class)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Errors are the names of all errors that have a class, in alphabetical order.
func Errors() []string { return slices.Sorted(maps.Keys(errorClasses)) }

// ClassOf tells what an error means; known is false for an error without a class.
func ClassOf(name string) (c ErrorClass, known bool) {
	if strings.HasPrefix(name, "http_error_") {
		return ErrorClass{"server", answers}, true
	}
	c, known = errorClasses[name]
	return c, known
}

// OfFailed is the advice for a job that has failed for good, of a document or of a request: nothing tries it again by
// itself.
func (c ErrorClass) OfFailed(request bool) string {
	advice, _, _ := strings.Cut(c.Advice, byItself)
	again := "retry the job"
	switch {
	case request && advice == newer:
		return "correct the request, and send it again"
	case advice == "" || strings.Contains(advice, "retry"):
		return advice
	case request:
		advice = strings.ReplaceAll(advice, " in the document", " in the request")
		again += ", or send the request again"
	}
	if strings.HasPrefix(advice, nothing) {
		return again
	}
	return advice + "; then " + again
}
