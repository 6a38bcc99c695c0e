package couch

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// saysMixedOr answers requests for attachments, by their URIs, and others with the parts of documents.
func saysMixedOr(bytesOf map[string]string, answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if data, is := bytesOf[r.RequestURI]; is {
			says(200, data)(w, r)
			return
		}
		saysMixed(answer)(w, r)
	}
}

// TestCopyDocInAnyOrder: a server sends the attachments of a document in another order than the document has them. They
// arrive in the document's, and so does the next revision.
func TestCopyDocInAnyOrder(t *testing.T) {
	doc, last := docWith("2-b", attZip, attOne, attTwo), docWith("3-c", attText)
	answer := new(mixed).part(doc, attZip, attTwo, attOne).part(last, attText).end()
	target := &writes{t: t}
	bytesOf := map[string]string{"/db/doc/one?rev=2-b": "11", "/db/doc/two?rev=2-b": "22"}
	inRig(t, saysMixedOr(bytesOf, answer), target.serve, func(r *rig) {
		got := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"2-b", "3-c"}})
		if want := []peer.CopiedRev{{Rev: "2-b"}, {Rev: "3-c"}}; !reflect.DeepEqual(got.Revs, want) {
			t.Errorf("%+v", got)
		}
	})
	uri := "/db/doc?new_edits=false"
	want := []written{{uri, doc, []att{attZip, attOne, attTwo}}, {uri, last, []att{attText}}}
	if !reflect.DeepEqual(target.list, want) {
		t.Errorf("wrote %+v\nwant  %+v", target.list, want)
	}
}

// TestCopyDocControlNames: CouchDB writes names and types of attachments into headers as they are, also with line
// ends in them, which end a header, or all of them.
func TestCopyDocControlNames(t *testing.T) {
	last := docWith("3-c", attText)
	for _, odd := range []att{
		{name: "a\nb", kind: "text/plain"}, {name: "a\r\n\r\nb", kind: "text/plain"},
		{name: "a", kind: "text/plain\n"}, {name: "a", kind: "x\r\ny"},
		{name: "a", kind: "\r\n"}, {name: "a\r", kind: "\n\r\n\tx\r\r"},
	} {
		odd.data = "\r\n--inne\r\n\r\n\n\x00odd\r"
		name := odd.name
		doc := docWith("2-b", attOne, odd, attTwo)
		answer := new(mixed).part(doc, attOne, odd, attTwo).part(last, attText).end()
		target := &writes{t: t}
		bytesOf := map[string]string{
			"/db/doc/one?rev=2-b": "11", "/db/doc/two?rev=2-b": "22",
			"/db/doc/" + url.PathEscape(name) + "?rev=2-b": odd.data,
		}
		inRig(t, saysMixedOr(bytesOf, answer), target.serve, func(r *rig) {
			got := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"2-b", "3-c"}})
			if want := []peer.CopiedRev{{Rev: "2-b"}, {Rev: "3-c"}}; !reflect.DeepEqual(got.Revs, want) {
				t.Errorf("%q: %+v", name, got)
			}
		})
		odd.name, odd.kind = oneLine(name), oneLine(odd.kind)
		uri := "/db/doc?new_edits=false"
		want := []written{{uri, doc, []att{attOne, odd, attTwo}}, {uri, last, []att{attText}}}
		if !reflect.DeepEqual(target.list, want) {
			t.Errorf("wrote %+v\nwant  %+v", target.list, want)
		}
	}
}

// TestCopyDocNamesForPouch: PouchDB's server reads the names of attachments out of headers in its own way, and a
// name that is none of the document's ends its process. So the document is refused if that way leads to no name.
func TestCopyDocNamesForPouch(t *testing.T) {
	for name, want := range map[string]string{
		"ü a": "ü a", `x";y`: "x&#34;;y", "a%22b": "a&#37;22b", "&#65;": "&#38;#65;",
		"a\tb\n": "a&#9;b&#10;", `a\b`: "",
	} {
		odd := att{name: name, kind: "text/plain", data: "odd"}
		source := saysMixed(new(mixed).part(docWith("2-b", odd), odd).part(docWith("3-c", attText), attText).end())
		target := &writes{t: t}
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.RequestURI, "?rev=") {
				says(200, "odd")(w, r)
				return
			}
			source(w, r)
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				says(200, `{"update_seq":1,"instance_start_time":"1","backend_adapter":"MemDown"}`)(w, r)
				return
			}
			target.serve(w, r)
		}, func(r *rig) {
			must[peer.Opened](r, peer.Open{Side: peer.Target})
			got := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"2-b", "3-c"}})
			v := got.Revs[0].Refused
			told := v != nil && strings.Contains(v.Reason, "with a backslash")
			if (v != nil) != (want == "") || told != (want == "") {
				t.Errorf("%q: %+v, %+v", name, got.Revs, v)
			}
		})
		odd.name = want
		if want != "" && !reflect.DeepEqual(target.list[0].atts, []att{odd}) {
			t.Errorf("%q: wrote %+v", name, target.list[0].atts)
		}
	}
}

// TestCopyLongID: neither server takes a URL with an id of 9 kB, which CouchDB answers without a word. The document is
// refused, or the copy says that it cannot be asked for.
func TestCopyLongID(t *testing.T) {
	id := strings.Repeat("L", 9000)
	doc := fmt.Sprintf(`{"_id":%q,"_rev":"1-a"}`, id)
	wordless := says(400, "")
	for _, c := range []struct {
		source http.HandlerFunc
		kind   peer.Kind
		status int
	}{
		{wordless, peer.Oversized, 0},
		{saysMixed(new(mixed).part(doc).end()), 0, 414},
	} {
		inRig(t, c.source, wordless, func(r *rig) {
			reply := r.do(peer.CopyDoc{ID: id, Revs: []string{"1-a"}})
			revs := reply.Result.(peer.Copied).Revs
			switch f := reply.Failure; {
			case c.kind != 0 && (f == nil || f.Kind != c.kind):
				t.Errorf("%v", f)
			case c.status != 0 && (len(revs) != 1 || revs[0].Refused == nil || revs[0].Refused.Status != c.status):
				t.Errorf("%+v, %v", revs, f)
			}
		})
	}
}

// TestCopyDocOddAttachments: whether a document may have attachments of another type is for the target to say.
func TestCopyDocOddAttachments(t *testing.T) {
	for _, value := range []string{"null", "[]", `"x"`} {
		doc := `{"_id":"doc","_rev":"2-b","_attachments":` + value + `}`
		for _, source := range []http.HandlerFunc{
			saysMixed(new(mixed).part(doc).end()), says(200, `[{"ok":`+doc+`}]`),
		} {
			refuses := says(400, `{"error":"doc_validation","reason":"Bad special document member: _attachments"}`)
			inRig(t, source, refuses, func(r *rig) {
				revs := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}}).Revs
				if len(revs) != 1 || revs[0].Refused == nil || revs[0].Refused.Status != 400 {
					t.Errorf("%s: %+v", value, revs)
				}
			})
		}
	}
}

// TestCopyDocOddNames: CouchDB quotes nothing in the names that it puts into headers, so one may look like another.
func TestCopyDocOddNames(t *testing.T) {
	atts := []att{
		{name: "x", kind: "text/plain", data: "11"}, {name: `x"; y="z`, kind: "text/plain", data: "22"},
		{name: `a\b`, kind: "text/plain", data: "33"}, {name: `a\\b`, kind: "text/plain", data: "44"},
	}
	target := &writes{t: t}
	inRig(t, saysMixed(new(mixed).part(docWith("2-b", atts...), atts...).end()), target.serve, func(r *rig) {
		got := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}})
		if !reflect.DeepEqual(got.Revs, []peer.CopiedRev{{Rev: "2-b"}}) || len(target.list[0].atts) != len(atts) {
			t.Errorf("%+v, wrote %+v", got.Revs, target.list)
		}
	})
}

// TestTroublesOfPouchDB: PouchDB has one word for troubles of its own and what it cannot name, and tells both as texts.
func TestTroublesOfPouchDB(t *testing.T) {
	inRig(t, saysMixed(new(mixed).part(docWith("1-a")).end()), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			says(200, `{"update_seq":1,"backend_adapter":"leveldb"}`)(w, r)
			return
		}
		says(500, `{"error":"unknown_error","reason":"Database encountered an unknown error"}`)(w, r)
	}, func(r *rig) {
		must[peer.Opened](r, peer.Open{Side: peer.Target})
		if f := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}}).Failure; f == nil || f.Status != 500 {
			t.Error(f)
		}
	})
}
