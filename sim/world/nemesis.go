package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// nemesis does faults that come by themselves, rather than with a request or an operation of the store.
type nemesis struct {
	w     *World
	site  *decide.Site
	table *decide.Table
}

// NemesisSite is where the nemesis asks what to do.
const NemesisSite = "nemesis"

// NemesisTurn is a turn in which the nemesis did a fault: the event, with what the decider chose, and the
// questions [From, To) of NemesisSite that decided it.
type NemesisTurn struct {
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
			name := n.site.Pick(n.table)
			if name == "" {
				continue
			}
			if did := n.do(Event{What: name}); w.OnNemesis != nil {
				w.OnNemesis(NemesisTurn{did, from, n.site.Asked()})
			}
		}
	})
}

// planEvents plans the events of the scenario.
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

// do does a fault, or an action of users, and returns the event with what the decider chose and the present
// time.
func (n *nemesis) do(e Event) Event {
	n.w.Faults.hit(e.What)
	e.At = n.w.Elapsed()
	f := faultNamed(e.What)
	if f == nil {
		n.w.users.act(e.What, n.site)
		return e
	}
	d := &deed{nemesis: n, fault: f, asked: e, did: e}
	if d.aim() {
		f.do(d)
	}
	return d.did
}

// deed is a fault while the nemesis does it. The decider is asked for the target first, and then for what the
// fault needs, in the fault's own order. These orders must stay as they are: the answers of a seed depend on
// them.
type deed struct {
	*nemesis
	fault  *fault
	asked  Event // as the scenario has it
	did    Event // with what the decider chose so far
	node   *Node // this and the next two are the target: at most one of them is not nil
	server *peers.Server
	db     *peers.DB
}

// aim finds the target that the event names, or chooses one. It reports whether the fault has what it needs.
func (d *deed) aim() bool {
	switch d.fault.target {
	case aNode:
		d.node = d.chooseNode()
	case aServer:
		d.server = d.chooseServer()
	case aDatabase:
		if d.db = d.chooseDB(); d.db == nil {
			return false
		}
		d.w.Engine.Logf(d.db.String(), "%s", d.fault.name)
	}
	return true
}

func (d *deed) chooseNode() *Node {
	for _, p := range d.w.nodes {
		if p.Name == d.asked.Whom {
			return p
		}
	}
	p := d.w.nodes[d.site.Int(len(d.w.nodes))]
	d.did.Whom = p.Name
	return p
}

func (d *deed) chooseServer() *peers.Server {
	if s := d.w.net.Server(d.asked.Whom); s != nil {
		return s
	}
	s := d.w.net.servers[d.site.Int(len(d.w.net.servers))]
	d.did.Whom = s.Name
	return s
}

// chooseDB finds the database that the event names as SERVER/DB, or any. It is nil when there is none.
func (d *deed) chooseDB() *peers.DB {
	if server, name, ok := strings.Cut(d.asked.Whom, "/"); ok {
		return d.w.net.find(fmt.Sprintf("http://%s/%s/", server, name))
	}
	all := d.w.net.databases()
	if len(all) == 0 {
		return nil
	}
	db := all[d.site.Int(len(all))]
	d.did.Whom = db.String()
	return db
}

// lasts is how long the fault lasts: what the event says, or what the decider draws now.
func (d *deed) lasts() time.Duration {
	if d.asked.For > 0 {
		return d.asked.For
	}
	timeout := d.w.Config.Settings.ActivityTimeout
	if d.node != nil {
		timeout = d.node.settings.ActivityTimeout
	}
	d.did.For = d.site.Duration(d.fault.span(timeout))
	return d.did.For
}

// tell tells observers that the fault hits a node, a server, a database or the store.
func (d *deed) tell(whom, text string, lasts time.Duration) {
	d.w.emit(FaultHit{d.fault.name, whom, text, lasts})
}

// configure gives a node its settings, at once or when jobs are on their way to it.
func (n *nemesis) configure(p *Node) {
	if p.changing = n.site.Int(2) == 1; !p.changing {
		p.configure()
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

// replicates reports whether a run is under way whose checkpoints have this id.
func (w *World) replicates(base string) bool {
	for _, p := range w.nodes {
		if slices.ContainsFunc(p.runs, func(r *Run) bool { return r.Base() == base }) {
			return true
		}
	}
	return false
}

// Remake deletes a target and makes it again. Where an instance_start_time tells, it may get the log of its run, which
// comes late once more.
func Remake(w *World, db *peers.DB) *peers.DB {
	made := w.remake(db)
	made.TakeLogs(db, func(string) bool { return db.Server.LaxLocals })
	return made
}

// remake deletes a database and makes it again.
func (w *World) remake(db *peers.DB) *peers.DB {
	db.Server.Delete(db.Name)
	made := db.Server.Create(db.Name)
	w.users.fill(made)
	return made
}
