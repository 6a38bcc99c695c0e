package couch

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// TestReadDocs: documents are what the rows say, whatever a server says instead.
func TestReadDocs(t *testing.T) {
	op := peer.ReadDocs{IDs: []string{"a", `b"`}, Budget: 1000}
	const none = `,{"key":"b\"","error":"not_found"}`
	const a = `{"id":"a","key":"a","value":{"rev":"1-x"},"doc":{"_id":"a","_rev":"1-x","n":1.50}}`
	for _, c := range []struct {
		name, answer string
		docs         []peer.DocRead
		failure      string
	}{
		{"a document and none", `{"total_rows":1,"rows":[` + a + `,{"key":"b\"","error":"not_found"}]}`,
			[]peer.DocRead{{ID: "a", Rev: "1-x", Body: []byte(`{"_id":"a","_rev":"1-x","n":1.50}`)}, {ID: `b"`}}, ""},
		{"a deleted one",
			`{"rows":[{"id":"a","key":"a","value":{"rev":"2-x","deleted":true},"doc":null}` + none + `]}`,
			[]peer.DocRead{{ID: "a", Rev: "2-x", Deleted: true}, {ID: `b"`}}, ""},
		{"a later revision of the body",
			`{"rows":[{"key":"a","value":{"rev":"1-x"},"doc":{"_id":"a","_rev":"2-y"}}` + none + `]}`,
			[]peer.DocRead{{ID: "a", Rev: "2-y", Body: []byte(`{"_id":"a","_rev":"2-y"}`)}, {ID: `b"`}}, ""},
		{"fewer", `{"rows":[` + a + `]}`, nil, "fewer documents"},
		{"more", `{"rows":[` + a + `,{"key":"b\"","error":"not_found"},{}]}`, nil, "more documents"},
		{"others", `{"rows":[{"key":"b\"","error":"not_found"}]}`, nil, "something else"},
		{"no revision", `{"rows":[{"key":"a","value":{}}]}`, nil, "no revision"},
		{"no rows", `{}`, nil, "fewer documents"},
		{"a page", `<html>`, nil, "HTML"},
		{"half", `{"rows":[` + a, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			serve := func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				const want = `POST /db/_all_docs?include_docs=true {"keys":["a","b\""]}`
				if q.Method+" "+q.URL.String()+" "+string(body) != want {
					t.Errorf("asked %s %s %s", q.Method, q.URL, body)
				}
				_, _ = io.WriteString(w, c.answer)
			}
			inRig(t, serve, nil, func(r *rig) {
				reply := r.do(op)
				if got, _ := reply.Result.(peer.DocsRead); !reflect.DeepEqual(got.Docs, c.docs) {
					t.Errorf("%+v", got)
				}
				f := reply.Failure
				if (f == nil) != (c.docs != nil) || f != nil && !strings.Contains(f.String(), c.failure) {
					t.Errorf("%v", f)
				}
			})
		})
	}
}

// TestReadLarge: a budget ends the reading, and a document that is too large or nested too deep is read without its
// body.
func TestReadLarge(t *testing.T) {
	row := func(id string, size int) string {
		const doc = `{"key":%q,"value":{"rev":"1-x"},"doc":{"_id":%q,"_rev":"1-x","x":"%s"}}`
		return fmt.Sprintf(doc, id, id, strings.Repeat("x", size))
	}
	sizes := map[string]int{"a": 10, "b": 2000, "c": maxRead + 1<<20, "d": maxRead + 1<<20}
	serve := func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		var rows []string
		for id := range strings.SplitSeq(strings.Trim(string(body), `{"keys:[]}`), `","`) {
			switch {
			case q.URL.RawQuery == "" && id == "d": // deleted meanwhile
				rows = append(rows, `{"key":"d","value":{"rev":"2-x","deleted":true}}`)
			case q.URL.RawQuery != "" && id == "f":
				const levels = 10_001
				deep := strings.Repeat("[", levels) + strings.Repeat("]", levels)
				rows = append(rows, `{"key":"f","value":{"rev":"1-x"},"doc":{"_id":"f","_rev":"1-x","x":`+deep+`}}`)
			case q.URL.RawQuery == "":
				rows = append(rows, fmt.Sprintf(`{"key":%q,"value":{"rev":"1-x"}}`, id))
			default:
				rows = append(rows, row(id, sizes[id]))
			}
		}
		_, _ = io.WriteString(w, `{"rows":[`+strings.Join(rows, ",")+`]}`)
	}
	inRig(t, serve, nil, func(r *rig) {
		for _, c := range []struct{ ids, got string }{
			{"a b c", "a b"}, {"a c", "a"}, {"c a", "c!"}, {"d a", "d"},
			{"a f", "a"}, {"f a", "f!"},
		} {
			var got []string
			for _, d := range must[peer.DocsRead](r, peer.ReadDocs{IDs: strings.Fields(c.ids), Budget: 1500}).Docs {
				if d.TooLarge {
					d.ID += "!"
				}
				got = append(got, d.ID)
			}
			if strings.Join(got, " ") != c.got {
				t.Errorf("of %s it read %s", c.ids, got)
			}
		}
	})
}

// TestEditDocs: each edit has an outcome, or all have failed.
func TestEditDocs(t *testing.T) {
	op := peer.EditDocs{Docs: []peer.NewEdit{
		{ID: "a", Body: []byte(`{"_id":"a"}`)}, {ID: "b", Body: []byte(`{"_id":"b"}`)},
	}}
	const a = `{"ok":true,"id":"a","rev":"2-x"}`
	for _, c := range []struct {
		name, answer string
		docs         []peer.EditedDoc
		failure      string
	}{
		{"one of each", `[` + a + `,{"id":"b","error":"conflict","reason":"Document update conflict."}]`,
			[]peer.EditedDoc{
				{ID: "a", Rev: "2-x"}, {ID: "b", Error: "conflict", Reason: "Document update conflict."},
			}, ""},
		{"fewer", `[` + a + `]`, nil, "fewer documents"},
		{"more", `[` + a + `,` + strings.Replace(a, `"a"`, `"b"`, 1) + `,` + a + `]`, nil, "more documents"},
		{"another", `[` + a + `,` + a + `]`, nil, "in the place of another"},
		{"neither", `[` + a + `,{"id":"b"}]`, nil, "neither"},
		{"a page", `<html>`, nil, "HTML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := `{"docs":[{"_id":"a"},{"_id":"b"}]}`
			inRig(t, asked{"POST", "/db/_bulk_docs", want, 201, c.answer}.serve(t), nil, func(r *rig) {
				reply := r.do(op)
				if got, _ := reply.Result.(peer.Edited); !reflect.DeepEqual(got.Docs, c.docs) {
					t.Errorf("%+v", got)
				}
				f := reply.Failure
				if (f == nil) != (c.docs != nil) || f != nil && !strings.Contains(f.String(), c.failure) {
					t.Errorf("%v", f)
				}
			})
		})
	}
}
