package capture

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/eventlog"
	"couchrelay/core/jobstore"
	"couchrelay/sim/workload"
)

// recorded returns the log of a release, in which a node runs jobs of every kind for 20 seconds.
func recorded(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "eventlog", "testdata", "0.1.0-dev.log.gz"))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// byID returns the jobs of a capture.
func byID(t *testing.T, c *Capture) map[string]workload.Job {
	t.Helper()
	if err := c.Workload.Check(); err != nil {
		t.Fatal(err)
	}
	jobs := map[string]workload.Job{}
	for _, j := range c.Workload.Jobs {
		jobs[j.ID] = j
	}
	return jobs
}

// TestLog: the jobs of a recorded log, with their times, kinds, sizes, crashes and removals.
func TestLog(t *testing.T) {
	c, err := Log(bytes.NewReader(recorded(t)), true)
	if err != nil {
		t.Fatal(err)
	}
	jobs := byID(t, c)
	once, live, none := jobs["_replicator/once"], jobs["_replicator/live"], jobs["_replicator/none"]
	submitted := once.Submit.Round(100 * time.Millisecond)
	if once.Continuous || once.Backlog != 6 || submitted != 1400*time.Millisecond || once.MTBF != 0 ||
		once.Startup <= 0 || once.Startup > time.Second || once.Remove != 0 {
		t.Errorf("once: %+v", once)
	}
	if !live.Continuous || live.Remove < 8*time.Second || live.Backlog != 6 {
		t.Errorf("live: %+v", live)
	}
	if !none.Continuous || none.MTBF != time.Second {
		t.Errorf("none, which crashes at once: %+v", none)
	}
	if len(jobs) != 8 || c.Workload.Accounts[1].Name != "user:" {
		t.Errorf("%d jobs of %+v", len(jobs), c.Workload.Accounts)
	}
	ini := c.INI()
	if !strings.HasPrefix(ini,
		"[replicator]\nmax_jobs = 500\nmax_churn = 20\ninterval = 1m\n") || strings.Contains(ini, "shares") {
		t.Errorf("settings: %s", ini)
	}
	if !slices.ContainsFunc(c.Notes, func(s string) bool {
		return strings.HasPrefix(s, "a log tells of the jobs") && strings.Contains(s, "pauses, holds")
	}) {
		t.Errorf("notes: %q", c.Notes)
	}
	half, err := Log(bytes.NewReader(recorded(t)[:60_000]), false)
	if err != nil || len(half.Workload.Jobs) == 0 || half.Workload.Jobs[0].ID != "j1" {
		t.Errorf("half of a log: %+v, %v", half, err)
	}
	if _, err := Log(strings.NewReader("hello\n"), false); !errors.Is(err, eventlog.ErrFormat) {
		t.Errorf("no log: %v", err)
	}
}

// TestWeightOfLog: a job has the weight with which its node got it.
func TestWeightOfLog(t *testing.T) {
	l := logReader{observed: &observed{}, jobs: map[string]*job{}}
	l.accepted(s, "x", &jobstore.Record{Database: "_replicator", DocID: "x", Control: jobstore.Control{Weight: 20}})
	c, err := l.capture(true)
	if err != nil {
		t.Fatal(err)
	}
	if j := byID(t, c)["_replicator/x"]; j.Weight != 20 {
		t.Errorf("%+v", j)
	}
}

// TestStartup: a run's start-up ends with the first changes that it reads, and is no part of the time by which its
// speed is measured. Of a run that had to wait for changes nothing is known.
func TestStartup(t *testing.T) {
	for _, c := range []struct {
		rows    int
		startup []time.Duration
		from    time.Duration
	}{{5, []time.Duration{3 * s}, 13 * s}, {0, nil, 10 * s}} {
		r := run{job: &job{looks: []look{{at: 10 * s, run: 1}}}, began: 10 * s}
		r.read(13*s, c.rows)
		r.read(15*s, 7)
		if !slices.Equal(r.startups, c.startup) || r.looks[0].at != c.from {
			t.Errorf("%d changes: start-up %v, measured from %s", c.rows, r.startups, r.looks[0].at)
		}
	}
}
