package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web/relay"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
)

// read reads a document of a sandbox.
func (b *sandbox) read(t *testing.T, path string) object {
	t.Helper()
	var doc object
	if err := request("GET", b.url+path, nil, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestFollow: documents in databases of another server, one of which has a name of its own, run here, and say there
// what became of them. It goes on after a restart, and ends with its section.
func TestFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	r.fill(20)
	for _, name := range []string{"jobs", "team%2F_replicator"} {
		if err := request("PUT", r.source.url+name, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	body := object{"source": r.source.url + "db", "target": r.target.url + "copy", "create_target": true, "note": 1.5}
	write := func(path string, body object) {
		t.Helper()
		if err := request("PUT", r.source.url+path, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	write("jobs/first", body)
	write("team%2F_replicator/bad", object{"source": "x"})
	c := config.Default()
	c.Follow["couch"] = config.Follow{
		URL:       spec.Hide(strings.Replace(r.source.url, "://", "://someone:s3cret@", 1)),
		Databases: []string{"jobs", "team/_replicator"},
	}
	r.start(c)
	state := func(path string) func() bool {
		return func() bool {
			s := r.source.read(t, path)["_replication_state"]
			return s == "completed" || s == "failed"
		}
	}
	r.await("the first document", state("jobs/first"))
	doc := r.source.read(t, "jobs/first")
	if doc["_replication_state"] != "completed" || doc["_replication_stats"] == nil || doc["note"] != 1.5 ||
		doc["owner"] != nil {
		t.Errorf("%v", doc)
	}
	r.same()
	r.await("the bad one", state("team%2F_replicator/bad"))
	reason := fmt.Sprint(r.source.read(t, "team%2F_replicator/bad")["_replication_state_reason"])
	if !strings.Contains(reason, "`source`") {
		t.Error(reason)
	}
	view := r.want(200, "GET", "_scheduler/docs/couch%2Fjobs%2F_replicator/first", "")
	if view["state"] != "completed" {
		t.Errorf("%v", view)
	}
	for _, c := range [][2]string{{"PUT", "couch%2Fjobs%2F_replicator/x"}, {"DELETE", "couch%2Fjobs%2F_replicator"}} {
		answer := r.want(403, c[0], c[1], map[string]string{"PUT": `{}`}[c[0]])
		if !strings.Contains(fmt.Sprint(answer["reason"]), r.source.url+"jobs/") {
			t.Errorf("%v", answer)
		}
	}
	r.stop()
	write("jobs/second", object{"source": r.source.url + "db", "target": r.target.url + "other", "create_target": true})
	r.start(c)
	r.await("the second document", state("jobs/second"))
	r.stop()
	delete(c.Follow, "couch")
	r.start(c)
	r.want(404, "GET", "couch%2Fjobs%2F_replicator", "")
	if strings.Contains(r.log.String(), "s3cret") {
		t.Error("the log has the password")
	}
}

// TestFollowReloaded: a section that a request sets is in force at once.
func TestFollowReloaded(t *testing.T) {
	r := newRig(t)
	if err := request("PUT", r.source.url+"jobs", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := request("PUT", r.source.url+"jobs/bad", object{"source": 1}, nil); err != nil {
		t.Fatal(err)
	}
	section := "_node/_local/_config/follow%20couch"
	r.want(400, "PUT", section+"/url", fmt.Sprintf("%q", r.source.url))
	r.want(200, "PUT", section, fmt.Sprintf(`{"url": %q, "databases": "jobs"}`, r.source.url))
	r.await("the document", func() bool { return r.source.read(t, "jobs/bad")["_replication_state"] == "failed" })
	r.want(200, "GET", "couch%2Fjobs%2F_replicator", "")
}

// TestFollowWithoutClient: a section whose client leaves is set and followed, or neither.
func TestFollowWithoutClient(t *testing.T) {
	r := newRig(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.svc.ChangeConfig(gone, relay.ConfigChange{Section: "follow couch", Values: map[string]*string{
		"url": &r.source.url, "databases": new("jobs")}})
	section, _ := r.call("GET", "_node/_local/_config/follow%20couch", "")
	mirror, _ := r.call("GET", "couch%2Fjobs%2F_replicator", "")
	if section != mirror || (err == nil) != (section == 200) {
		t.Errorf("%v; the section is answered %d, its mirror %d", err, section, mirror)
	}
}

// TestFollowUnreadable: a service starts though a job that follows a database cannot be read, says so, and follows the
// other databases.
func TestFollowUnreadable(t *testing.T) {
	r := newRig(t)
	r.stop()
	for _, name := range []string{"jobs", "more"} {
		if err := request("PUT", r.source.url+name, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	c := config.Default()
	c.Follow["couch"] = config.Follow{URL: spec.Hide(r.source.url), Databases: []string{"jobs", "more"}}
	r.start(c)
	key := followStore(r.svc).Keys.Jobs.Job.Pack("couch/jobs/_replicator", int64(0))
	err := kv.Do(t.Context(), r.svc.db, func(tx kv.Tx) error { tx.Set(key, []byte("{")); return nil })
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := request("PUT", r.source.url+"more/bad", object{"source": 1}, nil); err != nil {
		t.Fatal(err)
	}
	r.start(c)
	r.await("the document", func() bool { return r.source.read(t, "more/bad")["_replication_state"] == "failed" })
	if log := r.log.String(); !strings.Contains(log, "follow_unreadable") {
		t.Error(log)
	}
}
