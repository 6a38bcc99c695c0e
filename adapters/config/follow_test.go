package config

import (
	"strings"
	"testing"
)

// TestFollow: each database of a section is followed at its own URL, and no view of the settings has a password.
func TestFollow(t *testing.T) {
	c, err := load(t, "[follow couch]\nurl = https://adm:s3cret@couch:6984/\ndatabases = reps, a/b+c\n"+
		"[follow other]\nurl = http://x\ndatabases = _replicator\ntrusted = true\n"+
		`auth = {"basic": {"username": "u", "password": {"secret": "orders"}}}`+"\n")
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Followed()
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	if d := list[0]; d.ID() != "couch/reps/_replicator" || d.URL != "https://couch:6984/reps/" || d.Trusted ||
		d.Connect.Source.Credentials.Password.Reveal() != "s3cret" || d.Connect.WinningRevsOnly {
		t.Errorf("%+v", d)
	}
	if d := list[1]; d.ID() != "couch/a/b+c/_replicator" || d.URL != "https://couch:6984/a%2Fb%2Bc/" {
		t.Errorf("%+v", d)
	}
	if d := list[2]; d.ID() != "other/_replicator/_replicator" || !d.Trusted ||
		d.Connect.Source.Credentials.Password.Reference() != "orders" {
		t.Errorf("%+v", d)
	}
	values := c.Values()
	if values["follow couch"]["url"] != "https://adm:*****@couch:6984" || values["follow other"]["auth"] != Masked ||
		values["follow couch"]["databases"] != "reps, a/b+c" {
		t.Errorf("%v", values)
	}
	other := c.Clone()
	if err := other.Apply(Local{{"follow new", "trusted"}: "true"}); err != nil || len(c.Follow) != 2 {
		t.Errorf("%v: %v", err, c.Follow)
	}
	const whole = "[follow a]\nurl = http://x\ndatabases = y\n"
	const https = "[replicator]\nvalid_endpoint_protocols = https\n"
	const login = "[follow a]\nurl = http://u:s3cret@x\ndatabases = y\nauth = "
	for text, want := range map[string]string{
		"[follow a]\nurl = http://x":                 "[follow a] url and databases are needed both",
		"[follow a]\ndatabases = x":                  "[follow a] url and databases are needed both",
		"[follow a]\nurl = s3cret":                   "[follow a] url = *****: must be the URL of a server",
		"[follow a]\nurl = http://u:*****@x":         "***** stands for a password that is not shown",
		"[follow a]\nurl = http://x?y=1":             "must be the URL of a server",
		"[follow a]\nurl = http://[1:2]/":            "must be the URL of a server",
		"[follow a]\ndatabases = x,, y":              "[follow a] databases = x,, y: must be names of databases",
		"[follow a]\ndatabases = x, x":               "each once",
		"[follow a]\ndatabases = X":                  "must be names of databases",
		"[follow a]\ndatabase = x":                   "[follow a] database: no such key; the nearest is databases",
		whole + "trusted = yes":                      "[follow a] trusted = yes: must be true or false",
		whole + "auth = s3cret":                      "[follow a] auth = *****: must be as",
		whole + "tls = lab\n[tls a]\nverify = false": "[follow a] tls = lab: there is no section [tls lab]",
		whole + `auth = {"basic": {}}`:               "[follow a] database y: parameter `auth.basic` must be",
		https + whole:                                "`url` must have one of the protocols https",
		login + `{"basic": {}}`:                      "[follow a] auth: url has a user as well: one must go",
		"[follow A]\nurl = http://x":                 "[follow A]",
		"[follow a/b]\nurl = http://x":               "[follow a/b]",
		whole + `auth = {"bearer": "s3cret €"}`:      "parameter `auth.bearer` must be",
	} {
		c, err := load(t, text)
		if err == nil && len(c.Ignored) == 1 {
			continue // a name that is none is no section of couchrelay
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
