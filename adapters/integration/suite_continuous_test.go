package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

func (e *elixir) cancellation() {
	source, target := e.pair()
	e.save(source, numbered(1, 6)...)
	id := e.started(source, target, object{"continuous": true, "create_target": true})
	cancel := object{"replication_id": id, "cancel": true}
	e.take("POST", "_replicate", cancel)
	e.stopped(id)
	a := e.ask("POST", "_replicate", cancel)
	e.demand(a.status == 404, "%d %s", a.status, a.raw)
}

// joe makes an ordinary user, who is gone at the end, and logs in. It returns the header with the cookie.
func (e *elixir) joe() []string {
	const id = "org.couchdb.user:joe"
	doc := object{"_id": id, "type": "user", "name": "joe", "password": "erly", "roles": []string{"erlanger"}}
	if is := e.ask("GET", "_users/"+id, nil); is.ok() {
		doc["_rev"] = is.object["_rev"]
	}
	rev := fmt.Sprint(e.take("POST", "_users", doc).object["rev"])
	e.Cleanup(func() { e.take("DELETE", "_users/"+id+"?rev="+rev, nil) })
	a := send(e.T, "POST", e.url(nil, "_session"), object{"username": "joe", "name": "joe", "password": "erly"})
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	as := []string{"Cookie", cookie}
	a = send(e.T, "GET", e.url(nil, "_session"), nil, as...)
	user, _ := a.object["userCtx"].(object)
	e.demand(a.object["ok"] == true && user["name"] == "joe", "%s", a.raw)
	return as
}

func (e *elixir) unauthorizedCancellation() {
	source, target := e.pair()
	e.save(source, numbered(1, 6)...)
	id := e.started(source, target, object{"continuous": true})
	as := e.joe()
	cancel := object{"replication_id": id, "cancel": true}
	a := send(e.T, "POST", e.url(nil, "_replicate"), cancel, as...)
	e.demand(a.status == http.StatusUnauthorized && a.object["error"] == "unauthorized", "%d %s", a.status, a.raw)
	e.demand(send(e.T, "DELETE", e.url(nil, "_session"), nil, as...).object["ok"] == true, "joe cannot leave")
	e.take("POST", "_replicate", cancel)
}

func (e *elixir) headersOfJobs() { e.headersOf("_scheduler/jobs") }
func (e *elixir) headersOfDocs() { e.headersOf("_scheduler/docs") }

func (e *elixir) headersOf(path string) {
	h := e.take("GET", path, nil).header
	e.demand(h.Get("Content-Type") == "application/json" && h.Get("X-Couch-Request-ID") != "" &&
		h.Get("X-CouchDB-Body-Time") != "", "%v", h)
}

func (e *elixir) continuous() {
	source, target := e.pair()
	some := []byte("some text")
	docs := e.save(source, append(numbered(1, 25), object{"_id": "_design/mydesign", "language": "javascript",
		"filters": object{"myfilter": "function(doc, req) { return true; }"}})...)
	docs = e.attachTenths(source, docs, "readme.txt", "text/plain", some)
	id := e.started(source, target, object{"continuous": true})
	e.caughtUp(source, id, 26)
	for _, doc := range docs {
		if copied := e.arrived(target, doc); isTenth(doc) {
			e.attached(target, copied, "readme.txt", "text/plain", 2, some)
		}
	}
	e.sameCount(source, target)

	// More attachments.
	docs = e.attachTenths(source, docs, "data.dat", "application/binary", lorem)
	design := &docs[25]
	*design = e.attach(source, *design, "readme.txt", "text/plain", some)
	e.caughtUp(source, id, 32)
	for _, doc := range docs {
		copied := e.arrived(target, doc)
		if isTenth(doc) || doc["integer"] == nil {
			e.attached(target, copied, "readme.txt", "text/plain", 2, some)
		}
		if isTenth(doc) {
			e.attached(target, copied, "data.dat", "application/binary", 3, lorem)
		}
	}
	*design = e.attach(source, *design, "data.dat", "application/binary", lorem)
	e.caughtUp(source, id, 33)
	copied := e.arrived(target, *design)
	e.attached(target, copied, "readme.txt", "text/plain", 2, some)
	e.attached(target, copied, "data.dat", "application/binary", 3, lorem)
	e.sameCount(source, target)
	e.continuousEnd(source, target, id)
}

// continuousEnd goes on where continuous has come to: documents come and go, and the replication ends.
func (e *elixir) continuousEnd(source, target, id string) {
	added := e.save(source, numbered(26, 35)...)
	e.caughtUp(source, id, 43)
	for _, doc := range added {
		e.arrived(target, doc)
	}
	e.sameCount(source, target)
	since := fmt.Sprint(e.info(target)["update_seq"])
	for _, doc := range []object{added[0], added[6]} {
		e.take("DELETE", fmt.Sprintf("%s/%s?rev=%s", source, doc["_id"], doc["_rev"]), nil)
	}
	e.caughtUp(source, id, 45)
	e.lacks(target, added[0]["_id"])
	e.lacks(target, added[6]["_id"])
	gone := map[any]bool{}
	for _, row := range e.take("GET", target+"/_changes?since="+url.QueryEscape(since), nil).object["results"].([]any) {
		change := row.(object)
		gone[change["id"]] = change["deleted"] == true
	}
	e.demand(len(gone) == 2 && gone[added[0]["_id"]] && gone[added[6]["_id"]], "%v", gone)

	result := e.replicate(source, target, object{"continuous": true, "cancel": true})
	e.demand(result["_local_id"] == id, "%v, and not %s", result, id)
	e.save(source, object{"_id": "foobar", "value": 666})
	e.stopped(id)
	e.lacks(target, "foobar")
}

// asJoe replicates as an ordinary user at all three servers.
func (e *elixir) asJoe(source, target string, as []string) answer {
	user := url.UserPassword("joe", "erly")
	return send(e.T, "POST", e.url(nil, "_replicate"),
		object{"source": e.url(user, source), "target": e.url(user, target)}, as...)
}

func (e *elixir) nonAdminOnTarget() {
	source, target := e.pair()
	superman := object{"names": []string{"superman"}, "roles": []string{"god"}}
	e.take("PUT", target+"/_security", object{"admins": superman})
	docs := e.save(source, append(numbered(1, 6), object{"_id": "_design/foo", "language": "javascript"})...)
	a := e.asJoe(source, target, e.joe())
	e.demand(a.ok(), "%d %s", a.status, a.raw)
	e.counted(e.session(a.object, 1), -1, -1, 7, 6, 1) // the design document is refused
	e.only(target, docs, func(doc object) bool { return doc["_id"] != "_design/foo" })
}

func (e *elixir) nonReaderOnTarget() {
	source, target := e.pair()
	superman := object{"names": []string{"superman"}, "roles": []string{"god"}}
	john := object{"names": []string{"john"}, "roles": []string{"secret"}}
	e.take("PUT", target+"/_security", object{"admins": superman, "members": john, "readers": john})
	docs := e.save(source, append(numbered(1, 6), object{"_id": "_design/foo", "language": "javascript"})...)
	a := e.asJoe(source, target, e.joe())
	e.demand(!a.ok(), "joe may: %s", a.raw)
	e.demand(e.alone || a.status == http.StatusUnauthorized || a.status == http.StatusForbidden,
		"%d %s", a.status, a.raw)
	e.only(target, docs, func(object) bool { return false })
}
