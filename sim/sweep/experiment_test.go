package sweep

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/schedule"
	"couchrelay/sim/lab"
	"couchrelay/sim/scenario"
)

const whole = `# What it shows.
# In two lines.

# Not part of it.
nodes = 2
duration = 2d
warm-up = 6h
seeds = 3..5
latency = 2ms
stop-time = 1s
failures = n1 at 10h for 5m, n2 at 1d
exact = true
[replicator]
max_jobs = 7    # a comment
interval = 30000
checkpoint_interval = 10s
http_connections = 3
[replicator.shares]
_replicator = 300
[workload]
accounts = 2
jobs = 10:20
[sweep]
method = grid
max_churn = 1, 2
scheduling_policy = fairshare, fifo
replicator.shares/t1/_replicator = 50, 900
workload/oneshot = 0.1..0.3 3
`

func TestWholeFile(t *testing.T) {
	e, err := Parse("dir/x.ini", whole)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(e.About, []string{"What it shows.", "In two lines."}) || e.First != 3 || e.Last != 5 ||
		e.Seeds() != 3 ||
		!slices.Equal(e.Unused, []string{"http_connections"}) || e.Count() != 24 {
		t.Errorf("%+v", e)
	}
	points, err := e.points()
	if err != nil || len(points) != 24 {
		t.Fatal(len(points), err)
	}
	last := points[23]
	if got := last.String(); got != "max_churn=2, scheduling_policy=fifo, "+
		"replicator.shares/t1/_replicator=900, workload/oneshot=0.3" {
		t.Error(got)
	}
	s, err := e.Setup(last)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Lab()
	if s.Settings.Node.MaxJobs != 7 || s.Settings.Node.MaxChurn != 2 ||
		s.Settings.Replicator.Sharing.Policy != schedule.FIFO ||
		s.Settings.Replicator.Sharing.Shares["_replicator"] != 300 ||
		s.Settings.Replicator.Sharing.Shares["t1/_replicator"] != 900 ||
		s.Settings.Replicator.Sharing.Forgetting.Interval != 30*time.Second || s.WarmUp != 6*time.Hour ||
		c.Nodes != 2 || c.Duration != 48*time.Hour || c.Latency != 2*time.Millisecond ||
		c.StopTime != time.Second || !c.Exact ||
		c.Checkpoint != 10*time.Second || !slices.Equal(c.Failures, []lab.Failure{{Node: 0, At: 10 * time.Hour,
		For: 5 * time.Minute}, {Node: 1, At: 24 * time.Hour}}) {
		t.Errorf("%+v", s)
	}
	if got := s.Recipe.String(); got != "accounts = 2\njobs = 10:20\noneshot = 0.3\n" {
		t.Error(got)
	}
}

// A mistake is told with its line, what it is, and what would be right, before anything runs.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gap.jsonl"), []byte("{}\n{"), 0o644); err != nil {
		t.Fatal(err)
	}
	few := "[workload]\njobs = 5\n"
	for _, c := range [][2]string{
		{"# x\nnodes = 0",
			"2: nodes = 0: must be a whole number from 1 to 1000"},
		{"nodes 3",
			"1: nodes 3: must be KEY = VALUE, or a section such as [replicator]"},
		{"node = 3",
			"1: node: no such key; known are nodes, duration, warm-up"},
		{"checkpoint = 3s", "1: checkpoint: no such key"},
		{"nodes = 1\nnodes = 2", "2: nodes: was said in line 1 already"},
		{"duration = 0s",
			"1: duration = 0s: must be a time above 0 and up to 3650d, such as 90s, 36h or 7d"},
		{"duration = 7", "1: duration = 7: must be a time"},
		{"duration = 9999d", "1: duration = 9999d: must be a time above 0 and up to 3650d"},
		{"latency = -1s", "1: latency = -1s: must be a time from 0 to 3650d"},
		{"# only words", " sets nothing"},
		{"seeds = 5..1",
			"1: seeds = 5..1: must be a number, or two such as 1..20"},
		{"seeds = 1..1000000000",
			"1: seeds = 1..1000000000: must be a number, or two such as 1..20, and no more than 100000 seeds"},
		{"failures = n1",
			"1: failures = n1: must be nodes and times such as n1 at 10m for 5m"},
		{"failures = n0 at 3s", "1: failures = n0 at 3s: must be"},
		{"failures = n1 at 3s for 0s", "1: failures = n1 at 3s for 0s: must be"},
		{"failures = n2 at 3s",
			" failures: there is no node n2; nodes is 1"},
		{"duration = 1h\nfailures = n1 at 1h",
			" failures: n1 fails at 1h, which is not within duration (1h)"},
		{"duration = 1h\nfailures = n1 at 10m for 20m, n1 at 31m for 3m, n1 at 34m",
			" failures: n1 fails at 34m, while it is down"},
		{"duration = 1h\nnodes = 2\nfailures = n1 at 20m, n2 at 30m, n1 at 10m",
			" failures: n1 fails at 20m, while it is down"},
		{"duration = 1h\nwarm-up = 60m",
			" warm-up (1h) must be less than duration (1h)"},
		{"[replicatr]",
			"1: [replicatr]: no such section; known are [replicator], [replicator.shares], [workload], [sweep]"},
		{"[replicator]\n[replicator]",
			"2: [replicator]: was said in line 1 already"},
		{"[replicator]\nmax_jabs = 3",
			"2: [replicator] max_jabs: no such key; the nearest is max_jobs"},
		{"[replicator]\nmax_jobs = x",
			"2: [replicator] max_jobs = x: must be a whole number"},
		{"[replicator]\nmax_jobs = 0",
			" [replicator] max_jobs = 0: no job would ever run"},
		{"[replicator]\nmax_backoff_penalty_sec = 10",
			" [replicator] min_backoff_penalty_sec (32s) is above"},
		{"[replicator.shares]\n_replicator = 0",
			"2: [replicator.shares] _replicator = 0: must be a whole number from 1 to 1000"},
		{"[replicator.shares]\nmine = 5",
			"2: [replicator.shares] mine: must be the name of a replicator database"},
		{"[workload]\njob = 5", "2: [workload] job: no such key"},
		{"[workload]\njobs = 0", " the workload has no jobs"},
		{"[sweep]\nworkload/jobs = 5, 0", " at the point workload/jobs=0: the workload has no jobs"},
		{"seeds = 1..100000\n[sweep]\nmax_churn = 1..90 90",
			" 90 points with 100000 seeds are 9000000 runs, and 1000000 are accepted"},
		{"[workload]\nshares = 0", "2: [workload] shares = 0: must be"},
		{"[workload]\nfile = none.jsonl", " workload "},
		{"[workload]\nfile = gap.jsonl", " "},
		{"duration = 1h\n[workload]\nfrom = 2h",
			" the first job comes at 2h, which is not within duration (1h)"},
		{"[sweep]", "1: [sweep]: has no axis"},
		{"[sweep]\nmethod = grids",
			"2: method = grids: must be grid, one-at-a-time, random N, or lhs N"},
		{"[sweep]\nmethod = grid 5", "2: method = grid 5: must be"},
		{"[sweep]\nmethod = lhs", "2: method = lhs: must be"},
		{"[sweep]\nmethod = lhs 0", "2: method = lhs 0: must be"},
		{"[sweep]\nmethod = grid\nmethod = grid", "3: method: was said in line 2 already"},
		{"[sweep]\ndesign-seed = x",
			"2: design-seed = x: must be a whole number"},
		{"[sweep]\nmax_chrn = 3",
			"2: max_chrn: no such key; must be a key of an experiment (nodes, "},
		{"[sweep]\nmax_churn = 3, x",
			"2: [replicator] max_churn = x: must be a whole number"},
		{"[sweep]\nmax_churn = 3, 3", "2: max_churn = 3, 3: 3 is there twice"},
		{"[sweep]\ninterval = 30000, 2m", "2: interval = 30000, 2m: 2m has a unit and 30000 has none"},
		{"[sweep]\nmax_churn = 3,", "2: max_churn = 3,: an empty value"},
		{"[sweep]\nmax_churn = 3..9",
			"2: max_churn: a range needs a number of values unless method is random or lhs, as in 3..9 5"},
		{"[sweep]\nmax_churn = 3..9 1",
			"2: max_churn = 3..9 1: the number of values of a range must be from 2 to 10000"},
		{"[sweep]\nmax_churn = 3..9 x",
			"2: max_churn = 3..9 x: must be values with commas"},
		{"[sweep]\nmax_churn = 3..9 20",
			"2: max_churn = 3..9 20: there are no 20 different whole numbers"},
		{"[sweep]\nmax_churn = 9..3 2",
			"2: max_churn = 9..3 2: the first end of a range must be less than the second"},
		{"[sweep]\nmax_churn = 0..3 log 2",
			"2: max_churn = 0..3 log 2: a log range must begin above 0"},
		{"[sweep]\nmax_churn = a..b 2",
			"2: max_churn = a..b 2: must be values with commas"},
		{"[sweep]\nmax_churn = 1.5..3 2",
			"2: [replicator] max_churn = 1.5: must be a whole number"},
		{"[sweep]\ninterval = 10s..60000 2",
			"2: interval = 10s..60000 2: both ends of a range need units, or none"},
		{"[sweep]\npriority_coeff = 0.5..1.5 3",
			"2: [replicator] priority_coeff = 1.5: must be"},
		{"[sweep]\nhttp_connections = 1, 2",
			"2: http_connections: has no effect on scheduling"},
		{"[sweep]\nfailures = n1 at 3s, n1 at 5s", "2: failures: cannot be an axis"},
		{"[sweep]\nmax_churn = 1, 2\nmax_churn = 3",
			"3: max_churn: was said in line 2 already"},
		{"nodes = 2\n[sweep]\nnodes = 1, 2",
			"3: nodes: is set in line 1 already; only method = one-at-a-time has both"},
		{"[sweep]\nmethod = one-at-a-time\nnodes = 1, 2",
			"3: nodes: method = one-at-a-time needs its usual value in the sections above"},
		{"[sweep]\nworkload/shares = 0", "2: [workload] shares = 0: must be"},
		{"[sweep]\nreplicator.shares/_replicator = 0, 1",
			"2: [replicator.shares] _replicator = 0: must be a whole number from 1 to 1000"},
		{few + "[sweep]\nreplicator.shares/q/_replicator = 1, 2",
			" at the point replicator.shares/q/_replicator=1: replicator.shares/q/_replicator: the workload has no "},
		{few + "[sweep]\nmax_backoff_penalty_sec = 90, 10",
			" at the point max_backoff_penalty_sec=10: [replicator] min_backoff_penalty_sec (32s) is above"},
		{few + "[sweep]\nmax_churn = 1..1000 1000\nmax_jobs = 1..1000 1000\nmin_run_time_sec = 1..1000 1000",
			" [sweep] has some 10^9 points, and 100 are accepted"},
		{few + "[sweep]\nmax_churn = 1..9999 9999\nmax_jobs = 1..9999 9999\nmin_run_time_sec = 1..9999 9999\n" +
			"interval = 101..9999 9000\nworkload/rate = 1..9999 9999",
			" [sweep] has more than 10^18 points, and 100 are accepted"},
		{few + "[sweep]\nmethod = lhs 2000\nmax_churn = 1..100",
			" [sweep] has 2000 points, and 100 are accepted"},
	} {
		text, want := c[0], c[1]
		path := filepath.Join(dir, "x.ini")
		e, err := Parse(path, text)
		if err == nil {
			_, err = e.Plan("", 100)
		}
		if err == nil || !strings.HasPrefix(err.Error(), path+":"+want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
		if _, hasLine := errors.AsType[*scenario.Error](err); hasLine == strings.HasPrefix(want, " ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSchedulingKeys: every key of production that changes what a lab goes by is known to, and no other.
func TestSchedulingKeys(t *testing.T) {
	read := func(s *config.Settings) string { // the parts of settings that nodes, the queue and runs of a lab read
		n, r := s.Node, s.Replicator
		n.StallTimeout, n.MissingPause = 0, 0 // runs of a lab do not stall, and have no documents
		return fmt.Sprintf("%+v %+v %+v %v %v", n, r.Backoff, r.Sharing, r.Parse.CheckpointInterval, s.Settling)
	}
	for _, k := range config.Replicator {
		has := false
		for _, v := range []string{"7", "90", "700", "0.3", "tags", "true", "false"} {
			s, other := config.Default(), config.Default()
			has = has || k.Set(&other, v) == nil && read(&other) != read(&s)
		}
		if has != slices.Contains(scheduling, k.Name) {
			t.Errorf("%s changes a lab: %v", k.Name, has)
		}
	}
}

// A grid has every combination once.
func TestGrid(t *testing.T) {
	e, err := Parse("x.ini",
		"[sweep]\nmax_churn = 1..5 5\nmax_jobs = 10..1000 log 3\nscheduling_policy = fifo, tags\n")
	if err != nil {
		t.Fatal(err)
	}
	points, err := e.points()
	if err != nil || len(points) != 30 || len(distinct(slices.Clone(points))) != 30 ||
		points[29].String() != "max_churn=5, max_jobs=1000, scheduling_policy=tags" {
		t.Error(points, err)
	}
	if values := e.Design.Axes[1].Values; !slices.Equal(values, []string{"10", "100", "1000"}) {
		t.Error(values)
	}
}

func TestOneAtATime(t *testing.T) {
	e, err := Parse("x.ini",
		"nodes = 2\n[replicator]\nmax_churn = 20\n[sweep]\n"+
			"method = one-at-a-time\nmax_churn = 5, 20, 50\nnodes = 1, 2, 4\n")
	if err != nil {
		t.Fatal(err)
	}
	points, err := e.points()
	var got []string
	for _, p := range points {
		got = append(got, p.String())
	}
	want := []string{"max_churn=20, nodes=2", "max_churn=5, nodes=2", "max_churn=50, nodes=2",
		"max_churn=20, nodes=1", "max_churn=20, nodes=4"}
	if err != nil || !slices.Equal(got, want) {
		t.Error(got, err)
	}
}

// In a Latin hypercube each N-th part of each axis has exactly one point; a random design has not, which shows that
// the test can fail.
func TestLatinHypercube(t *testing.T) {
	once := func(d Design) bool {
		for axis := range d.Axes {
			hits := make([]int, d.N)
			for _, u := range d.units() {
				hits[int(u[axis]*float64(d.N))]++
			}
			if slices.Max(hits) != 1 || slices.Min(hits) != 1 {
				return false
			}
		}
		return true
	}
	for seed := range uint64(20) {
		for _, n := range []int{1, 2, 7, 64, 1000} {
			d := Design{Method: LHS, N: n, Seed: seed, Axes: make([]Axis, 3)}
			if !once(d) {
				t.Errorf("seed %d, %d points: a part of an axis has none or two", seed, n)
			}
			if d.Method = Random; n >= 64 && once(d) {
				t.Errorf("seed %d: a random design has one point in each of %d parts", seed, n)
			}
		}
	}
	d := Design{Method: LHS, N: 50, Axes: make([]Axis, 2)}
	units := d.units()
	if slices.EqualFunc(units, units, func(a, b []float64) bool { return int(a[0]*50) == int(b[1]*50) }) {
		t.Error("the axes are in the same order")
	}
}

// What a Latin hypercube draws from a range are values of each part of it.
func TestDrawnValues(t *testing.T) {
	e, err := Parse("x.ini",
		"[sweep]\nmethod = lhs 40\ndesign-seed = 7\npriority_coeff = 0.5..0.9\nmax_churn = 1..10000 log\n"+
			"interval = 10s..5m\nscheduling_policy = fifo, tags\n")
	if err != nil {
		t.Fatal(err)
	}
	points, err := e.points()
	if err != nil || len(points) != 40 {
		t.Fatal(len(points), err)
	}
	parts := make([][]int, 4)
	for _, p := range points {
		parts[0] = append(parts[0], int((Amount(p[0].Value)-0.5)/0.4*40))
		parts[1] = append(parts[1], int(math.Log10(Amount(p[1].Value))/4*4)) // coarse: they are rounded
		parts[2] = append(parts[2], int((Amount(p[2].Value)-10)/290*10))
		parts[3] = append(parts[3], slices.Index(e.Design.Axes[3].Values, p[3].Value))
	}
	for i, each := range []int{1, 10, 4, 20} {
		counts := map[int]int{}
		for _, part := range parts[i] {
			counts[part]++
		}
		for part := range 40 / each {
			if n := counts[part]; n < each-1 || n > each+1 || i != 1 && i != 2 && n != each {
				t.Errorf("axis %d: part %d has %d points, and should have %d", i, part, n, each)
			}
		}
	}
	again, _ := e.points()
	if !slices.EqualFunc(points, again, func(a, b Point) bool { return slices.Equal(a, b) }) {
		t.Error("the design is another one the second time")
	}
}

// TestDrawnWholeNumbers: of a range of whole numbers all are drawn alike, those at its ends too.
func TestDrawnWholeNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"1..3":      "1 1 1 2 2 2 3 3 3",
		"1..7 log":  "1 1 1 2 2 3 4 5 7", // ratios of 8^(1/9) from the middle of the first ninth on
		"1m..3m":    "1m 1m 1m 2m 2m 2m 3m 3m 3m",
		"0.0..0.9":  "0.05 0.15 0.25 0.35 0.45 0.55 0.65 0.75 0.85",
		"-4..4":     "-4 -3 -2 -1 0 1 2 3 4",
		"60s..2m":   "63s 70s 76s 83s 90s 97s 104s 110s 117s",
		"250ms..1s": "291ms 375ms 458ms 542ms 625ms 708ms 792ms 875ms 959ms",
	} {
		a, err := parseAxis(Key{replicator, "x"}, text)
		if err != nil {
			t.Fatal(text, err)
		}
		var got []string
		for i := range 9 {
			got = append(got, a.at((float64(i)+0.5)/9))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", text, s, want)
		}
	}
}

func TestRanges(t *testing.T) {
	for text, want := range map[string]string{
		"1..32 log 6":            "1 2 4 8 16 32",
		"5..100 4":               "5 37 68 100",
		"5.0..100 linear 3":      "5 52.5 100",
		"0.5..0.998 3":           "0.5 0.749 0.998",
		"10m..6h 3":              "10m 185m 360m",
		"250ms..1s 4":            "250ms 500ms 750ms 1000ms",
		"12h..2d 4":              "12h 24h 36h 48h",
		"0.001..1000 log 7":      "0.001 0.01 0.1 1 10 100 1000",
		"0.9876543..0.9876549 2": "0.9876543 0.9876549",
		"1e-3..1e-1 log 3":       "0.001 0.01 0.1",
	} {
		a, err := parseAxis(Key{replicator, "x"}, text)
		if got := strings.Join(a.Values, " "); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}
