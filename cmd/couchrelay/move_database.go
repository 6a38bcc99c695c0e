package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/ejson"
	"couchrelay/core/explain"
	"couchrelay/core/spec"
)

// change is a row of a changes feed.
type change struct {
	ID      string
	Seq     json.RawMessage
	Deleted bool
	Changes []struct{ Rev string }
}

// database copies a replicator database: _security, and all leaves of documents that the other side lacks.
func (m *move) database(from, to *remote, name string) error {
	path := "/" + spec.EscapeName(name)
	var security json.RawMessage
	if err := from.into("GET", path+"/_security", nil, nil, &security); err != nil {
		return err
	}
	if !m.DryRun {
		if err := to.into("PUT", path+"/_security", nil, security, nil); err != nil {
			return err
		}
	}
	seen, lacking, since := 0, 0, "0"
	for {
		var page struct{ Results []change }
		query := url.Values{"style": {"all_docs"}, "limit": {strconv.Itoa(moveBatch)}, "since": {since}}
		if err := from.into("GET", path+"/_changes", query, nil, &page); err != nil {
			return err
		}
		n := len(page.Results)
		if n == 0 {
			break
		}
		since = strings.Trim(string(page.Results[n-1].Seq), `"`)
		copied, err := m.page(from, to, path, page.Results)
		if err != nil {
			return err
		}
		seen, lacking = seen+n, lacking+copied
	}
	verb := "copied"
	if m.DryRun {
		verb = "to copy"
	}
	m.say("%s: %s, %s %s", name, explain.Count(seen, "document"), explain.Count(lacking, "revision"), verb)
	return nil
}

// page copies what the other side lacks of some documents, and returns the number of revisions.
func (m *move) page(from, to *remote, path string, rows []change) (int, error) {
	asked := map[string][]string{}
	for _, row := range rows {
		if row.ID == "_design/_replicator" { // CouchDB's own, which each server makes itself
			continue
		}
		for _, c := range row.Changes {
			asked[row.ID] = append(asked[row.ID], c.Rev)
		}
	}
	var diff missing
	if err := to.into("POST", path+"/_revs_diff", nil, asked, &diff); err != nil {
		if !m.DryRun || !isMissing(err) {
			return 0, err
		}
		diff = missing{} // the database is to be made
		for id, revs := range asked {
			diff[id] = struct{ Missing []string }{revs}
		}
	} else if err := m.leaveOthers(from, to, path, rows, diff); err != nil {
		return 0, err
	}
	var wanted []ref
	for id, d := range diff {
		for _, rev := range d.Missing {
			wanted = append(wanted, ref{id, rev})
		}
	}
	if len(wanted) == 0 || m.DryRun && to != &m.couch { // what goes to a CouchDB is looked at also in a dry run
		return len(wanted), nil
	}
	return m.copy(from, to, path, wanted)
}

// missing is an answer of _revs_diff.
type missing map[string]struct{ Missing []string }

// leaveOthers takes documents out of a diff that are another one on the side which is to get them, in a revision that
// this side does not know. Copied, they would be a conflict, and the replication that loses would run nowhere.
func (m *move) leaveOthers(from, to *remote, path string, rows []change, diff missing) error {
	keys := []string{}
	for _, row := range rows {
		if diff[row.ID].Missing != nil && !row.Deleted {
			keys = append(keys, row.ID)
		}
	}
	var there struct {
		Rows []struct {
			ID    string
			Value struct {
				Rev     string
				Deleted bool
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	err := to.into("POST", path+"/_all_docs", nil, map[string]any{"keys": keys}, &there)
	if err != nil {
		return err
	}
	revs := map[string][]string{}
	for _, row := range there.Rows {
		if row.Value.Rev != "" && !row.Value.Deleted {
			revs[row.ID] = []string{row.Value.Rev}
		}
	}
	var others missing
	if err := from.into("POST", path+"/_revs_diff", nil, revs, &others); err != nil {
		return err
	}
	for _, id := range keys {
		if other := others[id].Missing; other != nil {
			m.say("  %s is refused: %s has another document of this id, revision %s: delete one of them", id,
				redacted(to.Server), strings.Join(other, " "))
			delete(diff, id)
			m.refused++
		}
	}
	return nil
}

// copy copies revisions and returns their number: in two halves, and so on, if they are too large for one request or
// answer. One that is too large alone counts as refused.
func (m *move) copy(from, to *remote, path string, wanted []ref) (int, error) {
	copied, err := m.copyAtOnce(from, to, path, wanted)
	switch {
	case !isTooLarge(err):
		return copied, err
	case len(wanted) == 1:
		m.say("  %s is refused: %s", wanted[0].ID, err)
		m.refused++
		return 0, nil
	}
	half := len(wanted) / 2
	if copied, err = m.copy(from, to, path, wanted[:half]); err != nil {
		return copied, err
	}
	rest, err := m.copy(from, to, path, wanted[half:])
	return copied + rest, err
}

func isTooLarge(err error) bool {
	r, is := errors.AsType[*rejection](err)
	return is && r.status == http.StatusRequestEntityTooLarge ||
		errors.Is(err, errLongAnswer) || errors.Is(err, errLongRequest)
}

func (m *move) copyAtOnce(from, to *remote, path string, wanted []ref) (int, error) {
	docs, err := revisions(from, path, wanted)
	if to == &m.couch {
		docs = slices.DeleteFunc(docs, func(doc json.RawMessage) bool { return isBeyond(m, path, doc) })
	}
	if err != nil || len(docs) == 0 || m.DryRun {
		return len(docs), err
	}
	var refusals []struct{ ID, Error, Reason string }
	body := map[string]any{"new_edits": false, "docs": docs}
	if err := to.into("POST", path+"/_bulk_docs", nil, body, &refusals); err != nil {
		return 0, err
	}
	for _, r := range refusals {
		m.say("  %s is refused: %s: %s", r.ID, r.Error, r.Reason)
	}
	m.refused += len(refusals)
	return len(docs) - len(refusals), nil
}

// isBeyond reports whether a document is one of a replication that a CouchDB cannot run as it is meant, and says so. It
// remembers which of its fields a CouchDB ignores.
func isBeyond(m *move, path string, doc json.RawMessage) bool {
	body, err := ejson.Parse(doc)
	id, _ := body.Get("_id")
	deleted, _ := body.Get("_deleted")
	state, _ := body.Get("_replication_state")
	if err != nil || deleted.Kind == ejson.True || strings.HasPrefix(id.Text, "_design/") ||
		state.Text == "completed" || state.Text == "failed" { // which run on neither side
		return false
	}
	needed, ignored := spec.BeyondCouchDB(body)
	if len(needed) > 0 {
		m.say("  %s is refused: a CouchDB does not know `%s`", id.Text, strings.Join(needed, "`, `"))
		m.refused++
		return true
	}
	for _, field := range ignored {
		m.ignored[field] = append(m.ignored[field], strings.TrimPrefix(path, "/")+"/"+id.Text)
	}
	return false
}

// ref is a revision of a document.
type ref struct {
	ID  string `json:"id"`
	Rev string `json:"rev"`
}

// revisions reads the wanted revisions. It leaves out those that the server has no more: their documents were changed
// since, and come later in the feed.
func revisions(from *remote, path string, wanted []ref) (docs []json.RawMessage, err error) {
	var got struct {
		Results []struct {
			ID   string
			Docs []struct {
				OK    json.RawMessage
				Error struct{ Error, Reason string }
			}
		}
	}
	query := url.Values{"revs": {"true"}, "attachments": {"true"}}
	if err := from.into("POST", path+"/_bulk_get", query, map[string]any{"docs": wanted}, &got); err != nil {
		return nil, err
	}
	for _, r := range got.Results {
		for _, d := range r.Docs {
			switch {
			case d.OK != nil:
				docs = append(docs, d.OK)
			case d.Error.Error != "not_found":
				return nil, fmt.Errorf("document %s cannot be read: %s: %s", r.ID, d.Error.Error, d.Error.Reason)
			}
		}
	}
	return docs, nil
}
