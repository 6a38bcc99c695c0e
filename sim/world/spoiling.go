package world

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/prng"
	"couchrelay/sim/decide"
)

// spoilingActions are those of users who edit replication documents into some that ask for nothing that can be
// replicated. A swarm draws them by themselves. In its worlds documents of followed databases have all such mistakes.
var spoilingActions = []action{
	{name: spoilAction, where: "a frontend", most: 100_000, do: spoilJob,
		what: "a document is edited so that it asks for no valid replication, and mended or deleted later"},
}

const spoilAction = "job-spoiled"

// drawSpoiling has one world of three be one whose users spoil documents.
func (c *Config) drawSpoiling(seed uint64) {
	if r := prng.Fork(seed, "spoiling"); r.Intn(3) == 0 {
		for _, a := range spoilingActions {
			c.Actions[a.name] = 1 + r.Intn(a.most)
		}
	}
}

// spoils reports whether users of a world spoil documents.
func (c *Config) spoils() bool { return c.Actions[spoilAction] > 0 }

// mistakes are members of edited documents that ask for no valid replication, besides those of documents that were
// never valid.
var mistakes = []map[string]any{
	{"source": nil}, {"source": 7}, {"target": ""}, {"selector": "all"}, {"winning_revs_only": "yes"},
	{"create_target_params": true}, {"query_params": 1}, {"worker_batch_size": 0}, {"connection_timeout": "30s"},
	{"use_bulk_get": 0}, {"doc_ids": []string{"doc1"}, "selector": map[string]any{}},
	{"source": map[string]any{}}, {"target": map[string]any{"url": 7}},
	{"target": map[string]any{"url": "http://s1/b1/", "headers": "X-Relay"}},
	{"source": map[string]any{"url": "http://s1/a1/", "auth": map[string]any{"basic": "u:p"}}},
}

// spoilt is a replication with one mistake.
func spoilt(body map[string]any, site *decide.Site) map[string]any {
	body = maps.Clone(body)
	if n := site.Int(len(mistakes) + len(invalid)); n < len(mistakes) {
		maps.Copy(body, mistakes[n])
	} else {
		wrong := invalid[n-len(mistakes)]
		body[wrong.field] = wrong.value
	}
	return body
}

// spoilJob has a mistake come into a document: by its user, who is told so, or by an edit on another server that is
// replicated to this one. The latter is mended, or the document deleted, a while later.
func spoilJob(u *users, site *decide.Site) {
	j := anyAside(u, site)
	if j == nil || j.busy {
		return
	}
	body := spoilt(j.body, site)
	if site.Int(3) == 0 {
		was := j.body
		j.body = body
		u.write(j, site, false)
		j.body = was
		return
	}
	p := u.frontend(site)
	if p == nil || j.tenant.busy {
		return
	}
	j.busy = true
	looking{u}.follow(j.JobID(), j)
	mended := site.Duration(0, 20*time.Minute)
	u.w.Engine.Go(p.Process, "api", func() {
		defer func() { j.busy = false }()
		if spoilElsewhere(u, u.w.Engine.NewContext(p.Process, RequestLimit), j, body) {
			u.w.Engine.After(mended, nil, "document mended", func() { mend(u, j) })
		}
	})
}

// mend has a user put right what is wrong with a document, keep the mistake's state in it now and then, or delete it.
func mend(u *users, j *JobDoc) {
	if u.w.healed || !j.present {
		return
	}
	j.keeps = !j.busy && u.orders.Int(8) == 7
	u.write(j, u.orders, u.orders.Int(4) == 3)
}

// spoilElsewhere replicates an edit of a document to this service, and reports whether it is there. The document is
// written only if it is as it was on the other server.
func spoilElsewhere(u *users, ctx context.Context, j *JobDoc, body map[string]any) bool {
	a := &arrival{j: j, instance: j.tenant.instance, token: uint64(u.next())}
	begun := &Write{JobID: j.JobID(), Token: a.token, At: u.w.Engine.Now(), Brought: true, Wrong: true}
	u.w.emit(WriteBegins{begun})
	doubted := j.unknown
	j.unknown = true
	err := kv.Do(ctx, u.w.db, func(tx kv.Tx) error {
		db, err := u.w.store.Docs.Open(tx, j.tenant.name)
		if err != nil {
			return err
		}
		now, err := db.Read(j.id, docs.Want{})
		switch {
		case err != nil:
			return err
		case a.raw == nil:
			a.raw, begun.Seen = edited(body, j, now, a.token), tokenOf(now)
			begun.Sent, a.parent, begun.Over = a.raw, now.Rev, now.Rev.String()
		case tokenOf(now) == a.token: // an attempt before has written it
			return nil
		case now.Rev != a.parent:
			return docs.ErrConflict
		}
		written, err := replicateInto(u, tx, db, a)
		if err == nil && written.Err != nil {
			return written.Err
		}
		return err
	})
	u.w.Engine.Logf("users", "spoiled %s/%s as %d: %v", j.tenant.name, j.id, a.token, err)
	switch {
	case err == nil:
		a.arrived, u.came = true, append(u.came, a)
		j.unknown, j.present = false, true
		u.w.emit(DocumentWritten{j, a.token, true})
	case isRefusal(err):
		j.unknown = doubted
		u.w.emit(WriteRefused{j, a.token, err})
	}
	return err == nil
}

// edited is a document as another server has it after an edit of a revision.
func edited(body map[string]any, j *JobDoc, of *docs.Document, token uint64) []byte {
	sent := maps.Clone(body)
	maps.Copy(sent, map[string]any{
		"_id": j.id, "_rev": revtree.Rev{Gen: of.Rev.Gen + 1, ID: fmt.Sprintf("%032x", token)}.String(), "n": token,
		"owner": nil, "user_ctx": map[string]any{"name": UserOf(j.id)},
	})
	raw, err := json.Marshal(sent)
	if err != nil {
		panic(err)
	}
	return raw
}
