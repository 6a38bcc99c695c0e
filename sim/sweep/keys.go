package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/sim/lab"
	"couchrelay/sim/workload"
)

// Setup is all that a point of an experiment says of its runs.
type Setup struct {
	Settings config.Settings
	Recipe   workload.Recipe
	Nodes    int
	Duration time.Duration
	WarmUp   time.Duration // what happens before is not measured
	Latency  time.Duration // of a transaction
	StopTime time.Duration // of a run that stops in order
	Failures []lab.Failure
	Exact    bool
	// PerAccount are the metrics of which results have those of each account too.
	PerAccount []string
}

// newSetup is what a file without a line says.
func newSetup(dir string) Setup {
	settings := config.Default()
	settings.Simulated = true
	return Setup{
		Settings: settings, Recipe: workload.Recipe{Dir: dir}, Nodes: 1,
		Duration: 24 * time.Hour, Latency: 5 * time.Millisecond, StopTime: 100 * time.Millisecond,
	}
}

// Lab is the world of the setup, without its workload and seed.
func (s *Setup) Lab() lab.Config {
	return lab.Config{
		Settings: s.Settings, Nodes: s.Nodes, Duration: s.Duration, Latency: s.Latency, StopTime: s.StopTime,
		Checkpoint: s.Settings.Replicator.Parse.CheckpointInterval, Failures: s.Failures, Exact: s.Exact,
	}
}

// keys lists those that come before any section.
var keys = config.Section[Setup]{
	{Name: "nodes", Says: "How many nodes there are, all with the same settings.",
		Kind: config.Integer(func(s *Setup) *int { return &s.Nodes }, 1, 1000)},
	{Name: "duration", Says: "The virtual time of a run.",
		Kind: span(func(s *Setup) *time.Duration { return &s.Duration }, 1)},
	{Name: "warm-up", Says: "How much of its beginning is not measured.",
		Kind: span(func(s *Setup) *time.Duration { return &s.WarmUp }, 0)},
	{Name: "latency", Says: "The time of a transaction of a node.",
		Kind: span(func(s *Setup) *time.Duration { return &s.Latency }, 0)},
	{Name: "stop-time", Says: "How long a run takes to stop in order.",
		Kind: span(func(s *Setup) *time.Duration { return &s.StopTime }, 0)},
	{Name: "failures", Says: "Which nodes die when, and for how long.", Kind: failures},
	{Name: "exact", Says: "Whether production's queue answers instead of its model, which is much slower.",
		Kind: config.Boolean(func(s *Setup) *bool { return &s.Exact })},
	{Name: "per-account", Says: "Metrics that results have of each account too, as in share/_replicator.",
		Kind: perAccount},
}

// maxSpan bounds times, so that sums of them stay in range.
const maxSpan = 10 * 365 * 24 * time.Hour

// span takes times with units, days too.
func span(of func(*Setup) *time.Duration, least time.Duration) config.Kind[Setup] {
	takes := "a time from 0 to 3650d, such as 90s, 36h or 7d"
	if least > 0 {
		takes = "a time above 0 and up to 3650d, such as 90s, 36h or 7d"
	}
	return config.Kind[Setup]{
		Takes: takes,
		Get:   func(s *Setup) string { return config.Short(*of(s)) },
		Set: func(s *Setup, v string) error {
			d, err := parseSpan(v)
			if err != nil || d < least || d > maxSpan {
				return errors.New("must be " + takes)
			}
			*of(s) = d
			return nil
		},
	}
}

func parseSpan(v string) (time.Duration, error) {
	if number, days := strings.CutSuffix(v, "d"); days {
		n, err := strconv.ParseUint(number, 10, 12)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(v)
}

const takesFailures = "nodes and times such as n1 at 10m for 5m, n2 at 1h, with commas between them"

var failures = config.Kind[Setup]{
	Takes: takesFailures,
	Get: func(s *Setup) string {
		all := make([]string, len(s.Failures))
		for i, f := range s.Failures {
			all[i] = fmt.Sprintf("n%d at %s", f.Node+1, config.Short(f.At))
			if f.For > 0 {
				all[i] += " for " + config.Short(f.For)
			}
		}
		return strings.Join(all, ", ")
	},
	Set: func(s *Setup, v string) error {
		s.Failures = nil
		for text := range strings.SplitSeq(v, ",") {
			f, ok := parseFailure(strings.Fields(text))
			if !ok {
				return errors.New("must be " + takesFailures)
			}
			s.Failures = append(s.Failures, f)
		}
		return nil
	},
}

func parseFailure(words []string) (f lab.Failure, ok bool) {
	if len(words) != 3 && len(words) != 5 || words[1] != "at" || !strings.HasPrefix(words[0], "n") {
		return f, false
	}
	number, err := strconv.Atoi(words[0][1:])
	if err != nil || number < 1 {
		return f, false
	}
	f.Node = number - 1
	if f.At, err = parseSpan(words[2]); err != nil || f.At < 0 {
		return f, false
	}
	if len(words) == 5 {
		f.For, err = parseSpan(words[4])
		return f, words[3] == "for" && err == nil && f.For > 0
	}
	return f, true
}

// scheduling are the keys of [replicator] that do something here. The others are about endpoints and documents.
var scheduling = []string{
	"max_jobs", "max_churn", "max_acceptors", "interval", "interval_sec", "usage_interval", "priority_interval",
	"growth_interval", "scheduling_policy", "usage_coeff", "priority_coeff", "min_run_time_sec", "rebalance",
	"startup_jitter", "accept_jitter", "activity_timeout_sec", "stop_timeout_sec", "stats_update_interval_sec",
	"cluster_start_period", "checkpoint_interval", "health_threshold", "health_threshold_sec",
	"min_backoff_penalty", "min_backoff_penalty_sec", "max_backoff_penalty", "max_backoff_penalty_sec",
}

// Sections of an experiment, as files have them without brackets; the first keys are in none.
const (
	top        = ""
	replicator = "replicator"
	shares     = "replicator.shares"
	recipe     = "workload"
	design     = "sweep"
)

// Key names a setting.
type Key struct{ Section, Name string }

// String is the name of the key as results have it.
func (k Key) String() string {
	if k.Section == top || k.Section == replicator {
		return k.Name
	}
	return k.Section + "/" + k.Name
}

// Idle reports whether the key is one of production's that does nothing here.
func (k Key) Idle() bool {
	return k.Section == replicator && !slices.Contains(scheduling, k.Name) &&
		slices.ContainsFunc(config.Replicator, func(r config.Key[config.Settings]) bool { return r.Name == k.Name })
}

// findKey returns the key that a name means: KEY, or SECTION/KEY. It must be one that makes a difference.
func findKey(name string) (Key, error) {
	k, err := nameKey(name)
	if err == nil && k.Idle() {
		err = fmt.Errorf("%s: has no effect on scheduling, so there is nothing to compare", k)
	}
	return k, err
}

func nameKey(name string) (Key, error) {
	if name == "seeds" {
		return Key{}, errors.New("seeds: all points have the same; must be set above the sections of an experiment")
	}
	for _, section := range []string{replicator, shares, recipe} {
		if rest, is := strings.CutPrefix(name, section+"/"); is {
			return Key{section, rest}, nil
		}
	}
	var found []Key
	if slices.ContainsFunc(keys, func(k config.Key[Setup]) bool { return k.Name == name }) {
		found = append(found, Key{top, name})
	}
	if slices.ContainsFunc(config.Replicator, func(k config.Key[config.Settings]) bool { return k.Name == name }) {
		found = append(found, Key{replicator, name})
	}
	_, ofGroup, qualified := strings.Cut(name, ".")
	if !qualified {
		ofGroup = name
	}
	if slices.ContainsFunc(workload.Keys(), func(r config.Row) bool { return r.Key == ofGroup }) {
		found = append(found, Key{recipe, name})
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Key{}, fmt.Errorf("%s: no such key; must be a key of an experiment (%s), of [replicator], of "+
			"[workload], or %s/NAME",
			name, strings.Join(topNames(), ", "), shares)
	}
	return Key{}, fmt.Errorf("%s: is a key of two sections; write %s/%s or %s/%s", name, found[0].Section, name,
		found[1].Section, name)
}

func topNames() []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return names
}

// set gives a key a value.
func (s *Setup) set(k Key, value string) error {
	switch k.Section {
	case replicator:
		return s.Settings.Set(k.Name, value)
	case shares:
		return s.Settings.SetShares(k.Name, value)
	case recipe:
		return s.Recipe.Set(k.Name, value)
	}
	i := slices.IndexFunc(keys, func(t config.Key[Setup]) bool { return t.Name == k.Name })
	if i < 0 {
		return fmt.Errorf("%s: no such key; known are %s, and the sections [replicator], "+
			"[replicator.shares], [workload], [sweep]",
			k.Name, strings.Join(append(topNames(), "seeds"), ", "))
	}
	if err := keys[i].Set(s, value); err != nil {
		return fmt.Errorf("%s = %s: %w", k.Name, value, err)
	}
	return nil
}

// check returns an error when settings do not agree with each other.
func (s *Setup) check() error {
	if err := s.Settings.Check(); err != nil {
		return err
	}
	if err := s.Recipe.Check(); err != nil {
		return err
	}
	if s.WarmUp >= s.Duration {
		return fmt.Errorf("warm-up (%s) must be less than duration (%s)", config.Short(s.WarmUp),
			config.Short(s.Duration))
	}
	if s.Settings.Node.MaxJobs == 0 {
		return errors.New("[replicator] max_jobs = 0: no job would ever run; must be 1 or more")
	}
	return s.checkFailures()
}

func (s *Setup) checkFailures() error {
	for i, f := range s.Failures {
		down := func(o lab.Failure) bool {
			return o.Node == f.Node && o.At <= f.At && (o.For == 0 || f.At <= o.At+o.For)
		}
		switch at := config.Short(f.At); {
		case f.Node >= s.Nodes:
			return fmt.Errorf("failures: there is no node n%d; nodes is %d", f.Node+1, s.Nodes)
		case f.At >= s.Duration:
			return fmt.Errorf("failures: n%d fails at %s, which is not within duration (%s)", f.Node+1, at,
				config.Short(s.Duration))
		case slices.ContainsFunc(s.Failures[:i], down) || slices.ContainsFunc(s.Failures[i+1:], down):
			return fmt.Errorf("failures: n%d fails at %s, while it is down", f.Node+1, at)
		}
	}
	return nil
}
