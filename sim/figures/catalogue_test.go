package figures

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/metrics"
	"couchrelay/sim/sweep"
)

const small = `duration = 2h
warm-up = 20m
seeds = 1..3
per-account = share
[replicator]
max_jobs = 6
[workload]
accounts = 3
shares = 200:100:50
jobs = 10:12:8
[sweep]
max_churn = 1, 3
priority_coeff = 0.5, 0.98
`

func parsed(t *testing.T, text string) *sweep.Experiment {
	t.Helper()
	e, err := sweep.Parse("small.ini", text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// played is a run of the experiment, with series and spans.
func played(t *testing.T, text string) Run {
	t.Helper()
	s, err := parsed(t, text).Setup(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := metrics.Options{Series: true, Window: 5 * time.Minute, Gantt: 30}
	r, w, err := s.Observe(t.Context(), nil, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	return Run{Result: r, Workload: w}
}

func results(t *testing.T, text string) *sweep.Results {
	t.Helper()
	p, err := parsed(t, text).Plan("test", 100)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Try(t.Context(), sweep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCatalogue: every figure can be drawn, and names what it tells apart.
func TestCatalogue(t *testing.T) {
	run, r := played(t, small), results(t, small)
	for _, f := range Catalogue {
		for _, several := range []bool{false, true} {
			var d Drawing
			var err error
			switch other := run; {
			case several && !f.Several:
				continue
			case several:
				run.Name, other.Name = "run one", "run two"
				d, err = f.OfRuns([]Run{run, other})
			case f.OfRuns != nil:
				d, err = f.OfRuns([]Run{run})
			default:
				d, err = f.OfResults(r, Choice{})
			}
			if err != nil {
				t.Errorf("%s: %v", f.Name, err)
				continue
			}
			svg := drawn(t, d, Size{}, SVG)
			if !bytes.Equal(svg, drawn(t, d, Size{}, SVG)) {
				t.Errorf("%s: other bytes the second time", f.Name)
			}
			for _, want := range mentioned(f.Name, several) {
				if !strings.Contains(string(svg), ">"+want+"<") {
					t.Errorf("%s: %q is missing", f.Name, want)
				}
			}
		}
	}
}

// mentioned are texts of a figure.
func mentioned(figure string, several bool) []string {
	accounts := []string{"tenant1/_replicator", "tenant2/_replicator", "tenant3/_replicator"}
	switch figure {
	case "shares":
		return append(accounts, "entitled (thin)", "share (%)", "time (min)")
	case "waits":
		if !several {
			return append(accounts, "wait")
		}
	case "lag":
		return accounts
	case "gantt":
		return append(accounts, "waiting", "start-up")
	case "compare":
		return []string{"share-error-max-run (points)"}
	case "axis":
		return []string{"max_churn=1", "max_churn=3", "priority_coeff"}
	case "tau":
		return []string{"max_churn=1", "max_churn=3", "τ/L", "τ/L = 0.46"}
	case "pareto":
		return []string{"max_churn=1", "Pareto front", "1", "longest-gap (min)"}
	}
	if several {
		return []string{"run one", "run two"}
	}
	return nil
}

// TestSharesOverTime: the curves are the series.
func TestSharesOverTime(t *testing.T) {
	run := played(t, small)
	d, err := shares([]Run{run})
	if err != nil {
		t.Fatal(err)
	}
	c := d.(Chart).Curves
	n := len(run.Result.Accounts)
	for a, s := range run.Result.Series.Accounts {
		for i, p := range c[n+a].Points {
			end := run.Result.Series.Ends[i]
			due := c[a].Points[i]
			if at := (end - 150*time.Second).Seconds(); p.X != at || p.Y != s.Share[i] || due.Y != s.Entitled[i] {
				t.Fatalf("account %d at %v: %v and %v, want %v and %v", a, at, p, due, s.Share[i], s.Entitled[i])
			}
		}
	}
	if len(c) != 2*n || c[0].Form != Target || c[n].Form != Line || len(c[n].Points) != 20 {
		t.Errorf("%d curves of %d points", len(c), len(c[n].Points))
	}
}

// TestOneSeries: curves have the values of the run's series, and where nothing ran there is none.
func TestOneSeries(t *testing.T) {
	run := played(t, small)
	s := run.Result.Series
	s.Jain[3] = math.NaN()
	for name, want := range map[string][]float64{"jain": s.Jain, "churn": s.Starts, "utilisation": s.Utilisation} {
		f, _ := Find(name)
		d, err := f.OfRuns([]Run{run})
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, p := range d.(Chart).Curves[0].Points {
			got = append(got, p.Y)
		}
		want = slices.DeleteFunc(slices.Clone(want), math.IsNaN)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestLagUnits: lags are told in a unit in which they are numbers of few digits, at the ends of windows.
func TestLagUnits(t *testing.T) {
	run := played(t, small)
	for size, unit := range map[float64]float64{100: 1, 6000: 60, 360_000: 3600} {
		for i := range run.Result.Series.Accounts {
			lag := run.Result.Series.Accounts[i].Lag
			for k := range lag {
				lag[k] = size * float64(k) / float64(len(lag)-1) * float64(1-2*(i%2))
			}
		}
		d, err := lags([]Run{run})
		if err != nil {
			t.Fatal(err)
		}
		last := d.(Chart).Curves[1].Points
		if p := last[len(last)-1]; p.Y != -size/unit || p.X != 7200 {
			t.Errorf("%v slot-seconds: %v of %s", size, p, d.(Chart).Y.Label)
		}
	}
}

// TestManyAccounts: those entitled to least are put together, and nothing of them is lost.
func TestManyAccounts(t *testing.T) {
	run := played(t, strings.NewReplacer("accounts = 3", "accounts = 12", "200:100:50",
		"10:900:900:900:900:900:900:900:10:10:10:10", "10:12:8", "120").Replace(small))
	c := classify(run.Result)
	if want := []int{7, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7}; !slices.Equal(c.of, want) || c.names[7] != "5 others" {
		t.Errorf("%v %v", c.of, c.names)
	}
	for _, make := range []func([]Run) (Drawing, error){shares, lags, waits, gantt} {
		d, err := make([]Run{run})
		if err != nil {
			t.Fatal(err)
		}
		drawn(t, d, Size{}, SVG)
	}
	d, _ := shares([]Run{run})
	curves := d.(Chart).Curves[Most:]
	for i := range curves[0].Points {
		sum := 0.0
		for _, c := range curves {
			sum += c.Points[i].Y
		}
		if math.Abs(sum-100) > 1e-9 {
			t.Errorf("window %d: shares add up to %v", i, sum)
		}
	}
}

func TestCumulated(t *testing.T) {
	got := cumulated("a", 2, []weighted{{30, 1}, {10, 2}, {20, 1}}).Points
	if want := []Point{{X: 10}, {X: 10, Y: 50}, {X: 20, Y: 75}, {X: 30, Y: 100}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestWaitsOfAll: the distribution has every wait, and the median that the meter has of later ones.
func TestWaitsOfAll(t *testing.T) {
	r := played(t, strings.Replace(small, "warm-up = 20m", "", 1)).Result
	n, shortest := 0.0, math.Inf(1)
	for _, w := range waited(r, -1) {
		n += w.weight
		if w.value < leastWait {
			t.Errorf("a wait of %v", w.value)
		}
		shortest = min(shortest, w.value)
	}
	want := r.Distribution("wait-first", -1).Weight() + r.Distribution("wait-turn", -1).Weight()
	if math.Abs(n-want) > 1e-6 || n < 10 || shortest != leastWait { // the first jobs have slots within a second
		t.Errorf("%v waits of %v and more, want %v", n, shortest, want)
	}
}

// TestRunsOfOtherLengths: an axis of time has all that was measured of any run.
func TestRunsOfOtherLengths(t *testing.T) {
	f, _ := Find("churn")
	short, long := played(t, small), played(t, "duration = 5h\nwarm-up = 10m\n")
	d, err := f.OfRuns([]Run{short, long})
	if x := d.(Chart).X; err != nil || x.Min != 600 || x.Max != 5*3600 {
		t.Errorf("from %v to %v s, %v", x.Min, x.Max, err)
	}
}

func TestSpans(t *testing.T) {
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for _, c := range []struct {
		span metrics.Span
		want string
	}{
		{metrics.Span{State: metrics.Waiting, From: second(1), To: second(9)}, "[{0 1 9}]"},
		{metrics.Span{State: metrics.Backoff, From: second(1), To: second(9)}, "[{1 1 9}]"},
		{metrics.Span{State: metrics.Running, From: second(1), To: second(9), Ready: second(6)}, "[{2 1 6} {3 6 9}]"},
		{metrics.Span{State: metrics.Running, From: second(1), To: second(3), Ready: second(6)}, "[{2 1 3} {3 3 3}]"},
		{metrics.Span{State: metrics.Running, From: second(3), To: second(9), Ready: second(2)}, "[{2 3 3} {3 3 9}]"},
	} {
		if got := fmt.Sprint(spans(c.span)); got != c.want {
			t.Errorf("%v: %s, want %s", c.span, got, c.want)
		}
	}
}

// TestTau: tau/L is that of the definition: 1/(1-K) intervals to the time in which all 24 waiting jobs start, by rounds
// of seven eighths of an interval. Jobs that others follow when they are removed make a turn no longer.
func TestTau(t *testing.T) {
	f, _ := Find("tau")
	for _, text := range []string{small, strings.Replace(small, "[sweep]", "restart_at = 10m\n[sweep]", 1)} {
		d, err := f.OfResults(results(t, text), Choice{})
		if err != nil {
			t.Fatal(err)
		}
		for i, churn := range []float64{1, 3} {
			for k, coeff := range []float64{0.5, 0.98} {
				want := 1 / (1 - coeff) / (24 / churn * 7 / 8)
				if got := d.(Chart).Curves[i].Points[k].X; math.Abs(got/want-1) > 1e-3 {
					t.Errorf("churn %v, coefficient %v: %v, want %v", churn, coeff, got, want)
				}
			}
		}
	}
}

// TestIntervals: bars and points have the intervals of the summaries, and none of one seed.
func TestIntervals(t *testing.T) {
	r := results(t, small)
	f, _ := Find("compare")
	const metric = "share/tenant1/_replicator"
	d, err := f.OfResults(r, Choice{Metrics: []string{metric}, Where: map[string]string{"max_churn": "3"}})
	if err != nil {
		t.Fatal(err)
	}
	bars := d.(Bars).Bars
	if len(bars) != 2 || bars[0].Name != "0.5" || bars[1].Name != "0.98" || d.(Bars).X.Label != metric+" (%)" {
		t.Fatalf("%+v", d)
	}
	want := r.Summaries[2].Metrics[metric]
	b := bars[0]
	if b.Value != float64(want.Mean) || b.Low != float64(want.Low) || b.High != float64(want.High) || b.Low >= b.High {
		t.Errorf("%+v, want %+v", b, want)
	}
	d, err = f.OfResults(results(t, strings.Replace(small, "1..3", "1..1", 1)), Choice{})
	if b := d.(Bars).Bars[0]; err != nil || b.Low != b.High {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestPareto: no point of the front is worse than another in both.
func TestPareto(t *testing.T) {
	f, _ := Find("pareto")
	d, err := f.OfResults(results(t, small), Choice{})
	if err != nil {
		t.Fatal(err)
	}
	c := d.(Chart)
	var all []Point
	for _, curve := range c.Curves[1:] {
		all = append(all, curve.Points...)
	}
	got := slices.Clone(c.Curves[0].Points)
	for i := range got {
		if got[i].Note != fmt.Sprint(i+1) {
			t.Errorf("point %d has note %s", i, got[i].Note)
		}
		got[i].Note = ""
	}
	if want := front(all); !slices.Equal(got, want) || len(c.Says) != len(got) || len(all) != 4 {
		t.Errorf("%v, want %v; %q", got, want, c.Says)
	}
}

// TestFamilies: values beyond the last look are one family.
func TestFamilies(t *testing.T) {
	p := part{Results: &sweep.Results{Header: sweep.Header{Axes: []string{"x"}}}}
	for i := range Most + 3 {
		p.points = append(p.points, sweep.Summary{Settings: map[string]string{"x": fmt.Sprint(i)}})
	}
	f := p.families("")
	if len(f.names) != Most || f.names[Most-1] != "4 other values of x" || f.of(p.points[6]) != 6 ||
		f.of(p.points[10]) != 7 {
		t.Errorf("%v %v", f.names, f.looks)
	}
}

func TestWrongChoices(t *testing.T) {
	r := results(t, small)
	tags := results(t, strings.Replace(small, "max_jobs = 6", "max_jobs = 6\nscheduling_policy = tags", 1))
	for _, c := range []struct {
		figure string
		r      *sweep.Results
		choice Choice
		want   string
	}{
		{"compare", r, Choice{Metrics: []string{"a", "b"}}, "compare shows 1 metrics, not 2"},
		{"compare", r, Choice{Metrics: []string{"a"}}, "a: no such metric; the results have share-error-max-10m"},
		{"compare", r, Choice{Metrics: []string{"turnaround-p50"}}, "no point has a value of turnaround-p50"},
		{"axis", r, Choice{By: "jobs"}, "jobs: no such axis; the results have max_churn, priority_coeff"},
		{"axis", r, Choice{Over: "jobs"}, "jobs: no such axis"},
		{"axis", r, Choice{Over: "max_churn", By: "max_churn"}, "cannot also tell its curves apart"},
		{"axis", r, Choice{Metrics: []string{"turnaround-p50"}}, `no point has a number for "priority_coeff"`},
		{"pareto", r, Choice{Metrics: []string{"turnaround-p50", longest}}, "no point has values of both"},
		{"pareto", r, Choice{Metrics: []string{"run-length-p50", longest}}, "neither more nor less"},
		{"tau", tags, Choice{}, "τ is the memory of fairshare"},
		{"tau", r, Choice{Where: map[string]string{"max_churn": "7"}}, "no point of the results has these settings"},
		{"tau", r, Choice{Where: map[string]string{"jobs": "7"}}, "jobs: no such axis"},
	} {
		f, err := Find(c.figure)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.OfResults(c.r, c.choice); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.figure, err, c.want)
		}
	}
	_, err := Find("share")
	if err == nil || !strings.Contains(err.Error(), `"share": no such figure; there are shares, lag`) {
		t.Error(err)
	}
}

// TestAlongTimes: times are numbers too; a line joins only points that differ in nothing but the axis below it.
func TestAlongTimes(t *testing.T) {
	r := &sweep.Results{Header: sweep.Header{
		Axes: []string{"nodes", "max_churn", "interval"}, Metrics: []sweep.Metric{{Name: "starts"}},
	}}
	for i := range 8 {
		r.Summaries = append(r.Summaries, sweep.Summary{
			Settings: map[string]string{"nodes": []string{"1", "2"}[i/4], "max_churn": []string{"3", "5"}[i/2%2],
				"interval": []string{"30s", "2m"}[i%2]},
			Metrics: map[string]sweep.Interval{"starts": {Mean: sweep.Number(i)}},
		})
	}
	f, err := Find("axis")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		where map[string]string
		form  Form
	}{{nil, Marks}, {map[string]string{"max_churn": "5"}, Line}} {
		d, err := f.OfResults(r, Choice{Metrics: []string{"starts"}, Where: c.where})
		if err != nil {
			t.Fatal(err)
		}
		chart := d.(Chart)
		if p := chart.Curves[0].Points; p[0].X != 30 || p[len(p)-1].X != 120 || chart.X.Scale != Time {
			t.Errorf("%+v", chart.X)
		}
		if chart.Curves[0].Form != c.form || (len(chart.Says) > 0) != (c.form == Marks) {
			t.Errorf("%v: %v, %q", c.where, chart.Curves[0].Form, chart.Says)
		}
	}
	for _, s := range r.Summaries {
		if s.Settings["interval"] == "30s" {
			s.Settings["interval"] = "0" // which needs no unit
		}
	}
	d, err := f.OfResults(r, Choice{Metrics: []string{"starts"}})
	if x := d.(Chart).X; err != nil || x.Scale != Time {
		t.Errorf("%+v, %v", x, err)
	}
}
