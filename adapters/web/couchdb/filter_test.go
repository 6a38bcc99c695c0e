package couchdb

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/adapters/javascript"
)

// withFunctions is a site that runs functions, with documents and a design document.
func withFunctions(t *testing.T) *site {
	s := filled(t, func(o *Options) { o.Functions = javascript.New() })
	s.Want(`PUT /db/_design/d {"filters":{"two":"function(doc, req) { return doc.n >= 2 }",`+
		`"asked":"function(doc, req) { return doc.n == req.query.n }","all":"function() { return true }",`+
		`"told":"function(doc, req) { throw({told: toJSON(req)}) }","fails":"function(doc) { return doc.a.b }",`+
		`"syntax":"function("},"views":{"v":{"map":"function(doc) { if (doc.n < 3) { emit(doc.n) } }"}}}`,
		201, `{"ok":true,"id":"_design/d","rev":"1-*"}`)
	return s
}

// TestFilterFunctions: functions of design documents select revisions.
func TestFilterFunctions(t *testing.T) {
	s := withFunctions(t)
	rowB := `{"seq":S,"id":"c","changes":[{"rev":"2-b"}]}`
	rowCB := `{"seq":S,"id":"c","changes":[{"rev":"2-c"},{"rev":"2-b"}]}`
	designRow := `{"seq":S,"id":"_design/d","changes":[{"rev":"1-*"}]}`
	for query, want := range map[string]string{
		"filter=d/two":                      results("0", rowC),
		"filter=d/two&style=all_docs":       results("0", rowCB),
		"filter=d/asked&n=1":                results("0", rowA),
		"filter=d/asked&n=3":                results("0"),
		"filter=d/asked&n=3&style=all_docs": results("0", rowB),
		"filter=_view&view=d/v":             results("0", rowA, rowC),
		"filter=_view&view=d/v&limit=1":     results("4", rowA),
		"filter=d/all":                      results("0", rowA, rowC, rowE, rowD, designRow),
		"filter=d/all&limit=2":              results("3", rowA, rowC),
		"filter=d/all&limit=0":              results("5"),
		"filter=d/two&include_docs=true": results("0", strings.TrimSuffix(rowC,
			"}")+`,"doc":{"_id":"c","_rev":"2-c","n":2}}`),
		"filter=d/two&descending=true&limit=1": results("0", rowC),
		"filter=d/two&feed=longpoll":           results("0", rowC),
		"filter=_design":                       results("0", rowE, designRow),
	} {
		s.Want("GET /db/_changes?"+query, 200, want)
	}
	s.Want(`POST /db/_changes?filter=d/two {"any":"body"}`, 200, results("0", rowC))
	s.Fails("GET /db/_changes?filter=none/f", 404, "not_found", "missing")
	s.Fails("GET /db/_changes?filter=d/none", 404, "not_found", "missing json key: none")
	s.Fails("GET /db/_changes?filter=_view&view=d/none", 404, "not_found", "missing json key: none")
	s.Fails("GET /db/_changes?filter=d/fails", 500, "TypeError", "Cannot read property 'b' of undefined")
	if text := s.Text(s.Ask("GET /db/_changes?filter=d/syntax&since=now")); !strings.HasPrefix(text,
		`{"error":"compilation_error"`) {
		t.Error(text)
	}
}

// TestToldRequest: a function is told of the request, and of nothing with which the user logs in.
func TestToldRequest(t *testing.T) {
	s := withFunctions(t)
	text := s.Text(s.Ask(`POST /db/_changes?filter=d/told&x=1 {"b":2}`, "Authorization", "Basic c2VjcmV0OnNlY3JldA==",
		"Cookie", "AuthSession=secret", "X-Own", "y"))
	text = strings.ReplaceAll(text, `\"`, `"`)
	for _, part := range []string{`"method":"POST"`, `"requested_path":["db","_changes"]`, `"x":"1"`, `"X-Own":"y"`,
		`"userCtx":{"db":"db","name":null,"roles":[]}`, `"secObj":{}`, `"db_name":"db"`, `"cookie":{}`, `"id":null`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not told: %s", part, text)
		}
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "c2VjcmV0") ||
		strings.Contains(text, "Authorization") {
		t.Errorf("a login is told: %s", text)
	}
}

// TestManyFiltered: a function that selects few of many documents is asked for all of them, page by page, and the limit
// counts those that it selects. The next request goes on behind the page.
func TestManyFiltered(t *testing.T) {
	s := withFunctions(t)
	many(s, 450)
	s.Want(`PUT /db/_design/few {"filters":{"f":"function(doc) { return doc._id == '449' || doc._id == '3' }"}}`, 201,
		`{"ok":true,"id":"_design/few","rev":"1-*"}`)
	row := func(id string) string { return fmt.Sprintf(`{"seq":S,"id":"%s","changes":[{"rev":"1-x"}]}`, id) }
	s.Want("GET /db/_changes?filter=few/f", 200, results("0", row("3"), row("449")))
	s.Want("GET /db/_changes?filter=few/f&limit=1", 200, results("356", row("3")))
	s.Want("GET /db/_changes?filter=few/f&limit=1&since=$seq", 200, results("0", row("449")))
}

// TestEventSource: rows, signs of life, and how a browser comes back.
func TestEventSource(t *testing.T) {
	s := withFunctions(t)
	answer := s.Ask("GET /db/_changes?feed=eventsource&timeout=1&limit=2")
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" ||
		answer.Header.Get("Cache-Control") != "no-cache" {
		t.Error(answer.Header)
	}
	lines := strings.Split(s.Text(answer), "\n")
	if len(lines) < 6 || lines[0] != "data: "+rowA || !strings.HasPrefix(lines[1], `id: "`) || lines[2] != "" ||
		lines[3] != "data: "+rowC {
		t.Errorf("%q", lines)
	}
	last := strings.TrimPrefix(lines[4], "id: ")
	answer = s.Ask("GET /db/_changes?feed=eventsource&timeout=1&since=0", "Last-Event-ID", last)
	if text := s.Text(answer); !strings.HasPrefix(text, "data: "+rowE+"\nid: ") || strings.Count(text, "data:") != 3 {
		t.Errorf("%s", text)
	}
	s.Want("GET /db/_changes?feed=eventsource&timeout=1&since=now", 200, "")
	next, cancel := s.lines("?feed=eventsource&heartbeat=20&since=now")
	defer cancel()
	for _, want := range []string{"event: heartbeat", "data: ", "", "event: heartbeat"} {
		if line := next(); line != want {
			t.Errorf("%q, want %q", line, want)
		}
	}
}

// TestSeqInterval: only some rows have sequences.
func TestSeqInterval(t *testing.T) {
	s := filled(t)
	if text := s.Text(s.Ask("GET /db/_changes?seq_interval=2")); strings.Count(text, `"seq":S`) != 2 ||
		strings.Count(text, `"seq":null`) != 2 {
		t.Error(text)
	}
}
