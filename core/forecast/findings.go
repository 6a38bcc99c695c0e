package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/schedule"
)

// ShortMemory is the ratio of memory to turn, in millionths, below which shares are not kept. schedule.LeastHalfLife
// has 0.4, of turns in rounds of a whole interval.
const ShortMemory = 460_000

// Limits from which on a finding is a warning.
const (
	longMemory = 1_500_000      // of a turn
	unfair     = 10_000         // one point
	costly     = 100_000        // a tenth of all running time
	late       = 24 * time.Hour // of a wait
)

// Finding is something that operators should know of their configuration.
type Finding struct {
	Name    string // one word that stays the same: memory, shares, wait...
	Warning bool   // something should be changed
	Key     string // of [replicator]
	Value   string // in force
	Says    string // what happens, with numbers, and why it matters
	Better  []Better
}

// Better is a setting that would do better.
type Better struct {
	Key, Value string
	Then       string // what happens then
}

// Findings are what there is to say about a queue under settings, and the forecast that it is read from.
func Findings(s config.Settings, q Queue) ([]Finding, Forecast) {
	r := report{s: s, q: q, f: Of(s, q)}
	switch {
	case r.f.Slots == 0:
		r.add("slots", true, "max_jobs", "No job ever runs.", "500")
	case r.f.Waiting == 0:
		r.add("slots", false, "max_jobs", fmt.Sprintf("%s for %s: none waits, and shares mean nothing.",
			Things(r.f.Jobs, "job"), Things(r.f.Slots, "slot")))
	case r.f.Turn == Never && s.Node.MaxChurn > 0:
		r.distant()
	case r.f.Turn == Never:
		r.add("turns", true, "max_churn", fmt.Sprintf("%s jobs wait for as long as the others run: none gives way.",
			Count(r.f.Waiting)), fmt.Sprint(max(1, s.Node.MaxJobs/25)))
	default:
		r.policy()
		r.shares()
		r.wait()
		r.starts()
		r.leastRun()
		r.usage()
	}
	r.oneShots()
	return r.list, r.f
}

// distant tells that jobs get turns, but later than a forecast goes.
func (r *report) distant() {
	says := fmt.Sprintf("A full turn of %s jobs on %s slots takes more than %s, as far as a forecast goes: jobs wait "+
		"as good as for ever.", Count(r.f.Jobs), Count(r.f.Slots), Length(distant))
	var better []string
	churn := r.s
	if churn.Node.MaxChurn = churn.Node.MaxJobs; Of(churn, r.q).Turn != Never {
		better = append(better, fmt.Sprint(churn.Node.MaxChurn))
	}
	r.add("turns", true, "max_churn", says, better...)
}

type report struct {
	s    config.Settings
	q    Queue
	f    Forecast
	list []Finding
}

// add adds a finding. Of the better values those that are in force are left out.
func (r *report) add(name string, warning bool, key, says string, better ...string) {
	f := Finding{Name: name, Warning: warning, Key: key, Value: r.value(key), Says: says}
	for _, b := range better {
		other, value, named := strings.Cut(b, " = ")
		if !named {
			other, value = key, b
		}
		if r.value(other) != value {
			f.Better = append(f.Better, Better{Key: other, Value: value, Then: r.with(other, value)})
		}
	}
	r.list = append(r.list, f)
}

func (r *report) value(key string) string { return config.Replicator.Get(&r.s, key) }

// with tells in short what happens with another value.
func (r *report) with(key, value string) string {
	s := r.s
	if err := s.Set(key, value); err != nil {
		return err.Error()
	}
	f := Of(s, r.q)
	wait := "no job waits"
	if f.Waiting > 0 {
		wait = "jobs wait up to " + Length(f.Longest().LongestWait)
	}
	return fmt.Sprintf("shares are off by up to %s points, %s, %s starts an hour", Points(f.ShareError), wait,
		Count(f.Starts))
}

// policy tells how well the policy keeps shares in mind.
func (r *report) policy() {
	switch r.s.Replicator.Sharing.Policy {
	case schedule.FairShare:
		r.memory()
	case schedule.FIFO:
		if slices.ContainsFunc(r.f.Accounts, func(o Outlook) bool { return o.Shares != r.f.Accounts[0].Shares }) {
			r.add("policy", true, "scheduling_policy", "Shares are configured and mean nothing under fifo: accounts "+
				"get slots by the number of their jobs.", "fairshare", "tags")
		}
	default: // turn by turn
		if o := r.f.Longest(); o.LongestWait > 10*r.f.Turn {
			says := fmt.Sprintf("Jobs of %s have a turn every %s, where a full turn of all jobs takes %s: its %d "+
				"shares are few for %s jobs", o.Name, Length(o.Run+o.Wait), Length(r.f.Turn), o.Shares, Count(o.Jobs))
			if r.s.Replicator.Sharing.Policy == schedule.Tags {
				says += ". The turns that bound this wait are taken from other accounts."
			} else {
				says += ", and this policy keeps shares exactly."
			}
			r.add("policy", true, "scheduling_policy", says, "fairshare")
		}
	}
}

// memory tells for how long priorities are remembered.
func (r *report) memory() {
	says := fmt.Sprintf("Priorities are remembered for %s, and a full turn of all jobs takes %s: a ratio of %s.",
		Length(r.f.Memory), Length(r.f.Turn), ratio(r.f.Ratio))
	switch {
	case r.f.Ratio < ShortMemory:
		period := cmp.Or(r.s.Replicator.Sharing.Periods.Priority, r.s.Node.Interval)
		better := []string{"auto", coefficient(r.f.Turn, period)}
		if churn := r.churnFor(r.f.Memory); churn > r.s.Node.MaxChurn && churn <= r.s.Node.MaxJobs {
			better = append(better, fmt.Sprintf("max_churn = %d", churn))
		}
		r.add("memory", r.f.ShareError >= unfair, "priority_coeff", says+" Below 0.46 accounts with many shares for "+
			"each of their jobs get too much.", better...)
	case r.f.Ratio > longMemory && r.s.Replicator.Sharing.PriorityCoeff > couchDB:
		r.add("memory", true, "priority_coeff", says+" Above 1.5 single jobs may wait for many turns.", "auto")
	default:
		r.add("memory", false, "priority_coeff", says)
	}
}

// couchDB is CouchDB's priority_coeff, below which auto does not go.
const couchDB = 980_000

// churnFor is the max_churn for which a memory is long enough.
func (r *report) churnFor(memory time.Duration) int {
	most := scale(int64(memory), million*int64(max(1, r.q.Nodes)), ShortMemory) // the longest turn, of all nodes
	return int(scale(r.f.Waiting, int64(round(r.s)), max(1, most))) + 1
}

// coefficient is the one that remembers for long enough, or for a little longer, as files have it.
func coefficient(turn, period time.Duration) string {
	memory := max(2*million, scale(int64(turn), ShortMemory, int64(period))) // in millionths of a period
	rest := max(1, scale(million, million, memory))
	if rest > 1000 {
		rest -= rest % 100
	}
	return strings.TrimRight(fmt.Sprintf("0.%06d", million-rest), "0")
}

// shares tells which account is furthest from what its shares stand for.
func (r *report) shares() {
	if len(r.f.Accounts) < 2 {
		return
	}
	worst := slices.MaxFunc(r.f.Accounts, func(a, b Outlook) int { return int(abs(a.Off()) - abs(b.Off())) })
	r.add("shares", r.f.ShareError >= unfair, "scheduling_policy", fmt.Sprintf("%s gets %s %% of the slots, where its "+
		"%d shares stand for %s %%; no other account is further off.", worst.Name, Points(worst.Expected),
		worst.Shares, Points(worst.Entitled)))
	if r.f.ShareError >= unfair && r.f.Ratio >= ShortMemory {
		last := &r.list[len(r.list)-1]
		last.Says += fmt.Sprintf(" Its %s jobs run for %s at least each time.", Count(worst.Jobs),
			Length(r.f.LeastRun))
		tags := r.s
		tags.Replicator.Sharing.Policy = schedule.Tags
		if Of(tags, r.q).ShareError < r.f.ShareError { // not where they have to bound waits
			last.Better = append(last.Better, Better{"scheduling_policy", "tags", r.with("scheduling_policy", "tags")})
		}
	}
}

// wait tells the longest wait and what follows from it.
func (r *report) wait() {
	o := r.f.Longest()
	says := fmt.Sprintf("Jobs of %s wait for %s between two turns, some up to %s, and run for %s: %s turns a day. "+
		"Changes of continuous jobs are up to %s old before they are copied.", o.Name, Length(o.Wait),
		Length(o.LongestWait), Length(o.Run), ratio(o.Turns()), Length(o.Freshness))
	var better []string
	if o.LongestWait > late {
		if churn := r.churnInTime(o.LongestWait); churn > 0 {
			better = append(better, fmt.Sprint(churn))
		}
		better = append(better, fmt.Sprintf("max_jobs = %d", 2*r.s.Node.MaxJobs))
	}
	r.add("wait", o.LongestWait > late, "max_churn", says, better...)
}

// churnInTime is the max_churn with which no wait is late, or one with which waits are shorter; 0 for none. Waits do
// not shrink exactly as it grows, so it is looked for.
func (r *report) churnInTime(wait time.Duration) (churn int) {
	s := r.s
	for range 8 {
		next := scale(int64(s.Node.MaxChurn), int64(wait), int64(late)) + 1
		if wait <= late || next > int64(s.Node.MaxJobs) {
			break
		}
		churn, s.Node.MaxChurn = int(next), int(next)
		wait = Of(s, r.q).Longest().LongestWait
	}
	return churn
}

// starts tells what the starts cost.
func (r *report) starts() {
	says := fmt.Sprintf("%s jobs start in an hour. With %s until a run copies, that takes %s %% of all running time.",
		Count(r.f.Starts), Length(r.q.Startup), Points(r.f.StartupCost))
	var better []string
	if cost := r.f.StartupCost; cost > costly {
		s := r.s
		for range 8 { // the cost does not grow exactly as max_churn does
			s.Node.MaxChurn = int(max(1, scale(int64(s.Node.MaxChurn), costly, cost)))
			if cost = Of(s, r.q).StartupCost; cost <= costly || s.Node.MaxChurn == 1 {
				break
			}
		}
		better = append(better, fmt.Sprint(s.Node.MaxChurn))
	}
	r.add("starts", r.f.StartupCost > costly, "max_churn", says, better...)
}

// leastRun tells that fewer jobs give way than max_churn says.
func (r *report) leastRun() {
	nodes := int64(max(1, r.q.Nodes))
	if r.f.Churn < int64(r.s.Node.MaxChurn)*nodes*million {
		r.add("min_run", false, "min_run_time_sec", fmt.Sprintf("A job runs for %s at least, so of %s slots %s at "+
			"most change hands in a round, and not %s.", Length(r.f.LeastRun), Count(r.f.Slots),
			ratio(r.f.Churn), Count(int64(r.s.Node.MaxChurn)*nodes)))
	}
}

// oneShots tells that jobs that are not continuous may keep all slots.
func (r *report) oneShots() {
	if r.q.OneShots > 0 && r.f.Slots > 0 && r.f.Waiting > 0 {
		r.add("one_shots", r.q.OneShots >= r.f.Slots, "max_jobs", fmt.Sprintf("%s jobs are one-shots, which keep "+
			"their slots until they are done: they may hold %s %% of the slots, and nothing is reserved for "+
			"continuous jobs.", Count(r.q.OneShots), Points(min(million, scale(r.q.OneShots, million, r.f.Slots)))))
	}
}

// usage tells for how long the use of accounts is remembered.
func (r *report) usage() {
	f := r.s.Replicator.Sharing.Forgetting
	if r.s.Replicator.Sharing.Policy != schedule.FairShare {
		return
	}
	period := cmp.Or(r.s.Node.UsageInterval, r.s.Node.Interval)
	mean := time.Duration(scale(int64(period), million, million-min(f.Coeff, schedule.MaxUsageCoeff)))
	says := fmt.Sprintf("Use counts for %s on the average, and is forgotten after %s.", Length(mean),
		Length(r.f.UsageMemory))
	if mean > r.f.Memory {
		better := []string{"0.5"}
		if period > r.s.Node.Interval {
			better = append(better, fmt.Sprintf("usage_interval = %d", r.s.Node.Interval.Milliseconds()))
		}
		r.add("usage", true, "usage_coeff", says+" Priorities are forgotten sooner, so that shares swing.", better...)
		return
	}
	r.add("usage", false, "usage_coeff", says)
}

// Longest is the account whose jobs wait longest. There must be one.
func (f Forecast) Longest() Outlook {
	return slices.MaxFunc(f.Accounts, func(a, b Outlook) int {
		switch {
		case a.LongestWait > b.LongestWait:
			return 1
		case a.LongestWait < b.LongestWait:
			return -1
		}
		return 0
	})
}

func abs(n int64) int64 { return max(n, -n) }
