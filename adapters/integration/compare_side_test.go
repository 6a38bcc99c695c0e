package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// side is a server that is asked all cases.
type side struct {
	t     *testing.T
	url   string // with the admin
	peer  string // the CouchDB of sources and targets, with the admin
	named string // the same as it was when ids were recorded
}

const (
	casesDB = "compare%2F_replicator"
	lateDB  = "compare-late%2F_replicator"
	listsDB = "compare-lists%2F_replicator"
	idsDB   = "compare-ids%2F_replicator"
	hostDB  = "compare-host%2F_replicator"
)

// userPrefix begins the ids of users that cases make.
const userPrefix = "org.couchdb.user:compare-"

// compared is a case of cases.txt.
type compared struct{ kind, name, rest string }

func compareCases() (list []compared) {
	raw, err := os.ReadFile(filepath.Join(compareDir, "cases.txt"))
	check(err)
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		name, rest, _ := strings.Cut(rest, " ")
		list = append(list, compared{kind, name, rest})
	}
	return list
}

// all asks all cases. goal is what CouchDB answered, nil for CouchDB itself. Requests come first, and documents with
// which CouchDB's scheduler does not get on last.
func (s side) all(goal map[string]answered) map[string]answered {
	s.clean()
	s.t.Cleanup(s.clean)
	cases, result := compareCases(), map[string]answered{}
	s.prepare()
	for _, c := range cases {
		if c.kind == "ask" {
			result["ask "+c.name] = s.ask(c.name, c.rest)
		}
	}
	for _, c := range cases {
		if c.kind == "doc" {
			s.database("compare-t-" + c.name)
			result["doc "+c.name] = s.write(casesDB, c)
			if status := result["doc "+c.name].Status; status < 300 &&
				!strings.Contains(c.rest, `"_replication_state"`) {
				s.identify(c)
			}
		}
	}
	s.follow(result, goal)
	if goal == nil {
		defer s.idle()()
	}
	for _, c := range cases {
		if c.kind == "late" {
			result["doc "+c.name] = s.write(lateDB, c)
		}
	}
	for _, db := range []string{lateDB, casesDB, idsDB} {
		s.empty(db)
		s.send("DELETE", "/"+db, "", "")
	}
	if goal != nil && couch == "" {
		for name := range result {
			if needsCouch(name) {
				delete(result, name)
			}
		}
	}
	return result
}

// idle keeps a CouchDB from running jobs, until the function that it returns is called: some documents stop its
// scheduler
// for good.
func (s side) idle() (resume func()) {
	const key = "/_node/_local/_config/replicator/max_jobs"
	before, a := s.send("GET", key, "", "")
	s.send("PUT", key, `"0"`, "")
	time.Sleep(time.Second) // until the scheduler has heard of it
	return func() {
		time.Sleep(5 * time.Second) // until it has heard that the documents are gone
		if a.Status != 200 {
			before = []byte(`"500"`) // the default; the deletion of this key stops CouchDB from hearing of changes
		}
		s.send("PUT", key, string(before), "")
	}
}

// oneShard has a CouchDB make databases of one shard, until the function that it returns is called: rows of several
// come in any order, and lists of some keys are answered 500.
func (s side) oneShard() (restore func()) {
	const key = "/_node/_local/_config/cluster/q"
	before, a := s.send("GET", key, "", "")
	s.send("PUT", key, `"1"`, "")
	return func() {
		if a.Status != 200 {
			before = []byte(`"2"`) // the default
		}
		s.send("PUT", key, string(before), "")
	}
}

// write writes the document of a case.
func (s side) write(db string, c compared) answered {
	_, a := s.send("PUT", "/"+db+"/"+c.name, s.document(c.name, "t", s.peer, c.rest), "")
	return a
}

// document is the body of a case.
func (s side) document(name, kind, peer, more string) string {
	var members []string
	for _, m := range [][2]string{{"source", `"$S"`}, {"target", `"$T"`}, {"retries_per_request", "1"}} {
		if !strings.Contains(more, `"`+m[0]+`":`) {
			members = append(members, `"`+m[0]+`":`+m[1])
		}
	}
	if more != "" {
		members = append(members, more)
	}
	return s.filled(name, kind, peer, "{"+strings.Join(members, ",")+"}")
}

// filled replaces names of databases.
func (s side) filled(name, kind, peer, text string) string {
	u, err := url.Parse(peer)
	check(err)
	password, _ := u.User.Password()
	return strings.NewReplacer("$S", peer+"compare-source", "$T", peer+"compare-"+kind+"-"+name, "$B", peer,
		"$P", "http://"+u.Host, "$U", u.User.Username(), "$W", password, "$L", listsDB, "$H", hostDB).Replace(text)
}

// identify makes a continuous job of a case with another target, which shows its replication id.
func (s side) identify(c compared) {
	more := strings.TrimSuffix(`"continuous":true,`+strings.ReplaceAll(c.rest, `"continuous":`, `"was":`), ",")
	s.send("PUT", "/"+idsDB+"/"+c.name, s.document(c.name, "i", s.named, more), "")
}

// ask sends a request.
func (s side) ask(name, line string) answered {
	line, user, _ := strings.Cut(line, " @")
	method, rest, _ := strings.Cut(line, " ")
	path, body, _ := strings.Cut(rest, " ")
	if strings.Contains(body, "$T") {
		s.database("compare-r-" + name)
	}
	if strings.Contains(rest, "$R") { // the revision of the document h1
		_, doc := s.object("GET", "/"+hostDB+"/h1")
		path = strings.ReplaceAll(path, "$R", text(doc["_rev"]))
		body = strings.ReplaceAll(body, "$R", text(doc["_rev"]))
	}
	_, a := s.send(method, s.filled(name, "r", s.peer, path), s.filled(name, "r", s.peer, body), user)
	if path == "/_active_tasks" {
		a.Rows = "" // it depends on the moment what runs
	}
	return a
}

// patience is how long a request may take.
const patience = time.Minute

func text(v any) string {
	s, _ := v.(string)
	return s
}

// send sends a request of a user: the admin, joe, one with a wrong password, or none. The body of COPY is its
// destination.
func (s side) send(method, path, body, user string) (raw []byte, a answered) {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context()) // which is over when the test cleans up
	path = strings.NewReplacer(`"`, "%22", "[", "%5B", "]", "%5D").Replace(path)
	u, err := url.Parse(strings.TrimSuffix(s.url, "/") + path)
	check(err)
	switch user {
	case "none":
		u.User = nil
	case "joe":
		u.User = url.UserPassword("compare-joe", "secret")
	case "bad":
		u.User = url.UserPassword("compare-nobody", "wrong") // CouchDB locks out a name that exists
	}
	q, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
	check(err)
	if method == "COPY" && body != "" {
		q.Body, q.ContentLength = nil, 0
		q.Header.Set("Destination", body)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	q.Close = true                           // CouchDB sends more than the end of some feeds
	q.Header.Set("X-Couch-Persist", "false") // of changes of the configuration
	answer, err := (&http.Client{Timeout: patience}).Do(q)
	if err != nil {
		s.t.Logf("no answer to %s %s %s", method, path, body)
		return nil, answered{Error: "no answer"}
	}
	defer answer.Body.Close()
	raw, _ = io.ReadAll(answer.Body) // CouchDB breaks some answers off, which are no JSON then
	return raw, answerOf(answer.StatusCode, raw)
}

// object is the object that a request is answered with.
func (s side) object(method, path string) (int, object) {
	raw, a := s.send(method, path, "", "")
	var o object
	_ = json.Unmarshal(raw, &o)
	return a.Status, o
}

// answerOf tells what is compared of an answer.
func answerOf(status int, raw []byte) answered {
	a := answered{Status: status}
	var body any
	_ = json.NewDecoder(bytes.NewReader(raw)).Decode(&body)
	o, isObject := body.(object)
	list, isList := body.([]any)
	for _, member := range []string{"docs", "rows", "results", "indexes"} {
		if rows, is := o[member].([]any); is {
			list, isList = rows, true
		}
	}
	for line := range strings.Lines(string(raw)) { // of an event source, or a continuous feed
		var row object
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &row) == nil && row["changes"] != nil &&
			!isObject {
			list, isList = append(list, row), true
		}
	}
	if isObject {
		a.Error, a.Body = text(o["error"]), kinds("", o, map[string]string{})
	}
	if total, has := o["total_rows"]; has && o["jobs"] == nil { // of which a server may have others
		a.Total = fmt.Sprint(total, " from ", o["offset"])
	}
	if !isList {
		return a
	}
	var rows []string
	for _, v := range list {
		rows = append(rows, about(v))
	}
	a.Rows = "[" + strings.Join(rows, " ") + "]"
	return a
}

// about is what a row of a list is about.
func about(v any) string {
	row, is := v.(object)
	if !is {
		return fmt.Sprint(v)
	}
	for _, name := range []string{"doc_id", "id", "_id", "key", "name", "n"} {
		if v, has := row[name]; has && name != "id" || has && row["doc_id"] == nil {
			what := fmt.Sprint(v)
			if state := text(row["state"]); state != "" {
				what += "=" + state
			}
			if failed := text(row["error"]); failed != "" {
				what += "=" + failed
			}
			return what
		}
	}
	if rows, is := row["rows"].([]any); is {
		return fmt.Sprint(len(rows), " rows")
	}
	return "?"
}

// database makes a database of the peer, if it is not there.
func (s side) database(name string) {
	q, err := http.NewRequest("PUT", s.peer+name, nil)
	check(err)
	answer, err := http.DefaultClient.Do(q)
	check(err)
	answer.Body.Close()
}

// fixed are documents that lists have, and the state of each in the end.
var fixed = []struct{ id, more, state string }{
	{"a", `"source":"$Bnope","continuous":true`, "crashing"}, {"b", "", "completed"},
	{"c", `"continuous":true`, "running"}, {"d", `"target":"$Bnope","continuous":true`, "crashing"},
	{"e", `"_replication_state":"failed"`, "failed"}, {"f", `"filter":"d/nope","continuous":true`, "error"},
}

// hosted are documents of a database whose routes are compared. None of them asks for a job.
var hosted = [][2]string{
	{"h1", `{"_replication_state":"failed","source":"http://h/a","target":"http://h/b","n":1,"s":"x","o":{"p":[1,2]}}`},
	{"h2", `{"_replication_state":"failed","source":"http://h/a","target":"http://h/c","n":2,"s":"y"}`},
	{"h3", `{"_replication_state":"completed","source":"http://h/a","target":"http://h/d","n":3,"o":{"p":[3]}}`},
	{"_design/d", `{"filters":{"two":"function(doc, req) { return doc.n >= 2 }",` +
		`"asked":"function(doc, req) { return doc.n == req.query.n }","text":"function(doc) { return 'x' }",` +
		`"fails":"function(doc) { return doc.a.b.c }","throws":"function(doc) { throw({forbidden: 'no'}) }",` +
		`"syntax":"function("},"views":{"v":{"map":"function(doc) { if (doc.n < 3) { emit(doc.n) } }"}}}`},
	{"_design/e", `{"n":5}`},
	{"_local/l1", `{"n":1}`},
	{"_local/l2", `{"n":2}`},
}

// prepare makes what the cases need, and waits for the documents that lists have.
func (s side) prepare() {
	s.database("compare-source")
	for path, body := range map[string]string{
		"doc1": `{"n":1}`, "doc2": `{"n":2}`,
		"_design/d": `{"filters":{"all":"function(doc, req) { return true }"},` +
			`"views":{"v":{"map":"function(doc) { emit(doc.n) }"}}}`,
	} {
		call(s.t, "PUT", s.peer+"compare-source/"+path, json.RawMessage(body))
	}
	s.send("PUT", "/_users", "", "")
	s.send("PUT", "/_replicator", "", "")
	s.send("PUT", "/_users/org.couchdb.user:compare-joe",
		`{"name":"compare-joe","password":"secret","roles":[],"type":"user"}`, "")
	for _, db := range []string{casesDB, lateDB, listsDB, idsDB, hostDB} {
		if raw, a := s.send("PUT", "/"+db, "", ""); a.Status != 201 && a.Status != 202 {
			s.t.Fatalf("%s: %d %s", db, a.Status, raw)
		}
	}
	for _, h := range hosted {
		if raw, a := s.send("PUT", "/"+hostDB+"/"+h[0], h[1], ""); a.Status != 201 {
			s.t.Fatalf("%s: %d %s", h[0], a.Status, raw)
		}
	}
	for _, f := range fixed {
		s.database("compare-l-" + f.id)
		s.send("PUT", "/"+listsDB+"/"+f.id, s.document(f.id, "l", s.peer, f.more), "")
	}
	for _, f := range fixed {
		await(s.t, f.id+" to be "+f.state, func() bool {
			_, view := s.object("GET", "/_scheduler/docs/"+listsDB+"/"+f.id)
			return view["state"] == f.state
		})
	}
}

// empty deletes the documents of a database: jobs of a database that is deleted may stay with CouchDB, and those of the
// next test would wait behind their crashes.
func (s side) empty(db string) {
	_, list := s.object("GET", "/"+db+"/_all_docs")
	rows, _ := list["rows"].([]any)
	var gone []object
	for _, r := range rows {
		row := r.(object)
		gone = append(gone, object{"_id": row["id"], "_rev": row["value"].(object)["rev"], "_deleted": true})
	}
	if raw, err := json.Marshal(object{"docs": gone}); err == nil && len(gone) > 0 {
		s.send("POST", "/"+db+"/_bulk_docs", string(raw), "")
		name := `"` + strings.ReplaceAll(db, "%2F", "/") + `"`
		for range 30 { // until its scheduler has heard of it
			time.Sleep(2 * time.Second)
			if raw, _ := s.send("GET", "/_scheduler/jobs?limit=1000", "", ""); !strings.Contains(string(raw), name) {
				break
			}
		}
	}
}

// clean removes what the cases left.
func (s side) clean() {
	remove := func(url string) {
		q, err := http.NewRequest("DELETE", url, nil)
		check(err)
		if answer, err := http.DefaultClient.Do(q); err == nil {
			answer.Body.Close()
		}
	}
	for _, db := range []string{lateDB, casesDB, listsDB, idsDB, hostDB} {
		s.empty(db)
		remove(strings.TrimSuffix(s.url, "/") + "/" + db)
	}
	for _, id := range []string{"_design/compare", "good", "bad", "a", "b"} {
		if !strings.HasPrefix(id, "_") {
			id = userPrefix + id
		}
		if status, doc := s.object("GET", "/_users/"+id); status == 200 {
			remove(strings.TrimSuffix(s.url, "/") + "/_users/" + id + "?rev=" + text(doc["_rev"]))
		}
	}
	q, err := http.NewRequest("GET", s.peer+`_all_dbs?start_key=%22compare-%22&end_key=%22compare-~%22`, nil)
	check(err)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	var names []string
	_ = json.NewDecoder(answer.Body).Decode(&names)
	for _, name := range names {
		if strings.HasPrefix(name, "compare-") && !strings.Contains(name, "/") {
			remove(s.peer + name)
		}
	}
}
