package integration

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// lorem and lorem64 are attachments: a long text, and one that compresses badly.
var (
	lorem = func() []byte {
		var b strings.Builder
		for n := range 6000 {
			fmt.Fprintf(&b, "word%d ", n*n%977)
		}
		return []byte(b.String())
	}()
	lorem64 = []byte(base64.StdEncoding.EncodeToString(lorem))
	hello   = []byte("hello world")
	binary1 = []byte("i am not gziped")
)

func (e *elixir) sourceNotFound() {
	source, target := e.names()
	a := send(e.T, "POST", e.url(e.admin, "_replicate"),
		object{"source": e.url(nil, source), "target": e.url(nil, target)})
	e.demand(a.object["error"] == "db_not_found", "%d %s", a.status, a.raw)
	e.demand(e.alone || a.status == 404, "%d %s", a.status, a.raw)
}

func (e *elixir) attachmentWithoutConflict() {
	source, target := e.pair()
	doc := e.save(source, object{"_id": "doc1"})[0]
	e.counted(e.session(e.replicate(source, target, nil), 1), -1, -1, 1, 1, 0)

	doc = e.save(source, with(doc, "_attachments", object{
		"hello.txt": object{"content_type": "text/plain", "data": hello},
		"foo.dat":   object{"content_type": "not/compressible", "data": binary1},
	}))[0]
	e.counted(e.session(e.replicate(source, target, nil), 2), -1, -1, 2, 2, 0)

	const query = "?conflicts=true&deleted_conflicts=true&attachments=true&att_encoding_info=true"
	copied := e.take("GET", target+"/doc1"+query, nil, "Accept", "application/json").object
	e.demand(copied["_conflicts"] == nil && copied["_deleted_conflicts"] == nil, "%v", copied)
	e.demand(copied["_rev"] == doc["_rev"], "%v, and not %v", copied, doc)
	attachments, _ := copied["_attachments"].(object)
	for name, want := range map[string]object{
		"hello.txt": {"content_type": "text/plain", "data": base64.StdEncoding.EncodeToString(hello)},
		"foo.dat":   {"content_type": "not/compressible", "data": base64.StdEncoding.EncodeToString(binary1)},
	} {
		got, _ := attachments[name].(object)
		e.demand(within(want, got), "%s is %v", name, got)
		gzip := e.couchdb && name == "hello.txt" // pouchdb-server compresses nothing
		e.demand(gzip == (got["encoding"] == "gzip"), "%s is %v", name, got)
	}
}

// isTenth reports whether a document is one of those with attachments.
func isTenth(doc object) bool {
	n, is := doc["integer"].(float64)
	return is && n >= 10 && n < 15
}

// each returns the documents with those changed for which the function returns another.
func each(docs []object, change func(object) object) (changed []object) {
	for _, doc := range docs {
		changed = append(changed, change(doc))
	}
	return changed
}

// attachTenths adds an attachment to the documents with the numbers 10 to 14.
func (e *elixir) attachTenths(db string, docs []object, name, kind string, data []byte) []object {
	return each(docs, func(doc object) object {
		if isTenth(doc) {
			return e.attach(db, doc, name, kind, data)
		}
		return doc
	})
}

// again replicates what is a session more than before, and demands its numbers.
func (e *elixir) again(source, target string, sessions int, checked, written float64) object {
	e.Helper()
	result := e.replicate(source, target, nil)
	session := e.session(result, sessions)
	e.counted(session, checked, written, written, written, 0)
	e.demand(session["session_id"] == result["session_id"], "%v", result)
	e.sameCount(source, target)
	return session
}

func (e *elixir) simple() {
	source, target := e.pair()
	docs := e.save(source, append(numbered(1, 20),
		object{"_id": "_design/foo", "language": "javascript", "value": "ddoc"})...)
	docs = e.attachTenths(source, docs, "readme.txt", "text/plain", lorem)
	session := e.again(source, target, 1, 21, 21)
	for _, name := range []string{"start_time", "end_time", "session_id"} {
		text, _ := session[name].(string)
		e.demand(text != "", "no %s: %v", name, session)
	}
	e.demand(session["start_last_seq"] == 0.0, "%v", session)
	for _, doc := range docs {
		if copied := e.arrived(target, doc); isTenth(doc) {
			e.attached(target, copied, "readme.txt", "text/plain", 2, lorem)
		}
	}

	// One more document, and more attachments.
	added := e.save(source, object{"_id": "foo666", "value": "d"})[0]
	docs = e.attachTenths(source, docs, "data.dat", "application/binary", lorem64)
	e.again(source, target, 2, 27, 27)
	e.arrived(target, added)
	for _, doc := range docs {
		if isTenth(doc) {
			copied := e.arrived(target, doc)
			e.attached(target, copied, "readme.txt", "text/plain", 2, lorem)
			e.attached(target, copied, "data.dat", "application/binary", 3, lorem64)
		}
	}

	// A deletion.
	e.save(source, object{"_id": "1", "_rev": docs[0]["_rev"], "_deleted": true})
	e.again(source, target, 3, 28, 28)
	if e.couchdb {
		e.demand(e.info(target)["doc_del_count"] == 1.0, "%v", e.info(target))
	}
	e.lacks(target, "1")
	deleted := 0
	for _, row := range e.take("GET", target+"/_changes", nil).object["results"].([]any) {
		if change := row.(object); change["id"] == "1" && change["deleted"] == true {
			deleted++
		}
	}
	e.demand(deleted == 1, "the feed has the deletion %d times", deleted)
	e.simpleConflicts(source, target)
}

// conflicts demands a generation of the winner, and how many conflicts of the second generation it has.
func (e *elixir) conflicts(target string, generation, conflicts int) (rev string) {
	e.Helper()
	copied := e.take("GET", target+"/2?conflicts=true", nil).object
	e.demand(strings.HasPrefix(fmt.Sprint(copied["_rev"]), fmt.Sprint(generation, "-")), "%v", copied)
	list, _ := copied["_conflicts"].([]any)
	e.demand(len(list) == conflicts, "%v", copied)
	for _, one := range list {
		rev = fmt.Sprint(one)
		e.demand(strings.HasPrefix(rev, "2-"), "%v", copied)
	}
	return rev
}

// simpleConflicts goes on where simple has come to: a conflict comes, grows and goes, and some revisions are there
// already.
func (e *elixir) simpleConflicts(source, target string) {
	doc := e.save(source, with(e.info(source+"/2"), "value", "white"))[0]
	e.save(target, with(e.info(target+"/2"), "value", "black"))
	e.again(source, target, 4, 29, 29)
	e.conflicts(target, 2, 1)

	doc = e.save(source, with(doc, "value", "yellow"))[0]
	e.again(source, target, 5, 30, 30)
	loser := e.conflicts(target, 3, 1)

	e.save(target, object{"_id": "2", "_rev": loser, "_deleted": true})
	e.save(source, with(doc, "value", "rainbow"))
	e.again(source, target, 6, 31, 31)
	e.conflicts(target, 4, 0)

	foo := func(n int) object { return object{"_id": fmt.Sprint("foo", n), "value": 111 * n} }
	e.save(source, foo(1), foo(2), foo(3))
	e.save(target, foo(1), foo(3))
	e.again(source, target, 7, 34, 32)
	e.save(source, foo(4), foo(5))
	e.save(target, foo(4), foo(5))
	e.again(source, target, 8, 36, 32)

	result := e.replicate(source, target, nil)
	e.demand(result["no_changes"] == true, "%v", result)
}

func (e *elixir) compressedAttachment() {
	source, target := e.pair()
	doc := e.save(source, object{"_id": "foobar"})[0]
	big := []byte(strings.Repeat(string(lorem), 1+128<<10/len(lorem)))
	doc = e.attach(source, doc, "readme.txt", "text/plain", big)
	if e.couchdb { // what is compressed stays so, whatever the target would do
		want(e.T, 200, "PUT", couch+"_node/_local/_config/attachments/compression_level", "0")
		defer want(e.T, 200, "PUT", couch+"_node/_local/_config/attachments/compression_level", "8")
	}
	e.counted(e.session(e.replicate(source, target, nil), 1), 1, 1, 1, 1, 0)
	copied := e.arrived(target, doc)
	e.attached(target, copied, "readme.txt", "text/plain", 2, big)
	if e.couchdb {
		copied = e.info(target + "/foobar?att_encoding_info=true")
		stub := copied["_attachments"].(object)["readme.txt"].(object)
		length, _ := stub["length"].(float64)
		encoded, _ := stub["encoded_length"].(float64)
		e.demand(stub["encoding"] == "gzip" && encoded > 0 && encoded < length, "%v", stub)
	}
}
