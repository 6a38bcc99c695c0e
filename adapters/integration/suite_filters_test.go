package integration

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

func (e *elixir) sinceSeq() {
	source, target := e.pair()
	docs := e.save(source, numbered(1, 5)...)
	changes := e.take("GET", source+"/_changes", nil).object["results"].([]any)
	e.ask("POST", "_replicate", e.request(source, target, object{"cancel": true}))
	result := e.replicate(source, target, object{"since_seq": changes[2].(object)["seq"]})
	e.ask("POST", "_replicate", e.request(source, target, object{"cancel": true}))
	e.counted(e.session(result, 1), 2, 2, 2, 2, 0)
	var ids []string
	for _, row := range changes[3:] {
		ids = append(ids, row.(object)["id"].(string))
	}
	e.only(target, docs, func(doc object) bool { return slices.Contains(ids, doc["_id"].(string)) })
}

// only demands that a database has those documents for which the function says so, and none of the others.
func (e *elixir) only(db string, docs []object, has func(object) bool) {
	e.Helper()
	for _, doc := range docs {
		if has(doc) {
			e.arrived(db, doc)
		} else {
			e.lacks(db, doc["_id"])
		}
	}
}

func even(doc object) bool { return int(doc["integer"].(float64))%2 == 0 }

func (e *elixir) validation() {
	source, target := e.pair()
	docs := numbered(1, 7)
	docs[1]["_attachments"] = object{"hello.txt": object{"content_type": "text/plain", "data": hello}}
	e.save(source, docs...)
	e.save(target, object{"_id": "_design/test", "language": "javascript",
		"validate_doc_update": `function(newDoc, oldDoc, userCtx, secObj) {
			if ((newDoc.integer % 2) !== 0) throw({forbidden: "I only like multiples of 2."});
		}`})
	result := e.replicate(source, target, nil)
	e.counted(e.session(result, 1), 7, 7, 7, 3, 4)
	e.demand(e.alone || result["refused"] == 4.0, "%v", result)
	delete(docs[1], "_attachments")
	e.only(target, docs, even)
}

func (e *elixir) createTarget() {
	source, target := e.names()
	e.take("PUT", source, nil)
	e.save(source, numbered(1, 2)...)
	e.replicate(source, target, object{"create_target": true})
	e.sameCount(source, target)
	if e.couchdb { // as many shards, with as much in each
		s, t := e.info(source), e.info(target)
		e.demand(within(s["cluster"], t["cluster"]), "%v %v", s, t)
		count, _, _ := strings.Cut(fmt.Sprint(s["update_seq"]), "-")
		e.demand(strings.HasPrefix(fmt.Sprint(t["update_seq"]), count+"-"), "%v %v", s, t)
	}
}

func (e *elixir) filtered() {
	source, target := e.pair()
	// CouchDB's suite has ===, but pouchdb-server takes special for a number.
	filter := object{"_id": "_design/mydesign", "language": "javascript",
		"filters": object{"myfilter": `function(doc, req) {
			var modulus = Number(req.query.modulus);
			var special = req.query.special;
			return (doc.integer % modulus === 0) || (doc.string == special);
		}`}}
	docs := e.save(source, append(numbered(1, 30), filter)...)[:30]
	options := object{"filter": "mydesign/myfilter", "query_params": object{"modulus": "2", "special": "7"}}
	passes := func(doc object) bool { return even(doc) || doc["string"] == "7" }
	result := e.replicate(source, target, options)
	e.only(target, docs, passes)
	e.lacks(target, "_design/mydesign")
	e.counted(e.session(result, 1), 16, 16, 16, 16, 0)

	docs = e.save(source, numbered(50, 55)...)
	result = e.replicate(source, target, options)
	e.only(target, docs, passes)
	e.counted(e.session(result, 2), 19, 19, 19, 19, 0)
}

func (e *elixir) filterChanged() {
	source, target := e.pair()
	foo := func(n int) object { return object{"_id": fmt.Sprint("foo", n), "value": float64(n)} }
	docs := []object{foo(1), foo(2), foo(3), foo(4)}
	design := object{"_id": "_design/mydesign", "language": "javascript", "filters": object{
		"myfilter": `function(doc, req) { return doc.value < Number(req.query.maxvalue) ? true : false; }`}}
	e.save(source, docs...)
	design = e.save(source, design)[0]
	options := object{"filter": "mydesign/myfilter", "query_params": object{"maxvalue": "3"}}
	e.counted(e.session(e.replicate(source, target, options), 1), -1, -1, 2, 2, 0)
	e.only(target, docs, func(doc object) bool { return doc["value"].(float64) < 3 })

	// Another function is another replication, which begins anew.
	e.save(source, with(design, "filters", object{"myfilter": `function(doc, req) { return true; }`}))
	e.counted(e.session(e.replicate(source, target, options), 1), -1, -1, 3, 3, 0)
	e.only(target, docs, func(object) bool { return true })
	e.take("GET", target+"/_design/mydesign", nil)
}

func (e *elixir) byIDs() {
	for _, c := range []struct {
		initial, after []string
		conflict       string
	}{
		{[]string{"1", "2", "10"}, nil, "2"},
		{[]string{"1", "2"}, []string{"7"}, "1"},
		{[]string{"1", "foo_666", "10"}, []string{"7"}, "10"},
		{[]string{"_design/foo", "8"}, []string{"foo_5"}, "8"},
		{[]string{"_design%2Ffoo", "8"}, []string{"foo_5"}, "8"},
		{nil, []string{"foo_1000", "_design/foo", "1"}, "1"},
	} {
		source, target := e.pair()
		docs := e.save(source, append(numbered(1, 10),
			object{"_id": "_design/foo", "language": "javascript", "integer": 1.0})...)[:10]
		n := e.byTheseIDs(source, target, docs, c.initial, nil, 0)
		e.byTheseIDs(source, target, docs, c.after, c.initial, n)
		e.conflictByIDs(source, target, c.conflict)
	}
}

// byTheseIDs replicates by ids, and demands that nothing else arrives but what was there. It returns how many
// documents the target has.
func (e *elixir) byTheseIDs(source, target string, docs []object, ids, before []string, had int) int {
	e.Helper()
	there := len(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return strings.HasPrefix(id, "foo_") }))
	if ids == nil {
		ids = []string{}
	}
	result := e.replicate(source, target, object{"doc_ids": ids})
	if there == 0 {
		e.demand(result["no_changes"] == true, "%v: %v", ids, result)
	} else {
		e.counted(result, -1, -1, float64(there), float64(there), 0)
		start, _ := result["start_time"].(string)
		end, _ := result["end_time"].(string)
		e.demand(start != "" && end != "", "%v", result)
	}
	all := slices.Concat(before, ids)
	for _, id := range ids {
		id, _ = url.PathUnescape(id)
		if strings.HasPrefix(id, "foo_") {
			e.lacks(source, id)
			e.lacks(target, id)
		} else {
			e.arrived(target, e.info(source+"/"+id))
		}
	}
	e.only(target, docs, func(doc object) bool { return slices.Contains(all, doc["_id"].(string)) })
	e.demand(e.info(target)["doc_count"] == float64(had+there), "%v: %v", all, e.info(target))
	return had + there
}

// conflictByIDs replicates edits of a document by its id, at last a conflict.
func (e *elixir) conflictByIDs(source, target, id string) {
	doc := e.save(source, with(e.info(source+"/"+id), "integer", 666.0))[0]
	doc = e.attach(source, doc, "readme.txt", "text/plain", lorem)
	e.attach(source, doc, "data.dat", "application/binary", lorem64)
	options := object{"doc_ids": []string{id}}
	e.counted(e.replicate(source, target, options), -1, -1, 1, 1, 0)
	copied := e.info(target + "/" + id + "?conflicts=true")
	e.demand(copied["integer"] == 666.0 && copied["_conflicts"] == nil &&
		strings.HasPrefix(fmt.Sprint(copied["_rev"]), "4-"), "%v", copied)
	e.attached(target, copied, "readme.txt", "text/plain", 3, lorem)
	e.attached(target, copied, "data.dat", "application/binary", 4, lorem64)

	e.save(source, with(e.info(source+"/"+id), "integer", 766.0))
	e.save(target, with(e.info(target+"/"+id), "integer", 667.0))
	e.counted(e.replicate(source, target, options), -1, -1, 2, 2, 0)
	copied = e.info(target + "/" + id + "?conflicts=true")
	conflicts, _ := copied["_conflicts"].([]any)
	e.demand(len(conflicts) == 1 && strings.HasPrefix(fmt.Sprint(conflicts[0]), "5-") &&
		strings.HasPrefix(fmt.Sprint(copied["_rev"]), "5-"), "%v", copied)
}
