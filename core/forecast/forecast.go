package forecast

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/schedule"
)

const million = 1_000_000

// Never is the length of a wait that does not end.
const Never = time.Duration(math.MaxInt64)

// Queue is what is asked of a service.
type Queue struct {
	Accounts []Account // with at least one job each
	Nodes    int       // that run jobs, with the same settings; 1 or more
	OneShots int64     // how many of the jobs run until they are done; 0 if that is not known
	// Startup passes between the start of a run and its first copied change.
	Startup time.Duration
}

// Account is a replicator database or a user with jobs. Its shares are those of the settings.
type Account struct {
	Name string
	Jobs int64
}

// Forecast is what will happen to a queue. Parts of a whole are millionths.
type Forecast struct {
	Slots    int64 // of all nodes
	Jobs     int64
	Waiting  int64         // how many jobs have no slot at any time
	Churn    int64         // how many jobs give way in a round, in millionths of a job
	LeastRun time.Duration // of a job
	// Turn is the time in which as many jobs start as wait: L. Memory is tau, 0 but under fair share, and Ratio
	// Memory/Turn in millionths.
	Turn, Memory time.Duration
	Ratio        int64
	UsageMemory  time.Duration // after which nothing is left of a use
	ShareError   int64         // the greatest difference between an account's entitled and expected part
	Starts       int64         // in an hour
	StartupCost  int64         // the part of all running time in which runs start up
	Accounts     []Outlook     // in the order of the queue's
}

// Outlook is what an account has to expect.
type Outlook struct {
	Name         string
	Shares, Jobs int64
	// Entitled is the part of the slots that its shares stand for while it has jobs for them: what others do not
	// need is divided by shares again. Expected is the part that it will have.
	Entitled, Expected int64
	Run, Wait          time.Duration // of a job between two turns, on the average
	LongestWait        time.Duration
	Freshness          time.Duration // the greatest age of a change that a continuous job has not begun to copy
}

// Turns is how many turns a job has in a day, in millionths; 0 for one that never has another.
func (o Outlook) Turns() int64 {
	if o.Wait == Never || o.Run == Never {
		return 0
	}
	return scale(24*million, int64(time.Hour), max(1, int64(o.Run)+int64(o.Wait)))
}

// Off is by how much the expected part is above the entitled one.
func (o Outlook) Off() int64 { return o.Expected - o.Entitled }

// Of is the forecast of a queue under settings.
func Of(s config.Settings, q Queue) Forecast { return of(s, q, round(s)) }

// round is the time between two rounds of a node in which jobs give way, on the average: nodes begin one after three
// quarters of an interval to a whole one, by chance.
func round(s config.Settings) time.Duration { return s.Node.Interval / 8 * 7 }

// of is the forecast for nodes with other rounds.
func of(s config.Settings, q Queue, round time.Duration) Forecast {
	nodes := int64(max(1, q.Nodes))
	f := Forecast{Slots: int64(s.Node.MaxJobs) * nodes}
	s.Replicator.Sharing.Follow(s.Node.Interval, s.Node.UsageInterval)
	f.UsageMemory = s.Replicator.Sharing.Forgetting.Memory()
	for _, a := range q.Accounts {
		f.Jobs += a.Jobs
		shares := cmp.Or(s.Replicator.Sharing.Shares[a.Name], schedule.DefaultShares)
		f.Accounts = append(f.Accounts, Outlook{Name: a.Name, Shares: shares, Jobs: a.Jobs})
	}
	f.Waiting = max(0, f.Jobs-f.Slots)
	f.entitle()
	least := leastRun(s, round)
	m := model{
		slots: f.Slots * million, round: round, least: least << fraction,
		churn: min(scale(int64(s.Node.MaxChurn)*nodes*million, least, 1), f.Slots*million),
	}
	f.Churn, f.LeastRun = m.churn/least, m.length(m.least)
	turn := scale(f.Waiting*million, m.least, max(1, m.churn))
	switch {
	case f.Waiting == 0:
		f.allRun()
	case m.churn == 0 || turn > longTurn || m.length(turn) > distant:
		f.standStill()
	default:
		f.Turn = m.length(turn)
		f.rotate(s, m, nodes)
	}
	f.startUp(s, q.Startup)
	return f
}

// distant is how long a turn may be, so that waits of many turns can be computed with.
const distant = Never / 1000

// longTurn is a turn of so many rounds, centuries if they take a minute, that it is as good as none.
const longTurn = 1 << 28 * one

// leastRun is how many rounds a job runs at least, as far as can be computed with.
func leastRun(s config.Settings, round time.Duration) int64 {
	return min(1+int64(max(0, s.Node.MinRun-1)/round), 1<<30)
}

// entitle divides the slots by shares: an account that needs fewer than its part gets what it needs, and the rest
// is divided among the others.
func (f *Forecast) entitle() {
	shares := make([]int64, len(f.Accounts))
	for i, o := range f.Accounts {
		shares[i] = o.Shares
	}
	for i, slots := range divided(min(f.Slots, f.Jobs)*million, f.Accounts, shares) {
		f.Accounts[i].Entitled = slots / max(1, f.Slots)
	}
}

// divided divides millionths of slots, no more than there are jobs, by the accounts' weights above 0. None gets more
// than its jobs can hold.
func divided(slots int64, accounts []Outlook, weights []int64) []int64 {
	order, all, parts := make([]int, len(accounts)), int64(0), make([]int64, len(accounts))
	for i, w := range weights {
		order[i] = i
		all += w
	}
	slices.SortStableFunc(order, func(i, j int) int { // by jobs for each weight
		hi, lo := bits.Mul64(uint64(accounts[i].Jobs), uint64(weights[j]))
		otherHi, otherLo := bits.Mul64(uint64(accounts[j].Jobs), uint64(weights[i]))
		return cmp.Or(cmp.Compare(hi, otherHi), cmp.Compare(lo, otherLo))
	})
	for _, i := range order {
		parts[i] = min(accounts[i].Jobs*million, scale(slots, weights[i], all))
		slots, all = slots-parts[i], all-weights[i]
	}
	return parts
}

// allRun is the forecast while there is a slot for each job.
func (f *Forecast) allRun() {
	for i := range f.Accounts {
		f.Accounts[i].Expected = f.Accounts[i].Entitled
		f.Accounts[i].Run = Never
	}
}

// standStill is the forecast of jobs that never give way: chance says which have slots.
func (f *Forecast) standStill() {
	f.Turn = Never
	for i := range f.Accounts {
		o := &f.Accounts[i]
		o.Expected = scale(o.Jobs, million, f.Jobs)
		o.Run, o.Wait, o.LongestWait = Never, Never, Never
	}
}

// rotate is the forecast of jobs that take turns.
func (f *Forecast) rotate(s config.Settings, m model, nodes int64) {
	f.Starts = scale(m.churn, int64(time.Hour), int64(max(1, f.LeastRun))) / million
	sharing := s.Replicator.Sharing
	order := schedule.Order{
		Policy: sharing.Policy, Forgetting: sharing.Forgetting, PriorityCoeff: sharing.PriorityCoeff,
		Periods: sharing.Periods,
	}
	full := order.FullTurn(f.Waiting, s.Node.MaxChurn*int(nodes), int(f.Slots), s.Node.MinRun)
	var turns []turn
	switch sharing.Policy {
	case schedule.FIFO:
		jobs := make([]int64, len(f.Accounts))
		for i, o := range f.Accounts {
			jobs[i] = o.Jobs
		}
		turns = m.even(f.Accounts, divided(m.slots, f.Accounts, jobs))
	case schedule.FairShare:
		churn := schedule.Churn(s.Node.MaxChurn*int(nodes), int(f.Slots), s.Node.Interval, s.Node.MinRun)
		m.halfLife = order.HalfLife(f.Waiting, churn)
		f.Memory = memory(m.halfLife, s)
		f.Ratio = scale(int64(f.Memory), million, max(1, int64(f.Turn)))
		turns = m.fair(f.Accounts)
	default: // all others go by shares, turn by turn
		turns = m.byShares(f, full)
	}
	for i, t := range turns {
		o := &f.Accounts[i]
		o.Expected = scale(t.slots, million, m.slots)
		f.ShareError = max(f.ShareError, o.Off(), -o.Off())
		if t.run >= longTurn { // the account is entitled to a slot for each of its jobs, so they never give way
			o.Run = Never
			continue
		}
		o.Run, o.Wait = m.length(t.run), m.length(t.wait)
		o.LongestWait = max(m.length(t.longest), longest(o.Wait, t.run, int64(f.Memory), int64(min(o.Wait, f.Turn))))
	}
}

// memory is tau of a half-life: 1/(1-K) periods for a coefficient of K, and the half-life by ln 2 when K is
// not given.
func memory(halfLife time.Duration, s config.Settings) time.Duration {
	sharing := s.Replicator.Sharing
	if k := sharing.PriorityCoeff; k != 0 && k < million {
		period := cmp.Or(sharing.Periods.Priority, s.Node.Interval)
		return time.Duration(scale(int64(period), million, million-k))
	}
	return time.Duration(scale(int64(halfLife), million, ln2))
}

const ln2 = 693_147 // millionths

// longest is the longest wait of a job that runs for so many rounds; see the package comment.
func longest(wait time.Duration, run, memory, turn int64) time.Duration {
	ratio, spread := scale(memory, million, max(1, turn)), 300_000+scale(4*million, one, run+one/2)
	return time.Duration(scale(int64(wait), million+scale(spread, ratio, million+ratio/4), million))
}

// startUp computes what starts cost, and how old changes become.
func (f *Forecast) startUp(s config.Settings, startup time.Duration) {
	for i := range f.Accounts {
		o := &f.Accounts[i]
		o.Freshness = o.LongestWait + min(startup, Never-o.LongestWait)
	}
	if f.Slots > 0 {
		busy := scale(f.Starts, int64(startup), 1)
		f.StartupCost = min(million, scale(busy, million, scale(f.Slots, int64(time.Hour), 1)))
	}
}

// scale is a*b/c rounded down, for numbers that are not negative and c above 0. It saturates.
func scale(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
