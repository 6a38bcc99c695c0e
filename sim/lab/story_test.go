package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/schedule"
	"couchrelay/sim/workload"
)

// story observes a lab and writes down what happens, an event a line.
type story struct {
	w     *workload.Workload
	lines []string
}

var whats = []string{"submitted", "ready", "started", "ended", "removed", "node up", "node down", "shares"}

var whys = []string{"gave way", "killed", "completed", "crashed", "vanished", "taken"}

func (s *story) Observe(e Event) {
	line := fmt.Sprint(e.At, " ", whats[e.What])
	if e.Job >= 0 {
		line += " " + s.w.Jobs[e.Job].ID
	}
	if e.Node >= 0 {
		line += fmt.Sprint(" n", e.Node)
	}
	switch e.What {
	case Started:
		if e.Delay > 0 {
			line += fmt.Sprint(" after ", e.Delay)
		}
	case Ended:
		line += fmt.Sprintf(" %s, %.6g", whys[e.Why], e.Copied)
	case NodeUp:
		line += fmt.Sprint(" ", e.Slots)
	case SharesSet:
		line += fmt.Sprintf(" a%d %d", e.Account, e.Shares)
	}
	s.lines = append(s.lines, line)
}

type job = workload.Job

// hand is an hour of one node with one slot and jobs of one account, without latency. Jobs copy 10 changes a
// second.
func hand(jobs ...job) Config {
	w := &workload.Workload{Accounts: []workload.Account{{Name: "_replicator", Shares: 100}}, Jobs: jobs}
	for i := range jobs {
		jobs[i].ID, jobs[i].Speed = string(rune('a'+i)), 10
	}
	c := Config{
		Settings: config.Default(), Workload: w, Nodes: 1, Duration: time.Hour,
		Checkpoint: 30 * time.Second, StopTime: time.Second,
	}
	c.Settings.Replicator.Sharing.Policy = schedule.FIFO
	n := &c.Settings.Node
	n.MaxJobs, n.MaxChurn, n.StartupJitter = 1, 1, 0
	return c
}

func away(server int, from, to time.Duration) []workload.Outage {
	return []workload.Outage{{Server: server, From: from, To: to}}
}

// play returns what happens, which must be the same with the model of the queue and with production's.
func play(t *testing.T, c Config) []string {
	t.Helper()
	var stories [2]story
	for i := range stories {
		stories[i].w = c.Workload
		c.Exact = i > 0
		if err := Run(context.Background(), c, &stories[i]); err != nil {
			t.Fatal(err)
		}
	}
	if x, y := stories[0].lines, stories[1].lines; !slices.Equal(x, y) {
		t.Errorf("with the model:\n%s\nwith production's queue:\n%s", strings.Join(x, "\n"), strings.Join(y, "\n"))
	}
	return stories[0].lines
}

const (
	sec = time.Second
	m   = time.Minute
)
