package world

import (
	"fmt"
	"reflect"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
	"couchrelay/sim/peers"
)

func (d *deed) partition() {
	p, s := d.node, d.w.net.servers[d.site.Int(len(d.w.net.servers))]
	lasts := d.lasts()
	d.w.Engine.Logf(p.Name, "does not reach %s for %s", s.Name, lasts)
	d.tell(p.Name, "does not reach "+s.Name, lasts)
	d.w.net.cut(p, s, lasts)
}

func deafen(d *deed) {
	p, s := d.node, d.w.net.servers[d.site.Int(len(d.w.net.servers))]
	lasts := d.lasts()
	d.w.Engine.Logf(p.Name, "hears nothing of %s for %s", s.Name, lasts)
	d.tell(p.Name, "hears nothing of "+s.Name, lasts)
	d.w.net.deafen(p, s, lasts)
}

// bandwidths of lines are in bytes a second: from one that is hardly felt to one that takes seconds for a document.
var bandwidths = []int{64 << 10, 4 << 10, 512, 64}

func narrow(d *deed) {
	p, s := d.node, d.w.net.servers[d.site.Int(len(d.w.net.servers))]
	rate, lasts := bandwidths[d.site.Int(len(bandwidths))], d.lasts()
	text := fmt.Sprintf("%d bytes a second from and to %s", rate, s.Name)
	d.w.Engine.Logf(p.Name, "%s for %s", text, lasts)
	d.tell(p.Name, text, lasts)
	d.w.net.narrow(p, s, rate, lasts)
}

func repeatAnswers(d *deed) {
	lasts := d.lasts()
	d.w.Engine.Logf(d.node.Name, "is answered twice for %s", lasts)
	d.tell(d.node.Name, "", lasts)
	d.w.net.twiceUntil[d.node] = d.w.Engine.Now().Add(lasts)
}

func (d *deed) isolate() {
	p, lasts := d.node, d.lasts()
	d.w.Engine.Logf(p.Name, "does not reach the store for %s", lasts)
	d.tell(p.Name, "does not reach the store", lasts)
	p.isolatedUntil, p.untilGivenUp = d.w.Engine.Now().Add(lasts), d.site.Int(2) == 1
}

func (d *deed) swizzle() {
	for _, s := range d.w.net.servers {
		p := d.w.nodes[d.site.Int(len(d.w.nodes))]
		begin, lasts := d.site.Duration(0, time.Minute), d.site.Duration(10*time.Second, 2*time.Minute)
		d.w.Engine.After(begin, nil, "swizzle", func() {
			d.tell(p.Name, "does not reach "+s.Name, lasts)
			d.w.net.cut(p, s, lasts)
		})
	}
}

func (d *deed) serverDown() {
	lasts, _ := d.beginAtServer(d.lasts())
	d.w.net.trouble(d.server, nil, &peer.Failure{Kind: peer.Unreachable}, lasts)
}

func (d *deed) serverSlow() {
	lasts, _ := d.beginAtServer(d.lasts())
	d.w.net.slow(d.server, lasts)
}

func silenceFeeds(d *deed) {
	lasts, _ := d.beginAtServer(d.lasts())
	d.w.net.states[d.server].silent = d.w.Engine.Now().Add(lasts)
}

func (d *deed) serverThrottles() {
	kind := someRequests(d)
	lasts, retryAfter := d.beginAtServer(d.lasts())
	throttle(d, kind, retryAfter, lasts)
}

// overload has a server ask for more quiet than a request waits for, or say nothing but 429 for long.
func overload(d *deed) {
	kind := someRequests(d)
	retryAfter := [...]time.Duration{0, 5 * time.Second, 40 * time.Second, 5 * time.Minute}[d.site.Int(4)]
	lasts, _ := d.beginAtServer(d.lasts())
	throttle(d, kind, retryAfter, lasts)
}

// someRequests draws the kind of requests that a fault is about; nil for all.
func someRequests(d *deed) reflect.Type {
	if d.site.Int(2) == 0 {
		return nil
	}
	return reflect.TypeOf(allOps[d.site.Int(len(allOps))])
}

func throttle(d *deed, kind reflect.Type, retryAfter, lasts time.Duration) {
	refusal := &peer.Failure{Kind: peer.Status, Status: 429, Error: "too_many_requests", RetryAfter: retryAfter}
	d.w.net.trouble(d.server, kind, refusal, lasts)
}

// redirectRequests has a server, or what is in front of it, redirect as servers do that have moved, that want TLS, or
// that have a page for those who are not logged in.
func redirectRequests(d *deed) {
	r := redirect{
		peers.Redirect{
			Status: []int{301, 302, 307, 308}[d.site.Int(4)],
			To:     []peers.Whither{peers.Elsewhere, peers.InCircle, peers.Nowhere}[d.site.Int(3)],
		},
		[]string{"", "GET", "POST", "PUT"}[d.site.Int(4)],
	}
	lasts, _ := d.beginAtServer(d.lasts())
	st := d.w.net.states[d.server]
	st.redirects, st.moved = r, d.w.Engine.Now().Add(lasts)
}

// refuseLogs takes the right to write to sources from replications.
func refuseLogs(d *deed) {
	lasts, _ := d.beginAtServer(d.lasts())
	for _, db := range d.server.DBs() {
		if !isSource(db.Name) || db.Deny[peers.Logs] != nil {
			continue
		}
		db.Deny[peers.Logs] = docs.Forbidden("read only")
		d.w.Engine.After(lasts, nil, "checkpoints taken again", func() { delete(db.Deny, peers.Logs) })
	}
}

func (d *deed) serverLocksOut() {
	lasts, _ := d.beginAtServer(d.lasts())
	d.w.net.trouble(d.server, nil, &peer.Failure{Kind: peer.Status, Status: 401, Error: "unauthorized"}, lasts)
}

func (d *deed) serverBreaks() {
	d.beginAtServer(d.site.Duration(serverTrouble(0)))
	d.w.net.hangup(d.server)
}

func (d *deed) serverRestarts() {
	d.beginAtServer(d.site.Duration(serverTrouble(0)))
	d.w.net.hangup(d.server)
	for _, db := range d.server.DBs() {
		if isSource(db.Name) {
			db.Sync() // users do not return before their writes are durable
		}
		db.Restart()
	}
}

// beginAtServer says that a fault of a server begins. All faults of servers draw a time and a Retry-After.
// Some have no use for them, but without the questions a seed would get other answers to the ones that
// follow.
func (d *deed) beginAtServer(lasts time.Duration) (_, retryAfter time.Duration) {
	retryAfter = time.Duration(d.site.Int(2)) * 5 * time.Second
	d.w.Engine.Logf(d.server.Name, "%s for %s", d.fault.name, lasts)
	d.tell(d.server.Name, "", lasts)
	return lasts, retryAfter
}
