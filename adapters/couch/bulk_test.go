package couch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
)

func TestDiffRevs(t *testing.T) {
	op := peer.DiffRevs{Docs: []peer.DocRevs{
		{ID: `b"`, Revs: []string{"1-a", "2-b"}}, {ID: "a", Revs: []string{"1-a"}}, {ID: "none"},
		{ID: "a", Revs: []string{"1-a", "3-c"}},
	}}
	want := `{"b\"":["1-a","2-b"],"a":["1-a","3-c"],"none":[]}`
	for _, c := range []struct {
		name, answer string
		missing      []peer.DocMissing
		failure      string
	}{
		{"all there", `{}`, nil, ""},
		{"in the order of the question",
			`{"a":{"missing":["3-c"],"possible_ancestors":["2-x","1-x"]},"b\"":{"missing":["1-a","2-b"],"x":{}}}`,
			[]peer.DocMissing{
				{ID: `b"`, Missing: []string{"1-a", "2-b"}},
				{ID: "a", Missing: []string{"3-c"}, Ancestors: []string{"2-x", "1-x"}},
			}, ""},
		{"a document that was not asked about", `{"z":{"missing":["1-z"]}}`, nil,
			`lacks document "z", about which it was not asked`},
		{"nothing of a document that was not asked about", `{"z":{"missing":[]},"a":{"missing":["3-c"]}}`,
			[]peer.DocMissing{{ID: "a", Missing: []string{"3-c"}}}, ""},
		{"a revision that was not asked about", `{"a":{"missing":["03-c"]}}`,
			[]peer.DocMissing{{ID: "a", Missing: []string{"1-a", "3-c"}}}, ""},
		{"more revisions than asked about", `{"a":{"missing":["3-c","3-c","3-d"]}}`,
			[]peer.DocMissing{{ID: "a", Missing: []string{"1-a", "3-c"}}}, ""},
		{"one revision twice", `{"a":{"missing":["3-c","3-C"]}}`,
			[]peer.DocMissing{{ID: "a", Missing: []string{"3-c"}}}, ""},
		{"too many", `{"z":{},"y":{},"x":{},"w":{}}`, nil, "more documents than it was asked about"},
		{"one twice", `{"a":{"missing":["1-a"]},"a":{"missing":["3-c"]}}`, nil, "about one twice"},
		{"an array", `[]`, nil, "where an object was expected"},
		{"missing a string", `{"a":{"missing":"1-a"}}`, nil, "where an array was expected"},
		{"missing a number", `{"a":{"missing":[1]}}`, nil, "something else than a string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, nil, asked{"POST", "/db/_revs_diff", want, 200, c.answer}.serve(t), func(r *rig) {
				reply := r.do(op)
				if d, _ := reply.Result.(peer.Diff); !reflect.DeepEqual(d.Docs, c.missing) {
					t.Errorf("%+v", d)
				}
				if f := reply.Failure; (f != nil) != (c.failure != "") ||
					f != nil && !strings.Contains(f.Reason, c.failure) {
					t.Errorf("%v", f)
				}
			})
		})
	}
}

// TestDiffRevsSpelling: a target may print revisions in lower case. The result has the question's spelling.
func TestDiffRevsSpelling(t *testing.T) {
	upper, lower := "1-"+strings.Repeat("AB", 16), "1-"+strings.Repeat("ab", 16)
	answer := `{"a":{"missing":["` + lower + `"]},"b":{"missing":["` + upper + `"]},"c":{"missing":["` +
		lower + `"]}}`
	inRig(t, nil, says(200, answer), func(r *rig) {
		got := must[peer.Diff](r, peer.DiffRevs{Docs: []peer.DocRevs{
			{ID: "a", Revs: []string{upper}}, {ID: "b", Revs: []string{"2-c", lower}},
			{ID: "c", Revs: []string{upper, "2-c", lower}},
		}})
		want := []peer.DocMissing{{ID: "a", Missing: []string{upper}},
			{ID: "b", Missing: []string{lower}}, {ID: "c", Missing: []string{upper, lower}}}
		if !reflect.DeepEqual(got.Docs, want) {
			t.Errorf("%+v", got)
		}
	})
}

// TestDiffRevsLargeAnswer: however long the target's answer, the memory kept of it is bounded.
func TestDiffRevsLargeAnswer(t *testing.T) {
	mib := strings.Repeat("x", 1<<20)
	var asked []peer.DocRevs
	for i := range 20 {
		asked = append(asked, peer.DocRevs{ID: fmt.Sprint(i), Revs: []string{"2-b"}})
	}
	inRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"x":{}`)
		for i := range 19 {
			_, _ = fmt.Fprintf(w, `,"%d":{"missing":["2-b"%s],"possible_ancestors":["1-a","1-%s"]}`,
				i, strings.Repeat(`,"2-b"`, 100_000), mib)
		}
		_, _ = io.WriteString(w, "}")
	}, func(r *rig) {
		kept := 0
		docs := must[peer.Diff](r, peer.DiffRevs{Docs: asked}).Docs
		for _, d := range docs {
			if len(d.Missing) != 1 || cap(d.Missing) > 1 {
				t.Errorf("%d revisions of %s, in place for %d", len(d.Missing), d.ID, cap(d.Missing))
			}
			for _, rev := range d.Ancestors {
				kept += len(rev)
			}
		}
		if len(docs) != 19 || kept > maxAncestors || kept < maxAncestors/2 {
			t.Errorf("%d documents, %d bytes of ancestors", len(docs), kept)
		}
	})
}

const (
	docA = `{"_id":"a","_rev":"1-a","_revisions":{"start":1,"ids":["a"]},"x":1.0,"big":12345678901234567890}`
	docB = `{"x":"\u00fc","_rev":"3-c","_id":"b","_revisions":{"start":3,"ids":["c","b","a"]}}`
	docC = `{"_id":"c","_rev":"1-c","_attachments":{"f":{"stub":true}}}`
	docD = `{"_id":"d","_rev":"1-d","_deleted":true, "_attachments": { } }`
)

// TestFetchDocs matches the answers of CouchDB, PouchDB and odder servers to the questions.
func TestFetchDocs(t *testing.T) {
	taken := func(doc, rev string) peer.FetchedDoc {
		return peer.FetchedDoc{Fate: peer.Taken, Size: len(doc), Rev: rev}
	}
	unreadable, missing := peer.FetchedDoc{Fate: peer.Unreadable}, peer.FetchedDoc{Fate: peer.Missing}
	ok := func(id, doc string) string { return fmt.Sprintf(`{"id":%q,"docs":[{"ok":%s}]}`, id, doc) }
	for _, c := range []struct {
		name    string
		asked   []peer.DocRev
		results string
		want    []peer.FetchedDoc
	}{
		{"plain", []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "b", Rev: "3-c"}},
			ok("a", docA) + "," + ok("b", docB), []peer.FetchedDoc{taken(docA, "1-a"), taken(docB, "3-c")}},
		{"other order", []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "b", Rev: "3-c"}},
			ok("b", docB) + "," + ok("a", docA), []peer.FetchedDoc{taken(docA, "1-a"), taken(docB, "3-c")}},
		{"id last", []peer.DocRev{{ID: "a", Rev: "1-a"}}, `{"docs":[{"ok":` + docA + `}],"id":"a"}`,
			[]peer.FetchedDoc{taken(docA, "1-a")}},
		{"attachments", []peer.DocRev{{ID: "c", Rev: "1-c"}, {ID: "d", Rev: "1-d"}},
			ok("c", docC) + "," + ok("d", docD),
			[]peer.FetchedDoc{{Fate: peer.Attachments}, taken(docD, "1-d")}},
		{"newer leaf", []peer.DocRev{{ID: "b", Rev: "2-b"}}, ok("b", docB),
			[]peer.FetchedDoc{taken(docB, "3-c")}},
		{"other branch", []peer.DocRev{{ID: "b", Rev: "2-x"}}, ok("b", docB), []peer.FetchedDoc{unreadable}},
		{"both replaced", []peer.DocRev{{ID: "b", Rev: "1-a"}, {ID: "b", Rev: "2-b"}},
			ok("b", docB) + "," + ok("b", docB), []peer.FetchedDoc{taken(docB, "3-c"), taken(docB, "3-c")}},
		{"PouchDB groups", []peer.DocRev{{ID: "a", Rev: "2-x"}, {ID: "a", Rev: "1-a"}},
			`{"id":"a","docs":[{"ok":` + docA + `},{"missing":"2-x"}]}`,
			[]peer.FetchedDoc{missing, taken(docA, "1-a")}},
		{"missing", []peer.DocRev{{ID: "a", Rev: "1-a"}},
			`{"id":"a","docs":[{"error":{"id":"a","rev":"1-a","error":"not_found","reason":"missing"}}]}`,
			[]peer.FetchedDoc{missing}},
		{"missing, named inside", []peer.DocRev{{ID: "a", Rev: "1-a"}},
			`{"docs":[{"error":{"id":"a","rev":"1-a","error":"not_found","reason":"missing"}}]}`,
			[]peer.FetchedDoc{missing}},
		{"error", []peer.DocRev{{ID: "a", Rev: "1-a"}},
			`{"id":"a","docs":[{"error":{"id":"a","rev":"1-a","error":"internal","reason":"x"}}]}`,
			[]peer.FetchedDoc{unreadable}},
		{"PouchDB's error", []peer.DocRev{{ID: "a", Rev: "1-a"}},
			`{"id":"a","docs":[{"error":"not_found","reason":"missing"}]}`, []peer.FetchedDoc{missing}},
		{"left out", []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "b", Rev: "3-c"}},
			ok("b", docB), []peer.FetchedDoc{unreadable, taken(docB, "3-c")}},
		{"wrong document", []peer.DocRev{{ID: "a", Rev: "1-a"}}, ok("a", docB),
			[]peer.FetchedDoc{unreadable}},
		{"no rev in it", []peer.DocRev{{ID: "a", Rev: "1-a"}}, ok("a", `{"_id":"a"}`),
			[]peer.FetchedDoc{unreadable}},
		{"not asked for", []peer.DocRev{{ID: "a", Rev: "1-a"}}, ok("b", docB) + "," + ok("a", docA),
			[]peer.FetchedDoc{taken(docA, "1-a")}},
		{"odd elements", []peer.DocRev{{ID: "a", Rev: "1-a"}},
			`{"id":"a","docs":[null,17,{"ok":null},{"ok":` + docA + `}]}`,
			[]peer.FetchedDoc{taken(docA, "1-a")}},
		{"no elements", []peer.DocRev{{ID: "a", Rev: "1-a"}}, `{"id":"a","docs":[]},{"x":1}`,
			[]peer.FetchedDoc{unreadable}},
		{"nothing", nil, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, says(200, `{"results":[`+c.results+`]}`), nil, func(r *rig) {
				got := must[peer.Fetched](r, peer.FetchDocs{Docs: c.asked, Budget: 1 << 20})
				if !reflect.DeepEqual(got.Docs, c.want) {
					t.Errorf("%+v\nwant %+v", got.Docs, c.want)
				}
			})
		})
	}
}

func TestFetchDocsRequest(t *testing.T) {
	body := `{"docs":[{"id":"a\"b","rev":"1-a"},{"id":"b","rev":"2-b"%s}],` +
		`"latest":true,"revs":true,"attachments":%v}`
	for _, inline := range []bool{false, true} {
		since := ""
		if inline {
			since = `,"atts_since":["1-x","1-y"]`
		}
		answer := asked{"POST", fmt.Sprint("/db/_bulk_get?revs=true&latest=true&att_encoding_info=true&attachments=",
			inline),
			fmt.Sprintf(body, since, inline), 200, `{"results":[]}`}
		inRig(t, answer.serve(t), nil, func(r *rig) {
			must[peer.Fetched](r, peer.FetchDocs{Docs: []peer.DocRev{{ID: `a"b`, Rev: "1-a"},
				{ID: "b", Rev: "2-b", Since: []string{"1-x", "1-y"}}}, Attachments: inline})
		})
	}
}

func TestFetchDocsFailures(t *testing.T) {
	many := strings.Repeat(`{"id":"z","docs":[]},`, manyFor(1)+1)
	for answer, reason := range map[string]string{
		`{"results":{}}`:   "where an array was expected",
		`{"results":[17]}`: "where an object was expected",
		`{"error":"x"}`:    "without results",
		`{"results":[]} x`: "invalid character",
		`{"results":[` + many[:len(many)-1] + `]}`:    "many more documents",
		`{"results":[{"id":"a","docs":[{"ok":{"_id":`: "EOF",
	} {
		inRig(t, says(200, answer), nil, func(r *rig) {
			reply := r.do(peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}, Budget: 100})
			if reply.Failure == nil || reply.Result != nil ||
				!strings.Contains(reply.Failure.Reason, reason) {
				t.Errorf("%s: %+v %v", answer, reply.Result, reply.Failure)
			}
			if len(r.pair.kept) != 0 {
				t.Errorf("%s: bodies are kept", answer)
			}
		})
	}
	parts := func(w http.ResponseWriter, r *http.Request) { // as of Sync Gateway
		w.Header().Set("Content-Type", `multipart/mixed; boundary="b"`)
		_, _ = io.WriteString(w, "--b\r\nContent-Type: application/json\r\n\r\n{}\r\n--b--")
	}
	inRig(t, parts, nil, func(r *rig) {
		f := r.do(peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}}).Failure
		if f == nil || f.Kind != peer.Status || f.Status != 200 { // which does not pass
			t.Errorf("parts: %v", f)
		}
	})
	inRig(t, says(405, `{"error":"method_not_allowed"}`), nil, func(r *rig) {
		if f := r.do(peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}}).Failure; f == nil ||
			f.Kind != peer.Status || f.Status != 405 {
			t.Errorf("%v", f)
		}
	})
}

// TestFetchDocsBreaksOff: of an answer that breaks off, or ends in an error, the documents before that are kept, and
// the others are asked for again. One that brings nothing has failed.
func TestFetchDocsBreaksOff(t *testing.T) {
	const first = `{"id":"a","docs":[{"ok":` + docA + `}]},`
	op := peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "b", Rev: "3-c"}}, Budget: 1000}
	for rest, kind := range map[string]peer.Kind{
		`{"id":"b","docs":[{"ok":{"_id":"b","_re`: peer.Broken, `{"error":"timeout"}]}{"error":"x"}`: peer.Malformed,
	} {
		for came, want := range map[string]int{first: 1, "": 0} {
			answer := func(w http.ResponseWriter, r *http.Request) {
				if kind == peer.Broken {
					w.Header().Set("Content-Length", "1000")
				}
				_, _ = io.WriteString(w, `{"results":[`+came+rest)
			}
			inRig(t, answer, nil, func(r *rig) {
				reply := r.do(op)
				got, _ := reply.Result.(peer.Fetched)
				switch f := reply.Failure; {
				case want == 0 && (f == nil || f.Kind != kind || len(r.pair.kept) > 0):
					t.Errorf("%s: %+v, %v", rest, got, f)
				case want == 1 && (f != nil || len(got.Docs) != 2 || got.Docs[1].Fate != peer.Left):
					t.Errorf("%s behind a document: %+v, %v", rest, got, f)
				case want == 1 && (got.Docs[0].Fate != peer.Taken || len(r.pair.kept) != 1):
					t.Errorf("%s behind a document: %+v", rest, got)
				}
			})
		}
	}
}

// TestFetchDocsBudget: reading stops when the budget is used up, but never before the first document.
func TestFetchDocsBudget(t *testing.T) {
	sent := 0
	answer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"results":[`)
		for i := range 1000 {
			doc := fmt.Sprintf(`{"id":"d%d","docs":[{"ok":{"_id":"d%d","_rev":"1-a","x":%q}}]}`,
				i, i, strings.Repeat("x", 10_000))
			if i > 0 {
				doc = "," + doc
			}
			if _, err := io.WriteString(w, doc); err != nil {
				return
			}
			sent++
		}
	}
	first := len(`{"_id":"d0","_rev":"1-a","x":""}`) + 10_000
	for budget, want := range map[int]int{0: 1, 1: 1, first: 1, first + 1: 2, 15_000: 2, 95_000: 10} {
		sent = 0
		inRig(t, answer, nil, func(r *rig) {
			var op peer.FetchDocs
			for i := range 1000 {
				op.Docs = append(op.Docs, peer.DocRev{ID: fmt.Sprint("d", i), Rev: "1-a"})
			}
			op.Budget = budget
			taken, left := 0, 0
			for _, d := range must[peer.Fetched](r, op).Docs {
				if d.Fate == peer.Taken {
					taken++
				} else if d.Fate == peer.Left {
					left++
				}
			}
			if taken != want || taken+left != 1000 {
				t.Errorf("budget %d: took %d, left %d", budget, taken, left)
			}
		})
		if sent > want+10 {
			t.Errorf("budget %d: read %d documents", budget, sent)
		}
	}
}

// TestFetchDocsBudgetAtTheEnd: a budget that the last document uses up costs no connection.
func TestFetchDocsBudgetAtTheEnd(t *testing.T) {
	answer := `{"results":[{"id":"a","docs":[{"ok":` + docA + `}]}` + strings.Repeat(" ", 10_000) + "]}"
	inRig(t, says(200, answer), nil, func(r *rig) {
		for range 2 {
			got := must[peer.Fetched](r, peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}, Budget: 1})
			if len(got.Docs) != 1 || got.Docs[0].Fate != peer.Taken || r.net.dials != 1 {
				t.Errorf("%+v over %d connections", got, r.net.dials)
			}
		}
	})
}

// TestWriteDocs sends kept bodies byte for byte.
func TestWriteDocs(t *testing.T) {
	source := says(200, `{"results":[{"id":"a","docs":[{"ok":`+docA+`}]},{"id":"b","docs":[{"ok":`+docB+`}]},`+
		`{"id":"c","docs":[{"ok":`+docC+`}]}]}`)
	for _, c := range []struct {
		name    string
		status  int
		answer  string
		refused []peer.Refusal
		failure string
	}{
		{"all", 201, `[]`, nil, ""},
		{"all, told one by one", 201, `[{"id":"b","rev":"3-c","ok":true},{"id":"a","rev":"1-a"}]`, nil, ""},
		{"no quorum yet", 202, `[]`, nil, ""},
		{"some", 201, `[{"id":"b","rev":"3-c","error":"forbidden","reason":"no s3cr3t+pa/ss"}]`,
			[]peer.Refusal{{ID: "b", Rev: "3-c", Error: "forbidden", Reason: "no *****"}}, ""},
		{"all or nothing", 417, `[{"id":"b","error":true,"reason":5}]`,
			[]peer.Refusal{{ID: "b", Error: "error"}}, ""},
		{"too large", 413, `{"error":"too_large","reason":"the request entity is too large"}`,
			nil, "413 too_large: the request entity is too large"},
		{"forbidden", 403, `{"error":"forbidden","reason":"x"}`, nil, "403 forbidden: x"},
		{"an object", 201, `{"ok":true}`, nil, "malformed_response: answered JSON with { where an array"},
		{"strings", 201, `["ok"]`, nil, "malformed_response: answered something else"},
		{"neither", 201, `[{"id":"b"},{"id":"a"}]`, nil, "malformed_response: answered neither"},
		{"not ok", 201, `[{"id":"b","ok":false}]`, nil, "malformed_response: answered neither"},
		{"HTML", 200, `<html><title>Please log in</title>`, nil, "malformed_response: answered HTML"},
		{"nothing", 201, ``, nil, "malformed_response: answered nothing"},
		{"null", 201, `null`, nil, "malformed_response: answered JSON with null where an array"},
		{"all or nothing or what", 417, `[]`, nil,
			"malformed_response: answered that it refused documents, but not which"},
		{"too many", 201, `[{"ok":true},{"ok":true},{"ok":true}]`, nil,
			"malformed_response: answered about more documents"},
		{"cut", 201, `[{"id":"b"`, nil, "connection_closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := func(w http.ResponseWriter, r *http.Request) {
				want := `{"new_edits":false,"docs":[` + docB + `,` + docA + `]}`
				body, _ := io.ReadAll(r.Body)
				if string(body) != want || r.ContentLength != int64(len(want)) ||
					r.Header.Get("X-Couch-Full-Commit") != "false" {
					t.Errorf("sent %s with %v", body, r.Header)
				}
				says(c.status, c.answer)(w, r)
			}
			inRig(t, source, target, func(r *rig) {
				must[peer.Fetched](r, peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"},
					{ID: "b", Rev: "3-c"}, {ID: "c", Rev: "1-c"}}, Budget: 10_000})
				reply := r.do(peer.WriteDocs{Docs: []peer.Kept{{Fetch: 1, Index: 1}, {Fetch: 1, Index: 0}}})
				if c.failure != "" {
					if reply.Failure == nil || !strings.Contains(reply.Failure.String(), ": "+c.failure) {
						t.Errorf("%+v %v", reply.Result, reply.Failure)
					}
					return
				}
				if w, _ := reply.Result.(peer.Written); reply.Failure != nil ||
					!reflect.DeepEqual(w.Refused, c.refused) {
					t.Errorf("%+v %v", reply.Result, reply.Failure)
				}
			})
		})
	}
}

func TestRelease(t *testing.T) {
	inRig(t, says(200, `{"results":[{"id":"a","docs":[{"ok":`+docA+`}]}]}`), says(201, `[]`), func(r *rig) {
		fetch := peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}, Budget: 100}
		write := peer.WriteDocs{Docs: []peer.Kept{{Fetch: 7}}}
		if reply := r.pair.Do(context.Background(), 7, fetch); reply.Failure != nil {
			t.Fatal(reply.Failure)
		}
		must[peer.Written](r, write)
		r.pair.Release(7)
		for _, op := range []peer.WriteDocs{write, {Docs: []peer.Kept{{Fetch: 7, Index: 5}}}} {
			if f := r.do(op).Failure; f == nil || f.Kind != peer.Cancelled {
				t.Errorf("%v", f)
			}
		}
	})
}

// TestManyRevisions: one document with very many revisions to ask about costs no more than as many documents.
func TestManyRevisions(t *testing.T) {
	var asked []string
	for i := range 100_000 {
		asked = append(asked, fmt.Sprintf("%d-0123456789abcdef", i))
	}
	began := time.Now()
	ids, revs := byID([]peer.DocRevs{{ID: "a", Revs: asked}, {ID: "b", Revs: asked[:1]},
		{ID: "a", Revs: asked[:50_000]}})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if !slices.Equal(ids, []string{"a", "b"}) || !slices.Equal(revs["a"], asked) ||
		!slices.Equal(revs["b"], asked[:1]) {
		t.Errorf("asks about %s: %d and %d revisions", ids, len(revs["a"]), len(revs["b"]))
	}
}
