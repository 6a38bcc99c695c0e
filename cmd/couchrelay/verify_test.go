package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/explain"
	"couchrelay/core/spec"
)

// verifyWith runs verify, and returns what it prints.
func verifyWith(flags ...string) (string, error) {
	var c commands
	if _, err := newParser(&c, func(int) {}).Parse(append([]string{"verify"}, flags...)); err != nil {
		return "", err
	}
	var out strings.Builder
	err := c.Verify.Run(&window{&out, 0})
	return out.String(), err
}

// TestVerify compares two databases from the terminal, repairs the copy, and compares again.
func TestVerify(t *testing.T) {
	t.Parallel()
	r := &rig{t: t}
	b := r.sandbox()
	for _, db := range []string{"orders", "copy"} {
		if err := request("PUT", b.url+db, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	var documents []object
	for n := range 600 {
		documents = append(documents, object{"_id": fmt.Sprintf("order-%03d", n), "_rev": "1-abc", "n": n})
	}
	extra := []object{{"_id": "more\x1b[2J", "_rev": "1-abc"}}
	err := errors.Join(writeAll(b.url+"orders", documents, false), writeAll(b.url+"copy", documents[:597], false),
		writeAll(b.url+"copy", extra, false))
	if err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(t.TempDir(), "replication.json")
	text := fmt.Sprintf(`{"_id": "x", "_replication_state": "completed", "doc_ids": ["order-598"],
		"source": %q, "target": {"url": %q}}`, b.url+"orders", b.url+"copy")
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	both := []string{b.url + "orders", b.url + "copy"}
	lines := func(kind string) (text string) {
		for n := 597; n < 600; n++ {
			text += fmt.Sprintf("%-16s order-%d  1-abc\n", kind, n)
		}
		return text
	}
	const more = "only_on_target   more\ufffd[2J  1-abc\n"
	sum := func(source, target int, differences string) string {
		return fmt.Sprintf("%d documents read at the source, %d at the target, %s\n", source, target, differences)
	}
	one := func(source int, differences string) string {
		return fmt.Sprintf("%s read at the source and looked for at the target, %s\n",
			explain.Count(source, "document"), differences)
	}
	for _, c := range []struct {
		flags  []string
		out    string
		status int
		err    string
	}{
		{both, lines("missing") + more + sum(600, 598, "3 missing, 1 only_on_target"), differs, "differences"},
		{append(both, "--one-way"), lines("missing") + one(600, "3 missing"), differs, "differences"},
		{
			append(both, "--json", "--doc-ids", "order-599"),
			`{"kind":"missing","id":"order-599","revs":["1-abc"]}` + "\n" +
				`{"source":1,"target":0,"differences":{"missing":1}}` + "\n",
			differs, "differences",
		},
		{
			[]string{"--replication", document},
			"missing          order-598  1-abc\n" + one(1, "1 missing"), differs, "differences",
		},
		{append(both, "--repair", "--one-way"), lines("repaired") + one(600, "3 repaired"), 0, ""},
		{append(both, "--one-way"), one(600, "no difference"), 0, ""},
		{both[:1], "", badUsage, "give SOURCE and TARGET"},
		{append(both, "--replication", document), "", badUsage, "give SOURCE and TARGET"},
		{append(both, "--selector", "{"), "", badUsage, "--selector is not JSON"},
		{[]string{both[0], b.url + "gone"}, "", failed, "db_not_found"},
		{[]string{both[0], "copy"}, "", badUsage, "target"},
	} {
		out, err := verifyWith(c.flags...)
		if out != c.out || exitStatus(err) != c.status || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q prints\n%sand ends with %d, %v", c.flags, out, exitStatus(err), err)
		}
	}
}

// TestVerifyNotCompared: a firewall refuses questions about one document. The command prints that document with the
// error, compares the others, and ends with the exit status of a comparison that is not complete.
func TestVerifyNotCompared(t *testing.T) {
	t.Parallel()
	r := &rig{t: t}
	b := r.sandbox()
	documents := []object{{"_id": "attack", "_rev": "1-abc"}, {"_id": "order", "_rev": "1-abc"}}
	err := errors.Join(request("PUT", b.url+"orders", nil, nil), request("PUT", b.url+"copy", nil, nil),
		writeAll(b.url+"orders", documents, false))
	if err != nil {
		t.Fatal(err)
	}
	behind, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	firewall := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if bytes.Contains(body, []byte("attack")) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(firewall.Close)
	out, err := verifyWith(b.url+"orders", firewall.URL+"/copy")
	want := fmt.Sprintf("not_compared     attack  1-abc  forbidden: POST %s/copy/_revs_diff: 403\n"+
		"missing          order  1-abc\n"+
		"2 documents read at the source, 0 at the target, 1 missing, 1 not_compared\n", firewall.URL)
	if out != want || exitStatus(err) != failed || !strings.Contains(fmt.Sprint(err), "not complete") {
		t.Errorf("verify prints\n%sand ends with %d, %v", out, exitStatus(err), err)
	}
}

// TestDocIDsAsTyped: ids of documents are what was typed, though requests to a service have them percent-encoded.
func TestDocIDsAsTyped(t *testing.T) {
	var line commands
	flags := []string{"verify", "http://s/a", "http://t/a", "--doc-ids", `a+b,100%25,c d/é`}
	if _, err := newParser(&line, func(int) {}).Parse(flags); err != nil {
		t.Fatal(err)
	}
	rep, err := line.Verify.parse()
	if ids := rep.Filter.DocIDs; err != nil || !slices.Equal(ids, []string{"100%25", "a+b", "c d/é"}) {
		t.Errorf("%q, %v", ids, err)
	}
}

// TestVerifyAsTheDocumentSays: how servers are talked to is said by the document, unless a flag says it.
func TestVerifyAsTheDocumentSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "document.json")
	document := `{"source": "http://s/a", "target": "http://t/a",
		"connection_timeout": 90000, "retries_per_request": 0, "http_connections": 3}`
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  spec.Endpoint
	}{
		{[]string{"--replication", file}, spec.Endpoint{Timeout: 90 * time.Second, Connections: 3}},
		{[]string{"--replication", file, "--retries", "7", "--timeout", "4s", "--connections", "9"},
			spec.Endpoint{Timeout: 4 * time.Second, Retries: 7, Connections: 9}},
		{[]string{"http://s/a", "http://t/a"},
			spec.Endpoint{Timeout: 30 * time.Second, Retries: 5, Connections: 20}},
	} {
		var line commands
		if _, err := newParser(&line, func(int) {}).Parse(append([]string{"verify"}, c.flags...)); err != nil {
			t.Fatal(err)
		}
		rep, err := line.Verify.parse()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []spec.Endpoint{rep.Source, rep.Target} {
			if e.Timeout != c.want.Timeout || e.Retries != c.want.Retries || e.Connections != c.want.Connections {
				t.Errorf("%q: %v, %d retries, %d connections", c.flags, e.Timeout, e.Retries, e.Connections)
			}
		}
	}
}
