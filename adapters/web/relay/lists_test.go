package relay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/web/webtest"
)

// rowsOf are the ids of the documents of an answer's rows, and its other members.
type rowsOf struct {
	Total  *int64 `json:"total_rows"`
	Offset int64
	Cursor string
	Jobs   []struct {
		Job   string
		ID    string
		DocID string `json:"doc_id"`
		State string
	}
	Docs []struct {
		Database string
		DocID    string `json:"doc_id"`
		State    string
	}
}

func ask(t *testing.T, s *webtest.Site, path string) (r rowsOf, ids []string) {
	t.Helper()
	answer := s.Ask("GET " + path)
	text, err := io.ReadAll(answer.Body)
	if err := cmp.Or(err, json.Unmarshal(text, &r)); err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s: %d %s", path, answer.StatusCode, text)
	}
	for _, j := range r.Jobs {
		ids = append(ids, j.DocID)
	}
	for _, d := range r.Docs {
		ids = append(ids, d.DocID)
	}
	return r, ids
}

// newLists is a service with documents a to f in _replicator, of which c failed and d is completed, g in another
// database, and the job of a request.
func newLists(t *testing.T) *webtest.Site {
	t.Helper()
	s := newService(t)
	for _, db := range []string{"_replicator", "x%2F_replicator"} {
		s.Want("PUT /"+db, 201, `{"ok":true}`)
	}
	put := func(db, id, more string) {
		t.Helper()
		body := fmt.Sprintf(`{"source":"http://one/%s","target":"https://two:6984/b"%s}`, id, more)
		s.Want("PUT /"+db+"/"+id+" "+body, 201, `{"ok":true,"id":"`+id+`","rev":"1-*"}`)
	}
	for _, id := range []string{"a", "b", "e", "f"} {
		put("_replicator", id, `,"continuous":true`)
	}
	put("_replicator", "c", `,"_replication_state":"failed","_replication_state_reason":"bad"`)
	put("_replicator", "d", `,"_replication_state":"completed"`)
	put("x%2F_replicator", "g", "")
	s.Ask(`POST /_replicate {"source":"http://three/a","target":"http://one:81/b","continuous":true}`)
	return s
}

func TestLists(t *testing.T) {
	s := newLists(t)
	const unknown = -1
	for query, want := range map[string]struct {
		total int64
		ids   string
	}{
		"jobs?skip=1&database=_replicator":                     {4, "b e f"},
		"jobs?database=x/_replicator":                          {1, "g"},
		"jobs?states=running":                                  {0, ""},
		"jobs?states=pending,paused&limit=0":                   {6, ""},
		"jobs?server=three:80":                                 {1, ""},
		"jobs?server=THREE":                                    {1, ""},
		"jobs?server=one:80&database=_replicator&limit=2":      {4, "a b"},
		"jobs?server=two:6984&states=pending":                  {unknown, "a b e f g"},
		"jobs?node=n":                                          {0, ""},
		"jobs?user=joe":                                        {0, ""},
		"jobs?error=timeout":                                   {0, ""},
		"docs":                                                 {6, "a b c d e f"},
		"docs?database=_replicator&include_docs=true":          {6, "a b c d e f"},
		"docs?database=*":                                      {7, "a b c d e f g"},
		"docs/x/_replicator":                                   {1, "g"},
		"docs?descending=true&limit=3":                         {6, "f e d"},
		"docs?states=failed,completed":                         {2, "c d"},
		"docs?states=":                                         {6, "a b c d e f"},
		"docs?error=failed":                                    {1, "c"},
		`docs?start_key="b"&end_key="d"`:                       {6, "b c d"},
		`docs?startkey="d"&endkey="b"&descending=true&limit=2`: {6, "d c"},
		`docs?key="c"`:                                         {6, "c"},
		`docs?key="none"`:                                      {6, ""},
		`docs?keys=["f","none","a"]`:                           {6, "f a"},
		`docs?keys=["f","c","a"]&states=pending`:               {4, "f a"},
		`docs?keys=["f","c","a"]&skip=1&limit=1`:               {6, "c"},
		`docs?keys=[]`:                                         {6, ""},
	} {
		path, parameters, _ := strings.Cut(query, "?")
		r, ids := ask(t, s, "/_scheduler/"+path+"?"+encoded(parameters))
		got := int64(unknown)
		if r.Total != nil {
			got = *r.Total
		}
		if path == "jobs" || strings.Contains(parameters, "*") { // which database comes first is up to chance
			slices.Sort(ids)
		}
		text := strings.Join(ids, " ")
		if want.total != unknown && got != want.total || text != want.ids {
			t.Errorf("%s: %d rows: %s; want %d: %s", query, got, text, want.total, want.ids)
		}
	}
}

// encoded escapes the values of a query's parameters.
func encoded(parameters string) string {
	var parts []string
	for part := range strings.SplitSeq(parameters, "&") {
		if name, value, has := strings.Cut(part, "="); has {
			parts = append(parts, name+"="+url.QueryEscape(value))
		}
	}
	return strings.Join(parts, "&")
}

// TestListOfJobsByKey: jobs are asked for by their own id and by that of their replication.
func TestListOfJobsByKey(t *testing.T) {
	s := newLists(t)
	all, ids := ask(t, s, "/_scheduler/jobs?database=_replicator")
	job := all.Jobs[1].Job
	for _, form := range []string{`key="%s"`, `keys=["%s"]`, `start_key="%[1]s"&end_key="%[1]s"`} {
		query := fmt.Sprintf(form, job)
		if _, got := ask(t, s, "/_scheduler/jobs?"+encoded(query)); !slices.Equal(got, ids[1:2]) {
			t.Errorf("%s: %q", query, got)
		}
	}
	if _, got := ask(t, s, "/_scheduler/jobs?"+encoded(`key="`+all.Jobs[1].ID+`"`)); !slices.Equal(got, ids[1:2]) {
		t.Errorf("key %s: %q", all.Jobs[1].ID, got)
	}
}

// TestCursors: pages that follow cursors have each row once, while others come and go.
func TestCursors(t *testing.T) {
	s := newLists(t)
	for query, want := range map[string]string{
		"docs?limit=2": "a b|c d|e f", "docs?limit=6": "a b c d e f", "docs?skip=1&limit=3": "b c d|e f",
		"docs?limit=4&descending=true": "f e d c|b a", "docs?states=pending&server=one&limit=3": "a b e|f",
	} {
		path, parameters, _ := strings.Cut(query, "?")
		var pages []string
		for next := ""; len(pages) < 9; {
			r, ids := ask(t, s, "/_scheduler/"+path+"?"+parameters+next)
			pages = append(pages, strings.Join(ids, " "))
			if known := !strings.Contains(query, "server"); known != (r.Total != nil) {
				t.Errorf("%s: page %d tells the number of rows: %v", query, len(pages), !known)
			}
			if r.Cursor == "" {
				break
			}
			parameters = strings.ReplaceAll(parameters, "skip=1&", "")
			next = "&cursor=" + r.Cursor
		}
		if got := strings.Join(pages, "|"); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	r, _ := ask(t, s, "/_scheduler/docs?limit=2")
	rev := strings.Trim(s.Ask("GET /_replicator/b").Header.Get("ETag"), `"`)
	if answer := s.Ask("DELETE /_replicator/b?rev=" + rev); answer.StatusCode != 200 {
		t.Fatal(s.Text(answer))
	}
	if _, ids := ask(t, s, "/_scheduler/docs?limit=2&cursor="+r.Cursor); strings.Join(ids, " ") != "c d" {
		t.Errorf("after the deletion of the last row: %q", ids)
	}
}

// TestBadParametersOfLists: the refusal of a parameter or value names those that lists know.
func TestBadParametersOfLists(t *testing.T) {
	s := newLists(t)
	r, _ := ask(t, s, "/_scheduler/docs?limit=2")
	cursor := "cursor=" + r.Cursor
	const known = "; known are states, database, server, user, error, node, limit, skip, cursor, descending, " +
		"start_key, end_key, inclusive_end, key, keys"
	const another = "cursor is of another list: all parameters but limit must be those of the request whose answer " +
		"had it, and the database must be the same; without a cursor the list begins anew"
	for query, reason := range map[string]string{
		"jobs?stats=running":     "unknown parameter `stats`" + known,
		"docs?update_seq=true":   "unknown parameter `update_seq`" + known,
		"jobs?include_docs=true": "unknown parameter `include_docs`" + known,
		"docs?include_docs=yes":  "include_docs must be true or false",
		"jobs?descending=1":      "descending must be true or false",
		"jobs?user=a&user=b":     "user is given more than once",
		"jobs?user=":             "user must not be empty",
		"jobs?node=":             "node must not be empty",
		"jobs?states=completed":  "Unknown states [completed]. Choose from: [pending,running,crashing,paused]",
		"docs?states=odd": "Unknown states [odd]. " +
			"Choose from: [initializing,error,pending,running,crashing,paused,completed,failed]",
		"jobs?server=http://one/": "`server` must be a host name or address, with or without a port, " +
			"as in db.example.com:6984",
		"jobs?database=other": "database must be _replicator or a name that ends with /_replicator, and * " +
			"stands for all in _scheduler/docs",
		"docs/_replicator?database=*": "database is named in the path already",
		"docs?start_key=a":            `start_key must be a JSON string that is not empty, as in start_key="ID"`,
		`docs?key=7`:                  `key must be a JSON string that is not empty, as in key="ID"`,
		`docs?key="a"&end_key="b"`:    "key does not go together with start_key and end_key",
		"docs?inclusive_end=no":       "inclusive_end must be true or false",
		`docs?keys=["a"]&cursor=x`:    "keys does not go together with cursor",
		`docs?keys=a`:                 "keys must be a JSON array of at most 1000 strings",
		`docs?database=*&key="a"`:     "keys are ids of documents, so they need one database",
		"docs?cursor=hello":           "cursor must be one that an answer had",
		"docs?skip=1&" + cursor: "cursor says where the page begins, so it does not go together with skip, key " +
			"and keys",
		"docs?descending=true&" + cursor:               another,
		"docs/x/_replicator?" + cursor:                 another,
		"docs?states=failed&" + cursor:                 another,
		"jobs?" + cursor:                               another,
		"docs?" + strings.Replace(cursor, "I", "J", 1): "",
	} {
		path, parameters, _ := strings.Cut(query, "?")
		answer := s.Ask("GET /_scheduler/" + path + "?" + encoded(parameters))
		var body struct{ Error, Reason string }
		_ = json.Unmarshal([]byte(s.Text(answer)), &body)
		if answer.StatusCode != 400 || body.Error != "query_parse_error" || reason != "" && body.Reason != reason {
			t.Errorf("%s: %d %s", query, answer.StatusCode, body.Reason)
		}
	}
	s.Fails("GET /_scheduler/jobs?database=y%2F_replicator", 404, "not_found", "Database does not exist.")
	answer := s.Ask("DELETE /_replicator")
	if text := s.Text(answer); answer.StatusCode != 200 {
		t.Fatal(text)
	}
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	s.Fails("GET /_scheduler/docs?limit=2&"+cursor, 400, "query_parse_error", another)
}

// parts is an answer with the longest part that was written at once.
type parts struct {
	*httptest.ResponseRecorder
	longest int
}

func (p *parts) Write(text []byte) (int, error) {
	p.longest = max(p.longest, len(text))
	return p.ResponseRecorder.Write(text)
}

// TestLongLists: a list of all documents is never in memory as a whole, and says the same as a short one.
func TestLongLists(t *testing.T) {
	defer func(was int) { sentAtOnce = was }(sentAtOnce)
	s := newLists(t)
	more := &strings.Builder{}
	for i := range 3 * pageSize {
		fmt.Fprintf(more, `,{"_id":"g%03d","source":"http://one/g%d","target":"http://two/g"}`, i, i)
	}
	answer := s.Ask(`POST /x%2F_replicator/_bulk_docs {"docs":[` + more.String()[1:] + `]}`)
	if text := s.Text(answer); answer.StatusCode != 201 || strings.Contains(text, "error") {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	for _, path := range []string{
		"/_scheduler/docs?database=*", "/_scheduler/docs/x%2F_replicator?skip=100&limit=450",
		"/_scheduler/jobs?limit=603", "/_scheduler/docs?keys=%5B%22b%22,%22a%22%5D", "/_scheduler/jobs?limit=0",
		"/_scheduler/docs?states=running",
	} {
		look := func(most int) (longest int, text string, value any) {
			sentAtOnce = most
			w := &parts{ResponseRecorder: httptest.NewRecorder()}
			s.Config.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil))
			text = w.Body.String()
			err := json.Unmarshal([]byte(text), &value)
			if err != nil || w.Code != 200 || !strings.HasSuffix(text, "}\n") {
				t.Errorf("%s: %d %.200s: %v", path, w.Code, text, err)
			}
			return w.longest, text, value
		}
		whole, short, want := look(1 << 30)
		longest, text, got := look(1)
		rows := strings.Count(text, `"doc_id"`)
		if !reflect.DeepEqual(got, want) || len(short) != whole || rows > pageSize && longest > len(text)/2 {
			t.Errorf("%s: %d rows in %d bytes, %d at once\n got %.300s\nwant %.300s",
				path, rows, len(text), longest, text, short)
		}
	}
}
