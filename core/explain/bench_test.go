package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// bench is a store whose only worker is moved by hand.
type bench struct {
	t     rapid.TB
	db    *fakefdb.Database
	s     *jobstore.Store
	now   instant.Time
	batch uint64
	token uint64
	work  []jobstore.Work

	minRun time.Duration
}

func newBench(t rapid.TB) *bench {
	b := &bench{t: t, db: fakefdb.New(), now: at}
	b.s = jobstore.New(tuple.Subspace(tuple.Pack("t")), jobstore.DefaultConfig(repid.Server{UUID: "u"}))
	b.do(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "_replicator", tuple.UUID{1}, b.now) })
	return b
}

func (b *bench) do(f func(kv.Tx) error) {
	b.t.Helper()
	if err := kv.Do(context.Background(), b.db, f); err != nil {
		b.t.Fatal(err)
	}
}

// node has a node join with free slots, or tell that they are in use.
func (b *bench) node(maxJobs, running int) {
	b.t.Helper()
	info, err := json.Encode(node.Info{
		Name: "n1", Roles: node.AllRoles, Status: node.Up, MaxJobs: maxJobs, Running: running, Seen: b.now,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(func(tx kv.Tx) error { return b.s.Jobs.Register(tx, "w", info) })
}

// put writes a document, and returns the id of its job.
func (b *bench) put(id, target, members string) string {
	b.t.Helper()
	b.token++
	b.do(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		raw := fmt.Sprintf(`{"_id":%q,"source":"http://h/a","target":"http://h:81/%s"%s}`, id, target, members)
		doc, err := docs.ParseDocument([]byte(raw), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		if old, err := db.Read(id, docs.Want{Deleted: true}); err == nil && (doc.Rev == revtree.Rev{}) {
			doc.Rev = old.Rev
		}
		_, err = b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: b.token}},
			jobstore.Writer{Admin: true}, b.now)
		return err
	})
	return jobstore.DocumentJobs(tuple.UUID{1}) + id
}

func (b *bench) accept(most int) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error {
		taken, err := b.s.Accept(tx, "w", "n1", jobs.Demand{Batch: b.batch + 1, Max: most}, b.now)
		b.work = append(b.work, taken.Work...)
		return err
	})
	b.batch++
}

// end ends the oldest run.
func (b *bench) end(f func(jobstore.Owned, jobstore.Turn) error) {
	b.t.Helper()
	w := b.work[0]
	b.work = b.work[1:]
	b.do(func(tx kv.Tx) error {
		return f(b.s.Owned(tx, w.JobID, w.Lock, b.now), jobstore.Turn{Place: w.Place})
	})
}

func (b *bench) crash(name string, throttled bool) {
	b.t.Helper()
	trouble := replication.Trouble{Error: name, Reason: "because", Throttled: throttled}
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error { return h.Crash(trouble, nil, turn, 1) })
}

func (b *bench) order(f func(jobstore.Operator) error) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error { return f(jobstore.Operator{Store: b.s, Tx: tx, By: "ann", Now: b.now}) })
}

func (b *bench) hold(e jobstore.Hold) {
	b.order(func(o jobstore.Operator) error { _, err := o.MakeHold(e); return err })
}

func (b *bench) explain(id string) *Explanation {
	b.t.Helper()
	e, err := kv.Run(context.Background(), b.db, func(tx kv.Tx) (*Explanation, error) {
		return Read(tx.Snapshot(), b.s, id, Asking{Now: b.now, MaxChurn: 2, MinRun: b.minRun})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if e != nil && e.Node != nil && e.saysUnknown("node") {
		b.t.Errorf("the node is known, and not known: %+v", e)
	}
	return e
}

func (b *bench) want(id, text string, why ...Cause) *Explanation {
	b.t.Helper()
	e := b.explain(id)
	if !slices.Equal(e.Why, why) || !strings.Contains(e.Sentence(), text) {
		b.t.Fatalf("%v: %s\nwant %v: %s", e.Why, e.Sentence(), why, text)
	}
	return e
}

func (e *Explanation) saysUnknown(field string, words ...string) bool {
	return slices.ContainsFunc(e.Unknown, func(u Unknown) bool {
		return u.Field == field && u.Reason != "" && strings.Contains(u.Reason, strings.Join(words, " "))
	})
}
