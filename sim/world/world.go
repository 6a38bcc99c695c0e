package world

import (
	"fmt"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/mix"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// start is when every run begins.
// root is the prefix of all keys of the store.
const root = "couchrelay"

const start instant.Time = 1_800_000_000_000_000

// World is everything that acts in one run of the simulator. Its methods are called by one goroutine at a
// time.
type World struct {
	Config  Config
	Engine  *engine.Engine
	Decider *decide.Decider
	Faults  Tally

	db         *fakefdb.Database
	store      *jobstore.Store
	storeWorld *storeWorld
	net        *network
	nodes      []*Node
	users      *users
	follows    *followings
	asks       asks
	observers  []func(Fact)
	healed     bool
	// clocksWereSet is true once a fault has set a clock of a node, or has kept one from going on.
	clocksWereSet bool

	// OnNemesis, when not nil, is called for every fault that the nemesis has done.
	OnNemesis func(NemesisTurn)
}

// Tally counts how often each fault could have come up, and how often it did.
type Tally struct {
	Fired   map[string]uint64  // how often it came up, by name
	reached map[string]*uint64 // how often it could have
}

// chance is a fault that can come up, with the count of how often it could have.
type chance struct {
	name    string
	reached *uint64
}

// chances returns the faults with these names.
func (t *Tally) chances(names []string) []chance {
	all := make([]chance, len(names))
	for i, name := range names {
		if t.reached[name] == nil {
			t.reached[name] = new(uint64)
		}
		all[i] = chance{name, t.reached[name]}
	}
	return all
}

// Reached returns how often each fault could have come up.
func (t Tally) Reached() map[string]uint64 {
	all := map[string]uint64{}
	for name, n := range t.reached {
		all[name] = *n
	}
	return all
}

// hit counts a fault that came up.
func (t *Tally) hit(name string) { t.Fired[name]++ }

// New builds a world.
func New(c Config, d *decide.Decider) *World {
	w := &World{Config: c, Decider: d, Engine: engine.New(start),
		Faults: Tally{map[string]uint64{}, map[string]*uint64{}}}
	w.asks = asks{current: map[any]Asked{}, committing: map[uint64]Asked{}}
	w.storeWorld = newStoreWorld(w)
	w.db = fakefdb.New(fakefdb.InWorld(w.storeWorld), fakefdb.OnCommit(w.landed),
		fakefdb.OnMisread(sparing{w}.rows(), func(m fakefdb.Misreading) { tellMisread(w, m) }))
	rc := jobstore.DefaultConfig(repid.Server{UUID: "5eb63bbbe01eeed093cb22bb8f5acdc3", HostName: "sim", Port: 5984})
	rc.Backoff, rc.TransientMaxAge = c.Backoff, c.TransientMaxAge
	rc.Sharing, rc.DuplicatesWait = c.Sharing, !c.DuplicatesFail
	rc.Sharing.Follow(c.Settings.Interval, c.Settings.UsageInterval)
	if c.MaxRefused > 0 {
		rc.MaxRefused = int64(c.MaxRefused)
	}
	rc.Parse = spec.DefaultConfig()
	rc.Parse.CheckpointInterval = c.CheckpointInterval
	rc.Parse.WorkerBatchSize, rc.Parse.WorkerProcesses = c.BatchSize, c.Workers
	rc.Parse.RetriesPerRequest, rc.Parse.MaxWorkers, rc.Parse.Compression = c.Retries, c.MaxWorkers, c.Compression
	w.store = jobstore.New(tuple.Subspace(tuple.Pack(root)), rc)
	w.store.Jobs.Incarnation = 1
	w.store.Functions = tables{}
	w.net = newNetwork(w)
	w.users = newUsers(w)
	w.follows = newFollowings(w, tuple.Subspace(tuple.Pack(root)))
	w.buildServers()
	w.follows.build()
	for i := range c.Processes() {
		p := newNode(w, fmt.Sprint("n", i+1), c.rolesOf(i))
		if i <= c.Namesakes {
			p.title = "n1"
		}
		p.older = i < c.Older
		w.nodes = append(w.nodes, p)
	}
	w.Engine.Step = w.stepped
	return w
}

// rolesOf are the roles of the process with an index.
func (c *Config) rolesOf(i int) node.Roles {
	switch {
	case i < c.Nodes:
		return node.AllRoles
	case i < c.Nodes+c.FrontendOnly:
		return node.APIFrontend
	}
	return node.Replication
}

// answerLimits are the times after which a server, or a proxy in front of it, may cut an answer; 0 is never.
var answerLimits = []time.Duration{0, 0, 0, 0, 0, 10 * time.Second, 30 * time.Second, time.Minute, 20 * time.Minute}

// refusals are the statuses with which a server refuses to store logs of its sources; 0 is never.
var refusals = []int{0, 0, 0, 0, 0, 0, 0, 401, 403, 405}

// inlines are what servers make of attachments in bulk.
var inlines = []peers.Inline{0, 0, 0, 0, 0, peers.SendsStubs, peers.TooMuch, peers.WantsAll}

// gzips are what servers make of compressed requests.
var gzips = []peers.Gzip{0, 0, 0, 0, peers.NoGzip, peers.GzipAsJSON, peers.GzipBreaks, peers.GzipTooMuch}

// startsOf are the kinds of instance_start_time that servers like this one tell. One that forgets has to tell when it
// was started.
func startsOf(t *peers.Traits) []peers.Starts {
	switch {
	case t.Numeric:
		return []peers.Starts{peers.StartsOfDatabases, peers.StartOfServer, peers.NoStarts}
	case t.Clustered():
		return []peers.Starts{0, 0, 0, 0, 0, peers.NoStarts}
	}
	return nil
}

// buildServers makes the servers with their databases and first documents.
func (w *World) buildServers() {
	c := &w.Config
	d := w.Decider
	site, choppy, fussy, brittle := d.Site("setup"), d.Site("choppy"), d.Site("fussy"), d.Site("brittle")
	readOnly := d.Site("read-only")
	cutting, rewording, slow := d.Site("cutting"), d.Site("rewording"), d.Site("trickling")
	dropping, alone := d.Site("dropped polls"), d.Site("edits alone")
	inlining, packing, starting := d.Site("inlining"), d.Site("packing"), d.Site("instance starts")
	origins := &peers.Origins{Made: map[peers.Revision]uint64{},
		Wrong: func(db *peers.DB, name peers.Revision, what string) {
			w.emit(Altered{db, name, what})
		}}
	for i := range c.Servers {
		t := peers.Traits{
			Numeric: site.Chance(c.NumericServers * decide.Scale / 100), LaxLocals: site.Chance(decide.Scale / 2),
		}
		t.CutsFeeds, t.FailsInBulk, t.CutsRevs = choppy.Int(8) == 7, fussy.Int(8) == 7, brittle.Int(4) == 3
		t.Trickles, t.DropsPolls = slow.Int(8) == 7, dropping.Int(2) == 1
		t.EditsAlone = alone.Int(4) == 3
		t.Inline = inlines[inlining.Int(len(inlines))]
		t.Gzip = gzips[packing.Int(len(gzips))]
		t.RefusesLogs = refusals[readOnly.Int(len(refusals))]
		t.AnswerLimit = answerLimits[cutting.Int(len(answerLimits))]
		t.Forgets = c.Rates[ServerRestarts] > 0 && !t.Numeric // clients cannot tell that a number is used again
		if starts := startsOf(&t); len(starts) > 0 {
			t.Starts = starts[starting.Int(len(starts))]
		}
		t.LaxLocals = t.LaxLocals && t.Clustered() && t.TellsApart() // or no client could tell what a log replaces
		t.Rewords = rewording.Int(4) == 3 && t.Clustered()
		if site.Chance(c.BareServers * decide.Scale / 100) {
			t.NoBulkGet, t.NoPending, t.MaxWrite = true, true, 4
			t.NoLongPoll = site.Int(8) == 7
			t.MaxDoc = peers.ProxyLimit / 2 * site.Int(3)
		}
		s := peers.NewServer(fmt.Sprint("s", i+1), t, w.Engine.Now)
		s.Changed = func(_ string, hash uint64) { w.Engine.Note(hash) }
		s.Logged = func(db *peers.DB, id string, body []byte) { w.emit(LogWritten{db, id, body}) }
		s.Origins = origins
		w.net.add(s)
		for k := range max(1, c.Databases/2) {
			w.users.fill(s.Create(fmt.Sprint("a", k+1)))
			w.users.fill(s.Create(fmt.Sprint("b", k+1)))
		}
	}
}

// Begin starts everything: users, nodes, the nemesis and the events of the scenario. Call it once, before the
// engine runs.
func (w *World) Begin() {
	w.users.begin()
	for _, p := range w.nodes {
		p.boot()
	}
	planUpgrades(w)
	w.startNemesis()
	w.tick()
	w.planEvents()
}

// tickEvery is the time between two facts Ticked.
const tickEvery = 30 * time.Second

// tick emits Ticked after every interval.
func (w *World) tick() {
	w.Engine.After(tickEvery, nil, "watchdog", func() {
		w.emit(Ticked{})
		w.tick()
	})
}

// Heal ends the time of trouble: from now on nothing fails, and users begin nothing more.
func (w *World) Heal() {
	w.healed = true
	w.Engine.Logf("world", "healed")
	w.emit(Healed{})
	w.net.heal()
	w.storeWorld.heal()
	correctAll(w.users)
	for _, p := range w.nodes {
		p.heal()
	}
	if w.Config.controls() {
		steering{w.users}.release()
	}
}

// Hash covers everything that happened so far, and the present state of the store and the servers.
func (w *World) Hash() uint64 {
	h := mix.Pair(w.Engine.Hash(), w.db.Hash())
	for _, s := range w.net.servers {
		h = mix.Pair(h, s.Hash())
	}
	return h
}

// Close frees what a run holds. Take the hash before.
func (w *World) Close() { w.Engine.Close() }

// Elapsed returns how much virtual time has passed since the run began.
func (w *World) Elapsed() time.Duration { return w.Engine.Now().Sub(start) }

// Dump prints the state: the contents of the store, a pair on each line, and hashes of the databases.
func (w *World) Dump() []string {
	lines := strings.Split(strings.TrimSpace(w.db.Dump()), "\n")
	for _, db := range w.net.databases() {
		lines = append(lines, fmt.Sprintf("%s %016x", db, db.Hash()))
	}
	return lines
}

// Do makes something happen now, as an event of the scenario does.
func (w *World) Do(e Event) {
	n := &nemesis{w: w, site: w.Decider.Site("events")}
	n.do(e)
}

// End returns the planned end of the time of trouble.
func (w *World) End() instant.Time { return start.Add(w.Config.Duration) }
