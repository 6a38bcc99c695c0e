package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"couchrelay/core/prng"
	"couchrelay/core/schedule"
)

// day is the period of the diurnal curve. Time 0 is midnight.
const day = 24 * time.Hour

// generate adds the accounts, jobs, changes and outages of a group to a workload. Each thing that is drawn has
// a stream of its own, and takes one number of it for each job or account whatever the settings are. So two
// recipes that differ in one setting differ in nothing else under one seed.
func (g *group) generate(w *Workload, seed uint64) {
	d := drawn{group: g, seed: seed, accounts: len(w.Accounts), jobs: len(w.Jobs), servers: nextServer(w)}
	d.tenants(w)
	owners := d.owners()
	arrivals := d.arrivals(len(owners))
	order := d.stream("order")
	for place, i := range order.Sample(len(owners), len(owners)) {
		w.Jobs = append(w.Jobs, Job{Account: d.accounts + owners[i], Submit: arrivals[place]})
	}
	jobs := w.Jobs[d.jobs:]
	d.identify(jobs, w.Accounts)
	d.work(jobs)
	d.trouble(jobs)
	d.lifetimes(jobs)
	d.restart(w)
	d.outages(w)
}

func nextServer(w *Workload) int {
	next := 0
	for i := range w.Jobs {
		next = max(next, w.Jobs[i].Server+1)
	}
	for _, o := range w.Outages {
		next = max(next, o.Server+1)
	}
	return next
}

// drawn is a group with the seed by which its jobs are drawn.
type drawn struct {
	*group
	seed                    uint64
	accounts, jobs, servers int // the first ones of the group
}

// stream returns the source of what is drawn for a purpose.
func (d *drawn) stream(purpose string) prng.Source { return prng.Fork(d.seed, d.name+"/"+purpose) }

// tenants adds the accounts.
func (d *drawn) tenants(w *Workload) {
	name := cmp.Or(d.name, "tenant")
	for i := range d.group.accounts {
		w.Accounts = append(w.Accounts, Account{
			Name: name + strconv.Itoa(i+1) + "/_replicator", Shares: int64(nth(d.shares, i)),
		})
		if d.sharesAt > 0 {
			w.Changes = append(w.Changes, Change{At: d.sharesAt, Account: d.accounts + i, Shares: int64(d.sharesTo)})
		}
	}
}

// nth returns number i of a list whose last number holds for all that are left.
func nth(list []int, i int) int { return list[min(i, len(list)-1)] }

// owners returns the account of each job, from 0.
func (d *drawn) owners() []int {
	var owners []int
	if d.zipf == 0 {
		for i := range d.group.accounts {
			for range nth(d.group.jobs, i) {
				owners = append(owners, i)
			}
		}
		return owners
	}
	upTo, sum := make([]float64, d.group.accounts), 0.0
	for i := range upTo {
		sum += math.Pow(float64(i+1), -d.zipf)
		upTo[i] = sum
	}
	src := d.stream("owners")
	for range d.count() {
		i, _ := slices.BinarySearch(upTo, uniform(&src)*sum)
		owners = append(owners, min(i, len(upTo)-1))
	}
	return owners
}

// arrivals returns the times at which n jobs come, in order.
func (d *drawn) arrivals(n int) []time.Duration {
	src := d.stream("arrivals")
	times := make([]time.Duration, n)
	gap := d.over.Seconds() / float64(max(n, 1))
	t := 0.0 // seconds since from, by a clock that runs as fast as jobs come
	for i, left := 0, 0.0; i < n; i++ {
		switch d.law {
		case "once":
		case "even":
			t = float64(i) * gap
		case "poisson":
			t += exponential(gap, uniform(&src))
		case "batches":
			if left == 0 {
				t += exponential(gap*d.batch, uniform(&src))
				left = geometric(d.batch, uniform(&src))
			}
			left--
		}
		times[i] = d.from + d.atRate(t)
	}
	return times
}

// atRate returns when the diurnal rate has summed up to s seconds of its mean since from.
func (d *drawn) atRate(s float64) time.Duration {
	if d.diurnal == 0 {
		return rounded(s)
	}
	omega := 2 * math.Pi / day.Seconds()
	from := d.from.Seconds()
	sum := func(t float64) float64 { // of the rate from time 0 until t
		return t - d.diurnal/omega*math.Sin(omega*t)
	}
	low, high := max(0, s-day.Seconds()), s+day.Seconds()
	for high-low > 1e-4 {
		if t := (low + high) / 2; sum(from+t)-sum(from) < s {
			low = t
		} else {
			high = t
		}
	}
	return rounded(low)
}

// identify gives jobs their ids: the group or account, and a number.
func (d *drawn) identify(jobs []Job, accounts []Account) {
	numbers := make([]int, len(accounts))
	name := cmp.Or(d.name, "tenant")
	for i := range jobs {
		a := jobs[i].Account
		numbers[a]++
		jobs[i].ID = fmt.Sprintf("%s%d-%d", name, a-d.accounts+1, numbers[a])
	}
}

// work says what the jobs copy.
func (d *drawn) work(jobs []Job) {
	sizes, rates, phases := d.stream("sizes"), d.stream("rates"), d.stream("phases")
	for i := range jobs {
		j := &jobs[i]
		j.Continuous, j.Startup, j.Speed = true, d.startup, d.speed
		j.Backlog, j.Rate = d.backlog, d.rate.draw(uniform(&rates))
		if d.weight != schedule.DefaultWeight {
			j.Weight = int64(d.weight)
		}
	}
	for _, i := range d.part("oneshot", d.oneshot, len(jobs)) {
		jobs[i].Continuous = false
	}
	for _, i := range d.part("bursty", d.bursty, len(jobs)) {
		if !jobs[i].Continuous {
			continue
		}
		jobs[i].Every, jobs[i].Burst = d.every, d.burst
	}
	for i := range jobs {
		j := &jobs[i]
		size, phase := d.size.draw(uniform(&sizes)), rounded(uniform(&phases)*d.every.Seconds())
		switch {
		case j.Every == 0:
		case d.phase < 0:
			j.Phase = min(phase, j.Every-1)
		default:
			j.Phase = (j.Submit%j.Every + j.Every - d.phase) % j.Every
		}
		if !j.Continuous {
			j.Backlog, j.Rate = size, 0
		}
	}
	for _, i := range d.part("idle", d.idle, len(jobs)) {
		jobs[i].Rate, jobs[i].Every, jobs[i].Burst, jobs[i].Phase = 0, 0, 0, 0
	}
}

// part draws the places of a part of n jobs. A larger part contains the smaller one.
func (d *drawn) part(of string, part float64, n int) []int {
	src, k := d.stream(of), int(math.Round(part*float64(n)))
	if k == 0 {
		return nil
	}
	return src.Sample(n, k)
}

// trouble says which jobs crash, and which server each needs.
func (d *drawn) trouble(jobs []Job) {
	src := d.stream("servers")
	for i := range jobs {
		jobs[i].Server = d.servers + src.Intn(d.group.servers)
	}
	for _, i := range d.part("failing", d.failing, len(jobs)) {
		jobs[i].MTBF = d.mtbf
	}
}

// lifetimes says when jobs are removed.
func (d *drawn) lifetimes(jobs []Job) {
	src := d.stream("lifetimes")
	for i := range jobs {
		u := uniform(&src)
		if d.lifetime > 0 {
			stays := max(time.Millisecond, rounded(exponential(d.lifetime.Seconds(), u)))
			jobs[i].Remove = min(jobs[i].Submit+stays, maxTime)
		}
	}
}

// restart removes the continuous jobs that are there at the time of a restart, and submits them anew: with the
// rest of their lives, and without a backlog, since checkpoints are kept.
func (d *drawn) restart(w *Workload) {
	at := d.restartAt
	if at == 0 {
		return
	}
	for i := range w.Jobs[d.jobs:] {
		j := &w.Jobs[d.jobs+i]
		if !j.Continuous || j.Submit >= at || j.Remove != 0 && j.Remove <= at {
			continue
		}
		again := *j
		again.ID, again.Submit, again.Backlog = j.ID+"-again", at, 0
		if j.Every > 0 {
			again.Phase = (j.Phase + at - j.Submit) % j.Every // the source knows nothing of the restart
		}
		w.Jobs = append(w.Jobs, again)
		w.Jobs[d.jobs+i].Remove = at
	}
}

// outages adds those of the group's servers.
func (d *drawn) outages(w *Workload) {
	if d.outageAt == 0 {
		return
	}
	for n := range d.group.outages {
		at := d.outageAt + time.Duration(n)*d.outageEvery
		for s := range d.outageServers {
			w.Outages = append(w.Outages, Outage{Server: d.servers + s, From: at, To: at + d.outageFor})
		}
	}
}

// sort orders what groups have added by time.
func (w *Workload) sort() {
	slices.SortStableFunc(w.Jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	slices.SortStableFunc(w.Changes, func(a, b Change) int { return cmp.Compare(a.At, b.At) })
}

// draw returns the quantity at which a part u of all is less.
func (a *amount) draw(u float64) float64 {
	x := a.mean
	switch a.law {
	case "exponential":
		x = exponential(a.mean, u)
	case "lognormal":
		x = a.mean * math.Exp(a.shape*normal(u)-a.shape*a.shape/2)
	case "pareto":
		x = a.mean * (a.shape - 1) / a.shape * math.Pow(1-u, -1/a.shape)
	}
	return significant(x)
}

// uniform draws a number of (0, 1).
func uniform(src *prng.Source) float64 { return (float64(src.Uint64()>>12) + 0.5) / (1 << 52) }

func exponential(mean, u float64) float64 { return -mean * math.Log(1-u) }

// geometric returns a number of trials, 1 or more.
func geometric(mean, u float64) float64 {
	if mean == 1 {
		return 1
	}
	return max(1, math.Ceil(math.Log(1-u)/math.Log(1-1/mean)))
}

func normal(u float64) float64 { return math.Sqrt2 * math.Erfinv(2*u-1) }

// rounded returns a time of seconds in whole milliseconds, maxTime at most. Rounding hides that processors
// differ in the last digits of logarithms.
func rounded(seconds float64) time.Duration {
	return time.Duration(math.Round(min(seconds, maxTime.Seconds())*1e3)) * time.Millisecond
}

// significant keeps six digits, as rounded does.
func significant(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'e', 5, 64), 64)
	return x
}
