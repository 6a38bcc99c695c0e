package capture

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const s = time.Second

// TestEstimates: each estimate is what its definition says, computed by hand.
func TestEstimates(t *testing.T) {
	// From 10 s to 70 s 300 changes are done and 60 fewer wait: 240 came in 60 s.
	j := &job{looks: []look{{at: 10 * s, run: 1, done: 1000, pending: 90},
		{at: 70 * s, run: 1, done: 1300, pending: 30}}}
	if r, paired := j.rate(); r != 4 || !paired {
		t.Errorf("rate %v", r)
	}
	if v := j.speed(); v != 5 {
		t.Errorf("speed %v", v)
	}
	if b := j.backlog(); b != 90 {
		t.Errorf("backlog %v", b)
	}
	// It waits in the second look: 500 of all its life of 900 s + 100 s.
	j = &job{age: 900 * s, looks: []look{{run: 1, done: 400, pending: 7}, {at: 100 * s, done: 500, pending: 7}}}
	if r, paired := j.rate(); r != 0.5 || paired {
		t.Errorf("rate by age %v", r)
	}
	if v := j.speed(); v != 0 {
		t.Errorf("speed of a job that stopped %v", v)
	}
	// 80 in 10 s while changes are left, then 10 in 50 s until there are none: it was idle.
	j = &job{looks: []look{{run: 1, pending: 90}, {at: 10 * s, run: 1, done: 80, pending: 10},
		{at: 60 * s, run: 1, done: 90}}}
	if v := j.speed(); v != 8 {
		t.Errorf("speed %v", v)
	}
	// Only the bound is there: 90 in 60 s.
	j.looks = slices.Delete(j.looks, 1, 2)
	if v := j.speed(); v != 1.5 {
		t.Errorf("bound of the speed %v", v)
	}
	// A run that completes has copied all its time; another run does not count with it.
	j = &job{looks: []look{{run: 1, pending: -1}, {at: 2 * s, run: 2, done: 5, pending: -1},
		{at: 12 * s, run: 2, done: 45, last: true}}, size: 45}
	if v := j.speed(); v != 4 {
		t.Errorf("speed of a completed run %v", v)
	}
	if b := j.backlog(); b != 45 {
		t.Errorf("size %v", b)
	}
	// A run that keeps up with what comes tells nothing of its speed, and neither do looks at two runs.
	j = &job{looks: []look{{run: 1, done: 1000, pending: 1}, {at: 20 * s, run: 1, done: 1148, pending: 1}}}
	if v := j.speed(); v != 0 {
		t.Errorf("speed of an idle run %v", v)
	}
	j = &job{looks: []look{{run: 1, pending: 90}, {at: 10 * s, run: 2, done: 80, pending: 10}}}
	if v := j.speed(); v != 0 {
		t.Errorf("speed across runs %v", v)
	}
	// While there is a backlog, 3,000 changes that are in flight are pending and done: only what came later counts.
	j = &job{looks: []look{{run: 1, pending: 23_000}, {at: 10 * s, run: 1, done: 20_000},
		{at: 60 * s, run: 1, done: 20_350}}}
	if r, paired := j.rate(); r != 7 || !paired {
		t.Errorf("rate behind a backlog %v", r)
	}
	// Of ten revisions the target had six; two documents it took, and one it refused.
	if n := done(10, 4, 2, 1); n != 9 {
		t.Errorf("%v changes are done", n)
	}
	// The first look with a number of pending changes: 20, and 15 were done since the look before.
	j = &job{looks: []look{{done: 100, pending: -1}, {at: s, done: 115, pending: 20}}}
	if b := j.backlog(); b != 35 {
		t.Errorf("backlog %v", b)
	}
	j = &job{ran: 90 * s, crashes: 3, startups: []time.Duration{9 * s, 1 * s, 3 * s}}
	if j.mtbf() != 30*s || j.startup() != 3*s || j.backlog() != -1 {
		t.Errorf("mtbf %s, startup %s, backlog %v", j.mtbf(), j.startup(), j.backlog())
	}
	if r, _ := j.rate(); r != 0 {
		t.Errorf("rate of nothing %v", r)
	}
}

// TestHistory: running time and crashes of a history, newest first.
func TestHistory(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration, what string) eventView { return eventView{now.Add(-ago), what} }
	ran, crashes := ranAndCrashed([]eventView{
		at(1*s, "started"), at(5*s, "crashed"), at(15*s, "started"), at(20*s, "stopped"), at(50*s, "started"),
		at(60*s, "crashed"), at(61*s, "added"), // the history begins behind a start
	}, now)
	if ran != (1+10+30)*s || crashes != 2 {
		t.Errorf("ran %s with %d crashes", ran, crashes)
	}
}

// TestTypical: a job that tells nothing is like the others.
func TestTypical(t *testing.T) {
	o := &observed{sizes: []float64{100, 300, 200}, jobs: []*job{
		{account: "_replicator", name: "x",
			looks: []look{{run: 1, pending: 5}, {at: s, run: 1, done: 7, pending: 5}}},
		{account: "_replicator", name: "y"},
		{account: "_replicator", name: "z", continuous: true},
	}}
	c, err := o.capture(true)
	if err != nil {
		t.Fatal(err)
	}
	jobs := byID(t, c)
	if y := jobs["y"]; y.Speed != 7 || y.Backlog != 200 || y.Startup != 2*s {
		t.Errorf("%+v", y)
	}
	if z := jobs["z"]; z.Backlog != 0 || z.Rate != 0 {
		t.Errorf("%+v", z)
	}
	notes := strings.Join(c.Notes, "\n")
	for _, want := range []string{"rates of 1 of 3 jobs", "speeds of 2 of 3 jobs are not known, and taken to be 7 ",
		"sizes of 1 one-shots are not known, and taken to be 200", "start-up times of 3 of 3 jobs"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not noted: %s", want, notes)
		}
	}
}

// TestNames: accounts get the same new name throughout a capture, settings included.
func TestNames(t *testing.T) {
	o := &observed{
		shares: map[string]string{"clinic/_replicator": "300", "_replicator": "7", "gone/_replicator": "5",
			"clinic": "1"},
		jobs: []*job{
			{account: "clinic/_replicator", name: "clinic/_replicator/secret", endpoint: "db.example:5984"},
			{account: "user:ann", name: "ann", endpoint: "db.example:5984"},
			{account: "_replicator", name: "d", endpoint: "other"},
			{account: "clinic/_replicator", name: "e", endpoint: "other"},
		},
		settings: map[string]string{"max_jobs": "70", "password": "hush", "key_file": "/k", "max_churn": "many",
			"endpoint_allow": "*.example", "endpoint_deny": "db.other", "connect_to": "db.example:1:10.0.0.1:2"},
	}
	c, err := o.capture(false)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := c.Workload.WriteTrace(&text); err != nil {
		t.Fatal(err)
	}
	all := text.String() + c.INI() + strings.Join(c.Notes, "\n")
	for _, secret := range []string{"clinic", "ann", "secret", "example", "other", "hush", "key_file", "gone"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is told: %s", secret, all)
		}
	}
	const ini = "[replicator]\nmax_jobs = 70\n[replicator.shares]\n" +
		"_replicator = 7\na1/_replicator = 300\na3/_replicator = 5\n"
	if c.INI() != ini {
		t.Errorf("settings: %s", c.INI())
	}
	if a := c.Workload.Accounts; a[0].Name != "a1/_replicator" || a[0].Shares != 300 || a[1].Name != "user:a2" ||
		a[2].Shares != 7 {
		t.Errorf("accounts: %+v", a)
	}
	if j := c.Workload.Jobs; j[0].Server != 0 || j[1].Server != 0 || j[2].Server != 1 || j[3].Account != 0 ||
		j[3].ID != "j4" {
		t.Errorf("jobs: %+v", j)
	}
	if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes, "max_churn = many: must be a whole number") {
		t.Errorf("notes: %s", notes)
	}
	if c, err = o.capture(true); err != nil || c.Workload.Jobs[0].ID != "clinic/_replicator/secret" ||
		c.Workload.Accounts[1].Name != "user:ann" || !strings.Contains(c.INI(), "clinic/_replicator = 300") {
		t.Errorf("kept: %+v %v", c, err)
	}
}
