package world

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/prng"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// refusalActions change what targets refuse. A swarm draws them by themselves.
var refusalActions = []action{
	{name: "validation-corrected", where: "a target", most: 50_000, do: correct,
		what: "a database refuses nothing any more"},
}

// Refusals are what targets refuse, and what becomes of that.
type Refusals struct {
	Denied int // the percentage of targets that refuse documents
	// RetryRefused and FailRefused are the percentages of replications with on_refusal retry and fail. Where there
	// are any, targets refuse more documents, and users correct their validation functions.
	RetryRefused, FailRefused int
	MaxRefused                int // documents in the list of a job; 0 is jobstore.MaxRefused
	Unreadable                int // the percentage of targets that cannot read some documents, and answer 400
}

// choosesOnRefusal reports whether some replications say what becomes of documents that their target refuses.
func (c *Refusals) choosesOnRefusal() bool { return c.RetryRefused+c.FailRefused > 0 }

// drawRefusals has one world of three be as those are that choose. In some of them the lists of jobs are short.
func (c *Config) drawRefusals(seed uint64) {
	r := prng.Fork(seed, "refusals")
	if r.Intn(3) > 0 {
		return
	}
	c.Denied, c.RetryRefused, c.FailRefused = 20+20*r.Intn(4), 10+10*r.Intn(7), 10*r.Intn(4)
	if r.Intn(3) == 0 {
		c.MaxRefused = 1 + r.Intn(8)
	}
	for _, a := range refusalActions {
		if r.Intn(2) == 1 {
			c.Actions[a.name] = 1 + r.Intn(a.most)
		}
	}
}

// drawUnreadable has targets of some worlds be unable to read documents, more often where users choose what becomes
// of these.
func drawUnreadable(c *Config, seed uint64) {
	r := prng.Fork(seed, "unreadable")
	if n := r.Intn(8); n == 0 || n < 4 && c.choosesOnRefusal() {
		c.Unreadable = 20 + 20*r.Intn(4)
	}
}

// illegible has a database be unable to read some documents, as CouchDB is if they have half of a surrogate pair.
func illegible(u *users, db *peers.DB) {
	if !u.unreadable.Chance(u.w.Config.Unreadable * decide.Scale / 100) {
		return
	}
	for i := range 12 {
		if id := fmt.Sprint("doc", i); u.unreadable.Int(6) == 0 && db.Deny[id] == nil {
			db.Deny[id] = docs.BadRequest("invalid UTF-8 JSON")
		}
	}
}

// answer400 has a proxy before a server answer 400, without a word, to requests with a document for a while.
func answer400(d *deed) {
	lasts, _ := d.beginAtServer(d.lasts())
	id := fmt.Sprint("doc", d.site.Int(6))
	for _, db := range d.server.DBs() {
		if isSource(db.Name) || db.Deny[id] != nil {
			continue
		}
		said := &docs.Error{Kind: docs.Invalid}
		db.Deny[id] = said
		d.w.Engine.After(lasts, nil, "proxy passes all", func() {
			if db.Deny[id] == said {
				delete(db.Deny, id)
			}
		})
	}
}

// denyMore has a database refuse some documents more.
func denyMore(db *peers.DB, site *decide.Site) {
	for i := range 12 {
		id := fmt.Sprint("doc", i)
		if i > 8 {
			id = fmt.Sprint("burst", i)
		}
		if site.Int(3) == 0 && db.Deny[id] == nil {
			db.Deny[id] = docs.Forbidden("not now")
		}
	}
}

// correct has a user correct the validation function of a target.
func correct(u *users, site *decide.Site) {
	var strict []*peers.DB
	for _, db := range u.w.net.databases() {
		if !isSource(db.Name) && len(db.Deny) > 0 {
			strict = append(strict, db)
		}
	}
	if len(strict) > 0 {
		allow(u.w, strict[site.Int(len(strict))])
	}
}

// correctAll has no database refuse a document any more, where users choose what becomes of refused ones, or some are
// tried again whatever they choose. Nothing fails meanwhile, so that a while later shows how refused documents are
// tried in vain.
func correctAll(u *users) {
	limits := func(s *peers.Server) bool { return s.MaxDoc == peers.ProxyLimit }
	proxied := slices.ContainsFunc(u.w.net.servers, limits)
	if !u.w.Config.choosesOnRefusal() && u.w.Config.Unreadable == 0 && !proxied {
		return
	}
	wait := time.Duration(u.refuses.Int(3)) * 40 * time.Minute
	u.w.Engine.After(wait, nil, "corrected", func() {
		u.corrected = true
		for _, db := range u.w.net.databases() {
			allow(u.w, db)
		}
		for _, s := range u.w.net.servers {
			s.MaxDoc = 0
		}
	})
}

// allow has a database take all documents from now on.
func allow(w *World, db *peers.DB) {
	w.Engine.Logf(db.String(), "takes all documents")
	for id := range db.Deny { // in any order
		if id != peers.Logs {
			delete(db.Deny, id)
		}
	}
}
