package world

import (
	"fmt"
	"slices"
	"time"
)

// fault is a row of the table of all that the nemesis does. The targets and times that events may name, the
// catalogue, and the rates that a swarm draws are derived from the table.
type fault struct {
	name   string // as rates, events and recorded decisions have it; the first word is its family in a swarm
	family string // of the catalogue
	target target
	span   span // nil for a fault that takes no time
	most   int  // the most that a swarm draws for its rate
	do     func(*deed)
	what   string // a description
}

// Names that other code and tests need.
const (
	StoreDown      = "fdb-down"
	StoreReadsHang = "fdb-reads-hang"
	NodeCrash      = "node-crash"
	NodePause      = "node-pause"
	NodeStall      = "node-stall"
	NodeSuspend    = "node-suspend"
	NodeDrain      = "node-drain"
	NodeSkew       = "node-skew"
	NodeJump       = "node-jump"
	NetSwizzle     = "net-swizzle"
	ServerRestarts = "server-restarts"
	ReadOnly       = "server-read-only"
	DBRecreated    = "db-recreated"

	PasswordChanged = "server-password-changed"
)

// seldom is a rate out of decide.Scale in each turn of the nemesis: up to seven times in an hour.
const seldom = 10_000

// faults is the table. The nemesis chooses among them in this order.
var faults = []fault{
	{StoreDown, "store", nothing, upTo(2*time.Minute, 1), seldom, (*deed).storeDown,
		"nothing gets through to the store for a while"},
	{StoreReadsHang, "store", nothing, upTo(2*time.Minute, 1), seldom, storeReadsHang,
		"the store gives read versions and commits what was written blindly, but answers no read for a while"},

	{NodeCrash, "nodes", aNode, upTo(0, 2), seldom, (*deed).crash,
		"killed between any two events, and restarted after a while"},
	{NodePause, "nodes", aNode, upTo(0, 3), seldom, (*deed).pause,
		"stands still for up to three activity timeouts: a zombie"},
	{NodeStall, "nodes", aNode, aroundTimeout, seldom, (*deed).stall,
		"stands still in the middle of its next transaction, or between the commit and the answer, for a while " +
			"or until others begin to give it up"},
	{NodeSuspend, "nodes", aNode, upTo(0, 3), seldom, (*deed).suspend,
		"stands still with its steady clock, as a machine that is suspended, for a while or until others " +
			"begin to give it up"},
	{NodeDrain, "nodes", aNode, nil, seldom, (*deed).drain,
		"stops in order, and is started again"},
	{"node-storm", "nodes", nothing, between(time.Second, 10*time.Second), seldom, (*deed).storm,
		"all are killed at once"},
	{NodeSkew, "nodes", aNode, nil, seldom, (*deed).skew,
		"its wall clock is off by up to two minutes from now on"},
	{NodeJump, "nodes", aNode, between(time.Second, time.Minute), seldom, (*deed).jump,
		"its wall clock jumps by up to an hour for a while"},
	{"node-other-setup", "nodes", aNode, nil, seldom, (*deed).setUpOtherwise,
		"restarted with other settings, as during an upgrade"},
	{"node-max-jobs", "nodes", aNode, between(time.Minute, 5*time.Minute), seldom, (*deed).changeMaxJobs,
		"max_jobs changes while it runs, down to 0 too"},
	{"node-timeout", "nodes", aNode, between(time.Minute, 5*time.Minute), seldom, (*deed).changeTimeout,
		"the activity timeout changes while it runs"},
	{"node-maintenance", "nodes", aNode, between(10*time.Second, 5*time.Minute), seldom, (*deed).maintain,
		"hands its jobs back, and takes none for a while"},

	{"net-partition", "network", aNode, between(time.Second, 5*time.Minute), seldom, (*deed).partition,
		"a node does not reach a server"},
	{"net-deaf", "network", aNode, between(time.Second, 5*time.Minute), seldom, deafen,
		"what a node asks of a server takes effect, and no answer comes back"},
	{"net-narrow", "network", aNode, between(time.Minute, 30*time.Minute), seldom, narrow,
		"the line between a node and a server carries few bytes a second, which all requests on it share"},
	{"net-isolated", "network", aNode, upTo(2*time.Minute, 2), seldom, (*deed).isolate,
		"a node does not reach the store, for a while or until others begin to give it up"},
	{"net-answers-twice", "network", aNode, between(time.Second, 5*time.Minute), seldom, repeatAnswers,
		"answers of servers reach a node a second time, when its runs may have gone on or ended"},
	{NetSwizzle, "network", nothing, nil, seldom, (*deed).swizzle,
		"connections are cut one by one and come back in another order"},

	{"server-down", "servers", aServer, serverTrouble, seldom, (*deed).serverDown,
		"a server refuses everything for a while"},
	{"server-slow", "servers", aServer, serverTrouble, seldom, (*deed).serverSlow,
		"a server takes seconds for every answer for a while"},
	{"server-silent-feeds", "servers", aServer, silence, seldom, silenceFeeds,
		"a server keeps its feeds of changes open, and sends no rows, for a while"},
	{"server-throttles", "servers", aServer, throttling, seldom, (*deed).serverThrottles,
		"a server answers 429 to everything, or to all requests of one kind, for a while"},
	{"server-overloaded", "servers", aServer, between(4*time.Minute, 30*time.Minute), 2 * seldom, overload,
		"a server answers 429 for so long, or asks for so much quiet, that nodes hold requests back altogether"},
	{"server-redirects", "servers", aServer, serverTrouble, seldom, redirectRequests,
		"a server redirects all requests, or those of one method, for a while: elsewhere, in a circle or nowhere"},
	{ReadOnly, "servers", aServer, between(time.Minute, time.Hour), 5 * seldom, refuseLogs,
		"a server's sources take no more checkpoints for a while"},
	{"server-bad-request", "servers", aServer, between(time.Minute, 20*time.Minute), seldom, answer400,
		"a proxy before a server answers 400, without a word, to requests with a document for a while"},
	{"server-locks-out", "servers", aServer, serverTrouble, seldom, (*deed).serverLocksOut,
		"a server answers 401 to everything for a while"},
	{PasswordChanged, "servers", aServer, nil, seldom, changePassword,
		"a server has another password for replications, which users write into their documents minutes later"},
	{"server-breaks", "servers", aServer, nil, seldom, (*deed).serverBreaks,
		"all connections that wait for a server break"},
	{ServerRestarts, "servers", aServer, nil, seldom, (*deed).serverRestarts,
		"a server starts again without what was written to its targets and not made durable"},

	{DBRecreated, "databases", aDatabase, nil, seldom, (*deed).recreate,
		"deleted and made again, with other documents"},
	{"db-snared", "databases", aDatabase, nil, seldom, (*deed).snare,
		"deleted and made again in the moment at which the next checkpoint arrives"},
	{"db-late-logs", "databases", aDatabase, nil, seldom, (*deed).recreateWithLogs,
		"deleted and made again, and takes checkpoints of runs that are over, sent to the one before"},
	{"db-older-logs", "databases", aDatabase, between(time.Second, 5*time.Minute), seldom, ageLogs,
		"has the checkpoints of runs that are over at the end of a while under ids of an older server"},
	{"db-deleted", "databases", aDatabase, between(time.Second, 3*time.Minute), seldom, (*deed).deleteDB,
		"deleted, and made again after a while"},
	{"db-restored", "databases", aDatabase, between(5*time.Second, 2*time.Minute), seldom, (*deed).restore,
		"put back to an earlier state, as from a backup"},
	{"db-leaf-lost", "databases", aDatabase, between(5*time.Second, 2*time.Minute), 2 * seldom, loseLeaf,
		"a document of a source gets a leaf that does not win, and the source is put back to before that"},
	{"db-sequence-jumps", "databases", aDatabase, nil, seldom, jumpSequence,
		"the numbers of its changes go on far behind the last one, up to where a float64 is no whole number"},
	{"filter-changed", "databases", aDatabase, nil, seldom, (*deed).editFilter,
		"the filter function is another one"},
	{"db-purged", "databases", aDatabase, nil, seldom, purge,
		"documents of a source are gone without a trace, at once or in the moment at which one is asked for"},
}

// NemesisFaults are the names of all faults of the nemesis.
var NemesisFaults = namesOf(faults, func(f fault) string { return f.name })

func namesOf[R any](rows []R, name func(R) string) (names []string) {
	for _, row := range rows {
		names = append(names, name(row))
	}
	return names
}

// faultNamed is the row of a name, nil for a name that is not in the table.
func faultNamed(name string) *fault {
	if i := slices.Index(NemesisFaults, name); i >= 0 {
		return &faults[i]
	}
	return nil
}

// target is a kind of things that faults are aimed at. An event may name one of them.
type target string

// Targets. A fault that is aimed at nothing meets all there is, or chooses while it is done.
const (
	nothing   target = ""
	aNode     target = "node"
	aServer   target = "server"
	aDatabase target = "database"
)

// span bounds how long a fault lasts. The activity timeout is that of the node which the fault is aimed at;
// without such a node it is the one that all nodes begin with.
type span func(timeout time.Duration) (least, most time.Duration)

func between(least, most time.Duration) span {
	return func(time.Duration) (time.Duration, time.Duration) { return least, most }
}

// upTo spans from a second to most, or to a number of activity timeouts if that is longer.
func upTo(most, timeouts time.Duration) span {
	return func(timeout time.Duration) (time.Duration, time.Duration) {
		return time.Second, max(most, timeouts*timeout)
	}
}

func aroundTimeout(timeout time.Duration) (least, most time.Duration) {
	return timeout / 2, 2 * timeout
}

var (
	serverTrouble = between(5*time.Second, 3*time.Minute)
	silence       = between(time.Minute, 20*time.Minute)  // longer than a run may get nowhere
	throttling    = between(5*time.Second, 5*time.Minute) // longer than a run is patient
)

func (d *deed) storeDown() {
	lasts := d.lasts()
	d.w.Engine.Logf("store", "down for %s", lasts)
	d.tell("store", "", lasts)
	d.w.storeWorld.downUntil = max(d.w.storeWorld.downUntil, d.w.Engine.Now().Add(lasts))
}

func storeReadsHang(d *deed) {
	lasts := d.lasts()
	d.w.Engine.Logf("store", "reads hang for %s", lasts)
	d.tell("store", "", lasts)
	d.w.storeWorld.readsHangUntil = max(d.w.storeWorld.readsHangUntil, d.w.Engine.Now().Add(lasts))
}

func (d *deed) crash() { d.kill(d.node, d.lasts()) }

func (d *deed) pause() { d.node.pause(d.fault.name, d.lasts()) }

func (d *deed) stall() {
	d.node.stallsFor, d.node.stallsBefore = d.lasts(), d.site.Int(2) == 1
	d.node.untilGivenUp = d.site.Int(2) == 1
}

func (d *deed) suspend() {
	d.w.clocksWereSet = true
	d.node.suspend(d.lasts())
	d.node.untilGivenUp = d.site.Int(2) == 1
}

func (d *deed) drain() { d.node.drain() }

func (d *deed) storm() {
	for _, p := range d.w.nodes {
		d.kill(p, d.lasts())
	}
}

func (d *deed) skew() {
	d.w.clocksWereSet = true
	p := d.node
	p.skew = d.site.Duration(0, 4*time.Minute) - 2*time.Minute
	d.w.Engine.Logf(p.Name, "clock off by %s", p.skew)
	d.tell(p.Name, fmt.Sprintf("clock off by %s from now on", p.skew), 0)
}

func (d *deed) jump() {
	d.w.clocksWereSet = true
	p := d.node
	before := p.skew
	p.skew = d.site.Duration(0, 2*time.Hour) - time.Hour
	d.w.Engine.Logf(p.Name, "clock jumps by %s", p.skew)
	lasts := d.lasts()
	d.tell(p.Name, fmt.Sprintf("clock jumps by %s", p.skew), lasts)
	d.w.Engine.After(lasts, nil, "clock set right", func() {
		if !d.w.healed { // the healing has set all clocks right
			p.skew = before
		}
	})
}

func (d *deed) setUpOtherwise() {
	s := d.w.Config.Settings
	s.ActivityTimeout = time.Duration(1+d.site.Int(3)) * s.ActivityTimeout / 2
	s.Interval, s.MaxJobs = s.Interval*2, 1+d.site.Int(2*s.MaxJobs+1)
	d.node.settings = s
	d.tell(d.node.Name, fmt.Sprintf("max_jobs %d, activity timeout %s", s.MaxJobs, s.ActivityTimeout), 0)
	d.kill(d.node, time.Second)
}

func (d *deed) changeMaxJobs() {
	p, usual := d.node, d.w.Config.Settings.MaxJobs
	p.settings.MaxJobs = d.site.Int(2*usual + 1)
	d.configure(p)
	lasts := d.lasts()
	d.tell(p.Name, fmt.Sprintf("max_jobs %d", p.settings.MaxJobs), lasts)
	d.w.Engine.After(lasts, nil, "settings restored", func() {
		p.settings.MaxJobs = usual
		p.configure()
	})
}

func (d *deed) changeTimeout() {
	p, usual := d.node, d.w.Config.Settings.ActivityTimeout
	p.settings.ActivityTimeout = time.Duration(1+d.site.Int(5)) * usual / 4
	d.configure(p)
	lasts := d.lasts()
	d.tell(p.Name, fmt.Sprintf("activity timeout %s", p.settings.ActivityTimeout), lasts)
	d.w.Engine.After(lasts, nil, "settings restored", func() {
		p.settings.ActivityTimeout = usual
		p.configure()
	})
}

func (d *deed) maintain() {
	p := d.node
	p.settings.Maintenance = true
	d.configure(p)
	d.w.Engine.After(d.lasts(), nil, "maintenance over", func() {
		p.settings.Maintenance = false
		p.configure()
	})
}
