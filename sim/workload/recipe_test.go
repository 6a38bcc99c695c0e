package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// recipe makes a recipe of lines "key = value".
func recipe(t *testing.T, lines ...string) *Recipe {
	t.Helper()
	r := &Recipe{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " = ")
		if err := r.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func build(t *testing.T, seed uint64, lines ...string) *Workload {
	t.Helper()
	w, err := recipe(t, lines...).Build(seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tally counts the jobs of each account.
func tally(w *Workload) []int {
	n := make([]int, len(w.Accounts))
	for _, j := range w.Jobs {
		n[j.Account]++
	}
	return n
}

func sharesOf(w *Workload) []int64 {
	var list []int64
	for _, a := range w.Accounts {
		list = append(list, a.Shares)
	}
	return list
}

// TestSteadyTenants: a recipe says exactly which accounts with which shares have how many jobs.
func TestSteadyTenants(t *testing.T) {
	w := build(t, 1, "accounts = 3", "shares = 200:100:50", "jobs = 2000:5000:3000")
	if got := tally(w); !slices.Equal(got, []int{2000, 5000, 3000}) {
		t.Errorf("jobs: %v", got)
	}
	if got := sharesOf(w); !slices.Equal(got, []int64{200, 100, 50}) {
		t.Errorf("shares: %v", got)
	}
	for _, j := range w.Jobs {
		if !j.Continuous || j.Submit != 0 || j.Remove != 0 || j.MTBF != 0 || j.Rate != 0.1 || j.Every != 0 {
			t.Fatalf("%+v", j)
		}
	}
	if w.Accounts[0].Name != "tenant1/_replicator" {
		t.Errorf("%+v", w.Accounts)
	}
	noisy := build(t, 1, "accounts = 11", "jobs = 9000:100")
	want := append([]int{9000}, slices.Repeat([]int{100}, 10)...)
	if got := tally(noisy); !slices.Equal(got, want) {
		t.Errorf("jobs: %v, want %v", got, want)
	}
	same := build(t, 1, "preset = steady")
	if !reflect.DeepEqual(same, w) {
		t.Error("the preset steady is another workload")
	}
}

// TestGroups: a setting of a group holds for that group alone, whatever the order of the settings.
func TestGroups(t *testing.T) {
	lines := []string{"groups = web, night", "jobs = 30", "night.oneshot = 1", "night.from = 6h", "night.jobs = 10",
		"speed = 20",
		"web.servers = 3", "night.outage_at = 1h"}
	w := build(t, 1, lines...)
	if names := w.Accounts[0].Name + " " + w.Accounts[1].Name; names != "web1/_replicator night1/_replicator" {
		t.Errorf("accounts %s", names)
	}
	for _, j := range w.Jobs {
		night := j.Account == 1
		if j.Continuous == night || (j.Submit == 6*time.Hour) != night || j.Speed != 20 || (j.Server == 3) != night {
			t.Fatalf("%+v", j)
		}
	}
	if got := tally(w); !slices.Equal(got, []int{30, 10}) {
		t.Errorf("jobs: %v", got)
	}
	if want := []Outage{{Server: 3, From: time.Hour, To: time.Hour + 10*time.Minute}}; !slices.Equal(w.Outages,
		want) {
		t.Errorf("outages: %v", w.Outages)
	}
	slices.Reverse(lines)
	if again := build(t, 1, lines...); !reflect.DeepEqual(again, w) {
		t.Error("the order of settings matters")
	}
}

// TestGroupsDiffer: groups with the same settings draw different numbers.
func TestGroupsDiffer(t *testing.T) {
	w := build(t, 1, "groups = a, b", "jobs = 20", "rate_law = lognormal")
	rates := map[float64]bool{}
	for _, j := range w.Jobs {
		rates[j.Rate] = true
	}
	if len(rates) != 40 {
		t.Errorf("40 jobs have %d rates", len(rates))
	}
}

// TestSet: the last value of a setting counts, and a copy of a recipe is independent of it.
func TestSet(t *testing.T) {
	r := *recipe(t, "jobs = 5", "speed = 7")
	copied := r
	if err := copied.Set("jobs", "9"); err != nil {
		t.Fatal(err)
	}
	if r.String() != "jobs = 5\nspeed = 7\n" || copied.String() != "jobs = 9\nspeed = 7\n" {
		t.Errorf("%q %q", r.String(), copied.String())
	}
}

// TestSetErrors: an error names the key, the value and what is accepted.
func TestSetErrors(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"jobz", "1", "[workload] jobz: no such key; known are preset, file, "},
		{"jobs", "-1",
			"[workload] jobs = -1: must be whole numbers from 0 to 10000000 with : between them, or one for all"},
		{"jobs", "5:", "[workload] jobs = 5:: must be whole numbers from 0"},
		{"shares", "0", "[workload] shares = 0: must be whole numbers from 1 to 1000"},
		{"shares", "1001", "[workload] shares = 1001: must be whole numbers from 1 to 1000"},
		{"web.shares", "x", "[workload] web.shares = x: must be whole numbers from 1 to 1000"},
		{"idle", "1.5", "[workload] idle = 1.5: must be a number from 0 to 1"},
		{"idle", "NaN", "[workload] idle = NaN: must be a number from 0 to 1"},
		{"rate", "Inf", "[workload] rate = Inf: must be a number from 0 to 1e+12"},
		{"speed", "0", "[workload] speed = 0: must be a number from 1e-06 to 1e+09"},
		{"over", "0", "[workload] over = 0: must be a whole number of seconds, at least 1, or a time such as 90s"},
		{"over", "100000h", "[workload] over = 100000h: must be a whole number of seconds"},
		{"arrival", "often", "[workload] arrival = often: must be one of once, even, poisson, batches"},
		{"rate_law", "zipf", "[workload] rate_law = zipf: must be one of fixed, exponential, lognormal, pareto"},
		{"preset", "calm", "[workload] preset = calm: must be one of 429-storm, bulk-load, "},
		{"file", "x.csv", "[workload] file = x.csv: must be a path that ends in .jsonl or .swf"},
		{"phase", "noon", "[workload] phase = noon: must be random, or a whole number of seconds"},
		{"groups", "a, a", "[workload] groups = a, a: must name each group once; a is there twice"},
		{"groups", "A", "[workload] groups = A: must be names with commas between them"},
		{"Web.jobs", "1", `[workload] Web.jobs: "Web" is no name of a group`},
		{"web.file", "x.swf", "[workload] web.file: groups have no file of their own; set file"},
		{"accounts", "1e9", "[workload] accounts = 1e9: must be a whole number from 1 to 1000000"},
	} {
		err := (&Recipe{}).Set(c.name, c.value)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s = %s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
}

// TestCheckOfRecipes: settings that do not agree are an error before anything is made.
func TestCheckOfRecipes(t *testing.T) {
	for _, c := range []struct{ lines, want string }{
		{"web.jobs = 5", "[workload] web.jobs: there is no group web"},
		{"groups = night;web.jobs = 5",
			"[workload] web.jobs: there is no group web; groups are set by the key groups (now: night)"},
		{"shares = 1:2", "[workload] shares: has 2 numbers, for 1 accounts"},
		{"groups = a;a.jobs = 1:2:3;accounts = 2", "[workload] a.jobs: has 3 numbers, for 2 accounts"},
		{"accounts = 2;jobs = 1:2;zipf = 1", "[workload] jobs: must be one number, the mean"},
		{"accounts = 1000000;jobs = 10000000",
			"[workload] jobs: the accounts have 10000000000000 jobs together; 10000000 are accepted"},
		{"groups = a, b;jobs = 6000000", "[workload] jobs: the accounts have 12000000 jobs together"},
		{"size_law = pareto;size_shape = 1", "[workload] size_shape: must be above 1"},
		{"rate_law = pareto;rate_shape = 0.5", "[workload] rate_shape: must be above 1"},
		{"every = 1m", "[workload] burst: must be no more than every, 1m"},
		{"phase = 1h", "[workload] phase: must be less than every, 1h"},
		{"outage_servers = 2", "[workload] outage_servers: must be no more than servers, 1"},
		{"outages = 2", "[workload] outage_every: must be at least outage_for, 10m"},
		{"outages = 100000;servers = 1000;outage_servers = 1000;outage_every = 1h",
			"[workload] outages: times outage_servers is 100000000"},
		{"file = x.swf;jobs = 5", "[workload] jobs: means nothing together with file"},
		{"gaps = true", "[workload] gaps: has a meaning only with file"},
	} {
		r := recipe(t, strings.Split(c.lines, ";")...)
		err := r.Check()
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.lines, err, c.want)
		}
		if w, built := r.Build(1); w != nil || built == nil || built.Error() != err.Error() {
			t.Errorf("%s: built: %v", c.lines, built)
		}
	}
}

// TestKeys: each key has a sentence, a range, and a default that it accepts; so can groups.
func TestKeys(t *testing.T) {
	for _, row := range Keys() {
		if row.Section != "workload" || !strings.HasSuffix(row.Says, ".") || row.Takes == "" {
			t.Errorf("%+v", row)
		}
		none := row.Key == "preset" || row.Key == "file" || row.Key == "groups"
		if none != (row.Default == "") {
			t.Errorf("%+v", row)
		}
		if !none {
			if err := (&Recipe{}).Set(row.Key, row.Default); err != nil {
				t.Error(err)
			}
		}
	}
	if n := len(Keys()); n < 40 {
		t.Errorf("%d keys", n)
	}
}

// TestPresets: each preset is a workload that is right, and has what its name says.
func TestPresets(t *testing.T) {
	for name := range presets {
		w := build(t, 1, "preset = "+name)
		if n := len(w.Jobs); n < 1000 || n > 20_000 {
			t.Errorf("%s has %d jobs", name, n)
		}
		if again := build(t, 1, "preset = "+name); !reflect.DeepEqual(again, w) {
			t.Errorf("%s is not the same twice", name)
		}
	}
	count := func(w *Workload, is func(*Job) bool) (n int) {
		for i := range w.Jobs {
			if is(&w.Jobs[i]) {
				n++
			}
		}
		return n
	}
	w := build(t, 1, "preset = db-per-user")
	if n := count(w, func(j *Job) bool { return j.Rate > 0 }); len(w.Jobs) != 10_000 || n != 100 {
		t.Errorf("db-per-user has %d active jobs of %d", n, len(w.Jobs))
	}
	w = build(t, 1, "preset = bulk-load")
	if n := count(w, func(j *Job) bool { return j.Submit == 6*time.Hour }); n != 5000 {
		t.Errorf("bulk-load has %d jobs at once", n)
	}
	w = build(t, 1, "preset = crash-storm")
	if n := count(w, func(j *Job) bool { return j.MTBF == time.Minute }); n != 1000 {
		t.Errorf("crash-storm has %d failing jobs", n)
	}
	w = build(t, 1, "preset = 429-storm")
	if n := count(w, func(j *Job) bool { return j.Server == w.Outages[0].Server }); n != 1000 {
		t.Errorf("429-storm has %d jobs at the server", n)
	}
	w = build(t, 1, "preset = mass-restart")
	gone := count(w, func(j *Job) bool { return j.Remove == 6*time.Hour })
	if n := count(w, func(j *Job) bool { return j.Submit == 6*time.Hour && j.Continuous }); n != 3000 || gone != n {
		t.Errorf("mass-restart removes %d jobs and makes %d", gone, n)
	}
	w = build(t, 1, "preset = poisson", "jobs = 7")
	if n := len(w.Jobs); n != 7 {
		t.Errorf("a setting beside a preset makes %d jobs", n)
	}
}

// TestGolden: a recipe and a seed mean the same workload in every release. Who changes what is drawn changes
// all results that were published.
func TestGolden(t *testing.T) {
	for name, want := range map[string]string{
		"steady": "91be0b476619", "zipf": "f46b861f8887", "bursty": "895a9de70385", "heavy-tailed": "e851a3edd437",
		"diurnal": "56bd4e845762", "mixed": "ec66beb41cd1",
	} {
		var out bytes.Buffer
		if err := build(t, 7, "preset = "+name).WriteTrace(&out); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(out.Bytes())
		if got := hex.EncodeToString(sum[:6]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestPairedWorkloads: under one seed two recipes that differ in one setting differ in nothing else.
func TestPairedWorkloads(t *testing.T) {
	base := []string{"jobs = 500", "arrival = poisson", "rate_law = lognormal", "size_law = exponential",
		"oneshot = 0.3", "servers = 5", "idle = 0.2"}
	byID := func(lines ...string) map[string]Job {
		jobs := map[string]Job{}
		for _, j := range build(t, 3, lines...).Jobs {
			jobs[j.ID] = j
		}
		return jobs
	}
	a := byID(base...)
	for _, c := range []struct {
		line   string
		ignore func(*Job)
	}{
		{"rate = 5", func(j *Job) { j.Rate = 0 }},
		{"rate_law = pareto", func(j *Job) { j.Rate = 0 }},
		{"size = 17", func(j *Job) { j.Backlog = 0 }},
		{"servers = 2", func(j *Job) { j.Server = 0 }},
		{"lifetime = 1h", func(j *Job) { j.Remove = 0 }},
		{"bursty = 0.5", func(j *Job) { j.Every, j.Burst, j.Phase = 0, 0, 0 }},
		{"failing = 0.5", func(j *Job) { j.MTBF = 0 }},
		{"weight = 300", func(j *Job) { j.Weight = 0 }},
		{"arrival = even", func(j *Job) { j.Submit = 0 }},
	} {
		b := byID(append(slices.Clone(base), c.line)...)
		differ := 0
		for id, x := range a {
			y := b[id]
			if x != y {
				differ++
			}
			c.ignore(&x)
			c.ignore(&y)
			if x != y {
				t.Fatalf("%s: %+v and %+v", c.line, x, y)
			}
		}
		if differ == 0 {
			t.Errorf("%s changes nothing", c.line)
		}
	}
	for id, j := range byID(append(slices.Clone(base), "idle = 0.6")...) {
		if j.Rate > 0 && a[id].Rate == 0 {
			t.Fatalf("job %s is idle of 20 %%, and not of 60 %%", id)
		}
	}
}
