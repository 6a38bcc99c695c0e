package lab

import (
	"context"
	"fmt"
	"maps"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/workload"
)

// Exact is production's queue, on a store in memory. Jobs of replicator databases are made by documents, those
// of users by requests to _replicate.
type Exact struct {
	w       *workload.Workload
	db      *fakefdb.Database
	store   *jobstore.Store
	sharing jobstore.Sharing
	tokens  uint64
	ids     []string // of jobs; empty before they are made
	numbers map[string]int
}

// NewExact returns production's queue without jobs, with all replicator databases of the workload.
func NewExact(c Config, now func() instant.Time) (*Exact, error) {
	rc := c.Settings.Replicator
	rc.Server = repid.Server{UUID: "5eb63bbbe01eeed093cb22bb8f5acdc3", HostName: "lab", Port: 5984}
	rc.Sharing.Shares = maps.Clone(rc.Sharing.Shares)
	if rc.Sharing.Shares == nil {
		rc.Sharing.Shares = map[string]int64{}
	}
	e := &Exact{
		w: c.Workload, db: fakefdb.New(fakefdb.WithClock(now)), sharing: rc.Sharing,
		store: jobstore.New(tuple.Subspace(tuple.Pack("couchrelay")), rc),
		ids:   make([]string, len(c.Workload.Jobs)), numbers: map[string]int{},
	}
	for i, a := range c.Workload.Accounts {
		e.sharing.Shares[a.Name] = c.sharesOf(i)
	}
	err := e.do(func(tx kv.Tx) error {
		for i, a := range c.Workload.Accounts {
			if jobstore.IsReplicatorDB(a.Name) {
				if err := e.store.Docs.Create(tx, a.Name, instance(i), now()); err != nil {
					return err
				}
			}
		}
		return e.store.Share(tx, e.sharing, now())
	})
	return e, err
}

func (e *Exact) do(f func(kv.Tx) error) error { return kv.Do(context.Background(), e.db, f) }

// inTx calls f in a transaction.
func inTx[T any](e *Exact, f func(kv.Tx) (T, error)) (T, error) {
	return kv.Run(context.Background(), e.db, f)
}

// Perform is Queue's.
func (e *Exact) Perform(q node.Request, now instant.Time) (node.Result, error) {
	return inTx(e, func(tx kv.Tx) (node.Result, error) { return node.Perform(tx, e.store, q, now) })
}

// Submit is Queue's.
func (e *Exact) Submit(job int, now instant.Time) error {
	j := &e.w.Jobs[job]
	body := map[string]any{
		"_id": j.ID, "continuous": j.Continuous,
		"source": fmt.Sprintf("http://s%d.example.com/%s", j.Server, j.ID), "target": "http://t.example.com/" + j.ID,
	}
	if j.Weight != 0 {
		body["weight"] = j.Weight
	}
	a := e.w.Accounts[j.Account]
	err := e.do(func(tx kv.Tx) error {
		if jobstore.IsReplicatorDB(a.Name) {
			e.ids[job] = jobID(e.w, job)
			return e.write(tx, a.Name, body, now)
		}
		delete(body, "_id")
		raw, err := json.Encode(body)
		if err != nil {
			return err
		}
		rep, err := spec.ParseRequest(raw, e.store.Config.Parse)
		if err != nil {
			return err
		}
		e.ids[job], err = e.store.Replicate(tx, rep, a.Name[len(userAccount):], now)
		return err
	})
	e.numbers[e.ids[job]] = job
	return err
}

// write writes a document of a replicator database over the one that is there.
func (e *Exact) write(tx kv.Tx, name string, body map[string]any, now instant.Time) error {
	db, err := e.store.Docs.Open(tx, name)
	if err != nil {
		return err
	}
	raw, err := json.Encode(body)
	if err != nil {
		return err
	}
	doc, err := docs.ParseDocument(raw, docs.ReplicationMembers...)
	if err != nil {
		return err
	}
	if old, err := db.Read(doc.ID, docs.Want{}); err == nil {
		doc.Rev = old.Rev
	}
	e.tokens++
	edit := docs.Edit{Document: *doc, Token: e.tokens}
	written, err := e.store.WriteDocs(tx, db, []docs.Edit{edit}, jobstore.Writer{Admin: true}, now)
	if err == nil && written[0].Err != nil {
		return written[0].Err
	}
	return err
}

// Remove is Queue's.
func (e *Exact) Remove(job int, now instant.Time) error {
	j := &e.w.Jobs[job]
	return e.do(func(tx kv.Tx) error {
		if a := e.w.Accounts[j.Account].Name; jobstore.IsReplicatorDB(a) {
			return e.write(tx, a, map[string]any{"_id": j.ID, "_deleted": true}, now)
		}
		return e.store.Cancel(tx, e.ids[job])
	})
}

// Share is Queue's.
func (e *Exact) Share(account int, shares int64, now instant.Time) error {
	e.sharing.Shares[e.w.Accounts[account].Name] = shares
	return e.do(func(tx kv.Tx) error { return e.store.Share(tx, e.sharing, now) })
}

// Signal is Queue's.
func (e *Exact) Signal(p jobs.Part) (int64, error) {
	return inTx(e, func(tx kv.Tx) (int64, error) { return e.store.Jobs.Signal(tx, p) })
}

// Calls is Queue's.
func (e *Exact) Calls(worker string) (int64, error) {
	return inTx(e, func(tx kv.Tx) (int64, error) { return e.store.Jobs.Calls(tx, worker) })
}

// Number is Queue's.
func (e *Exact) Number(id string) int { return e.numbers[id] }

// Due is Queue's.
func (e *Exact) Due(job int) instant.Time {
	j, err := inTx(e, func(tx kv.Tx) (*jobs.Job, error) { return e.store.Jobs.Get(tx, e.ids[job]) })
	if err != nil || j == nil || j.State != jobs.Pending {
		return 0
	}
	return j.Due
}
