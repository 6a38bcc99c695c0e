package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// needCouch skips a test that has no CouchDB to run against.
func needCouch(t *testing.T) {
	t.Helper()
	if couch == "" {
		t.Skip("COUCHDB_URL is not set")
	}
}

// TestCheckpointsOfCouchDB: couchrelay and CouchDB find the checkpoints of each other's replicator and
// continue from them, if both have the same uuid.
func TestCheckpointsOfCouchDB(t *testing.T) {
	needCouch(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "uuid.ini")
	settings := want(t, 200, "GET", couch+"_node/_local/_config/couchdb", nil)
	check(os.WriteFile(config, fmt.Appendf(nil, "[couchdb]\nuuid = %s\n", settings["uuid"]), 0o600))
	relay := serve(t, dir, "--config", config)
	for name, options := range map[string]object{
		"plain":    {},
		"ids":      {"doc_ids": []string{"doc1", "a/b + é", "doc2"}},
		"selector": {"selector": object{"n": object{"$lt": 5}}},
		"filter":   {"filter": "d/less", "query_params": object{"than": "5", "z": "é"}},
		"winning":  {"winning_revs_only": true},
	} {
		t.Run(name, func(t *testing.T) {
			source, target := database(t, couch), database(t, couch)
			write(t, source, true, object{"_id": "_design/d",
				"filters": object{"less": "function(doc, req) { return doc.n < parseInt(req.query.than) }"}})
			replicate := func(server string) object {
				t.Helper()
				request := object{"source": source, "target": target}
				for name, value := range options {
					request[name] = value
				}
				return want(t, 200, "POST", server+"_replicate", request)
			}
			for n, servers := range [][2]string{{couch, relay.url}, {relay.url, couch}} {
				write(t, source, true, object{"_id": fmt.Sprint("doc", n+1), "n": n})
				first, then := replicate(servers[0]), replicate(servers[1])
				// The second replication may write a checkpoint of its own: its feed can end behind rows that the
				// filter hides.
				continued := slices.ContainsFunc(then["history"].([]any), func(entry any) bool {
					return entry.(object)["session_id"] == first["session_id"]
				})
				if first["no_changes"] != nil || then["no_changes"] != true || !continued {
					t.Errorf("%v\nand then\n%v", first, then)
				}
			}
		})
	}
}

// TestRefusalsOfCouchDB: documents that a validation function of the target forbids, or on which it fails,
// are counted and left out; all others arrive.
func TestRefusalsOfCouchDB(t *testing.T) {
	needCouch(t)
	source, target := database(t, couch), database(t, couch)
	attached := object{"a": object{"content_type": "text/plain", "data": []byte("text")}}
	write(t, source, true,
		object{"_id": "fine"}, object{"_id": "fine-attached", "_attachments": attached},
		object{"_id": "forbidden"}, object{"_id": "unauthorized"}, object{"_id": "exception"},
		object{"_id": "exception-attached", "_attachments": attached})
	write(t, target, true, object{"_id": "_design/v", "validate_doc_update": `function(doc) {
		if (doc._id == "forbidden") throw({forbidden: "no"});
		if (doc._id == "unauthorized") throw({unauthorized: "who?"});
		if (doc._id.match(/^exception/)) doc.no.such.thing;
	}`})
	answer := want(t, 200, "POST", serve(t, t.TempDir()).url+"_replicate",
		object{"source": source, "target": target})
	session := answer["history"].([]any)[0].(object)
	if session["docs_written"] != 2.0 || session["doc_write_failures"] != 4.0 {
		t.Errorf("%v", session)
	}
	var ids []string
	for _, row := range want(t, 200, "GET", target+"/_all_docs", nil)["rows"].([]any) {
		ids = append(ids, row.(object)["id"].(string))
	}
	if !slices.Equal(ids, []string{"_design/v", "fine", "fine-attached"}) {
		t.Errorf("%v arrived", ids)
	}
}
