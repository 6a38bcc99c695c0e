package schedule

import (
	"cmp"
	"math"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

// weighed are accounts whose jobs have several weights. No job's part is more than a slot.
var weighed = []mix{
	{name: "two to one", shares: []int64{100, 100}, running: []int{25, 25}, pending: []int{75, 75}, churn: 10,
		weights: [][]int64{{200, 100}, {100}}},
	{name: "few heavy ones", shares: []int64{300, 100}, running: []int{20, 20}, pending: []int{180, 80}, churn: 10,
		weights: [][]int64{{300, 100, 100, 100, 100, 100, 100, 100, 100, 100}, {50, 100, 50}}},
	{name: "thirds", shares: []int64{100, 700, 200}, running: []int{25, 25, 25}, pending: []int{75, 155, 75}, churn: 10,
		weights: [][]int64{{300, 200, 100}, {120, 100, 80}, {10, 20, 30}}},
	{name: "many jobs", shares: []int64{200, 100}, running: []int{10, 10}, pending: []int{390, 190}, churn: 5,
		weights: [][]int64{{400, 100}, {100, 1000, 1000}}},
}

// byWeight is the twin by the definition, which touches every job in every cycle: the account that is furthest behind
// its share gets a slot, and in it the job that had the least time for its weight; those that had the most give
// way.
func (m mix) byWeight(jobs []*testJob, cycles, warmUp int) outcome {
	used, shares, all := make([]float64, len(m.shares)), 0.0, 0.0
	for _, s := range m.shares {
		shares += float64(s)
	}
	got := map[*testJob]float64{} // time for its weight
	ahead := func(a int) float64 { return used[a] - all*float64(m.shares[a])/shares }
	furthest := func(running bool, sign float64) (found *testJob) {
		for _, j := range jobs {
			if j.running != running {
				continue
			}
			if found == nil || cmp.Or(cmp.Compare(sign*ahead(j.account), sign*ahead(found.account)),
				cmp.Compare(sign*got[j], sign*got[found])) > 0 {
				found = j
			}
		}
		return found
	}
	return m.simulate(jobs, cycles, warmUp, func(c int) {
		for _, j := range jobs {
			if j.running {
				got[j] += 1 / float64(j.weight)
				used[j.account]++
				all++
			}
		}
		var stopped []*testJob
		for range m.churn {
			j := furthest(true, 1)
			j.running = false
			used[j.account]-- // the next ones are chosen as if it had gone before
			stopped = append(stopped, j)
		}
		for _, j := range stopped {
			used[j.account]++
		}
		for range m.churn {
			j := furthest(false, -1)
			j.running, j.started = true, c
			used[j.account]++
			defer func() { used[j.account]-- }()
		}
	})
}

// parts is the part of each weight in the time of its account, by account and weight, in percent of what the
// definition gives it.
func parts(jobs []*testJob) map[[2]int64]float64 {
	sum, weights := map[int]float64{}, map[int]float64{}
	got, want := map[[2]int64]float64{}, map[[2]int64]float64{}
	for _, j := range jobs {
		sum[j.account] += float64(j.slots)
		weights[j.account] += float64(j.weight)
		key := [2]int64{int64(j.account), j.weight}
		got[key] += float64(j.slots)
		want[key] += float64(j.weight)
	}
	for key := range got {
		a := int(key[0])
		got[key] = 100 * got[key] / sum[a] / (want[key] / weights[a])
	}
	return got
}

func policyOrder(name string) Order {
	if name == "fairshare" {
		return fairOrder(0)
	}
	p, err := ParsePolicy(name)
	if err != nil {
		panic(err)
	}
	return Order{Policy: p, Forgetting: testForgetting}
}

// TestWeights: within an account the time of jobs is in proportion to their weights, and what the account has is what
// it has without weights, under every policy that knows shares.
func TestWeights(t *testing.T) {
	for _, m := range weighed {
		var want []float64
		var shares float64
		for _, s := range m.shares {
			shares += float64(s)
		}
		for _, s := range m.shares {
			want = append(want, 100*float64(s)/shares)
		}
		check := func(name string, jobs []*testJob, o outcome, within, of float64) {
			t.Helper()
			p := parts(jobs)
			t.Logf("%s, %s: %.1f, longest wait %d, parts %.4v", name, m.name, o.shares, o.maxWait, p)
			for key, got := range p {
				if math.Abs(got-100) > within {
					t.Errorf("%s, %s: weight %d of account %d gets %.1f%% of its part",
						name, m.name, key[1], key[0], got)
				}
			}
			for a := range want {
				if math.Abs(o.shares[a]-want[a]) > of {
					t.Errorf("%s, %s: account %d gets %.1f%%, want %.1f%%", name, m.name, a, o.shares[a], want[a])
				}
			}
		}
		jobs := m.jobs()
		o := m.byWeight(jobs, 2*testCycles, 300)
		check("twin", jobs, o, 4, 1)
		for _, name := range append(Policies(), Simulated()...) {
			if name == "fifo" {
				continue
			}
			jobs := m.jobs()
			o := m.playJobs(jobs, policyOrder(name), 3*testCycles, testCycles)
			within := 7.0
			switch {
			case m.name != "many jobs":
			case name == "fairshare": // it forgets before the light jobs of a long queue have their turns
				continue
			default:
				within = 12 // few turns
			}
			check(name, jobs, o, within, 2)
		}
	}
}

// TestWeightedKeysEqualDecay: keys that stand still give what the algorithm gives that touches every job, when each
// job's value grows by usage * weights / (weight * shares^2).
func TestWeightedKeysEqualDecay(t *testing.T) {
	for _, m := range weighed {
		of, in := m.jobs(), m.jobs()
		twin, keys := m.twinOf(of, 2*testCycles), m.playJobs(in, fairOrder(defaultPriorityCoeff), 2*testCycles, 0)
		want, got := parts(of), parts(in)
		t.Logf("%s: %.2f %.4v; twin %.2f %.4v", m.name, keys.shares, got, twin.shares, want)
		for key := range want {
			if math.Abs(got[key]-want[key]) > 1 {
				t.Errorf("%s: weight %d of account %d gets %.1f%% of its part, in its twin %.1f%%",
					m.name, key[1], key[0], got[key], want[key])
			}
		}
		for a := range m.shares {
			if math.Abs(twin.shares[a]-keys.shares[a]) > 0.5 {
				t.Errorf("%s: account %d gets %.2f%%, its twin %.2f%%", m.name, a, keys.shares[a], twin.shares[a])
			}
		}
	}
}

// TestWeightsChange: jobs get the parts of their new weights from then on, and accounts their shares.
func TestWeightsChange(t *testing.T) {
	m := weighed[0]
	for _, name := range []string{"fairshare", "tags", "stride", "lottery", "eevdf"} {
		jobs := m.jobs()
		p := m.begin(jobs, policyOrder(name))
		m.simulate(jobs, testCycles, 0, p.step)
		for _, j := range jobs {
			if j.account == 0 {
				weight := 300 - j.weight // 200 becomes 100
				p.accounts[0].Excess += weight - j.weight
				j.weight, j.slots = weight, 0
			}
		}
		for c := range 2 * testCycles {
			if c == 200 {
				for _, j := range jobs {
					j.slots = 0
				}
			}
			for _, j := range jobs {
				if j.running {
					j.slots++
				}
			}
			p.step(testCycles + c + 1)
		}
		got := parts(jobs)
		t.Logf("%s: %.4v", name, got)
		for key, part := range got {
			if math.Abs(part-100) > 5 {
				t.Errorf("%s: weight %d of account %d gets %.1f%% of its part", name, key[1], key[0], part)
			}
		}
	}
}

// TestEqualWeights: jobs stand where they did before there were weights, to the last bit, if all of their account have
// the same one, and where they stood if all weights of their account are doubled.
func TestEqualWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		o := Order{Epoch: number("epoch", 1), Forgetting: testForgetting, Decay: Decay{HalfLife: time.Hour}}
		o.Policy = Policy(rapid.IntRange(0, len(policies)-1).Draw(t, "policy"))
		plain := Account{Name: "a", Shares: 1 + number("shares", 999), Jobs: 1 + number("jobs", 1e6),
			Usage: number("usage", 1e15), Floor: number("floor", 1e15)}
		plain.Tail = plain.Floor + number("span", 1e15)
		equal := plain
		equal.Weight = 1 + number("weight", 999)
		equal.Excess = plain.Jobs * (equal.Weight - DefaultWeight)
		light, heavy := plain, plain
		light.Weight = 1 + number("light", 499)
		sum := light.Weight + (plain.Jobs-1)*(1+number("others", 499))
		light.Excess = sum - plain.Jobs*DefaultWeight
		heavy.Weight, heavy.Excess = 2*light.Weight, 2*sum-plain.Jobs*DefaultWeight
		began := Place{o.Epoch, plain.Floor + number("began", 1e15)}
		place := Place{number("epoch of the place", 1), number("place", 1e15)}
		turn := Turn{Place: place, Owed: time.Duration(number("owed", 1e12)), Began: began}
		now := instant.Time(number("now", 1e15))
		for _, pair := range [][2]Account{{plain, equal}, {light, heavy}} {
			var places [2][3]Place
			for i, a := range pair {
				var tail [2]Account
				places[i][0], tail[0] = o.Enter(now, a)
				places[i][1] = o.Next(turn, turn.Owed, now, a)
				places[i][2], tail[1] = o.Settle(turn, now, a)
				for _, after := range tail {
					if _, without := o.Enter(now, plain); after.Tail < a.Tail || tail[0].Tail != without.Tail {
						t.Fatalf("the tail goes from %d to %d", a.Tail, after.Tail)
					}
				}
			}
			if places[0] != places[1] {
				t.Fatalf("%s: %v of %+v, and %v of %+v", o.Policy, places[0], pair[0], places[1], pair[1])
			}
		}
	})
}

// TestTagOfWeights compares with tags computed by hand. The next tag of a job of half the mean weight is twice as far
// from the tag with which its turn began as that of a job of the mean weight. No tag is below the floor.
func TestTagOfWeights(t *testing.T) {
	o := Order{Policy: Tags, Epoch: 2, Forgetting: testForgetting}
	for _, c := range []struct {
		weight, began, epoch, floor, want int64
	}{
		{100, 1000, 2, 0, 5000}, // four jobs of 500 together, so the mean is 125
		{125, 1000, 2, 0, 4200},
		{250, 1000, 2, 0, 2600},
		{1, 1000, 2, 0, 401_000},
		{1000, 1000, 2, 3000, 3000},
		{250, 9000, 2, 0, 4200}, // it got its slot before its time
		{250, 1000, 1, 3000, 3600},
	} {
		a := Account{Shares: 100, Jobs: 4, Excess: 100, Tail: 4200, Floor: c.floor, Weight: c.weight}
		turn := Turn{Place: Place{2, 7}, Owed: time.Minute, Began: Place{c.epoch, c.began}}
		if got, after := o.Settle(turn, 0, a); got.Key != c.want || after.Tail != 4200+60_000_000 {
			t.Errorf("%+v: tag %d, tail %d", c, got.Key, after.Tail)
		}
		if got := o.Next(turn, time.Minute, 0, a); got.Key != c.want {
			t.Errorf("%+v: next %d", c, got.Key)
		}
	}
	// The floor jumped to a billion while the job ran: its way is that of eight turns of a minute, times 125.
	jumped := Account{Shares: 100, Jobs: 4, Excess: 100, Tail: 1e9, Floor: 1e9, Weight: 1}
	turn := Turn{Place: Place{2, 7}, Owed: time.Minute, Began: Place{2, 0}}
	if got, _ := o.Settle(turn, 0, jumped); got.Key != 520e6+480e6*125 {
		t.Errorf("after a jump of the floor: %d", got.Key)
	}
	far := Account{Shares: 1, Jobs: 1e6, Excess: 900 * 999_999, Tail: 1 << 61, Weight: 1}
	if got, _ := o.Enter(0, far); got.Key != 1<<61-1<<46+1<<46 {
		t.Errorf("far ahead: %d", got.Key)
	}
}

// TestWeightOfNewJobs: the way of a new job begins at the floor, and short turns count as much as one of a new job
// does. What no configuration gives is taken for the next that it may give.
func TestWeightOfNewJobs(t *testing.T) {
	o := Order{Policy: Tags, Forgetting: testForgetting}
	a := Account{Shares: 100, Jobs: 2, Excess: -50, Tail: 60e6, Weight: 50}
	if got, _ := o.Enter(0, a); got.Key != 90e6 {
		t.Errorf("a new job has the tag %d", got.Key)
	}
	if got, _ := o.Settle(Turn{Owed: time.Second}, 0, a); got.Key != 90e6 {
		t.Errorf("after a second the tag is %d", got.Key)
	}
	for _, name := range []string{"tags", "stride", "lottery"} {
		other := o
		if other.Policy, _ = ParsePolicy(name); other.Next(Turn{}, 0, 0, a).Key != 90e6 {
			t.Errorf("under %s a running job has the tag %d", name, other.Next(Turn{}, 0, 0, a).Key)
		}
	}
	if a.Tail = maxTag; o.Next(Turn{}, 0, 0, a).Key != maxTag {
		t.Errorf("behind all bounds the tag is %d", o.Next(Turn{}, 0, 0, a).Key)
	}
	heavy := func(weight int64) int64 { return Account{Shares: 1, Jobs: 5, Usage: 1e6, Weight: weight}.Growth() }
	if heavy(5*MaxWeight) != heavy(MaxWeight) || heavy(-5) != heavy(MinWeight) {
		t.Error("a weight out of its bounds counts as it is")
	}
	if got := (Account{Shares: 1, Jobs: 1, Excess: -5 * DefaultWeight, Usage: 1e6}).Growth(); got != 0 {
		t.Errorf("the growth is %d where weights are below 0 together", got)
	}
}

// TestTagsOfLightJobs: tags do not run away when only jobs of little weight wait, again and again, and a job comes back
// late in between, by whose tag the others go.
func TestTagsOfLightJobs(t *testing.T) {
	o := Order{Policy: Tags, Forgetting: testForgetting}
	a := Account{Shares: 100, Jobs: 3, Excess: 2*900 - 99, Weight: 1}
	place, began := Place{}, Place{}
	for range 10_000 {
		a.Floor = 0 // of the one that comes late
		place, a = o.Settle(Turn{Place: began, Owed: time.Minute, Began: began}, 0, a)
		a.Floor = place.Key
		a.Tail = o.Tail(a.Tail, a.Floor)
	}
	if most := int64(10_000 * (2*3*60_000_000*667 + 60_000_000)); place.Key > most {
		t.Errorf("after 10,000 turns the tag is %d, at most %d", place.Key, most)
	}
}
