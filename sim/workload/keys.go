package workload

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/schedule"
)

// group is what is set for a group of jobs, or for all.
type group struct {
	whole
	tenants
	arrivals
	work
	trouble
}

// wholes are the settings of the whole workload.
var wholes = []string{"preset", "file", "gaps", "groups"}

type whole struct {
	preset, file string
	gaps         bool
	groups       []string
}

// tenants are the accounts, and how many jobs each has.
type tenants struct {
	name     string // of the group
	accounts int
	shares   []int // of each account; the last of them is that of all accounts that are left
	jobs     []int // likewise
	zipf     float64
	sharesAt time.Duration
	sharesTo int
}

// arrivals say when jobs come and go.
type arrivals struct {
	law       string
	from      time.Duration
	over      time.Duration
	batch     float64
	diurnal   float64
	lifetime  time.Duration
	restartAt time.Duration
}

// work says what jobs have to copy.
type work struct {
	oneshot      float64
	size, rate   amount
	backlog      float64
	idle, bursty float64
	every, burst time.Duration
	phase        time.Duration // negative if each job has one of its own
	speed        float64
	weight       int
	startup      time.Duration
}

// amount is a law that quantities follow.
type amount struct {
	mean  float64
	law   string
	shape float64 // the sigma of lognormal, the alpha of pareto
}

// trouble says what keeps jobs from copying.
type trouble struct {
	failing       float64
	mtbf          time.Duration
	servers       int
	outageAt      time.Duration
	outageFor     time.Duration
	outageEvery   time.Duration
	outages       int
	outageServers int
}

// Bounds.
const (
	MaxJobs     = 10_000_000
	maxAccounts = 1_000_000
	maxServers  = 1_000_000
	maxTime     = 10 * 365 * 24 * time.Hour
	maxOutages  = 1_000_000
)

func defaults() group {
	return group{
		tenants: tenants{accounts: 1, shares: []int{schedule.DefaultShares}, jobs: []int{100},
			sharesTo: schedule.DefaultShares},
		arrivals: arrivals{law: "once", over: time.Hour, batch: 20},
		work: work{
			size: amount{mean: 10_000, law: "fixed", shape: 1.5}, rate: amount{mean: 0.1, law: "fixed", shape: 1.5},
			every: time.Hour, burst: 5 * time.Minute, phase: -1, speed: 50, startup: 2 * time.Second,
			weight: schedule.DefaultWeight,
		},
		trouble: trouble{mtbf: 10 * time.Minute, servers: 1, outageFor: 10 * time.Minute, outages: 1,
			outageServers: 1},
	}
}

var laws = []string{"fixed", "exponential", "lognormal", "pareto"}

// keys lists all settings.
var keys = config.Section[group]{
	key("preset", "A recipe that settings here change: one of the usual workloads of the literature.",
		config.OneOf(func(g *group) *string { return &g.preset }, presetNames()...)),
	key("file", "A trace to play instead: .jsonl, or .swf with the .csv that may lie beside it.",
		file),
	key("gaps", "Whether jobs may be missing in an SWF file, as in logs that were cleaned.",
		config.Boolean(func(g *group) *bool { return &g.gaps })),
	key("groups", "Groups of jobs with settings of their own, GROUP.KEY; without any all jobs are alike.",
		groupList),

	key("accounts", "How many accounts there are; each is a replicator database.",
		config.Integer(func(g *group) *int { return &g.accounts }, 1, maxAccounts)),
	key("shares", "The shares of each account; the last number is that of all accounts that are left.",
		list(func(g *group) *[]int { return &g.shares }, schedule.MinShares, schedule.MaxShares)),
	key("jobs", "The jobs of each account; the last number is that of all accounts that are left.",
		list(func(g *group) *[]int { return &g.jobs }, 0, MaxJobs)),
	key("zipf", "If above 0, account k has its jobs in proportion to 1/k^zipf, and jobs is their mean.",
		number(func(g *group) *float64 { return &g.zipf }, 0, 10)),
	key("shares_at", "When the accounts get other shares; 0 for never.",
		span(func(g *group) *time.Duration { return &g.sharesAt }, 0)),
	key("shares_to", "The shares that they get then.",
		config.Integer(func(g *group) *int { return &g.sharesTo }, schedule.MinShares, schedule.MaxShares)),

	key("arrival", "How jobs come: at once, one after the other evenly or as a Poisson process, or in batches.",
		config.OneOf(func(g *group) *string { return &g.law }, "once", "even", "poisson", "batches")),
	key("from", "When the first job may come.",
		span(func(g *group) *time.Duration { return &g.from }, 0)),
	key("over", "The time over which the jobs come, on the average, unless they come at once.",
		span(func(g *group) *time.Duration { return &g.over }, 1)),
	key("batch", "How many jobs a batch has on the average (a geometric law); batches come as a Poisson process.",
		number(func(g *group) *float64 { return &g.batch }, 1, MaxJobs)),
	key("diurnal",
		"How much less than at noon is asked at midnight: jobs come at 1 - diurnal cos(t/24h) of the rate.",
		number(func(g *group) *float64 { return &g.diurnal }, 0, 1)),
	key("lifetime", "How long a job stays on the average (an exponential law) until it is removed; 0 for ever.",
		span(func(g *group) *time.Duration { return &g.lifetime }, 0)),
	key("restart_at", "When all continuous jobs are removed and submitted anew, as deployments do; 0 for never.",
		span(func(g *group) *time.Duration { return &g.restartAt }, 0)),

	key("oneshot", "The part of the jobs that are one-shots; the others are continuous.",
		fraction(func(g *group) *float64 { return &g.oneshot })),
	key("size", "How many changes a one-shot has to copy, on the average.",
		quantity(sizeOf)),
	key("size_law", "The law of the sizes of one-shots.",
		lawOf(sizeOf)),
	key("size_shape", "The sigma of lognormal, or the alpha of pareto sizes.",
		shapeOf(sizeOf)),
	key("rate", "How many changes a second come at the source of a continuous job, on the average.",
		quantity(rateOf)),
	key("rate_law", "The law of the rates of jobs.",
		lawOf(rateOf)),
	key("rate_shape", "The sigma of lognormal, or the alpha of pareto rates.",
		shapeOf(rateOf)),
	key("backlog", "How many changes a continuous job has to copy when it comes.",
		number(func(g *group) *float64 { return &g.backlog }, 0, 1e12)),
	key("idle", "The part of the jobs at whose sources nothing changes.",
		fraction(func(g *group) *float64 { return &g.idle })),
	key("bursty", "The part of the jobs whose changes come in bursts, not evenly.",
		fraction(func(g *group) *float64 { return &g.bursty })),
	key("every", "The time from burst to burst.",
		span(func(g *group) *time.Duration { return &g.every }, 1)),
	key("burst", "How long a burst is.",
		span(func(g *group) *time.Duration { return &g.burst }, 1)),
	key("phase", "When the first burst begins; random if each job has one of its own.",
		phase),
	key("weight", "The weight of each job within its account.",
		config.Integer(func(g *group) *int { return &g.weight }, schedule.MinWeight, schedule.MaxWeight)),
	key("speed", "How many changes a running job copies in a second.",
		number(func(g *group) *float64 { return &g.speed }, 1e-6, 1e9)),
	key("startup", "How long a run takes until it copies its first change.",
		span(func(g *group) *time.Duration { return &g.startup }, 0)),

	key("failing", "The part of the jobs that crash again and again.",
		fraction(func(g *group) *float64 { return &g.failing })),
	key("mtbf", "The mean time of running between two crashes of a failing job.",
		span(func(g *group) *time.Duration { return &g.mtbf }, 1)),
	key("servers", "How many servers the jobs need, each job one of them.",
		config.Integer(func(g *group) *int { return &g.servers }, 1, maxServers)),
	key("outage_at", "When servers stop answering (as in an outage, or a storm of 429); 0 for never.",
		span(func(g *group) *time.Duration { return &g.outageAt }, 0)),
	key("outage_for", "How long they do not answer.",
		span(func(g *group) *time.Duration { return &g.outageFor }, 1)),
	key("outage_every", "The time from the beginning of an outage to the next.",
		span(func(g *group) *time.Duration { return &g.outageEvery }, 0)),
	key("outages", "How many outages there are.",
		config.Integer(func(g *group) *int { return &g.outages }, 1, 100_000)),
	key("outage_servers", "How many servers do not answer, the first ones.",
		config.Integer(func(g *group) *int { return &g.outageServers }, 1, maxServers)),
}

func key(name, says string, kind config.Kind[group]) config.Key[group] {
	return config.Key[group]{Name: name, Says: says, Kind: kind}
}

func sizeOf(g *group) *amount { return &g.size }
func rateOf(g *group) *amount { return &g.rate }

func quantity(of func(*group) *amount) config.Kind[group] {
	return number(func(g *group) *float64 { return &of(g).mean }, 0, 1e12)
}

func lawOf(of func(*group) *amount) config.Kind[group] {
	return config.OneOf(func(g *group) *string { return &of(g).law }, laws...)
}

func shapeOf(of func(*group) *amount) config.Kind[group] {
	return number(func(g *group) *float64 { return &of(g).shape }, 0.01, 100)
}

func fraction(field func(*group) *float64) config.Kind[group] { return number(field, 0, 1) }

// span takes times, in seconds or with a unit.
func span(field func(*group) *time.Duration, least int64) config.Kind[group] {
	kind := config.Duration(field, time.Second, least)
	kind.Takes += ", and at most 10 years"
	set := kind.Set
	kind.Set = func(g *group, v string) error {
		if err := set(g, v); err != nil || *field(g) > maxTime {
			return errors.New("must be " + kind.Takes)
		}
		return nil
	}
	return kind
}

// number takes decimal numbers from least to most.
func number(field func(*group) *float64, least, most float64) config.Kind[group] {
	takes := fmt.Sprintf("a number from %s to %s", plain(least), plain(most))
	return config.Kind[group]{
		Takes: takes,
		Get:   func(g *group) string { return plain(*field(g)) },
		Set: func(g *group, v string) error {
			x, err := strconv.ParseFloat(v, 64)
			if err != nil || !(x >= least && x <= most) {
				return errors.New("must be " + takes)
			}
			*field(g) = x
			return nil
		},
	}
}

func plain(x float64) string {
	if x != 0 && (math.Abs(x) >= 1e9 || math.Abs(x) < 1e-4) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// list takes whole numbers with : between them.
func list(field func(*group) *[]int, least, most int) config.Kind[group] {
	takes := fmt.Sprintf("whole numbers from %d to %d with : between them, or one for all", least, most)
	return config.Kind[group]{
		Takes: takes,
		Get: func(g *group) string {
			words := make([]string, len(*field(g)))
			for i, n := range *field(g) {
				words[i] = strconv.Itoa(n)
			}
			return strings.Join(words, ":")
		},
		Set: func(g *group, v string) error {
			var numbers []int
			for word := range strings.SplitSeq(v, ":") {
				n, err := strconv.Atoi(strings.TrimSpace(word))
				if err != nil || n < least || n > most {
					return errors.New("must be " + takes)
				}
				numbers = append(numbers, n)
			}
			*field(g) = numbers
			return nil
		},
	}
}

var groupList = config.Kind[group]{
	Takes: "names with commas between them, each of " + takesGroup,
	Get:   func(g *group) string { return strings.Join(g.groups, ", ") },
	Set: func(g *group, v string) error {
		var names []string
		seen := map[string]bool{}
		for name := range strings.SplitSeq(v, ",") {
			name = strings.TrimSpace(name)
			if !groupName.MatchString(name) {
				return errors.New("must be names with commas between them, each of " + takesGroup)
			}
			if seen[name] {
				return fmt.Errorf("must name each group once; %s is there twice", name)
			}
			seen[name] = true
			names = append(names, name)
		}
		g.groups = names
		return nil
	},
}

var phase = config.Kind[group]{
	Takes: "random, or a time such as 8h",
	Get: func(g *group) string {
		if g.phase < 0 {
			return "random"
		}
		return config.Short(g.phase)
	},
	Set: func(g *group, v string) error {
		if v == "random" {
			g.phase = -1
			return nil
		}
		kind := span(func(g *group) *time.Duration { return &g.phase }, 0)
		if kind.Set(g, v) != nil {
			return errors.New("must be random, or " + kind.Takes)
		}
		return nil
	},
}

var file = config.Kind[group]{
	Takes: "a path that ends in .jsonl or .swf",
	Get:   func(g *group) string { return g.file },
	Set: func(g *group, v string) error {
		if !IsFile(v) {
			return errors.New("must be a path that ends in .jsonl or .swf")
		}
		g.file = v
		return nil
	},
}

// check returns an error when settings of a group do not agree.
func (g *group) check() error {
	wrong := func(key, format string, args ...any) error {
		if g.name != "" {
			key = g.name + "." + key
		}
		return fmt.Errorf("[%s] %s: "+format, append([]any{section, key}, args...)...)
	}
	switch {
	case len(g.shares) > g.accounts:
		return wrong("shares", "has %d numbers, for %d accounts; give accounts as many", len(g.shares), g.accounts)
	case len(g.jobs) > g.accounts:
		return wrong("jobs", "has %d numbers, for %d accounts; give accounts as many", len(g.jobs), g.accounts)
	case g.zipf > 0 && len(g.jobs) > 1:
		return wrong("jobs", "must be one number, the mean of all accounts, as zipf is above 0")
	case g.count() > MaxJobs:
		return wrong("jobs", "the accounts have %d jobs together; %d are accepted at most", g.count(), MaxJobs)
	case g.size.law == "pareto" && g.size.shape <= 1:
		return wrong("size_shape", "must be above 1 for pareto, which has no mean otherwise")
	case g.rate.law == "pareto" && g.rate.shape <= 1:
		return wrong("rate_shape", "must be above 1 for pareto, which has no mean otherwise")
	case g.burst > g.every:
		return wrong("burst", "must be no more than every, %s", config.Short(g.every))
	case g.phase >= g.every:
		return wrong("phase", "must be less than every, %s", config.Short(g.every))
	case g.outageServers > g.servers:
		return wrong("outage_servers", "must be no more than servers, %d", g.servers)
	case g.outages*g.outageServers > maxOutages:
		return wrong("outages", "times outage_servers is %d; %d are accepted at most", g.outages*g.outageServers,
			maxOutages)
	case g.outages > 1 && g.outageEvery < g.outageFor:
		return wrong("outage_every", "must be at least outage_for, %s, when there are several outages",
			config.Short(g.outageFor))
	}
	return nil
}

// count is how many jobs there are before a restart.
func (g *group) count() int {
	n := 0
	for i := range min(g.accounts, len(g.jobs)) {
		n += g.jobs[i]
	}
	return n + (g.accounts-min(g.accounts, len(g.jobs)))*g.jobs[len(g.jobs)-1]
}
