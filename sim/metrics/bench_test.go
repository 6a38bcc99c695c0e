package metrics

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"couchrelay/core/prng"
	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
)

// rotation is a world of continuous jobs that take turns: every minute 20 of 500 runs give way to those that have
// waited longest.
type rotation struct {
	w       workload.Workload
	now     time.Duration
	running []int
	waiting []int
}

const (
	rotationSlots = 500
	rotationChurn = 20
)

func newRotation(accounts, jobs int, bursts bool) *rotation {
	r := &rotation{}
	rng := prng.New(1)
	for a := range accounts {
		r.w.Accounts = append(r.w.Accounts, workload.Account{Name: fmt.Sprint(a), Shares: int64(1 + rng.Intn(1000))})
	}
	for range jobs {
		j := workload.Job{Account: rng.Intn(accounts), Continuous: true, Startup: 5 * second, Speed: 100}
		j.Rate, j.Backlog = float64(1+rng.Intn(100))/10, 1000
		if bursts {
			j.Every, j.Burst = 10*minute, second
		}
		r.w.Jobs = append(r.w.Jobs, j)
	}
	return r
}

func (r *rotation) begin(tell func(lab.Event)) {
	tell(lab.Event{What: lab.NodeUp, Job: -1, Slots: rotationSlots})
	for j := range r.w.Jobs {
		tell(lab.Event{What: lab.Submitted, Job: j})
		r.waiting = append(r.waiting, j)
	}
	for range rotationSlots {
		r.start(tell)
	}
}

func (r *rotation) start(tell func(lab.Event)) {
	tell(lab.Event{At: r.now, What: lab.Started, Job: r.waiting[0]})
	r.running = append(r.running, r.waiting[0])
	r.waiting = r.waiting[1:]
}

// minute tells what happens in one.
func (r *rotation) minute(tell func(lab.Event)) {
	r.now += minute
	for range rotationChurn {
		j := r.running[0]
		r.running = r.running[1:]
		tell(lab.Event{At: r.now, What: lab.Ended, Job: j, Why: lab.GaveWay, Copied: 500})
		r.waiting = append(r.waiting, j)
		r.start(tell)
		r.now += second
	}
	r.now = r.now.Truncate(minute)
}

// BenchmarkMinute measures virtual minutes of 40 events, and reports how much faster than the clock they pass, and
// which part of the budget of 50 us they take.
func BenchmarkMinute(b *testing.B) {
	for _, c := range []struct {
		name           string
		accounts, jobs int
		bursts, series bool
	}{
		{"3 accounts", 3, 10_000, false, false},
		{"3 accounts bursts", 3, 10_000, true, false},
		{"3 accounts series", 3, 10_000, false, true},
		{"100 accounts", 100, 10_000, false, false},
		{"1000 accounts", 1000, 10_000, false, false},
		{"10000 accounts", 10_000, 10_000, false, false},
		{"1000000 jobs", 3, 1_000_000, false, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRotation(c.accounts, c.jobs, c.bursts)
			m, err := New(&r.w, Options{Duration: 1e6 * hour, WarmUp: hour, Series: c.series})
			if err != nil {
				b.Fatal(err)
			}
			r.begin(m.Observe)
			for range 60 {
				r.minute(m.Observe)
			}
			for b.Loop() {
				r.minute(m.Observe)
			}
			each := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(60/each, "virtual/real")
			b.ReportMetric(each/50e-6, "of-budget")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestMemory has a meter of a million jobs take less than 100 bytes for each.
func TestMemory(t *testing.T) {
	const jobs = 1_000_000
	r := newRotation(3, jobs, false)
	before := heap()
	m, err := New(&r.w, Options{Duration: 24 * hour, WarmUp: hour, Series: true})
	if err != nil {
		t.Fatal(err)
	}
	r.begin(m.Observe)
	for range 120 {
		r.minute(m.Observe)
	}
	waiting := 8 * (cap(r.waiting) + cap(r.running)) // of the test's own
	if each := float64(heap()-before-uint64(waiting)) / jobs; each > 100 {
		t.Errorf("the meter takes %.0f bytes for each job", each)
	}
	runtime.KeepAlive(m)
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestSameBits plays the same events twice and expects equal results to the last bit.
func TestSameBits(t *testing.T) {
	var before string
	for range 2 {
		r := newRotation(10, 2000, true)
		m, err := New(&r.w, Options{Duration: 8 * hour, WarmUp: hour, Series: true, Gantt: 50})
		if err != nil {
			t.Fatal(err)
		}
		r.begin(m.Observe)
		for range 600 {
			r.minute(m.Observe)
		}
		res := m.Result()
		all := fmt.Sprintf("%x %x %x %v", res.Overall, res.PerAccount, *res.Series, res.Gantt)
		if before != "" && all != before {
			t.Error("the second result differs")
		}
		before = all
	}
}
