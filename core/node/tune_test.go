package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// TestAutomaticCoefficientFollowsTheQueue, and a fixed one that forgets too soon is noted once.
func TestAutomaticCoefficientFollowsTheQueue(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		w := newWorld(t)
		if fixed {
			w.share(func(c *jobstore.Sharing) { c.PriorityCoeff = 900_000 })
		}
		w.putMany(300, true)
		n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 5, MaxChurn: 1} })
		order := func() (o schedule.Order) {
			w.do(func(tx kv.Tx) (err error) { o, err = w.s.Order(tx); return err })
			return o
		}
		before := order()
		w.play(10 * time.Minute)
		after := order()
		noted := 0
		for _, what := range n.notes {
			if what == "priority_coeff_low" {
				noted++
			}
		}
		least, was, is := schedule.LeastHalfLife(295, 1, time.Minute), before.Decay.HalfLife, after.Decay.HalfLife
		if fixed != (is == was) || !fixed && is < least {
			t.Errorf("fixed %v: half-life from %s to %s, at least %s", fixed, was, is, least)
		}
		if fixed != (noted == 1) {
			t.Errorf("fixed %v: noted %d times", fixed, noted)
		}
	}
}

// TestLowCoefficientIsNotedAgain: a coefficient that forgets too soon is noted once, and once more after it was right.
func TestLowCoefficientIsNotedAgain(t *testing.T) {
	w := newWorld(t)
	w.putMany(300, true)
	n := w.start("n1", func(c *Config) { c.Limits = schedule.Limits{MaxJobs: 5, MaxChurn: 1} })
	for i, coeff := range []int64{900_000, 999_900, 900_000} {
		w.share(func(c *jobstore.Sharing) { c.PriorityCoeff = coeff })
		w.play(5 * time.Minute)
		if noted := count(n.notes, "priority_coeff_low"); noted != 1+i/2 {
			t.Errorf("at change %d: noted %d times", i, noted)
		}
	}
}

// TestAutomaticCoefficientCountsSlots: fewer jobs give way in an interval than max_churn says where there are fewer
// slots, or where jobs run for longer, so that a full turn takes longer.
func TestAutomaticCoefficientCountsSlots(t *testing.T) {
	for churn, l := range map[int]schedule.Limits{
		2: {MaxJobs: 2, MaxChurn: 20}, 1: {MaxJobs: 5, MaxChurn: 5, MinRun: 5 * time.Minute},
	} {
		w := newWorld(t)
		w.putMany(300, true)
		w.start("n1", func(c *Config) { c.Limits = l })
		w.play(10 * time.Minute)
		var o schedule.Order
		w.do(func(tx kv.Tx) (err error) { o, err = w.s.Order(tx); return err })
		if least := schedule.LeastHalfLife(295, churn, time.Minute); o.Decay.HalfLife < least {
			t.Errorf("%+v: a half-life of %s, at least %s", l, o.Decay.HalfLife, least)
		}
	}
}

// TestAutomaticCoefficientOfFleet: nodes reckon with the slots of all, so that two find what one with as many as both
// would find.
func TestAutomaticCoefficientOfFleet(t *testing.T) {
	for _, l := range []schedule.Limits{{MaxJobs: 8, MaxChurn: 2}, {MaxJobs: 1, MaxChurn: 20}} { // the less counts
		var halfLives [2]time.Duration
		for i := range halfLives {
			w := newWorld(t)
			w.putMany(300, true)
			for j := range 1 + i {
				w.start(fmt.Sprint("n", j), func(c *Config) {
					c.Limits = schedule.Limits{MaxJobs: l.MaxJobs * (2 - i), MaxChurn: l.MaxChurn * (2 - i)}
				})
			}
			w.play(10 * time.Minute)
			w.do(func(tx kv.Tx) error {
				o, err := w.s.Order(tx)
				halfLives[i] = o.Decay.HalfLife
				return err
			})
		}
		if ratio := float64(halfLives[1]) / float64(halfLives[0]); ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%+v: a half-life of %s for one node, and of %s for two", l, halfLives[0], halfLives[1])
		}
	}
}

// TestLongestHalfLife: under priority_coeff = auto no node advises to set that, even if the longest half-life is too
// short.
func TestLongestHalfLife(t *testing.T) {
	w := newWorld(t)
	w.share(func(*jobstore.Sharing) {})
	n := w.start("n1", nil)
	n.hold = func(q Request) bool { _, is := q.(Survey); return is }
	for len(n.held) == 0 {
		w.pass(time.Second)
	}
	answer := n.perform(n.held[0])
	s := answer.Result.(Surveyed)
	s.Ready = 1 << 50
	answer.Result = s
	n.step(answer)
	if slices.Contains(n.notes, "priority_coeff_low") {
		t.Error(n.texts)
	}
}
