package jobstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

func (b *bench) charge(used int64, account, worker string, at instant.Time) {
	b.t.Helper()
	list := []schedule.Charge{{Account: account, At: at, Worker: worker, Used: used}}
	b.do(func(tx kv.Tx) error { return b.s.Charge(tx, list, b.now) })
}

func (b *bench) account(name string) schedule.Account {
	b.t.Helper()
	return get(b, func(tx kv.Tx) (schedule.Account, error) {
		o, err := b.s.Order(tx)
		if err != nil {
			return schedule.Account{}, err
		}
		list, err := b.s.Accounts(tx, []string{name}, o, b.now)
		return list[0], err
	})
}

func (b *bench) order() schedule.Order {
	return get(b, func(tx kv.Tx) (schedule.Order, error) { return b.s.Order(tx) })
}

func (b *bench) share(change func(*Sharing)) {
	b.t.Helper()
	c := DefaultSharing()
	change(&c)
	b.do(func(tx kv.Tx) error { return b.s.Share(tx, c, b.now) })
}

// first is the place of the first ready job.
func (b *bench) first() schedule.Place {
	b.t.Helper()
	places := get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 5) })
	if len(places) == 0 {
		b.t.Fatal("nothing is ready")
	}
	return places[0]
}

func (b *bench) requeue(w Work, turn Turn) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Requeue(nil, turn) })
}

func TestChargesLandInAnyOrder(t *testing.T) {
	b := newBench(t)
	b.now = instant.Seconds(1_700_000_040) // a whole minute
	at := b.now.Add(-time.Minute)
	for _, used := range []int64{10, 30, 20} {
		b.charge(used, "_replicator", "w1", at)
	}
	b.charge(5, "_replicator", "w2", at)
	b.charge(1000, "a/_replicator", "w1", at)
	b.charge(100, "_replicator", "w1", at.Add(-time.Minute))
	b.now = b.now.Add(15 * time.Second)
	if got := b.account("_replicator"); got.Usage != 30+5+50 {
		t.Errorf("usage %d", got.Usage)
	}
	b.now = b.now.Add(time.Minute)
	if got := b.account("_replicator"); got.Usage != 42 {
		t.Errorf("usage a minute later %d", got.Usage)
	}
}

// TestForgottenChargesAreRemoved, and those of clocks that were ahead, of each account that is charged.
func TestForgottenChargesAreRemoved(t *testing.T) {
	b, accounts := newBench(t), []string{"_replicator", "a/_replicator"}
	old, now := b.now, b.now.Add(time.Hour)
	var list []schedule.Charge
	for _, account := range accounts {
		b.now = old
		b.charge(10, account, "w1", b.now)
		b.now = old.Add(1000 * time.Hour)
		b.charge(10, account, "w1", b.now)
		list = append(list, schedule.Charge{Account: account, At: now, Worker: "w2", Used: 10})
	}
	b.do(func(tx kv.Tx) error { return b.s.Charge(tx, list, now) })
	for i, account := range accounts {
		left := get(b, func(tx kv.Tx) ([]schedule.Charge, error) { return b.s.Charges(tx, account) })
		if !slices.Equal(left, list[i:i+1]) {
			t.Errorf("left %v", left)
		}
	}
}

func TestNewJobPaysForItsAccount(t *testing.T) {
	b := newBench(t)
	b.now = instant.Seconds(1_700_000_040)
	b.charge(60_000_000, "_replicator", "w1", b.now.Add(-time.Minute))
	b.now = b.now.Add(15 * time.Second)
	b.put("r", simple, admin)
	clock := b.order().Decay.At(b.now)
	if got, want := b.first(), (schedule.Place{Key: clock + schedule.Log2(6000)}); got != want {
		t.Errorf("first job at %v, want %v", got, want)
	}
	b.put("r", simple[:len(simple)-1]+`,"continuous":true}`, admin)
	if got, want := b.first(), (schedule.Place{Key: clock + schedule.Log2(6000)}); got != want {
		t.Errorf("replaced at %v, want %v: it is still one job", got, want)
	}
	b.share(func(c *Sharing) { c.Shares = map[string]int64{"_replicator": 1000} })
	b.replicate("joe")
	if got := b.first(); got.Key != clock {
		t.Errorf("the job of another account at %v", got)
	}
	b.put("s", simple, admin)
	ready := get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 5) })
	if ready[1].Key != clock+schedule.Log2(120) {
		t.Errorf("with 1000 shares and two jobs at %v", ready)
	}
}

// TestTurns: where a job goes after a run under each policy.
func TestTurns(t *testing.T) {
	for _, p := range []schedule.Policy{schedule.FairShare, schedule.FIFO, schedule.Tags} {
		t.Run(p.String(), func(t *testing.T) {
			b := newBench(t)
			b.share(func(c *Sharing) {
				c.Policy, c.Shares = p, map[string]int64{"_replicator": 50}
			})
			epoch := b.order().Epoch
			b.put("r", simple, admin)
			w := b.accept()
			b.now = b.now.Add(time.Hour)
			place := schedule.Place{Epoch: epoch, Key: 1 << 60}
			b.requeue(w, Turn{Place: place, Owed: time.Minute})
			want := place
			switch p {
			case schedule.FIFO:
				want.Key = int64(b.now)
			case schedule.Tags:
				want.Key = 2 * 60_000_000 // what it paid when it was new
			}
			if got := b.first(); got != want {
				t.Errorf("at %v, want %v", got, want)
			}
			w = b.accept()
			b.requeue(w, Turn{Place: w.Place}) // nobody waited, it did not run
			if p == schedule.FIFO {
				want.Key = int64(b.now)
			}
			if got := b.first(); got != want {
				t.Errorf("without a turn at %v, want %v", got, want)
			}
			if p == schedule.Tags {
				if got := b.account("_replicator").Tail; got != want.Key+2*60_000_000 {
					t.Errorf("tail %d", got)
				}
				if got := b.account("a/_replicator").Tail; got != want.Key {
					t.Errorf("an idle account starts at %d, not at the tag that was dispatched, %d", got, want.Key)
				}
			}
		})
	}
}

// TestPolicyChange: those who were queued before go first; a turn that began before ends under the new policy.
func TestPolicyChange(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.put("s", simple, admin)
	b.share(func(c *Sharing) { c.Policy = schedule.FIFO })
	b.share(func(c *Sharing) { c.Policy = schedule.FairShare })
	b.requeue(w, Turn{Place: w.Place, Owed: time.Minute})
	places := get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 5) })
	want := []schedule.Place{{Key: places[0].Key}, {Epoch: 2, Key: b.order().Decay.At(b.now)}}
	if !slices.Equal(places, want) {
		t.Errorf("places %v, want %v", places, want)
	}
}

func TestShare(t *testing.T) {
	b := newBench(t)
	if got := b.account("_replicator").Shares; got != 100 {
		t.Errorf("by default %d", got)
	}
	b.share(func(c *Sharing) { c.Shares = map[string]int64{"_replicator": 7, "user:joe": 1000} })
	if b.account("_replicator").Shares != 7 || b.account("user:joe").Shares != 1000 ||
		b.account("user:eve").Shares != 100 {
		t.Error("shares as given")
	}
	b.share(func(c *Sharing) { c.Shares = map[string]int64{"user:joe": 8} })
	if b.account("_replicator").Shares != 100 || b.account("user:joe").Shares != 8 {
		t.Error("shares as changed")
	}
	before := b.order()
	b.now = b.now.Add(time.Hour)
	b.share(func(c *Sharing) { c.PriorityCoeff = 500_000 })
	after := b.order()
	if after.Epoch != before.Epoch || after.Decay.HalfLife != time.Minute ||
		after.Decay.At(b.now) != before.Decay.At(b.now) {
		t.Errorf("coefficient: %+v to %+v", before, after)
	}
}

// TestSharedTellsWhatIsInForce: whoever puts other settings in force can say what it changes.
func TestSharedTellsWhatIsInForce(t *testing.T) {
	b := newBench(t)
	shared := func() (c Sharing, known bool) {
		b.do(func(tx kv.Tx) (err error) {
			c, known, err = b.s.Shared(tx)
			return err
		})
		return c, known
	}
	if _, known := shared(); known {
		t.Error("something is in force before anybody said so")
	}
	b.share(func(c *Sharing) { c.Shares = map[string]int64{"_replicator": 7, "user:joe": 100} })
	before, known := shared()
	b.share(func(c *Sharing) {
		c.Policy, c.PriorityCoeff, c.Forgetting.Coeff = schedule.FIFO, 980_000, 250_000
		c.Shares = map[string]int64{"b/_replicator": 5}
	})
	after, _ := shared()
	want := []string{"scheduling_policy: fifo, was fairshare", "usage_coeff: 0.250000, was 0.500000",
		"priority_coeff: 0.980000, was auto",
		"shares of _replicator: 100, was 7", "shares of b/_replicator: 5, was 100"}
	if got := before.Changes(after); !known || !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := after.Changes(after); got != nil {
		t.Errorf("nothing changed, but %q", got)
	}
}

// TestRecordsReadBack: a record can be read whatever a server said, since a job that cannot be read is lost.
func TestRecordsReadBack(t *testing.T) {
	for _, result := range []string{`{"source_last_seq":{"a":1,"a":2}}`, "{\"source_last_seq\":\"\xff\"}", `[1,"x"]`} {
		before := Record{Error: "\xff", Result: []byte(result)}
		if _, err := decodeRecord(&jobs.Job{Data: before.encode()}); err != nil {
			t.Errorf("%q: %v", result, err)
		}
	}
}

func TestTune(t *testing.T) {
	b := newBench(t)
	seen := b.order().Decay
	b.do(func(tx kv.Tx) error { return b.s.Tune(tx, seen, 3*time.Hour, b.now) })
	b.do(func(tx kv.Tx) error { return b.s.Tune(tx, seen, 5*time.Hour, b.now) }) // somebody was faster
	if got := b.order().Decay; got.HalfLife != 3*time.Hour || got.At(b.now) != seen.At(b.now) {
		t.Errorf("%+v", got)
	}
}

// TestTuneAfterFixing: a half-life that a node has worked out does not replace one that was fixed meanwhile, also when
// it is the one that was in force.
func TestTuneAfterFixing(t *testing.T) {
	b := newBench(t)
	c := b.s.Config.Sharing
	c.PriorityCoeff = 900_000
	fixed := schedule.HalfLife(c.PriorityCoeff, c.Forgetting.Interval)
	b.do(func(tx kv.Tx) error { return b.s.Tune(tx, b.order().Decay, fixed, b.now) })
	seen := b.order().Decay
	b.do(func(tx kv.Tx) error { return b.s.Share(tx, c, b.now) })
	b.do(func(tx kv.Tx) error { return b.s.Tune(tx, seen, 3*time.Hour, b.now) })
	if got := b.order().Decay; got.HalfLife != fixed {
		t.Errorf("%+v, want %s", got, fixed)
	}
}

// TestClocksYearsApart: of two nodes one takes the year for 1970, and each sets the clock of decay by its own whenever
// the other has. However long that lasts, jobs that wait go before those that come.
func TestClocksYearsApart(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Periods.Priority, c.PriorityCoeff = time.Second, 500_000 })
	right, wrong := b.now, instant.Seconds(1000)
	var last schedule.Place
	for range 10 {
		for _, now := range []instant.Time{wrong, right} {
			b.do(func(tx kv.Tx) error { return b.s.Tune(tx, b.order().Decay, time.Second, now) })
			place, _ := b.order().Enter(now, schedule.Account{})
			if place.Compare(last) < 0 {
				t.Fatalf("a job is queued at %+v, before one at %+v", place, last)
			}
			last = place
		}
	}
}

// TestTagsAreGivenOnce: of two turns that end at the same time one is repeated.
func TestTagsAreGivenOnce(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	turn := Turn{Place: schedule.Place{Epoch: b.order().Epoch}, Owed: time.Minute}
	ctx := context.Background()
	one, other := b.db.Begin(ctx, kv.Options{}), b.db.Begin(ctx, kv.Options{})
	for _, tx := range []kv.Transaction{one, other} {
		if _, err := b.s.settle(tx, &Record{Database: "_replicator"}, turn, b.now); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := other.Commit(); err == nil {
		t.Error("two turns got one tag")
	}
}

// TestEndedRequestPays: what a run owes when the job of a request is over is charged to the account of its user.
func TestEndedRequestPays(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	b.replicate("joe")
	w := b.accept()
	tail := func() int64 {
		return get(b, func(tx kv.Tx) ([]schedule.Account, error) {
			return b.s.Accounts(tx, []string{w.Record.Account()}, b.order(), b.now)
		})[0].Tail
	}
	before := tail()
	turn := Turn{Place: w.Place, Owed: time.Hour}
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(replication.End{}, turn)
	})
	if after := tail(); after <= before {
		t.Errorf("the account was at %d, and is at %d", before, after)
	}
}

// TestTagsGoOnWithoutQueue: when all jobs run, a new account begins where the jobs that run were, and not before them.
func TestTagsGoOnWithoutQueue(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	b.put("r", simple, admin)
	b.put("s", simple, admin)
	if ids, _ := b.tryAccept(); len(ids) != 2 {
		t.Fatalf("%v run", ids)
	}
	b.replicate("joe")
	if got, want := b.first().Key, time.Minute.Microseconds(); got != want {
		t.Errorf("a new account begins at %d, and the last job that got a slot was at %d", got, want)
	}
}

func TestIsAccount(t *testing.T) {
	for name, want := range map[string]bool{
		"_replicator": true, "a/_replicator": true, "user:": true, "user:a/_replicator": true,
		"alice": false, "": false,
	} {
		if IsAccount(name) != want {
			t.Error(name)
		}
	}
	if got := (&Record{User: "_replicator"}).Account(); got != "user:_replicator" {
		t.Errorf("a user got the account %s", got)
	}
}

// TestDemands: accounts with jobs that are not over, as many as are asked for, and how many jobs there are in all.
func TestDemands(t *testing.T) {
	b := newBench(t)
	b.put("waits", strings.Replace(simple, "/b", "/e", 1), admin)
	b.crash(b.accept())
	b.put("runs", strings.Replace(simple, "/b", "/d", 1), admin)
	b.accept()
	for _, user := range []string{"c", "a", "b"} {
		b.replicate(user)
	}
	for _, gone := range []string{"A/_replicator", "B/_replicator", "user:aa"} { // had a job
		b.do(func(tx kv.Tx) error { tx.Add(b.s.Keys.Count.Pack(gone), 0); return nil })
	}
	for limit, want := range map[int]string{
		10: "[{_replicator 2} {user:a 1} {user:b 1} {user:c 1}]", 2: "[{_replicator 2} {user:a 1}]",
		3: "[{_replicator 2} {user:a 1} {user:b 1}]", 1: "[{_replicator 2}]",
	} {
		if got := fmt.Sprint(b.demands(limit)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for n := 3; n <= demandPages; n++ { // accounts without jobs before the first that has some
		row := b.s.Keys.Count.Pack(fmt.Sprintf("C%d/_replicator", n))
		b.do(func(tx kv.Tx) error { tx.Add(row, 0); return nil })
		if got := b.demands(1); (got != nil) != (n < demandPages) {
			t.Errorf("%v, behind %d accounts without jobs", got, n)
		}
	}
}

func (b *bench) demands(limit int) (list []Demand) {
	b.do1(func(tx kv.Tx) (err error) {
		total := int64(0)
		list, total, err = Demands(tx.Snapshot(), b.s, limit)
		if total != 5 {
			b.t.Errorf("%d jobs", total)
		}
		return err
	})
	return list
}
