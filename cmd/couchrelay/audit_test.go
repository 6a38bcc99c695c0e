package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

// TestAuditFile: changes are in the file of [audit], which a reload opens anew, and which a request may name, but not
// wrongly. What only reads leaves no line.
func TestAuditFile(t *testing.T) {
	r := newRig(t)
	r.stop()
	path := filepath.Join(t.TempDir(), "audit.log")
	c := config.Default()
	c.AuditFile = path
	r.start(c)
	lines := func(path string) []string {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	r.want(201, "PUT", "_replicator/r", r.body(`,"continuous":true`))
	r.want(200, "GET", "_replicator/r", "")
	if got := lines(path); len(got) != 1 || !strings.Contains(got[0], `"doc":"r","status":201,"from":"127.0.0.1"`) {
		t.Errorf("%q", got)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	r.want(200, "POST", "_node/_local/_config/_reload", "")
	if old, fresh := lines(path+".1"), lines(path); len(old) != 1 || len(fresh) != 1 {
		t.Errorf("%q %q", old, fresh)
	}
	const key = "_node/_local/_config/audit/file"
	r.want(400, "PUT", key, `"/none/audit.log"`)
	r.want(200, "PUT", key, fmt.Sprintf("%q", path+".2"))
	if first, second := lines(path), lines(path+".2"); len(first) != 2 || len(second) != 1 ||
		!strings.Contains(second[0], `"section":"audit","key":"file","status":200`) {
		t.Errorf("%q %q", first, second)
	}
	if n := strings.Count(r.log.String(), "msg=audit "); n != 4 {
		t.Errorf("%d lines in the log", n)
	}
	r.stop()
	c.AuditFile = "/none/audit.log"
	db := r.open()
	defer db.Close()
	r.seal(&c)
	_, err := assemble(db, c, "test", nil, r.svc.logger)
	if err == nil || !strings.Contains(err.Error(), "[audit] file") {
		t.Errorf("started: %v", err)
	}
}

// TestTrustedProxies: a proxy that is trusted says from where a request comes, from the next request on.
func TestTrustedProxies(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ path, body, from string }{
		{"_replicator", "", "127.0.0.1"},
		{"_node/_local/_config/chttpd/trusted_proxies", `"127.0.0.0/8"`, "127.0.0.1"},
		{"a%2F_replicator", "", "198.51.100.7"},
	} {
		r.call("PUT", c.path, c.body, "X-Forwarded-For", "198.51.100.7")
		log := r.log.String()
		if last := log[strings.LastIndex(log, "msg=audit "):]; !strings.Contains(last, "from="+c.from+" ") {
			t.Errorf("%s: %s", c.path, last)
		}
	}
}
