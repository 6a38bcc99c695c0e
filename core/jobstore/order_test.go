package jobstore

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// TestPeriodsAreStored, and an order without them is stored as it was before there were any.
func TestPeriodsAreStored(t *testing.T) {
	b := newBench(t)
	raw := func() string {
		return string(get(b, func(tx kv.Tx) ([]byte, error) { return tx.Get(b.s.Keys.Order) }))
	}
	b.share(func(*Sharing) {})
	if strings.Contains(raw(), "Periods") || strings.Contains(raw(), "Seed") {
		t.Errorf("stored %s", raw())
	}
	before := DefaultSharing()
	want := schedule.Periods{Rotation: time.Minute, Priority: time.Second, Growth: time.Hour}
	b.share(func(c *Sharing) {
		c.Periods = want
		c.Follow(time.Minute, 5*time.Second)
	})
	if got := b.order(); got.Periods != want || got.Forgetting.Interval != 5*time.Second {
		t.Errorf("%+v in force", got)
	}
	var after Sharing
	b.do(func(tx kv.Tx) (err error) {
		after, _, err = b.s.Shared(tx)
		return err
	})
	for _, c := range []struct {
		from, to Sharing
		want     []string
	}{
		{before, after, []string{"usage_interval: 5s, was interval", "priority_interval: 1s, was interval",
			"growth_interval: 1h0m0s, was interval"}},
		{after, before, []string{"usage_interval: interval, was 5s", "priority_interval: interval, was 1s",
			"growth_interval: interval, was 1h0m0s"}},
	} {
		if got := c.from.Changes(c.to); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestEndRound: jobs that wait when a round begins and still wait at its end go before those that come.
func TestEndRound(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	b.put("r", simple, admin)
	b.put("s", simple, admin)
	end := func(seen schedule.Round) schedule.Round {
		t.Helper()
		b.now = b.now.Add(time.Hour)
		b.do(func(tx kv.Tx) error { return b.s.EndRound(tx, seen, b.now) })
		return b.order().Round
	}
	last := time.Minute.Microseconds() // the tag of the second job
	began := b.order().Round
	first := end(began)
	if want := (schedule.Round{Since: b.now, Last: last}); first != want {
		t.Fatalf("the first round is %+v, want %+v", first, want)
	}
	if got := end(began); got != first {
		t.Fatalf("a round that another node has ended ends again: %+v", got)
	}
	if got, want := end(first), (schedule.Round{Since: b.now, Last: last, Base: last}); got != want {
		t.Fatalf("the second round is %+v, want %+v", got, want)
	}
	b.replicate("joe")
	places := get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 5) })
	if len(places) != 3 || places[2].Key != last {
		t.Errorf("%v, and a new job should be behind the two that waited", places)
	}
	b.share(func(c *Sharing) { c.Policy = schedule.FIFO })
	if got := b.order().Round; got != (schedule.Round{}) {
		t.Errorf("another policy begins with %+v", got)
	}
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	if got, want := end(schedule.Round{}), (schedule.Round{Since: b.now}); got != want {
		t.Errorf("places under earlier policies are taken for tags: %+v", got)
	}
}

// TestFIFOAfterWrongClock: a turn that ended by a clock that was hours ahead does not put its job behind all others
// for as many hours, and a clock that is ahead by a minute is none of that kind.
func TestFIFOAfterWrongClock(t *testing.T) {
	for ahead, behind := range map[time.Duration]bool{5 * time.Hour: false, time.Minute: true} {
		b := newBench(t)
		b.share(func(c *Sharing) { c.Policy = schedule.FIFO })
		sweep := func() { b.do(func(tx kv.Tx) error { _, err := b.s.Sweep(tx, b.now, 10, 10); return err }) }
		sweep() // nothing waits
		b.put("a", simple, admin)
		b.put("b", `{"source":"http://other/a","target":"http://t/b"}`, admin)
		batch := uint64(100)
		turn := func() (id string) {
			batch++
			taken := get(b, func(tx kv.Tx) (Taken, error) {
				return b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: batch, Max: 1}, b.now)
			})
			w := taken.Work[0]
			b.now = b.now.Add(time.Second)
			b.requeue(w, Turn{Place: w.Place, Began: w.Place})
			return w.JobID
		}
		b.now = b.now.Add(ahead)
		late := turn()
		b.now = b.now.Add(-ahead)
		if turn() == late {
			t.Fatal("the new job should go first")
		}
		sweep()
		turn()
		if got := turn() != late; got != behind {
			t.Errorf("by a clock that was %s ahead: the job still waits: %t", ahead, got)
		}
	}
}

// TestFIFODamagedEnd: a row at the end of the queue of which no place can be read does not end each sweep.
func TestFIFODamagedEnd(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.FIFO })
	b.put("a", simple, admin)
	b.do1(func(tx kv.Tx) error {
		tx.Set(append(bytes.Clone(b.s.Keys.Jobs.Ready), 0xfe, 1), []byte("none"))
		return nil
	})
	b.do1(func(tx kv.Tx) error { _, err := b.s.Sweep(tx, b.now, 10, 10); return err })
}

// TestFloorStays: a job that comes back with the tag of long ago is the first one that waits, and whoever comes then
// begins no earlier than others before.
func TestFloorStays(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	b.put("old", simple, admin)
	b.crash(b.accept())
	b.replicate("busy")
	b.replicate("other")
	for batch := range uint64(50) {
		taken := get(b, func(tx kv.Tx) (Taken, error) {
			return b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 100 + batch, Max: 1}, b.now)
		})
		w := taken.Work[0]
		b.now = b.now.Add(time.Minute)
		b.requeue(w, Turn{Place: w.Place, Began: w.Place, Owed: time.Minute})
	}
	paid := b.first().Key - time.Minute.Microseconds() // where the tags of the last turn began
	b.retry(jobID("old"))
	if first := b.first().Key; first >= paid {
		t.Fatalf("the old job waits at %d", first)
	}
	if got := b.account("user:new").Tail; got < paid {
		t.Errorf("a new account begins at %d, where others began at %d", got, paid)
	}
	b.replicate("new")
	if got := b.account("user:new").Tail; got < paid+time.Minute.Microseconds() {
		t.Errorf("the second job of a new account begins at %d", got)
	}
}

// TestFirstOrder: while the store has no order, the one of the configuration is in force.
func TestFirstOrder(t *testing.T) {
	b := newBench(t)
	c := Sharing{Policy: schedule.FIFO, Forgetting: schedule.Forgetting{Interval: time.Hour, Coeff: 300_000},
		PriorityCoeff: 900_000, Seed: 7, Periods: b.s.Config.Sharing.Periods}
	b.s.Config.Sharing = c
	o := get(b, func(tx kv.Tx) (schedule.Order, error) { return b.s.Order(tx) })
	got := Sharing{Policy: o.Policy, Forgetting: o.Forgetting, PriorityCoeff: o.PriorityCoeff, Seed: o.Seed,
		Periods: o.Periods}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("of %+v it has %+v", c, got)
	}
	if want := schedule.HalfLife(c.PriorityCoeff, time.Hour); o.Decay.HalfLife != want {
		t.Errorf("priorities are halved in %s, not %s", o.Decay.HalfLife, want)
	}
}

// TestUnreadableOrder: a check finds settings of sharing of which nothing can be made, and its repair puts the default
// ones in their place. A job that waits stays ahead of one that comes afterwards, and a node can share its settings.
func TestUnreadableOrder(t *testing.T) {
	for _, value := range []string{"", "{", "[]", "null", "{}", `{"Policy":"none"}`, `{"Epoch":"x"}`} {
		b := newBench(t)
		b.share(func(c *Sharing) { c.Policy = schedule.FIFO })
		b.put("waits", simple, admin)
		b.now = b.now.Add(-time.Hour) // whose key comes before that of the job that waits
		b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Order, []byte(value)); return nil })
		found := b.findings()
		if len(found) != 1 || found[0].Key != "order" || !b.mend(&found[0]) {
			t.Errorf("found of %q: %v", value, found)
			continue
		}
		if left := b.findings(); len(left) > 0 {
			t.Errorf("after the repair of %q: %v", value, left)
		}
		b.share(func(c *Sharing) { c.Policy = schedule.FIFO })
		b.put("comes", `{"source":"http://x/a","target":"http://y/b"}`, admin)
		if ids, _ := b.tryAccept(); len(ids) != 2 || ids[0] != jobID("waits") {
			t.Errorf("after the repair of %q these are accepted: %v", value, ids)
		}
	}
}

// TestUnreadableOrderOfLatePolicy: nor does a job that comes after the repair pass one that waits when the policy had
// changed more often than the place of the latter is far.
func TestUnreadableOrderOfLatePolicy(t *testing.T) {
	b := newBench(t)
	for _, p := range []schedule.Policy{schedule.FIFO, schedule.Tags, schedule.FIFO, schedule.Tags} {
		b.share(func(c *Sharing) { c.Policy = p })
	}
	b.put("waits", simple, admin)
	b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Order, []byte("{")); return nil })
	found := b.findings()
	if len(found) != 1 || !b.mend(&found[0]) {
		t.Fatalf("found: %v", found)
	}
	b.share(func(c *Sharing) { c.Policy = schedule.Tags })
	b.put("comes", `{"source":"http://x/a","target":"http://y/b"}`, admin)
	if ids, _ := b.tryAccept(); len(ids) != 2 || ids[0] != jobID("waits") {
		t.Errorf("accepted are %q", ids)
	}
}
