package world

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/sim/decide"
)

// forkActions are those of users whose replication documents were written on two sides, of which one replicates to this
// service. A swarm draws them by themselves.
var forkActions = []action{
	{name: "job-forked", where: "a frontend", most: 100_000, do: forkJob,
		what: "a replication document gets a leaf that wins or loses, or one of its leaves is edited or deleted"},
}

// drawForks has one world of four be one whose documents have conflicts.
func (c *Config) drawForks(seed uint64) {
	if r := prng.Fork(seed, "forks"); r.Intn(4) == 0 {
		for _, a := range forkActions {
			c.Actions[a.name] = 1 + r.Intn(a.most)
		}
	}
}

// mostForks is how many leaves a document gets.
const mostForks = 5

// Forked reports whether a document has, or had, conflicts. What its users know of it does not tell what it is.
func (j *JobDoc) Forked() bool { return j.forked }

// forkJob writes a leaf of a document, or over one.
func forkJob(u *users, site *decide.Site) {
	j, p := anyAside(u, site), u.frontend(site)
	if j == nil || p == nil || j.busy || j.tenant.busy {
		return
	}
	j.busy, j.forked = true, true
	f := &forking{u: u, j: j, token: uint64(u.next()), body: j.body}
	switch site.Int(4) {
	case 0:
		f.body = spoilt(j.body, site)
	case 1, 2:
		f.body = u.newBody(site)
	}
	u.w.emit(DocumentForked{j.JobID()})
	f.begun = &Write{JobID: j.JobID(), Token: f.token, At: u.w.Engine.Now()}
	u.w.emit(WriteBegins{f.begun})
	u.w.Engine.Go(p.Process, "api", func() {
		defer func() { j.busy = false }()
		err := kv.Do(u.w.Engine.NewContext(p.Process, RequestLimit), u.w.db, f.write)
		u.w.Engine.Logf("users", "forked %s/%s as %d, %s: %v", j.tenant.name, j.id, f.token, f.begun.Sent, err)
	})
}

// forking is a write beside the winner of a document, or over a leaf.
type forking struct {
	u     *users
	j     *JobDoc
	token uint64
	body  map[string]any
	begun *Write
	edit  *docs.Edit // as soon as the leaves were read; all attempts are the same
}

// write is one attempt.
func (f *forking) write(tx kv.Tx) error {
	w := f.u.w
	db, err := w.store.Docs.Open(tx, f.j.tenant.name)
	if err != nil {
		return err
	}
	if f.edit == nil {
		opened, err := db.OpenRevs([]docs.Wanted{{ID: f.j.id}}, true)
		if err != nil {
			return err
		}
		if f.choose(leavesIn(opened[0])); f.edit == nil {
			return docs.ErrMissing
		}
	}
	edit := *f.edit
	by := admin
	if edit.Replicated {
		by = jobstore.Writer{}
	}
	written, err := w.store.WriteDocs(tx, db, []docs.Edit{edit}, by, w.Engine.Now())
	if err == nil && written[0].Err != nil {
		return written[0].Err
	}
	return err
}

// choose decides what is written, by the leaves that there are.
func (f *forking) choose(leaves []*docs.Document) {
	if len(leaves) == 0 || leaves[0].Deleted {
		return
	}
	site := f.u.orders
	leaf := leaves[site.Int(len(leaves))]
	switch what := site.Int(5); {
	case what < 3 && len(leaves) < mostForks:
		f.begun.Brought = true
		e := beside(leaves[0], site.Int(4)-1, site, int(f.token))
		f.send(e, map[string]any{"owner": nil})
	case leaf.Deleted:
	case what == 3:
		f.body = nil
		fallthrough
	default:
		f.begun.Over = leaf.Rev.String()
		if f.body != nil {
			f.body = f.j.body // what can be replicated
		}
		e := docs.Edit{Document: docs.Document{ID: f.j.id, Rev: leaf.Rev}, Token: f.token}
		f.send(e, nil)
	}
}

// send makes the document that is sent.
func (f *forking) send(e docs.Edit, more map[string]any) {
	sent := maps.Clone(f.body)
	if f.body == nil {
		sent = map[string]any{"_deleted": true}
	} else {
		sign(f.u.w, sent)
		sent["user_ctx"] = map[string]any{"name": UserOf(f.j.id)}
	}
	maps.Copy(sent, more)
	sent["_id"], sent["n"] = f.j.id, f.token
	raw, err := json.Marshal(sent)
	if err != nil {
		panic(err)
	}
	doc, err := docs.ParseDocument(raw, docs.ReplicationMembers...)
	if err != nil {
		panic(err)
	}
	doc.Rev, doc.Ancestors = e.Rev, e.Ancestors
	e.Document = *doc
	f.begun.Sent, f.edit = raw, &e
}

// leavesIn are the leaves of a document, the winner first.
func leavesIn(opened []docs.Opened) (leaves []*docs.Document) {
	for _, o := range opened {
		leaves = append(leaves, o.Doc)
	}
	byRank(leaves)
	return leaves
}

// byRank sorts leaves, the winner first: what is not deleted wins, then what has the longer history, then the greater
// name.
func byRank(leaves []*docs.Document) {
	alive := func(d *docs.Document) int {
		if d.Deleted {
			return 0
		}
		return 1
	}
	slices.SortFunc(leaves, func(a, b *docs.Document) int {
		return -cmp.Or(cmp.Compare(alive(a), alive(b)), cmp.Compare(a.Rev.Gen, b.Rev.Gen),
			cmp.Compare(a.Rev.ID, b.Rev.ID))
	})
}

// beside is a revision of the other side that has a history of its own since the winner's parent, so many generations
// longer than the winner's. n tells it from others.
func beside(winner *docs.Document, deeper int, site *decide.Site, n int) docs.Edit {
	e := docs.Edit{Replicated: true, Document: docs.Document{ID: winner.ID, Ancestors: winner.Ancestors}}
	e.Rev = revtree.Rev{Gen: winner.Rev.Gen + int64(deeper), ID: fmt.Sprintf("%x%031x", site.Int(16), n)}
	if deeper < 0 && len(winner.Ancestors) > 0 {
		e.Ancestors = winner.Ancestors[1:]
	} else if deeper < 0 {
		e.Rev.Gen = winner.Rev.Gen
	}
	for i := range deeper {
		e.Ancestors = slices.Insert(slices.Clone(e.Ancestors), 0, fmt.Sprintf("%x%031x", i, n))
	}
	return e
}

// DocumentForked is a document of which somebody is about to write another leaf than the winner. ID is that of its job.
type DocumentForked struct{ ID string }

func (DocumentForked) fact() {}
