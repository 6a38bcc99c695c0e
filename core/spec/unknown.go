package spec

import (
	"slices"
	"strings"

	"couchrelay/core/ejson"
	"couchrelay/core/spelling"
)

// knownFields are the top-level fields that have a meaning, but for those that begin with an underscore,
// which are CouchDB's own.
var knownFields = []string{
	"source", "target", "continuous", "create_target", "create_target_params", "cancel", "doc_ids", "filter",
	"query_params", "selector", "since_seq", "use_checkpoints", "checkpoint_interval", "use_bulk_get",
	"winning_revs_only", "worker_processes", "worker_batch_size", "http_connections", "connection_timeout",
	"retries_per_request", "socket_options", "ibrowse_options", "proxy", "source_proxy", "target_proxy", "weight",
	"on_refusal",
}

// Fields that have a meaning in one of the two only: the service adds owner to documents, and users name what they
// cancel in requests.
var (
	documentFields = append(slices.Clone(knownFields), "user_ctx", "owner", "paused")
	requestFields  = append(slices.Clone(knownFields), "replication_id", "id")
)

// endpointFields are the fields of a source or target that is an object.
var endpointFields = []string{"url", "headers", "auth", "tls", "compression"}

// Bounds of what Unknown tells.
const (
	maxUnknown     = 20
	maxUnknownName = 100 // bytes
)

// UnknownInDocument names the fields of a replication document without a meaning, in document order; those of
// source and target as "source.name". It leaves out all but the first 20, and cuts names at 100 bytes.
func UnknownInDocument(body ejson.Value) []string { return unknown(body, documentFields) }

func unknown(body ejson.Value, known []string) (names []string) {
	for _, m := range body.Members {
		if m.Name == "source" || m.Name == "target" {
			for _, inner := range m.Value.Members {
				if !slices.Contains(endpointFields, inner.Name) {
					names = append(names, m.Name+"."+inner.Name)
				}
			}
		} else if !strings.HasPrefix(m.Name, "_") && !slices.Contains(known, m.Name) {
			names = append(names, m.Name)
		}
	}
	names = names[:min(len(names), maxUnknown)]
	for i, name := range names {
		if len(name) > maxUnknownName {
			names[i] = strings.ToValidUTF8(name[:maxUnknownName], "") + "..."
		}
	}
	return names
}

// Suggest returns the known field that is meant by an unknown one in all likelihood, empty when none is near.
func Suggest(name string) string {
	side, inner, nested := strings.Cut(name, ".")
	if nested {
		if near := spelling.Nearest(inner, endpointFields); near != "" {
			return side + "." + near
		}
		return ""
	}
	if near := spelling.Nearest(name, documentFields); near != name { // else it is misplaced, in a request
		return near
	}
	return ""
}
