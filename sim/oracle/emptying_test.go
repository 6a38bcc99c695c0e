package oracle

import (
	"errors"
	"testing"

	"couchrelay/core/kv"
)

func TestEmptying(t *testing.T) {
	// left has a row be there when all jobs are gone.
	left := func(row func(*rig) []byte, value string) func(*rig) {
		return func(r *rig) {
			r.set(row(r), []byte(value))
			r.o.CheckEmpty()
		}
	}
	const one = "\x01\x00\x00\x00\x00\x00\x00\x00"
	check(t, &emptyingSubject, []case_{
		{"nothing", func(r *rig) { r.o.CheckEmpty() }, ""},
		{"a claim", left(func(r *rig) []byte { return r.w.View().Store().Keys.Claim.Pack("id") }, "job"), "S98a"},
		{"a refusal", left(func(r *rig) []byte {
			return r.w.View().Store().Keys.Refused.Pack("job", "doc", "1-a")
		}, "{}"), "S98a"},
		{"a label", left(func(r *rig) []byte { return r.w.View().Store().Keys.Index.Pack(0, "state") }, ""), "S98a"},
		{"an account's job", left(func(r *rig) []byte { return r.w.View().Store().Keys.Count.Pack("a") }, one), "S98a"},
		{"an account without jobs", left(func(r *rig) []byte {
			return r.w.View().Store().Keys.Count.Pack("a")
		}, "\x00\x00"), ""},
		{"a job of the queue", left(func(r *rig) []byte {
			return r.w.View().Store().Keys.Jobs.Count.Pack("ready", 1)
		}, one), "S98a"},
		{"shards that make up for each other", func(r *rig) {
			count := r.w.View().Store().Keys.Jobs.Count
			r.commit(nil, func(tx kv.Tx) error {
				tx.Add(count.Pack("ready", 1), 1)
				tx.Add(count.Pack("ready", 2), -1)
				return nil
			})
			r.o.CheckEmpty()
		}, ""},
		{"a run", func(r *rig) {
			r.run(nil)
			r.o.CheckEmpty()
		}, "S98b"},
		{"cannot be removed", func(r *rig) { r.o.CheckRemoved(errors.New("conflict")) }, "S98c"},
	})
}
