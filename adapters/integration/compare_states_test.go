package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of the time in which documents reach their states: so long is waited at least, since jobs may still crash,
// unless all are as they are in CouchDB, and so long at most.
const (
	leastSettling = 20 * time.Second
	mostSettling  = 3 * time.Minute
)

// follow waits for what becomes of the documents, and for their replication ids. Each crash counts: jobs are tried
// again.
func (s side) follow(result, goal map[string]answered) {
	for began := time.Now(); time.Since(began) < mostSettling; time.Sleep(time.Second) {
		s.look(result)
		if goal != nil && reached(result, goal) || time.Since(began) > leastSettling && len(unsettled(result)) == 0 {
			break
		}
	}
	if left := unsettled(result); len(left) > 0 {
		s.t.Logf("not settled: %v", left)
	}
	for name, a := range result {
		if id, is := strings.CutPrefix(name, "doc "); is && a.Status < 300 {
			_, doc := s.object("GET", "/"+casesDB+"/"+id)
			a.Marks = marksOf(doc)
			result[name] = a
		}
	}
}

// look notes the states and ids that the service tells. Documents are asked for one by one: some of them break lists of
// CouchDB off.
func (s side) look(result map[string]answered) {
	for name, a := range result {
		id, is := strings.CutPrefix(name, "doc ")
		if !is || a.Status >= 300 || crashes(a.State) || ended(a.State) {
			continue
		}
		if status, view := s.object("GET", "/_scheduler/docs/"+casesDB+"/"+id); status == 200 {
			a.State = text(view["state"])
		} else if status >= 500 {
			a.State = fmt.Sprint("error ", status)
		}
		result[name] = a
	}
	_, list := s.object("GET", "/_scheduler/docs/"+idsDB)
	docs, _ := list["docs"].([]any)
	for _, d := range docs {
		view := d.(object)
		id, _, _ := strings.Cut(text(view["id"]), "+")
		name := "doc " + text(view["doc_id"])
		if a, known := result[name]; known && id != "" {
			a.ID = id
			result[name] = a
		}
	}
}

func ended(state string) bool { return state == "completed" || state == "failed" }

func crashes(state string) bool { return state == "crashing" || strings.HasPrefix(state, "error") }

// unsettled are the documents that have not reached states in which they stay. A continuous job runs.
func unsettled(result map[string]answered) (names []string) {
	for _, c := range compareCases() {
		a := result["doc "+c.name]
		if c.kind != "doc" || a.Status >= 300 {
			continue
		}
		runs := a.State == "running" && strings.Contains(c.rest, `"continuous":true`)
		named := a.ID != "" || a.State != "completed" || strings.Contains(c.rest, `"_replication_state"`) ||
			c.readsFilter()
		if !runs && !crashes(a.State) && !ended(a.State) || !named {
			names = append(names, fmt.Sprint(c.name, "=", a.State, a.ID))
		}
	}
	return names
}

// reached reports whether all documents have the states and ids that they have in CouchDB, as far as they have any.
func reached(result, goal map[string]answered) bool {
	for _, c := range compareCases() {
		name := "doc " + c.name
		a, g := result[name], goal[name]
		if c.kind != "doc" || needsCouch(name) || a.Status >= 300 {
			continue
		}
		if a.State != g.State || g.ID != "" && a.ID == "" && !c.readsFilter() {
			return false
		}
	}
	return true
}

// readsFilter reports whether the replication id of a case tells what a filter function is like, which cannot be read
// of the CouchDB whose answers were recorded.
func (c compared) readsFilter() bool { return couch == "" && strings.Contains(c.rest, `"filter":"d/`) }

// marksOf tells the state that a document has, and which other members the replicator wrote.
func marksOf(doc object) string {
	marks := []string{"state " + text(doc["_replication_state"])}
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		if strings.HasPrefix(name, "_replication_") && name != "_replication_state" {
			marks = append(marks, strings.TrimPrefix(name, "_replication_"))
		}
	}
	stats, _ := doc["_replication_stats"].(object)
	for _, name := range []string{"docs_read", "docs_written", "doc_write_failures"} {
		if v, has := stats[name]; has {
			marks = append(marks, fmt.Sprint(name, "=", v))
		}
	}
	if len(marks) == 1 && marks[0] == "state " {
		return ""
	}
	return strings.Join(marks, " ")
}
