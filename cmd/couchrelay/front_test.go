package main

import (
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

// TestFront: one address is a CouchDB and the service, and its databases are named without a URL.
func TestFront(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	if err := c.Set("front", "couchdb", strings.TrimSuffix(r.source.url, "/")); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	r.start(c)
	r.want(201, "PUT", "orders", "")
	r.want(201, "PUT", "orders/doc1", `{"value":1}`)
	answer := r.want(200, "POST", "_replicate", `{"source":"orders","target":"copy","create_target":true}`)
	if answer["ok"] != true {
		t.Errorf("replicated: %v", answer)
	}
	r.want(200, "GET", "copy/doc1", "")
	r.want(201, "PUT", "_replicator/nightly", `{"source":"orders","target":{"url":"again"},"create_target":true}`)
	r.await("the document's job", func() bool { return r.docState("nightly") == "completed" })
	r.want(200, "GET", "again/doc1", "")
	var names []string
	err := request("GET", r.url+"_all_dbs", nil, &names)
	if err != nil || strings.Join(names, " ") != "again copy orders" {
		t.Errorf("databases of the CouchDB: %v, %v", names, err)
	}
	if info := r.want(200, "GET", "_scheduler/jobs", ""); info["total_rows"] == nil {
		t.Errorf("jobs: %v", info)
	}
}
