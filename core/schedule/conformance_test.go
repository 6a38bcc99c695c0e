package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/prng"
)

// mix is some accounts that want more slots than there are.
type mix struct {
	name    string
	shares  []int64
	running []int // jobs of each account that have a slot at first
	pending []int
	// least and most are percents of the running time, where they are known beforehand.
	least, most []float64
	churn       int
	endless     bool // rounds never end
	// weights of the jobs of an account, over and over; without any all jobs have the same
	weights [][]int64
}

// vectors are the simulations in CouchDB's couch_replicator_share, with the ranges that it asserts.
var vectors = []mix{
	{"A", []int64{100, 100}, []int{25, 25}, []int{75, 75}, []float64{49, 49}, []float64{51, 51}, 10, false, nil},
	{"B", []int64{900, 100}, []int{25, 25}, []int{75, 75}, []float64{89, 9}, []float64{91, 11}, 10, false, nil},
	{"C", []int64{100, 100}, []int{25, 25}, []int{25, 125}, []float64{49, 49}, []float64{51, 51}, 10, false, nil},
	{"D", []int64{1, 100}, []int{25, 25}, []int{25, 125}, []float64{0, 98}, []float64{2, 100}, 10, false, nil},
	{"E", []int64{100, 100, 100}, []int{25, 25, 25}, []int{75, 75, 75}, []float64{32, 32, 32}, []float64{34, 34, 34},
		10, false, nil},
	{"F", []int64{100, 700, 200}, []int{25, 25, 25}, []int{75, 75, 75}, []float64{9, 69, 19}, []float64{11, 71, 21},
		10, false, nil},
	{"G", []int64{100, 100, 100}, []int{25, 25, 25}, []int{25, 100, 75}, []float64{32, 32, 32}, []float64{34, 34, 34},
		10, false, nil},
	{"H", []int64{1000, 100, 1}, []int{25, 25, 25}, []int{100, 125, 875}, []float64{87, 9, 2}, []float64{89, 11, 4},
		10, false, nil},
}

// others have more jobs, other churns and shares at the bounds.
var others = []mix{
	{name: "many jobs", shares: []int64{200, 100, 50}, running: []int{20, 50, 30}, pending: []int{380, 950, 570},
		churn: 4},
	{name: "noisy neighbour", shares: []int64{100, 100, 100, 100}, running: []int{40, 3, 3, 4},
		pending: []int{860, 30, 30, 30}, churn: 5},
	{name: "extremes", shares: []int64{1000, 1}, running: []int{10, 10}, pending: []int{200, 200}, churn: 5},
	{name: "few jobs", shares: []int64{300, 100, 100}, running: []int{4, 3, 3}, pending: []int{6, 7, 20}, churn: 2},
	{name: "swap all", shares: []int64{500, 100}, running: []int{10, 10}, pending: []int{90, 90}, churn: 20},
}

const (
	testInterval = time.Minute
	testCycles   = 1000
)

var testForgetting = Forgetting{Interval: testInterval, Coeff: 500_000}

// testJob is a job in a simulation: the twin uses priority, the product place.
type testJob struct {
	number   int // its place in the list
	account  int
	weight   int64
	running  bool
	started  int // cycle
	priority int64
	place    Place
	began    Place // where it got its slot
	slots    int   // cycles that it had a slot in, of those that count
}

func (m mix) weight(account, i int) int64 {
	if m.weights == nil {
		return DefaultWeight
	}
	list := m.weights[account]
	return list[i%len(list)]
}

func (m mix) jobs() []*testJob {
	var list []*testJob
	for a := range m.shares {
		for i := range m.running[a] + m.pending[a] {
			list = append(list, &testJob{account: a, running: i < m.running[a], weight: m.weight(a, i)})
		}
	}
	rng := prng.New(1)
	shuffled := make([]*testJob, 0, len(list))
	for _, i := range rng.Sample(len(list), len(list)) {
		list[i].number = len(shuffled)
		shuffled = append(shuffled, list[i])
	}
	return shuffled
}

// outcome is what each account got, in percent, and the longest time without a slot of any job, in cycles.
type outcome struct {
	shares  []float64
	maxWait int
}

// simulate runs cycles of which step stops and starts jobs. The first ones do not count.
func (m mix) simulate(jobs []*testJob, cycles, warmUp int, step func(cycle int)) outcome {
	used := make([]float64, len(m.shares))
	waits := make([]int, len(jobs))
	var o outcome
	total := 0.0
	for c := range cycles {
		for i, j := range jobs {
			waits[i]++
			if j.running {
				waits[i] = 0
			}
			if j.running && c >= warmUp {
				j.slots++
				used[j.account]++
				total++
			}
			o.maxWait = max(o.maxWait, waits[i])
		}
		step(c + 1)
	}
	for _, u := range used {
		o.shares = append(o.shares, 100*u/total)
	}
	return o
}

// twin is the dumb twin: the algorithm of Kay and Lauder as CouchDB has it, which touches every job in every
// cycle.
func (m mix) twin(cycles int) outcome {
	return m.twinOf(m.jobs(), cycles)
}

func (m mix) twinOf(jobs []*testJob, cycles int) outcome {
	usage, weights := make([]int64, len(m.shares)), make([]int64, len(m.shares))
	for _, j := range jobs {
		weights[j.account] += j.weight
	}
	return m.simulate(jobs, cycles, 0, func(c int) {
		for a := range usage {
			usage[a] = usage[a] * testForgetting.Coeff / million
		}
		for _, j := range jobs {
			if j.running {
				usage[j.account] += testInterval.Microseconds()
			}
		}
		for _, j := range jobs {
			j.priority = j.priority * defaultPriorityCoeff / million
			if j.running {
				s := m.shares[j.account]
				j.priority += usage[j.account] * weights[j.account] / (j.weight * s * s)
			}
		}
		stops := slices.DeleteFunc(slices.Clone(jobs), func(j *testJob) bool { return !j.running })
		slices.SortStableFunc(stops, func(a, b *testJob) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.started, b.started))
		})
		for _, j := range stops[:m.churn] {
			j.running = false
		}
		starts := slices.DeleteFunc(slices.Clone(jobs), func(j *testJob) bool { return j.running })
		slices.SortStableFunc(starts, func(a, b *testJob) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.started, b.started))
		})
		for _, j := range starts[:m.churn] {
			j.running, j.started = true, c
		}
	})
}

// product is the same with what the service uses: a waiting job is never touched.
type product struct {
	mix
	order    Order
	jobs     []*testJob
	waiting  []*testJob // in their order
	accounts []Account
	ledger   Ledger
	charges  [][]Charge
	slots    int
}

func (m mix) play(o Order, cycles, warmUp int) outcome {
	return m.playJobs(m.jobs(), o, cycles, warmUp)
}

func (m mix) playJobs(jobs []*testJob, o Order, cycles, warmUp int) outcome {
	return m.simulate(jobs, cycles, warmUp, m.begin(jobs, o).step)
}

func (m mix) begin(jobs []*testJob, o Order) *product {
	p := &product{mix: m, order: o, jobs: jobs, charges: make([][]Charge, len(m.shares))}
	for _, s := range m.shares {
		p.accounts = append(p.accounts, Account{Shares: s})
	}
	for _, j := range p.jobs {
		p.accounts[j.account].Jobs++
		p.accounts[j.account].Excess += j.weight - DefaultWeight
		if j.running {
			p.slots++
		}
		j.place, p.accounts[j.account] = p.order.Enter(0, p.account(j))
		if j.began = j.place; !j.running {
			p.waiting = append(p.waiting, j)
		}
	}
	slices.SortFunc(p.waiting, inOrder)
	return p
}

// account is that of a job, of which a place is asked.
func (p *product) account(j *testJob) Account {
	a := p.accounts[j.account]
	a.Weight = j.weight
	return a
}

// turn is that of a running job until a cycle.
func (p *product) turn(j *testJob, c int) Turn {
	return Turn{Place: j.place, Owed: time.Duration(c-j.started) * testInterval, Began: j.began}
}

func (p *product) step(c int) {
	end := instant.Time(0).Add(time.Duration(c) * testInterval)
	now := end.Add(testInterval / 4)
	if half := p.order.HalfLife(int64(len(p.jobs)-p.slots), p.churn); half != p.order.Decay.HalfLife {
		p.order.Decay = p.order.Decay.Changed(now, half)
	}
	p.endRound(now)
	p.charge(end)
	first, _ := p.ends()
	for a := range p.accounts {
		p.accounts[a].Usage = p.order.Forgetting.Usage(p.charges[a], now)
		p.accounts[a].Tail = p.order.Tail(p.accounts[a].Tail, first)
		p.accounts[a].Floor = p.order.Floor(first)
	}
	var on []*testJob
	var running []Running
	for _, j := range p.jobs {
		if !j.running {
			continue
		}
		j.place = p.order.Next(p.turn(j, c), testInterval, now, p.account(j))
		on = append(on, j)
		running = append(running, Running{Continuous: true, Since: instant.Time(j.started), Place: j.place})
	}
	var ready []Place
	for _, j := range p.waiting[:p.churn] {
		ready = append(ready, j.place)
	}
	stops := Rotate(p.order.Policy, running, 0, ready, Limits{MaxJobs: p.slots, MaxChurn: p.churn}, now)
	for _, i := range stops {
		j := on[i]
		j.running = false
		j.place, p.accounts[j.account] = p.order.Settle(p.turn(j, c), now, p.account(j))
		at, _ := slices.BinarySearchFunc(p.waiting, j, inOrder)
		p.waiting = slices.Insert(p.waiting, at, j)
	}
	for _, j := range p.waiting[:len(stops)] {
		j.running, j.started, j.began = true, c, j.place
	}
	p.waiting = p.waiting[len(stops):]
}

func inOrder(a, b *testJob) int {
	return cmp.Or(a.place.Compare(b.place), cmp.Compare(a.started, b.started), cmp.Compare(a.number, b.number))
}

func (p *product) endRound(now instant.Time) {
	ready := int64(len(p.jobs) - p.slots)
	if !p.order.RoundEnds(now, ready, p.churn, p.slots, 0) || p.endless {
		return
	}
	first, last := p.ends()
	p.order.Round = p.order.NextRound(now, first, last)
}

// ends are the first and the last key that wait.
func (p *product) ends() (first, last int64) {
	first = math.MaxInt64
	for _, j := range p.jobs {
		if !j.running {
			first, last = min(first, j.place.Key), max(last, j.place.Key)
		}
	}
	return first, last
}

// remembered are the charges of an account that count: halved so often, a day in each of a thousand slots is nothing.
const remembered = 64

func (p *product) charge(end instant.Time) {
	for _, j := range p.jobs {
		if j.running {
			p.ledger.Add(fmt.Sprint(j.account), testInterval, end, testInterval)
		}
	}
	due := p.ledger.Due("w", math.MaxInt)
	p.ledger.Stored(due, end)
	for _, c := range due {
		var a int
		fmt.Sscan(c.Account, &a)
		p.charges[a] = append(p.charges[a], c)
		p.charges[a] = p.charges[a][max(0, len(p.charges[a])-remembered):]
	}
}

func fairOrder(coeff int64) Order {
	return Order{Policy: FairShare, Forgetting: testForgetting, PriorityCoeff: coeff,
		Decay: Decay{HalfLife: HalfLife(defaultPriorityCoeff, testInterval)}}
}

// TestConformance: CouchDB's own vectors hold for the keys of fair share.
func TestConformance(t *testing.T) {
	for _, m := range vectors {
		twin, keys := m.twin(testCycles), m.play(fairOrder(defaultPriorityCoeff), testCycles, 0)
		t.Logf("%s: %.2f, longest wait %d; twin %.2f, %d", m.name, keys.shares, keys.maxWait, twin.shares, twin.maxWait)
		for who, o := range map[string]outcome{"twin": twin, "keys": keys} {
			for a, got := range o.shares {
				if got < m.least[a] || got > m.most[a] {
					t.Errorf("%s of %s: account %d got %.1f%%, want %.0f to %.0f", who, m.name, a, got, m.least[a],
						m.most[a])
				}
			}
		}
	}
}

// TestKeysEqualDecay: keys that stand still give what the algorithm gives that touches every job.
func TestKeysEqualDecay(t *testing.T) {
	for _, m := range slices.Concat(vectors, others) {
		twin, keys := m.twin(testCycles), m.play(fairOrder(defaultPriorityCoeff), testCycles, 0)
		t.Logf("%s: %.2f, longest wait %d; twin %.2f, %d", m.name, keys.shares, keys.maxWait, twin.shares, twin.maxWait)
		for a := range m.shares {
			if math.Abs(twin.shares[a]-keys.shares[a]) > 0.5 {
				t.Errorf("%s: account %d gets %.2f%%, its twin %.2f%%", m.name, a, keys.shares[a], twin.shares[a])
			}
		}
		if d := keys.maxWait - twin.maxWait; d > 5 || d < -5 {
			t.Errorf("%s: longest wait %d cycles, its twin's %d", m.name, keys.maxWait, twin.maxWait)
		}
	}
}

// TestAutomaticCoefficient: with many jobs CouchDB's coefficient forgets before all had their turns, and the
// automatic one does not.
func TestAutomaticCoefficient(t *testing.T) {
	m := others[0]
	ideal := []float64{400. / 7, 200. / 7, 100. / 7}
	worst := func(o outcome) (worst float64) {
		for a := range ideal {
			worst = max(worst, math.Abs(o.shares[a]-ideal[a]))
		}
		return worst
	}
	fixed, auto := m.play(fairOrder(defaultPriorityCoeff), 3000, 1500), m.play(fairOrder(0), 3000, 1500)
	t.Logf("fixed %.2f, auto %.2f", fixed.shares, auto.shares)
	if worst(fixed) < 3 || worst(auto) > 1 {
		t.Errorf("errors: fixed %.2f, auto %.2f points", worst(fixed), worst(auto))
	}
}

// TestOtherPolicies: tags give the shares exactly, fifo does not know of them.
func TestOtherPolicies(t *testing.T) {
	for _, m := range vectors {
		m.endless = true // see TestWaitsUnderTags
		tags := m.play(Order{Policy: Tags, Forgetting: testForgetting}, testCycles, 0)
		fifo := m.play(Order{Policy: FIFO, Forgetting: testForgetting}, testCycles, 0)
		t.Logf("%s: tags %.1f, longest wait %d; fifo %.1f, %d", m.name, tags.shares, tags.maxWait, fifo.shares,
			fifo.maxWait)
		var shares, jobs float64
		for a, s := range m.shares {
			shares, jobs = shares+float64(s), jobs+float64(m.running[a]+m.pending[a])
		}
		for a, s := range m.shares {
			if want := 100 * float64(s) / shares; math.Abs(tags.shares[a]-want) > 2 {
				t.Errorf("%s: account %d gets %.1f%% by tags, want %.1f%%", m.name, a, tags.shares[a], want)
			}
			if want := 100 * float64(m.running[a]+m.pending[a]) / jobs; math.Abs(fifo.shares[a]-want) > 4 {
				t.Errorf("%s: account %d gets %.1f%% by fifo, want %.1f%%", m.name, a, fifo.shares[a], want)
			}
		}
	}
}
