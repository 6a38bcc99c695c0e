package fuzz

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// FuzzRevsDiff answers _revs_diff with any bytes. The result has only revisions that were asked about, in the
// order of the question.
func FuzzRevsDiff(f *testing.F) {
	for _, answer := range recordings(f, "revs_diff") {
		f.Add([]byte(answer.body))
	}
	f.Add([]byte(`{"doc":{"missing":["2-B"]},"new":{"missing":["01-z"]}}`))
	f.Add([]byte(`{"new":{"missing":["1-z","9-q"],"possible_ancestors":["1-a"]},` +
		`"doc":{"missing":[]},"else":{"missing":["1-a"]}}`))
	asked := []peer.DocRevs{{ID: "doc", Revs: []string{"2-b", "3-x", "1-y"}},
		{ID: "new", Revs: []string{"1-z"}}, {ID: "gone", Revs: []string{"2-e"}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		once(body, 0).pair(t, func(do func(peer.Op) peer.Reply) {
			reply := do(peer.DiffRevs{Docs: asked})
			var told map[string]struct{ Missing []string }
			err := json.Unmarshal(body, &told)
			if reply.Failure != nil {
				return
			}
			rest := asked
			for _, d := range reply.Result.(peer.Diff).Docs {
				i := slices.IndexFunc(rest, func(q peer.DocRevs) bool { return q.ID == d.ID })
				if i < 0 || len(d.Missing) == 0 {
					t.Fatalf("%+v was not asked, or not in this order", d)
				}
				for _, rev := range d.Missing {
					if !slices.Contains(rest[i].Revs, rev) {
						t.Fatalf("%s of %s was not asked", rev, d.ID)
					}
					if err == nil && unique(body) && !answered(told[d.ID].Missing, rest[i].Revs, rev) {
						t.Fatalf("%s of %s was not answered", rev, d.ID)
					}
				}
				rest = rest[i+1:]
			}
		})
	})
}

// answered reports whether an answer makes a revision count as missing: it names the revision in some
// spelling, or one that was not asked about.
func answered(told, asked []string, rev string) bool {
	same := func(text string) func(string) bool {
		return func(other string) bool { return strings.EqualFold(text, other) }
	}
	return slices.ContainsFunc(told,
		func(t string) bool { return strings.EqualFold(t, rev) || !slices.ContainsFunc(asked, same(t)) })
}

// FuzzBulkDocs answers _bulk_docs with any bytes, after a _bulk_get that brought two documents. A refusal has
// an error word, and there are no more refusals than documents.
func FuzzBulkDocs(f *testing.F) {
	for _, answer := range recordings(f, "bulk_docs*") {
		f.Add([]byte(answer.body))
	}
	f.Add([]byte(`[{"id":"a","rev":"1-a","error":{},"reason":"` + password + `"},{"ok":true,"id":"b"}]`))
	fetched := []byte(`{"results":[{"id":"a","docs":[{"ok":{"_id":"a","_rev":"1-a"}}]},` +
		`{"id":"b","docs":[{"ok":{"_id":"b","_rev":"1-b"}}]}]}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := wire{answer: func(r *http.Request, _ []byte) []byte {
			if r.URL.Path == "/db/_bulk_get" {
				return says(200, "application/json", fetched)
			}
			return says(201, "application/json", body)
		}}
		w.pair(t, func(do func(peer.Op) peer.Reply) {
			do(peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "b", Rev: "1-b"}},
				Budget: 1000})
			reply := do(peer.WriteDocs{Docs: []peer.Kept{{Fetch: 1, Index: 0}, {Fetch: 1, Index: 1}}})
			var told []map[string]json.RawMessage
			isArray := json.Unmarshal(body, &told) == nil && told != nil && len(told) <= 2 &&
				!slices.ContainsFunc(told, func(m map[string]json.RawMessage) bool { return m == nil })
			if unique(body) && isArray != (reply.Failure == nil) {
				t.Fatalf("%s: %v", body, reply.Failure)
			}
			if reply.Failure != nil {
				return
			}
			refused := 0
			for _, m := range told {
				if _, is := m["error"]; is {
					refused++
				}
			}
			got := reply.Result.(peer.Written).Refused
			if unique(body) && len(got) != refused {
				t.Fatalf("%d refusals of %d: %s", len(got), refused, body)
			}
			for _, r := range got {
				if r.Error == "" || len(r.Error)+len(r.Reason) > 1000 ||
					bytes.Contains([]byte(r.Error+r.Reason), []byte(password)) {
					t.Fatalf("%+v", r)
				}
			}
		})
	})
}

// FuzzBulkGet answers _bulk_get with any bytes and writes the documents that were taken. The target gets the
// very bytes, and only documents that answer a question. With attachments, none is larger than the budget.
func FuzzBulkGet(f *testing.F) {
	for _, answer := range recordings(f, "bulk_get*") {
		f.Add([]byte(answer.body), uint16(1000), false)
		f.Add([]byte(answer.body), uint16(10), false)
		f.Add([]byte(answer.body), uint16(1000), true)
	}
	f.Add([]byte(`{"results":[{"id":"doc","docs":[{"ok":{"_id":"doc","_rev":"2-b","_revisions":{"start":2,`+
		`"ids":["b","a"]},"_attachments":{"x":{"revpos":1,"length":3,"stub":true},"y":{"data":"aGk="}}}}]}]}`),
		uint16(200), true)
	f.Add([]byte(`{"results":[{"docs":[{"ok":{"_id":"doc","_rev":"9-z","_revisions":{"start":9,"ids":["z","x"]},`+
		`"a":1e400}},{"error":{"id":"gone","rev":"2-e","error":"not_found","reason":"missing"}}],"id":"doc"}]}`),
		uint16(10), false)
	asked := []peer.DocRev{{ID: "doc", Rev: "2-c"}, {ID: "doc", Rev: "2-b", Since: []string{"1-a"}},
		{ID: "gone", Rev: "2-e"}, {ID: "nope", Rev: "1-a"}, {ID: "doc", Rev: "7-x"}}
	f.Fuzz(func(t *testing.T, body []byte, budget uint16, attachments bool) {
		var written []byte
		w := wire{answer: func(r *http.Request, sent []byte) []byte {
			if r.URL.Path == "/db/_bulk_get" {
				return says(200, "application/json", body)
			}
			written = sent
			return says(201, "application/json", []byte("[]"))
		}}
		w.pair(t, func(do func(peer.Op) peer.Reply) {
			reply := do(peer.FetchDocs{Docs: asked, Budget: int(budget), Attachments: attachments})
			if reply.Failure != nil {
				return
			}
			got := reply.Result.(peer.Fetched).Docs
			if len(got) != len(asked) {
				t.Fatalf("%d answers to %d questions", len(got), len(asked))
			}
			var kept []peer.Kept
			size, last := 0, 0
			for i, d := range got {
				if d.Fate == peer.Taken && d.Size == 0 || d.Size > 0 && d.Fate != peer.Taken &&
					d.Fate != peer.Attachments {
					t.Fatalf("%+v", d)
				}
				if d.Fate == peer.Taken {
					kept = append(kept, peer.Kept{Fetch: 1, Index: i})
					size, last = size+d.Size, max(last, d.Size)
				}
			}
			if size-last > int(budget) || attachments && last > int(budget) {
				t.Fatalf("%d bytes taken with a budget of %d", size, budget)
			}
			if len(kept) == 0 {
				return
			}
			if failure := do(peer.WriteDocs{Docs: kept}).Failure; failure != nil {
				t.Fatal(failure)
			}
			checkWritten(t, body, written, asked, got)
		})
	})
}

// checkWritten checks a body of _bulk_docs.
func checkWritten(t *testing.T, answer, written []byte, asked []peer.DocRev, got []peer.FetchedDoc) {
	t.Helper()
	var request struct {
		NewEdits *bool `json:"new_edits"`
		Docs     []json.RawMessage
	}
	if err := json.Unmarshal(written, &request); err != nil || request.NewEdits == nil || *request.NewEdits {
		t.Fatalf("%s: %v", written, err)
	}
	for i, d := range got {
		if d.Fate != peer.Taken {
			continue
		}
		raw := request.Docs[0]
		request.Docs = request.Docs[1:]
		var members map[string]any
		err := json.Unmarshal(raw, &members)
		if err != nil && !bytes.Contains(raw, []byte("e")) &&
			!bytes.Contains(raw, []byte("E")) { // a number too large for Go
			t.Fatalf("%s: %v", raw, err)
		}
		if err == nil && (members["_id"] != asked[i].ID || members["_rev"] != d.Rev) && unique(raw) {
			t.Fatalf("%s as %s %s", raw, asked[i].ID, d.Rev)
		}
		if len(raw) != d.Size || !bytes.Contains(answer, raw) {
			t.Fatalf("%s is not in the answer", raw)
		}
	}
	if len(request.Docs) > 0 {
		t.Fatalf("%d documents too many", len(request.Docs))
	}
}
