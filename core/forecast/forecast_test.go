package forecast

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"couchrelay/core/config"

	"pgregory.net/rapid"
)

// world are settings and a queue in which accounts a, b, c... have these shares and jobs.
func world(slots, churn int, coeff int64, shares, jobs []int64) (config.Settings, Queue) {
	s, q := config.Default(), Queue{Nodes: 1, Startup: 5 * time.Second}
	s.Node.MaxJobs, s.Node.MaxChurn, s.Node.MinRun = slots, churn, 0
	s.Replicator.Sharing.PriorityCoeff = coeff
	for i, n := range jobs {
		name := string(rune('a' + i))
		s.Replicator.Sharing.Shares[name] = shares[i]
		q.Accounts = append(q.Accounts, Account{name, n})
	}
	return s, q
}

// inRounds is the forecast for rounds of an interval each, as the simulations had them.
func inRounds(s config.Settings, q Queue) Forecast { return of(s, q, s.Node.Interval) }

// TestRounds: production's nodes make eight rounds in seven intervals.
func TestRounds(t *testing.T) {
	s, q := world(500, 20, 980_000, []int64{200, 100, 50}, []int64{2000, 5000, 3000})
	f := Of(s, q)
	one := 52500 * time.Millisecond
	if f.Turn != 475*one || f.Starts != 1371 || f.Memory != 50*time.Minute || f.LeastRun != one {
		t.Errorf("%+v", f)
	}
	for least, rounds := range map[time.Duration]time.Duration{
		0: 1, 52 * time.Second: 1, time.Minute: 2, 105 * time.Second: 2, 106 * time.Second: 3,
	} {
		s.Node.MinRun = least
		if f := Of(s, q); f.LeastRun != rounds*one {
			t.Errorf("jobs that run for %s run for %s", least, f.LeastRun)
		}
	}
	for _, interval := range []time.Duration{100 * time.Millisecond, time.Minute, 24 * time.Hour} {
		s.Node.MinRun, s.Node.Interval = math.MaxInt64, interval
		if f := Of(s, q); f.Turn != Never || f.Starts != 0 {
			t.Errorf("jobs that never give way have turns of %s, %d an hour, with an interval of %s", f.Turn, f.Starts,
				interval)
		}
	}
}

// TestCollapse: share errors depend on tau/L. The measured ones are those of CouchDB's algorithm, played job by job
// with 2,000 and 10,000 jobs, in points.
func TestCollapse(t *testing.T) {
	shares := []int64{200, 100, 50}
	for _, c := range []struct {
		slots, churn     int
		coeff            int64
		jobs             []int64
		measured, within float64
	}{
		{100, 1, 500_000, []int64{400, 1000, 600}, 30.4, 0.5},
		{500, 20, 900_000, []int64{2000, 5000, 3000}, 20.6, 0.5},
		{100, 4, 900_000, []int64{400, 1000, 600}, 20.5, 0.5},
		{500, 5, 980_000, []int64{2000, 5000, 3000}, 18.9, 0.5},
		{100, 1, 980_000, []int64{400, 1000, 600}, 18.8, 0.5},
		{100, 2, 960_000, []int64{400, 1000, 600}, 18.8, 0.5},
		{100, 1, 990_000, []int64{400, 1000, 600}, 11.9, 0.5},
		{100, 2, 980_000, []int64{400, 1000, 600}, 11.2, 1},
		{100, 4, 960_000, []int64{400, 1000, 600}, 10.3, 2},
		{100, 1, 995_000, []int64{400, 1000, 600}, 5.9, 0.5},
		{100, 2, 990_000, []int64{400, 1000, 600}, 5.8, 0.5},
		{100, 4, 980_000, []int64{400, 1000, 600}, 5.7, 0.5},
		{500, 20, 980_000, []int64{2000, 5000, 3000}, 5.6, 0.5},
		{100, 8, 960_000, []int64{400, 1000, 600}, 5.3, 0.5},
		{100, 2, 995_000, []int64{400, 1000, 600}, 2.3, 0.5},
		{100, 4, 990_000, []int64{400, 1000, 600}, 2.2, 0.5},
		{100, 8, 980_000, []int64{400, 1000, 600}, 1.9, 0.5},
		{100, 16, 960_000, []int64{400, 1000, 600}, 1.3, 0.5},
		{500, 20, 995_000, []int64{2000, 5000, 3000}, 0.7, 0.5},
		{100, 4, 995_000, []int64{400, 1000, 600}, 0.8, 0.5},
		{100, 8, 990_000, []int64{400, 1000, 600}, 0.6, 0.5},
		{100, 16, 980_000, []int64{400, 1000, 600}, 0.3, 0.5},
		{100, 32, 960_000, []int64{400, 1000, 600}, 1.8, 0.5},
		{500, 100, 980_000, []int64{2000, 5000, 3000}, 0.7, 0.5},
		{500, 20, 500_000, []int64{2000, 5000, 3000}, 29.3, 0.5},
	} {
		f := inRounds(world(c.slots, c.churn, c.coeff, shares, c.jobs))
		got := float64(f.ShareError) / 10_000
		t.Logf("tau/L %.3f: %.2f points, measured %.1f", float64(f.Ratio)/million, got, c.measured)
		if math.Abs(got-c.measured) > c.within {
			t.Errorf("%d slots, churn %d, coefficient %d: %.2f points, measured %.1f", c.slots, c.churn, c.coeff, got,
				c.measured)
		}
	}
}

// TestNumbers: what is computed in one line each, by hand. 9,500 jobs wait, and 20 give way in a minute: L is 475
// minutes. 1,200 starts an hour of 5 seconds are 6,000 of 500 * 3,600 seconds.
func TestNumbers(t *testing.T) {
	s, q := world(500, 20, 980_000, []int64{200, 100, 50}, []int64{2000, 5000, 3000})
	f := inRounds(s, q)
	for name, c := range map[string][2]any{
		"slots":   {f.Slots, int64(500)},
		"waiting": {f.Waiting, int64(9500)},
		"turn":    {f.Turn, 475 * time.Minute},
		"memory":  {f.Memory, 50 * time.Minute},
		"ratio":   {f.Ratio, int64(105_263)},
		"usage":   {f.UsageMemory, s.Replicator.Sharing.Forgetting.Memory()},
		"starts":  {f.Starts, int64(1200)},
		"cost":    {f.StartupCost, int64(3333)},
		"a's":     {f.Accounts[0].Entitled, int64(571_428)},
		"c's":     {f.Accounts[2].Entitled, int64(142_857)},
		"fresh":   {f.Accounts[1].Freshness, f.Accounts[1].LongestWait + 5*time.Second},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %v, not %v", name, c[0], c[1])
		}
	}
	if got := (Outlook{Run: time.Hour, Wait: 5 * time.Hour}).Turns(); got != 4*million {
		t.Errorf("%d turns a day", got)
	}
	if got := (Outlook{Run: Never, Wait: Never}).Turns(); got != 0 {
		t.Errorf("%d turns a day of a job that waits for ever", got)
	}
	q.Startup = 24 * time.Hour
	if got := inRounds(s, q).StartupCost; got != million {
		t.Errorf("starts that take all time take %d of it", got)
	}
	s.Replicator.Sharing.PriorityCoeff = million // forgets nothing
	if f = inRounds(s, q); f.Memory < 10*365*24*time.Hour {
		t.Errorf("a coefficient of 1 remembers %s", f.Memory)
	}
	s.Replicator.Sharing.PriorityCoeff = 0 // remembers 0.6 turns
	if f = inRounds(s, q); f.Memory.Round(time.Minute) != 285*time.Minute {
		t.Errorf("auto remembers %s", f.Memory)
	}
	roomy := s
	if roomy.Node.MaxJobs = 10_000; inRounds(roomy, q).Accounts[0].Run != Never {
		t.Errorf("with room for all a job runs for %s", inRounds(roomy, q).Accounts[0].Run)
	}
	q.Nodes, s.Node.MaxChurn = 2, 10
	two := inRounds(s, q)
	if two.Slots != 1000 || two.Waiting != 9000 || two.Turn != 450*time.Minute || two.Starts != 1200 {
		t.Errorf("two nodes: %+v", two)
	}
	if two.Memory.Round(time.Minute) != 270*time.Minute {
		t.Errorf("two nodes remember %s", two.Memory)
	}
}

// TestSlotForEachJob: jobs of an account that is entitled to a slot for each of them never wait, and hide no wait of
// others. The simulator starts none of them in a day.
func TestSlotForEachJob(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, time.Minute, time.Hour} {
		for _, jobs := range []int64{1, 2} {
			s, q := world(5, 2, 0, []int64{300, 100}, []int64{jobs, 12})
			s.Node.Interval = interval
			list, f := Findings(s, q)
			if o := f.Accounts[0]; o.Run != Never || o.Wait != 0 || o.LongestWait != 0 || o.Turns() != 0 ||
				o.Expected > o.Entitled || o.Expected < o.Entitled-10 {
				t.Errorf("%d of an account that needs no more, intervals of %s: %+v", jobs, interval, o)
			}
			if o := f.Longest(); o.Name != "b" || o.Run == Never || o.Wait == 0 {
				t.Errorf("the longest wait is that of %+v", o)
			}
			for _, of := range list {
				if of.Name == "wait" && !strings.HasPrefix(of.Says, "Jobs of b wait for ") {
					t.Error(of.Says)
				}
			}
		}
	}
}

// TestEntitled: what an account does not need is divided among the others by their shares.
func TestEntitled(t *testing.T) {
	for _, c := range []struct{ shares, jobs, want []int64 }{
		{[]int64{100, 100}, []int64{50, 500}, []int64{500_000, 500_000}},
		{[]int64{100, 100}, []int64{10, 500}, []int64{100_000, 900_000}},
		{[]int64{100, 200, 100}, []int64{10, 500, 500}, []int64{100_000, 600_000, 300_000}},
		{[]int64{1, 1000}, []int64{500, 20}, []int64{800_000, 200_000}},
		{[]int64{100, 100}, []int64{10, 20}, []int64{100_000, 200_000}},
	} {
		f := Of(world(100, 5, 0, c.shares, c.jobs))
		for i, want := range c.want {
			if got := f.Accounts[i].Entitled; got != want {
				t.Errorf("shares %v, jobs %v: account %d is entitled to %d, not %d", c.shares, c.jobs, i, got, want)
			}
		}
	}
}

// TestLogarithms: they are those of floating point, however small or large the numbers.
func TestLogarithms(t *testing.T) {
	near := func(what string, got int64, want float64) {
		if got := float64(got) / one; math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
			t.Errorf("%s: %.9f, not %.9f", what, got, want)
		}
	}
	for _, halfLife := range []time.Duration{time.Second, time.Minute, 35 * time.Minute, 87600 * time.Hour} {
		m := model{round: time.Minute, halfLife: halfLife}
		for log := 10; log < 52; log++ {
			n := int64(1) << log
			x := float64(n) / one * float64(m.round) / float64(halfLife)
			near(fmt.Sprintf("1 - 2^-%g", x), m.left(n), math.Log2(-math.Expm1(-x*math.Ln2)))
		}
	}
	for _, c := range [][2]float64{{0, 0}, {5, -3}, {-700, 2.5}, {1, 1.25}} {
		got := addLogs(int64(c[0]*one), int64(c[1]*one))
		near(fmt.Sprint("sum of ", c), got, math.Log2(math.Exp2(c[0])+math.Exp2(c[1])))
	}
}

// TestBounds: whatever is asked, parts are parts and times are times, and in the end all slots are in use.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "accounts")
		many := rapid.SampledFrom([]int64{1, 2, 7, 100, 5000, 1_000_000, 100_000_000})
		shares := rapid.SliceOfN(rapid.Int64Range(1, 1000), n, n).Draw(t, "shares")
		jobs := rapid.SliceOfN(many, n, n).Draw(t, "jobs")
		size := rapid.SampledFrom([]int{0, 1, 2, 20, 500, million})
		coeff := rapid.Int64Range(0, million).Draw(t, "coeff")
		s, q := world(size.Draw(t, "slots"), size.Draw(t, "churn"), coeff, shares, jobs)
		q.Nodes = rapid.SampledFrom([]int{0, 1, 3, 1000}).Draw(t, "nodes")
		intervals := []time.Duration{100 * time.Millisecond, time.Minute, 24 * time.Hour}
		s.Node.Interval = rapid.SampledFrom(intervals).Draw(t, "interval")
		s.Node.MinRun = rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "least")
		policy := rapid.SampledFrom([]string{"fairshare", "fifo", "tags"}).Draw(t, "policy")
		if err := s.Set("scheduling_policy", policy); err != nil {
			t.Fatal(err)
		}
		list, f := Findings(s, q)
		sum := int64(0)
		for _, o := range f.Accounts {
			sum += o.Expected
			if o.Expected < 0 || o.Expected > million || o.Run < 0 || o.Wait < 0 || o.LongestWait < o.Wait ||
				o.Freshness < o.LongestWait || o.Entitled < 0 || o.Entitled > million ||
				f.Slots > 0 && o.Expected > o.Jobs*million/f.Slots+1 {
				t.Fatalf("%+v", o)
			}
		}
		if f.Waiting > 0 && f.Slots > 0 && (sum < million-int64(n) || sum > million) {
			t.Fatalf("all accounts together have %d millionths: %+v", sum, f)
		}
		if len(list) == 0 {
			t.Fatal("nothing to say")
		}
		for _, f := range list {
			if f.Says == "" || f.Name == "" || f.Key == "" {
				t.Fatalf("%+v", f)
			}
		}
	})
}

// TestFewRounds: where a job runs for thousands of rounds, less than a thousandth of a job gives way in one. All slots
// are in use, and the model itself finds that: what is left to fit is below a hundredth.
func TestFewRounds(t *testing.T) {
	for _, c := range []struct {
		slots, churn int
		coeff        int64
		interval     time.Duration
		shares, jobs []int64
	}{
		{1, 1, 42_995, 100 * time.Millisecond, []int64{24, 828, 2, 48}, []int64{7, 7, 7, 2}},
		{1, 1, 42_995, 100 * time.Millisecond, []int64{1, 1, 1, 1}, []int64{1, 1, 7, 2}},
		{1, 1, 0, 100 * time.Millisecond, []int64{1, 1, 1}, []int64{1, 1, 1}},
		{2, 1, 0, 100 * time.Millisecond, []int64{14, 23, 1}, []int64{1, 1, 1}},
		{1, 1, 0, 100 * time.Second, []int64{14, 23, 1}, []int64{1, 1, 1}},
	} {
		s, q := world(c.slots, c.churn, c.coeff, c.shares, c.jobs)
		s.Node.Interval, s.Node.MinRun = c.interval, time.Hour
		f, sum := Of(s, q), int64(0)
		for _, o := range f.Accounts {
			sum += o.Expected
		}
		if sum < million-int64(len(c.jobs)) || sum > million {
			t.Errorf("%+v: all accounts together have %d millionths", c, sum)
		}
		if most := int64(c.slots) * int64(time.Hour) / int64(f.LeastRun); f.Starts > most || f.Starts < most-1 {
			t.Errorf("%+v: %d starts an hour, and not %d", c, f.Starts, most)
		}
	}
}

// TestAllChange: shares count even when all jobs that have slots give way in each round.
func TestAllChange(t *testing.T) {
	s, q := world(500, million, 0, []int64{1, 1, 1, 461}, []int64{5000, 7, 1, 5000})
	s.Node.Interval = 24 * time.Hour
	f := Of(s, q)
	if f.Accounts[0].Expected > 200_000 || f.Accounts[3].Expected < 800_000 {
		t.Errorf("%+v", f.Accounts)
	}
}

// TestManyAccounts: there may be any number of them, which costs no more than some.
func TestManyAccounts(t *testing.T) {
	var shares, jobs []int64
	for i := range 2000 {
		shares, jobs = append(shares, 100+int64(i)%50), append(jobs, 1+int64(i))
	}
	s, q := config.Default(), Queue{}
	for i, n := range jobs {
		q.Accounts = append(q.Accounts, Account{fmt.Sprint("user:", i), n})
		s.Replicator.Sharing.Shares[q.Accounts[i].Name] = shares[i]
	}
	f, sum := Of(s, q), int64(0)
	for _, o := range f.Accounts {
		sum += o.Expected
	}
	if list, _ := classes(f.Accounts); len(list) != most || sum < 980_000 || sum > 1_020_000 {
		t.Errorf("%d classes have %d millionths", len(list), sum)
	}
}
