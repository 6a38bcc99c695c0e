package top

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

// service answers as a couchrelay does.
type service struct {
	t      *testing.T
	now    time.Time
	m      *Model
	jobs   []map[string]any
	total  int64
	docs   float64 // written since the start
	uptime float64
	down   string // why there is no answer
	front  bool   // a CouchDB answers for _local
	asked  []string
	round  *Round // under way
	ended  string // "quit" or "suspend"
}

func newService(t *testing.T, jobs ...map[string]any) *service {
	s := &service{t: t, now: time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC), jobs: jobs, total: int64(len(jobs))}
	s.m = New("http://relay1:5980", 2*time.Second, Filter{}, "state")
	s.do(s.m.Tick(s.now))
	s.answer()
	return s
}

// job is a row of a list.
func job(name, state string, more map[string]any) map[string]any {
	j := map[string]any{
		"job": "01|" + name, "id": name + "+continuous", "doc_id": name, "database": "_replicator", "state": state,
		"source": "https://a.example.com/" + name + "/", "target": "https://b.example.com/" + name + "/",
		"user": "adm", "node": nil, "start_time": "2026-01-31T07:30:00Z", "info": nil, "history": []any{},
	}
	for key, value := range more {
		j[key] = value
	}
	return j
}

func running(name string, written, pending int) map[string]any {
	return job(name, "running", map[string]any{"node": "relay1", "info": map[string]any{
		"docs_read": written, "docs_written": written, "doc_write_failures": 0, "changes_pending": pending}})
}

func crashing(name string, crashes int) map[string]any {
	history := []any{}
	for range crashes {
		history = append(history, map[string]any{"timestamp": "2026-01-31T07:59:00Z", "type": "crashed",
			"reason": "connect_failed: dial tcp: connection refused"})
	}
	return job(name, "crashing", map[string]any{"history": history,
		"info": map[string]any{"error": "connect_failed: dial tcp: connection refused"}})
}

func (s *service) do(effects []Effect) {
	for _, e := range effects {
		switch {
		case e.Quit:
			s.ended = "quit"
		case e.Suspend:
			s.ended = "suspend"
		case e.Ask != nil:
			s.round = e.Ask
		}
	}
}

// answer answers the round that is under way, and those that begin then.
func (s *service) answer() {
	s.t.Helper()
	for s.round != nil {
		round := s.round
		s.round = nil
		var answers []Answer
		for _, r := range round.Requests {
			a := s.answerTo(r)
			a.Request = r
			answers = append(answers, a)
			if a.Problem != "" && !a.Refused {
				break
			}
		}
		s.do(s.m.Take(round.ID, answers, s.now))
	}
}

func (s *service) answerTo(r Request) Answer {
	query := r.Query.Encode()
	s.asked = append(s.asked, strings.TrimSuffix(r.Method+" "+r.Path+"?"+query, "?"))
	if s.down != "" {
		return Answer{Problem: s.down}
	}
	var v any
	switch {
	case r.Path == "/_node/_local/_stats" && s.front:
		v = json.RawMessage(`{"couchdb":{"httpd":{}},
"couch_replicator":{"jobs":{"starts":{"value":7,"type":"counter"}}}}`)
	case r.Path == "/_node/_local/_stats", r.Path == "/_node/relay1/_stats" && s.front:
		v = s.figures()
	case r.Path == "/_scheduler/nodes":
		v = json.RawMessage(`{"nodes":[
{"name":"relay1","version":"1.2.0","status":"up","running":480,"max_jobs":500,"roles":["api_frontend","replication"],
 "last_seen":"2026-01-31T07:59:59Z","start_time":"2026-01-30T08:00:00Z"},
{"name":"relay2","version":"1.2.0","status":"lost","running":0,"max_jobs":500,"roles":["replication"],
 "last_seen":"2026-01-31T07:50:00Z","start_time":"2026-01-30T08:00:00Z"}],"answered_by":"relay1"}`)
	case r.Path == "/_scheduler/holds":
		v = json.RawMessage(`{"holds":[{"id":"server:db1","jobs":12000,"reason":"disks","by":null,
"at":"2026-01-31T07:00:00Z"}]}`)
	case r.Path == "/_scheduler/accounts":
		v = json.RawMessage(`{"policy":"fairshare","accounts":[{"name":"_replicator","shares":100,"jobs":1000000,
"usage_seconds":1234.5,"used":[]},{"name":"user:\u001b","shares":1,"jobs":1,"usage_seconds":null}],"cursor":"c"}`)
	case r.Path == "/_scheduler/servers":
		v = json.RawMessage(`{"servers":[{"server":"db1:5984","jobs":12,"crashing":3,"holds":["server:db1"],"example":
{"job":"x","error":"timeout","reason":"slow"}},{"server":"db2:5984","jobs":1,"crashing":0,"holds":[],"example":null}],
"cursor":null}`)
	case r.Path == "/_scheduler/errors":
		return Answer{Problem: "indexing: in a while (status 503)", Refused: true}
	case r.Path == "/_scheduler/follow":
		v = json.RawMessage(`{"follow":[]}`)
	case r.Method == "POST":
		v = json.RawMessage(`{"id":"x","state":"paused","changed":true,"note":"soon"}`)
	case strings.HasSuffix(r.Path, "/explain"):
		v = json.RawMessage(`{"sentence":"The job runs on relay1 since 2026-01-31T07:30:00Z.","weight":100,"account":
{"name":"_replicator","policy":"fairshare","shares":100,"jobs":4,"usage_seconds":12.5},"error":{"error":"timeout",
"class":"network","advice":"check the server"},"position":null,"estimated_wait_seconds":null,"due":null}`)
	case strings.HasPrefix(r.Path, "/_scheduler/jobs/"):
		id, _ := url.PathUnescape(strings.TrimPrefix(r.Path, "/_scheduler/jobs/"))
		for _, j := range s.jobs {
			if j["job"] == id {
				v = j
			}
		}
		if v == nil {
			return Answer{Problem: "not_found: job_not_found (status 404)", Refused: true}
		}
	default:
		name := strings.TrimPrefix(r.Path, "/_scheduler/")
		page := map[string]any{"total_rows": s.total, name: s.jobs}
		if s.total > PageRows {
			page["cursor"] = "c" + r.Query.Get("cursor")
		}
		v = page
	}
	raw, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return Answer{Raw: raw}
}

func (s *service) figures() any {
	value := func(n float64) any { return map[string]any{"value": n, "type": "counter", "desc": "d"} }
	return map[string]any{
		"couchrelay": map[string]any{
			"slots": value(1000), "slots_used": value(480), "holds": value(1), "store_up": value(1),
			"uptime_seconds": value(s.uptime), "documents_written_total": value(s.docs),
			"document_written_bytes_total": value(1000 * s.docs),
			"endpoint_requests_total": map[string]any{
				"throttled": map[string]any{"h1": value(s.docs / 100), "h2": value(0)}},
			"jobs": map[string]any{"running": value(480), "pending": value(999_000), "crashing": value(12),
				"paused": value(0), "failed": value(7), "completed": value(1_234)},
			"server_request_seconds": map[string]any{"h1": map[string]any{"value": map[string]any{"n": 1}}},
		},
		"couch_replicator": map[string]any{
			"jobs": map[string]any{"starts": value(s.docs / 50), "crashes": value(s.docs / 1000)}},
	}
}

// after lets time pass, with answers to all that is asked meanwhile.
func (s *service) after(d time.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		wait := min(s.m.Wait(s.now), end.Sub(s.now))
		s.now = s.now.Add(wait)
		s.uptime += wait.Seconds()
		s.do(s.m.Tick(s.now))
		s.answer()
	}
}

// press presses keys, of which those with names are in brackets: "j<enter>".
func (s *service) press(keys string) {
	s.t.Helper()
	for keys != "" {
		key := string([]rune(keys)[:1])
		keys = keys[len(key):]
		if key == "<" && strings.Contains(keys, ">") {
			key, keys, _ = strings.Cut(keys, ">")
		}
		s.do(s.m.Press(key, s.now))
		s.answer()
	}
}

func (s *service) view(width, height int) string {
	var b strings.Builder
	for _, l := range s.m.View(width, height, s.now) {
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return b.String()
}

// sees demands texts in the picture.
func (s *service) sees(texts ...string) {
	s.t.Helper()
	picture := s.view(120, 30)
	for _, text := range texts {
		if !strings.Contains(picture, text) {
			s.t.Errorf("%q is not in\n%s", text, picture)
		}
	}
}
