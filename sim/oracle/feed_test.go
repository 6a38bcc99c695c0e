package oracle

import (
	"testing"
	"time"

	"couchrelay/core/peer"
)

func TestFeeds(t *testing.T) {
	// again has a run read its feed twice, with a pause and maybe something else in between.
	again := func(pause time.Duration, between func(*rig)) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.does(run, poll, peer.Changes{End: true})
			if between != nil {
				between(r)
			}
			r.pass(pause)
			r.does(run, poll, peer.Changes{End: true})
		}
	}
	check(t, &feedSubject, []case_{
		{"read after eleven seconds", again(11*time.Second, nil), ""},
		{"read after twelve seconds", again(12*time.Second, nil), "L8d"},
		{"read late by a node that stood still", again(12*time.Second, func(r *rig) {
			r.node(1).StandStill(time.Second)
		}), ""},
		{"read late after a failure in the same moment", func(r *rig) {
			run := r.run(nil)
			r.does(run, poll, peer.Changes{End: true})
			r.fails(run, poll, &peer.Failure{Kind: peer.Status, Status: 429, RetryAfter: time.Minute})
			r.pass(time.Minute)
			r.does(run, poll, peer.Changes{End: true})
		}, ""},
		{"read late beside other work", func(r *rig) {
			run := r.run(nil)
			r.call(run, peer.CopyDoc{ID: "a"})
			r.does(run, poll, peer.Changes{End: true})
			r.pass(12 * time.Second)
			r.does(run, poll, peer.Changes{End: true})
		}, ""},
		{"read late when other work is over", func(r *rig) {
			run := r.run(nil)
			r.does(run, peer.CopyDoc{ID: "a"}, peer.Copied{})
			r.does(run, poll, peer.Changes{End: true})
			r.pass(12 * time.Second)
			r.does(run, poll, peer.Changes{End: true})
		}, "L8d"},
		{"read late after other work", func(r *rig) {
			run := r.run(nil)
			r.does(run, poll, rows(from, "a"))
			r.pass(time.Second)
			r.does(run, asked("a"), lacks())
			r.pass(time.Minute)
			r.does(run, poll, peer.Changes{})
		}, ""},
	})
}
