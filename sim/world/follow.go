package world

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/docs"
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
	w     *World
	site  *decide.Site
	store *follow.Store
	list  []*Following
	n     int // written so far
}

// Following is a followed database.
type Following struct {
	follow.Database
	server *peers.Server
	tenant *Tenant // the mirror
	// Docs is what users wrote into documents last, by their ids; nil for deleted ones.
	Docs map[string]*FollowedDoc
}

// FollowedDoc is a document as its user wrote it last.
type FollowedDoc struct {
	Body    []byte // with the member n, which is another one in each edit; nil if it is deleted
	Valid   bool   // it asks for a replication
	Design  bool   // it is a design document
	Written int    // how often users wrote it, in all databases that had the name
	At      instant.Time
}

// DB is the database as it is now, nil while there is none.
func (f *Following) DB() *peers.DB { return f.server.DB(f.Name) }

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
	if w.Config.Followed > 0 {
		f.site = w.Decider.Site("followed")
	}
	return f
}

// build makes the databases at their servers.
func (f *followings) build() {
	for i := range f.w.Config.Followed {
		s := f.w.net.servers[i%len(f.w.net.servers)]
		d := follow.Database{Section: s.Name, Name: fmt.Sprint("r", i+1)}
		d.URL = URL(s.Name, d.Name)
		one := &Following{Database: d, server: s, Docs: map[string]*FollowedDoc{}}
		one.tenant = &Tenant{name: d.ID(), instance: tuple.UUID{8, byte(i)}}
		f.list = append(f.list, one)
		f.fill(one)
	}
}

// fill makes a followed database with a design document.
func (f *followings) fill(one *Following) {
	one.server.Create(one.Name)
	for _, d := range one.Docs {
		d.Body = nil
	}
	f.put(one, "_design/x", &FollowedDoc{Body: []byte(`{"n":0}`), Design: true})
}

// databases is the configuration of all nodes.
func (f *followings) databases() (list []follow.Database, instances []tuple.UUID, ids []string) {
	for _, one := range f.list {
		list, instances, ids = append(list, one.Database), append(instances, one.tenant.instance), append(ids, one.ID())
	}
	return list, instances, ids
}

// begin makes the mirrors, as the first node does that starts, and has users act.
func (f *followings) begin() {
	if len(f.list) == 0 {
		return
	}
	list, instances, _ := f.databases()
	f.w.users.untilDone(func(tx kv.Tx) error {
		_, _, err := follow.Follow(tx, f.store, list, instances, f.w.Engine.Now())
		return err
	})
	f.w.Engine.Go(nil, "users of followed databases", func() {
		for !f.w.healed {
			_ = f.w.Engine.Sleep(context.Background(), f.site.Duration(f.w.Config.Think/10, f.w.Config.Think/2))
			if !f.w.healed {
				f.act(f.list[f.site.Int(len(f.list))])
			}
		}
		for _, one := range f.list {
			if one.DB() == nil {
				f.fill(one)
			}
		}
	})
}

// act has a user do something to a document.
func (f *followings) act(one *Following) {
	if one.DB() == nil {
		f.fill(one)
		return
	}
	id := fmt.Sprint("f", 1+f.site.Int(5))
	d := one.Docs[id]
	switch what := f.site.Int(12); {
	case what == 11:
		f.w.Engine.Logf(one.DB().String(), "deleted")
		one.server.Delete(one.Name)
		if f.site.Int(2) == 1 {
			f.fill(one)
		}
	case d == nil || d.Body == nil || what < 5:
		f.put(one, id, f.newBody(id))
	case what < 7:
		f.put(one, id, &FollowedDoc{})
	default: // it is written as before, without a state
		f.put(one, id, d)
	}
}

// newBody makes up a document.
func (f *followings) newBody(id string) *FollowedDoc {
	u := f.w.users
	body := map[string]any{"source": u.pick(f.site, true), "continuous": f.site.Int(3) == 0}
	d := &FollowedDoc{Valid: f.site.Int(6) > 0}
	if d.Valid {
		target := u.pick(f.site, false)
		if target == body["source"] {
			target = strings.Replace(target, "/b", "/bb", 1)
		}
		body["target"], body["create_target"] = target, true
	}
	f.n++
	body["n"], body["user_ctx"] = f.n, map[string]any{"name": UserOf(id)}
	d.Body, _ = json.Marshal(body)
	return d
}

// put writes a document as its user does, at once.
func (f *followings) put(one *Following, id string, d *FollowedDoc) {
	e := docs.Edit{Document: docs.Document{ID: id, Body: d.Body, Deleted: d.Body == nil}}
	if e.Deleted {
		e.Body = []byte("{}")
	}
	if latest := one.DB().Latest(id); latest != nil && !latest.Deleted {
		e.Rev = latest.Rev
	} else if e.Deleted {
		return
	}
	written := one.DB().Write([]docs.Edit{e})[0]
	one.DB().Sync() // what users wrote is theirs to lose
	f.w.Engine.Logf(one.DB().String(), "user wrote %s %s as %s: %v", id, e.Body, written.Rev, written.Err)
	if written.Err == nil {
		is := *d
		if old := one.Docs[id]; old != nil {
			is.Written = old.Written
		}
		is.Written, is.At = is.Written+1, f.w.Engine.Now()
		one.Docs[id] = &is
	}
}

// follower drives a node's machine that follows databases, as the production runtime does.
type follower struct {
	p      *Node
	worker string
	m      *follow.Worker
	runs   map[uint64]*peers.Pair
	of     map[uint64]*Following
	calls  map[[2]uint64]*engine.Context // by run and id
	wakeAt instant.Time
}

// bootFollower starts the machine of a node that runs jobs.
func (p *Node) bootFollower() {
	f := p.w.follows
	if len(f.list) == 0 || !p.roles.Has(node.Replication) {
		return
	}
	c := follow.Config{Worker: p.worker, Exclusive: p.w.Config.Exclusive(), Seed: f.site.Seed64()}
	p.follower = &follower{
		p: p, worker: p.worker, m: follow.New(c), runs: map[uint64]*peers.Pair{}, of: map[uint64]*Following{},
		calls: map[[2]uint64]*engine.Context{}, wakeAt: instant.Never,
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
		case follow.Close:
			delete(f.runs, e.Run)
			delete(f.of, e.Run)
		}
	}
	f.planWake()
}

func (f *follower) open(e follow.Open) {
	p := f.p
	at := spec.Endpoint{URL: e.Job.URL}
	rep := &spec.Replication{Source: at, Target: at, WinningRevsOnly: true}
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
	p.w.Engine.Go(p.Process, "follow call", func() {
		reply := pair.Do(ctx, c.ID, c.Op)
		if delete(f.calls, key); ctx.Err() == nil {
			p.w.Engine.After(0, p.Process, "follow reply", func() {
				f.handle(follow.Reply{Run: c.Run, ID: c.ID, Reply: reply})
			})
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
	answer := follow.Answer{ID: a.ID, Result: result, Outcome: follow.OutcomeOf(err)}
	if err != nil {
		answer.Text = err.Error()
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

// drawFollowed has one world of four follow databases.
func (c *Config) drawFollowed(seed uint64) {
	if r := prng.Fork(seed, "followed"); r.Intn(4) == 0 {
		c.Followed = 1 + r.Intn(2)
	}
}
