package config

import (
	"strings"
	"testing"
)

// TestProfiles: each [tls NAME] is a configuration of its own, with the defaults where it says nothing.
func TestProfiles(t *testing.T) {
	c, err := load(t, "[replicator]\nverify_ssl_certificates = false\n"+
		"[tls partner]\nca_file = /ca.pem\nserver_name = db.test\ncert_file = /c\nkey_file = /k\n"+
		"password = s3cret\n[tls lab]\nverify = false\nmax_depth = 1\n")
	if err != nil {
		t.Fatal(err)
	}
	p, lab := c.Profiles["partner"], c.Profiles["lab"]
	if len(c.Profiles) != 2 || p.CAFile != "/ca.pem" || p.ServerName != "db.test" || p.Password.Reveal() != "s3cret" ||
		!p.Verify || p.Depth != 3 || lab.Verify || lab.Depth != 1 || p.Reload != c.TLS.Reload {
		t.Errorf("%+v", c.Profiles)
	}
	values := c.Values()
	if values["tls partner"]["server_name"] != "db.test" || values["tls partner"]["password"] != Masked ||
		values["tls lab"]["verify"] != "false" {
		t.Errorf("%v", values)
	}
	other := c.Clone()
	if err := other.Apply(Local{{"tls new", "verify"}: "false"}); err != nil || len(c.Profiles) != 2 {
		t.Errorf("%v: %v", err, c.Profiles)
	}
	for text, want := range map[string]string{
		"[tls a]\ncert_file = x":  "[tls a] cert_file and key_file are needed both or none",
		"[tls a]\nca_fil = x":     "[tls a] ca_fil: no such key; the nearest is ca_file",
		"[tls a]\npassword =":     "[tls a] password = *****: must be",
		"[tls a b]\nca_file = x":  "[tls a b]",
		"[tls ../x]\nca_file = x": "[tls ../x]",
	} {
		c, err := load(t, text)
		if err == nil && len(c.Ignored) == 1 {
			continue // a name that is none is no section of couchrelay
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
