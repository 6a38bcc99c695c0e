package relay

import (
	"context"
	"fmt"
	"testing"

	"couchrelay/adapters/web"
	"couchrelay/core/kv"
)

// configHost has a configuration of two sections.
type configHost struct {
	testHost
	asked *ConfigChange
	fails error
}

func (configHost) Config(context.Context) map[string]map[string]Setting {
	return map[string]map[string]Setting{
		"log": {"level": {Value: "info"}}, "chttpd": {"port": {"5980", true}, "bind_address": {"::1", false}},
		"replicator.shares": {}, "x": {"a/b": {Value: "<7>"}},
	}
}

func (h configHost) ReloadConfig(context.Context) error { return h.fails }

func (h configHost) ChangeConfig(_ context.Context, ch ConfigChange) (map[string]Setting, error) {
	*h.asked = ch
	old := map[string]Setting{}
	for _, n := range ch.Names() {
		old[n.Key] = Setting{"old", n.Key == "port"}
	}
	return old, h.fails
}

// TestConfig: the configuration is shown and changed as CouchDB does.
func TestConfig(t *testing.T) {
	var asked ConfigChange
	s := newService(t, func(o *Options) { o.Host = configHost{asked: &asked} })
	for _, c := range []struct{ request, body, restart string }{
		{"GET /_node/_local/_config",
			`{"chttpd":{"bind_address":"::1","port":"5980"},"log":{"level":"info"},"x":{"a/b":"<7>"}}`, "required"},
		{"GET /_node/n/_config/chttpd", `{"bind_address":"::1","port":"5980"}`, "required"},
		{"GET /_node/_local/_config/log/", `{"level":"info"}`, ""},
		{"GET /_node/_local/_config/replicator.shares", `{}`, ""},
		{"GET /_node/_local/_config/log/level", `"info"`, ""},
		{"GET /_node/_local/_config/x/a%2Fb", `"<7>"`, ""}, {"GET /_node/_local/_config/x/a/b", `"<7>"`, ""},
		{"GET /_node/_local/_config/chttpd/port", `"5980"`, "required"},
		{`PUT /_node/_local/_config/chttpd/port "1"`, `"old"`, "required"},
		{`PUT /_node/_local/_config/log/level "debug"`, `"old"`, ""},
		{`DELETE /_node/_local/_config/log/level`, `"old"`, ""},
		{`PUT /_node/_local/_config/chttpd {"port":"1","bind_address":"x"}`,
			`{"bind_address":"old","port":"old"}`, "required"},
		{`POST /_node/_local/_config/_reload {}`, `{"ok":true}`, ""},
	} {
		answer := s.Ask(c.request)
		if text := s.Text(answer); answer.StatusCode != 200 || text != c.body ||
			answer.Header.Get(restartHeader) != c.restart {
			t.Errorf("%s: %d %q %q", c.request, answer.StatusCode, text, answer.Header)
		}
	}
	s.Ask(`PUT /_node/_local/_config/x/a%2Fb "1"`, "X-Couch-Persist", "false")
	if value := asked.Values["a/b"]; asked.Section != "x" || value == nil || *value != "1" || !asked.Passing {
		t.Errorf("%+v", asked)
	}
	s.Ask(`DELETE /_node/_local/_config/x/k`)
	if value, there := asked.Values["k"]; !there || value != nil || asked.Passing {
		t.Errorf("%+v", asked)
	}
}

// TestBadConfigRequests: a request that cannot be meant is refused, and changes nothing.
func TestBadConfigRequests(t *testing.T) {
	var asked ConfigChange
	s := newService(t, func(o *Options) { o.Host = configHost{asked: &asked} })
	for _, c := range []struct {
		request string
		status  int
		name    string
		reason  string
	}{
		{"GET /_node/_local/_config/logs", 404, "not_found", "unknown_config_value"},
		{"GET /_node/_local/_config/logs/level", 404, "not_found", "unknown_config_value"},
		{"GET /_node/_local/_config/log/levels", 404, "not_found", "unknown_config_value"},
		{"GET /_node/z/_config", 404, "not_found", "no such node: z; see /_membership"},
		{"PUT /_node/_local/_config {}", 405, "method_not_allowed", "Only GET,HEAD allowed"},
		{"POST /_node/_local/_config/log/level {}", 405, "method_not_allowed", "Only DELETE,GET,HEAD,PUT allowed"},
		{"DELETE /_node/_local/_config/log", 405, "method_not_allowed", "Only GET,HEAD,PUT allowed"},
		{"GET /_node/_local/_config/_reload", 405, "method_not_allowed", "Only POST allowed"},
	} {
		s.Fails(c.request, c.status, c.name, c.reason)
	}
	for _, body := range []string{"", "debug", "7", "null", `{"a":"b"}`, `["debug"]`, `"a" "b"`, "\"\xff\""} {
		if answer := s.Ask("PUT /_node/_local/_config/log/level " + body); answer.StatusCode != 400 {
			t.Errorf("%q: %d", body, answer.StatusCode)
		}
	}
	for _, body := range []string{"", "{}", "null", `"a"`, `{"level":7}`} {
		if answer := s.Ask("PUT /_node/_local/_config/log " + body); answer.StatusCode != 400 {
			t.Errorf("%q: %d", body, answer.StatusCode)
		}
	}
	if answer := s.Ask(`PUT /_node/_local/_config/log/level "a"`, "X-Couch-Persist", "no"); answer.StatusCode != 400 {
		t.Errorf("X-Couch-Persist: %d", answer.StatusCode)
	}
	if asked.Section != "" {
		t.Errorf("asked for %+v", asked)
	}
}

// TestFailedConfigRequests: mistakes are the client's, an outage is not.
func TestFailedConfigRequests(t *testing.T) {
	for err, status := range map[error]int{
		web.BadRequest("no"): 400, fmt.Errorf("disk: %w", context.Canceled): 500,
		fmt.Errorf("%w: away", kv.ErrUnavailable): 503,
	} {
		s := newService(t, func(o *Options) { o.Host = configHost{asked: &ConfigChange{}, fails: err} })
		if answer := s.Ask(`PUT /_node/_local/_config/log/level "a"`); answer.StatusCode != status {
			t.Errorf("%v: %d", err, answer.StatusCode)
		}
		if status == 500 {
			status = 400 // whatever keeps it from being read, the configuration is what the client can look at
		}
		if answer := s.Ask(`POST /_node/_local/_config/_reload`); answer.StatusCode != status {
			t.Errorf("reload, %v: %d", err, answer.StatusCode)
		}
	}
}
