package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T, texts ...string) (Config, error) {
	t.Helper()
	var paths []string
	for i, text := range texts {
		path := filepath.Join(t.TempDir(), "couchrelay.ini")
		if i == 0 {
			path = filepath.Join(t.TempDir(), "first.ini")
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return Load(paths...)
}

func TestLoad(t *testing.T) {
	c, err := load(t, `
; CouchDB's own comment style
[couchdb]
uuid = 9ddf59457dbb8772316cf06fc5e5a2e4

[chttpd]
port = 6000
bind_address = ::1

[store]
key_prefix = prod/eu

[admins]
adm = -pbkdf2-aa,bb,10

[replicator]
max_jobs = 7
interval = 1500
min_run_time_sec = 90s
health_threshold = 60
verify_ssl_certificates = false
socket_options = [{keepalive, true}, {nodelay, true}]
valid_endpoint_protocols = https

[fabric]
request_timeout = 5
`, "[replicator]\nmax_jobs = 8\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.MaxJobs != 8 || c.Node.Interval != 1500*time.Millisecond || c.Node.MinRun != 90*time.Second ||
		c.Replicator.Backoff.Health != time.Minute || c.TLS.Verify || !c.Replicator.Parse.SocketOptions.NoDelay ||
		len(c.Replicator.Parse.EndpointProtocols) != 1 {
		t.Errorf("replicator settings: %+v %+v", c.Node, c.Replicator)
	}
	if c.Port != 6000 || c.KeyPrefix != "prod/eu" || c.BindAddress != "::1" || c.Admins["adm"] != "-pbkdf2-aa,bb,10" || c.Replicator.Server.UUID != "9ddf59457dbb8772316cf06fc5e5a2e4" {
		t.Errorf("%+v", c)
	}
	if len(c.Ignored) != 1 || c.Ignored[0] != "fabric" {
		t.Errorf("ignored %v", c.Ignored)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[replicator]\nmax_jobz = 5":                           "[replicator] max_jobz: no such key; known are activity_timeout_sec",
		"[replicator]\nmax_jobs = many":                        "[replicator] max_jobs = many: must be a whole number from 0 to 1000000",
		"[replicator]\nmax_jobs = -1":                          "must be a whole number",
		"[replicator]\ninterval = soon":                        "must be a whole number of milliseconds, at least 100, or a time such as 90s",
		"[replicator]\ninterval = 99999999999999999999":        "must be a whole number of milliseconds",
		"[replicator]\nhealth_threshold = 9223372036854775807": "must be a whole number of seconds",
		"[replicator]\nuse_checkpoints = 1":                    "must be true or false",
		"[replicator]\nsocket_options = [{magic, true}]":       "[replicator] socket_options",
		"[replicator]\nupdate_docs = true":                     "[replicator] update_docs is not supported yet",
		"[log]\nlevel = loud":                                  "must be one of debug, info, warning, error",
		"[chttpd]\nport = 65536":                               "must be a whole number from 0 to 65535",
		"[replicator]\ncert_file = x":                          "cert_file and key_file are needed both or none",
		"[replicator]\nmin_backoff_penalty_sec = 9999999":      "is above max_backoff_penalty_sec",
		"max_jobs = 5":                                         "a key before the first [section]",
		"[store]\nkey_prefix =":                                "[store] key_prefix = : must be 1 to 100 characters",
		"[couchdb]\nuuid =":                                    "must be 1 to 100 characters",
		"[replicator":                                          "configuration",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.ini")); err == nil {
		t.Error("a missing file was accepted")
	}
}
