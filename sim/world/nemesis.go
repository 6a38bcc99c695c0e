package world

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"couchrelay/core/peer"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// nemesis breaks things that last: the store, processes, servers, databases.
type nemesis struct {
	w     *World
	site  *decide.Site
	table *decide.Table
	// now is what is being done, as far as it is known.
	now Happening
}

// NemesisSite is where the nemesis asks what to do.
const NemesisSite = "nemesis"

// Happening is something that the nemesis did, with the questions [From, To) of NemesisSite that decided it.
type Happening struct {
	Event
	From, To int
}

// startNemesis gives the nemesis its turns, until the time of trouble is over.
func (w *World) startNemesis() {
	n := &nemesis{w: w, site: w.Decider.Site(NemesisSite)}
	var names []string
	for _, name := range NemesisFaults {
		if w.Config.Rates[name] > 0 {
			names = append(names, name)
		}
	}
	n.table = w.Config.table(names)
	if len(names) == 0 && !w.Decider.Scripted() {
		return
	}
	faults := w.Faults.chances(names)
	w.Engine.Go(nil, "nemesis", func() {
		for w.Engine.Sleep(context.Background(), NemesisTick) == nil && !w.healed {
			for _, f := range faults {
				*f.reached++
			}
			from := n.site.Asked()
			if fault := n.site.Pick(n.table); fault != "" {
				n.do(Event{What: fault})
				n.happened(from)
			}
		}
	})
}

// happened tells what was just done.
func (n *nemesis) happened(from int) {
	n.now.From, n.now.To = from, n.site.Asked()
	if !slices.Contains(lasting, n.now.What) {
		n.now.For = 0
	}
	if n.w.Happened != nil {
		n.w.Happened(n.now)
	}
}

// planEvents plans what the scenario wants at fixed times.
func (w *World) planEvents() {
	n := &nemesis{w: w, site: w.Decider.Site("events")}
	for _, e := range w.Config.Events {
		w.Engine.After(e.At, nil, e.What, func() {
			if !w.healed {
				n.do(e)
			}
		})
	}
}

// do makes something happen.
func (n *nemesis) do(e Event) {
	n.w.Faults.hit(e.What)
	n.now = Happening{Event: e}
	n.now.At = n.w.Elapsed()
	switch family, _, _ := strings.Cut(e.What, "-"); family {
	case "node":
		n.process(e)
	case "db", "filter":
		n.database(e)
	case "server":
		n.server(e)
	case "net", "fdb":
		n.network(e)
	default:
		n.w.users.act(e.What, n.site)
	}
}

// lasts is how long something lasts.
func (n *nemesis) lasts(e Event, least, most time.Duration) time.Duration {
	if e.For > 0 {
		return e.For
	}
	n.now.For = n.site.Duration(least, most)
	return n.now.For
}

func (n *nemesis) chooseProcess(e Event) *Node {
	for _, p := range n.w.nodes {
		if p.Name == e.Whom {
			return p
		}
	}
	p := n.w.nodes[n.site.Int(len(n.w.nodes))]
	n.now.Whom = p.Name
	return p
}

func (n *nemesis) chooseServer(e Event) *peers.Server {
	if s := n.w.net.Server(e.Whom); s != nil {
		return s
	}
	s := n.w.net.servers[n.site.Int(len(n.w.net.servers))]
	n.now.Whom = s.Name
	return s
}

// configure tells a node its settings, at once or while jobs are on their way to it.
func (n *nemesis) configure(p *Node) {
	if p.changing = n.site.Int(2) == 1; !p.changing {
		p.configure()
	}
}

func (n *nemesis) process(e Event) {
	w := n.w
	if e.What == NodeStorm {
		for _, p := range w.nodes {
			n.kill(p, n.lasts(e, time.Second, 10*time.Second))
		}
		return
	}
	p := n.chooseProcess(e)
	timeout := p.settings.ActivityTimeout
	switch e.What {
	case NodeCrash:
		n.kill(p, n.lasts(e, time.Second, 2*timeout))
	case NodePause:
		p.pause(e.What, n.lasts(e, time.Second, 3*timeout))
	case NodeSuspend:
		p.suspend(n.lasts(e, time.Second, 3*timeout))
		p.tillGone = n.site.Int(2) == 1
	case NodeStall:
		p.stalls, p.stallsBefore = n.lasts(e, timeout/2, 2*timeout), n.site.Int(2) == 1
	case NodeDrain:
		p.drain()
	case NodeSkew:
		p.skew = n.site.Duration(0, 4*time.Minute) - 2*time.Minute
		w.Engine.Logf(p.Name, "clock off by %s", p.skew)
		w.emit(Fault{e.What, p.Name, fmt.Sprintf("clock off by %s from now on", p.skew), 0})
	case NodeJump:
		before := p.skew
		p.skew = n.site.Duration(0, 2*time.Hour) - time.Hour
		w.Engine.Logf(p.Name, "clock jumps by %s", p.skew)
		d := n.lasts(e, time.Second, time.Minute)
		w.emit(Fault{e.What, p.Name, fmt.Sprintf("clock jumps by %s", p.skew), d})
		w.Engine.After(d, nil, "clock set right", func() { p.skew = before })
	case NodeOtherSpeed:
		s := w.Config.Settings
		s.ActivityTimeout = time.Duration(1+n.site.Int(3)) * s.ActivityTimeout / 2
		s.Interval, s.MaxJobs = s.Interval*2, 1+n.site.Int(2*s.MaxJobs+1)
		p.settings = s
		w.emit(Fault{e.What, p.Name, fmt.Sprintf("max_jobs %d, activity timeout %s", s.MaxJobs, s.ActivityTimeout), 0})
		n.kill(p, time.Second)
	case NodeMaintenance:
		p.settings.Maintenance = true
		n.configure(p)
		w.Engine.After(n.lasts(e, 10*time.Second, 5*time.Minute), nil, "maintenance over", func() {
			p.settings.Maintenance = false
			p.configure()
		})
	case NodeTimeout:
		p.settings.ActivityTimeout = time.Duration(1+n.site.Int(5)) * w.Config.Settings.ActivityTimeout / 4
		n.configure(p)
		d := n.lasts(e, time.Minute, 5*time.Minute)
		w.emit(Fault{e.What, p.Name, fmt.Sprintf("activity timeout %s", p.settings.ActivityTimeout), d})
		w.Engine.After(d, nil, "settings restored", func() {
			p.settings.ActivityTimeout = w.Config.Settings.ActivityTimeout
			p.configure()
		})
	case NodeMaxJobs:
		p.settings.MaxJobs = n.site.Int(2*w.Config.Settings.MaxJobs + 1)
		n.configure(p)
		d := n.lasts(e, time.Minute, 5*time.Minute)
		w.emit(Fault{e.What, p.Name, fmt.Sprintf("max_jobs %d", p.settings.MaxJobs), d})
		w.Engine.After(d, nil, "settings restored", func() {
			p.settings.MaxJobs = w.Config.Settings.MaxJobs
			p.configure()
		})
	}
}

// kill crashes a process and starts it again after a while.
func (n *nemesis) kill(p *Node, d time.Duration) {
	p.crash()
	n.w.Engine.After(d, nil, "start", func() {
		if !p.alive {
			p.boot()
		}
	})
}

func (n *nemesis) server(e Event) {
	s := n.chooseServer(e)
	longest := 3 * time.Minute
	var kind reflect.Type
	if e.What == ServerThrottles {
		longest = 5 * time.Minute // longer than a run is patient
		if n.site.Int(2) == 1 {
			kind = reflect.TypeOf(allOps[n.site.Int(len(allOps))])
		}
	}
	d := n.lasts(e, 5*time.Second, longest)
	refusals := map[string]*peer.Failure{
		ServerDown:      {Kind: peer.Unreachable},
		ServerThrottles: {Kind: peer.Status, Status: 429, Error: "too_many_requests", RetryAfter: time.Duration(n.site.Int(2)) * 5 * time.Second},
		ServerLocksOut:  {Kind: peer.Status, Status: 401, Error: "unauthorized"},
	}
	n.w.Engine.Logf(s.Name, "%s for %s", e.What, d)
	n.w.emit(Fault{e.What, s.Name, "", d})
	if e.What == ServerBreaks {
		n.w.net.hangup(s)
		return
	}
	if e.What == ServerRestarts {
		n.w.net.hangup(s)
		for _, db := range s.DBs() {
			if isSource(db.Name) {
				db.Sync() // users do not return before their writes are durable
			}
			db.Restart()
		}
		return
	}
	if e.What == ServerSlow {
		n.w.net.slow(s, d)
		return
	}
	n.w.net.trouble(s, kind, refusals[e.What], d)
}

func (n *nemesis) network(e Event) {
	w := n.w
	switch e.What {
	case StoreDown:
		d := n.lasts(e, time.Second, max(2*time.Minute, w.Config.Settings.ActivityTimeout))
		w.Engine.Logf("store", "down for %s", d)
		w.emit(Fault{e.What, "store", "", d})
		w.around.downUntil = max(w.around.downUntil, w.Engine.Now().Add(d))
	case NetIsolated:
		p := n.chooseProcess(e)
		d := n.lasts(e, time.Second, max(2*time.Minute, 2*p.settings.ActivityTimeout))
		w.Engine.Logf(p.Name, "does not reach the store for %s", d)
		w.emit(Fault{e.What, p.Name, "does not reach the store", d})
		p.isolated, p.tillGone = w.Engine.Now().Add(d), n.site.Int(2) == 1
	case NetPartition:
		p, s := n.chooseProcess(e), w.net.servers[n.site.Int(len(w.net.servers))]
		d := n.lasts(e, time.Second, 5*time.Minute)
		w.Engine.Logf(p.Name, "does not reach %s for %s", s.Name, d)
		w.emit(Fault{e.What, p.Name, "does not reach " + s.Name, d})
		w.net.cut(p, s, d)
	case NetSwizzle:
		for _, s := range w.net.servers {
			p := w.nodes[n.site.Int(len(w.nodes))]
			begin, d := n.site.Duration(0, time.Minute), n.site.Duration(10*time.Second, 2*time.Minute)
			w.Engine.After(begin, nil, "swizzle", func() {
				w.emit(Fault{e.What, p.Name, "does not reach " + s.Name, d})
				w.net.cut(p, s, d)
			})
		}
	}
}

func (n *nemesis) database(e Event) {
	w := n.w
	db := n.chooseDB(e)
	if db == nil {
		return
	}
	s, name := db.Server, db.Name
	w.Engine.Logf(db.String(), "%s", e.What)
	switch e.What {
	case DBRecreated, DBLateLogs:
		w.emit(Fault{e.What, db.String(), "", 0})
		made := w.remake(db)
		if e.What == DBLateLogs {
			made.TakeLogs(db, func(id string) bool { // a run that goes on waits for its answer, and looks
				return !w.replicates(id)
			})
		}
	case DBSnared:
		w.emit(Fault{e.What, db.String(), "", 0})
		w.net.snares[db] = true
	case DBDeleted:
		s.Delete(name)
		d := n.lasts(e, time.Second, 3*time.Minute)
		w.emit(Fault{e.What, db.String(), "", d})
		w.Engine.After(d, nil, "db made again", func() {
			if s.DB(name) == nil {
				w.users.fill(s.Create(name))
			}
		})
	case DBRestored:
		// Nobody can tell a number that is used again from the one before; and a target that loses what
		// was not checkpointed yet is beyond what the protocol can see.
		if db.Server.Numeric || !isSource(name) {
			return
		}
		backup := db.Snapshot()
		d := n.lasts(e, 5*time.Second, 2*time.Minute)
		w.emit(Fault{e.What, db.String(), "put back at the end to what it was at the beginning", d})
		w.Engine.After(d, nil, "db restored", func() {
			if s.DB(name) == db && !w.healed {
				db.Restore(backup)
				w.Engine.Logf(db.String(), "restored")
			}
		})
	case FilterEdit:
		w.emit(Fault{e.What, db.String(), "", 0})
		w.users.editFilter(db)
	}
}

// replicates reports whether a run is under way whose checkpoints have this id.
func (w *World) replicates(base string) bool {
	for _, p := range w.nodes {
		if slices.ContainsFunc(p.runs, func(r *Run) bool { return r.Base() == base }) {
			return true
		}
	}
	return false
}

// remake deletes a database and makes it again.
func (w *World) remake(db *peers.DB) *peers.DB {
	db.Server.Delete(db.Name)
	made := db.Server.Create(db.Name)
	w.users.fill(made)
	return made
}

// chooseDB finds the database that an event names as SERVER/DB, or any.
func (n *nemesis) chooseDB(e Event) *peers.DB {
	if server, name, ok := strings.Cut(e.Whom, "/"); ok {
		return n.w.net.find(fmt.Sprintf("http://%s/%s/", server, name))
	}
	all := n.w.net.databases()
	if len(all) == 0 {
		return nil
	}
	db := all[n.site.Int(len(all))]
	n.now.Whom = db.String()
	return db
}
