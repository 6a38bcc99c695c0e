package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/core/explain"
	"couchrelay/internal/handbook"
)

// TestHandbook: every command, flag and key of a configuration that the documents show is there.
func TestHandbook(t *testing.T) {
	t.Parallel()
	documents, err := handbook.Documents("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		for _, mistake := range mistakes(t, d) {
			t.Error(mistake)
		}
	}
}

// advised finds the commands of an alert's description.
var advised = regexp.MustCompile("(?:[Ss]ee|and) couchrelay ([a-z]+(?: '[*]'| --[a-z-]+ [a-z_]+| JOB)*)")

// TestAlerts: the commands that alerts advise are there.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../ops/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	n := 0
	for _, m := range advised.FindAllStringSubmatch(string(text), -1) {
		n++
		fmt.Fprintln(&code, "    couchrelay", m[1])
	}
	if n < 5 {
		t.Errorf("there are %d commands in %q", n, code.String())
	}
	d := handbook.Document{Path: "ops/alerts.yml", Text: code.String()}
	for _, mistake := range mistakes(t, d) {
		t.Error(mistake)
	}
}

// TestHandbookCanaries: TestHandbook finds mistakes.
func TestHandbookCanaries(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"    couchrelay jbos\n",
		"    couchrelay jobs --state crashing,failed\n",
		"    sudo -u couchrelay couchrelay serve \\\n      --stroe data\n",
		"    zstdcat a | bin/couchrelay restore - --into data\n",
		"See `couchrelay\nhold drop ID`.\n",
		"With `--no-such-flag` ...\n",
		"    [replicator]\n    max_job = 5\n",
		"    [replikator]\n    max_jobs = 5\n",
		"    [chttpd]\n    port = five\n",
		"    [chttpd\n    port = 5\n",
		"Text\n\n    [ssl]\n    port = 5 = 6\n",
		"    ; text\n    [couchdb]\n    max_dbs_open = 7\n",
		"The key `[chttpd] prot` says\n",
		"as does `[limits] max_headers = many`\n",
	} {
		if len(mistakes(t, handbook.Document{Path: "canary", Text: text})) == 0 {
			t.Errorf("no mistake is found in %q", text)
		}
	}
}

// TestErrorsOfJobs: the chapter for trouble has all errors of jobs, with their classes and what to do, in these rows.
func TestErrorsOfJobs(t *testing.T) {
	rows := map[string]string{}
	for _, name := range explain.Errors() {
		c, _ := explain.ClassOf(name)
		row := fmt.Sprintf("| %s | `%s` | %s |", c.Class, name, c.Advice)
		first, seen := rows[c.Class+c.Advice]
		if seen {
			row = strings.Replace(first, "` |", "`, `"+name+"` |", 1)
		}
		rows[c.Class+c.Advice] = row
	}
	const path = "../../docs/troubleshoot.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(slices.Sorted(maps.Values(rows)), "\n") + "\n"
	_, table, _ := strings.Cut(string(text), "| class | errors | do |\n|---|---|---|\n")
	had, rest, _ := strings.Cut(table, "\n\n")
	if had+"\n" == want {
		return
	}
	if !*update {
		t.Fatalf("the errors of jobs are stale; -update writes\n%s", want)
	}
	fresh := strings.TrimSuffix(string(text), had+"\n\n"+rest) + want + "\n" + rest
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}

// key is a key of the configuration in a text: [section] key, with or without a value.
var key = regexp.MustCompile(`^(\[[a-z_. ]+\]) ([a-z_]+)(?: = (.+))?$`)

// over finds lists of jobs in a state that no job has.
var over = regexp.MustCompile(`^jobs .*--state[ =]\S*(completed|failed)`)

// ofSimulator are documents in which a flag without a command is one of couchsim.
var ofSimulator = regexp.MustCompile(`^(scenarios/.*|docs/simulator.md|DESIGN.md)$`)

// mistakes returns what a document shows and couchrelay has not.
func mistakes(t *testing.T, d handbook.Document) (list []string) {
	program := newParser(&commands{}, func(int) {}).Model
	code := append(d.Blocks(), d.Spans()...)
	for _, c := range handbook.Commands("couchrelay", code) {
		if err := handbook.Check(program, c.Args); err != nil {
			list = append(list, fmt.Sprintf("%s: %v", c.At, err))
		}
		if over.MatchString(strings.Join(c.Args, " ")) {
			list = append(list, c.At+": jobs that are over are not in the list of jobs, but in that of documents")
		}
	}
	if !ofSimulator.MatchString(d.Path) {
		list = append(list, handbook.Flags(program, d.Spans())...)
	}
	for _, s := range d.Spans() {
		if m := key.FindStringSubmatch(s.Text); m != nil {
			c := handbook.Code{At: s.At, Text: m[1] + "\n" + m[2] + " = " + cmp.Or(m[3], "x")}
			list = append(list, wrongKeys(t, c, m[3] == "")...)
		}
	}
	for _, b := range d.Blocks() {
		if configuration.MatchString(b.Text) {
			list = append(list, wrongKeys(t, b, false)...)
		}
	}
	return list
}

// configuration finds blocks that are configurations: their first line which is no comment begins a section.
var configuration = regexp.MustCompile(`^(?:;.*\n)*\[[a-z]`)

// wrongKeys reads a configuration. Where there are only names of keys, values do not matter.
func wrongKeys(t *testing.T, c handbook.Code, names bool) []string {
	file := filepath.Join(t.TempDir(), "couchrelay.ini")
	if err := os.WriteFile(file, []byte(c.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := config.Read(file)
	if err != nil && (!names || strings.Contains(err.Error(), "no such key")) {
		return []string{fmt.Sprintf("%s: %v", c.At, err)}
	}
	if unknown := append(read.Skipped, read.Ignored...); len(unknown) > 0 {
		return []string{fmt.Sprintf("%s: means nothing to couchrelay: %v", c.At, unknown)}
	}
	return nil
}
