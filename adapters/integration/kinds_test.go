package integration

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"couchrelay/adapters/compare"
)

// everything makes one document of each kind; all of them must arrive intact.
//
// text is the content type of the attachments that a server may store compressed. CouchDB compresses
// text/plain, which gives them another digest than on a server that does not.
func everything(t *testing.T, db, text string) {
	t.Helper()
	var plain, history []object
	for n := range 120 {
		plain = append(plain, object{"_id": fmt.Sprintf("plain-%03d", n), "n": n,
			"nested": object{"a": []any{1, 2.5, nil, true, "x"}}})
	}
	for _, id := range []string{"ü/注文", "a b+c&d=e?f#g%h", "with/slash", "\"quoted\"", "☃𝄞", "(x);[y]'z!~*"} {
		plain = append(plain, object{"_id": id, "text": "\u2028 \u0000 ☃ 𝄞 \\ \" /"})
	}
	for n := range 12 {
		atts := object{"small.txt": object{"content_type": text, "data": bytes.Repeat([]byte("text "), n+1)}}
		if n%3 == 0 {
			atts["large ü \"; %22&#65;\n.bin"] = object{"content_type": "application/octet-stream",
				"data": bytes.Repeat([]byte{byte(n), 7}, 400_000)}
		}
		if n%4 == 0 {
			atts["empty"] = object{"content_type": "application/x-empty", "data": ""}
		}
		plain = append(plain, object{"_id": fmt.Sprint("attached-", n), "_attachments": atts})
	}
	plain = append(plain, object{"_id": "_design/d",
		"filters": object{"f": "function(doc, req) { return doc.n % 2 == 0; }"}},
		object{"_id": "big", "text": strings.Repeat("0123456789", 100_000)})
	write(t, db, true, plain...)
	id := func(n int, branch string) string { return fmt.Sprintf("%s%031d", branch, n) }
	for n := range 10 {
		history = append(history,
			object{"_id": fmt.Sprint("deleted-", n), "_rev": "2-" + id(n, "d"), "_deleted": true,
				"_revisions": object{"start": 2, "ids": []string{id(n, "d"), id(n, "0")}}})
		for _, branch := range []string{"a", "b", "c"} {
			doc := object{"_id": fmt.Sprint("conflict-", n), "_rev": "2-" + id(n, branch), "branch": branch,
				"_revisions": object{"start": 2, "ids": []string{id(n, branch), id(n, "0")}}}
			if n%2 == 0 {
				doc["_attachments"] = object{branch +
					".txt": object{"content_type": text, "data": []byte("branch " + branch)}}
			}
			if n%5 == 0 && branch == "c" {
				doc["_deleted"] = true
				delete(doc, "_attachments")
			}
			history = append(history, doc)
		}
	}
	for branch := range 200 { // so many leaves that their names do not fit into one request line
		history = append(history,
			object{"_id": "torn", "_rev": fmt.Sprintf("2-%032d", branch), "branch": branch,
				"_revisions":   object{"start": 2, "ids": []string{fmt.Sprintf("%032d", branch), id(0, "f")}},
				"_attachments": object{"a": object{"content_type": text, "data": []byte{byte(branch)}}}})
	}
	write(t, db, false, history...)
}

// replicate runs the terminal's command and returns what it prints and its exit status.
func replicate(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"replicate"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// servers returns the URLs of all servers to test with, by name.
func servers(t *testing.T) map[string]string {
	t.Helper()
	dir, port := t.TempDir(), freePort()
	serve(t, dir, "--sandbox", port)
	all := map[string]string{"couchrelay": "http://127.0.0.1:" + port + "/"}
	await(t, "the sandbox", func() bool {
		status,
			_ := call(t, "GET", all["couchrelay"], nil)
		return status == 200
	})
	if pouch[0] != "" {
		all["pouchdb"], all["pouchdb2"] = pouch[0], pouch[1]
	}
	if couch != "" {
		all["couchdb"] = couch
	}
	return all
}

// TestEverythingArrives replicates one of each kind of document between all pairs of servers, then a few
// edits of them, and compares.
func TestEverythingArrives(t *testing.T) {
	alongside(t)
	all := servers(t)
	pairs := [][2]string{{"couchrelay", "couchrelay"}}
	if pouch[0] != "" {
		pairs = append(pairs, [][2]string{{"pouchdb", "pouchdb2"}, {"pouchdb", "couchrelay"},
			{"couchrelay", "pouchdb"}}...)
	}
	if couch != "" {
		pairs = append(pairs, [][2]string{{"couchdb", "couchdb"}, {"couchdb", "couchrelay"},
			{"couchrelay", "couchdb"}}...)
	}
	if couch != "" && pouch[0] != "" {
		pairs = append(pairs, [][2]string{{"couchdb", "pouchdb"}, {"pouchdb", "couchdb"}}...)
	}
	for _, pair := range pairs {
		t.Run(pair[0]+"→"+pair[1], func(t *testing.T) {
			source, target := database(t, all[pair[0]]), database(t, all[pair[1]])
			text := "text/plain"
			if (pair[0] == "couchdb") != (pair[1] == "couchdb") && pair[1] != "couchrelay" {
				text = "application/x-incompressible"
			}
			everything(t, source, text)
			arrives := func() {
				t.Helper()
				if out, status := replicate(t, source, target); status != 0 {
					t.Fatalf("status %d: %s", status, out)
				}
				same, err := compare.Databases(t.Context(), source, target)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(same)
			}
			arrives()
			old := want(t, 200, "GET", source+"/attached-3", nil)
			old["edited"] = true
			old["_attachments"].(object)["new.txt"] = object{"content_type": text, "data": []byte("new")}
			write(t, source, true, old, object{"_id": "plain-new"})
			gone := want(t, 200, "GET", source+"/plain-001", nil)
			write(t, source, true, object{"_id": "plain-001", "_rev": gone["_rev"], "_deleted": true})
			arrives()
		})
	}
}
