package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/workload"
)

// TestStories has what happens in small workloads, word by word. Times of crashes and back-offs are drawn, as are
// those at which nodes find others dead; the rest is computed by hand.
func TestStories(t *testing.T) {
	for _, c := range stories {
		t.Run(c.name, func(t *testing.T) {
			l := hand(c.jobs...)
			c.config(&l)
			want := strings.Fields(c.want)
			got := strings.Join(play(t, l), "\n")
			if !slices.Equal(strings.Fields(got), want) {
				t.Errorf("got:\n%s\nwant:%s", got, c.want)
			}
		})
	}
}

var stories = []struct {
	name   string
	jobs   []job
	config func(c *Config)
	want   string
}{
	{"jobs take turns", []job{
		{Backlog: 1000, Startup: 2 * sec},
		{Continuous: true, Rate: 1, Backlog: 100},
		{Submit: 3 * m, Backlog: 10},
	}, func(c *Config) {
		c.Duration = 5 * m
	}, `
		0s submitted a
		0s node up n0 1
		0s submitted b
		0s started a n0
		1m42s ended a n0 completed, 1000
		1m42s started b n0
		3m0s submitted c
		3m40.536196s ended b n0 gave way, 320.536
		3m40.536196s started c n0
		3m41.536196s ended c n0 completed, 10
		3m41.536196s started b n0`},
	{"a one-shot does not give way", []job{
		{Backlog: 2000, Startup: 2 * sec, Submit: 3 * sec},
		{Submit: 70 * sec, Continuous: true},
	}, func(c *Config) {
		c.Duration = 7 * m
	}, `
		0s node up n0 1
		3s submitted a
		3s started a n0
		1m10s submitted b
		3m25s ended a n0 completed, 2000
		3m25s started b n0`},
	{"a node dies for good, and nothing happens any more", []job{{Backlog: 1000}}, func(c *Config) {
		c.Failures = []Failure{{Node: 0, At: 65 * sec}}
	}, `
		0s submitted a
		0s node up n0 1
		0s started a n0
		1m5s ended a n0 vanished, 600
		1m5s node down n0`},
	{"a later job is noticed at once, and the latency counts", []job{
		{Backlog: 100},
		{Submit: 70 * sec, Backlog: 100},
	}, func(c *Config) {
		c.Latency = 10 * time.Millisecond
	}, `
		0s submitted a
		0s node up n0 1
		20ms started a n0
		10.02s ended a n0 completed, 100
		1m10s submitted b
		1m10.02s started b n0
		1m20.02s ended b n0 completed, 100`},
	{"a run waits in its slot, and then starts up", []job{
		{Backlog: 100, Startup: sec},
		{Backlog: 100, Startup: sec},
	}, func(c *Config) {
		c.Settings.Node.MaxJobs, c.Settings.Node.StartupJitter = 2, 5*time.Hour
	}, `
		0s submitted a
		0s node up n0 2
		0s submitted b
		0s started a n0 after 7.133126ms
		0s started b n0 after 6.181248ms
		11.006181s ended b n0 completed, 100
		11.007133s ended a n0 completed, 100`},
	{"nodes die", []job{
		{Continuous: true, Rate: 1},
		{Continuous: true, Rate: 1},
		{Continuous: true, Rate: 1, Remove: 60 * sec},
		{Submit: 55 * sec, Backlog: 700},
	}, func(c *Config) {
		c.Nodes, c.Settings.Node.MaxJobs, c.Duration = 2, 3, 5*m
		c.Failures = []Failure{{0, 50 * sec, 50 * sec}, {1, 100 * sec, 0}, {1, 110 * sec, 0}}
	}, `
		0s submitted a
		0s node up n0 3
		0s node up n1 3
		0s submitted b
		0s submitted c
		2s started a n0
		2s started c n0
		2s started b n1
		50s ended a n0 vanished, 32
		50s ended c n0 vanished, 32
		50s node down n0
		55s submitted d
		55s started d n1
		1m0s removed c
		1m14.427885s ready a
		1m14.427885s started a n1
		1m40s node up n0 3
		1m40s ended b n1 vanished, 92
		1m40s ended d n1 vanished, 300
		1m40s ended a n1 vanished, 0
		1m40s node down n1
		2m3.870693s ready b
		2m3.870693s ready d
		2m3.870693s ready a
		2m3.870693s started a n0
		2m3.870693s started b n0
		2m3.870693s started d n0
		2m43.870693s ended d n0 completed, 400`},
	{"a node dies while requests of it are in flight", []job{
		{Backlog: 100},
		{Backlog: 50},
		{Backlog: 100, Submit: 14 * sec},
	}, func(c *Config) {
		c.Latency, c.Duration = 2*sec, 2*m
		c.Failures = []Failure{{0, 17 * sec, 500 * time.Millisecond}}
	}, `
		0s submitted a
		0s node up n0 1
		0s submitted b
		4s started a n0
		14s submitted c
		14s ended a n0 completed, 100
		17s node down n0
		17.5s node up n0 1
		21.5s started b n0
		26.5s ended b n0 completed, 50
		30.5s started c n0
		40.5s ended c n0 completed, 100`},
	{"nodes lose their leases when requests take too long", []job{{Continuous: true, Rate: 1}}, func(c *Config) {
		c.Nodes, c.Duration, c.Latency = 2, m, 800*time.Millisecond
		c.Settings.Node.ActivityTimeout = 2 * sec
	}, `
		0s submitted a
		0s node up n0 1
		0s node up n1 1
		2.8s started a n0
		20.837844s ended a n0 vanished, 0
		21.637844s ready a
		23.237844s started a n1`},
	{"two nodes find a third dead", []job{{Continuous: true}, {Continuous: true}, {Continuous: true}}, func(c *Config) {
		c.Nodes, c.Duration, c.Latency = 3, 90*sec, 400*time.Millisecond
		c.Settings.Node.ActivityTimeout = 2 * sec
		c.Failures = []Failure{{Node: 0, At: m}}
	}, `
		0s submitted a
		0s node up n0 1
		0s node up n1 1
		0s node up n2 1
		0s submitted b
		0s submitted c
		2.4s started c n2
		2.4s started a n0
		2.4s started b n1
		1m0s ended a n0 vanished, 0
		1m0s node down n0
		1m2.899815s ready a`},
	{"a job with which nodes die soon waits", []job{{Continuous: true, Rate: 1}}, func(c *Config) {
		c.Duration = 9 * m
		for n := range 5 {
			c.Failures = append(c.Failures, Failure{Node: 0, At: time.Duration(n+1) * m, For: sec})
		}
	}, `
		0s submitted a
		0s node up n0 1
		0s started a n0
		1m0s ended a n0 vanished, 60
		1m0s node down n0
		1m1s node up n0 1
		1m1s ready a
		1m1s started a n0
		2m0s ended a n0 vanished, 31
		2m0s node down n0
		2m1s node up n0 1
		2m1s ready a
		2m1s started a n0
		3m0s ended a n0 vanished, 60
		3m0s node down n0
		3m1s node up n0 1
		3m1s ready a
		3m1s started a n0
		4m0s ended a n0 vanished, 60
		4m0s node down n0
		4m1s node up n0 1
		4m1s ready a
		4m1s started a n0
		5m0s ended a n0 vanished, 60
		5m0s node down n0
		5m1s node up n0 1
		5m1s ready a
		5m31.243503s ready a
		5m31.243503s started a n0`},
	{"a job with which nodes die late does not wait", []job{{Continuous: true, Rate: 1}}, func(c *Config) {
		c.Duration = 30 * m
		for n := range 5 {
			c.Failures = append(c.Failures, Failure{Node: 0, At: time.Duration(n+1) * 4 * m, For: sec})
		}
	}, `
		0s submitted a
		0s node up n0 1
		0s started a n0
		4m0s ended a n0 vanished, 240
		4m0s node down n0
		4m1s node up n0 1
		4m1s ready a
		4m1s started a n0
		8m0s ended a n0 vanished, 211
		8m0s node down n0
		8m1s node up n0 1
		8m1s ready a
		8m1s started a n0
		12m0s ended a n0 vanished, 240
		12m0s node down n0
		12m1s node up n0 1
		12m1s ready a
		12m1s started a n0
		16m0s ended a n0 vanished, 240
		16m0s node down n0
		16m1s node up n0 1
		16m1s ready a
		16m1s started a n0
		20m0s ended a n0 vanished, 240
		20m0s node down n0
		20m1s node up n0 1
		20m1s ready a
		20m1s started a n0`},
	{"a node is dead from the beginning, and another failure changes nothing", []job{
		{Backlog: 100},
	}, func(c *Config) {
		c.Failures = []Failure{{0, 0, m}, {0, 30 * sec, 90 * sec}}
	}, `
		0s submitted a
		0s node up n0 1
		0s node down n0
		1m0s node up n0 1
		1m0s started a n0
		1m10s ended a n0 completed, 100`},
	{"jobs are removed while they run, are over, wait, back off", []job{
		{Continuous: true, Rate: 1, Backlog: 1000, Remove: 40 * sec},
		{Backlog: 100, Remove: 55 * sec},
		{Continuous: true, Remove: 45 * sec},
		{Continuous: true, Server: 1, Remove: 65 * sec},
	}, func(c *Config) {
		c.Workload.Outages = away(1, 0, 5*m)
	}, `
		0s submitted a
		0s node up n0 1
		0s submitted b
		0s submitted c
		0s started a n0
		0s submitted d
		41s ended a n0 gave way, 410
		41s removed a
		41s started b n0
		45s removed c
		51s ended b n0 completed, 100
		51s started d n0
		51.59762s ended d n0 crashed, 0
		55s removed b
		1m5s removed d`},
	{"runs that stop too slowly are killed", []job{
		{Continuous: true, Rate: 20},
		{Continuous: true, Remove: 182 * sec},
	}, func(c *Config) {
		c.StopTime, c.Duration = 10*sec, 4*m
	}, `
		0s submitted a
		0s node up n0 1
		0s submitted b
		0s started a n0
		1m5s ended a n0 killed, 600
		1m5s started b n0
		2m59.614066s ended b n0 killed, 0
		2m59.614066s started a n0
		3m2s removed b`},
	{"a run ends by itself before it has stopped", []job{
		{Backlog: 605},
		{Continuous: true},
	}, func(c *Config) {
		c.Duration = 2 * m
	}, `
		0s submitted a
		0s node up n0 1
		0s submitted b
		0s started a n0
		1m0.5s ended a n0 completed, 605
		1m0.5s started b n0`},
	{"runs that need a server crash while it is away", []job{
		{Continuous: true, Rate: 1, Server: 1, Startup: 2 * sec},
		{Backlog: 1000, Server: 2},
	}, func(c *Config) {
		c.Settings.Node.MaxJobs, c.Duration = 2, 10*m
		c.Workload.Outages = slices.Concat(away(1, 4*m, 5*m), away(1, 2*m, 3*m), away(2, m, 90*sec))
	}, `
		0s submitted a
		0s node up n0 2
		0s submitted b
		0s started a n0
		0s started b n0
		1m0.404082s ended b n0 crashed, 600
		1m30.424315s ready b
		1m30.424315s started b n0
		2m1.025127s ended a n0 crashed, 120
		2m10.424315s ended b n0 completed, 400
		2m28.742526s ready a
		2m28.742526s started a n0
		2m29.376293s ended a n0 crashed, 0
		3m25.382362s ready a
		3m25.382362s started a n0
		4m1.408576s ended a n0 crashed, 115.382
		6m3.214336s ready a
		6m3.214336s started a n0`},
	{"runs crash by themselves", []job{{Continuous: true, Rate: 1, MTBF: m}}, func(c *Config) {
		c.Duration = 10 * m
	}, `
		0s submitted a
		0s node up n0 1
		0s started a n0
		40.099797s ended a n0 crashed, 30
		1m7.429006s ready a
		1m7.429006s started a n0
		1m33.692967s ended a n0 crashed, 0
		2m36.865093s ready a
		2m36.865093s started a n0
		2m39.368898s ended a n0 crashed, 0
		4m41.970491s ready a
		4m41.970491s started a n0
		4m52.400905s ended a n0 crashed, 0
		9m8.313135s ready a
		9m8.313135s started a n0
		9m16.325375s ended a n0 crashed, 0`},
	{"a job of a user is over when it crashes", []job{
		{Continuous: true, Rate: 1, Server: 1, Remove: 45 * sec},
		{Submit: sec, Backlog: 100, Remove: m},
		{Submit: 2 * sec, Continuous: true, Remove: 50 * sec},
		{Submit: 3 * sec, Continuous: true, Remove: 49 * sec},
	}, func(c *Config) {
		c.Workload.Accounts[0].Name, c.Duration = "user:u", 2*m
		c.Workload.Outages = away(1, 0, m)
	}, `
		0s submitted a
		0s node up n0 1
		0s started a n0
		512.563ms ended a n0 crashed, 0
		1s submitted b
		1s started b n0
		2s submitted c
		3s submitted d
		11s ended b n0 completed, 100
		11s started c n0
		45s removed a
		49s removed d
		51s ended c n0 gave way, 0
		51s removed c
		1m0s removed b`},
	{"shares are those of the settings, and change", []job{{Backlog: 10}}, func(c *Config) {
		c.Settings.Replicator.Sharing.Shares = map[string]int64{"_replicator": 77}
		c.Workload.Changes = []workload.Change{{At: m, Shares: 5}}
	}, `
		0s shares a0 77
		0s submitted a
		0s node up n0 1
		0s started a n0
		1s ended a n0 completed, 10
		1m0s shares a0 5`},
	{"a back-off begins when the crash is told, not when it is stored", []job{
		{Server: 1, Backlog: 1000},
	}, func(c *Config) {
		c.Latency, c.Duration, c.Workload.Outages = 2*sec, 2*m, away(1, 10*sec, 15*sec)
	}, `
		0s submitted a
		0s node up n0 1
		4s started a n0
		10.512563s ended a n0 crashed, 0
		36.211243s ready a
		40.211243s started a n0`},
	{"a job is removed while its end is being stored", []job{
		{Backlog: 100, Remove: 15 * sec},
		{Backlog: 100},
	}, func(c *Config) {
		c.Latency, c.Duration = 2*sec, m
	}, `
		0s submitted a
		0s node up n0 1
		0s submitted b
		4s started a n0
		14s ended a n0 completed, 100
		15s removed a
		18s started b n0
		28s ended b n0 completed, 100`},
	{"the end", []job{{Submit: 10 * sec, Backlog: 100}, {Submit: 20 * sec}}, func(c *Config) {
		c.Duration = 20 * sec
	}, `
		0s node up n0 1
		10s submitted a
		10s started a n0`},
}
