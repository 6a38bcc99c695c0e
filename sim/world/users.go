package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/sim/decide"
	"couchrelay/sim/peers"
)

// users write documents in the source databases, and make, change and remove replications through the
// nodes' frontends.
type users struct {
	w       *World
	site    *decide.Site
	touch   *decide.Site // whether a document is written as it was read
	query   *decide.Site // what a filter function is told
	refuses *decide.Site // what targets refuse, and what becomes of it
	acts    *decide.Site // which action comes next; apart, since it is not asked when there are none
	table   *decide.Table
	faults  []chance
	tenants []*Tenant
	jobs    []*JobDoc // replication documents that were ever tried, in order
	came    []*arrival
	n       int          // things made so far, for names and tokens
	latest  instant.Time // of a request or an order; see moment

	asked    []map[string]any // bodies of requests
	requests []string         // ids of their jobs, as far as known
	sharing  bool             // an operator is putting other settings in force
	// releasing is while pauses and holds are ended after the healing.
	releasing bool
	corrected bool // no database that is made from now on refuses documents
	aside
}

// aside are the questions about jobs that came later, each at a site of its own.
type aside struct {
	slips     *decide.Site // what documents have that they should not
	weights   *decide.Site // of jobs
	tags      *decide.Site // of replication documents
	looks     *decide.Site // who looks at what became of jobs, when and where
	orders    *decide.Site // what users order some time after they began
	endpoints *decide.Site // how endpoints are worded
	// passwords is when users write that they have changed, and where.
	passwords  *decide.Site
	unreadable *decide.Site // which documents targets cannot read
}

// Tenant is a replicator database, as the world knows it.
type Tenant struct {
	name     string
	instance tuple.UUID
	busy     bool // being deleted or made again
}

// JobDoc is a replication document as its user knows it.
type JobDoc struct {
	tenant *Tenant
	id     string
	body   map[string]any
	before map[string]any // the body before the last edit of options; nil if there was none
	// busy is while a write is under way; unknown when the last write may have happened or not.
	busy, unknown bool
	present       bool
	words         [2]wording // of its source and target
	forked        bool       // it has, or had, conflicts
	// keeps is that the next write has what the replicator wrote, as that of a user who changes what was
	// read.
	keeps bool
}

func newUsers(w *World) *users {
	u := &users{w: w, site: w.Decider.Site("users"), acts: w.Decider.Site("actions"), touch: w.Decider.Site("touch"),
		query: w.Decider.Site("query"), table: &decide.Table{}}
	u.refuses = w.Decider.Site("refusals")
	u.slips, u.weights, u.tags = w.Decider.Site("slips"), w.Decider.Site("weights"), w.Decider.Site("tags")
	u.looks, u.passwords = w.Decider.Site("looks"), w.Decider.Site("passwords")
	u.orders, u.endpoints = w.Decider.Site("orders"), w.Decider.Site("endpoints")
	u.unreadable = w.Decider.Site("unreadable")
	var names []string
	for _, name := range AllActions {
		if rate := w.Config.Actions[name]; rate > 0 {
			names = append(names, name)
			u.table.Add(name, rate)
		}
	}
	u.faults = w.Faults.chances(names)
	for i := range w.Config.Tenants {
		u.tenants = append(u.tenants, &Tenant{name: replicatorDB(i)})
	}
	return u
}

// begin makes the replicator databases and the first documents, before there is any trouble, and starts
// to act.
func (u *users) begin() {
	u.w.Engine.Go(nil, "users", func() {
		u.w.storeWorld.undisturbed = true
		if c := u.w.store.Config.Sharing; len(c.Shares) > 0 {
			u.w.emit(SharingAsked{})
			putInForce(u.w, c, u.w.Engine.Now())
		}
		u.untilDone(func(tx kv.Tx) error { return makeStore(u.w, tx) })
		if u.w.Config.Older > 0 {
			u.untilDone(func(tx kv.Tx) error { return makeOlderStore(u.w, tx) })
		}
		for _, t := range u.tenants {
			u.create(t)
		}
		u.w.follows.begin()
		for range u.w.Config.Jobs {
			u.w.storeWorld.undisturbed = true
			j := u.newJob(u.newBody(u.site), u.site)
			looking{u}.follow(j.JobID(), j)
			_, err := u.put(context.Background(), j, j.body)
			j.unknown = err != nil
		}
		u.w.storeWorld.undisturbed = false
		startReaders(u)
		for !u.w.healed {
			_ = u.w.Engine.Sleep(context.Background(), u.site.Duration(u.w.Config.Think/20, u.w.Config.Think))
			for _, f := range u.faults {
				*f.reached++
			}
			if what := u.acts.Pick(u.table); what != "" && !u.w.healed {
				u.w.Faults.hit(what)
				u.act(what, u.site)
			}
		}
	})
}

func (u *users) next() int { u.n++; return u.n }

// URL is the address of a database.
func URL(server, db string) string { return "http://" + server + "/" + db + "/" }

// isSource says whether users write into a database of this name; others are written by replications
// only.
func isSource(name string) bool { return strings.HasPrefix(name, "a") }

// pick chooses a database of all servers.
func (u *users) pick(site *decide.Site, source bool) string {
	c := &u.w.Config
	server := u.w.net.servers[site.Int(len(u.w.net.servers))].Name
	kind := "b"
	if source && site.Int(5) < 4 {
		kind = "a"
	}
	return URL(server, fmt.Sprint(kind, 1+site.Int(max(1, c.Databases/2))))
}

// longURL makes a record of 0.7 MB: a record has a proxy's URL twice, and an & as six bytes.
var longURL = "http://proxy/" + strings.Repeat("&", 60_000)

// newBody makes up a replication.
func (u *users) newBody(site *decide.Site) map[string]any {
	c := &u.w.Config
	percent := func(share int) bool { return site.Chance(share * decide.Scale / 100) }
	source := u.pick(site, true)
	target := u.pick(site, false)
	if target == source {
		target = strings.Replace(target, "/b", "/bb", 1)
	}
	body := map[string]any{"source": source, "target": target, "create_target": true}
	if percent(c.Continuous) {
		body["continuous"] = true
	}
	if c.LongURLs > 0 && percent(c.LongURLs) {
		body["proxy"] = longURL
	}
	if percent(c.Filtered) {
		choose(u, body, site)
	}
	if len(c.Actions) > 0 { // where users do nothing else, all jobs are alike
		weigh(body, u.weights)
	}
	if c.choosesOnRefusal() {
		switch n := u.refuses.Int(100); {
		case n < c.RetryRefused:
			body["on_refusal"] = "retry"
		case n < c.RetryRefused+c.FailRefused:
			body["on_refusal"] = "fail"
		}
	}
	switch site.Int(8) {
	case 1:
		body["use_bulk_get"] = false
	case 2:
		body["worker_batch_size"] = 1 + site.Int(5)
	case 3:
		body["use_checkpoints"] = false
	case 5:
		if db := u.w.net.find(source); db != nil {
			body["since_seq"] = json.RawMessage(db.Last())
		}
	case 4:
		if u.w.net.find(target) != nil {
			delete(body, "create_target")
		}
	case 6:
		body["create_target_params"] = map[string]any{"q": 2}
	}
	return body
}

// choose has a replication select documents, in one way.
func choose(u *users, body map[string]any, site *decide.Site) {
	switch site.Int(4) {
	case 0:
		n := site.Int(3 * peers.Forms)
		body["selector"] = peers.Selector(n/3, n%3)
	case 1:
		body["filter"] = "f/pass"
		if n := u.query.Int(6); n > 2 {
			body["query_params"] = peers.Query(n % 3)
		}
	case 2:
		body["doc_ids"] = []string{"doc1", "doc3", "none"}
	case 3:
		body["winning_revs_only"] = true
	}
}

// weigh gives a replication a weight, or none.
func weigh(body map[string]any, site *decide.Site) {
	some := []int{0, 0, 0, 100, 10, 200, 500, 1000, 1}
	if w := some[site.Int(len(some))]; w > 0 {
		body["weight"] = w
	} else {
		delete(body, "weight")
	}
}

// newJob makes up a document for a replication.
func (u *users) newJob(body map[string]any, site *decide.Site) *JobDoc {
	j := &JobDoc{tenant: u.tenants[site.Int(len(u.tenants))], id: fmt.Sprintf("r%d", u.next()), body: body}
	for i := range j.words {
		j.words[i] = u.w.Config.wordEndpoint(u.endpoints)
	}
	u.jobs = append(u.jobs, j)
	return j
}

// write writes or deletes a document through a frontend.
func (u *users) write(j *JobDoc, site *decide.Site, remove bool) {
	p := u.frontend(site)
	if p == nil || j.busy || j.tenant.busy {
		return
	}
	j.busy = true
	body := j.body
	if reword(u, j); remove {
		body = nil
	}
	looking{u}.follow(j.JobID(), j)
	u.w.Engine.Go(p.Process, "api", func() {
		// A frontend that dies in the middle leaves its user in doubt.
		defer func() { j.busy = false }()
		doubted := j.unknown
		j.unknown = true
		changed, err := u.put(u.w.Engine.NewContext(p.Process, RequestLimit), j, body)
		switch {
		case err == nil && !changed: // there is nothing to delete, and a write before may still happen
			j.unknown, j.present = doubted, false
		case err == nil:
			j.unknown, j.present = false, body != nil
		case isRefusal(err):
			j.unknown = doubted
		}
	})
}

// frontend is a process that answers users, nil when all are down.
func (u *users) frontend(site *decide.Site) *Node {
	var up []*Node
	for _, p := range u.w.nodes {
		if p.alive && !p.draining && p.roles.Has(node.APIFrontend) {
			up = append(up, p)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[site.Int(len(up))]
}

// moment is the time of a request or an order. No two have the same, as no two readings of a clock: a frontend that
// stood still has many of them at once, and the store tells orders apart by their times.
func moment(ctx context.Context, u *users) instant.Time {
	now := u.w.Engine.Now()
	at := max(now, u.latest+1)
	if u.latest = at; at > now {
		_ = u.w.Engine.Sleep(ctx, at.Sub(now)) // if it ends early, so does what is to be done
	}
	return at
}

// UserOf is in whose name a document replicates.
func UserOf(id string) string { return "user of " + id }

// put writes a replication document, or deletes it when there is no body. It reports whether that changed anything.
func (u *users) put(ctx context.Context, j *JobDoc, body map[string]any) (changed bool, err error) {
	token, now := uint64(u.next()), u.w.Engine.Now()
	wanted := map[string]any{"_id": j.id, "n": token}
	for name, v := range body { // into another map: order does not matter
		wanted[name] = v
	}
	if body == nil {
		wanted["_deleted"] = true
	} else {
		sign(u.w, wanted)
		j.word(wanted)
		wanted["user_ctx"] = map[string]any{"name": UserOf(j.id)}
	}
	keeps := j.keeps
	if j.keeps = false; body != nil && !keeps {
		slip(u.slips, wanted)
	}
	if body != nil && !u.w.storeWorld.undisturbed {
		tag(u, wanted)
	}
	begun := &Write{JobID: j.JobID(), Token: token, At: now}
	u.w.emit(WriteBegins{begun})
	var seen *docs.Document // what the user saw before writing
	err = kv.Do(ctx, u.w.db, func(tx kv.Tx) error {
		db, err := u.w.store.Docs.Open(tx, j.tenant.name)
		if err != nil {
			return err
		}
		if seen == nil {
			if seen, err = db.Read(j.id, docs.Want{Deleted: true}); isRefusal(err) {
				seen = &docs.Document{Deleted: true}
			} else if err != nil {
				return err
			}
			if begun.Seen = tokenOf(seen); keeps {
				keep(wanted, seen)
			}
		}
		raw, err := json.Marshal(wanted)
		if err != nil {
			panic(err)
		}
		begun.Sent = raw
		doc, err := docs.ParseDocument(raw, docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		switch {
		case !seen.Deleted:
			doc.Rev, begun.Over = seen.Rev, seen.Rev.String()
		case doc.Deleted:
			return nil
		}
		written, err := u.w.store.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: token}}, admin, now)
		if err == nil && written[0].Err != nil {
			return written[0].Err
		}
		return err
	})
	u.w.Engine.Logf("users", "wrote %s/%s as %d, present %v: %v", j.tenant.name, j.id, token, body != nil, err)
	if err == nil {
		u.w.emit(DocumentWritten{j, token, body != nil})
	} else if isRefusal(err) {
		u.w.emit(WriteRefused{j, token, err})
	}
	return body != nil || seen != nil && !seen.Deleted, err
}

// slip adds what documents should not have: a misspelled field, or the marks of another server's replicator.
func slip(site *decide.Site, wanted map[string]any) {
	slips := []map[string]any{
		{"continous": true}, {"prioritty": 5, "tagret": "http://s1/b1/"},
		{"_replication_state": "triggered", "_replication_state_time": "2013-05-01", "_replication_id": "0123"},
		{"_replication_state": "error", "_replication_state_reason": "why", "_replication_stats": map[string]any{}},
		{"_replication_id": "0123"},
	}
	if n := site.Int(2 * len(slips)); n < len(slips) {
		maps.Copy(wanted, slips[n])
	}
}

// keep adds what the replicator wrote into a document.
func keep(wanted map[string]any, seen *docs.Document) {
	var members map[string]any
	if seen.Deleted || json.Unmarshal(seen.Body, &members) != nil {
		return
	}
	for _, name := range docs.ReplicationMembers {
		if v, has := members[name]; has {
			wanted[name] = v
		}
	}
}

// tokenOf is the token of the write that made a revision; 0 if a user's order did.
func tokenOf(d *docs.Document) uint64 {
	var body struct {
		N uint64 `json:"n"`
	}
	_ = json.Unmarshal(d.Body, &body) // there is no body where there was no document
	return body.N
}

// isRefusal reports whether an error is an answer to the user, and not a failure of the store.
func isRefusal(err error) bool {
	_, is := errors.AsType[*docs.Error](err)
	return is
}

// create makes a replicator database.
func (u *users) create(t *Tenant) {
	n := u.next()
	t.instance = tuple.UUID{7, byte(n >> 8), byte(n)}
	u.untilDone(func(tx kv.Tx) error { return u.w.store.Docs.Create(tx, t.name, t.instance, u.w.Engine.Now()) })
}

// untilDone tries a transaction until it commits for certain.
func (u *users) untilDone(f func(kv.Tx) error) {
	for kv.Do(context.Background(), u.w.db, f) != nil {
		_ = u.w.Engine.Sleep(context.Background(), time.Second)
	}
}

// recreate deletes a replicator database, and makes it again, often with the documents that it had.
func (u *users) recreate(t *Tenant, site *decide.Site) {
	p := u.frontend(site)
	for _, j := range u.jobs {
		if j.tenant == t && j.busy {
			return
		}
	}
	if p == nil || t.busy {
		return
	}
	t.busy = true
	old, again := t.instance, site.Int(2) == 1
	u.w.Engine.Go(nil, "drop tenant", func() { // an operator who tries until it is done
		u.w.emit(DropBegins{old})
		u.untilDone(func(tx kv.Tx) error {
			u.w.store.Drop(tx, old)
			return u.w.store.Docs.Delete(tx, t.name, old)
		})
		u.w.Engine.Logf("users", "dropped %s", t.name)
		u.w.emit(DatabaseDropped{t})
		var had []*JobDoc
		for _, j := range u.jobs {
			if j.tenant == t && j.present {
				had = append(had, j)
			}
			if j.tenant == t {
				j.present, j.unknown = false, false
			}
		}
		u.create(t)
		for _, j := range had {
			if again {
				_, err := u.put(context.Background(), j, j.body)
				j.unknown = err != nil
				j.present = !j.unknown
			}
		}
		t.busy = false
	})
}

// NewDocument is a replication document of the first replicator database, which is not written yet.
func (w *World) NewDocument(id string, body map[string]any) *JobDoc {
	return &JobDoc{tenant: w.users.tenants[0], id: id, body: body}
}

// WriteNow writes a replication document, or deletes it, in a transaction in which nothing fails and which
// takes no time.
func (w *World) WriteNow(j *JobDoc, present bool) error {
	body := j.body
	if !present {
		body = nil
	}
	w.storeWorld.undisturbed = true
	defer func() { w.storeWorld.undisturbed = false }()
	_, err := w.users.put(context.Background(), j, body)
	w.stepped() // no event has brought this about
	return err
}

// NextToken is a number that nothing else has, for a write.
func (w *World) NextToken() uint64 { return uint64(w.users.next()) }
