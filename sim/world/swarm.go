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
	"couchrelay/sim/peers"
)

// Profile is a size of the worlds that a campaign draws. Its numbers are the largest that are drawn.
type Profile struct {
	Name             string
	Nodes, Jobs      int
	Servers, Tenants int
	Docs             int           // half of the most in a database
	Duration         time.Duration // of one world in four; the others last a quarter of it
	// Pace multiplies intervals and timeouts.
	Pace time.Duration
}

// Profiles of campaigns.
var (
	Small = Profile{Name: "small", Nodes: 2, Jobs: 20, Servers: 4, Tenants: 3, Docs: 5,
		Duration: time.Hour, Pace: 4}
	Standard = Profile{Name: "standard", Nodes: 3, Jobs: 200, Servers: 10, Tenants: 10, Docs: 8,
		Duration: 6 * time.Hour, Pace: 6}
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
	p.Duration = drawDuration(seed, p.Duration)
	r := prng.Fork(seed, "swarm")
	between := func(least, most int) int { return least + r.Intn(most-least+1) }
	c := Default()
	c.Nodes, c.Servers, c.Tenants = between(1, p.Nodes), between(2, p.Servers), between(1, p.Tenants)
	c.Jobs = min(between(p.Jobs/10, p.Jobs), between(p.Jobs/10, p.Jobs)) // large worlds take most of the time
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
	c.drawRates(&r, seed)
	c.drawFleet(seed)
	c.drawRuns(seed)
	if reads := prng.Fork(seed, "reads"); reads.Intn(4) > 0 {
		c.SlowReads = 10 * max(0, reads.Intn(8)-4) // mostly none
	}
	if hurry := prng.Fork(seed, "hurry"); hurry.Intn(8) == 7 {
		c.CheckpointInterval = time.Duration(100+hurry.Intn(900)) * time.Millisecond
	}
	if c.Rates[ReadOnly] > 0 { // runs write many checkpoints, some of them before their sources store no more
		c.CheckpointInterval = min(c.CheckpointInterval, 2*time.Second)
	}
	if urls := prng.Fork(seed, "urls"); urls.Intn(300) == 0 { // few and short: they cost a hundred times as much
		c.LongURLs = 60 + 10*urls.Intn(5)
		c.Jobs, c.Duration = 20, p.Duration/6 // the records are more than a transaction may write
		s.MaxJobs = max(s.MaxJobs, 15)
	}
	if balance := prng.Fork(seed, "rebalance"); balance.Intn(4) == 0 {
		s.Rebalance = false
	}
	if duplicates := prng.Fork(seed, "duplicates"); duplicates.Intn(4) == 0 {
		c.DuplicatesFail = true
	}
	if stall := prng.Fork(seed, "stall"); stall.Intn(8) == 0 {
		s.StallTimeout = 0
	} else if stall.Intn(4) > 0 { // mostly short
		s.StallTimeout = time.Duration(60+stall.Intn(120)) * time.Second
	}
	if sharing := prng.Fork(seed, "sharing"); sharing.Intn(3) == 0 {
		c.Actions[ChangeSharing] = 1 + sharing.Intn(actionNamed(ChangeSharing).most)
	}
	if control := prng.Fork(seed, "control"); control.Intn(3) == 0 {
		for _, a := range controlActions {
			if control.Intn(3) > 0 {
				c.Actions[a.name] = 1 + control.Intn(a.most)
			}
		}
	}
	if waits := prng.Fork(seed, "waits"); waits.Intn(3) == 0 {
		c.Actions[JobWait] = 1 + waits.Intn(actionNamed(JobWait).most)
	}
	c.drawRefusals(seed)
	drawUnreadable(&c, seed)
	c.drawWrites(seed)
	c.Sharing.Policy = schedule.Policy(max(0, r.Intn(6)-3)) // mostly fair share
	c.drawPeriods(seed, p)
	c.drawRounds(seed, p)
	c.Sharing.Follow(s.Interval, s.UsageInterval)
	return c
}

// drawFleet draws how the nodes differ.
func (c *Config) drawFleet(seed uint64) {
	roles := prng.Fork(seed, "roles")
	c.FrontendOnly, c.ReplicationOnly = max(0, roles.Intn(4)-2), max(0, roles.Intn(4)-2)
	names := prng.Fork(seed, "namesakes")
	c.Namesakes = max(0, names.Intn(6)-3)
	if older := prng.Fork(seed, "older"); older.Intn(8) == 0 {
		c.Older = 1 + older.Intn(c.Nodes)
	}
	if batch := prng.Fork(seed, "node batch"); batch.Intn(2) == 0 {
		c.NodeBatch = 1 + batch.Intn(6)
	}
}

// drawDuration has three worlds of four be short: what users do there is as much, and most bugs show soon.
func drawDuration(seed uint64, most time.Duration) time.Duration {
	if r := prng.Fork(seed, "length"); r.Intn(4) > 0 {
		return most / 4
	}
	return most
}

// drawPeriods has periods of their own in one world of eight. They are not far from the interval, so that a run
// lasts for some of each.
func (c *Config) drawPeriods(seed uint64, p Profile) {
	r := prng.Fork(seed, "periods")
	if r.Intn(8) > 0 {
		return
	}
	for _, period := range []*time.Duration{
		&c.Settings.UsageInterval, &c.Sharing.Periods.Priority, &c.Sharing.Periods.Growth,
	} {
		if r.Intn(4) > 0 {
			*period = time.Duration(5+r.Intn(56)) * p.Pace * time.Second
		}
	}
}

// drawRounds has one world of eight be as those are that end rounds of the queue: under tags, with shares far apart,
// and more jobs that stay than slots, of which many give way in each of its short intervals.
func (c *Config) drawRounds(seed uint64, p Profile) {
	r := prng.Fork(seed, "rounds")
	if r.Intn(8) > 0 {
		return
	}
	c.Sharing.Policy, c.Sharing.Shares = schedule.Tags, map[string]int64{}
	for i, shares := range []int64{1000, 100, 1}[:min(3, c.Tenants)] {
		c.Sharing.Shares[replicatorDB(i)] = shares
	}
	c.Jobs, c.Continuous = max(c.Jobs, p.Jobs/2), max(c.Continuous, 70)
	c.Settings.MaxJobs = 1 + r.Intn(max(1, c.Jobs/5))
	c.Settings.MaxChurn = 1 + r.Intn(c.Settings.MaxJobs)
	c.Settings.Interval = time.Duration(5+r.Intn(10)) * p.Pace * time.Second
	c.Settings.MinRun = time.Duration(r.Intn(3)) * c.Settings.Interval / 2
}

// drawRates chooses the families of faults that there are, and how often their members come up. Families
// are not those of the catalogue here: the first word of a fault's name is its family, and all actions are
// one.
func (c *Config) drawRates(r *prng.Source, seed uint64) {
	drawn := map[string]bool{} // whether there is a family
	on := func(family string) bool {
		if _, known := drawn[family]; !known {
			drawn[family] = r.Intn(2) == 1
		}
		return drawn[family] && r.Intn(2) == 1
	}
	for _, t := range faultsByName() {
		if slices.Contains(later, t.Name) || t.Name == misread {
			continue
		}
		rate := 1 + r.Intn(t.most) // drawn also when it is not used
		if family, _, _ := strings.Cut(t.Name, "-"); on(family) {
			c.Rates[t.Name] = rate
		}
	}
	if name := string(fakefdb.WatchRefused); c.Rates[name] > 0 {
		c.Rates[name] = decide.Scale // others have taken them all
	}
	for _, a := range actions {
		if a.name == ChangeSharing || a.name == CrashingStorm {
			continue // they are drawn by themselves
		}
		if rate := 1 + r.Intn(a.most); on("act") {
			c.Actions[a.name] = rate
		}
	}
	c.drawLater(drawn, seed)
}

// later are faults that came when seeds were in use. Each draws from a stream of its own, so that worlds without it
// are as they were.
var later = []string{peers.FeedPauses, peers.FeedStalls, "db-leaf-lost", "db-purged",
	"db-sequence-jumps", peers.RevDamaged,
	peers.Maintenance, peers.Pauses, peers.Stalls, "net-answers-twice", "net-deaf", "net-narrow", PasswordChanged,
	"server-bad-request", ReadOnly, "server-redirects"}

// drawLater chooses among the later faults of the families that there are.
func (c *Config) drawLater(drawn map[string]bool, seed uint64) {
	for _, t := range faultsByName() {
		family, _, _ := strings.Cut(t.Name, "-")
		r := prng.Fork(seed, t.Name)
		if slices.Contains(later, t.Name) && drawn[family] && r.Intn(2) == 1 {
			c.Rates[t.Name] = 1 + r.Intn(t.most)
		}
	}
	if r := prng.Fork(seed, misread); r.Intn(10) == 0 { // of no family, since few worlds have it
		c.Rates[misread] = 1 + r.Intn(mostMisread)
	}
	if r := prng.Fork(seed, CrashingStorm); drawn["act"] && r.Intn(2) == 1 {
		c.Actions[CrashingStorm] = 1 + r.Intn(actionNamed(CrashingStorm).most)
	}
}

// compressions are settings of compression. That of production needs more writes than most runs here make.
var compressions = []string{"on", "on", "auto", "off"}

// drawRuns has runs of some worlds hold few documents, and of most have more batches on the line than at the servers.
func (c *Config) drawRuns(seed uint64) {
	if memory := prng.Fork(seed, "memory"); memory.Intn(2) == 1 {
		c.Memory = 1 << (10 + memory.Intn(8)) // fetches of one document and of some hundreds
	}
	if window := prng.Fork(seed, "window"); window.Intn(3) > 0 {
		c.MaxWorkers = 1 + window.Intn(24)
	}
	packing := prng.Fork(seed, "compression")
	c.Compression = compressions[packing.Intn(len(compressions))]
}
