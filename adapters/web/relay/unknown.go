package relay

import (
	"log/slog"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/spec"
	"couchrelay/core/users"
)

// maxReports bounds the lines of one transaction, for documents that each have other unknown fields. Views of jobs
// tell those of the others, too.
const maxReports = 10

// reportUnknown logs the fields without a meaning in documents that were just written, for they may be misspelled.
// Documents with the same ones, as in an upload of many, share a line. Those of users may have any.
func reportUnknown(logger *slog.Logger, q *web.Request, edits []docs.Edit, written []docs.Written) {
	if q.Param("db") == users.Database {
		return
	}
	var lines []string
	first, count := map[string]docs.Written{}, map[string]int{}
	for i, w := range written {
		if !w.Changed || edits[i].Deleted || strings.HasPrefix(w.ID, "_") {
			continue
		}
		body, err := ejson.Parse(edits[i].Body)
		if err != nil {
			continue // it would not have been written
		}
		fields := described(spec.UnknownInDocument(body))
		if fields == "" || count[fields] == 0 && len(lines) == maxReports {
			continue
		}
		if count[fields]++; count[fields] == 1 {
			first[fields] = w
			lines = append(lines, fields)
		}
	}
	for _, fields := range lines {
		w := first[fields]
		logger.Warn("unknown_fields", "database", q.Param("db"), "document", w.ID, "rev", w.Rev.String(),
			"user", q.User.Name, "fields", fields, "documents", count[fields])
	}
}

// described lists unknown fields, each with the known one that may be meant.
func described(unknown []string) string {
	list := make([]string, len(unknown))
	for i, name := range unknown {
		if list[i] = name; spec.Suggest(name) != "" {
			list[i] += " (" + spec.Suggest(name) + "?)"
		}
	}
	return strings.Join(list, ", ")
}
