package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/forecast"
	"couchrelay/sim/workload"
)

func lintFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.ini")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLint: the report names the numbers, fits a page, and says in its result whether there is a warning.
func TestLint(t *testing.T) {
	shares := "[replicator.shares]\n_replicator = 200\nb/_replicator = 100\nuser:n = 50\n"
	for _, c := range []struct {
		text   string
		warned bool
		says   []string
	}{
		{"[replicator]\npriority_coeff = 0.98\n" + shares, true, []string{
			"10,000 jobs for 500 slots of 1 node (as given)", "200  2,000    57.1 %    61.9 %",
			"WARNING memory: priority_coeff = 0.98",
			"better: priority_coeff = auto: shares are off by up to 0.1 points",
		}},
		{shares, false, []string{"info memory: priority_coeff = auto"}},
	} {
		l := lintCommand{File: lintFile(t, c.text), demand: demand{Nodes: 1, Startup: 5 * time.Second,
			Account: map[string]int64{"_replicator": 2000, "b/_replicator": 5000, "user:n": 3000}}}
		var out bytes.Buffer
		warned, err := l.print(&out)
		if err != nil || warned != c.warned {
			t.Errorf("%v, %v\n%s", warned, err, &out)
		}
		for _, want := range c.says {
			if !strings.Contains(strings.ReplaceAll(out.String(), "\n  ", " "), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if len(line) > columns {
				t.Errorf("too wide: %s", line)
			}
		}
		l.JSON = true
		out.Reset()
		var v lintValues
		if _, err := l.print(&out); err != nil || json.Unmarshal(out.Bytes(), &v) != nil {
			t.Fatal(err, &out)
		}
		if v.Forecast.Slots != 500 || *v.Forecast.Turn != 475*52.5 || len(v.Accounts) != 3 ||
			v.Accounts[1].Jobs != 5000 ||
			v.Accounts[0].Entitled != 0.571428 || v.Findings[0].Name != "memory" ||
			(v.Findings[0].Severity == "warning") != c.warned || v.Accounts[0].Turns < 0.12 ||
			v.Accounts[0].Turns > 0.13 {
			t.Errorf("%+v", v)
		}
	}
}

// TestLintMistakes: errors name the file, the line or the flag, and what is accepted.
func TestLintMistakes(t *testing.T) {
	good := lintFile(t, "[replicator]\n")
	asked := func(d demand) lintCommand {
		d.Nodes = 1
		return lintCommand{File: good, demand: d}
	}
	bad := func(text string) lintCommand { return lintCommand{File: lintFile(t, text)} }
	for want, l := range map[string]lintCommand{
		"no such file": {File: good + "x"},
		"relay.ini: line 3: [replicator] max_chrn: no such key; the nearest is max_churn": bad(
			"[replicator]\n\nmax_chrn = 5"),
		"line 2: [replicator.shares] _replicator = 0: must be a whole number from 1 to 1000": bad(
			"[replicator.shares]\n_replicator = 0\n"),
		"line 1: neither [section] nor key = value":  bad("hello"),
		"--nodes 0: must be from 1 to 1000":          {File: good},
		"--jobs -1: must be from 1 to 1,000,000,000": asked(demand{Jobs: -1}),
		"--startup -1s: must not be negative":        asked(demand{Startup: -time.Second}),
		"--jobs, --account and --workload exclude":   asked(demand{Jobs: 1, Workload: "a.swf"}),
		"--account _replicator=0: must be from 1 to": asked(demand{Account: map[string]int64{"_replicator": 0}}),
		"--account: 1,000,000,001 jobs or more: must be up to 1,000,000,000 of all accounts together": asked(demand{
			Account: map[string]int64{"a/_replicator": 1, "_replicator": most}}),
		"--account orders: [replicator.shares] orders: must be the name of a replicator database": asked(
			demand{Account: map[string]int64{"orders": 1}}),
		"the name must end in .jsonl or .swf": asked(demand{Workload: "a.txt"}),
	} {
		if warned, err := l.print(&bytes.Buffer{}); err == nil || warned || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// TestDivided: jobs that were given as a number.
func TestDivided(t *testing.T) {
	for _, c := range []struct {
		jobs  int64
		names []string
		want  string
	}{
		{10, []string{"a", "b", "c"}, "[{a 3} {b 3} {c 4}]"},
		{1, []string{"a", "b"}, "[{b 1}]"},
		{1000, []string{"a"}, "[{_replicator 900} {other/_replicator 100}]"},
	} {
		if got, _ := divided(c.jobs, c.names); fmt.Sprint(got) != c.want {
			t.Errorf("%d among %v: %v, not %s", c.jobs, c.names, got, c.want)
		}
	}
}

// TestQueueOfWorkload: it is as large as it ever gets. Two one-shots that do not meet count once.
func TestQueueOfWorkload(t *testing.T) {
	w := &workload.Workload{
		Accounts: []workload.Account{
			{Name: "_replicator", Shares: 300}, {Name: "user:b", Shares: 20}, {Name: "user:c", Shares: 1},
		},
		Jobs: []workload.Job{
			{ID: "1", Account: 0, Continuous: true, Startup: 2 * time.Second, Speed: 1},
			{ID: "2", Account: 0, Continuous: true, Startup: 2 * time.Second, Speed: 1, Remove: time.Hour},
			{ID: "3", Account: 1, Backlog: 60, Speed: 1, Startup: 5 * time.Second},
			{ID: "4", Account: 1, Backlog: 60, Speed: 1, Startup: 5 * time.Second, Submit: 2 * time.Minute},
			{ID: "5", Account: 2, Continuous: true, Speed: 1, Submit: 2 * time.Hour},
		},
	}
	s := config.Default()
	s.Replicator.Sharing.Shares["user:b"] = 70
	q := queueOf(w, &s, forecast.Queue{Nodes: 1})
	if fmt.Sprint(q.Accounts) != "[{_replicator 2} {user:b 1}]" || q.OneShots != 1 || q.Startup != 3*time.Second {
		t.Errorf("%+v", q)
	}
	if fmt.Sprint(s.Replicator.Sharing.Shares) != "map[_replicator:300 user:b:70 user:c:1]" {
		t.Errorf("%v", s.Replicator.Sharing.Shares)
	}
	w.Jobs[2].Backlog, w.Jobs[2].Speed = 1e17, 1e-200 // as good as for ever
	if q := queueOf(w, &s, forecast.Queue{Nodes: 1}); q.OneShots != 2 {
		t.Errorf("%+v", q)
	}
}
