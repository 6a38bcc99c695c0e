package metrics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
)

// TestOneShots has two one-shots of 100 changes at 10 a second with 5 s of start-up: alone they run 15 s. The first
// crashes once and loses 20 of 50 changes, and is delayed by 2 s when it starts again; the second waits 85 s.
func TestOneShots(t *testing.T) {
	s := accounts(100)
	s.nodes(2)
	one := workload.Job{Startup: 5 * second, Backlog: 100, Speed: 10}
	a, b := s.add(one), s.add(one)
	s.at(0, lab.Started, a)
	s.end(10*second, a, lab.Crashed, 30) // it has copied for 5 s
	s.at(40*second, lab.Ready, a)
	s.at(50*second, lab.Started, a)
	s.events[len(s.events)-1].Delay = 2 * second
	s.end(64*second, a, lab.Completed, 70)
	s.at(85*second, lab.Started, b)
	s.end(100*second, b, lab.Completed, 100)
	r := s.play(t, Options{Duration: 200 * second})
	for name, want := range map[string]float64{
		"turnaround-p50": 64, "turnaround-max": 100, "slowdown-p50": 64.0 / 15, "slowdown-max": 100.0 / 15,
		"bounded-slowdown-p50": 64.0 / 60, "bounded-slowdown-max": 100.0 / 60, "completed": 2,
		"wait-first-max": 85, "wait-turn-max": 10, "longest-gap": 85, "first-progress-p50": 5,
		"first-progress-max": 90,
		"startup-share":      100 * 17.0 / 39, "lost-work": 100 * 20.0 / 220, "throughput": 1, "rotations": 0,
		"utilisation": 100 * 39.0 / 400, "idle-while-waiting": 100*85.0/400 + 100*10.0/400, "waiting-at-end": 0,
	} {
		s.want(t, r, -1, name, want)
	}
	if got := r.Value("freshness-p50"); !math.IsNaN(got) {
		t.Errorf("one-shots have a freshness of %v", got)
	}
}

// TestBoundedSlowdown has a one-shot that never waits; its bounded slowdown is no less than 1.
func TestBoundedSlowdown(t *testing.T) {
	s := accounts(100)
	s.nodes(1)
	j := s.add(workload.Job{Backlog: 10, Speed: 1})
	s.at(0, lab.Started, j)
	s.end(10*second, j, lab.Completed, 10)
	r := s.play(t, Options{Duration: minute})
	s.want(t, r, 0, "bounded-slowdown-max", 1)
	s.want(t, r, 0, "slowdown-max", 1)
}

// TestFreshness has a job with 1 change a second and a speed of 3. It waits 60 s, starts up for 10 s, catches up in
// 35 s, in which its age falls from 70 s to 0, and is up to date for 45 s. So its age grows from 0 to 70 in 70 s,
// falls to 0 in 35 s, and is 0 for 45 s of 150 s.
func TestFreshness(t *testing.T) {
	s := accounts(100)
	s.nodes(1)
	j := s.add(workload.Job{Continuous: true, Startup: 10 * second, Rate: 1, Speed: 3})
	s.at(60*second, lab.Started, j)
	r := s.play(t, Options{Duration: 150 * second})
	s.want(t, r, 0, "freshness-max", 70)
	s.want(t, r, 0, "throughput", 1)
	d := r.Distribution("freshness", -1)
	if !near(d.Weight(), 150) || !near(d.Mean(), 35*105.0/150) {
		t.Errorf("weight %v and mean %v, want 150 and 24.5", d.Weight(), d.Mean())
	}
	// The age is 0 for 30 % of the time; of the other 105 s, 1.5 s have each age up to 70.
	for name, want := range map[string]float64{"p50": 20, "p95": 65, "p99": 69} {
		if got := r.Value("freshness-" + name); math.Abs(got-want) > 0.01*want {
			t.Errorf("freshness-%s is %v, want %v", name, got, want)
		}
	}
}

// TestFreshnessAfterLoss has a job lose all that it copied in 30 s: its oldest change is that of the beginning.
func TestFreshnessAfterLoss(t *testing.T) {
	for _, c := range []struct {
		why  lab.Why
		good float64
		age  float64
	}{{lab.GaveWay, 30, 10}, {lab.Crashed, 0, 40}, {lab.Vanished, 10, 30}} {
		s := accounts(100)
		s.nodes(1)
		j := s.add(workload.Job{Continuous: true, Rate: 1, Speed: 3})
		s.at(0, lab.Started, j)
		s.end(30*second, j, c.why, c.good)
		r := s.play(t, Options{Duration: 40 * second})
		s.want(t, r, 0, "freshness-max", c.age)
		s.want(t, r, 0, "lost-work", 100*(30-c.good)/30)
	}
}

// TestFullTurn has three jobs on one slot. A turn begins at 0 with b and c, when a has started, and is over when c
// starts at 20 s; then a and b wait, and a is removed at 30 s; b starts at 50 s; then c waits to the end at 130 s.
func TestFullTurn(t *testing.T) {
	s := accounts(100)
	s.nodes(1)
	a, b, c := s.job(0), s.job(0), s.job(0)
	s.run(a, 0, 10*second)
	s.run(b, 10*second, 20*second)
	s.at(20*second, lab.Started, c)
	s.at(30*second, lab.Removed, a)
	s.end(45*second, c, lab.Killed, 0)
	s.at(50*second, lab.Started, b)
	r := s.play(t, Options{Duration: 130 * second})
	// The turn of 0 s began when the first of the three was submitted, and waited for a alone.
	s.want(t, r, -1, "full-turn-mean", (0+20+30)/3.0)
	s.want(t, r, -1, "full-turn-max", 80)
	s.want(t, r, -1, "longest-gap", 85)
	s.want(t, r, -1, "rotations", 3*3600/130.0)
}

// TestErrorsOfWindows has two accounts with equal shares take turns on the only slot, ten minutes each, for two
// hours: over ten minutes each is off by 50 points, over an hour nothing is.
func TestErrorsOfWindows(t *testing.T) {
	s := accounts(100, 100)
	s.nodes(1)
	jobs := []int{s.job(0), s.job(1)}
	for i := range 12 {
		s.run(jobs[i%2], time.Duration(i)*10*minute, time.Duration(i+1)*10*minute)
	}
	r := s.play(t, Options{Duration: 2 * hour})
	for name, want := range map[string]float64{
		"share-error-max-10m": 50, "share-error-rms-10m": 50, "jain-10m": 0.5,
		"share-error-max-1h": 0, "share-error-rms-1h": 0, "jain-1h": 1,
		"share-error-max-run": 0, "jain-run": 1, "lag-min": -300, "lag-max": 300,
	} {
		s.want(t, r, -1, name, want)
	}
	// Lags go to 300 and back to 0 within each 20 min, by 30 a minute: 2 of 20 looks see each size but 0 and 300.
	if got := r.Value("lag-p99"); math.Abs(got-300) > 3 {
		t.Errorf("lag-p99 is %v, want 300", got)
	}
	if got := r.Distribution("lag", 0).Quantile(0.5); math.Abs(got-150) > 2 {
		t.Errorf("the median lag is %v, want 150", got)
	}
}

// TestErrorsAreSquared has one hour with errors of 50 points and one with none.
func TestErrorsAreSquared(t *testing.T) {
	s := accounts(100, 100)
	s.nodes(2)
	a, b := s.job(0), s.job(1)
	s.run(a, 0, hour)
	s.run(a, hour, 2*hour)
	s.run(b, hour, 2*hour)
	r := s.play(t, Options{Duration: 2 * hour})
	s.want(t, r, -1, "share-error-max-1h", 50)
	s.want(t, r, 1, "share-error-rms-1h", 50/math.Sqrt2)
	s.want(t, r, -1, "jain-1h", 0.75)
	s.want(t, r, 0, "share", 100*2/3.0)
	s.want(t, r, 0, "share-error-max-run", 100*(2/3.0-1.5/3))
}

// TestDemandCaps has an account that wants one slot of four: it is entitled to that, and the other to three,
// whatever their shares.
func TestDemandCaps(t *testing.T) {
	s := accounts(900, 100)
	s.nodes(4)
	s.at(0, lab.Started, s.job(0))
	for range 5 {
		j := s.job(1)
		if j < 4 {
			s.at(0, lab.Started, j)
		}
	}
	r := s.play(t, Options{Duration: hour})
	s.want(t, r, 0, "entitled-share", 25)
	s.want(t, r, -1, "share-error-max-run", 0)
	s.want(t, r, -1, "jain-run", 1)
}

// TestSharesSet changes shares in the middle of a run.
func TestSharesSet(t *testing.T) {
	s := accounts(100, 100)
	s.nodes(10)
	for i := range 40 {
		if j := s.job(i % 2); i < 10 {
			s.at(0, lab.Started, j)
		}
	}
	s.events = append(s.events, lab.Event{At: hour, What: lab.SharesSet, Job: -1, Account: 1, Shares: 300})
	r := s.play(t, Options{Duration: 2 * hour})
	s.want(t, r, 0, "entitled-share", (50+25)/2.0)
	s.want(t, r, 0, "lag-min", -2.5*3600)
}

// TestWarmUp has an account that gets everything in the warm-up, and half of it later. A wait that began in the
// warm-up counts as a whole.
func TestWarmUp(t *testing.T) {
	s := accounts(100, 100)
	s.nodes(2)
	a, a2, b := s.job(0), s.job(0), s.job(1)
	s.run(a, 0, 2*hour)
	s.run(a2, 0, hour)
	s.run(b, hour+minute, 2*hour)
	r := s.play(t, Options{WarmUp: hour, Duration: 2 * hour})
	s.want(t, r, 0, "share", 100*60/119.0)
	s.want(t, r, -1, "wait-first-max", 3660)
	s.want(t, r, 0, "wait-first-max", math.NaN())
	s.want(t, r, -1, "starts", 1)
	s.want(t, r, -1, "utilisation", 100*119/120.0)
	s.want(t, r, 0, "lag-max", 0)
	s.want(t, r, 0, "lag-min", -30)
	if r.From != hour || r.Until != 2*hour || r.WarmUp() != "the first 1h0m0s of 2h0m0s were dropped as warm-up" {
		t.Error(r.From, r.Until, r.WarmUp())
	}
	if none := s.play(t, Options{Duration: hour}).WarmUp(); none != "nothing was dropped as warm-up" {
		t.Error(none)
	}
}

// TestRecovery has two accounts with one job each run all the time, until one of them loses its run with its node
// for 12 minutes. Lags of the last ten looks are then off for as long, and ten looks more.
func TestRecovery(t *testing.T) {
	s := accounts(100, 100)
	s.nodes(1, 1)
	a, b := s.job(0), s.job(1)
	s.at(0, lab.Started, a)
	s.at(0, lab.Started, b)
	s.end(hour, a, lab.Vanished, 0)
	s.events = append(s.events, lab.Event{At: hour, What: lab.NodeDown, Job: -1})
	s.at(hour+minute, lab.Ready, a)
	s.events = append(s.events, lab.Event{At: hour + 12*minute, What: lab.NodeUp, Job: -1, Slots: 1})
	s.at(hour+12*minute, lab.Started, a)
	s.want(t, s.play(t, Options{Duration: 2 * hour}), -1, "recovery", 22*60)
	s.want(t, s.play(t, Options{Duration: hour + 10*minute}), -1, "recovery", 10*60) // it is not over
	s.want(t, s.play(t, Options{Duration: hour - minute}), -1, "recovery", math.NaN())
	s.w.Outages = []workload.Outage{{From: 30 * minute, To: 31 * minute}}
	r := s.play(t, Options{Duration: 59 * minute})
	s.want(t, r, -1, "recovery", 0)
}

// TestNothing has a run without a node, and one without an account.
func TestNothing(t *testing.T) {
	s := accounts(100)
	r := s.play(t, Options{Duration: hour, Series: true})
	s.want(t, r, 0, "share", 0)
	s.want(t, r, -1, "jain-run", math.NaN())
	s.want(t, r, -1, "utilisation", math.NaN())
	s.want(t, r, -1, "wait-first-p50", math.NaN())
	if r.Value("no-such-metric") == 0 || r.Distribution("no-such-family", -1) != nil {
		t.Error("there is a metric of an unknown name")
	}
	empty := script{}
	empty.want(t, empty.play(t, Options{Duration: hour}), -1, "starts", 0)
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{}, "Duration is 0s"},
		{Options{Duration: hour, WarmUp: hour}, "must be above WarmUp, which is 1h0m0s"},
		{Options{Duration: hour, WarmUp: -1}, "WarmUp"},
		{Options{Duration: hour, Cycle: -1}, "Cycle"},
		{Options{Duration: hour, Window: -1}, "Window"},
		{Options{Duration: hour, Gantt: -1}, "Gantt"},
	} {
		if _, err := New(&workload.Workload{}, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.says)
		}
	}
}

// TestContradictions has events that cannot be.
func TestContradictions(t *testing.T) {
	for name, break_ := range map[string]func(*script){
		"a start before the submission": func(s *script) {
			s.w.Jobs = append(s.w.Jobs, workload.Job{Speed: 1})
			s.at(0, lab.Started, 0)
		},
		"an end without a start": func(s *script) { s.end(0, s.job(0), lab.GaveWay, 0) },
		"two submissions":        func(s *script) { s.at(0, lab.Submitted, s.job(0)) },
		"a removal of a job that runs": func(s *script) {
			s.at(0, lab.Started, s.job(0))
			s.at(0, lab.Removed, 0)
		},
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "job 0") {
					t.Errorf("%s: %v", name, r)
				}
			}()
			s := accounts(100)
			break_(&s)
			s.play(t, Options{Duration: hour})
		}()
	}
}

func TestStepBack(t *testing.T) {
	defer func() {
		if r := recover(); r != "metrics: an event of 1m0s comes after one of 1h0m0s" {
			t.Error(r)
		}
	}()
	m, _ := New(&workload.Workload{}, Options{Duration: 2 * hour})
	m.Observe(lab.Event{At: hour, What: lab.NodeUp})
	m.Observe(lab.Event{At: minute, What: lab.NodeUp})
}

// TestUnusualOrders has events that follow each other in one moment as the lab may tell them.
func TestUnusualOrders(t *testing.T) {
	s := accounts(100)
	s.nodes(1)
	a, b := s.job(0), s.job(0)
	s.at(0, lab.Started, a)
	s.end(10*second, a, lab.Crashed, 0)
	s.at(20*second, lab.Started, a) // its Ready comes after it
	s.at(20*second, lab.Ready, a)
	s.end(30*second, a, lab.Taken, 0)
	s.at(30*second, lab.Removed, a)
	s.at(40*second, lab.Removed, b)
	r := s.play(t, Options{Duration: minute})
	s.want(t, r, -1, "wait-turn-max", 0)
	s.want(t, r, -1, "longest-gap", 40)
	s.want(t, r, -1, "waiting-at-end", 0)
}

func TestSeries(t *testing.T) {
	s := accounts(300, 100)
	s.nodes(2)
	a, b, c := s.job(0), s.job(1), s.job(1)
	s.run(a, 0, 5*minute)
	s.at(0, lab.Started, b)
	s.at(10*minute, lab.Started, a)
	_ = c
	r := s.play(t, Options{Duration: 25 * minute, Series: true}).Series
	if want := []time.Duration{10 * minute, 20 * minute}; !slices.Equal(r.Ends, want) {
		t.Fatalf("windows end at %v, want %v", r.Ends, want)
	}
	// Within the first window 2 and then 1 slots are in use; a wants 1 at most.
	check := func(name string, got []float64, want ...float64) {
		if !slices.EqualFunc(got, want, near) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	check("share of a", r.Accounts[0].Share, 100/3.0, 50)
	check("entitlement of a", r.Accounts[0].Entitled, 100*(5+5*0.75)/15, 50)
	check("lag of a", r.Accounts[0].Lag, 5*60*0.75, 5*60*0.75)
	check("waiting of a", r.Accounts[0].Waiting, 1, 0)
	check("waiting of b", r.Accounts[1].Waiting, 1, 1)
	check("running of a", r.Accounts[0].Running, 0, 1)
	check("utilisation", r.Utilisation, 75, 100)
	check("starts", r.Starts, 12, 6)
	check("waiting", r.Waiting, 2, 1)
	check("running", r.Running, 1, 2)
	x, y := 5/8.75, 10/6.25
	check("Jain's index", r.Jain, (x+y)*(x+y)/2/(x*x+y*y), 1)
}

func TestGantt(t *testing.T) {
	s := accounts(100)
	s.nodes(1)
	for range 4 {
		s.job(0)
	}
	s.w.Jobs[0].Startup, s.w.Jobs[2].Startup = 2*minute, minute
	s.run(0, 0, 10*minute)
	s.at(20*minute, lab.Started, 0)
	s.at(0, lab.Started, 1)
	s.events = append(s.events, lab.Event{At: 25 * minute, What: lab.Started, Job: 2, Node: 3, Delay: 3 * minute})
	s.end(30*minute, 2, lab.Crashed, 0)
	got := s.play(t, Options{WarmUp: 5 * minute, Duration: hour, Gantt: 2}).Gantt
	want := []Span{
		{0, Running, 0, 5 * minute, 10 * minute, 2 * minute}, {2, Waiting, -1, 5 * minute, 25 * minute, 0},
		{0, Waiting, -1, 10 * minute, 20 * minute, 0}, {0, Running, 0, 20 * minute, hour, 22 * minute},
		{2, Running, 3, 25 * minute, 30 * minute, 29 * minute}, {2, Backoff, -1, 30 * minute, hour, 0},
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans\n%v, want\n%v", got, want)
	}
	if got := s.play(t, Options{Duration: hour}).Gantt; got != nil {
		t.Errorf("spans that were not asked for: %v", got)
	}
}

// TestGanttOfSome: the jobs of a chart come evenly from all, also where these are not a multiple of them.
func TestGanttOfSome(t *testing.T) {
	s := accounts(100)
	for range 9 {
		s.job(0)
	}
	var got []int
	for _, span := range s.play(t, Options{Duration: hour, Gantt: 5}).Gantt {
		got = append(got, span.Job)
	}
	if want := []int{0, 2, 4, 6, 8}; !slices.Equal(got, want) {
		t.Errorf("jobs %v, want %v", got, want)
	}
}

// TestRecoveryFromNothing has one account, whose lag is 0 but for rounding, which grows with time.
func TestRecoveryFromNothing(t *testing.T) {
	s := accounts(7)
	s.nodes(1)
	s.at(second/7, lab.Started, s.job(0))
	s.job(0)
	s.w.Outages = []workload.Outage{{From: 14 * minute, To: 15 * minute}}
	s.want(t, s.play(t, Options{Duration: 100 * hour}), -1, "recovery", 0)
}

// TestCompletedTwice has a one-shot run once more, since its node dies before it has stored the completion: it is
// completed once, after 10 s, and waits and has a slot as others do then.
func TestCompletedTwice(t *testing.T) {
	s := accounts(100)
	s.nodes(1)
	j := s.add(workload.Job{Backlog: 10, Speed: 1})
	s.at(0, lab.Started, j)
	s.end(10*second, j, lab.Completed, 10)
	s.at(10*second, lab.Ready, j)
	s.at(40*second, lab.Started, j)
	s.end(45*second, j, lab.Completed, 0)
	r := s.play(t, Options{Duration: minute})
	for name, want := range map[string]float64{
		"completed": 1, "turnaround-max": 10, "wait-turn-max": 30, "throughput": 10.0 / 60, "waiting-at-end": 0,
		"utilisation": 100 * 15.0 / 60,
	} {
		s.want(t, r, -1, name, want)
	}
}
