package node

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

// tenant makes a replicator database with endless jobs.
func (w *world) tenant(name string, instance byte, jobs int) {
	w.t.Helper()
	w.do(func(tx kv.Tx) error { return w.s.Docs.Create(tx, name, tuple.UUID{instance}, w.now) })
	w.edit(name, instance, jobs)
}

// documentJob is the id of the job of a tenant's document.
func documentJob(instance byte, i int) string {
	return fmt.Sprintf("%02x%030d|r%03d", instance, 0, i)
}

// edit writes the documents of a tenant, over those that are there.
func (w *world) edit(name string, instance byte, jobs int) {
	w.t.Helper()
	for i := range jobs {
		w.do(func(tx kv.Tx) error {
			db, err := w.s.Docs.Open(tx, name)
			if err != nil {
				return err
			}
			body := fmt.Sprintf(`{"_id":"r%03d","source":"http://%[2]s/a%[1]d","target":"http://%[2]s/b%[1]d",`+
				`"continuous":true}`, i, string('a'+rune(instance)))
			if w.weigh != nil {
				body = fmt.Sprintf(`%s,"weight":%d}`, body[:len(body)-1], w.weigh(i))
			}
			doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
			if err != nil {
				return err
			}
			if old, err := db.Read(doc.ID, docs.Want{}); err == nil {
				doc.Rev = old.Rev
			}
			_, err = w.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc}}, jobstore.Writer{Admin: true}, w.now)
			return err
		})
	}
}

func (w *world) share(change func(*jobstore.Sharing)) {
	w.t.Helper()
	c := jobstore.DefaultSharing()
	change(&c)
	w.do(func(tx kv.Tx) error { return w.s.Share(tx, c, w.now) })
}

// used adds up what the store remembers of an account.
func (w *world) used(account string) (sum time.Duration) {
	w.t.Helper()
	w.do(func(tx kv.Tx) error {
		charges, err := w.s.Charges(tx, account)
		sum = 0
		for _, c := range charges {
			sum += time.Duration(c.Used) * time.Microsecond
		}
		return err
	})
	return sum
}

// play lets time pass with runs that stop when they are asked to, and returns how long each account's ran.
func (w *world) play(d time.Duration) map[string]time.Duration {
	const tick = 15 * time.Second
	ran := map[string]time.Duration{}
	for end := w.now.Add(d); w.now < end; {
		w.pass(tick)
		for _, n := range w.nodes {
			ids := []uint64{}
			for id, work := range n.running {
				ran[work.Record.Account()] += tick
				w.ran[work.JobID] += tick
				if n.stopped[id] {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			for _, id := range ids {
				n.endRun(id, replication.Stopped)
			}
		}
	}
	return ran
}

func (w *world) all(ran map[string]time.Duration) (sum float64) {
	for _, d := range ran {
		sum += d.Seconds()
	}
	return sum
}

// TestSharesOfTwoNodes: accounts get what their shares say, whatever the number of their jobs and the nodes on
// which they run, and after a change of shares what the new ones say.
func TestSharesOfTwoNodes(t *testing.T) {
	for _, c := range []struct {
		policy        schedule.Policy
		before, after float64 // percent of the first account
		within        float64
	}{
		{schedule.FairShare, 75, 25, 2}, {schedule.Tags, 75, 25, 2}, {schedule.FIFO, 33, 33, 3},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			w := newWorld(t)
			set := func(a, b int64) {
				w.share(func(s *jobstore.Sharing) {
					s.Policy, s.Shares = c.policy, map[string]int64{"a/_replicator": a, "b/_replicator": b}
				})
			}
			set(300, 100)
			w.tenant("a/_replicator", 2, 20)
			w.tenant("b/_replicator", 3, 40)
			w.startTwo()
			percent := func() float64 {
				w.play(90 * time.Minute)
				ran := w.play(3 * time.Hour)
				a, b := ran["a/_replicator"].Seconds(), ran["b/_replicator"].Seconds()
				return 100 * a / (a + b)
			}
			before := percent()
			set(100, 300)
			after := percent()
			t.Logf("%.1f%%, then %.1f%%", before, after)
			if math.Abs(before-c.before) > c.within || math.Abs(after-c.after) > c.within {
				t.Errorf("the first account got %.1f%% and %.1f%%, want %.0f%% and %.0f%%", before, after, c.before,
					c.after)
			}
			w.audit()
		})
	}
}

// startTwo starts two nodes with six slots each.
func (w *world) startTwo() {
	for _, name := range []string{"n1", "n2"} {
		w.start(name, func(cfg *Config) {
			cfg.Limits = schedule.Limits{MaxJobs: 6, MaxChurn: 2}
			cfg.ActivityTimeout, cfg.PollInterval, cfg.StopTimeout = 10*time.Minute, time.Minute, time.Minute
		})
	}
}

// TestSharesOfDifferingClocks: accounts get what their shares say though the clock of a node is behind all the time;
// under tags by however much.
func TestSharesOfDifferingClocks(t *testing.T) {
	for _, c := range []struct {
		policy schedule.Policy
		skew   time.Duration
	}{
		{schedule.FairShare, -15 * time.Minute}, {schedule.Tags, -15 * time.Minute},
		{schedule.Tags, -24 * time.Hour}, {schedule.Tags, 24 * time.Hour},
	} {
		w := newWorld(t)
		w.share(func(s *jobstore.Sharing) { s.Policy, s.Shares = c.policy, map[string]int64{"a/_replicator": 300} })
		w.tenant("a/_replicator", 2, 20)
		w.tenant("b/_replicator", 3, 40)
		w.startTwo()
		w.nodes[1].skew = c.skew
		w.play(90 * time.Minute)
		ran := w.play(3 * time.Hour)
		if got := 100 * ran["a/_replicator"].Seconds() / w.all(ran); math.Abs(got-75) > 2 {
			t.Errorf("%s, %s: the first account got %.1f%%, want 75%%", c.policy, c.skew, got)
		}
	}
}

// TestWeightsOfTwoNodes: the jobs of an account have time in proportion to their weights, on whichever node they run,
// and after an edit of their documents in proportion to the new ones; their account has its share.
func TestWeightsOfTwoNodes(t *testing.T) {
	for policy, within := range map[schedule.Policy]float64{
		schedule.FairShare: 0.4, // it forgets the turns of the lighter ones more
		schedule.Tags:      0.1,
	} {
		t.Run(policy.String(), func(t *testing.T) {
			w := newWorld(t)
			w.share(func(s *jobstore.Sharing) { s.Policy = policy })
			w.weigh = func(i int) int64 { return 100 + int64(i%2)*200 }
			w.tenant("a/_replicator", 2, 20)
			w.weigh = nil
			w.tenant("b/_replicator", 3, 20)
			for _, name := range []string{"n1", "n2"} {
				w.start(name, func(cfg *Config) {
					cfg.Limits = schedule.Limits{MaxJobs: 4, MaxChurn: 2}
					cfg.ActivityTimeout, cfg.PollInterval, cfg.StopTimeout = 10*time.Minute, time.Minute, time.Minute
				})
			}
			check := func(heavy int) {
				t.Helper()
				w.play(time.Hour)
				clear(w.ran)
				ran := w.play(5 * time.Hour)
				var light, heavier time.Duration
				for i := range 20 {
					if d := w.ran[documentJob(2, i)]; i%2 == heavy {
						heavier += d
					} else {
						light += d
					}
				}
				ratio, share := heavier.Seconds()/light.Seconds(), ran["a/_replicator"].Seconds()/w.all(ran)
				t.Logf("ratio %.2f, share %.3f", ratio, share)
				if math.Abs(ratio-3) > within || math.Abs(share-0.5) > 0.02 {
					t.Errorf("three times the weight makes %.2f times the time, and %.3f for the account", ratio, share)
				}
			}
			check(1)
			w.weigh = func(i int) int64 { return 300 - int64(i%2)*200 }
			w.edit("a/_replicator", 2, 20)
			check(0)
			w.audit()
		})
	}
}

// TestRoundsEnd: under tags, a node ends a round of the queue after eight full turns, once.
func TestRoundsEnd(t *testing.T) {
	w := newWorld(t)
	w.share(func(s *jobstore.Sharing) { s.Policy = schedule.Tags })
	w.tenant("a/_replicator", 2, 12)
	w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 4, MaxChurn: 2} })
	round := func() (r schedule.Round) {
		w.do(func(tx kv.Tx) error {
			o, err := w.s.Order(tx)
			r = o.Round
			return err
		})
		return r
	}
	w.play(2 * time.Minute)
	first := round()
	w.play(29 * time.Minute) // a full turn of eight jobs takes four minutes
	if got := round(); first.Since == 0 || got != first {
		t.Errorf("the round is %+v, and was %+v", got, first)
	}
	w.play(4 * time.Minute)
	if got := round(); got.Since <= first.Since || got.Last == 0 {
		t.Errorf("no round has ended: %+v", got)
	}
}

// useMuch has the account of _replicator have used much.
func (w *world) useMuch() {
	w.do(func(tx kv.Tx) error {
		at := (w.now / 60_000_000 * 60_000_000).Add(-2 * time.Minute)
		return w.s.Charge(tx, []schedule.Charge{{Account: "_replicator", At: at, Worker: "x", Used: 1 << 40}}, w.now)
	})
}

// TestWaitingRunDoesNotGrow: a run that waits for an old run of its job to stop uses nothing of its slot.
func TestWaitingRunDoesNotGrow(t *testing.T) {
	w := newWorld(t)
	w.put("r", `{"source":"http://h/a","target":"http://h/b","continuous":true}`)
	w.useMuch()
	n := w.start("n1", nil)
	w.pass(time.Second)
	w.put("r", `{"source":"http://h/c","target":"http://h/b","continuous":true}`)
	w.pass(100 * time.Millisecond)
	r := n.runs[len(n.runs)-1]
	if r.start == nil || n.Running() != 2 {
		t.Fatalf("%d runs", n.Running())
	}
	before := r.place
	for range 3 {
		w.pass(time.Second)
		n.step(Configure{Settings: n.cfg.Settings}) // grows
	}
	if r.start == nil || r.place != before {
		t.Errorf("begun: %t, at %+v instead of %+v", r.start == nil, r.place, before)
	}
	waits := r.charged.Add(-time.Minute)
	r.charged = waits
	if n.charge(r); r.charged != waits {
		t.Error("the time in which it waits is charged")
	}
	if n.halt(r, "its lease is over"); r.charged != waits {
		t.Error("it is charged as it ends, and had not begun")
	}
}

// TestPlaceGrowsWithTime, not with the number of looks at the queue.
func TestPlaceGrowsWithTime(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	w.useMuch()
	n := w.start("n1", nil)
	look := func() int64 {
		n.step(Configure{Settings: n.cfg.Settings})
		return n.runs[0].place.Key
	}
	w.pass(time.Second)
	first := look()
	w.pass(10 * time.Second)
	second := look()
	for range 5 {
		look()
	}
	if third := look(); first >= second || third != second {
		t.Errorf("grew from %d to %d to %d", first, second, third)
	}
}

// TestIdleTimeIsFree: under tags nobody owes for the time in which nobody waited.
func TestIdleTimeIsFree(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		w := newWorld(t)
		w.share(func(c *jobstore.Sharing) { c.Policy = schedule.Tags })
		w.putMany(2, true)
		n := w.start("n1", func(c *Config) {
			if waiting {
				c.Limits = schedule.Limits{MaxJobs: 1}
			}
		})
		w.pass(time.Hour)
		owed := time.Duration(0)
		n.hold = func(q Request) bool {
			if r, is := q.(Requeue); is {
				owed += r.Turn.Owed
			}
			return false
		}
		n.step(Drain{})
		n.stopAll()
		if waiting != (owed > 50*time.Minute) || !waiting && owed != 0 {
			t.Errorf("waiting %v: owed %s", waiting, owed)
		}
	}
}

// TestSurveyAcrossPolicies: what the first part of a survey read under another policy than the last one counts for
// nothing.
func TestSurveyAcrossPolicies(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	w.tenant("a/_replicator", 2, 1)
	n := w.start("n1", func(c *Config) { c.Batches.Survey = 1 })
	parts := 0
	n.hold = func(q Request) bool {
		if _, is := q.(Survey); is {
			parts++
		}
		return parts == 2
	}
	for parts < 2 {
		w.pass(time.Second)
	}
	w.share(func(c *jobstore.Sharing) { c.Policy = schedule.Tags })
	n.hold = nil
	for _, a := range n.held {
		n.step(n.perform(a))
	}
	if n.share.order.Policy != schedule.Tags || len(n.share.accounts) != 1 {
		t.Errorf("under %s the node knows of accounts %v", n.share.order.Policy, n.share.accounts)
	}
}

// TestTimeBeforeOthersWaited: a survey that finds jobs waiting says nothing of the time before it.
func TestTimeBeforeOthersWaited(t *testing.T) {
	w := newWorld(t)
	w.share(func(c *jobstore.Sharing) { c.Policy = schedule.Tags })
	w.putMany(1, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 1, MaxChurn: 1} })
	w.pass(10 * time.Second)
	w.put("other", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	owed := time.Duration(-1)
	n.hold = func(q Request) bool {
		if r, is := q.(Requeue); is {
			owed = r.Turn.Owed
		}
		return false
	}
	w.pass(n.cfg.Interval) // when it gives way, and is killed some seconds later
	w.pass(n.cfg.StopTimeout)
	if owed < 0 || owed > n.cfg.StopTimeout {
		t.Errorf("owed %s", owed)
	}
}

// TestNoSwapForWorse: a job whose account used little keeps its slot while one that used much waits.
func TestNoSwapForWorse(t *testing.T) {
	w := newWorld(t)
	w.tenant("a/_replicator", 2, 1)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 1, MaxChurn: 1} })
	w.pass(time.Second)
	w.share(func(c *jobstore.Sharing) { c.Shares = map[string]int64{"b/_replicator": 1} })
	w.do(func(tx kv.Tx) error { // b used much
		at := w.now / 60_000_000 * 60_000_000
		return w.s.Charge(tx,
			[]schedule.Charge{{Account: "b/_replicator", At: at.Add(-2 * time.Minute), Worker: "x",
				Used: 60_000_000}}, w.now)
	})
	w.tenant("b/_replicator", 3, 1)
	w.play(2 * time.Hour)
	if n.Running() != 1 || len(n.stopped) != 0 {
		t.Errorf("%d were stopped for a job that sorts behind", len(n.stopped))
	}
	w.play(40 * time.Hour)
	if len(n.stopped) == 0 {
		t.Error("b's job never had its turn")
	}
}

// TestDecayClockOfTheFuture is set right: were it not, nothing would ever decay again.
func TestDecayClockOfTheFuture(t *testing.T) {
	w := newWorld(t)
	w.putMany(1, true)
	w.share(func(*jobstore.Sharing) {})
	w.do(func(tx kv.Tx) error {
		o, err := w.s.Order(tx)
		if err != nil {
			return err
		}
		return w.s.Tune(tx, o.Decay, o.Decay.HalfLife, w.now.Add(1000*time.Hour))
	})
	w.start("n1", nil)
	w.pass(3 * time.Minute)
	w.do(func(tx kv.Tx) error {
		o, err := w.s.Order(tx)
		if o.Decay.Since > w.now || o.Decay.At(w.now) <= o.Decay.At(instant.Time(0)) {
			t.Errorf("still %+v", o.Decay)
		}
		return err
	})
}

// TestClockSetBack: jobs that had turns while the clock was ahead have more of them once it is right, though new ones
// come.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t)
	w.putMany(6, true)
	w.share(func(*jobstore.Sharing) {})
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 2, MaxChurn: 2, MinRun: time.Minute} })
	w.play(20 * time.Minute)
	n.skew = 10 * time.Hour
	w.play(20 * time.Minute)
	n.skew = 0
	w.putMany(9, true)
	before := maps.Clone(w.ran)
	w.play(time.Hour)
	for i := range 9 {
		id := jobstore.DocumentJobs(tuple.UUID{1}) + fmt.Sprintf("r%03d", i)
		if got := w.ran[id] - before[id]; got < 3*time.Minute {
			t.Errorf("%s ran for %s in an hour of which each of 9 jobs gets 13 minutes", id, got)
		}
	}
}
