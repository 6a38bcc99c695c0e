package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// TestSpecified has commits that break each rule; which commits do is for the tests of the model to tell.
func TestSpecified(t *testing.T) {
	const worker = "n9/1"
	accept := node.Accept{Worker: worker, Node: "n9", Demand: jobs.Demand{Max: 1}}
	// as has the transaction of a request do what another one asks for.
	as := func(r *rig, q, other node.Request) {
		r.commit(q, func(tx kv.Tx) error {
			_, err := node.Perform(tx, r.w.View().Store(), other, r.now())
			return err
		})
	}
	runs := func(r *rig) node.Held {
		r.joins(worker, node.Info{})
		id := r.request(nil)
		as(r, accept, accept)
		return node.Held{JobID: id, Lock: jobs.Lock{Worker: worker}}
	}
	check(t, &specifiedSubject, []case_{
		{"a job that runs", func(r *rig) {
			h := runs(r)
			as(r, node.Record{Held: h}, node.Record{Held: h})
		}, ""},
		{"a job that stands nowhere", func(r *rig) {
			r.request(nil)
			r.commit(nil, func(tx kv.Tx) error {
				tx.ClearRange(r.w.View().Store().Keys.Jobs.Ready.Range())
				return nil
			})
		}, "S99a"},
		{"a report that ends a job", func(r *rig) {
			h := runs(r)
			as(r, node.Record{Held: h}, node.Requeue{Held: h})
		}, "S99b"},
		{"a lock that a run had", func(r *rig) {
			h := runs(r)
			r.runOf(r.node(1), jobstore.Work{
				JobID: h.JobID, Lock: h.Lock, Replication: r.replication(nil), Record: &jobstore.Record{},
			})
			as(r, node.Requeue{Held: h}, node.Requeue{Held: h})
			as(r, accept, accept)
		}, "S99c"},
		{"a lease that a user ends", func(r *rig) {
			r.joins(worker, node.Info{})
			as(r, nil, node.Retire{Worker: worker, Limit: 1})
		}, "S99d"},
		{"a failure that is told as completed", func(r *rig) {
			h := runs(r)
			as(r, node.Fail{Held: h}, node.Complete{Held: h})
		}, "S99e"},
	})
}

// TestCountedTransitions: a campaign is told which transitions jobs took.
func TestCountedTransitions(t *testing.T) {
	r := newRig(t, &specifiedSubject)
	before := r.o.Jobs()
	r.request(nil)
	after := r.o.Jobs()
	if len(before.Never()) != len(after.Never())+1 {
		t.Errorf("never taken: %v, and then %v", before.Never(), after.Never())
	}
}
