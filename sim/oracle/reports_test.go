package oracle

import (
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

func TestReports(t *testing.T) {
	news := func(n int64) replication.Info { return replication.Info{Written: n} }
	// twice has a run tell of itself twice.
	twice := func(pause time.Duration, asked peer.Op, second replication.Info) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.tells(run, nil, news(1))
			r.pass(pause)
			r.tells(run, asked, second)
		}
	}
	held := node.Held{JobID: "job", Lock: jobs.Lock{Worker: "n1/1"}}
	// stored has a node that was told of a run ask for something to be stored.
	stored := func(q node.Record) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.step(node.RunProgress{Run: run.ID(), Info: news(3)}, ask(1, q))
		}
	}
	// saves has a run that told of itself have a checkpoint, of which it tells or not.
	saves := func(tells bool) func(*rig) {
		return func(r *rig) {
			run, info := r.run(nil), replication.Info{CheckpointedSeq: "7"}
			r.tells(run, nil, news(1))
			run.SetInfo(info)
			id := r.call(run, peer.PutLocal{})
			if tells {
				r.tells(run, peer.PutLocal{}, info)
			}
			r.answer(run, id, peer.PutLocal{}, peer.Reply{Result: peer.LocalWritten{}})
		}
	}
	check(t, &reportSubject, []case_{
		{"told after two seconds", twice(2*time.Second, nil, news(2)), ""},
		{"told after one second", twice(time.Second, nil, news(2)), "B1h"},
		{"told of a checkpoint", twice(0, peer.PutLocal{}, news(2)), ""},
		{"told the same", twice(time.Minute, nil, news(1)), "B1i"},
		{"told the same after half an hour", twice(time.Hour, nil, news(1)), ""},
		{"stored what was told", stored(node.Record{Held: held, Stats: jobstore.StatsOf(news(3))}), ""},
		{"stored something else",
			stored(node.Record{Held: held, Stats: jobstore.Stats{DocsRead: 4}}), "S14h"},
		{"a checkpoint told of", saves(true), ""},
		{"a checkpoint kept to itself", saves(false), "S21l"},
	})
}

// TestNames: a number that is told under one name may not be stored under another.
func TestNames(t *testing.T) {
	r := newRig(t, &reportSubject)
	run := r.run(nil)
	o := &reporting{r.o.chronicle}
	r.o.of[run].reports.told = jobstore.StatsOf(replication.Info{SourceSeq: `"1"`, ThroughSeq: `"2"`})
	o.checkNames(r.o.of[run], replication.Info{SourceSeq: `"1"`, ThroughSeq: `"2"`})
	if v := r.o.Violation(); v != nil {
		t.Errorf("breaks %s", v)
	}
	o.checkNames(r.o.of[run], replication.Info{SourceSeq: `"2"`, ThroughSeq: `"1"`})
	if v := r.o.Violation(); v == nil || v.ID != "S14i" {
		t.Errorf("breaks %v, and should break S14i", v)
	}
}
