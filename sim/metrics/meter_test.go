package metrics

import (
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
)

const (
	second = time.Second
	minute = time.Minute
	hour   = time.Hour
)

// script is a world with its events, as tests write them.
type script struct {
	w      workload.Workload
	events []lab.Event
}

// job adds a continuous job that copies nothing, and its submission at 0.
func (s *script) job(account int) int {
	return s.add(workload.Job{Account: account, Continuous: true, Speed: 1})
}

func (s *script) add(j workload.Job) int {
	s.w.Jobs = append(s.w.Jobs, j)
	n := len(s.w.Jobs) - 1
	s.events = append(s.events, lab.Event{At: j.Submit, What: lab.Submitted, Job: n})
	return n
}

func (s *script) nodes(slots ...int) {
	for n, k := range slots {
		s.events = append(s.events, lab.Event{What: lab.NodeUp, Job: -1, Node: n, Slots: k})
	}
}

func (s *script) at(at time.Duration, what lab.What, job int) {
	s.events = append(s.events, lab.Event{At: at, What: what, Job: job})
}

func (s *script) end(at time.Duration, job int, why lab.Why, copied float64) {
	s.events = append(s.events, lab.Event{At: at, What: lab.Ended, Job: job, Why: why, Copied: copied})
}

func (s *script) run(job int, from, to time.Duration) {
	s.at(from, lab.Started, job)
	s.end(to, job, lab.GaveWay, 0)
}

// accounts makes accounts with shares.
func accounts(shares ...int64) script {
	var s script
	for i, n := range shares {
		s.w.Accounts = append(s.w.Accounts, workload.Account{Name: string(rune('a' + i)), Shares: n})
	}
	return s
}

func (s *script) play(t testing.TB, o Options) *Result {
	t.Helper()
	m, err := New(&s.w, o)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(s.events, func(a, b lab.Event) int { return int(a.At - b.At) })
	for _, e := range s.events {
		m.Observe(e)
	}
	return m.Result()
}

func (s *script) want(t *testing.T, r *Result, account int, name string, want float64) {
	t.Helper()
	got := r.Value(name)
	if account >= 0 {
		got = r.AccountValue(account, name)
	}
	if !near(got, want) {
		t.Errorf("%s of account %d is %v, want %v", name, account, got, want)
	}
}

func near(got, want float64) bool {
	if math.IsNaN(want) {
		return math.IsNaN(got)
	}
	return math.Abs(got-want) <= 1e-9*(1+math.Abs(want))
}

// TestShares has two accounts with shares 3:1 and 2 jobs each on two slots of which one is used by each. They are
// entitled to 1.5 and 0.5.
func TestShares(t *testing.T) {
	s := accounts(300, 100)
	s.nodes(4)
	for a := range 2 {
		for range 2 {
			s.job(a)
		}
	}
	s.at(0, lab.Started, 0)
	s.at(0, lab.Started, 2)
	r := s.play(t, Options{Duration: 2 * hour})
	s.want(t, r, 0, "share", 50)
	s.want(t, r, 0, "entitled-share", 75)
	s.want(t, r, 1, "entitled-share", 25)
	for _, w := range []string{"10m", "1h", "run"} {
		s.want(t, r, 0, "share-error-max-"+w, 25)
		s.want(t, r, -1, "share-error-max-"+w, 25)
		s.want(t, r, -1, "share-error-rms-"+w, 25)
		x, y := 1/1.5, 1/0.5
		s.want(t, r, -1, "jain-"+w, (x+y)*(x+y)/(2*(x*x+y*y)))
	}
	s.want(t, r, -1, "share-error-max-24h", math.NaN())
	s.want(t, r, 0, "lag-max", 0.5*7200)
	s.want(t, r, 1, "lag-min", -0.5*7200)
	s.want(t, r, -1, "utilisation", 50)
	s.want(t, r, -1, "idle-while-waiting", 50)
}

// TestWaits has two jobs of one account take turns on one slot.
func TestWaits(t *testing.T) {
	s := accounts(100)
	s.nodes(1)
	a, b := s.job(0), s.job(0)
	s.run(a, 10*second, 70*second)
	s.run(b, 80*second, 180*second)
	s.run(a, 190*second, 290*second) // it waited 120 s
	s.run(b, 300*second, 360*second) // it waited 120 s
	r := s.play(t, Options{Duration: 10 * minute})
	s.want(t, r, 0, "wait-first-p50", 10)
	s.want(t, r, 0, "wait-first-max", 80)
	s.want(t, r, -1, "wait-turn-p50", 120)
	s.want(t, r, -1, "run-length-p50", 60)
	s.want(t, r, -1, "run-length-p95", 100)
	s.want(t, r, -1, "longest-gap", 310) // a waits from 290 s to the end
	s.want(t, r, -1, "waiting-at-end", 2)
	s.want(t, r, -1, "starts", 24)
	s.want(t, r, -1, "rotations", 24)
}
