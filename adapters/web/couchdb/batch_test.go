package couchdb

import "testing"

// TestBatch: a write with batch=ok is answered before its revision is known, and done all the same.
func TestBatch(t *testing.T) {
	s := newSite(t)
	s.Want(`PUT /db/a?batch=ok {"n":1}`, 202, `{"ok":true,"id":"a"}`)
	s.Want(`GET /db/a`, 200, `{"_id":"a","_rev":"1-*","n":1}`)
	s.Want(`POST /db?batch=ok {"_id":"b"}`, 202, `{"ok":true,"id":"b"}`)
	s.Want(`GET /db/b`, 200, `{"_id":"b","_rev":"1-*"}`)
	s.Want(`PUT /db/c?batch=no {"n":1}`, 201, `{"ok":true,"id":"c","rev":"1-*"}`)
	s.Fails(`PUT /db/a?batch=ok {"n":2}`, 409, "conflict", "Document update conflict.")
}

// TestPartitioned: replicator databases have no partitions.
func TestPartitioned(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"_replicator", "x%2F_replicator"} {
		s.Fails("PUT /"+name+"?partitioned=true", 400, "bad_request", "Cannot partition a system database")
		s.Want("PUT /"+name+"?partitioned=false", 201, `{"ok":true}`)
	}
}
