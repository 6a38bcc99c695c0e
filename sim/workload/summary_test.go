package workload

import (
	"strings"
	"testing"
	"time"
)

// TestSummary: a small workload, counted by hand.
func TestSummary(t *testing.T) {
	w := &Workload{
		Accounts: []Account{{"_replicator", 1}},
		Jobs: []Job{
			{ID: "a", Continuous: true, Submit: time.Second, Speed: 10, Rate: 5},
			{ID: "b", Continuous: true, Submit: time.Second, Speed: 10, Rate: 2.5, Every: 9e9, Burst: 1e9,
				Remove: 7 * time.Second},
			{ID: "c", Continuous: true, Submit: 7 * time.Second, Speed: 1, MTBF: 1e9, Backlog: 5},
			{ID: "d", Submit: 8 * time.Second, Startup: time.Second, Speed: 2, Backlog: 4, Server: 3},
			{ID: "e", Submit: 11 * time.Second, Speed: 1, Backlog: 100, Remove: 12 * time.Second},
			{ID: "f", Submit: 12 * time.Second, Speed: 1, Backlog: 100, Remove: 2 * time.Hour},
		},
		Outages: []Outage{{3, 0, 1}},
	}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	s := w.Summary()
	want := Summary{
		Accounts: 1, Jobs: 6, Continuous: 3, OneShots: 3, Idle: 1, Bursty: 1, Failing: 1, Removed: 3, Outages: 1,
		Servers: 2,
		First:   time.Second, Last: 12 * time.Second, Most: 3, Slots: 0.75, Work: 207 * time.Second,
	}
	if s != want {
		t.Errorf("%+v\nwant %+v", s, want)
	}
	const text = `accounts  1
jobs      6: 3 continuous, 3 one-shots
          1 continuous without changes
          1 with changes in bursts
          1 crash again and again
          3 are removed
come      from 1s to 12s; 3 at a time at most
demand    0.75 slots to copy what changes, and 3m27s of one slot for backlogs
events    0 changes of shares, 1 outages; jobs need 2 servers
`
	if got := s.String(); got != text {
		t.Errorf("%s", got)
	}
}

// TestDemand: jobs that come when others have gone do not add to what is needed at a time, and a sum is not rounded up
// for what its terms were off by.
func TestDemand(t *testing.T) {
	for _, c := range []struct {
		settings [][2]string
		want     string
	}{
		{[][2]string{{"jobs", "100"}}, "demand    0.2 slots"},
		{[][2]string{{"preset", "mass-restart"}}, "demand    6 slots"},
		{[][2]string{{"jobs", "3"}, {"speed", "3000"}}, "demand    0.001 slots"},
		{[][2]string{{"jobs", "3"}, {"rate", "0"}}, "demand    0 slots"},
	} {
		var r Recipe
		for _, s := range c.settings {
			if err := r.Set(s[0], s[1]); err != nil {
				t.Fatal(err)
			}
		}
		w, err := r.Build(1)
		if err != nil {
			t.Fatal(err)
		}
		if text := w.Summary().String(); !strings.Contains(text, c.want+" to copy") {
			t.Errorf("%v: want %s:\n%s", c.settings, c.want, text)
		}
	}
}
