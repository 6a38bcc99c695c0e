package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/workload"
)

// TestImportCommand: a server becomes a file that can be read, and its settings another.
func TestImportCommand(t *testing.T) {
	answers := map[string]string{
		"/":              `{"couchdb":"Welcome"}`,
		"/_active_tasks": `[]`,
		"/_scheduler/jobs": `{"total_rows":1,"offset":0,"jobs":[{
			"database":"x/_replicator","id":"a+continuous","pid":null,
			"source":"http://h/a/","target":"http://h/b/","user":null,"doc_id":"d","info":null,"history":[],
			"node":"n","start_time":"2026-01-31T12:00:00Z"}]}`,
		"/_node/_local/_config/replicator": `{"max_jobs":"33"}`,
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, is := answers[r.URL.Path]
		if !is {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, answer)
	}))
	defer site.Close()
	dir := t.TempDir()
	c := importCommand{From: site.URL, Out: filepath.Join(dir, "o.jsonl"), Settings: filepath.Join(dir, "o.ini")}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	w, err := workload.ReadFile(c.Out, false)
	if err != nil || len(w.Jobs) != 1 || w.Jobs[0].ID != "j1" || w.Accounts[0].Name != "a1/_replicator" {
		t.Errorf("%+v %v", w, err)
	}
	if ini, err := os.ReadFile(c.Settings); err != nil || string(ini) != "[replicator]\nmax_jobs = 33\n" {
		t.Errorf("%s %v", ini, err)
	}
}

// TestImportErrors: what cannot be imported is an error that says what can.
func TestImportErrors(t *testing.T) {
	noLog := filepath.Join(t.TempDir(), "x.log")
	if err := os.WriteFile(noLog, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command importCommand
		want    string
	}{
		{importCommand{From: "http://h", Out: "x"}, "--out x: must end in .jsonl or .swf"},
		{importCommand{From: "couch:5984", Out: "x.swf"},
			"couch:5984 is neither the address of a server (http://HOST:PORT) nor"},
		{importCommand{From: noLog, Out: "x.swf", Watch: time.Second}, "--watch is for a server"},
		{importCommand{From: "http://h", Out: "x.swf", Watch: -time.Second}, "--watch -1s: must not be negative"},
		{importCommand{From: "http://h", Out: "none/x.swf"}, "--out: open none/x.swf: no such file or directory"},
		{importCommand{From: "http://h", Out: filepath.Join(t.TempDir(), "x.swf"), Settings: "none/x.ini"},
			"--settings: open none/x.ini: no such file or directory; it takes a file that can be written"},
		{importCommand{From: noLog, Out: "x.swf"},
			noLog + ": not a readable event log: line 1 does not begin with a checksum"},
		{importCommand{From: "http://", Out: "x.swf"}, "the address of a server must be"},
	} {
		if err := c.command.Run(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.command, err, c.want)
		}
	}
}
