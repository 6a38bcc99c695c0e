package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// compareDir has the cases, CouchDB's answers to them, and the differences that stay with their reasons.
const compareDir = "testdata/compare"

// answered is what a server makes of a case.
type answered struct {
	Status int            `json:"status"`
	Error  string         `json:"error,omitempty"`
	Body   map[string]any `json:"body,omitempty"` // its members with their types
	ID     string         `json:"id,omitempty"`   // of the replication
}

// recorded is a CouchDB's answers.
type recorded struct {
	Version string              `json:"version"`
	UUID    string              `json:"uuid"`
	Base    string              `json:"base"` // its URL, which is a part of replication ids
	Answers map[string]answered `json:"answers"`
}

// side is a server that is asked all cases.
type side struct {
	t     *testing.T
	url   string // with the admin
	peer  string // the CouchDB of sources and targets, with the admin
	named string // the same as it was when ids were recorded
}

const (
	casesDB = "compare%2F_replicator"
	listsDB = "compare-lists%2F_replicator"
	idsDB   = "compare-ids%2F_replicator"
)

// TestAsCouchDB sends documents and requests, valid and not, to couchrelay and to CouchDB, or compares with what
// CouchDB answered when that was recorded. Each difference has a reason in differences.txt, and each row there is a
// difference. More members than CouchDB's are none, and neither is null where CouchDB has a value.
//
//	COUCHDB_URL=http://ADMIN:PASSWORD@HOST:5984 go test ./adapters/integration -run TestAsCouchDB -record
//
// records anew.
func TestAsCouchDB(t *testing.T) {
	path := filepath.Join(compareDir, "couchdb.json")
	var theirs recorded
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &theirs)
	}
	peer := ""
	if couch != "" {
		fmt.Println("COMPARED with the CouchDB of COUCHDB_URL")
		peer = couch
		theirs = recordCouchDB(t)
		if *record {
			raw, err = json.MarshalIndent(theirs, "", "\t")
			check(err)
			check(os.MkdirAll(compareDir, 0o755))
			check(os.WriteFile(path, append(raw, '\n'), 0o644))
		}
	} else {
		check(err)
		fmt.Printf("COMPARED with recorded answers of CouchDB %s, since COUCHDB_URL names none\n", theirs.Version)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "compare.ini")
	check(os.WriteFile(config, fmt.Appendf(nil, "[couchdb]\nuuid = %s\n[admins]\nadm = pass\n", theirs.UUID), 0o600))
	args := []string{"--config", config}
	if peer == "" {
		port := freePort()
		args, peer = append(args, "--sandbox", port), "http://adm:pass@127.0.0.1:"+port+"/"
	}
	relay := serve(t, dir, args...)
	ours := side{t, strings.Replace(relay.url, "http://", "http://adm:pass@", 1), peer, theirs.Base}
	await(t, "the databases", func() bool { status, _ := call(t, "GET", peer, nil); return status == 200 })
	compareAnswers(t, theirs.Answers, ours.all(theirs.Answers))
}

func recordCouchDB(t *testing.T) recorded {
	welcome := want(t, 200, "GET", couch, nil)
	s := side{t, couch, couch, couch}
	return recorded{fmt.Sprint(welcome["version"]), fmt.Sprint(welcome["uuid"]), couch, s.all(nil)}
}

// compareAnswers fails the test for differences without a reason, and for reasons without a difference.
func compareAnswers(t *testing.T, theirs, ours map[string]answered) {
	reasons, reason := map[string]string{}, ""
	raw, err := os.ReadFile(filepath.Join(compareDir, "differences.txt"))
	check(err)
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if text, is := strings.CutPrefix(line, "# "); is {
			reason = text
		} else if line != "" {
			reasons[line] = reason
		}
	}
	counts := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		for _, d := range differences(theirs[name], ours[name]) {
			line := name + ": " + d
			if reasons[line] == "" {
				t.Errorf("without a reason: %s", line)
			}
			counts[reasons[line]]++
			delete(reasons, line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(reasons)) {
		name, _, _ := strings.Cut(line, ":")
		untold := strings.HasSuffix(line, ": another id") && theirs[name].ID == "" // CouchDB was slow
		if !untold && (couch != "" || !needsCouch(line)) {
			t.Errorf("no difference any more: %s", line)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%3d: %s", counts[reason], reason)
	}
	t.Logf("%d cases", len(ours))
}

// needsCouch reports whether what becomes of a case depends on functions, users and sequences of a CouchDB.
func needsCouch(name string) bool {
	return strings.Contains(name, "filter") || strings.Contains(name, "password") ||
		strings.Contains(name, "refuses") || strings.Contains(name, "since-")
}

// differences words how an answer differs from CouchDB's.
func differences(their, our answered) (list []string) {
	add := func(what string, a, b any) {
		if a != b {
			list = append(list, fmt.Sprintf("%s %v, here %v", what, a, b))
		}
	}
	add("status", their.Status, our.Status)
	add("error", their.Error, our.Error)
	if their.ID != "" && our.ID != "" && their.ID != our.ID {
		list = append(list, "another id")
	}
	if their.Status == our.Status {
		for _, name := range slices.Sorted(maps.Keys(their.Body)) {
			if strings.Contains(name, "info.") {
				continue // which depends on the moment: numbers, or an error
			}
			kind, has := our.Body[name]
			if !has {
				list = append(list, "no "+name)
			} else if kind != "null" && their.Body[name] != "null" {
				add(name, their.Body[name], kind)
			}
		}
	}
	return list
}

// kinds are the types of an object's members; those of objects in it have names with dots.
func kinds(prefix string, o object, into map[string]any) map[string]any {
	for name, v := range o {
		name = prefix + name
		switch v := v.(type) {
		case nil:
			into[name] = "null"
		case object:
			into[name] = "object"
			kinds(name+".", v, into)
		case []any:
			into[name] = "array"
			if len(v) > 0 {
				if first, is := v[0].(object); is {
					kinds(name+".", first, into)
				}
			}
		default:
			into[name] = fmt.Sprintf("%T", v)
		}
	}
	return into
}

// all asks all cases. goal is what CouchDB answered, nil for CouchDB itself.
func (s side) all(goal map[string]answered) map[string]answered {
	s.clean()
	s.t.Cleanup(s.clean)
	s.prepare()
	result := map[string]answered{}
	var requests []string
	raw, err := os.ReadFile(filepath.Join(compareDir, "cases.txt"))
	check(err)
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		kind, rest, _ := strings.Cut(line, " ")
		name, rest, _ := strings.Cut(rest, " ")
		switch kind {
		case "doc":
			status, answer := s.send("PUT", "/"+casesDB+"/"+name, s.document(name, "t", s.peer, rest), "")
			result["doc "+name] = answerOf(status, answer)
			if status < 300 && !strings.Contains(rest, `"_replication_state"`) {
				s.identify(name, rest, goal != nil)
			}
		case "ask":
			requests = append(requests, name+" "+rest)
		}
	}
	s.identified(result, goal)
	for _, request := range requests {
		name, rest, _ := strings.Cut(request, " ")
		result["ask "+name] = s.ask(name, rest)
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
		"$P", "http://"+u.Host, "$U", u.User.Username(), "$W", password, "$L", listsDB).Replace(text)
}

// identify makes a continuous job of a case with another target, which shows its replication id.
func (s side) identify(name, more string, ours bool) {
	if ours && couch == "" && strings.Contains(more, `"filter":"d/`) {
		return
	}
	more = strings.TrimSuffix(`"continuous":true,`+strings.ReplaceAll(more, `"continuous":`, `"was":`), ",")
	s.send("PUT", "/"+idsDB+"/"+name, s.document(name, "i", s.named, more), "")
}

// ask sends a request.
func (s side) ask(name, line string) answered {
	line, user, _ := strings.Cut(line, " @")
	method, rest, _ := strings.Cut(line, " ")
	path, body, _ := strings.Cut(rest, " ")
	if strings.Contains(body, "$T") {
		s.database("compare-r-" + name)
	}
	status, answer := s.send(method, s.filled(name, "r", s.peer, path), s.filled(name, "r", s.peer, body), user)
	return answerOf(status, answer)
}

func answerOf(status int, body object) answered {
	return answered{Status: status, Error: text(body["error"]), Body: kinds("", body, map[string]any{})}
}

// patience is how long a request may take that a server may never answer.
const patience = 5 * time.Second

func text(v any) string {
	s, _ := v.(string)
	return s
}

// send sends a request of a user: the admin, joe, one with a wrong password, or none.
func (s side) send(method, path, body, user string) (int, object) {
	s.t.Helper()
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
	q, err := http.NewRequestWithContext(s.t.Context(), method, u.String(), strings.NewReader(body))
	check(err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	answer, err := (&http.Client{Timeout: patience}).Do(q)
	if err != nil {
		s.t.Logf("no answer to %s %s %s", method, path, body)
		return 0, object{"error": "no answer"}
	}
	defer answer.Body.Close()
	raw, _ := io.ReadAll(answer.Body) // CouchDB breaks some answers off, which are no JSON then
	var o object
	_ = json.NewDecoder(bytes.NewReader(raw)).Decode(&o)
	return answer.StatusCode, o
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
var fixed = []struct{ id, more string }{
	{"a", `"source":"$Bnope","continuous":true`}, {"b", ""}, {"c", `"continuous":true`},
	{"d", `"target":"$Bnope","continuous":true`}, {"e", `"_replication_state":"failed"`},
	{"f", `"filter":"d/nope","continuous":true`},
}

// prepare makes what the cases need.
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
	for _, db := range []string{casesDB, listsDB, idsDB} {
		if status, answer := s.send("PUT", "/"+db, "", ""); status != 201 && status != 202 {
			s.t.Fatalf("%s: %d %v", db, status, answer)
		}
	}
	for _, f := range fixed {
		s.database("compare-l-" + f.id)
		s.send("PUT", "/"+listsDB+"/"+f.id, s.document(f.id, "l", s.peer, f.more), "")
	}
	raw, err := os.ReadFile(filepath.Join(compareDir, "cases.txt"))
	check(err)
	for line := range strings.Lines(string(raw)) {
		if rest, is := strings.CutPrefix(line, "doc "); is {
			name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			s.database("compare-t-" + name)
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
	for _, db := range []string{casesDB, listsDB, idsDB} {
		remove(strings.TrimSuffix(s.url, "/") + "/" + db)
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

// settleTime is how long jobs have to show their replication ids.
const settleTime = 25 * time.Second

// identified waits for the replication ids: all that CouchDB has told, or as many as there are in that time.
func (s side) identified(result, goal map[string]answered) {
	for end := time.Now().Add(settleTime); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		_, list := s.send("GET", "/_scheduler/docs/"+idsDB, "", "")
		docs, _ := list["docs"].([]any)
		for _, d := range docs {
			id, _, _ := strings.Cut(text(d.(object)["id"]), "+")
			name := "doc " + text(d.(object)["doc_id"])
			if a := result[name]; id != "" {
				a.ID = id
				result[name] = a
			}
		}
		reached := goal != nil
		for name, g := range goal {
			reached = reached && (needsCouch(name) || g.ID == "" || result[name].ID != "")
		}
		if reached {
			return
		}
	}
}
