package javascript

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/json"
)

func selection(t testing.TB, path, function string) Selection {
	t.Helper()
	names := strings.Split(path, "/")
	var v any = function
	for _, name := range slices.Backward(names) {
		v = map[string]any{name: v}
	}
	design := v.(map[string]any)
	design["_id"], design["lib"] = "_design/d", map[string]string{"two": "exports.n = 2"}
	text, err := json.Encode(design)
	if err != nil {
		t.Fatal(err)
	}
	return Selection{Design: text, DesignID: "_design/d", Path: names,
		Docs:    [][]byte{[]byte(`{"_id":"a","n":1}`), []byte(`{"_id":"b","n":2}`)},
		Request: []byte(`{"query":{"n":"2"}}`)}
}

// TestSelect: filters and views, and what CouchDB 3.5 makes of what they answer. Errors are told in words here.
func TestSelect(t *testing.T) {
	e := newPatient()
	for _, c := range [][3]string{
		{"filters/f", `function(doc, req) { return doc.n > 1 }`, "[false true]"},
		{"filters/f", `function(doc, req) { return doc.n == req.query.n }`, "[false true]"},
		{"filters/f", `function(doc) { return "x" }`, "[true true]"},
		{"filters/f", `function(doc) { return 1 }`, "[true true]"},
		{"filters/f", `function(doc) {}`, "[false false]"},
		{"filters/f", `function(doc) { return null }`, "[false false]"},
		{"filters/f", `function(doc) { return doc.n == require("lib/two").n }`, "[false true]"},
		{"filters/f", `function(doc) { return this._id == "_design/d" }`, "[true true]"},
		{"filters/f", `function(doc) { emit(1) }`, "[false false]"},
		{"filters/f", `function(doc) { throw({forbidden: "no"}) }`, "failed forbidden: no"},
		{"filters/f", `function(doc) { return doc.a.b }`, "failed TypeError: Cannot read property 'b' of undefined"},
		{"filters/f", `function(doc) { throw 1 }`, "failed unknown_error: the function threw 1"},
		{"filters/f", `function(`, "failed compilation_error: SyntaxError"},
		{"filters/f", `5`, "failed compilation_error: Expression does not eval to a function."},
		{"views/v/map", `function(doc) { if (doc.n > 1) { emit(doc.n, null); emit(1) } }`, "[false true]"},
		{"views/v/map", `function(doc) { return true }`, "[false false]"},
		{"views/v/map", `function(doc) { doc.a.b }`, "failed TypeError"},
	} {
		selected, refusal := e.Select(selection(t, c[0], c[1]))
		got := fmt.Sprint(selected)
		if refusal != nil {
			got = told(refusal)
		}
		if !strings.HasPrefix(got, c[2]) {
			t.Errorf("%s %s\nanswers %q, want %q", c[0], c[1], got, c[2])
		}
	}
	s := selection(t, "filters/f", `function(doc) { return true }`)
	s.Path = []string{"filters", "none"}
	if _, refusal := e.Select(s); told(refusal) != "missing not_found: missing json key: none" {
		t.Error(told(refusal))
	}
	s.Path, s.Design = []string{"filters", "f"}, []byte(`{"language":"erlang","filters":{"f":"x"}}`)
	if _, refusal := e.Select(s); told(refusal) != "failed unknown_query_language: erlang" {
		t.Error(told(refusal))
	}
}

// TestSelectBounds: a function that does not end is ended.
func TestSelectBounds(t *testing.T) {
	e := New()
	e.maxTime = 10 * time.Millisecond
	for _, function := range []string{
		`function(doc) { for (;;) {} }`, `function f(doc) { f(doc) }`, `function(doc) { "x".repeat(1e9) }`,
		`(function() { for (;;) {} })()`, `function(doc) { return {get a() { for (;;) {} }}.a }`,
	} {
		begin := time.Now()
		selected, refusal := e.Select(selection(t, "filters/f", function))
		if took := time.Since(begin); refusal == nil || selected != nil || took > 20*time.Second {
			t.Errorf("%s: %v %v after %v", function, selected, refusal, took)
		}
	}
}
