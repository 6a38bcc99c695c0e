package metrics

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/sim/lab"
	"couchrelay/sim/workload"

	"pgregory.net/rapid"
)

// twin makes up what happens, and measures it as plainly as can be: it looks at everything every second, keeps
// what it saw, and computes metrics from that in the end. All happens at whole seconds.
type twin struct {
	script
	o     Options
	now   int // seconds
	jobs  []twinJob
	slots []int
	share []int64

	// By account, and the last one over all.
	values []map[kind][]float64
	counts []map[string]float64
	gaps   []float64
	fresh  [][]float64

	received, entitled [][]float64 // by account and second since the warm-up
	capacity, idle     float64
	turn               map[int]bool // jobs that are waited for
	turnBegan          int
	fullTurns          []float64
	upsets             []int
}

type twinJob struct {
	state                 State
	since                 int
	hasRun, hasProgressed bool
	copied, base          float64
	submit                int
}

func drawTwin(t *rapid.T) *twin {
	draw := func(low, high int, what string) int { return rapid.IntRange(low, high).Draw(t, what) }
	w := &twin{turn: map[int]bool{}}
	for range draw(1, 4, "accounts") {
		w.share = append(w.share, int64(draw(1, 5, "shares")))
	}
	w.script = accounts(w.share...)
	n := len(w.share)
	for range n + 1 {
		w.values, w.counts = append(w.values, map[kind][]float64{}), append(w.counts, map[string]float64{})
	}
	w.gaps, w.fresh = make([]float64, n+1), make([][]float64, n+1)
	w.received, w.entitled = make([][]float64, n), make([][]float64, n)
	w.jobs = make([]twinJob, draw(1, 10, "jobs"))
	for range w.jobs {
		j := workload.Job{Account: draw(0, n-1, "account"), Continuous: draw(0, 2, "kind") > 0}
		j.Startup = time.Duration(draw(0, 20, "startup")) * second
		j.Backlog, j.Speed = float64(draw(0, 3, "backlog")*400), float64(draw(1, 10, "speed"))
		if j.Continuous {
			j.Rate = float64(draw(0, 3, "rate"))
		}
		w.w.Jobs = append(w.w.Jobs, j)
	}
	w.o = Options{WarmUp: time.Duration(draw(0, 2, "warm-up")*777) * second}
	w.o.Duration = w.o.WarmUp + time.Duration(draw(100, 5000, "duration"))*second
	if draw(0, 1, "outage") == 1 {
		at := draw(0, 5000, "from")
		w.upsets = append(w.upsets, at)
		w.w.Outages = []workload.Outage{{From: time.Duration(at) * second, To: time.Duration(at+1) * second}}
	}
	w.slots = make([]int, draw(1, 2, "nodes"))
	for node := range w.slots {
		w.node(node, draw(1, 4, "slots"))
	}
	for range draw(1, 120, "events") {
		w.pass(draw(0, 3, "gap") * draw(0, 60, "length"))
		if draw(0, 15, "concerns") > 0 {
			w.act(draw(0, len(w.jobs)-1, "job"), draw(0, 10, "action"), float64(draw(0, 3, "lost"))/3)
		} else if a := draw(0, n-1, "account"); draw(0, 1, "node") == 0 {
			w.share[a] = int64(draw(1, 5, "shares"))
			w.events = append(w.events, lab.Event{At: w.time(), What: lab.SharesSet, Account: a, Shares: w.share[a]})
		} else {
			w.node(draw(0, len(w.slots)-1, "node"), draw(0, 4, "slots"))
		}
	}
	end := int(w.o.Duration / second)
	w.pass(end - w.now)
	w.now = end // events may have come after it
	return w
}

func (w *twin) time() time.Duration { return time.Duration(w.now) * second }
func (w *twin) warm() int           { return int(w.o.WarmUp / second) }

// measured reports whether what happens now is measured.
func (w *twin) measured() bool { return w.time() >= w.o.WarmUp && w.time() <= w.o.Duration }

func (w *twin) node(n, slots int) {
	e := lab.Event{At: w.time(), What: lab.NodeUp, Job: -1, Node: n, Slots: slots}
	if w.slots[n] = slots; slots == 0 {
		e.What = lab.NodeDown
		w.upsets = append(w.upsets, w.now)
	}
	w.events = append(w.events, e)
}

// note adds a value to an account and to all.
func (w *twin) note(j int, k kind, x int) {
	if w.measured() {
		for _, a := range []int{w.w.Jobs[j].Account, len(w.share)} {
			w.values[a][k] = append(w.values[a][k], float64(x))
		}
	}
}

func (w *twin) count(j int, what string, x float64) {
	if w.measured() {
		for _, a := range []int{w.w.Jobs[j].Account, len(w.share)} {
			w.counts[a][what] += x
		}
	}
}

func (w *twin) gap(j int) {
	if w.measured() {
		for _, a := range []int{w.w.Jobs[j].Account, len(w.share)} {
			w.gaps[a] = max(w.gaps[a], float64(w.now-w.jobs[j].since))
		}
	}
}

func (w *twin) act(n, action int, lost float64) {
	j, wj := &w.jobs[n], &w.w.Jobs[n]
	if w.time() > w.o.Duration {
		w.at(w.time(), lab.Started, n) // must not be looked at
		return
	}
	switch {
	case j.state == absent:
		wj.Submit, j.submit = w.time(), w.now
		w.at(w.time(), lab.Submitted, n)
		w.to(n, Waiting)
	case j.state == Backoff && action > 0:
		w.at(w.time(), lab.Ready, n)
		w.to(n, Waiting)
	case j.state == Waiting && action > 0:
		w.at(w.time(), lab.Started, n)
		w.gap(n)
		if j.hasRun {
			w.note(n, waitTurn, w.now-j.since)
		} else {
			w.note(n, waitFirst, w.now-j.since)
		}
		w.count(n, "starts", 1)
		j.hasRun, j.base = true, j.copied
		w.to(n, Running)
	case j.state == Running:
		why := []lab.Why{lab.Taken, lab.GaveWay, lab.GaveWay, lab.GaveWay, lab.Killed, lab.Vanished, lab.Crashed,
			lab.Crashed, lab.Completed, lab.Completed, lab.GaveWay}[action]
		if why != lab.Completed || !wj.Continuous {
			w.ends(n, why, lost)
		}
	}
	if action == 0 && j.state != absent && j.state != Running {
		if j.state == Waiting {
			w.gap(n)
		}
		w.at(w.time(), lab.Removed, n)
		w.to(n, over)
	}
}

func (w *twin) ends(n int, why lab.Why, lost float64) {
	j, wj := &w.jobs[n], &w.w.Jobs[n]
	w.note(n, runLength, w.now-j.since)
	state := Waiting
	switch why {
	case lab.GaveWay, lab.Taken:
		lost = 0
	case lab.Completed:
		w.count(n, "copied", wj.Backlog-j.copied)
		j.copied, lost = wj.Backlog, 0
		took, alone := float64(w.now-j.submit), wj.Startup.Seconds()+wj.Backlog/wj.Speed
		w.count(n, "completed", 1)
		w.note(n, turnaround, w.now-j.submit)
		if w.measured() {
			for _, a := range []int{wj.Account, len(w.share)} {
				if alone > 0 {
					w.values[a][slowdown] = append(w.values[a][slowdown], took/alone)
				}
				w.values[a][boundedSlowdown] = append(w.values[a][boundedSlowdown], max(1, took/max(60, alone)))
			}
		}
	}
	lost *= j.copied - j.base
	j.copied -= lost
	w.count(n, "lost", lost)
	w.end(w.time(), n, why, j.copied-j.base)
	switch why {
	case lab.GaveWay, lab.Killed:
		w.count(n, "rotations", 1)
	case lab.Crashed:
		state = Backoff
	case lab.Completed, lab.Taken:
		state = over
	}
	w.to(n, state)
}

// to is what turns see of a change.
func (w *twin) to(n int, s State) {
	w.jobs[n].state, w.jobs[n].since = s, w.now
	was := len(w.turn) > 0
	delete(w.turn, n)
	if len(w.turn) == 0 && (was || s == Waiting) {
		if was && w.measured() {
			w.fullTurns = append(w.fullTurns, float64(w.now-w.turnBegan))
		}
		w.beginTurn()
	}
}

func (w *twin) beginTurn() {
	w.turnBegan = w.now
	for n, j := range w.jobs {
		if j.state == Waiting {
			w.turn[n] = true
		}
	}
}

// pass looks at every second.
func (w *twin) pass(seconds int) {
	for range seconds {
		if w.measured() && w.time() < w.o.Duration {
			w.look()
		}
		for n := range w.jobs {
			if j, wj := &w.jobs[n], &w.w.Jobs[n]; w.time() < w.o.Duration {
				w.age(j, wj, n)
			}
		}
		if w.now++; w.now == w.warm() {
			clear(w.turn)
			w.beginTurn()
		}
	}
}

// look counts slots in this second.
func (w *twin) look() {
	n := len(w.share)
	running, demand := make([]float64, n), make([]int64, n)
	used, waits, capacity := 0.0, 0.0, 0.0
	for i, j := range w.jobs {
		a := w.w.Jobs[i].Account
		switch j.state {
		case Running:
			running[a]++
			demand[a]++
			used++
			if ran := time.Duration(w.now-j.since) * second; ran < w.w.Jobs[i].Startup {
				w.count(i, "startup", 1)
			} else if !j.hasProgressed {
				w.note(i, firstProgress, w.now-j.submit)
			}
		case Waiting:
			demand[a]++
			waits++
		}
	}
	for a, x := range fill(used, demand, w.share) {
		w.received[a] = append(w.received[a], running[a])
		w.entitled[a] = append(w.entitled[a], x)
	}
	for _, k := range w.slots {
		capacity += float64(k)
	}
	w.capacity += capacity
	w.idle += max(0, min(capacity-used, waits))
}

// age copies in small steps, and notes ages after each.
func (w *twin) age(j *twinJob, wj *workload.Job, n int) {
	const steps = 4
	copies := j.state == Running && time.Duration(w.now-j.since)*second >= wj.Startup
	j.hasProgressed = j.hasProgressed || copies
	for i := 1; i <= steps && j.state != absent && j.state != over; i++ {
		t := float64(w.now-j.submit) + float64(i)/steps
		arrived := wj.Backlog + wj.Rate*t
		if copies {
			before := j.copied
			j.copied = min(arrived, j.copied+wj.Speed/steps)
			w.count(n, "copied", j.copied-before)
		}
		age := 0.0
		switch {
		case j.copied < wj.Backlog:
			age = t
		case j.copied < arrived:
			age = t - (j.copied-wj.Backlog)/wj.Rate
		}
		if wj.Continuous && w.measured() {
			for _, a := range []int{wj.Account, len(w.share)} {
				w.fresh[a] = append(w.fresh[a], age)
			}
		}
	}
}

// TestTwin compares every metric.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTwin(t)
		m, err := New(&w.w, w.o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range w.events {
			m.Observe(e)
		}
		r := m.Result()
		for i, d := range Definitions {
			for a := range len(w.share) + 1 {
				got := r.Overall[i]
				if a < len(w.share) {
					got = r.PerAccount[a][i]
				}
				if a < len(w.share) && !d.PerAccount || a == len(w.share) && !d.Overall {
					if !math.IsNaN(got) {
						t.Fatalf("%s of account %d is %v, but has no meaning", d.Name, a, got)
					}
					continue
				}
				if err := w.compare(d.Name, a, got); err != nil {
					t.Fatalf("account %d of %d: %v", a, len(w.share), err)
				}
			}
		}
	})
}

// compare compares the value of a metric of an account, or of all.
func (w *twin) compare(name string, a int, got float64) error {
	for k, f := range families {
		for _, q := range []struct {
			name string
			part float64
		}{{"-p50", 0.5}, {"-p95", 0.95}, {"-p99", 0.99}, {"-max", 1}} {
			if name == f.Name+q.name && name != "lag-max" {
				return w.compareQuantile(name, kind(k), a, q.part, got)
			}
		}
	}
	want, known := w.expect(name, a)
	if !known {
		return fmt.Errorf("the twin does not know %s", name)
	}
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
		return fmt.Errorf("%s is %v, want %v", name, got, want)
	}
	return nil
}

func (w *twin) compareQuantile(name string, k kind, a int, q, got float64) error {
	values := w.values[a][k]
	slack := 0.0
	switch k {
	case freshness:
		values, slack = w.fresh[a], 0.003
	case lagSize:
		values = w.lagSizes(a)
	}
	if len(values) == 0 {
		if !math.IsNaN(got) {
			return fmt.Errorf("%s is %v of no values", name, got)
		}
		return nil
	}
	slices.Sort(values)
	low, high := rank(values, q-slack), rank(values, q+slack)
	if k == freshness {
		low, high = low-0.3, high+0.3
		if q == 1 {
			high += 2.5 // the largest age may come between two steps, and fall by 10 s a second
		}
	}
	if got < low*0.992-1e-6 || got > high*1.008+1e-6 {
		return fmt.Errorf("%s is %v, want %v to %v", name, got, low, high)
	}
	return nil
}

// rank is the least value that a part q does not exceed.
func rank(sorted []float64, q float64) float64 {
	n := len(sorted)
	return sorted[min(max(int(math.Ceil(q*float64(n)-1e-9))-1, 0), n-1)]
}
