package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/session"
)

// TestFilesOfCouchDB: CouchDB's files are accepted as they are. What concerns couchrelay is used, and
// all else is listed.
func TestFilesOfCouchDB(t *testing.T) {
	c, err := Load("testdata/couchdb.ini")
	if err != nil {
		t.Fatal(err)
	}
	if c.Port != 5984 || c.UUID == "" || c.Admins["admin"] != "mysecretpassword" || c.TLS.Verify ||
		c.TLS.Password.Reveal() != "somepassword" || c.Settling != 5*time.Second || c.Client.RequestTimeout != 0 {
		t.Errorf("%+v", c)
	}
	if p := c.Client.Auth.Plugins; len(p) != 2 || p[0] != session.Cookie {
		t.Errorf("plugins %q", p)
	}
	if c.Ignored != nil {
		t.Errorf("unknown sections: %q", c.Ignored)
	}
	for _, want := range []string{"[fabric]", "[smoosh.ratio_dbs]", "[cors:http://example.com]",
		"[couchdb] max_dbs_open", "[couchdb] max_document_size = 4294967296", "[log] writer",
		"[cors] credentials = true for origins = *",
		"[chttpd] server_options"} {
		if !slices.Contains(c.Skipped, want) {
			t.Errorf("%s is not among those skipped, %q", want, c.Skipped)
		}
	}
	if !c.SSL.Enable || c.SSL.Port != 6984 || !c.CORS.Enable || c.CORS.MaxAge != 3600 || c.Limits.URL != 8000 {
		t.Errorf("%+v %+v %+v", c.SSL, c.CORS, c.Limits)
	}
	for _, name := range c.Skipped {
		if strings.Contains(name, "replicator") || strings.Contains(name, "admins") || name == "[log] level" {
			t.Errorf("%s was skipped", name)
		}
	}
}

// TestUnfilled: the empty uuid of CouchDB's default.ini sets nothing, and takes nothing from an earlier file. Other
// keys need a value.
func TestUnfilled(t *testing.T) {
	for text, uuid := range map[string]string{
		"[couchdb]\nuuid = \n":                     "",
		"[couchdb]\nuuid =\nuuid = u\n":            "u",
		"[couchdb]\nuuid = u\n[couchdb]\nuuid =\n": "u",
	} {
		c, err := load(t, text)
		if err != nil || c.UUID != uuid || !slices.Equal(c.Skipped, []string{"[couchdb] uuid = "}) {
			t.Errorf("%q: uuid %q, skipped %q, %v", text, c.UUID, c.Skipped, err)
		}
	}
	for _, text := range []string{"[store]\nkey_prefix =\n", "[couch_auth]\nurl =\n", "[replicator]\nmax_jobs =\n"} {
		if _, err := load(t, text); err == nil {
			t.Errorf("%q: taken", text)
		}
	}
	c := Default()
	if err := c.Set("couchdb", "uuid", ""); err == nil {
		t.Error("a request may empty the uuid")
	}
}

// TestSkipped: keys of a section that both have are skipped one by one, and sections once.
func TestSkipped(t *testing.T) {
	c, err := load(t, "[couchdb]\nmax_dbs_open = 5\nuuid = u\nmax_dbs_open = 6\n[mem3]\na = 1\n[mem3]\n"+
		"[rexi]\na = x\n[nothing]\nx = y\n")
	want := []string{"[couchdb] max_dbs_open", "[mem3]", "[rexi]"}
	if err != nil || c.UUID != "u" || !slices.Equal(c.Skipped, want) ||
		!slices.Equal(c.Ignored, []string{"[nothing]"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestForeign: no key of couchrelay hides behind one of CouchDB, and requests cannot set what means nothing.
func TestForeign(t *testing.T) {
	c := Default()
	if err := c.Set("couchdb", "max_dbs_open", "5"); err == nil || err.Error() !=
		"[couchdb] max_dbs_open: concerns a database server, and means nothing to couchrelay" {
		t.Error(err)
	}
	err := c.Set("couchdb", "max_attachment_size", "infinity")
	if want := "[couchdb] max_attachment_size = infinity: must be at most 1099511627776, since an attachment must " +
		"have an end"; !errors.Is(err, ErrForeign) || err.Error() != want {
		t.Error(err)
	}
	for name, keys := range foreign {
		if slices.Contains(shared, name) || strings.Fields(keys) == nil {
			t.Errorf("[%s] %s", name, keys)
		}
	}
}

// TestNamesOfDrafts: the names of RFC 016 and of its drafts.
func TestNamesOfDrafts(t *testing.T) {
	c, err := load(t, "[replicator]\ninterval_sec = 15\nmax_acceptors = 2\naccept_jitter = 2000\n"+
		"min_backoff_penalty = 16\nmax_backoff_penalty = 3600\ncreate_replicator_db = false\n"+
		"stats_update_interval_sec = 10\n")
	if err != nil || c.Node.Interval != 15*time.Second || c.Node.MaxAcceptors != 2 ||
		c.Node.StartupJitter != 2*time.Second ||
		c.Replicator.Backoff.Min != 16*time.Second || c.Replicator.Backoff.Max != time.Hour || c.CreateReplicatorDB {
		t.Errorf("%+v, %v", c, err)
	}
	if !config.HoldsForAll("replicator", "interval_sec") {
		t.Error("interval_sec does not hold for all nodes, and interval does")
	}
}

func TestLevelsOfCouchDB(t *testing.T) {
	for name, want := range map[string]string{"notice": "info", "warn": "warning", "warning": "warning",
		"crit": "error", "emergency": "error", "err": "error", "debug": "debug"} {
		if c, err := load(t, "[log]\nlevel = "+name); err != nil || c.LogLevel != want {
			t.Errorf("%s is %s, %v", name, c.LogLevel, err)
		}
	}
}

// TestLongValues: a line that begins with one space goes on with a value, as in CouchDB.
func TestLongValues(t *testing.T) {
	c, err := load(t, "[admins]\nadm = a\n b ; c\n d\nother = x\n")
	if err != nil || c.Admins["adm"] != "a b d" || c.Admins["other"] != "x" {
		t.Errorf("%q, %v", c.Admins, err)
	}
	for _, text := range []string{"[admins]\n b\n", "[admins]\na = b\n  c\n", "[admins]\na = b\n\tc\n"} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), "neither [section] nor") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
