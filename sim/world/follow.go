package world

import (
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/follow"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/prng"
	"couchrelay/core/spec"
	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
	"couchrelay/sim/peers"
)

// followings are the databases with replication documents that the nodes follow, and their users.
type followings struct {
	w      *World
	site   *decide.Site
	slips  *decide.Site // what documents have that they should not
	forks  *decide.Site // which conflicts they have
	owners *decide.Site // whether a user gives a document away
	parts  *decide.Site // which documents a database lacks that was made again
	gifts  *decide.Site // whether a user gives a document away, also in a database that was put back
	wrecks *decide.Site // whether documents that cannot be read stay so when all other trouble is over
	store  *follow.Store
	list   []*Following
	n      int // written so far
}

// Following is a followed database.
type Following struct {
	follow.Database
	server *peers.Server
	tenant *Tenant // the mirror
	// Docs is what users wrote into documents last, by their ids; nil for deleted ones.
	Docs map[string]*FollowedDoc
	// restored reports whether the database was put back to a backup. From then on its users write nothing as it
	// was: a database that has a lost revision again counts as never put back.
	restored bool
	// hidden are documents that a backup has, and that a reader of the feed does not find in it once it was put back,
	// unless the database is then behind the change that has the number goal.
	hidden []string
	goal   int64
	first  map[firstWrite]instant.Time
	wrote  map[firstWrite]*FollowedDoc
	// Forked are the documents that have, or had, more than one leaf.
	Forked map[string]bool
}

// firstWrite is a revision of a document, which users may write several times, into databases made anew.
type firstWrite struct {
	id  string
	rev revtree.Rev
}

// FollowedDoc is a document as its user wrote it last.
type FollowedDoc struct {
	Body    []byte // with the member n, which is another one in each edit; nil if it is deleted
	Valid   bool   // it asks for a replication
	Design  bool   // it is a design document
	State   string // that its user wrote into it
	Written int    // how often users wrote it, in all databases that had the name
	// At is when a user first wrote its revision. One that is written once more, into a database made anew, is as old
	// as ever: in no way can it be told from what was there.
	At instant.Time
}

// DB is the database as it is now, nil while there is none.
func (f *Following) DB() *peers.DB { return f.server.DB(f.Name) }

// Unreadable reports whether the database has a document that it cannot read.
func (f *Following) Unreadable(id string) bool { return f.DB() != nil && peers.Unreadable(f.DB(), id) }

// Mirror is the replicator database that mirrors it.
func (f *Following) Mirror() *Tenant { return f.tenant }

// isFollowed reports whether a database of this name has replication documents that are followed.
func isFollowed(name string) bool { return strings.HasPrefix(name, "r") }

// Followings are the followed databases.
func (v View) Followings() []*Following { return v.w.follows.list }

// FollowStore is the format of what the store holds of them.
func (v View) FollowStore() *follow.Store { return v.w.follows.store }

func newFollowings(w *World, root tuple.Subspace) *followings {
	f := &followings{w: w, store: follow.NewStore(root, w.store)}
	if n := w.Config.FollowPage; n > 0 {
		f.store.Pages = follow.Pages{Read: n, Look: n, Send: n, Sweep: n}
	}
	if w.Config.Followed > 0 {
		f.site, f.slips = w.Decider.Site("followed"), w.Decider.Site("slips of followed documents")
		f.forks = w.Decider.Site("conflicts of followed documents")
		f.owners = w.Decider.Site("owners of followed documents")
		f.parts = w.Decider.Site("documents left out of followed databases")
		f.gifts = w.Decider.Site("followed documents given away")
		f.wrecks = w.Decider.Site("followed documents that stay damaged")
	}
	return f
}

// build makes the databases at their servers.
func (f *followings) build() {
	for i := range f.w.Config.Followed {
		s := f.w.net.servers[i%len(f.w.net.servers)]
		d := follow.Database{Section: s.Name, Name: fmt.Sprint("r", i+1)}
		d.URL = URL(s.Name, d.Name)
		one := &Following{Database: d, server: s, Docs: map[string]*FollowedDoc{}, first: map[firstWrite]instant.Time{},
			wrote: map[firstWrite]*FollowedDoc{}}
		one.tenant = &Tenant{name: d.ID(), instance: tuple.UUID{8, byte(i)}}
		f.list = append(f.list, one)
		f.fill(one)
	}
}

// fill makes a followed database with a design document.
func (f *followings) fill(one *Following) {
	one.server.Create(one.Name)
	one.server.Lags[one.Name] = map[string]*docs.Document{}
	one.Forked = map[string]bool{}
	for id, d := range one.Docs {
		gone := *d
		gone.Body, one.Docs[id] = nil, &gone
	}
	f.put(one, "_design/x", &FollowedDoc{Body: []byte(`{"n":0}`), Design: true}, false)
}

// databases is the configuration of all nodes.
func (f *followings) databases() (list []follow.Database, instances []tuple.UUID, ids []string) {
	for _, one := range f.list {
		list, instances, ids = append(list, one.Database), append(instances, one.tenant.instance), append(ids, one.ID())
	}
	return list, instances, ids
}

// follower drives a node's machine that follows databases, as the production runtime does.
type follower struct {
	p      *Node
	worker string
	m      *follow.Worker
	runs   map[uint64]*peers.Pair
	of     map[uint64]*Following
	calls  map[[2]uint64]*engine.Context // by run and id
	waits  map[uint64]*engine.Context    // by run, for changes of its mirror
	wakeAt instant.Time
}

// bootFollower starts the machine of a node that runs jobs.
func (p *Node) bootFollower() {
	f := p.w.follows
	if len(f.list) == 0 || !p.roles.Has(node.Replication) {
		return
	}
	c := follow.Config{Worker: p.worker, Exclusive: p.w.Config.Exclusive(), Seed: f.site.Seed64(), Pages: f.store.Pages}
	p.follower = &follower{
		p: p, worker: p.worker, m: follow.New(c), runs: map[uint64]*peers.Pair{}, of: map[uint64]*Following{},
		calls: map[[2]uint64]*engine.Context{}, waits: map[uint64]*engine.Context{}, wakeAt: instant.Never,
	}
	_, _, ids := f.databases()
	p.follower.handle(follow.Configure{Jobs: ids})
}

// handle tells the machine an event, unless its process is gone.
func (f *follower) handle(ev follow.Event) {
	p := f.p
	if !p.alive || p.follower != f {
		return
	}
	p.w.Engine.Logf(p.Name, "follow < %s", ev)
	for _, e := range f.m.Step(p.Steady(), ev) {
		p.w.Engine.Logf(p.Name, "follow > %s", e)
		switch e := e.(type) {
		case follow.Ask:
			p.w.Engine.Go(p.Process, "follow ask", func() { f.ask(e) })
		case follow.Open:
			f.open(e)
		case follow.Call:
			f.call(e)
		case follow.Cancel:
			if c := f.calls[[2]uint64{e.Run, e.ID}]; c != nil {
				c.Cancel()
			}
		case follow.Await:
			f.await(e)
		case follow.Close:
			f.stopAwaiting(e.Run)
			delete(f.runs, e.Run)
			delete(f.of, e.Run)
		}
	}
	f.planWake()
}

func (f *follower) open(e follow.Open) {
	p := f.p
	at := spec.Endpoint{URL: e.Job.URL}
	rep := &spec.Replication{Source: at, Target: at}
	limiter := peers.Limiter{Limiter: &p.limiter, Now: p.Steady}
	f.runs[e.Run] = peers.NewPair(p.w.Engine, p.w.net, p.Process, limiter, rep)
	i := slices.IndexFunc(p.w.follows.list, func(o *Following) bool { return o.ID() == e.Job.ID() })
	f.of[e.Run] = p.w.follows.list[i]
}

func (f *follower) call(c follow.Call) {
	p, pair := f.p, f.runs[c.Run]
	ctx := p.w.Engine.NewContext(p.Process, 0)
	key := [2]uint64{c.Run, c.ID}
	f.calls[key] = ctx
	p.w.emit(FollowCalls{p, f.worker, f.of[c.Run], c.Op})
	p.w.follows.meet(f.of[c.Run], c.Op)
	p.w.Engine.Go(p.Process, "follow call", func() {
		reply := pair.Do(ctx, c.ID, c.Op)
		if delete(f.calls, key); ctx.Err() == nil {
			p.w.Engine.After(0, p.Process, "follow reply", func() {
				f.handle(follow.Reply{Run: c.Run, ID: c.ID, Reply: reply})
			})
		}
	})
}

func (f *follower) stopAwaiting(run uint64) {
	if ctx := f.waits[run]; ctx != nil {
		ctx.Cancel()
		delete(f.waits, run)
	}
}

func (f *follower) await(a follow.Await) {
	f.stopAwaiting(a.Run)
	p := f.p
	ctx := p.w.Engine.NewContext(p.Process, AwaitLimit)
	f.waits[a.Run] = ctx
	p.w.Engine.Go(p.Process, "follow await", func() {
		watch, err := kv.Run(ctx, p.w.db, func(tx kv.Tx) (kv.Watch, error) {
			return follow.Arm(tx, p.w.follows.store, a)
		})
		if err == nil && watch != nil {
			err = watch.Wait(ctx)
		}
		if err != nil && ctx.Err() == nil { // there is no watch
			_ = p.w.Engine.Sleep(ctx, follow.Unwatched)
		}
		if f.waits[a.Run] == ctx {
			p.w.Engine.After(0, p.Process, "follow changed", func() { f.handle(follow.Changed{Run: a.Run}) })
		}
	})
}

func (f *follower) ask(a follow.Ask) {
	p := f.p
	ctx := p.w.Engine.NewContext(p.Process, RequestLimit)
	wall := p.Clock().Wall
	result, err := kv.RunWith(ctx, p.w.db, kv.Options{Tag: "follow"}, func(tx kv.Tx) (follow.Result, error) {
		return follow.Perform(tx, p.w.follows.store, a.Request, wall)
	})
	answer := follow.Answer{ID: a.ID, Result: result}
	if err != nil {
		answer = follow.Failed(a.ID, err)
	}
	p.stall(false)
	p.w.Engine.After(0, p.Process, "follow answer", func() { f.handle(answer) })
}

// planWake plans the next wake of the machine.
func (f *follower) planWake() {
	p, at := f.p, f.m.Deadline()
	if at >= f.wakeAt || at == instant.Never {
		return
	}
	f.wakeAt = at
	p.w.Engine.After(max(0, at.Sub(p.Steady())), p.Process, "follow wake", func() {
		if f.wakeAt == at {
			f.wakeAt = instant.Never
		}
		f.handle(follow.Wake{})
	})
}

// FollowCalls is an operation of a run that follows a database, before it begins.
type FollowCalls struct {
	Node   *Node
	Worker string
	Of     *Following
	Op     peer.Op
}

func (FollowCalls) fact() {}

// drawFollowed has one world of four follow databases. Half of these are short and have few other jobs; in half of
// those, duplicates fail. Their servers have more of the troubles that runs which follow can have.
func (c *Config) drawFollowed(seed uint64) {
	r := prng.Fork(seed, "followed")
	if r.Intn(4) > 0 {
		return
	}
	c.Followed = 1 + r.Intn(2)
	c.drawConflicts(seed)
	if page := prng.Fork(seed, "follow page"); page.Intn(2) == 0 {
		c.FollowPage = 1 + page.Intn(4)
	}
	if over := prng.Fork(seed, "handed over"); over.Intn(2) == 0 {
		c.HandedOver = 10 + 10*over.Intn(4)
	}
	if r.Intn(2) == 0 {
		c.Jobs, c.Duration, c.DuplicatesFail = min(c.Jobs, 2), c.Duration/4, r.Intn(2) == 0
		for _, fault := range []string{
			peers.RevMissing, peers.LeavesOut, peers.Conflict409, peers.Slow, peers.LostAfter,
		} {
			if rate := r.Intn(decide.Scale/5) - decide.Scale/10; rate > c.Rates[fault] {
				c.Rates[fault] = rate
			}
		}
	}
}
