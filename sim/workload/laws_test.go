package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// Tests here compare what generators draw with formulas of their own: quantiles and moments of the laws. A
// sample of n has its mean within 4 standard deviations / sqrt(n) for all but 1 in 16,000 seeds.

const sample = 40_000

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %.5g, want %.5g within %.2g", what, got, want, within)
	}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func variance(x []float64) float64 {
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return sum / float64(len(x)-1)
}

// distance is the statistic of Kolmogorov and Smirnov: the greatest distance of a sample from a distribution.
func distance(x []float64, cdf func(float64) float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	n, d := float64(len(x)), 0.0
	for i, v := range x {
		d = max(d, math.Abs(cdf(v)-float64(i)/n), math.Abs(cdf(v)-float64(i+1)/n))
	}
	return d
}

// limit of that statistic, which one sample in 10,000 exceeds.
func limit(n int) float64 { return 2.23 / math.Sqrt(float64(n)) }

func fits(t *testing.T, what string, x []float64, cdf func(float64) float64) {
	t.Helper()
	if d := distance(x, cdf); d > limit(len(x)) {
		t.Errorf("%s: %.4f from the law, at most %.4f are chance", what, d, limit(len(x)))
	}
}

// TestLaws: rates and sizes follow their laws, and have their means.
func TestLaws(t *testing.T) {
	laws := []struct {
		set   string
		cdf   func(x float64) float64
		sigma float64 // of a mean of 10, infinite for the heavy tail
	}{
		{"exponential", func(x float64) float64 { return 1 - math.Exp(-x/10) }, 10},
		// The mean of exp(N(mu, s)) is exp(mu + s^2/2).
		{"lognormal", func(x float64) float64 {
			mu := math.Log(10) - 0.5*0.5/2
			return 0.5 * (1 + math.Erf((math.Log(x)-mu)/(0.5*math.Sqrt2)))
		}, 10 * math.Sqrt(math.Exp(0.25)-1)},
		// The mean of a least value m and 1 - (m/x)^a is a m / (a - 1).
		{"pareto", func(x float64) float64 { return 1 - math.Pow(10*(3-1)/3.0/x, 3) }, 10 / math.Sqrt(3*(3-2))},
	}
	shape := map[string]string{"exponential": "1", "lognormal": "0.5", "pareto": "3"}
	for _, law := range laws {
		w := build(t, 5, fmt.Sprintf("jobs = %d", sample), "rate = 10", "rate_law = "+law.set,
			"rate_shape = "+shape[law.set],
			"size = 10", "size_law = "+law.set, "size_shape = "+shape[law.set], "oneshot = 0.5")
		var rates, sizes []float64
		for _, j := range w.Jobs {
			if j.Continuous {
				rates = append(rates, j.Rate)
			} else {
				sizes = append(sizes, j.Backlog)
			}
		}
		for what, x := range map[string][]float64{"rates": rates, "sizes": sizes} {
			fits(t, law.set+" "+what, x, law.cdf)
			near(t, law.set+" mean of "+what, mean(x), 10, 4*law.sigma/math.Sqrt(float64(len(x))))
		}
	}
}

// TestParetoTail: Hill's estimator finds the exponent of the tail.
func TestParetoTail(t *testing.T) {
	w := build(t, 6, fmt.Sprintf("jobs = %d", sample), "rate_law = pareto", "rate_shape = 1.2")
	var rates []float64
	for _, j := range w.Jobs {
		rates = append(rates, j.Rate)
	}
	slices.Sort(rates)
	const k = 4000
	sum, from := 0.0, rates[len(rates)-k-1]
	for _, x := range rates[len(rates)-k:] {
		sum += math.Log(x / from)
	}
	near(t, "alpha", k/sum, 1.2, 4*1.2/math.Sqrt(k))
}

func gaps(w *Workload) []float64 {
	var gaps []float64
	for i := 1; i < len(w.Jobs); i++ {
		gaps = append(gaps, (w.Jobs[i].Submit - w.Jobs[i-1].Submit).Seconds())
	}
	return gaps
}

// TestPoisson: gaps of arrivals are exponential with the mean over/jobs, and the numbers in equal times have a
// variance like their mean.
func TestPoisson(t *testing.T) {
	w := build(t, 8, fmt.Sprintf("jobs = %d", sample), "arrival = poisson", "over = 400000s", "from = 2h")
	fits(t, "gaps", gaps(w), func(x float64) float64 { return 1 - math.Exp(-x/10) })
	near(t, "last arrival", w.Jobs[sample-1].Submit.Seconds()-7200, 400_000, 4*10*math.Sqrt(sample))
	var counts []float64
	for _, j := range w.Jobs {
		i := int((j.Submit - 2*time.Hour) / (1000 * time.Second))
		for len(counts) <= i {
			counts = append(counts, 0)
		}
		counts[i]++
	}
	counts = counts[:len(counts)-1]
	near(t, "mean of a window", mean(counts), 100, 4*10/math.Sqrt(float64(len(counts))))
	near(t, "index of dispersion", variance(counts)/mean(counts), 1, 4*math.Sqrt(2/float64(len(counts))))
}

// TestBatches: jobs come together, in numbers that are geometric with the mean of a batch, at the times of a
// Poisson process that brings as many jobs in all.
func TestBatches(t *testing.T) {
	w := build(t, 9, fmt.Sprintf("jobs = %d", sample), "arrival = batches", "over = 400000s", "batch = 8")
	var sizes, between []float64
	for i, gap := range append([]float64{1}, gaps(w)...) {
		if gap > 0 {
			sizes = append(sizes, 0)
			if i > 0 {
				between = append(between, gap)
			}
		}
		sizes[len(sizes)-1]++
	}
	sizes = sizes[:len(sizes)-1] // the last may be cut
	near(t, "mean batch", mean(sizes), 8, 4*math.Sqrt(8*7)/math.Sqrt(float64(len(sizes))))
	ones := 0.0
	for _, n := range sizes {
		if n == 1 {
			ones++
		}
	}
	near(t, "part of batches of one", ones/float64(len(sizes)), 1./8, 4*math.Sqrt(7./64/float64(len(sizes))))
	fits(t, "gaps of batches", between, func(x float64) float64 { return 1 - math.Exp(-x/80) })
}

// TestEven: jobs come at equal distances.
func TestEven(t *testing.T) {
	w := build(t, 1, "jobs = 100", "arrival = even", "over = 1000s", "from = 5s")
	for i, j := range w.Jobs {
		if want := 5*time.Second + time.Duration(i)*10*time.Second; j.Submit != want {
			t.Fatalf("job %d at %s, want %s", i, j.Submit, want)
		}
	}
}

// TestDiurnal: of a rate 1 - a cos(2 pi t / 24h) the half day around noon has 1/2 + a/pi, and the hour around
// midnight 1/24 - a sin(pi/24)/pi.
func TestDiurnal(t *testing.T) {
	for _, from := range []string{"0s", "7h"} {
		const days, a = 40, 0.7
		w := build(t, 10, fmt.Sprintf("jobs = %d", sample), "arrival = poisson", fmt.Sprintf("over = %dh", days*24),
			"diurnal = 0.7", "from = "+from)
		noon, midnight := 0., 0.
		for _, j := range w.Jobs {
			h := math.Mod(j.Submit.Hours(), 24)
			if h >= 6 && h < 18 {
				noon++
			}
			if h < 0.5 || h >= 23.5 {
				midnight++
			}
		}
		near(t, "half day around noon from "+from, noon/sample, 0.5+a/math.Pi, 4*0.5/math.Sqrt(sample)+0.3/days)
		p := 1./24 - a*math.Sin(math.Pi/24)/math.Pi
		near(t, "hour around midnight from "+from, midnight/sample, p, 4*math.Sqrt(p/sample)+0.1/days)
		near(t, "last arrival from "+from, w.Jobs[sample-1].Submit.Hours(), days*24, 24)
	}
}

// TestZipf: the jobs of account k are in proportion to 1/k^s, by chi-square and by the slope of the logarithms.
func TestZipf(t *testing.T) {
	const accounts, s = 50, 1.3
	w := build(t, 11, "accounts = 50", fmt.Sprintf("jobs = %d", sample/accounts), "zipf = 1.3")
	got := tally(w)
	harmonic := 0.0
	for k := 1; k <= accounts; k++ {
		harmonic += 1 / math.Pow(float64(k), s)
	}
	chi, sx, sy, sxx, sxy := 0.0, 0.0, 0.0, 0.0, 0.0
	for i, n := range got {
		want := sample / math.Pow(float64(i+1), s) / harmonic
		chi += (float64(n) - want) * (float64(n) - want) / want
		x, y := math.Log(float64(i+1)), math.Log(float64(n))
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	near(t, "chi-square of 49 degrees of freedom", chi, accounts-1, 4*math.Sqrt(2*(accounts-1)))
	slope := (accounts*sxy - sx*sy) / (accounts*sxx - sx*sx)
	near(t, "slope", slope, -s, 0.05)
	if len(w.Jobs) != sample {
		t.Errorf("%d jobs", len(w.Jobs))
	}
}

// TestLifetimes: jobs stay for an exponential time, and those of a restart for the rest of theirs.
func TestLifetimes(t *testing.T) {
	lines := []string{fmt.Sprintf("jobs = %d", sample), "arrival = poisson", "over = 24h", "lifetime = 3h"}
	var stays []float64
	for _, j := range build(t, 12, lines...).Jobs {
		stays = append(stays, (j.Remove - j.Submit).Hours())
	}
	fits(t, "lifetimes", stays, func(x float64) float64 { return 1 - math.Exp(-x/3) })
	w := build(t, 12, append(lines, "restart_at = 12h", "backlog = 5")...)
	alive := 0
	for _, j := range w.Jobs {
		if j.Submit < 12*time.Hour && j.Remove > 12*time.Hour {
			t.Fatalf("survived: %+v", j)
		}
		if j.Submit == 12*time.Hour {
			alive++
			if j.Backlog != 0 {
				t.Fatalf("lost its checkpoint: %+v", j)
			}
		}
	}
	// Little's law: 40,000 jobs in 24 h that stay 3 h are 5,000 at a time, less what is not reached after 12 h.
	near(t, "jobs at the restart", float64(alive), 5000*(1-math.Exp(-4)), 4*math.Sqrt(5000))
}

// TestParts: parts of the jobs are exact, phases are spread evenly, and servers are drawn evenly.
func TestParts(t *testing.T) {
	w := build(t, 13, "jobs = 10000", "oneshot = 0.25", "idle = 0.1", "bursty = 1", "failing = 0.03", "servers = 4",
		"every = 1h", "burst = 6m", "startup = 3s", "size = 77", "backlog = 5")
	var phases []float64
	once, failing, idle, servers := 0, 0, 0, make([]int, 4)
	for _, j := range w.Jobs {
		servers[j.Server]++
		if j.MTBF == 10*time.Minute {
			failing++
		}
		switch {
		case !j.Continuous:
			once++
			if j.Backlog != 77 || j.Rate != 0 || j.Every != 0 {
				t.Fatalf("%+v", j)
			}
		case j.Rate == 0:
			idle++
		default:
			phases = append(phases, j.Phase.Minutes())
			if j.Burst != 6*time.Minute || j.Backlog != 5 {
				t.Fatalf("%+v", j)
			}
		}
		if j.Startup != 3*time.Second || j.Speed != 50 {
			t.Fatalf("%+v", j)
		}
	}
	if once != 2500 || failing != 300 {
		t.Errorf("%d one-shots, %d failing", once, failing)
	}
	near(t, "idle", float64(idle), 750, 4*math.Sqrt(750)) // 1,000 of which some are one-shots
	fits(t, "phases", phases, func(x float64) float64 { return x / 60 })
	for _, n := range servers {
		near(t, "jobs at a server", float64(n), 2500, 4*math.Sqrt(2500*0.75))
	}
}

// TestPhase: with a phase all bursts begin at the same times, whenever jobs come, and go on after a restart.
func TestPhase(t *testing.T) {
	w := build(t, 14, "jobs = 500", "arrival = poisson", "over = 48h", "bursty = 1", "every = 24h", "burst = 10h",
		"phase = 8h",
		"restart_at = 30h")
	again := 0
	for _, j := range w.Jobs {
		if begins := (j.Submit - j.Phase + 240*time.Hour) % (24 * time.Hour); begins != 8*time.Hour {
			t.Fatalf("the bursts of %+v begin at %s", j, begins)
		}
		if strings.HasSuffix(j.ID, "-again") {
			again++
		}
	}
	if again < 200 {
		t.Errorf("%d jobs after the restart", again)
	}
}

// TestChangesAndOutages: shares change for all accounts of a group, and outages repeat.
func TestChangesAndOutages(t *testing.T) {
	w := build(t, 1, "accounts = 2", "shares_at = 5m", "shares_to = 7", "servers = 3", "outage_at = 1h",
		"outages = 2",
		"outage_every = 30m", "outage_for = 1m", "outage_servers = 2")
	if len(w.Changes) != 2 || w.Changes[1] != (Change{At: 5 * time.Minute, Account: 1, Shares: 7}) {
		t.Errorf("changes: %+v", w.Changes)
	}
	last := Outage{Server: 1, From: 90 * time.Minute, To: 91 * time.Minute}
	if len(w.Outages) != 4 || w.Outages[0].Server != 0 || w.Outages[0].From != time.Hour || w.Outages[3] != last {
		t.Errorf("outages: %+v", w.Outages)
	}
}
