package world

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/spec"
	"couchrelay/sim/decide"
	"couchrelay/sim/engine"
	"couchrelay/sim/peers"
)

// allOps has one operation of each kind.
var allOps = []peer.Op{peer.Open{}, peer.Create{}, peer.GetLocal{}, peer.PutLocal{}, peer.GetFilter{},
	peer.ReadChanges{}, peer.DiffRevs{},
	peer.FetchDocs{}, peer.WriteDocs{}, peer.CopyDoc{}, peer.Commit{}, peer.CountPending{}, peer.FindRev{},
	peer.ReadNewest{}, peer.ReadDocs{}, peer.EditDocs{}}

// network is between the processes and the servers.
type network struct {
	w       *World
	servers []*peers.Server
	kinds   map[reflect.Type]*opFaults
	links   map[linkKey]*link
	states  map[*peers.Server]*serverState
	snares  map[*peers.DB]snare
	purges  map[*peers.DB]bool // lose the next document that is asked for
	torn    *decide.Site
	// twiceUntil is until when answers reach a node twice, and again the site for when the second one comes.
	twiceUntil map[*Node]instant.Time
	again      *decide.Site
}

// opFaults are the faults that requests of one kind can have.
type opFaults struct {
	name   string
	faults []chance
	table  *decide.Table
}

type linkKey struct {
	p *engine.Process
	s *peers.Server
}

// link is the way between a process and a server.
type link struct {
	sites map[string]*decide.Site
	// cutUntil is until when nothing gets through to the server, and deafUntil until when nothing comes back.
	cutUntil, deafUntil instant.Time
	line                line
	narrowUntil         instant.Time
}

// serverState is what is wrong with a server at the moment.
type serverState struct {
	until     instant.Time
	slow      instant.Time // until when its answers take seconds
	silent    instant.Time // until when its feeds stay open and send nothing
	moved     instant.Time // until when it redirects requests
	redirects redirect
	refusal   *peer.Failure
	refuses   reflect.Type // requests of this kind only; nil for all

	passwords int // that it had before the present one
}

// redirect is the answer of a server to requests with a method; to all without one.
type redirect struct {
	peers.Redirect
	method string
}

func newNetwork(w *World) *network {
	n := &network{w: w, kinds: map[reflect.Type]*opFaults{}, links: map[linkKey]*link{},
		states: map[*peers.Server]*serverState{}, snares: map[*peers.DB]snare{},
		purges: map[*peers.DB]bool{}, torn: w.Decider.Site("torn"),
		twiceUntil: map[*Node]instant.Time{}, again: w.Decider.Site("again")}
	for _, op := range allOps {
		k := &opFaults{name: reflect.TypeOf(op).Name()}
		var names []string
		for _, f := range peers.RequestFaults(op) {
			if w.Config.Rates[f] > 0 {
				names = append(names, f)
			}
		}
		k.faults, k.table = w.Faults.chances(names), w.Config.table(names)
		n.kinds[reflect.TypeOf(op)] = k
	}
	return n
}

func (n *network) add(s *peers.Server) {
	n.servers = append(n.servers, s)
	n.states[s] = &serverState{}
}

func (n *network) heal() {
	for _, k := range n.kinds {
		k.faults, k.table = nil, &decide.Table{}
	}
	for _, l := range n.links {
		l.cutUntil, l.deafUntil = 0, 0
	}
	for _, s := range n.servers {
		n.states[s].until, n.states[s].slow, n.states[s].silent = 0, 0, 0
		n.states[s].moved = 0
		for _, db := range s.DBs() {
			if isFollowed(db.Name) && n.w.follows.wrecks.Int(2) == 1 {
				peers.Wreck(db)
			} else {
				peers.Repair(db)
			}
		}
		for _, p := range n.w.nodes {
			n.link(p.Process, s).line.setRate(0)
		}
	}
	clear(n.snares)
	clear(n.purges)
	clear(n.twiceUntil)
}

// Server is peers.Network's.
func (n *network) Server(name string) *peers.Server {
	for _, s := range n.servers {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (n *network) link(p *engine.Process, s *peers.Server) *link {
	key := linkKey{p, s}
	l := n.links[key]
	if l == nil {
		l = &link{sites: map[string]*decide.Site{}, line: line{engine: n.w.Engine}}
		n.links[key] = l
	}
	return l
}

func (n *network) site(p *engine.Process, s *peers.Server, what string) *decide.Site {
	l := n.link(p, s)
	site := l.sites[what]
	if site == nil {
		site = n.w.Decider.Site(fmt.Sprintf("%s>%s/%s", p, s.Name, what))
		l.sites[what] = site
	}
	return site
}

// Fate is peers.Network's.
func (n *network) Fate(p *engine.Process, s *peers.Server, op peer.Op) (peers.Fault, time.Duration, time.Duration) {
	k := n.kinds[reflect.TypeOf(op)]
	for _, f := range k.faults {
		*f.reached++
	}
	fault := n.site(p, s, k.name).Pick(k.table)
	most := n.w.Config.NetLatency
	there, back := n.site(p, s, "there").Duration(most/10, most), most/10
	if fault != "" {
		n.w.Faults.hit(fault)
		n.w.Engine.Logf(p.Name, "~ %s of %s to %s", fault, k.name, s.Name)
		n.w.emit(FaultHit{Name: string(fault), Whom: p.Name, Text: k.name + " to " + s.Name})
	}
	if fault == peers.Slow || n.states[s].slow > n.w.Engine.Now() {
		slow := n.site(p, s, "slow")
		there, back = slow.Duration(time.Second, 20*time.Second), slow.Duration(time.Second, 9*time.Second)
	}
	return fault, there, back
}

// Cut is peers.Network's.
func (n *network) Cut(p *engine.Process, s *peers.Server) bool {
	return n.link(p, s).cutUntil > n.w.Engine.Now()
}

// Deaf is peers.Network's.
func (n *network) Deaf(p *engine.Process, s *peers.Server) bool {
	return n.link(p, s).deafUntil > n.w.Engine.Now()
}

// Carry is peers.Network's.
func (n *network) Carry(ctx context.Context, p *engine.Process, s *peers.Server, bytes int) error {
	return n.link(p, s).line.carry(ctx, bytes)
}

// Narrow is peers.Network's.
func (n *network) Narrow(p *engine.Process, s *peers.Server) bool { return n.link(p, s).line.rate > 0 }

// Arrives is peers.Network's.
func (n *network) Arrives(s *peers.Server, database string, op peer.Op, by spec.Credentials) *peer.Failure {
	kind := reflect.TypeOf(op)
	if st := n.states[s]; st.until > n.w.Engine.Now() && (st.refuses == nil || st.refuses == kind) {
		return st.refusal
	}
	if refusal := n.locksOut(s, by); refusal != nil {
		return refusal
	}
	db := s.DB(database)
	if put, is := op.(peer.PutLocal); is && n.snares[db] != nil && n.snares[db](put) {
		n.w.Engine.Logf(db.String(), "made again")
		n.w.remake(db)
	}
	if n.purges[db] {
		n.purgeAsked(db, op)
	}
	return nil
}

// snare reports whether a database is deleted and made again at the moment when such a log comes.
type snare func(peer.PutLocal) bool

func anyLog(peer.PutLocal) bool { return true }

func hasCheckpoint(op peer.PutLocal) bool {
	log, err := checkpoint.Parse(op.Body)
	return err != nil || !log.Empty()
}

// Redirect is peers.Network's.
func (n *network) Redirect(s *peers.Server, method string) *peers.Redirect {
	st := n.states[s]
	if st.moved <= n.w.Engine.Now() || st.redirects.method != "" && st.redirects.method != method {
		return nil
	}
	return &st.redirects.Redirect
}

// Silent is peers.Network's.
func (n *network) Silent(s *peers.Server) bool { return n.states[s].silent > n.w.Engine.Now() }

// Wished is peers.Network's.
func (n *network) Wished(p *engine.Process, key ratelimit.Key, until instant.Time) {
	n.w.emit(Wished{n.w.nodeOf(p), key, until})
}

// Welcomed is peers.Network's.
func (n *network) Welcomed(p *engine.Process, key ratelimit.Key) {
	n.w.emit(Welcomed{n.w.nodeOf(p), key})
}

// Withheld is peers.Network's.
func (n *network) Withheld(p *engine.Process, key ratelimit.Key, wait time.Duration) {
	n.w.emit(Withheld{n.w.nodeOf(p), key, wait})
}

// Sends is peers.Network's.
func (n *network) Sends(p *engine.Process, key ratelimit.Key, asked instant.Time, held time.Duration) {
	n.w.emit(Sends{n.w.nodeOf(p), key, asked, held})
}

// Refused is peers.Network's.
func (n *network) Refused(url, id, rev string) {
	if db := n.find(url); db != nil {
		n.w.emit(Refused{db, id, rev})
	}
}

// Torn is peers.Network's: users change what is hard to read.
func (n *network) Torn(db *peers.DB, id string) {
	if isSource(db.Name) && !n.w.healed && !strings.HasPrefix(id, "_design/") && n.torn.Int(2) == 1 {
		n.w.users.edit(db, id, n.torn)
	}
}

// cut separates a process and a server for d.
func (n *network) cut(p *Node, s *peers.Server, d time.Duration) {
	l := n.link(p.Process, s)
	l.cutUntil = max(l.cutUntil, n.w.Engine.Now().Add(d))
	n.deafen(p, s, d)
}

// deafen has no answer of a server get through to a process for d; connections that wait notice it in a while.
func (n *network) deafen(p *Node, s *peers.Server, d time.Duration) {
	l := n.link(p.Process, s)
	l.deafUntil = max(l.deafUntil, n.w.Engine.Now().Add(d))
	n.w.Engine.After(30*time.Second, nil, "connection lost", func() {
		for _, db := range s.DBs() {
			db.Hangup(p.Process, &peer.Failure{Kind: peer.TimedOut})
		}
	})
}

// narrow has the line between a process and a server carry no more than rate bytes in a second for d.
func (n *network) narrow(p *Node, s *peers.Server, rate int, d time.Duration) {
	l := n.link(p.Process, s)
	until := n.w.Engine.Now().Add(d)
	l.narrowUntil = until
	l.line.setRate(rate)
	n.w.Engine.After(d, nil, "line wide", func() {
		if l.narrowUntil == until {
			l.line.setRate(0)
		}
	})
}

// trouble makes a server refuse all requests of a kind for d, all kinds without one.
func (n *network) trouble(s *peers.Server, kind reflect.Type, refusal *peer.Failure, d time.Duration) {
	st := n.states[s]
	st.until, st.refuses, st.refusal = n.w.Engine.Now().Add(d), kind, refusal
	n.hangup(s)
}

// slow makes a server take seconds for every answer.
func (n *network) slow(s *peers.Server, d time.Duration) {
	n.states[s].slow = n.w.Engine.Now().Add(d)
}

// hangup breaks the connections that wait for a server.
func (n *network) hangup(s *peers.Server) {
	for _, db := range s.DBs() {
		db.Hangup(nil, &peer.Failure{Kind: peer.Broken})
	}
}

// databases are all databases, in order, but those with replication documents that are followed.
func (n *network) databases() []*peers.DB {
	var all []*peers.DB
	for _, s := range n.servers {
		for _, db := range s.DBs() {
			if !isFollowed(db.Name) {
				all = append(all, db)
			}
		}
	}
	return all
}

// find is the database of a URL; nil when it does not exist.
func (n *network) find(url string) *peers.DB {
	server, name := peers.Find(url)
	if s := n.Server(server); s != nil {
		return s.DB(name)
	}
	return nil
}
