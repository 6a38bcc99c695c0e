package fuzz

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
)

// namesKey is how an error about a setting begins.
var namesKey = regexp.MustCompile(`^configuration( \S+)?: (\[[a-z.]+\] .|line \d+: )`)

// FuzzConfig reads any bytes as a configuration file. Accepted settings are within their limits and are those
// that a plain reader of lines finds; an error names the section and the key.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("[couchdb]\nuuid = 9ddf\n[chttpd]\nport=6000\nbind_address = ::1\n" +
		"[admins]\nadm = -pbkdf2-aa,bb,10\n[fabric]\nx = 1\n"))
	f.Add([]byte("; comment\n[replicator]\n max_jobs = 7\nmax_jobs = 8\ninterval = 1500\nmin_run_time_sec = 90s\n" +
		"verify_ssl_certificates = false\r\nsocket_options = [{keepalive, true}]\n"))
	f.Add([]byte("[admins]\na = `b\nc = \"x\" ; y # z\nd = \"\"\"p\n[log]\nlevel = debug\n"))
	f.Add([]byte("[replicator]\nmax_jobz = 5\n"))
	f.Add([]byte("[replicator]\nmin_backoff_penalty_sec = 999999\n"))
	f.Add([]byte("[ssl]\nenable = true\ncert_file = a\nkey_file = b\ntls_versions = [tlsv1, 'tlsv1.2']\n" +
		"ciphers = [\"ECDHE-RSA-AES128-GCM-SHA256\"]\necc_curves = [x25519, secp384r1]\nverify_fun = {a, b}\n"))
	f.Add([]byte("[chttpd]\nenable_cors = true\ntrusted_proxies = 10.0.0.0/8, ::1\nmax_uri_length = 8000\n" +
		"[cors]\norigins = https://a.example.com, *\ncredentials = true\nmethods = GET, put\nmax_age = 60\n"))
	f.Add([]byte("[limits]\nmax_json_depth = 20\nwrite_timeout_sec = 5\n[couchdb]\nmax_document_size = 4294967296\n" +
		"max_attachment_size = infinity\n[audit]\nfile = /var/log/audit.log\n"))
	path := filepath.Join(f.TempDir(), "couchrelay.ini")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path)
		if err != nil {
			if !namesKey.MatchString(err.Error()) {
				t.Fatalf("%q names no key", err)
			}
			return
		}
		again, err := config.Load(path, path)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("read twice: %+v, %v", again, err)
		}
		r := c.Replicator
		if c.Port < 0 || c.Port > 65535 || c.Node.MaxJobs < 0 || c.Node.Interval < 100*time.Millisecond ||
			c.Node.ActivityTimeout < 2*time.Second ||
			r.Backoff.Min <= 0 || r.Backoff.Min > r.Backoff.Max ||
			r.Parse.ConnectionTimeout < 100*time.Millisecond || r.Parse.WorkerProcesses < 1 {
			t.Fatalf("out of limits: %+v", c)
		}
		if l := c.Limits; l.Request < 1 || l.Document < 1 || l.Document > 8_000_000 || l.Depth > 1000 || l.URL < 100 ||
			l.WriteTime < time.Second || l.Connections < 1 || c.SSL.MinVersion < tls.VersionTLS12 ||
			c.SSL.Enable && c.SSL.KeyFile == "" {
			t.Fatalf("out of limits: %+v, %+v", l, c.SSL)
		}
		if err := sameAgain(&c); err != nil {
			t.Fatal(err)
		}
		if settings := plainConfig(text); isPlain(text) {
			for name, want := range settings["admins"] {
				if got := c.Admins[name]; got != want {
					t.Fatalf("%q has the password %q, want %q", name, got, want)
				}
			}
			if want, set := settings["chttpd"]["bind_address"]; set && c.BindAddress != want {
				t.Fatalf("bind_address is %q, want %q", c.BindAddress, want)
			}
		}
	})
}

// sameAgain reports whether the values of a configuration, as people are shown them, are accepted and mean the same.
func sameAgain(c *config.Config) error {
	again := c.Clone()
	for section, values := range c.Values() {
		for key, value := range values {
			if config.IsSecret(config.Name{Section: section, Key: key}) || strings.Contains(value, config.Masked) {
				continue
			}
			if err := again.Set(section, key, value); err != nil {
				return fmt.Errorf("a value that was shown is not accepted: %w", err)
			}
		}
	}
	if want, got := c.Values(), again.Values(); !reflect.DeepEqual(want, got) {
		return fmt.Errorf("shown as %v, and set to that as %v", want, got)
	}
	return nil
}

var plainLine = regexp.MustCompile(`^\s*([;#].*|\[[a-z.]+\]\s*|[a-z_]+\s*=.*)?$`)

// isPlain reports whether a file has comments, sections and keys only.
func isPlain(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if !plainLine.MatchString(line) ||
			strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }) {
			return false
		}
	}
	return true
}

// comment is a comment behind a value.
var comment = regexp.MustCompile(`[ \t];.*$`)

// plainConfig reads such a file.
func plainConfig(text []byte) map[string]map[string]string {
	settings, section := map[string]map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(comment.ReplaceAllString(strings.TrimSpace(line), ""))
		name, value, isKey := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == ';' || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case isKey:
			if settings[section] == nil {
				settings[section] = map[string]string{}
			}
			settings[section][strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return settings
}
