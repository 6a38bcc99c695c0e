package main

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"couchrelay/adapters/config"
)

const configURL = "_node/_local/_config/"

// setting asks for a key of the configuration, or changes it, and returns the status and the text of the answer.
func (r *rig) setting(method, name, body string, header ...string) (int, string) {
	r.t.Helper()
	status, answer := r.call(method, configURL+name, body, header...)
	if reason, is := answer["reason"].(string); is {
		return status, reason
	}
	text, _ := answer["text"].(string)
	return status, strings.TrimSpace(text)
}

// wrong are values that no key takes, but those that take any text or any list of words.
var wrong = []string{"", "\n", "a\nb = c", "x ;y", strings.Repeat("x", 9000), "\x00"}

// TestEveryKey: each key is told, takes the value that it has, refuses wrong ones with its name and changes nothing
// then, and goes back to what the file says.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	values, before := config.Default(), r.want(200, "GET", configURL[:len(configURL)-1], "")
	for _, row := range values.Rows() {
		name := row.Section + "/" + row.Key
		status, value := r.setting("GET", name, "")
		told := before[row.Section] != nil && before[row.Section].(object)[row.Key] != nil
		named := row.Section == "replicator.shares" || row.Section == "tls NAME" || row.Section == "follow name"
		if told != (status == 200) || !told && status != 404 || !told && row.Default != "" && !named {
			t.Errorf("%s: %d %s", name, status, value)
		}
		for _, v := range wrong {
			if row.Section == "admins" {
				break // a password can be anything
			}
			body := fmt.Sprintf(`%q`, v)
			if v == "\x00" {
				body = `"\u0000"`
			}
			if (v == "\n" || v == "") && strings.HasPrefix(row.Key, "valid_") {
				continue // an empty list
			}
			status, reason := r.setting("PUT", name, body)
			if status != 400 || !strings.Contains(reason, "["+row.Section+"] ") ||
				!strings.Contains(reason, row.Key) {
				t.Errorf("%s = %.20q: %d %.200s", name, v, status, reason)
			}
		}
		if told {
			if status, old := r.setting("PUT", name, value); status != 200 || old != value {
				t.Errorf("%s = %s: %d %s, was %s", name, value, status, old, value)
			}
			if status, old := r.setting("DELETE", name, ""); status != 200 || old != value {
				t.Errorf("DELETE %s: %d %s, was %s", name, status, old, value)
			}
		}
		if now := r.want(200, "GET", configURL[:len(configURL)-1], ""); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("%s: %v became %v", name, before, now)
		}
	}
	if status, reason := r.setting("PUT", "fabric/x", `"1"`); status != 400 ||
		!strings.Contains(reason, "no such section") {
		t.Errorf("%d %s", status, reason)
	}
	for _, name := range []string{"fabric/x", "log/x", "replicator.shares/user:a", "admins/a"} {
		if status, reason := r.setting("DELETE", name, ""); status != 404 || reason != "unknown_config_value" {
			t.Errorf("%s: %d %s", name, status, reason)
		}
	}
}

// TestChangesTakeEffect: live keys act at once, keys of the fleet are in the store, all others ask for a restart.
func TestChangesTakeEffect(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"replicator/max_jobs", "replicator/use_bulk_get", "replicator/scheduling_policy"} {
		value := map[string]string{"replicator/use_bulk_get": `"false"`, "replicator/scheduling_policy": `"tags"`}[name]
		if value == "" {
			value = `"3"`
		}
		q, err := http.NewRequestWithContext(t.Context(), "PUT", r.url+configURL+name, strings.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		want := ""
		if name == "replicator/use_bulk_get" {
			want = "required"
		}
		if got := answer.Header.Get("X-Couchrelay-Restart"); answer.StatusCode != 200 || got != want {
			t.Errorf("%s: %d %q", name, answer.StatusCode, got)
		}
	}
	r.await("the node to go by it", func() bool {
		nodes := r.want(200, "GET", "_scheduler/nodes", "")["nodes"].([]any)
		return nodes[0].(object)["max_jobs"] == 3.0
	})
	t.Cleanup(func() { logLevel.Set(slog.LevelInfo) })
	r.want(200, "PUT", configURL+"log/level", `"error"`)
	if logLevel.Level() != slog.LevelError {
		t.Errorf("logs at %s", logLevel.Level())
	}
	for _, line := range []string{"key=max_jobs value=3 was=500 effect=live persist=true",
		"key=use_bulk_get value=false was=true effect=restart", "value=tags was=fairshare effect=fleet"} {
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("%s is not in %s", line, r.log)
		}
	}
	want := config.Local{{Section: "log", Key: "level"}: "error", {Section: "replicator", Key: "max_jobs"}: "3",
		{Section: "replicator", Key: "scheduling_policy"}: "tags",
		{Section: "replicator", Key: "use_bulk_get"}:      "false"}
	if kept, err := config.ReadLocal(r.svc.layers.path); err != nil || !maps.Equal(kept, want) {
		t.Errorf("kept are %v, %v", kept, err)
	}
}

// TestAdminsChange: an admin has rights as soon as it is set, its password is stored and shown nowhere, and the last
// one stays.
func TestAdminsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	basic := func(name, password string) []string {
		q := http.Request{Header: http.Header{}}
		q.SetBasicAuth(name, password)
		return []string{"Authorization", q.Header.Get("Authorization")}
	}
	if status, old := r.setting("PUT", "admins/adm", `"5ecret ;\n"`); status != 200 || old != `""` {
		t.Fatalf("%d %s", status, old)
	}
	adm := basic("adm", "5ecret ;\n")
	for password, want := range map[string]int{"5ecret ;\n": 200, "5ecret ;": 401, "": 401} {
		if status, text := r.setting("GET", "admins/adm", "", basic("adm", password)...); status != want ||
			want == 200 && text != `"*****"` {
			t.Errorf("%q: %d %s", password, status, text)
		}
	}
	if status, _ := r.setting("GET", "admins", ""); status != 401 {
		t.Errorf("without a password: %d", status)
	}
	if status, reason := r.setting("DELETE", "admins/adm", "", adm...); status != 400 ||
		!strings.Contains(reason, "the last admin cannot be removed") {
		t.Errorf("%d %s", status, reason)
	}
	for name, secret := range map[string]string{"a": `"*****"`, "b": `""`, "c": `"-pbkdf2-5ec4,salt,10"`,
		"d:e": `"x"`, "f%0Ag": `"x"`, ";h": `"x"`} {
		status, reason := r.setting("PUT", "admins/"+name, secret, adm...)
		if status != 400 || !strings.Contains(reason, "[admins]") || strings.Contains(reason, "5ec4") {
			t.Errorf("%s = %s: %d %s", name, secret, status, reason)
		}
	}
	const hash = "-pbkdf2-e248fb6b13365146f8ac6307cc2228127872da6d,salt,10" // of "secret"
	if status, old := r.setting("PUT", "admins/adm", `"`+hash+`"`, adm...); status != 200 || old != `"*****"` {
		t.Errorf("%d %s", status, old)
	}
	if status, _ := r.setting("GET", "log", "", adm...); status != 401 {
		t.Errorf("the old password: %d", status)
	}
	adm = basic("adm", "secret")
	if status, _ := r.setting("PUT", "admins/other", `"5ecret"`, adm...); status != 200 {
		t.Errorf("answered %d", status)
	}
	if status, old := r.setting("DELETE", "admins/adm", "", adm...); status != 200 || old != `"*****"` {
		t.Errorf("%d %s", status, old)
	}
	if status, _ := r.setting("GET", "log", "", adm...); status != 401 {
		t.Errorf("an admin that is gone: %d", status)
	}
	text, err := os.ReadFile(r.svc.layers.path)
	if err != nil || !strings.Contains(string(text), "other = -pbkdf2:sha256-") ||
		strings.Contains(string(text)+r.log.String(), "5ecret") || strings.Contains(r.log.String(), "pbkdf2") {
		t.Errorf("%s %s, %v", text, r.log, err)
	}
	if !strings.Contains(r.log.String(), "key=other value=***** was=\"\" effect=live persist=true by=adm") {
		t.Errorf("log %s", r.log)
	}
}

// TestExposureByTLS: a port with TLS that others could reach is not switched on without an admin: the service would not
// start any more.
func TestExposureByTLS(t *testing.T) {
	r := newRig(t)
	r.want(200, "PUT", configURL+"ssl/bind_address", `"0.0.0.0"`)
	status, reason := r.setting("PUT", "ssl", `{"enable":"true","cert_file":"/c","key_file":"/k"}`)
	if status != 400 || !strings.Contains(reason, "[ssl] bind_address = 0.0.0.0: is reachable") {
		t.Errorf("%d %s", status, reason)
	}
}

// TestPasswordsAreNotTrimmed: a password with a space at its end is not kept as another one.
func TestPasswordsAreNotTrimmed(t *testing.T) {
	r := newRig(t)
	for _, section := range []string{"replicator", "ssl", "tls%20a"} {
		status, reason := r.setting("PUT", section+"/password", `"5ecret "`)
		if status != 400 || !strings.Contains(reason, "password: must be") || strings.Contains(reason, "5ecret") {
			t.Errorf("[%s]: %d %s", section, status, reason)
		}
	}
}

// TestChangesAreNotLost: changes at once, and reloads between them, lose none.
func TestChangesAreNotLost(t *testing.T) {
	r := newRig(t)
	const each = 20
	var all sync.WaitGroup
	for _, task := range []func(int){
		func(i int) { r.setting("PUT", fmt.Sprint("replicator.shares/user:a", i), `"7"`) },
		func(i int) { r.setting("PUT", fmt.Sprint("replicator.shares/user:b", i), `"8"`) },
		func(i int) { r.setting("PUT", "replicator/max_jobs", fmt.Sprintf(`"%d"`, i)) },
		func(int) { r.call("POST", configURL+"_reload", "{}") },
	} {
		all.Go(func() {
			for i := range each {
				task(i)
			}
		})
	}
	all.Wait()
	kept, err := config.ReadLocal(r.svc.layers.path)
	if err != nil || len(kept) != 2*each+1 {
		t.Errorf("%d settings are kept: %v", len(kept), err)
	}
	if told := r.want(200, "GET", configURL+"replicator.shares", ""); len(told) != 2*each {
		t.Errorf("%d accounts: %v", len(told), told)
	}
	status, text := r.setting("GET", "replicator/max_jobs", "")
	if status != 200 || text != fmt.Sprintf(`"%d"`, each-1) {
		t.Errorf("%d %s", status, text)
	}
}

// TestPassingChanges: a change that is not kept wins over one that was, until another one comes, and is forgotten by
// a reload. Spaces around a value mean nothing, as in CouchDB.
func TestPassingChanges(t *testing.T) {
	r := newRig(t)
	for _, step := range []struct{ method, value, persist, now string }{
		{"PUT", `" 7 "`, "true", "7"}, {"PUT", `"8"`, "false", "8"}, {"DELETE", "", "false", "7"},
		{"PUT", `"8"`, "false", "8"}, {"PUT", `"9"`, "true", "9"}, {"PUT", `"8"`, "false", "8"},
		{"DELETE", "", "true", "500"}, {"PUT", `"7"`, "true", "7"}, {"PUT", `"8"`, "false", "8"},
		{"POST", "{}", "", "7"},
	} {
		name := "replicator/max_jobs"
		if step.method == "POST" {
			name = "_reload"
		}
		if status, text := r.setting(step.method, name, step.value, "X-Couch-Persist", step.persist); status != 200 {
			t.Errorf("%v: %d %s", step, status, text)
		}
		if status, text := r.setting("GET", "replicator/max_jobs", ""); text != strconv.Quote(step.now) {
			t.Errorf("%v: %d %s", step, status, text)
		}
	}
	for value, want := range map[string]int{`"true"`: 200, `"false"`: 400} { // which is kept, or never in force
		status, text := r.setting("PUT", "replicator/use_bulk_get", value, "X-Couch-Persist", "false")
		if status != want || want == 400 && !strings.Contains(text, "at the next start, which forgets it") {
			t.Errorf("%s: %d %s", value, status, text)
		}
	}
	if kept, err := config.ReadLocal(r.svc.layers.path); err != nil ||
		!maps.Equal(kept, config.Local{{Section: "replicator", Key: "max_jobs"}: "7"}) {
		t.Errorf("%v, %v", kept, err)
	}
}

// TestAdminsOfFiles: a request cannot remove an admin that a file names, and is told so.
func TestAdminsOfFiles(t *testing.T) {
	r := newRig(t)
	r.svc.layers.files.Admins["adm"] = "secret"
	q := http.Request{Header: http.Header{}}
	q.SetBasicAuth("adm", "secret")
	as := []string{"Authorization", q.Header.Get("Authorization")}
	r.want(200, "PUT", configURL+"log/level", `"info"`)
	if status, _ := r.setting("PUT", "admins/other", `"x"`, as...); status != 200 {
		t.Errorf("answered %d", status)
	}
	if status, reason := r.setting("DELETE", "admins/adm", "", as...); status != 400 ||
		!strings.Contains(reason, "[admins] adm: is in a file of --config; remove it there") {
		t.Errorf("%d %s", status, reason)
	}
}

// TestReloadKeepsAnAdmin: a reload that would leave the service open changes nothing.
func TestReloadKeepsAnAdmin(t *testing.T) {
	r := newRig(t)
	open := config.Default()
	for _, password := range []string{"secret", "another", ""} {
		files := open.Clone()
		if password != "" {
			files.Admins["adm"] = password
		}
		files.Node.MaxJobs = 3
		r.svc.read = func() (layers, error) { return layers{files: files}, nil }
		err := r.svc.ReloadConfig(t.Context())
		if (password == "") != (err != nil && strings.Contains(err.Error(), "the last admin")) {
			t.Errorf("%q: %v", password, err)
		}
	}
	q := http.Request{Header: http.Header{}}
	q.SetBasicAuth("adm", "another")
	status, text := r.setting("GET", "replicator/max_jobs", "", "Authorization", q.Header.Get("Authorization"))
	if status != 200 || text != `"3"` {
		t.Errorf("%d %s", status, text)
	}
}

// TestKeyFileChanges: a key file with which no later start could open the store is refused.
func TestKeyFileChanges(t *testing.T) {
	r := newRig(t)
	for file, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file", newKeyFile(t): "is missing",
	} {
		status, reason := r.setting("PUT", "secrets/key_file", strconv.Quote(file))
		if status != 400 || !strings.HasPrefix(reason, "[secrets] key_file: ") || !strings.Contains(reason, want) {
			t.Errorf("%d %s", status, reason)
		}
	}
	text, err := os.ReadFile(r.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.WriteFile(moved, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(200, "PUT", configURL+"secrets/key_file", strconv.Quote(moved))
}

// TestKeysThatChangeTogether: keys of which each alone would be refused can be set, and taken back, at once.
func TestKeysThatChangeTogether(t *testing.T) {
	r := newRig(t)
	if status, reason := r.setting("PUT", "replicator/min_backoff_penalty_sec", `"9999999"`); status != 400 ||
		!strings.Contains(reason, "is above max_backoff_penalty_sec") {
		t.Errorf("%d %s", status, reason)
	}
	both := `{"min_backoff_penalty_sec":"9999999","max_backoff_penalty_sec":"99999999"}`
	old := r.want(200, "PUT", configURL+"replicator", both)
	if len(old) != 2 || old["min_backoff_penalty_sec"] != "32s" {
		t.Errorf("%v", old)
	}
	r.want(400, "PUT", configURL+"replicator", `{"max_jobs":"7","max_churn":"x"}`)
	if status, text := r.setting("GET", "replicator/max_jobs", ""); text != `"500"` {
		t.Errorf("half a change: %d %s", status, text)
	}
	// And taken back at once.
	r.want(200, "PUT", configURL+"follow%20x", `{"url":"http://127.0.0.1:1","databases":"a"}`)
	r.want(400, "DELETE", configURL+"follow%20x/url", "")
	r.want(400, "DELETE", configURL+"follow%20x/databases", "")
	r.want(200, "PUT", configURL+"follow%20x", `{"url":null,"databases":null}`)
	if list := r.want(200, "GET", "_scheduler/follow", ""); list["total_rows"] != 0.0 {
		t.Errorf("followed: %v", list)
	}
	r.want(404, "PUT", configURL+"replicator", `{"max_jobs":"7","connect_to":null}`)
	// Two names of one setting.
	r.want(200, "PUT", configURL+"replicator/health_threshold_sec", `"7"`)
	if status, reason := r.setting("PUT", "replicator/health_threshold", `"8"`); status != 400 ||
		!strings.Contains(reason, "another name of this setting") {
		t.Errorf("%d %s", status, reason)
	}
}

// TestFleetKeys: a change on one node is in force on all, and changes on two nodes lose none.
func TestFleetKeys(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a", nil), f.join("b", nil)
	f.ask(a).want(200, "PUT", configURL+"replicator.shares/"+url.PathEscape("x/_replicator"), `"300"`)
	f.ask(b).want(200, "PUT", configURL+"replicator.shares/user:u", `"20"`)
	f.ask(a).want(200, "PUT", configURL+"replicator/interval", `"5000"`)
	f.ask(b).want(200, "PUT", configURL+"replicator/scheduling_policy", `"tags"`)
	for _, n := range []*fleetNode{a, b} {
		shares := f.ask(n).want(200, "GET", configURL+"replicator.shares", "")
		if !maps.Equal(shares, object{"x/_replicator": "300", "user:u": "20"}) {
			t.Errorf("shares %v", shares)
		}
		told := f.want(200, "GET", configURL+"replicator", "")
		if told["interval"] != "5s" || told["scheduling_policy"] != "tags" || told["max_jobs"] != "500" {
			t.Errorf("%v", told)
		}
	}
	f.ask(b).want(200, "DELETE", configURL+"replicator.shares/"+url.PathEscape("x/_replicator"), "")
	if shares := f.ask(a).want(200, "GET", configURL+"replicator.shares", ""); len(shares) != 1 {
		t.Errorf("shares %v", shares)
	}
}

// TestLayers: files, the local file, the environment and flags win in this order, and a request cannot set what they
// keep it from.
func TestLayers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "relay.ini")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "[replicator]\nmax_jobs = 7\nmax_churn = 8\ncert_file = /c\n[chttpd]\nport = 6000\n")
	s := &serveCommand{Config: []string{file}, Port: new(6001), Store: dir}
	local := filepath.Join(dir, "relay.local.ini")
	write(local, "[replicator]\nmax_jobs = 9\nkey_file = /k\n[chttpd]\nport = 6002\n[node_types]\nreplication = true\n")
	t.Setenv("COUCHDB_NODE_TYPE_REPLICATION", "false")
	l, err := s.load()
	if err != nil || l.path != local {
		t.Fatal(l.path, err)
	}
	c, err := l.config()
	if err != nil || c.Node.MaxJobs != 9 || c.Node.MaxChurn != 8 || c.Port != 6001 || c.TLS.KeyFile != "/k" ||
		c.Roles.String() != "api_frontend" {
		t.Errorf("%+v, %v", c, err)
	}
	r := newRig(t)
	r.svc.layers = l
	for _, name := range []string{"chttpd/port", "node_types/replication"} {
		value := map[string]string{"chttpd/port": `"7000"`}[name]
		if value == "" {
			value = `"true"`
		}
		if status, reason := r.setting("PUT", name, value); status != 400 ||
			!strings.Contains(reason, "the environment, a flag or") {
			t.Errorf("%s: %d %s", name, status, reason)
		}
	}
	write(local, "[replicator]\nmax_jobs = many\n")
	if l, err = s.load(); err == nil {
		_, err = l.config()
	}
	if err == nil || !strings.Contains(err.Error(), "[replicator] max_jobs = many") ||
		!strings.Contains(err.Error(), local) {
		t.Errorf("%v", err)
	}
	for want, s := range map[string]serveCommand{
		"x.ini": {LocalConfig: "x.ini", Config: []string{"a.ini"}}, "d/local.ini": {Store: "d"},
		"": {Store: "fdb:f"}, "etc/b.local.ini": {Config: []string{"a.ini", "etc/b.ini"}, Store: "d"},
		"a.d/b.local": {Config: []string{"a.d/b"}},
	} {
		if got := s.localConfig(); got != want {
			t.Errorf("%+v: %s, want %s", s, got, want)
		}
	}
}
