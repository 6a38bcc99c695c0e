package world

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/sim/decide"
)

// replicatedActions are those of users who replicate a replicator database into this service. A swarm draws them by
// themselves.
var replicatedActions = []action{
	{name: "job-replicated", where: "a frontend", most: 100_000, do: replicateJob,
		what: "a replication document comes from another server as it is, valid or not, or once more"},
}

// drawWrites draws which writes there are besides those of users who write their own documents.
func (c *Config) drawWrites(seed uint64) {
	c.drawReplicated(seed)
	c.drawValidation(seed)
	c.drawOptions(seed)
	c.drawSpoiling(seed)
	c.drawEndpoints(seed)
	c.drawForks(seed)
}

// drawReplicated has one world of four be one into which documents are replicated.
func (c *Config) drawReplicated(seed uint64) {
	c.drawFollowed(seed)
	if r := prng.Fork(seed, "replicated"); r.Intn(4) == 0 {
		for _, a := range replicatedActions {
			c.Actions[a.name] = 1 + r.Intn(a.most)
		}
	}
}

// invalid has members with which a document asks for no valid replication.
var invalid = []struct {
	field string
	value any
}{
	{"use_checkpoints", "false"}, {"checkpoint_interval", 0}, {"retries_per_request", -1}, {"worker_processes", 5000},
	{"http_connections", "many"}, {"cancel", true}, {"continuous", 1}, {"target", nil},
	{"proxy", "http://u:*****@proxy/"},
}

// replicateJob has a document come from another server: a new one, or one that came before.
func replicateJob(u *users, site *decide.Site) {
	if came := u.came; len(came) > 0 && site.Int(4) == 0 {
		bringIn(u, came[site.Int(len(came))], site)
		return
	}
	j := u.newJob(u.newBody(site), site)
	sent := maps.Clone(j.body)
	kind := site.Int(6)
	if kind < 4 {
		wrong := invalid[site.Int(len(invalid))]
		sent[wrong.field] = wrong.value
	}
	switch kind {
	case 2:
		sent["_replication_state"], sent["_replication_state_time"] = "completed", "2020-01-01T00:00:00Z"
		sent["_replication_stats"] = map[string]any{"docs_written": 3}
	case 3, 4:
		sent["_replication_state"], sent["_replication_state_reason"] = "failed", "elsewhere"
	}
	maps.Copy(sent, map[string]any{
		"_id": j.id, "_rev": fmt.Sprintf("1-%032x", u.next()), "n": uint64(u.n), "owner": nil,
		"user_ctx": map[string]any{"name": UserOf(j.id)},
	})
	raw, err := json.Marshal(sent)
	if err != nil {
		panic(err)
	}
	bringIn(u, &arrival{j: j, instance: j.tenant.instance, raw: raw, token: uint64(u.n)}, site)
}

// arrival is a revision of another server.
type arrival struct {
	j        *JobDoc
	instance [16]byte // of the database into which it came
	raw      []byte
	token    uint64
	parent   revtree.Rev // that it replaces; zero for a new document
	arrived  bool
}

// bringIn writes a revision as it is through a frontend.
func bringIn(u *users, a *arrival, site *decide.Site) {
	p, j := u.frontend(site), a.j
	if p == nil || j.busy || j.tenant.busy || a.instance != j.tenant.instance {
		return
	}
	j.busy = true
	looking{u}.follow(j.JobID(), j)
	if !a.arrived {
		begun := &Write{JobID: j.JobID(), Token: a.token, At: u.w.Engine.Now(), Sent: a.raw, Brought: true}
		u.w.emit(WriteBegins{begun})
	}
	u.w.Engine.Go(p.Process, "api", func() {
		defer func() { j.busy = false }()
		doubted := j.unknown
		j.unknown = true
		written, err := replicateIn(u.w.Engine.NewContext(p.Process, RequestLimit), u, a)
		if err == nil && written.Err != nil {
			err = written.Err
		}
		u.w.Engine.Logf("users", "replicated %s/%s as %d, changed %v: %v", j.tenant.name, j.id, a.token,
			written.Changed, err)
		switch {
		case err == nil && a.arrived:
			j.unknown = doubted
			u.w.emit(DocumentRepeated{j, a.token, written.Changed})
		case err == nil:
			a.arrived, u.came = true, append(u.came, a)
			j.unknown, j.present = false, true
			u.w.emit(DocumentWritten{j, a.token, true})
		case isRefusal(err):
			j.unknown = doubted
			u.w.emit(ReplicatedRefused{j, err})
		}
	})
}

// replicateIn writes a revision with new_edits=false, in a transaction of its own.
func replicateIn(ctx context.Context, u *users, a *arrival) (docs.Written, error) {
	return kv.Run(ctx, u.w.db, func(tx kv.Tx) (none docs.Written, err error) {
		db, err := u.w.store.Docs.Open(tx, a.j.tenant.name)
		if err != nil {
			return none, err
		}
		return replicateInto(u, tx, db, a)
	})
}

// replicateInto writes a revision of another server with new_edits=false.
func replicateInto(u *users, tx kv.Tx, db *docs.Database, a *arrival) (none docs.Written, err error) {
	doc, err := docs.ParseDocument(a.raw, docs.ReplicationMembers...)
	if err != nil {
		return none, err
	}
	if !a.parent.IsZero() {
		doc.Ancestors = []string{a.parent.ID}
	}
	edit := docs.Edit{Document: *doc, Replicated: true}
	written, err := u.w.store.WriteDocs(tx, db, []docs.Edit{edit}, jobstore.Writer{}, u.w.Engine.Now())
	if err != nil {
		return none, err
	}
	return written[0], nil
}

// Facts about users who replicate documents into this service.
type (
	// DocumentRepeated is a revision that had arrived before, and was sent again.
	DocumentRepeated struct {
		Doc     *JobDoc
		Token   uint64
		Changed bool // whether that changed the document
	}
	// ReplicatedRefused is a document from another server that was refused.
	ReplicatedRefused struct {
		Doc *JobDoc
		Err error
	}
)

func (DocumentRepeated) fact()  {}
func (ReplicatedRefused) fact() {}
