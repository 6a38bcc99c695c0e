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
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// elixirSuite is CouchDB's own suite of replications, test/elixir/test/replication_test.exs of 3.5, test by test under
// the names that it has there.
var elixirSuite = []struct {
	name string
	test func(*elixir)
}{
	{"source database not found with host", (*elixir).sourceNotFound},
	{"replicating attachment without conflict - COUCHDB-885", (*elixir).attachmentWithoutConflict},
	{"replication cancellation", (*elixir).cancellation},
	{"unauthorized replication cancellation", (*elixir).unauthorizedCancellation},
	{"default headers returned for _scheduler/jobs", (*elixir).headersOfJobs},
	{"default headers returned for _scheduler/docs", (*elixir).headersOfDocs},
	{"simple replication", (*elixir).simple},
	{"replicate with since_seq", (*elixir).sinceSeq},
	{"validate_doc_update failure replications", (*elixir).validation},
	{"create_target filter option", (*elixir).createTarget},
	{"filtered replications", (*elixir).filtered},
	{"replication restarts after filter change - COUCHDB-892", (*elixir).filterChanged},
	{"replication by doc ids", (*elixir).byIDs},
	{"continuous replication", (*elixir).continuous},
	{"compressed attachment replication", (*elixir).compressedAttachment},
	{"non-admin user on target", (*elixir).nonAdminOnTarget},
	{"non-admin or reader user on source", (*elixir).nonReaderOnTarget},
}

// TestElixirSuite: CouchDB's suite passes through the front, before pouchdb-server and before a CouchDB; and it passes
// with that CouchDB alone, or it would not be CouchDB's.
func TestElixirSuite(t *testing.T) {
	alongside(t)
	t.Run("front of pouchdb-server", func(t *testing.T) {
		needPouch(t)
		dir := t.TempDir()
		check(os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"admins": {"adm": "pass"}}`), 0o600))
		p := startPouch(os.Getenv("POUCHDB_SERVER"), dir)
		t.Cleanup(p.kill)
		want(t, 200, "GET", strings.Replace(p.url, "://", "://adm:pass@", 1)+"_users", nil)
		e := elixir{host: newSite(t, "[front]\ncouchdb = "+p.url).host, admin: url.UserPassword("adm", "pass")}
		e.play(t)
	})
	t.Run("front of CouchDB", func(t *testing.T) {
		e := ofCouch(t)
		e.host = newSite(t, "[front]\ncouchdb = http://"+e.host+"/\n").host
		e.play(t)
	})
	t.Run("CouchDB", func(t *testing.T) {
		e := ofCouch(t)
		e.alone = true
		e.play(t)
	})
}

// ofCouch is the suite with a CouchDB whose databases are open to all, which the suite expects.
func ofCouch(t *testing.T) *elixir {
	needCouch(t)
	u, err := url.Parse(couch)
	check(err)
	for _, setting := range []struct{ key, value string }{
		{"couchdb/default_security", "everyone"}, {"replicator/startup_jitter", "0"},
		{"attachments/compression_level", "8"}, {"attachments/compressible_types", "text/*"},
	} {
		at := couch + "_node/_local/_config/" + setting.key
		status, before := call(t, "GET", at, nil)
		want(t, 200, "PUT", at, setting.value)
		t.Cleanup(func() {
			if status == http.StatusOK {
				var value string
				check(json.Unmarshal([]byte(fmt.Sprint(before["text"])), &value))
				send(t, "PUT", at, value)
			} else {
				send(t, "DELETE", at, nil)
			}
		})
	}
	return &elixir{host: u.Host, admin: u.User, couchdb: true}
}

// elixir is the suite with a server.
type elixir struct {
	*testing.T
	host    string        // and port of the server
	admin   *url.Userinfo // of the server and of its databases
	couchdb bool          // the databases are those of a CouchDB, and not of pouchdb-server
	alone   bool          // there is no couchrelay
}

func (e *elixir) play(t *testing.T) {
	for _, c := range elixirSuite {
		t.Run(c.name, func(t *testing.T) {
			one := *e
			one.T = t
			c.test(&one)
		})
	}
}

// answer is what a server says.
type answer struct {
	status int
	header http.Header
	raw    []byte
	object // of the body, if it is one
}

func (a answer) ok() bool { return a.status/100 == 2 }

// send sends a request. A body of bytes goes as it is, others as JSON; headers are names, each with a value behind it.
func send(t *testing.T, method, url string, body any, headers ...string) answer {
	t.Helper()
	raw, is := body.([]byte)
	if !is && body != nil {
		var err error
		raw, err = json.Marshal(body)
		check(err)
	}
	q, err := http.NewRequest(method, url, bytes.NewReader(raw)) // without t.Context, which has ended in cleanups
	check(err)
	q.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(headers, 2) {
		q.Header.Set(pair[0], pair[1])
	}
	r, err := (&http.Client{Timeout: time.Minute}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	a := answer{status: r.StatusCode, header: r.Header}
	if a.raw, err = io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(a.raw, &a.object) // attachments are none
	return a
}

// url is that of a path with a user, or with none.
func (e *elixir) url(user *url.Userinfo, path string) string {
	return (&url.URL{Scheme: "http", User: user, Host: e.host}).String() + "/" + path
}

// ask sends a request of the admin.
func (e *elixir) ask(method, path string, body any, headers ...string) answer {
	e.Helper()
	return send(e.T, method, e.url(e.admin, path), body, headers...)
}

// take is ask, and demands success.
func (e *elixir) take(method, path string, body any, headers ...string) answer {
	e.Helper()
	a := e.ask(method, path, body, headers...)
	if !a.ok() {
		e.Fatalf("%s %s: %d %.500s", method, path, a.status, a.raw)
	}
	return a
}

// demand ends the test if the condition does not hold.
func (e *elixir) demand(holds bool, format string, args ...any) {
	e.Helper()
	if !holds {
		e.Fatalf(format, args...)
	}
}

// names are those of a source and a target, which are deleted at the end.
func (e *elixir) names() (source, target string) {
	base := fmt.Sprintf("suite-%d", time.Now().UnixNano())
	e.Cleanup(func() {
		for _, name := range []string{source, target} {
			if a := e.ask("DELETE", name, nil); a.status != 404 && !a.ok() {
				e.Errorf("%s is not deleted: %s", name, a.raw)
			}
		}
	})
	return base + "_src", base + "_tgt"
}

// pair makes two empty databases.
func (e *elixir) pair() (source, target string) {
	e.Helper()
	source, target = e.names()
	e.take("PUT", source, nil)
	e.take("PUT", target, nil)
	return source, target
}

// numbered are documents with the numbers as ids.
func numbered(from, to int) (docs []object) {
	for n := from; n <= to; n++ {
		docs = append(docs, object{"_id": fmt.Sprint(n), "integer": float64(n), "string": fmt.Sprint(n)})
	}
	return docs
}

// with is a copy of a document with another value of a member.
func with(doc object, name string, value any) object {
	doc = maps.Clone(doc)
	doc[name] = value
	return doc
}

// save writes documents, and returns them with their revisions.
func (e *elixir) save(db string, docs ...object) (saved []object) {
	e.Helper()
	var rows []struct {
		OK      bool
		ID, Rev string
	}
	a := e.take("POST", db+"/_bulk_docs?w=3", object{"docs": docs})
	e.demand(json.Unmarshal(a.raw, &rows) == nil && len(rows) == len(docs), "%s", a.raw)
	revs := map[any]string{} // by id: pouchdb-server answers for design documents first
	for _, row := range rows {
		e.demand(row.OK, "%s is not saved: %s", row.ID, a.raw)
		revs[row.ID] = row.Rev
	}
	for _, doc := range docs {
		e.demand(revs[doc["_id"]] != "", "nothing is said of %v: %s", doc["_id"], a.raw)
		saved = append(saved, with(doc, "_rev", revs[doc["_id"]]))
	}
	return saved
}

// attach adds an attachment, and returns the document with its new revision.
func (e *elixir) attach(db string, doc object, name, kind string, data []byte) object {
	e.Helper()
	query := url.Values{"w": {"3"}, "rev": {fmt.Sprint(doc["_rev"])}}
	path := fmt.Sprintf("%s/%s/%s?%s", db, doc["_id"], name, query.Encode())
	return with(doc, "_rev", e.take("PUT", path, data, "Content-Type", kind).object["rev"])
}

// request is one to _replicate, with the admin in both URLs.
func (e *elixir) request(source, target string, options object) object {
	body := object{"source": e.url(e.admin, source), "target": e.url(e.admin, target)}
	for name, value := range options {
		body[name] = value
	}
	return body
}

// replicate replicates, and demands success.
func (e *elixir) replicate(source, target string, options object) object {
	e.Helper()
	a := e.take("POST", "_replicate", e.request(source, target, options))
	e.demand(a.object["ok"] == true, "%s", a.raw)
	return a.object
}

// session returns the last session of a result, which has to have so many.
func (e *elixir) session(result object, sessions int) object {
	e.Helper()
	history, _ := result["history"].([]any)
	e.demand(len(history) == sessions, "%d sessions: %v", len(history), result)
	session, _ := history[0].(object)
	return session
}

// counted demands the numbers of a session or a result: missing_checked, missing_found, docs_read, docs_written and
// doc_write_failures. Numbers that are negative may be any.
func (e *elixir) counted(session object, checked, found, read, written, failures float64) {
	e.Helper()
	got := []any{session["missing_checked"], session["missing_found"], session["docs_read"], session["docs_written"],
		session["doc_write_failures"]}
	for i, n := range []float64{checked, found, read, written, failures} {
		e.demand(n < 0 || got[i] == n, "missing_checked, missing_found, docs_read, docs_written, doc_write_failures "+
			"are %v: %v", got, session)
	}
}

// info is what a server says of a database.
func (e *elixir) info(db string) object {
	e.Helper()
	return e.take("GET", db, nil).object
}

// sameCount demands that both databases have as many documents, soon.
func (e *elixir) sameCount(source, target string) {
	e.Helper()
	await(e.T, "the same number of documents",
		func() bool { return e.info(source)["doc_count"] == e.info(target)["doc_count"] })
}

// task returns the task of a replication; nil if there is none.
func (e *elixir) task(id string) object {
	e.Helper()
	var tasks []object
	a := e.take("GET", "_active_tasks", nil)
	e.demand(json.Unmarshal(a.raw, &tasks) == nil, "%s", a.raw)
	for _, task := range tasks {
		if task["replication_id"] == id {
			return task
		}
	}
	return nil
}

// started starts a continuous replication, and returns its id once it has a task.
func (e *elixir) started(source, target string, options object) string {
	e.Helper()
	id, _ := e.replicate(source, target, options)["_local_id"].(string)
	e.demand(id != "", "no _local_id")
	await(e.T, "the task", func() bool { return e.task(id) != nil })
	return id
}

func (e *elixir) stopped(id string) {
	e.Helper()
	await(e.T, "the end of the task", func() bool { return e.task(id) == nil })
}

// caughtUp waits until a replication is through with its source, and has checked so many revisions.
func (e *elixir) caughtUp(source, id string, checked float64) {
	e.Helper()
	await(e.T, fmt.Sprint(checked, " revisions checked"), func() bool {
		task := e.task(id)
		through := "0"
		if seq := task["through_seq"]; seq != nil {
			through = fmt.Sprint(seq)
		}
		changes := e.take("GET", source+"/_changes?since="+url.QueryEscape(through), nil)
		n, _ := task["revisions_checked"].(float64)
		return len(changes.object["results"].([]any)) == 0 && n >= checked
	})
}

// within reports whether b has all that a has.
func within(a, b any) bool {
	of, is := a.(object)
	if !is {
		return reflect.DeepEqual(a, b)
	}
	in, _ := b.(object)
	for name, value := range of {
		if !within(value, in[name]) {
			return false
		}
	}
	return true
}

// arrived demands that a database has a document.
func (e *elixir) arrived(db string, doc object) object {
	e.Helper()
	copied := e.take("GET", fmt.Sprint(db, "/", doc["_id"]), nil).object
	e.demand(within(doc, copied), "%v, and not %v", copied, doc)
	return copied
}

// lacks demands that a database has no document with an id.
func (e *elixir) lacks(db string, id any) {
	e.Helper()
	a := e.ask("GET", fmt.Sprint(db, "/", id), nil)
	e.demand(a.status == 404, "%s has %v: %d %s", db, id, a.status, a.raw)
}

// attached demands the stub of an attachment, and its data. pouchdb-server makes the revision that it was sent last the
// revpos.
func (e *elixir) attached(db string, doc object, name, kind string, revpos float64, data []byte) {
	e.Helper()
	stubs, _ := doc["_attachments"].(object)
	stub, _ := stubs[name].(object)
	e.demand(stub["stub"] == true && (stub["revpos"] == revpos || !e.couchdb) &&
		strings.HasPrefix(fmt.Sprint(stub["content_type"]), kind),
		"%s of %v", name, doc)
	got := e.take("GET", fmt.Sprintf("%s/%s/%s", db, doc["_id"], name), nil).raw
	e.demand(bytes.Equal(got, data), "%s of %v has %d bytes, and not those %d", name, doc["_id"], len(got), len(data))
}
