package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/prng"
	"couchrelay/core/schedule"
	"couchrelay/sim/decide"
	"couchrelay/sim/fakefdb"
)

// Profile is a size of worlds that a campaign draws.
type Profile struct {
	Name             string
	Nodes, Jobs      int // at most
	Servers, Tenants int // at most
	Docs             int
	Duration         time.Duration
	// Pace is how many times as long as in the briskest world intervals and timeouts are.
	Pace time.Duration
}

// Profiles of campaigns.
var (
	Small    = Profile{Name: "small", Nodes: 2, Jobs: 20, Servers: 4, Tenants: 3, Docs: 5, Duration: time.Hour, Pace: 4}
	Standard = Profile{Name: "standard", Nodes: 3, Jobs: 200, Servers: 10, Tenants: 10, Docs: 8, Duration: 6 * time.Hour, Pace: 6}
)

// FindProfile finds a profile by its name.
func FindProfile(name string) (Profile, error) {
	for _, p := range []Profile{Small, Standard} {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("profile %q must be small or standard", name)
}

// Swarm draws the world of a seed: its size, settings, and which faults and actions there are, about half
// of the families in each (Groce et al., Swarm Testing, 2012), so that faults cannot hide each other and
// calm seeds exist.
func Swarm(seed uint64, p Profile) Config {
	r := prng.Fork(seed, "swarm")
	between := func(least, most int) int { return least + r.Intn(most-least+1) }
	c := Default()
	c.Nodes, c.Servers, c.Tenants = between(1, p.Nodes), between(2, p.Servers), between(1, p.Tenants)
	c.Jobs = min(between(p.Jobs/10, p.Jobs), between(p.Jobs/10, p.Jobs)) // rather few: large worlds take most of the time
	c.Docs, c.Duration, c.Settle = between(0, 2*p.Docs), p.Duration, c.Settle*p.Pace
	c.Continuous, c.Filtered, c.Attached = 10*between(0, 10), 10*between(0, 5), 10*between(0, 3)
	c.Think = p.Duration / time.Duration(between(30, 240))
	c.StoreLatency = time.Duration(between(1, 50)) * time.Millisecond
	c.NetLatency = time.Duration(between(5, 500)) * time.Millisecond
	c.BatchSize, c.Workers, c.Retries = between(1, 20), between(1, 4), between(1, 5)
	seconds := func(least, most int) time.Duration { return time.Duration(between(least, most)) * p.Pace * time.Second }
	c.CheckpointInterval = seconds(5, 60)
	s := &c.Settings
	s.MaxJobs = between(1, max(2, c.Jobs))
	s.MaxChurn = between(0, s.MaxJobs)
	s.Interval, s.ActivityTimeout = seconds(5, 60), seconds(6, 90)
	s.PollInterval, s.ProgressInterval = seconds(5, 60), seconds(5, 60)
	c.drawRates(&r)
	roles := prng.Fork(seed, "roles")
	c.FrontendOnly, c.ReplicationOnly = max(0, roles.Intn(4)-2), max(0, roles.Intn(4)-2)
	if memory := prng.Fork(seed, "memory"); memory.Intn(2) == 1 {
		c.Memory = 1 << (10 + memory.Intn(8)) // fetches of one document and of some hundreds
	}
	if reads := prng.Fork(seed, "reads"); reads.Intn(4) > 0 {
		c.SlowReads = 10 * max(0, reads.Intn(8)-4) // mostly none
	}
	if hurry := prng.Fork(seed, "hurry"); hurry.Intn(8) == 7 {
		c.CheckpointInterval = time.Duration(100+hurry.Intn(900)) * time.Millisecond
	}
	if urls := prng.Fork(seed, "urls"); urls.Intn(300) == 0 { // few and short: they cost a hundred times as much
		c.LongURLs = 60 + 10*urls.Intn(5)
		c.Jobs, c.Duration = 20, p.Duration/6 // the records are more than a transaction may write
		s.MaxJobs = max(s.MaxJobs, 15)
	}
	names := prng.Fork(seed, "namesakes")
	c.Namesakes = max(0, names.Intn(6)-3)
	if sharing := prng.Fork(seed, "sharing"); sharing.Intn(3) == 0 {
		c.Actions[ChangeSharing] = 1 + sharing.Intn(100_000)
	}
	c.Sharing.Policy = schedule.Policy(max(0, r.Intn(6)-3)) // mostly fair share
	return c
}

// drawRates chooses the families of faults and actions that there are, and how often their members come
// up.
func (c *Config) drawRates(r *prng.Source) {
	families := map[string]bool{}
	on := func(name string) bool {
		family, _, _ := strings.Cut(name, "-")
		if _, drawn := families[family]; !drawn {
			families[family] = r.Intn(2) == 1
		}
		return families[family] && r.Intn(2) == 1
	}
	for _, name := range AllFaults() {
		most := 20_000 // of requests
		switch {
		case slices.Contains(NemesisFaults, name):
			most = 10_000 // of turns: up to seven in an hour
		case strings.HasPrefix(name, "fdb-"):
			most = 50_000
		}
		if rate := 1 + r.Intn(most); on(name) {
			c.Rates[name] = rate
		}
	}
	if name := string(fakefdb.WatchRefused); c.Rates[name] > 0 {
		c.Rates[name] = decide.Scale // others have taken them all
	}
	for _, name := range AllActions {
		if name == ChangeSharing {
			continue // it is drawn by itself
		}
		most := 50_000
		switch name {
		case EditDoc, DeleteDoc, ConflictDoc:
			most = 200_000
		case StormJobs: // each brings as many jobs as a small world has
			most = 20_000
		}
		if rate := 1 + r.Intn(most); on("act-" + name[:3]) {
			c.Actions[name] = rate
		}
	}
}
