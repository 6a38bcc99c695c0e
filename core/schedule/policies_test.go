package schedule

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// turns is a server with one slot, for which jobs of some accounts always wait.
type turns struct {
	order    Order
	accounts []Account
	waiting  []testJob
	got      []float64 // of each account, in turns of an interval
}

// newTurns has accounts with so many jobs each.
func newTurns(policy string, seed uint64, jobs int, shares ...int64) *turns {
	p, err := ParsePolicy(policy)
	if err != nil {
		panic(err)
	}
	t := &turns{order: Order{Policy: p, Forgetting: testForgetting, Seed: seed}, got: make([]float64, len(shares))}
	for i, s := range shares {
		t.accounts = append(t.accounts, Account{Name: fmt.Sprint("a", i), Shares: s})
		for range jobs {
			t.enter(i)
		}
	}
	return t
}

func (t *turns) enter(account int) {
	t.accounts[account].Jobs++
	j := testJob{account: account}
	j.place, t.accounts[account] = t.order.Enter(0, t.accounts[account])
	t.waiting = append(t.waiting, j)
}

// first is the job whose turn is next.
func (t *turns) first() int {
	first := 0
	for i := range t.waiting {
		if t.waiting[i].place.Compare(t.waiting[first].place) < 0 {
			first = i
		}
	}
	return first
}

// turn gives the first job a turn of some length, and returns its account.
func (t *turns) turn(length time.Duration) int {
	i := t.first()
	j := t.waiting[i]
	t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
	a, floor := &t.accounts[j.account], j.place.Key
	if len(t.waiting) > 0 {
		floor = t.waiting[t.first()].place.Key
	}
	a.Tail = t.order.Tail(a.Tail, floor)
	j.place, *a = t.order.Settle(Turn{Place: j.place, Owed: length, Began: j.place}, 0, *a)
	t.waiting = append(t.waiting, j)
	t.got[j.account] += float64(length) / float64(testInterval)
	return j.account
}

// TestErrorOfPolicies: after any number of turns no account is further from its share than the policy says.
func TestErrorOfPolicies(t *testing.T) {
	for _, c := range []struct {
		policy string
		most   float64 // turns from the share of what two accounts got together
	}{
		{"tags", 1}, {"stride", 1}, {"eevdf", 1},
	} {
		for _, shares := range [][]int64{
			{100, 100}, {300, 200, 100}, {1000, 100}, {700, 10, 290}, {70, 50, 30, 20, 10},
		} {
			for _, jobs := range []int{2, 7} {
				s, worst := newTurns(c.policy, 0, jobs, shares...), 0.0
				for range 5000 {
					s.turn(testInterval)
					for a := range shares {
						for b := range a {
							part := float64(shares[a]) / float64(shares[a]+shares[b])
							worst = max(worst, math.Abs(s.got[a]-(s.got[a]+s.got[b])*part))
						}
					}
				}
				t.Logf("%s %v %d: %.2f", c.policy, shares, jobs, worst)
				if worst > c.most+1e-9 {
					t.Errorf("%s, shares %v, %d jobs each: an account was %.2f turns off its share, at most %.1f",
						c.policy, shares, jobs, worst, c.most)
				}
			}
		}
	}
}

// TestErrorOfLottery: the error of n draws grows like the square root of n, as that of independent ones does.
func TestErrorOfLottery(t *testing.T) {
	const seeds = 300
	for _, n := range []int{100, 400, 1600} {
		mean, squares := 0.0, 0.0
		for seed := range uint64(seeds) {
			s := newTurns("lottery", seed, 2, 300, 100)
			for range n {
				s.turn(testInterval)
			}
			off := s.got[0] - float64(n)*0.75
			mean, squares = mean+off/seeds, squares+off*off/seeds
		}
		want := float64(n) * 0.75 * 0.25
		t.Logf("%d turns: off by %.2f on average, squared %.1f, want %.1f", n, mean, squares, want)
		if squares < 0.75*want || squares > 1.25*want {
			t.Errorf("%d turns: the mean square of errors is %.1f, of independent draws %.1f", n, squares, want)
		}
		if math.Abs(mean) > 4*math.Sqrt(want/seeds) {
			t.Errorf("%d turns: the first account is off its share by %.2f on average", n, mean)
		}
	}
}

// TestLotteryIsSeeded: the same seed draws the same, and another one or another account does not.
func TestLotteryIsSeeded(t *testing.T) {
	draws := func(seed uint64, jobs int) (list []int) {
		s := newTurns("lottery", seed, jobs, 100, 100)
		for range 100 {
			list = append(list, s.turn(testInterval))
		}
		return list
	}
	if !slices.Equal(draws(1, 3), draws(1, 3)) || slices.Equal(draws(1, 3), draws(2, 3)) {
		t.Error("draws do not depend on the seed alone")
	}
	s := newTurns("lottery", 1, 1, 100, 100)
	if _, a := s.order.Settle(Turn{Owed: 1}, 0, Account{Name: "a", Shares: MaxShares}); a.Tail == 0 {
		t.Error("a draw for no time draws the same again")
	}
	if s.accounts[0].Tail == s.accounts[1].Tail {
		t.Error("two accounts draw the same")
	}
}

// TestLotteryDraws: a draw is the turn's cost on average, as the mean and the deviation of an exponential number are
// the same.
func TestLotteryDraws(t *testing.T) {
	const draws = 20_000
	policy, _ := ParsePolicy("lottery")
	o, a := Order{Policy: policy, Forgetting: testForgetting}, Account{Name: "a", Shares: 50}
	cost, squares := float64(Cost(testInterval, a.Shares)), 0.0
	for range draws {
		before := a.Tail
		_, a = o.Settle(Turn{Owed: testInterval}, 0, a)
		off := float64(a.Tail-before)/cost - 1
		squares += off * off / draws
	}
	if mean := float64(a.Tail) / cost / draws; math.Abs(mean-1) > 0.03 || math.Abs(squares-1) > 0.1 {
		t.Errorf("draws are %.3f of the cost on average, with a variance of %.3f; want 1 and 1", mean, squares)
	}
}

// TestDeadlines: under eevdf a deadline is a slice over the shares later, but no job goes behind one of the next
// window, which is ten slices long.
func TestDeadlines(t *testing.T) {
	policy, _ := ParsePolicy("eevdf")
	o, slice := Order{Policy: policy, Forgetting: testForgetting}, testInterval.Microseconds()
	for _, c := range []struct{ tail, shares, want int64 }{
		{0, 100, slice}, {0, 200, slice / 2}, {0, 10, 10*slice - 1}, {0, 20, 5 * slice}, {5 * slice, 10, 10*slice - 1},
		{10 * slice, 1000, 10*slice + slice/10},
	} {
		place, after := o.Enter(0, Account{Shares: c.shares, Jobs: 1, Tail: c.tail})
		if place.Key != c.want || after.Tail != c.tail+slice*100/c.shares {
			t.Errorf("%+v: deadline %d, tail %d", c, place.Key, after.Tail)
		}
	}
}

// TestTurnsOfAnyLength: what a turn costs is its time, not its number.
func TestTurnsOfAnyLength(t *testing.T) {
	for _, policy := range []string{"tags", "stride", "lottery", "eevdf"} {
		s := newTurns(policy, 0, 3, 100, 300)
		for range 20_000 {
			length := testInterval
			if s.waiting[s.first()].account == 0 {
				length *= 5
			}
			s.turn(length)
		}
		if part := s.got[1] / (s.got[0] + s.got[1]); math.Abs(part-0.75) > 0.02 {
			t.Errorf("%s: an account with three quarters of the shares got %.3f", policy, part)
		}
	}
}

// TestComparedPolicies: accounts get their shares on a node with many slots, too.
func TestComparedPolicies(t *testing.T) {
	for _, name := range Simulated() {
		policy, _ := ParsePolicy(name)
		for _, m := range vectors[:7] { // in H some jobs have no turn within a thousand intervals
			o := m.play(Order{Policy: policy, Forgetting: testForgetting}, 3*testCycles, testCycles)
			t.Logf("%s, %s: %.1f, longest wait %d", name, m.name, o.shares, o.maxWait)
			var all float64
			for _, s := range m.shares {
				all += float64(s)
			}
			for a, s := range m.shares {
				if want := 100 * float64(s) / all; math.Abs(o.shares[a]-want) > 2.5 {
					t.Errorf("%s, %s: account %d gets %.1f%%, want %.1f%%", name, m.name, a, o.shares[a], want)
				}
			}
		}
	}
}

// TestWaitsUnderTags: no job waits for more than 17 full turns. Shares stay exact where none would wait for more than
// eight, and else are off by what those turns take that are brought forward.
func TestWaitsUnderTags(t *testing.T) {
	for _, c := range []struct {
		m   mix
		off float64 // points
	}{
		{skewed("H, a fifth", 2, []int64{1000, 100, 1}, []int{5, 5, 5}, []int{20, 25, 175}), 6},
		{skewed("extremes", 5, []int64{1000, 1}, []int{5, 5}, []int{100, 100}), 4},
		{skewed("small", 1, []int64{1, 100, 100}, []int{2, 2, 2}, []int{20, 20, 20}), 4},
		{vectors[3], 3}, {vectors[1], 0.1}, {vectors[5], 0.1}, {others[3], 0.1},
	} {
		order := Order{Policy: Tags, Forgetting: testForgetting}
		free := c.m
		free.endless = true
		o, without := c.m.play(order, 5*testCycles, testCycles), free.play(order, 5*testCycles, testCycles)
		jobs, slots := 0, 0
		for a := range c.m.shares {
			jobs, slots = jobs+c.m.running[a]+c.m.pending[a], slots+c.m.running[a]
		}
		turn := (jobs - slots + c.m.churn - 1) / c.m.churn
		t.Logf("%s: %.2f, longest wait %d of %d; without rounds %.2f, %d",
			c.m.name, o.shares, o.maxWait, turn, without.shares, without.maxWait)
		if o.maxWait > 17*turn {
			t.Errorf("%s: a job waited for %d intervals, and a full turn takes %d", c.m.name, o.maxWait, turn)
		}
		for a := range c.m.shares {
			if off := o.shares[a] - without.shares[a]; math.Abs(off) > c.off {
				t.Errorf("%s: rounds move the share of account %d by %.1f points", c.m.name, a, off)
			}
		}
	}
}

func skewed(name string, churn int, shares []int64, running, pending []int) mix {
	return mix{name: name, shares: shares, running: running, pending: pending, churn: churn}
}

// TestTagsWithoutRotation: where an interval is meant as no rotation, any number of jobs get tags.
func TestTagsWithoutRotation(t *testing.T) {
	o, a := Order{Policy: Tags, Forgetting: Forgetting{Interval: math.MaxInt64}}, Account{Shares: MinShares}
	for range 100_000 {
		a.Jobs++
		place, after := o.Enter(0, a)
		if place.Key != a.Tail || after.Tail <= a.Tail {
			t.Fatalf("job %d stands at %d, and the next one at %d", a.Jobs, place.Key, after.Tail)
		}
		a = after
	}
}
