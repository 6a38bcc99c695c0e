package spec

import (
	"slices"
	"strings"
	"unicode/utf8"

	"couchrelay/core/ejson"
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
var endpointFields = []string{"url", "headers", "auth"}

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
		if near := nearest(inner, endpointFields); near != "" {
			return side + "." + near
		}
		return ""
	}
	if near := nearest(name, documentFields); near != name { // else it is misplaced, in a request
		return near
	}
	return ""
}

// nearest is the first of the fields to which the fewest edits lead, at most one in three characters, and three.
func nearest(name string, fields []string) (near string) {
	name = strings.ToLower(name)
	least := 1 + min(utf8.RuneCountInString(name)/3, 3)
	for _, field := range fields {
		if d := edits(name, field); d < least {
			near, least = field, d
		}
	}
	return near
}

// edits is how many characters have to be inserted, removed, replaced or swapped with their neighbour to make b of
// a: the distance of optimal string alignment.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1) // rows[i][j] leads from the first i of x to the first j of y
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
		for j := 1; j <= len(y); j++ {
			if i == 0 {
				rows[i][j] = j
				continue
			}
			replaced := rows[i-1][j-1]
			if x[i-1] != y[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
