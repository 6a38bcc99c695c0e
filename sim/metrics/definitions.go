package metrics

import (
	"fmt"
	"math"
	"slices"
)

// Definition is what a metric is. There is no other place that says so.
type Definition struct {
	Name       string // as in CSV columns
	Unit       string
	Formula    string // in words; see the package comment for those with a meaning of their own
	Source     string // of the definition; "own" if it was made for this program
	Better     Better
	Overall    bool // there is a value over all accounts
	PerAccount bool // there is a value of each account

	value func(*reading) float64
}

// Better says which of two values is to be preferred, everything else being equal.
type Better uint8

// Values of Better.
const (
	Neither Better = iota
	Less
	More
)

// String is what lists of metrics show.
func (b Better) String() string { return [...]string{"-", "less", "more"}[b] }

// Sources that several metrics share.
const (
	own       = "own"
	maxMin    = "own; max-min fairness: Bertsekas and Gallager, Data Networks, 1992, 6.5.2"
	jainPaper = "Jain, Chiu and Hawe, A quantitative measure of fairness, DEC TR-301, 1984; by entitlement: own"
	eevdf     = "Stoica and Abdel-Wahab, Earliest eligible virtual deadline first, TR-95-22, 1995"
	feitelson = "Feitelson and Rudolph, Metrics and benchmarking for parallel job scheduling, JSSPP 1998"
)

// Definitions has every metric, in the order in which they are reported.
var Definitions = slices.Concat(sharing(), quantiles(), others())

// sharing are the metrics of how slots are shared.
func sharing() []Definition {
	list := []Definition{
		{"share", "%", "slot time of the account / slot time of all accounts", own, Neither, false, true,
			func(r *reading) float64 { return percent(r.got.received, r.all.received) }},
		{"entitled-share", "%", "entitlement of the account / entitlement of all, both integrated over time",
			maxMin, Neither, false, true,
			func(r *reading) float64 { return percent(r.got.entitled, r.all.entitled) }},
	}
	for i, name := range windowNames {
		over := "over every whole window of " + name + " since the warm-up"
		if i == len(windowNames)-1 {
			over = "over the whole time that is measured"
		}
		list = append(list,
			Definition{"share-error-max-" + name, "points",
				"largest absolute value of share - entitled-share, " + over,
				own, Less, true, true,
				func(r *reading) float64 { largest, _ := r.errors[i].points(); return largest }},
			Definition{"share-error-rms-" + name, "points",
				"root of the mean square of share - entitled-share, " + over + ", and over the accounts with a " +
					"demand in it",
				own, Less, true, true,
				func(r *reading) float64 { _, rms := r.errors[i].points(); return rms }},
			Definition{"jain-" + name, "",
				"(sum of x)^2 / (n * sum of x^2) over the n accounts with an entitlement, with x = slot time / " +
					"entitlement, both " + over + "; the mean over windows",
				jainPaper, More, true, false,
				func(r *reading) float64 { w := &r.meter.windows[i]; return w.jain / float64(w.n) }},
		)
	}
	return append(list,
		Definition{"lag-min", "slot-s",
			"least lag: entitlement - slot time, both summed since the warm-up, at the ends of cycles, and 0 at " +
				"the beginning; below 0 the account is ahead",
			eevdf, More, true, true, func(r *reading) float64 { return r.lagLeast }},
		Definition{"lag-max", "slot-s", "largest lag, see lag-min",
			eevdf, Less, true, true, func(r *reading) float64 { return r.lagMost }},
	)
}

// families are the metrics that are told by quantiles, by kind.
var families = [kinds]Definition{
	waitFirst: {Name: "wait-first", Unit: "s", Source: feitelson, Better: Less,
		Formula: "time from a submission to the first start of the job"},
	waitTurn: {Name: "wait-turn", Unit: "s", Source: feitelson, Better: Less,
		Formula: "time for which a job waited before a start that was not its first"},
	runLength: {Name: "run-length", Unit: "s", Source: own, Better: Neither,
		Formula: "time from a start to the end of that run, its delay and start-up included"},
	turnaround: {Name: "turnaround", Unit: "s", Source: feitelson, Better: Less,
		Formula: "time from the submission of a one-shot to its completion"},
	slowdown: {Name: "slowdown", Unit: "", Source: feitelson, Better: Less,
		Formula: "turnaround / run of a one-shot; its run is Startup + Backlog / Speed, as if it were alone and " +
			"never failed"},
	boundedSlowdown: {Name: "bounded-slowdown", Unit: "", Source: feitelson + "; there with 10 s", Better: Less,
		Formula: fmt.Sprintf("turnaround / max(run, %d s) of a one-shot, at least 1", boundedBelow)},
	firstProgress: {Name: "first-progress", Unit: "s", Source: own, Better: Less,
		Formula: "time from a submission until a run of the job first got past its start-up"},
	freshness: {Name: "freshness", Unit: "s", Source: own, Better: Less,
		Formula: "age of the oldest change that a continuous job has not copied, 0 when there is none, over all " +
			"jobs and the time since their submission; changes of the backlog are as old as the submission, and " +
			"what a run lost is not copied from its end on"},
	lagSize: {Name: "lag", Unit: "slot-s", Source: eevdf, Better: Less,
		Formula: "absolute value of the lag (see lag-min) of accounts at the ends of cycles"},
}

// quantiles has four metrics for each family; for lags the 99th percentile only.
func quantiles() (list []Definition) {
	for k, f := range families {
		f.Overall, f.PerAccount = true, true
		for _, q := range []struct {
			name, words string
			part        float64
		}{
			{"p50", "median", 0.5}, {"p95", "95th percentile", 0.95}, {"p99", "99th percentile", 0.99},
			{"max", "maximum", 1},
		} {
			if kind(k) == lagSize && q.name != "p99" {
				continue
			}
			d := f
			d.Name += "-" + q.name
			d.Formula = q.words + " of: " + f.Formula
			d.value = func(r *reading) float64 { return r.dists[k].Quantile(q.part) }
			list = append(list, d)
		}
	}
	return list
}

// others are counted, or integrated over time.
func others() []Definition {
	perHour := func(n int, r *reading) float64 { return float64(n) / (r.seconds / 3600) }
	return []Definition{
		{"longest-gap", "s",
			"longest time for which a job waited, also when it was removed, or still waits at the end",
			own, Less, true, true, func(r *reading) float64 { return r.gap }},
		{"waiting-at-end", "jobs", "jobs that wait at the end; these waits are in no quantile, and no more are " +
			"turnarounds of one-shots that are not completed",
			own, Less, true, true, func(r *reading) float64 { return float64(r.waiting) }},
		{"full-turn-mean", "s",
			"time until all jobs that waited at its begin were started or removed; then the next one begins",
			own, Less, true, false, func(r *reading) float64 { return r.meter.turns.done.Mean() }},
		{"full-turn-max", "s", "longest such time, also of a turn that is not over at the end",
			own, Less, true, false, func(r *reading) float64 { return r.meter.turns.longest(r.meter.now) }},
		{"starts", "1/h", "starts of jobs per hour",
			own, Less, true, true, func(r *reading) float64 { return perHour(r.starts, r) }},
		{"rotations", "1/h", "runs per hour that gave way to other jobs, in time or not",
			own, Less, true, true, func(r *reading) float64 { return perHour(r.rotations, r) }},
		{"startup-share", "%", "slot time before the first change of a run could be copied / slot time",
			own, Less, true, true, func(r *reading) float64 { return part(r.startup, r.got.received) }},
		{"lost-work", "%",
			"changes copied after the last checkpoint of runs that did not end in order / changes copied",
			own, Less, true, true, func(r *reading) float64 { return part(r.lost, r.copied) }},
		{"utilisation", "%", "slot time in which jobs ran / slot time of all nodes",
			own, More, true, false, func(r *reading) float64 { t := r.meter.totals; return part(t.used, t.capacity) }},
		{"idle-while-waiting", "%", "slot time of free slots, as many as jobs waited / slot time of all nodes",
			own, Less, true, false, func(r *reading) float64 { t := r.meter.totals; return part(t.idle, t.capacity) }},
		{"throughput", "1/s", "changes copied for good per second",
			own, More, true, true, func(r *reading) float64 { return (r.copied - r.lost) / r.seconds }},
		{"completed", "jobs", "one-shots that were completed",
			own, More, true, true, func(r *reading) float64 { return float64(r.completed) }},
		{"recovery", "s",
			"longest time from the failure of a node, or the begin of an outage, until the spread of lags is back " +
				"in its band for ten looks; spread: the most that the lag of any account changed by within the " +
				"last ten looks; band: up to the 99th percentile of the spread before the first such upset",
			own, Less, true, false, func(r *reading) float64 { return r.meter.upsets.recovery(r.meter.now) }},
	}
}

// part is a part in percent; NaN of nothing.
func part(x, all float64) float64 {
	if all == 0 {
		return math.NaN()
	}
	return 100 * x / all
}
