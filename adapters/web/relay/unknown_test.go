package relay

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// memory is a log in memory.
type memory struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (m *memory) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(b)
}

// take returns what was logged since it was last taken, without times.
func (m *memory) take() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.text.Reset()
	return m.text.String()
}

func (m *memory) logger() *slog.Logger {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(m, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
}

// TestUnknownFields: fields that mean nothing are logged once for each revision, and shown with the job.
func TestUnknownFields(t *testing.T) {
	var log memory
	s := newService(t, func(o *Options) { o.Logger = log.logger() })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	s.Want(`PUT /_replicator/r {"source":"http://h/a","target":"http://h/b","create_traget":true,"note":1}`, 201,
		`{"ok":true,"id":"r","rev":"1-*"}`)
	rev := s.Rev
	want := fmt.Sprintf("level=WARN msg=unknown_fields database=_replicator document=r rev=%s user=\"\" "+
		"fields=\"create_traget (create_target?), note\" documents=1\n", rev)
	if got := log.take(); got != want {
		t.Errorf("logged\n%swant\n%s", got, want)
	}
	for _, path := range []string{"/_scheduler/jobs", "/_scheduler/docs", "/_scheduler/docs/_replicator/r"} {
		if got := s.Text(s.Ask("GET " + path)); !strings.Contains(got, `"unknown_fields":["create_traget","note"]`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	copied := fmt.Sprintf(`{"_id":"r","_rev":%q,"source":"http://h/a","target":"http://h/b","x":1}`, rev)
	s.Want(`POST /_replicator/_bulk_docs {"new_edits":false,"docs":[`+copied+`]}`, 201, `[]`)
	s.Fails(`PUT /_replicator/r {"source":"no","target":"http://h/b","note":1,"_rev":"$rev"}`, 403, "forbidden",
		"local_endpoints_not_supported: `source` must be a URL that begins with http:// or https://; names of "+
			"databases need the setting [local] url")
	s.Want(`PUT /_replicator/_design/d {"views":{}}`, 201, `{"ok":true,"id":"_design/d","rev":"1-*"}`)
	if got := log.take(); got != "" {
		t.Errorf("logged %s", got)
	}
	s.Want(`POST /_replicate {"source":"http://h/a","target":"http://h/c","continuous":true,"cancle":true}`, 202,
		`{"ok":true,"_local_id":"H+continuous"}`)
	if got := log.take(); !strings.HasSuffix(got, ` user="" fields="cancle (cancel?)"`+"\n") {
		t.Errorf("logged %s", got)
	}
	if got := s.Text(s.Ask("GET /_scheduler/jobs")); !strings.Contains(got, `"unknown_fields":["cancle"]`) {
		t.Errorf("listed %s", got)
	}
}

// TestManyUnknownFields: documents with the same unknown fields share a line, and others do not fill the log.
func TestManyUnknownFields(t *testing.T) {
	var log memory
	s := newService(t, func(o *Options) { o.Logger = log.logger() })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	upload := func(field string) string {
		var list []string
		for i := range 200 {
			field := strings.ReplaceAll(field, "%", fmt.Sprint(i))
			list = append(list, fmt.Sprintf(`{"source":"http://h/a","target":"http://h/%d",%q:1}`, i, field))
		}
		answer := s.Ask(`POST /_replicator/_bulk_docs {"docs":[` + strings.Join(list, ",") + `]}`)
		if answer.StatusCode != 201 {
			t.Fatal(s.Text(answer))
		}
		return log.take()
	}
	if got := upload("same"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "documents=200") {
		t.Errorf("logged %s", got)
	}
	if got := upload("other%"); strings.Count(got, "\n") != maxReports {
		t.Errorf("logged %s", got)
	}
}

// TestCancelInDocument: a document that wants to cancel is refused, in any way in which it is written.
func TestCancelInDocument(t *testing.T) {
	s := newService(t)
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	const reason = "parameter `cancel` has no effect in a document: delete the document to stop its replication"
	const body = `"source":"http://h/a","target":"http://h/b","cancel":true}`
	s.Fails("PUT /_replicator/r {"+body, 403, "forbidden", reason)
	s.Want(`POST /_replicator/_bulk_docs {"docs":[{"_id":"r",`+body+`]}`, 201,
		`[{"id":"r","error":"forbidden","reason":"`+reason+`"}]`)
	s.Fails("GET /_replicator/r", 404, "not_found", "missing")
}

// TestStaleMarks: what replicators of other servers wrote into a document is gone when that is read.
func TestStaleMarks(t *testing.T) {
	s := newService(t)
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	const marks = `"_replication_id":"x","_replication_state":"%s","_replication_state_time":"t"`
	for _, state := range []string{"triggered", "error", ""} {
		id := "r" + state
		body := fmt.Sprintf(`{"source":"http://h/a","target":"http://h/%s",`+marks+`}`, id, state)
		s.Want("PUT /_replicator/"+id+" "+body, 201, `{"ok":true,"id":"`+id+`","rev":"1-*"}`)
		s.Want("GET /_replicator/"+id, 200,
			`{"_id":"`+id+`","_rev":"1-*","source":"http://h/a","target":"http://h/`+id+`","owner":null}`)
		if got := s.Text(s.Ask("GET /_scheduler/docs/_replicator/" + id)); !strings.Contains(got, `"state":"pending"`) {
			t.Errorf("%s: %s", id, got)
		}
	}
	const over = `"source":"http://h/a","target":"http://h/c","_replication_id":"x","_replication_state":"completed"`
	s.Want(`PUT /_replicator/c {`+over+`}`, 201, `{"ok":true,"id":"c","rev":"1-*"}`)
	s.Want("GET /_replicator/c", 200, `{"_id":"c","_rev":"1-*",`+over+`,"owner":null}`)
}

// TestFieldsOfUsers: users' documents may have any fields.
func TestFieldsOfUsers(t *testing.T) {
	var log memory
	s := newService(t, func(o *Options) { o.Logger = log.logger() })
	s.Want("PUT /_users", 201, `{"ok":true}`)
	s.Want(`PUT /_users/org.couchdb.user:ann {"name":"ann","type":"user","roles":[],"shoe_size":40}`, 201,
		`{"ok":true,"id":"org.couchdb.user:ann","rev":"1-*"}`)
	if got := log.take(); strings.Contains(got, "unknown_fields") {
		t.Errorf("a user's own fields: %s", got)
	}
}
