package main

import (
	"fmt"
	"testing"

	"couchrelay/adapters/config"
)

// TestValidationFunctions: a design document's function refuses writes of the service's databases, as in CouchDB: it is
// told what was there, who writes, and the security object. Without it the write is done.
func TestValidationFunctions(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Admins["adm"] = "secret"
	r.start(c)
	adm := "http://adm:secret@" + r.url[len("http://"):]
	r.url = adm
	r.want(201, "PUT", "x%2F_replicator", "")
	r.want(200, "PUT", "x%2F_replicator/_security", `{"members":{"roles":["dev"]},"note":"told"}`)
	r.want(201, "PUT", "_users", "")
	r.want(201, "PUT", "_users/org.couchdb.user:ann",
		`{"name":"ann","type":"user","roles":["dev"],"password":"hidden"}`)
	design := r.want(201, "PUT", "x%2F_replicator/_design/v", fmt.Sprintf(`{"validate_doc_update":%q}`,
		`function (doc, old, user, sec) {
			if (doc.no) throw({forbidden: [doc._id, old === null, user.name, user.roles, user.db, sec.note].join()});
			if (doc.who) throw({unauthorized: 'who?'});
		}`))
	r.url = "http://ann:hidden@" + adm[len("http://adm:secret@"):]
	const body = `"source":"http://h/a","target":"http://h/b","paused":true}`
	for _, c := range []struct {
		body, refusal string
		status        int
	}{
		{`{"no":1,` + body, "a,true,ann,dev,x/_replicator,told", 403},
		{`{"who":1,` + body, "who?", 401},
		{`{` + body, "", 201},
	} {
		answer := r.want(c.status, "PUT", "x%2F_replicator/a", c.body)
		if c.refusal != "" && answer["reason"] != c.refusal {
			t.Errorf("%s: %v", c.body, answer)
		}
	}
	r.want(201, "POST", "x%2F_replicator/_bulk_docs",
		`{"new_edits":false,"docs":[{"_id":"b","_rev":"1-a","no":1,`+body+`]}`)
	r.want(404, "GET", "x%2F_replicator/b", "")
	r.url = adm
	r.want(200, "DELETE", "x%2F_replicator/_design/v?rev="+design["rev"].(string), "")
	r.want(201, "PUT", "x%2F_replicator/b", `{"no":1,`+body)
}
