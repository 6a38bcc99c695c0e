package schedule

import (
	"cmp"
	"math"
	"math/big"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

func TestLog2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, math.MaxInt64-1).Draw(t, "n")
		got := Log2(n)
		if diff := float64(got)/(1<<fraction) - math.Log2(float64(n)); math.Abs(diff) > 1e-9 {
			t.Fatalf("log2 of %d is off by %g", n, diff)
		}
		if Log2(n+1) < got {
			t.Fatalf("log2 falls behind %d", n)
		}
		if small := n % (1 << 31); Exp2(Log2(small)) != max(small, 1) {
			t.Fatalf("%d became %d", small, Exp2(Log2(small)))
		}
		log := rapid.Int64Range(0, 63<<fraction).Draw(t, "log")
		if Exp2(log+1) < Exp2(log) {
			t.Fatalf("exp2 falls behind %d", log)
		}
	})
	for n, want := range map[int64]int64{-1: 0, 0: 0, 1: 0, 2: 1 << fraction, 1 << 40: 40 << fraction} {
		if got := Log2(n); got != want {
			t.Errorf("log2 of %d is %d", n, got)
		}
	}
	if Exp2(-1) != 0 || Exp2(0) != 1 || Exp2(62<<fraction) != 1<<62 || Exp2(math.MaxInt64) != 1<<62 {
		t.Error("exp2 at its bounds")
	}
}

func TestMulDiv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(0, math.MaxInt64).Draw(t, "a"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "b")
		c := rapid.Int64Range(1, math.MaxInt64).Draw(t, "c")
		want := new(big.Int).Div(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := mulDiv(a, b, c); got != want.Int64() {
			t.Fatalf("%d*%d/%d = %d", a, b, c, got)
		}
	})
}

// TestUsage is the recurrence, interval by interval.
func TestUsage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Forgetting{Interval: time.Duration(rapid.Int64Range(1, 300).Draw(t, "interval")) * time.Second,
			Coeff: rapid.Int64Range(0, MaxUsageCoeff).Draw(t, "coeff")}
		length := f.Interval.Microseconds()
		count := rapid.IntRange(0, 40).Draw(t, "intervals")
		first := rapid.Int64Range(1_000_000, 2_000_000).Draw(t, "first")
		var charges []Charge
		want, usage := int64(0), int64(0)
		for i := range count {
			usage = usage * f.Coeff / million
			for range rapid.IntRange(0, 3).Draw(t, "workers") {
				used := rapid.Int64Range(0, 500*length).Draw(t, "used")
				charges = append(charges, Charge{At: instant.Time((first + int64(i)) * length), Used: used})
				usage += used
			}
			if i == count-3 {
				want = usage
			}
		}
		for _, c := range []struct {
			into time.Duration // the last interval
			want int64
		}{{f.Interval/4 - time.Microsecond, want}, {-f.Interval/2 - f.Interval/4, want}} {
			now := instant.Time((first + int64(count) - 1) * length).Add(c.into)
			if count >= 3 && f.Usage(charges, now) != c.want {
				t.Fatalf("%s into the last of %d intervals: %d, want %d", c.into, count, f.Usage(charges, now), c.want)
			}
		}
		now := instant.Time((first + int64(count)) * length).Add(f.Interval / 4)
		if got := f.Usage(charges, now); got != usage {
			t.Fatalf("%d, want %d", got, usage)
		}
		if got := f.Usage(charges, now.Add(f.Interval)); got != usage*f.Coeff/million {
			t.Fatalf("an interval later %d, want %d", got, usage*f.Coeff/million)
		}
	})
}

// TestUsageVanishes: CouchDB's numbers: a minute is forgotten by half in 26 intervals.
func TestUsageVanishes(t *testing.T) {
	f := Forgetting{Interval: time.Minute, Coeff: 500_000}
	charges := []Charge{{At: instant.Seconds(600), Used: 60_000_000}}
	at := instant.Seconds(660 + 15)
	if got := f.Usage(charges, at.Add(25*time.Minute)); got != 1 {
		t.Errorf("after 25 intervals %d", got)
	}
	if got := f.Usage(charges, at.Add(26*time.Minute)); got != 0 {
		t.Errorf("after 26 intervals %d", got)
	}
	if f.Memory() < 26*time.Minute || f.Memory() > 28*time.Minute {
		t.Errorf("memory %s", f.Memory())
	}
	most, more := f, f
	most.Coeff, more.Coeff = MaxUsageCoeff, million
	if most.Memory() != more.Memory() {
		t.Errorf("memory %s with the greatest coefficient, %s with more", most.Memory(), more.Memory())
	}
}

// TestUsageOfOtherIntervals: a charge for an interval of another length, as before a change of that, is one of the
// interval in which it began.
func TestUsageOfOtherIntervals(t *testing.T) {
	f := Forgetting{Interval: time.Minute, Coeff: 500_000}
	charges := []Charge{{At: instant.Seconds(30), Used: 800}, {At: instant.Seconds(110)}}
	if got := f.Usage(charges, instant.Seconds(180+15)); got != 200 {
		t.Errorf("usage %d", got)
	}
}

func TestGrowth(t *testing.T) {
	for _, c := range []struct{ usage, jobs, shares, want int64 }{
		{60_000_000, 1, 100, 6000}, {60_000_000, 100, 100, 600_000}, {59_999_999, 1, 1000, 59}, {5, 5, 0, 25},
		{-1, 5, 1, 0}, {1, 1, 100, 0},
		{math.MaxInt64, math.MaxInt64, 1, math.MaxInt64},
	} {
		if got := (Account{Usage: c.usage, Jobs: c.jobs, Shares: c.shares}).Growth(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestPlacesCompare: jobs of an earlier epoch go first, whatever their keys are.
func TestPlacesCompare(t *testing.T) {
	order := []Place{{0, 9}, {1, 3}, {1, 4}, {2, -1}}
	for i, a := range order {
		for j, b := range order {
			if a.Compare(b) != cmp.Compare(i, j) {
				t.Errorf("%v and %v: %d", a, b, a.Compare(b))
			}
		}
	}
}

func TestPolicyNames(t *testing.T) {
	for i, name := range append(Policies(), Simulated()...) {
		if got, err := ParsePolicy(name); got != Policy(i) || got.String() != name || err != nil {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	for p, want := range map[Policy]string{FairShare: "fairshare", FIFO: "fifo", Tags: "tags"} { // stored by name
		if got, err := p.MarshalText(); string(got) != want || err != nil {
			t.Errorf("%d: %s %v", p, got, err)
		}
	}
	const want = "must be one of fairshare, fifo, tags, stride, lottery, eevdf"
	if _, err := ParsePolicy("luck"); err == nil || err.Error() != want {
		t.Error(err)
	}
}

// TestPlaces: where new and stopped jobs go under each policy.
func TestPlaces(t *testing.T) {
	a := Account{Shares: 100, Jobs: 2, Usage: 60_000_000, Tail: 77}
	now := instant.Seconds(3600)
	fair := Order{Policy: FairShare, Epoch: 3, Forgetting: testForgetting, Decay: Decay{HalfLife: time.Hour}}
	clock := int64(1 << fraction)
	fifo, tags := Order{Policy: FIFO, Epoch: 1}, Order{Policy: Tags, Epoch: 1, Forgetting: testForgetting}
	new := func(o Order, a Account) Place {
		place, after := o.Enter(now, a)
		if want := a.Tail + testInterval.Microseconds(); o.Policy == Tags && after.Tail != want {
			t.Errorf("a new job moves the tail to %d, want %d", after.Tail, want)
		}
		return place
	}
	again := func(o Order, turn Turn) Place {
		place, after := o.Settle(turn, now, a)
		moves, owes := after != a, o.Pays(turn) && turn.Owed > 0
		if moves != owes || moves && after.Tail != a.Tail+turn.Owed.Microseconds() {
			t.Errorf("%s: %+v makes %+v of the account", o.Policy, turn, after)
		}
		return place
	}
	next := func(o Order, p Place, ran time.Duration) Place { return o.Next(Turn{Place: p, Began: p}, ran, now, a) }
	here, minute := Place{1, 40}, Turn{Place: Place{1, 40}, Owed: time.Minute}
	for _, c := range []struct {
		name      string
		got, want Place
	}{
		{"fair, new", new(fair, a), Place{3, clock + Log2(12_000)}},
		{"fair, new in an idle account", new(fair, Account{Shares: 100, Jobs: 1}), Place{3, clock}},
		{"fair, half an interval", next(fair, Place{3, clock}, testInterval/2), Place{3, clock + Log2(6000)}},
		{"fair, an interval at most", next(fair, Place{3, clock}, testInterval*9), Place{3, clock + Log2(12_000)}},
		{"fair, a value decays first", next(fair, Place{3, Log2(8000)}, testInterval), Place{3, clock + Log2(16_000)}},
		{"fair, from another policy", next(fair, Place{2, 1 << 60}, testInterval), Place{3, clock + Log2(12_000)}},
		{"fifo, new", new(fifo, a), Place{1, 0}},
		{"fifo", next(fifo, Place{}, time.Hour), Place{1, int64(now)}},
		{"tags, new", new(tags, a), Place{1, 77}},
		{"tags", next(tags, Place{}, time.Hour), Place{1, 77}},
		{"fair, again", again(fair, Turn{Place: Place{3, 40}, Owed: time.Minute}), Place{3, 40}},
		{"fair, again, from another policy", again(fair, minute), Place{3, clock}},
		{"fifo, again", again(fifo, minute), Place{1, int64(now)}},
		{"tags, again", again(tags, minute), Place{1, 77}},
		{"tags, again, and nothing waited", again(tags, Turn{Place: here}), here},
		{"tags, again, from another policy", again(tags, Turn{Place: Place{0, 40}, Owed: time.Second}), Place{1, 77}},
		{"tags, again, from another policy, and nothing waited", again(tags, Turn{Place: Place{0, 40}}), Place{1, 77}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if Cost(time.Second, 100) != 1_000_000 || Cost(time.Second, 50) != 2_000_000 || Cost(-time.Second, 50) != 0 {
		t.Error("costs")
	}
}

// TestNextRound: new tags begin behind all that wait when one of these has waited for a whole round, unless it is the
// first of all, and never before where they began.
func TestNextRound(t *testing.T) {
	o := Order{Policy: Tags, Round: Round{Since: 5, Last: 40, Base: 20}}
	for _, c := range []struct{ first, last, base int64 }{{39, 60, 60}, {40, 60, 20}, {5, 10, 20}} {
		if got, want := o.NextRound(9, c.first, c.last), (Round{9, c.last, c.base}); got != want {
			t.Errorf("first %d, last %d: %+v", c.first, c.last, got)
		}
	}
	if got, want := o.NextRound(4, 39, 60), (Round{4, 40, 20}); got != want {
		t.Errorf("of a round from the future there is %+v, want %+v", got, want)
	}
	if o.Tail(10, 15) != 20 || o.Tail(10, 30) != 30 || o.Tail(50, 30) != 50 {
		t.Errorf("tails %d, %d, %d", o.Tail(10, 15), o.Tail(10, 30), o.Tail(50, 30))
	}
}

// TestRoundEnds: after eight full turns, by what is slower: churn, or the time that runs last at least.
func TestRoundEnds(t *testing.T) {
	o := Order{Policy: Tags, Forgetting: testForgetting, Round: Round{Since: instant.Seconds(10_000)}}
	for _, c := range []struct {
		name   string
		ready  int64
		churn  int
		minRun time.Duration
		want   time.Duration
	}{
		{"by churn", 100, 10, 0, 80 * time.Minute},
		{"by runs", 100, 10, 20 * time.Minute, 320 * time.Minute},
	} {
		ends := func(after time.Duration) bool {
			return o.RoundEnds(o.Round.Since.Add(after), c.ready, c.churn, 50, c.minRun)
		}
		if ends(c.want-time.Microsecond) || !ends(c.want) {
			t.Errorf("%s: not after %s", c.name, c.want)
		}
	}
	long := o.Round.Since.Add(1000 * time.Hour)
	if o.RoundEnds(long, 0, 10, 50, 0) || o.RoundEnds(long, 9, 0, 50, 0) || o.RoundEnds(long, 9, 9, 0, 0) {
		t.Error("a round ends though nothing waits, or nothing gives way")
	}
	if !o.RoundEnds(long, 1, 1, 1, 0) {
		t.Error("the round of one job on one slot goes on for ever")
	}
	if !o.RoundEnds(instant.Seconds(9000), 9, 9, 9, 0) {
		t.Error("a round from the future goes on as it is")
	}
	if o.RoundEnds(instant.Seconds(9941), 9, 9, 9, 0) {
		t.Error("a round begins again by a clock that is a little behind")
	}
	for _, name := range []string{"fairshare", "fifo", "stride", "lottery", "eevdf"} {
		if o.Policy, _ = ParsePolicy(name); o.RoundEnds(long, 9, 9, 9, 0) {
			t.Errorf("%s has rounds", name)
		}
	}
}

// TestPeriods: each period sets what it is for, and follows the one before if it is not set.
func TestPeriods(t *testing.T) {
	a := Account{Shares: 100, Jobs: 1, Usage: 60_000_000}
	o := Order{Forgetting: testForgetting, PriorityCoeff: 500_000, Decay: Decay{HalfLife: time.Hour}}
	grown := func() int64 { return Exp2(o.Next(Turn{}, testInterval, 0, a).Key) }
	paid := func() int64 {
		tags := o
		tags.Policy = Tags
		_, after := tags.Enter(0, a)
		return after.Tail
	}
	for _, c := range []struct {
		periods     Periods
		halfLife    time.Duration
		grown, paid int64
		auto, floor int64 // the least half-life of a long queue, and of a short one, in minutes
	}{
		{Periods{}, time.Minute, 6000, 60_000_000, 277, 34},
		{Periods{Rotation: 2 * time.Minute}, 2 * time.Minute, 3000, 120_000_000, 554, 68},
		{Periods{Priority: 5 * time.Minute}, 5 * time.Minute, 6000, 60_000_000, 277, 171},
		{Periods{Growth: 4 * time.Minute}, time.Minute, 1500, 240_000_000, 277, 34},
		{Periods{Growth: 30 * time.Second}, time.Minute, 6000, 30_000_000, 277, 34},
	} {
		o.Periods = c.periods
		auto := o
		auto.PriorityCoeff, auto.Decay.HalfLife = 0, time.Second
		long := int64(auto.HalfLife(20_000, 20) * 2 / 3 / time.Minute) // half as much again is added to the least
		short := int64(auto.HalfLife(0, 20) / time.Minute)
		if got := o.HalfLife(0, 0); got != c.halfLife || grown() != c.grown || paid() != c.paid {
			t.Errorf("half-life %s, growth %d, cost %d; want %+v", got, grown(), paid(), c)
		}
		if long != c.auto || short != c.floor {
			t.Errorf("half-lives of %d and %d minutes under auto; want %+v", long, short, c)
		}
	}
}
