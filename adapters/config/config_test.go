package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
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
scheduling_policy = tags
usage_coeff = 0.25
priority_coeff = 0.995

[replicator.shares]
_replicator = 200
fast/_replicator = 1000
user:alice = 1
user: = 50

[fabric]
request_timeout = 5
`, "[replicator]\nmax_jobs = 8\n[replicator.shares]\n_replicator = 300\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.MaxJobs != 8 || c.Node.Interval != 1500*time.Millisecond || c.Node.MinRun != 90*time.Second ||
		c.Replicator.Backoff.Health != time.Minute || c.TLS.Verify ||
		!c.Replicator.Parse.SocketOptions.NoDelay ||
		len(c.Replicator.Parse.EndpointProtocols) != 1 {
		t.Errorf("replicator settings: %+v %+v", c.Node, c.Replicator)
	}
	if c.Port != 6000 || c.KeyPrefix != "prod/eu" || c.BindAddress != "::1" ||
		c.Admins["adm"] != "-pbkdf2-aa,bb,10" ||
		c.Replicator.Server.UUID != "9ddf59457dbb8772316cf06fc5e5a2e4" {
		t.Errorf("%+v", c)
	}
	want := jobstore.Sharing{
		Policy: schedule.Tags, Forgetting: schedule.Forgetting{Interval: 1500 * time.Millisecond,
			Coeff: 250_000}, PriorityCoeff: 995_000,
		Shares: map[string]int64{"_replicator": 300, "fast/_replicator": 1000, "user:alice": 1, "user:": 50},
	}
	if !reflect.DeepEqual(c.Replicator.Sharing, want) {
		t.Errorf("sharing: %+v", c.Replicator.Sharing)
	}
	if !slices.Equal(c.Skipped, []string{"[fabric]"}) || c.Ignored != nil {
		t.Errorf("skipped %v, ignored %v", c.Skipped, c.Ignored)
	}
}

// TestAnyAddress: CouchDB's image for containers has any.
func TestAnyAddress(t *testing.T) {
	for text, want := range map[string]string{"any": "0.0.0.0", "Relay-1.example.com": "Relay-1.example.com",
		"fe80::1%eth0": "fe80::1%eth0"} {
		c, err := load(t, "[chttpd]\nbind_address = "+text+"\n")
		if err != nil || c.BindAddress != want {
			t.Errorf("%s: %s, %v", text, c.BindAddress, err)
		}
	}
}

func TestCoefficientOfTheQueue(t *testing.T) {
	c, err := load(t, "[replicator]\npriority_coeff = 0.5\n", "[replicator]\npriority_coeff = auto\n")
	if err != nil || c.Replicator.Sharing.PriorityCoeff != 0 {
		t.Errorf("%+v, %v", c.Replicator.Sharing, err)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[replicator]\nmax_jobs = many":  "[replicator] max_jobs = many: must be a whole number from 0 to 1000000",
		"[replicator.shares]\nalice = 5": "[replicator.shares] alice: must be the name of a replicator database",
		"[node_types]\nview_indexing = true": "[node_types] view_indexing: no such key; " +
			"known are api_frontend, replication",
		"[chttpd]\nbind_address = 0.0.0.0:5980": "[chttpd] bind_address = 0.0.0.0:5980: must be an IP address, " +
			"a host name, or any for all addresses, without a port",
		"[replicator]\ninterval = soon": "must be a whole number of milliseconds, at least 100, " +
			"or a time such as 90s",
		"[chttpd]\nbind_address = 256.1.1.1":                   "must be an IP address",
		"[ssl]\nbind_address = [::1]":                          "must be an IP address",
		"[prometheus]\nbind_address = http://relay1":           "must be an IP address",
		"[replicator]\nmax_jobs = -1":                          "must be a whole number",
		"[replicator]\ninterval = 99999999999999999999":        "must be a whole number of milliseconds",
		"[replicator]\nhealth_threshold = 9223372036854775807": "must be a whole number of seconds",
		"[replicator]\nuse_checkpoints = 1":                    "must be true or false",
		"[replicator]\nsocket_options = [{magic, true}]":       "[replicator] socket_options",
		"[log]\nlevel = loud":                                  "must be one of debug, info, warning, error",
		"[chttpd]\nport = 65536":                               "must be a whole number from 0 to 65535",
		"[replicator]\ncert_file = x":                          "cert_file and key_file are needed both or none",
		"[replicator]\nmin_backoff_penalty_sec = 9999999":      "is above max_backoff_penalty_sec",
		"max_jobs = 5":                                   "a key before the first [section]",
		"[store]\nkey_prefix =":                          "[store] key_prefix = : must be 1 to 100 characters",
		"[chttpd]\nbind_address =":                       "[chttpd] bind_address = : must not be empty",
		"[replicator]\nssl_trusted_certificates_file = ": ": must not be empty",
		"[replicator]\ncert_file=\nkey_file=":            "[replicator] cert_file = : must not be empty",
		"[couchdb]\nmaintenance_mode = yes":              ": must be one of false, true, nolb",
		"[node_types]\nreplication = 1":                  "[node_types] replication = 1: must be true or false",
		"[replicator]\nscheduling_policy = luck":         ": must be one of fairshare, fifo, tags",
		"[replicator]\nscheduling_policy = lottery":      "lottery: is there for comparison in simulations",
		"[replicator]\nusage_coeff = 0.91":               ": must be a number from 0 to 0.9",
		"[replicator]\nusage_coeff = NaN":                "must be a number from 0 to 0.9",
		"[replicator]\npriority_coeff = 0":               ": must be auto, or a number above 0 up to 1",
		"[replicator]\npriority_coeff = 1.1":             "must be auto, or a number above 0 up to 1",
		"[replicator]\npriority_coeff = often":           "must be auto, or a number above 0 up to 1",
		"[replicator.shares]\n_replicator = 0":           ": must be a whole number from 1 to 1000",
		"[replicator.shares]\n_replicator = 1001":        "must be a whole number from 1 to 1000",
		"[replicator.shares]\n_replicator = 1.5":         "must be a whole number from 1 to 1000",
		"[replicator":                                    "line 1: a section is [name]",
		"[]":                                             "line 1: a section is [name]",
		"[admins]\n\nadm s3cret":                         "line 3: neither [section] nor key = value nor a comment",
		"[admins]\nadm = *****":                          "adm: ***** stands for a password",
		"[admins]\n= s3cret":                             "line 2: neither [section] nor key = value nor a comment",
	} {
		if strings.HasPrefix(want, ": ") { // after the setting itself
			want = strings.Replace(text, "\n", " ", 1) + want
		}
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.ini")); err == nil {
		t.Error("a missing file was accepted")
	}
}

// TestNearest: a name that is unknown comes with the nearest one that is known.
func TestNearest(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[replicator]\nmax_jobz = 5", "line 2: [replicator] max_jobz: no such key; the nearest is max_jobs"},
		{"[replicator]\nnothing_like_that = 1", "nothing_like_that: no such key; known are accept_jitter"},
		{"[couchdb]\nmax_document_sice = 1", "max_document_sice: no such key; the nearest is max_document_size"},
		{"\n[replicatr]\nmax_jobs = 1", "line 2: [replicatr]: no such section; the nearest is [replicator]"},
		{"[tls My CA]\nverify = false", "line 1: [tls My CA]: must be [tls NAME], with a NAME of 1 to 100 letters"},
		{"[tls]\nverify = false", "line 1: [tls]: must be [tls NAME]"},
		{"[follow EU]\nurl = http://h", "line 1: [follow EU]: must be [follow NAME], with a NAME of lower"},
		{"[replicator]\npassword =", "[replicator] password = *****: must be a password"},
		{"[front]\ncouchdb = http://u:p@couch", "[front] couchdb = *****: must be a URL like http://couch:5984"},
		{"[local]\nurl = http://u:p@couch", "[local] url = *****: must be a URL like http://couch:5984"},
	} {
		if _, err := load(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestPasswords: a password is read as it stands in the file, whatever its characters.
func TestPasswords(t *testing.T) {
	for _, password := range []string{"`b", "`b`", `"x"`, `"""p`, `a;b # c`, `a = b`,
		`a;`, `a; b`, `x\`, `%(adm)s`, `[a]`, `-pbkdf2-aa,bb,10`, `pässwörd`, ``} {
		c, err := load(t, "\uFEFF[admins]\r\nadm = "+password+" \r\nother=x\r\n")
		if err != nil || c.Admins["adm"] != password || c.Admins["other"] != "x" {
			t.Errorf("%q is read as %q, %v", password, c.Admins, err)
		}
	}
}

// TestComments: a comment may follow a section or a value where CouchDB allows one.
func TestComments(t *testing.T) {
	for _, line := range []string{"adm = pass ; the admin", "adm=pass\t;x", "adm = pass ;",
		"adm = pass ;; x ; y", " adm = pass   ; [x] = ", "adm = pass \t; x ;y"} {
		c, err := load(t, "; first\n[admins] ; all rights\n"+line+"\n[chttpd]\t;[x]\nport = 6000 ; not 5980\n")
		if err != nil || c.Admins["adm"] != "pass" || len(c.Admins) != 1 || c.Port != 6000 {
			t.Errorf("%q: %q, port %d, %v", line, c.Admins, c.Port, err)
		}
	}
	if c, err := load(t, "[admins]\nadm =;a\n"); err != nil || c.Admins["adm"] != ";a" {
		t.Errorf("%q, %v", c.Admins, err)
	}
	if c, err := load(t, "[admins]\nadm = ; none\n"); err != nil || c.Admins["adm"] != "" {
		t.Errorf("%q, %v", c.Admins, err)
	}
	if _, err := load(t, "[chttpd]\nbind_address = ; any\n"); err == nil ||
		!strings.Contains(err.Error(), "must not be empty") {
		t.Errorf("no address: %v", err)
	}
}

// TestEveryKeyIsDescribed demands one sentence and the accepted values of each key, and that the default, as
// it is shown, sets the key to what it is by default.
func TestEveryKeyIsDescribed(t *testing.T) {
	byDefault, rows := Default(), 0
	for _, r := range byDefault.Rows() {
		rows++
		if r.Takes == "" || !strings.HasSuffix(r.Says, ".") || strings.Contains(r.Says, ". ") {
			t.Errorf("%+v", r)
		}
		switch c := Default(); {
		case r.Section == "replicator.shares", r.Section == "tls NAME", r.Section == "follow name", r.Default == "":
		default:
			if err := c.Set(r.Section, r.Key, r.Default); err != nil || !reflect.DeepEqual(c, byDefault) {
				t.Errorf("[%s] %s = %s: %v", r.Section, r.Key, r.Default, err)
			}
		}
	}
	for _, keys := range sections {
		rows -= len(keys)
	}
	rows -= len(tlsKeys) + len(followKeys)
	if rows -= len(config.Replicator); rows != 3 {
		t.Errorf("%d rows for keys with names of their own, in [admins], [jwt_keys] and [replicator.shares]", rows)
	}
}

// TestTakenAsTold: the values by which a key says what it takes are taken: examples, bounds, and the words of a list.
func TestTakenAsTold(t *testing.T) {
	bounds := regexp.MustCompile(`a (?:whole )?number from ([0-9.]+) to ([0-9.]+)`)
	examples := regexp.MustCompile(`a time such as (\w+)|(?:hours|seconds|milliseconds), at least (\d+)|` +
		`^(\w+) to follow|^(\w+), or|(\w+) for ever`)
	words := regexp.MustCompile(`^(?:one|some) of ([\w-]+(?:, [\w-]+)*)(?:$|;|, each also|, with)`)
	tried, all := 0, Default()
	for _, row := range all.Rows() {
		var values []string
		for _, form := range []*regexp.Regexp{bounds, examples} {
			for _, m := range form.FindAllStringSubmatch(row.Takes, -1) {
				values = append(values, m[1:]...)
			}
		}
		if m := words.FindStringSubmatch(row.Takes); m != nil {
			values = append(values, strings.Split(m[1], ", ")...)
		}
		if row.Takes == "true or false" {
			values = []string{"true", "false"}
		}
		for _, value := range values {
			section := strings.Replace(row.Section, " NAME", " a", 1)
			key := strings.Replace(row.Key, "ACCOUNT", "user:a", 1)
			if value == "" {
				continue
			}
			c := Default()
			if err := c.Set(section, key, value); err != nil {
				t.Error(err)
			}
			tried++
		}
	}
	if tried < 200 {
		t.Errorf("only %d values were tried", tried)
	}
	c := Default()
	err := c.Set("ssl", "ecc_curves", "x")
	if err == nil || strings.Count(err.Error(), "secp521r1") != 1 {
		t.Error(err)
	}
}

// TestUsualPortsOfOrigins: an origin with the usual port of its scheme is the one that browsers send.
func TestUsualPortsOfOrigins(t *testing.T) {
	c := Default()
	err := c.Set("cors", "origins", "https://a.example.com:443, http://b:80, https://c:80, http://[::443], *")
	want := []string{"https://a.example.com", "http://b", "https://c:80", "http://[::443]", "*"}
	if err != nil || !slices.Equal(c.CORS.Origins, want) {
		t.Errorf("%q, %v", c.CORS.Origins, err)
	}
}
