package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

func TestSequencesOracle(t *testing.T) {
	// moved has a job change from one header to another.
	moved := func(before, after *jobs.Job) func(*rig) {
		return func(r *rig) {
			r.change(node.Requeue{}, &shadow{header: before}, &shadow{header: after})
		}
	}
	at := func(version int64, state jobs.State) *jobs.Job {
		return &jobs.Job{ID: "job", State: state, Sequence: jobs.Sequence{Incarnation: 1, Version: version}}
	}
	check(t, &sequenceSubject, []case_{
		{"a change", moved(at(5, jobs.Pending), at(6, jobs.Running)), ""},
		{"no change of the header", moved(at(5, jobs.Running), at(5, jobs.Running)), ""},
		{"a change without a sequence", moved(at(5, jobs.Pending), &jobs.Job{ID: "job", State: jobs.Running}), "S50a"},
		{"a change with the sequence before", moved(at(5, jobs.Pending), at(5, jobs.Running)), "S50a"},
		{"a change back in time", moved(at(5, jobs.Pending), at(4, jobs.Running)), "S50a"},
		{"a sequence without a change", moved(at(5, jobs.Running), at(6, jobs.Running)), "S50a"},
		{"a label for the index", func() func(*rig) {
			labeled := at(6, jobs.Pending)
			labeled.Label = "crashing"
			return moved(at(5, jobs.Pending), labeled)
		}(), ""},
		{"a new job", moved(nil, at(6, jobs.Pending)), ""},
		{"a reader", func(r *rig) { r.request(nil); r.see(world.Ticked{}); r.atRest() }, ""},
		{"a change that no reader is told of", func(r *rig) {
			id := r.request(nil)
			r.see(world.Ticked{})
			r.o.shadows[id].header.Sequence.Version++
			r.see(world.Ticked{})
		}, "S50b"},
		{"a job that is in no list", func(r *rig) {
			r.request(nil)
			r.commit(nil, func(tx kv.Tx) error {
				tx.ClearRange(r.w.View().Store().Jobs.Keys.Changed.Range())
				return nil
			})
			r.atRest()
		}, "S50b"},
	})
}
