package jobstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb/damaged"
)

// TestDamagedRowsAreTold: whichever row that an operation reads has a value that nothing can be made of, or stands
// before one whose key cannot be read, the operation fails. It does not go on without the row, nor as if it were not
// there. Rows that mean something whatever bytes they have are left out: counters, ids, and what documents say.
func TestDamagedRowsAreTold(t *testing.T) {
	b := newFullBench(t)
	b.share(func(*Sharing) {})
	free := map[string][]string{ // by operation
		"cancel":  {"docs/1/"},
		"edit":    {"docs/1/"},
		"refused": {"jobs/replication/job/"}, // whose lock is all that counts
		"dropped": {"jobs/replication/ready/"},
		"sweep":   {"usage/", "count/"}, // which stay as they are
		"discard": {""},                 // whose purpose that is

		"make a hold": {"jobs/replication/worker/"}, // whoever it is of is called
	}
	for _, name := range []string{"complete", "fail", "delete", "stand by", "claim"} { // the job that waits is left so
		free[name] = append(free[name], check.Readable(testRoot, b.s.Keys.Jobs.Job.Pack(jobID("wait"))))
	}
	values := []string{"claim/", "count/", "weights/", "tally/", "jobs/replication/count/", "hold/"}
	try := func(name string, op func(kv.Tx) error) {
		var passed [][]byte // whose failed read may be passed over: the commit tells
		if name != "reindex" {
			passed = append(passed, b.s.Keys.Reindex)
		}
		err := damaged.Each(t.Context(), b.db, op, func(d damaged.Row, err error) {
			key := check.Readable(testRoot, d.Key)
			is := func(list []string) bool {
				return slices.ContainsFunc(list, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
			}
			if err == nil && !is(free[name]) && (d.Behind || !is(values)) {
				t.Errorf("%s goes on past a damaged %s (behind: %v)", name, key, d.Behind)
			}
		}, passed...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := b.operations()
	for name, op := range all {
		try(name, op)
	}
	held := Hold{Server: "held.t"}
	b.give(func(o Operator) (bool, error) { return o.LiftHold(held.ID()) })
	try("promote", all["promote"])
	b.do1(all["accept"])
	try("accept", all["accept"]) // is repeated, and finds what it has taken
}

// operations are transactions on the jobs of a full bench, all of which succeed.
func (b *bench) operations() map[string]func(kv.Tx) error {
	later, order := b.now.Add(48*time.Hour), b.order()
	lists := func(tx kv.Tx) Lists { return Lists{Store: b.s, Reader: tx.Snapshot()} }
	all := map[string]func(kv.Tx) error{
		"edit":   func(tx kv.Tx) error { return b.edit(tx, "ready", simple) },
		"delete": func(tx kv.Tx) error { return b.edit(tx, "run", `{"_deleted":true}`) },
		"accept": func(tx kv.Tx) error {
			_, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: 99, Max: 5}, b.now)
			return err
		},
		"promote": func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, later, 50); return err },
		"sweep":   func(tx kv.Tx) error { _, err := b.s.Sweep(tx, later, 9, 9); return err },
		"dropped": func(tx kv.Tx) error {
			b.s.Drop(tx, tuple.UUID{1})
			_, err := b.s.SweepDropped(tx, 9)
			return err
		},
		"share": func(tx kv.Tx) error { return b.s.Share(tx, Sharing{Policy: schedule.FIFO}, b.now) },
		"replicate": func(tx kv.Tx) error {
			rep, err := spec.ParseRequest([]byte(strings.Replace(simple, "/b", "/ann", 1)), b.s.Config.Parse)
			if err == nil {
				_, err = b.s.Replicate(tx, rep, "ann", b.now)
			}
			return err
		},
		"discard": func(tx kv.Tx) error {
			if err := Discard(tx, b.s, jobID("run")); !errors.Is(err, ErrReadable) {
				return err
			}
			return nil
		},
		"find":    func(tx kv.Tx) error { _, _, err := b.s.Find(tx, jobID("run")); return err },
		"holds":   func(tx kv.Tx) error { _, err := b.s.Keys.Holds(tx); return err },
		"hold":    func(tx kv.Tx) error { _, err := b.s.Keys.Hold(tx, "server:held.t"); return err },
		"demands": func(tx kv.Tx) error { _, _, err := Demands(tx, b.s, 9); return err },
		"ready":   func(tx kv.Tx) error { _, err := b.ready(tx, 9); return err },
		"uses":    func(tx kv.Tx) error { _, _, err := Uses(tx, b.s, b.now, "", 9); return err },
		"total":   func(tx kv.Tx) error { _, _, err := lists(tx).Total(Filter{}); return err },
		"servers": func(tx kv.Tx) error { _, _, err := lists(tx).Servers("", 9); return err },
		"errors":  func(tx kv.Tx) error { _, _, err := lists(tx).Errors("", 9); return err },
		"count":   func(tx kv.Tx) error { _, _, err := lists(tx).Count(Filter{}, 9); return err },
		"refusals": func(tx kv.Tx) error {
			_, err := b.s.Keys.Refusals(tx, jobID("run"), "", "", 9)
			return err
		},
		"shared":    func(tx kv.Tx) error { _, _, err := b.s.Shared(tx); return err },
		"tune":      func(tx kv.Tx) error { return b.s.Tune(tx, order.Decay, time.Hour, later) },
		"end round": func(tx kv.Tx) error { return b.s.EndRound(tx, order.Round, later) },
		"charge": func(tx kv.Tx) error {
			return b.s.Charge(tx, []schedule.Charge{{Account: "_replicator", At: b.now, Worker: "w", Used: 7}}, b.now)
		},
		"reindex": func(tx kv.Tx) error {
			tx.Set(b.s.Keys.Reindex, nil)
			_, err := Reindex(tx, b.s, 99)
			return err
		},
	}
	for name, f := range map[string]Filter{
		"list": {}, "list of a user": {User: "ann"}, "list of a worker": {Workers: []string{"w"}},
		"list of a host": {Server: "h"},
	} {
		all[name] = func(tx kv.Tx) error {
			_, err := lists(tx).Page(Listing{Filter: f, Limit: 100})
			return err
		}
		all[name+" without an index"] = func(tx kv.Tx) error {
			tx.Set(b.s.Keys.Reindex, nil)
			_, _, err := lists(tx).Count(f, 100)
			return err
		}
	}
	for name, give := range map[string]func(Operator) (bool, error){
		"retry":           func(o Operator) (bool, error) { return o.Retry(jobID("crash"), "") },
		"retry of failed": func(o Operator) (bool, error) { return o.Retry(jobID("bad"), "") },
		"pause":           func(o Operator) (bool, error) { return o.Pause(jobID("ready"), "") },
		"pause of a run":  func(o Operator) (bool, error) { return o.Pause(jobID("run"), "") },
		"resume":          func(o Operator) (bool, error) { return o.Resume(jobID("paused"), "") },
		"reset":           func(o Operator) (bool, error) { return o.Reset(jobID("run"), "") },
		"cancel":          func(o Operator) (bool, error) { return o.Cancel(jobID("ready")) },
		"make a hold":     func(o Operator) (bool, error) { return o.MakeHold(Hold{Server: "other.t"}) },
		"lift a hold":     func(o Operator) (bool, error) { return o.LiftHold("server:held.t") },
	} {
		all[name] = func(tx kv.Tx) error { _, err := give(b.by(tx)); return err }
	}
	run := get(b, func(tx kv.Tx) (*jobs.Job, error) { return b.s.Jobs.Get(tx, jobID("run")) })
	for name, do := range ofRun {
		all[name] = func(tx kv.Tx) error { return do(b.s.Owned(tx, run.ID, run.Lock, b.now)) }
	}
	all["retries"] = func(tx kv.Tx) error {
		_, err := b.s.Keys.RetriesAsked(tx, []jobs.Held{{ID: run.ID}})
		return err
	}
	return all
}

// TestFence: a worker that does not hold a job is told so, whatever it wants to do with it, and changes nothing.
func TestFence(t *testing.T) {
	b := newFullBench(t)
	run := get(b, func(tx kv.Tx) (*jobs.Job, error) { return b.s.Jobs.Get(tx, jobID("run")) })
	before := b.db.Hash()
	for name, do := range ofRun {
		for id, lock := range map[string]jobs.Lock{
			run.ID: {Worker: run.Lock.Worker, Batch: run.Lock.Batch + 1}, jobID("ready"): run.Lock,
			jobID("done"): run.Lock, jobID("none"): run.Lock,
		} {
			err := kv.Do(t.Context(), b.db, func(tx kv.Tx) error { return do(b.s.Owned(tx, id, lock, b.now)) })
			if !errors.Is(err, jobs.ErrHalt) || b.db.Hash() != before {
				t.Errorf("%s of %s: %v", name, id, err)
			}
		}
	}
}

// ofRun is what the worker of a job does with it.
var ofRun = map[string]func(Owned) error{
	"work":     func(h Owned) error { _, err := h.Work(); return err },
	"claim":    func(h Owned) error { return h.Claim("new", "new") },
	"progress": func(h Owned) error { return h.Progress(Stats{}) },
	"refused":  func(h Owned) error { _, err := h.Refused("", "", 9); return err },
	"store refused": func(h Owned) error {
		return h.StoreRefused("by", []replication.Finding{refusalOf("a", false)})
	},
	"crash":    func(h Owned) error { return h.Crash(crash.Trouble, nil, Turn{Owed: time.Minute}, 1) },
	"requeue":  func(h Owned) error { return h.Requeue(nil, Turn{Owed: time.Minute}) },
	"complete": func(h Owned) error { return h.Complete(replication.End{}, Turn{}) },
	"fail":     func(h Owned) error { return h.Fail(crash.Trouble, Turn{}) },
	"stand by": func(h Owned) error { return h.StandBy("new", "new", Turn{}) },
}

// edit writes a document anew, whatever its revision.
func (b *bench) edit(tx kv.Tx, id, body string) error {
	db, err := b.s.Docs.Open(tx, "_replicator")
	if err != nil {
		return err
	}
	doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
	if err != nil {
		return err
	}
	old, err := db.Read(id, docs.Want{})
	if err != nil {
		return err
	}
	doc.ID, doc.Rev = id, old.Rev
	written, err := b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: 1}}, admin, b.now)
	if err == nil && written[0].Err != nil {
		return written[0].Err
	}
	return err
}

// TestDamagedHold: a hold of which only the key can be read stops its jobs as before, and no others. It can be lifted.
func TestDamagedHold(t *testing.T) {
	for _, hold := range []Hold{{Server: "h"}, {Database: "_replicator"}} {
		for _, value := range []string{"", "{}", "junk", `{"server":"other"}`, `{"database":"other/_replicator"}`} {
			b := newBench(t)
			b.put("held", simple, admin)
			b.do(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "other/_replicator", tuple.UUID{2}, b.now) })
			other := `{"source":"http://x/a","target":"http://y/b"}`
			if err := b.writeTo("other/_replicator", "other", other, admin); err != nil {
				t.Fatal(err)
			}
			b.give(func(o Operator) (bool, error) { return o.MakeHold(hold) })
			b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Held.Pack(hold.ID()), []byte(value)); return nil })
			if ids, parked := b.tryAccept(); len(ids) != 1 || parked != 1 {
				t.Errorf("%s with value %q: accepted %v, parked %d", hold.ID(), value, ids, parked)
			}
			b.do1(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold(hold.ID()); return err })
			b.do1(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err })
			if v := b.shown(jobID("held")); v.HeldBy != "" {
				t.Errorf("%s with value %q: afterwards held by %q", hold.ID(), value, v.HeldBy)
			}
		}
	}
}
