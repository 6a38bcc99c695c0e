package forecast

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/instant"
	"couchrelay/core/prng"
	"couchrelay/core/schedule"
)

// twin plays a queue job by job, with the functions of package schedule that nodes call, in rounds of an interval.
type twin struct {
	order    schedule.Order
	limits   schedule.Limits
	accounts []schedule.Account
	running  []*twinJob
	waiting  []*twinJob // in order
	virtual  int64
	got      []outcome // of each account
}

type twinJob struct {
	account int
	place   schedule.Place
	since   int // the round in which it started or stopped
}

// outcome is what an account got after the first third of the rounds.
type outcome struct {
	used, waits, waited, runs, ran, longest float64
}

func newTwin(s config.Settings, q Queue) *twin {
	sharing := s.Replicator.Sharing
	sharing.Forgetting.Interval = s.Node.Interval
	w := &twin{limits: s.Node.Limits, got: make([]outcome, len(q.Accounts))}
	w.order = schedule.Order{
		Policy: sharing.Policy, Forgetting: sharing.Forgetting, PriorityCoeff: sharing.PriorityCoeff,
	}
	w.order.Decay.HalfLife = w.order.HalfLife(0, 0)
	var all []*twinJob
	for i, a := range q.Accounts {
		w.accounts = append(w.accounts, schedule.Account{Shares: sharing.Shares[a.Name], Jobs: a.Jobs})
		for range a.Jobs {
			all = append(all, &twinJob{account: i})
		}
	}
	rng := prng.New(1)
	for i, n := range rng.Sample(len(all), len(all)) {
		a := &w.accounts[all[n].account]
		all[n].place, *a = w.order.Enter(0, *a)
		if i < w.limits.MaxJobs {
			w.running = append(w.running, all[n])
		} else {
			w.waiting = append(w.waiting, all[n])
		}
	}
	slices.SortStableFunc(w.waiting, compareTwins)
	return w
}

func (w *twin) play(rounds int) []outcome {
	for c := 1; c <= rounds; c++ {
		w.round(c, c > rounds/3)
	}
	for _, j := range w.waiting { // those that wait in the end
		o := &w.got[j.account]
		o.longest = max(o.longest, float64(rounds-j.since))
	}
	return w.got
}

func compareTwins(a, b *twinJob) int {
	return cmp.Or(a.place.Compare(b.place), cmp.Compare(a.since, b.since))
}

func (w *twin) round(c int, counts bool) {
	interval := w.order.Forgetting.Interval
	now := instant.Time(0).Add(time.Duration(c) * interval)
	if half := w.order.HalfLife(int64(len(w.waiting)), w.limits.MaxChurn); half != w.order.Decay.HalfLife {
		w.order.Decay = w.order.Decay.Changed(now, half)
	}
	for i := range w.accounts {
		a := &w.accounts[i]
		a.Usage, a.Tail = a.Usage*w.order.Forgetting.Coeff/million, w.order.Tail(a.Tail, w.virtual)
	}
	for _, j := range w.running {
		w.accounts[j.account].Usage += interval.Microseconds()
		if counts {
			w.got[j.account].used++
		}
	}
	var candidates []schedule.Running
	for _, j := range w.running {
		j.place = w.order.Next(schedule.Turn{Place: j.place}, interval, now, w.accounts[j.account])
		since := instant.Time(0).Add(time.Duration(j.since) * interval)
		candidates = append(candidates, schedule.Running{Continuous: true, Since: since, Place: j.place})
	}
	var ready []schedule.Place
	for _, j := range w.waiting[:min(len(w.waiting), w.limits.MaxChurn)] {
		ready = append(ready, j.place)
	}
	stops := schedule.Rotate(w.order.Policy, candidates, 0, ready, w.limits, now)
	w.swap(stops, c, now, counts)
}

// swap stops runs and starts as many.
func (w *twin) swap(stops []int, c int, now instant.Time, counts bool) {
	interval, stopped := w.order.Forgetting.Interval, []*twinJob(nil)
	for _, i := range stops {
		j := w.running[i]
		stopped = append(stopped, j)
		a, o, ran := &w.accounts[j.account], &w.got[j.account], c-j.since
		turn := schedule.Turn{Place: j.place, Owed: time.Duration(ran) * interval}
		j.place, *a = w.order.Settle(turn, now, *a)
		if counts {
			o.runs, o.ran = o.runs+1, o.ran+float64(ran)
		}
		j.since = c
	}
	next := w.waiting[:len(stops)]
	w.running = slices.DeleteFunc(w.running, func(j *twinJob) bool { return slices.Contains(stopped, j) })
	for _, j := range next {
		o, waited := &w.got[j.account], float64(c-j.since)
		if counts {
			o.waits, o.waited, o.longest = o.waits+1, o.waited+waited, max(o.longest, waited)
		}
		j.since, w.virtual = c, max(w.virtual, j.place.Key)
	}
	w.running = append(w.running, next...)
	w.waiting = w.waiting[len(next):]
	for _, j := range stopped {
		i, _ := slices.BinarySearchFunc(w.waiting, j, compareTwins)
		w.waiting = slices.Insert(w.waiting, i, j)
	}
}

// TestTwin: predicted shares, runs and waits are those of the algorithm. Shares are in points, times in percent.
func TestTwin(t *testing.T) {
	for _, c := range []struct {
		name         string
		slots, churn int
		coeff        int64
		policy       schedule.Policy
		shares, jobs []int64
		points, time float64
	}{
		{"CouchDB's A", 50, 10, 980_000, schedule.FairShare, []int64{100, 100}, []int64{100, 100}, 0.5, 5},
		{"CouchDB's B", 50, 10, 980_000, schedule.FairShare, []int64{900, 100}, []int64{100, 100}, 1, 15},
		{"CouchDB's C", 50, 10, 980_000, schedule.FairShare, []int64{100, 100}, []int64{50, 150}, 0.5, 5},
		{"CouchDB's F", 75, 10, 980_000, schedule.FairShare, []int64{100, 700, 200}, []int64{100, 100, 100}, 1, 15},
		{"CouchDB's H", 75, 10, 980_000, schedule.FairShare, []int64{1000, 100, 1}, []int64{125, 150, 900}, 1, 15},
		{"CouchDB's K2", 100, 4, 980_000, schedule.FairShare, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 3},
		{"short memory", 100, 4, 900_000, schedule.FairShare, []int64{200, 100, 50}, []int64{400, 1000, 600}, 2.5, 20},
		{"long memory", 100, 4, 998_000, schedule.FairShare, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 5},
		{"auto", 100, 4, 0, schedule.FairShare, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 4},
		{"all change", 50, 50, 0, schedule.FairShare, []int64{200, 100, 50}, []int64{200, 500, 300}, 4, 20},
		{"a noisy neighbour", 50, 5, 0, schedule.FairShare, []int64{100, 100, 100}, []int64{900, 40, 30}, 2, 25},
		{"a modest account", 50, 5, 0, schedule.FairShare, []int64{500, 100, 100}, []int64{10, 300, 200}, 0.5, 10},
		{"fifo", 100, 4, 0, schedule.FIFO, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 2},
		{"tags", 100, 8, 0, schedule.Tags, []int64{200, 100, 50}, []int64{400, 1000, 600}, 0.5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, q := world(c.slots, c.churn, c.coeff, c.shares, c.jobs)
			s.Replicator.Sharing.Policy = c.policy
			f := inRounds(s, q)
			compareWith(t, f, newTwin(s, q).play(int(8*f.Turn/time.Minute)+1000), c.points, c.time)
		})
	}
}

func compareWith(t *testing.T, f Forecast, got []outcome, points, percent float64) {
	var all float64
	for _, o := range got {
		all += o.used
	}
	near := func(what, name string, predicted, measured, within float64) {
		t.Logf("%s of %s: %.2f, measured %.2f", what, name, predicted, measured)
		if predicted < measured-within || predicted > measured+within {
			t.Errorf("%s of %s: %.2f, measured %.2f", what, name, predicted, measured)
		}
	}
	for i, o := range f.Accounts {
		m := got[i]
		near("share", o.Name, float64(o.Expected)/10_000, 100*m.used/all, points)
		if m.runs == 0 || m.waits == 0 {
			continue
		}
		near("wait", o.Name, o.Wait.Minutes(), m.waited/m.waits, percent*m.waited/m.waits/100)
		near("run", o.Name, o.Run.Minutes(), m.ran/m.runs, percent*m.ran/m.runs/100+0.5)
		bounded, longest := f.Memory < min(o.Wait, f.Turn), o.LongestWait.Minutes()
		t.Logf("longest wait of %s: %.0f, measured %.0f", o.Name, longest, m.longest)
		if bounded && (m.longest > 1.05*longest+2 || longest > 1.5*m.longest) {
			t.Errorf("longest wait of %s: %.0f, measured %.0f", o.Name, longest, m.longest)
		}
	}
}
