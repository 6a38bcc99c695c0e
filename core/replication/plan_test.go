package replication

import (
	"reflect"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// TestPlanOfThrottledJob: a job whose endpoint has asked it to slow down has fewer requests in flight at once, smaller
// batches, and less time between checkpoints than it asks for, and never more.
func TestPlanOfThrottledJob(t *testing.T) {
	for _, n := range []int{1, 100} {
		rep := &spec.Replication{}
		rep.WorkerProcesses, rep.MaxWorkers, rep.WorkerBatchSize = n, n, 10*n
		rep.CheckpointInterval = time.Duration(n) * time.Second
		rep.Source.Connections, rep.Target.Connections = n, n
		usual, slow := NewPlan(rep, Terms{}), NewPlan(rep, Terms{Throttled: true})
		for name, values := range map[string][2]int{
			"workers":      {slow.Workers, usual.Workers},
			"most workers": {slow.MaxWorkers, usual.MaxWorkers},
			"batch":        {slow.BatchSize, usual.BatchSize},
			"connections":  {slow.Connections, usual.Connections},
			"checkpoints":  {int(slow.CheckpointInterval), int(usual.CheckpointInterval)},
		} {
			if less := values[0] < values[1]; values[0] > values[1] || less != (n > 1) {
				t.Errorf("%s of %d: %d, and usually %d", name, n, values[0], values[1])
			}
		}
	}
}

// TestWholePlan: what a replication and its job say comes to the run.
func TestWholePlan(t *testing.T) {
	rep := &spec.Replication{
		Continuous: true, CreateTarget: true, CreateTargetParams: []peer.Param{{Name: "q", Value: "8"}},
		SinceSeq: []byte(`"5-a"`), UseCheckpoints: true, CheckpointInterval: 6 * time.Second, UseBulkGet: true,
		OnRefusal: spec.RetryRefused, Filter: spec.Filter{Kind: spec.FunctionFilter, Name: "d/f"},
	}
	rep.WorkerProcesses, rep.MaxWorkers, rep.WorkerBatchSize = 7, 8, 9
	rep.Source.Connections, rep.Target.Connections, rep.Source.Retries, rep.Target.Retries = 11, 10, 12, 13
	rep.Target.Compression = spec.CompressOn
	terms := Terms{
		Created: 1, Resumed: checkpoint.Counters{DocsRead: 2}, ResumedID: "id", Delay: 3, Seed: 4, ProgressInterval: 5,
		Memory: 6, Listed: 7, List: checkpoint.List{Job: "j", Changes: 8}, Crashes: 9, StallTimeout: 10,
		MissingPause: 11, ListSaved: [2]int64{12, 13},
	}
	plan := NewPlan(rep, terms)
	plan.IDs = nil
	want := Plan{
		Created: 1, Resumed: checkpoint.Counters{DocsRead: 2}, ResumedID: "id", Delay: 3, Seed: 4,
		Listed: 7, List: checkpoint.List{Job: "j", Changes: 8}, ListSaved: [2]int64{12, 13}, Crashes: 9,
		Options: Options{
			Continuous: true, Creation: Creation{true, []peer.Param{{Name: "q", Value: "8"}}}, SinceSeq: `"5-a"`,
			UseCheckpoints: true, CheckpointInterval: 6 * time.Second, UseBulkGet: true, OnRefusal: spec.RetryRefused,
			Filter: &peer.GetFilter{DesignDoc: "d", Name: "f"}, Filtered: true,
			Workers: 7, MaxWorkers: 8, BatchSize: 9, Connections: 10, Retries: 12, Compression: spec.CompressOn,
			ProgressInterval: 5, Memory: 6, StallTimeout: 10, MissingPause: 11,
		},
	}
	if !reflect.DeepEqual(plan, want) {
		t.Errorf("the plan is\n%+v, want\n%+v", plan, want)
	}
	rep.Filter = spec.Filter{Kind: spec.DocIDs}
	rep.Source.Connections = 9
	if plan := NewPlan(rep, terms); !plan.FlatLog || plan.Filter != nil || plan.Connections != 9 {
		t.Errorf("of some documents: %+v", plan)
	}
}

// TestIDsOfPlan: a run looks for its checkpoint under the newest id first, and then under those of older versions. The
// code of a filter is a part of each.
func TestIDsOfPlan(t *testing.T) {
	rep := &spec.Replication{Continuous: true, Filter: spec.Filter{Kind: spec.FunctionFilter, Name: "d/f"}}
	rep.Source.URL, rep.Target.URL = "http://s/a/", "http://t/b/"
	server := repid.Server{UUID: "u"}
	for _, code := range []string{"", "function() {}"} {
		want := IDs{Extension: "+continuous"}
		for version := repid.Version; version > 0; version-- {
			want.Bases = append(want.Bases, repid.Base(version, server, rep, code))
		}
		if ids := NewPlan(rep, Terms{Server: server}).IDs(code); !reflect.DeepEqual(ids, want) {
			t.Errorf("with filter %q: %+v, want %+v", code, ids, want)
		}
	}
}

// TestPlanOfReset: totals begin at 0 when a job starts over.
func TestPlanOfReset(t *testing.T) {
	for _, reset := range []bool{false, true} {
		terms := Terms{Reset: reset, Resumed: checkpoint.Counters{DocsRead: 7}}
		plan := NewPlan(&spec.Replication{}, terms)
		if anew := plan.Resumed == (checkpoint.Counters{}); plan.Reset != reset || anew != reset {
			t.Errorf("reset %t: %+v", reset, plan.Resumed)
		}
	}
}

// TestFilteredPlan: whatever leaves out changes makes a source search for long, so that its feed may be silent.
func TestFilteredPlan(t *testing.T) {
	for _, kind := range []spec.FilterKind{
		spec.NoFilter, spec.DocIDs, spec.Selector, spec.FunctionFilter, spec.BuiltinFilter,
	} {
		rep := &spec.Replication{Filter: spec.Filter{Kind: kind, Name: "d/f"}}
		if plan := NewPlan(rep, Terms{}); plan.Filtered != (kind != spec.NoFilter) {
			t.Errorf("filter %q: %t", kind, plan.Filtered)
		}
	}
}

// TestCopiesTogether: revisions of a document that are copied together leave the answers alone that they are from.
func TestCopiesTogether(t *testing.T) {
	p, b := &New(Plan{}).work, &batch{}
	revs := make([]string, 1, 2)
	revs[0] = "1-a"
	for _, more := range [][]string{revs, {"1-b"}} {
		p.queueCopy(b, alone{CopyDoc: peer.CopyDoc{ID: "a", Revs: more, Since: []string{"1-z"}}})
	}
	if len(b.copies) != 1 || len(b.copies[0].Revs) != 2 || revs[:2][1] != "" {
		t.Errorf("%+v of %q", b.copies, revs[:2])
	}
}

// TestUnion: the revisions of two rows about one document are taken together, each once; the rows stay as they are.
func TestUnion(t *testing.T) {
	p := &New(Plan{}).work
	p.queueBatch([]peer.Change{{ID: "a", Revs: []string{"1-a"}}, {ID: "b"}, {ID: "a", Revs: []string{"1-b"}}}, "3")
	if docs := p.batches[0].docs; len(docs) != 1 || len(docs[0].Revs) != 2 {
		t.Errorf("of three rows, two of which are of one document: %+v", docs)
	}
	revs := make([]string, 1, 4)
	revs[0] = "1-a"
	both := unionOf(revs).with([]string{"1-a", "1-b"})
	other := unionOf(revs).with([]string{"1-c"})
	if len(both) != 2 || both[1] != "1-b" || len(other) != 2 || other[1] != "1-c" || len(revs) != 1 {
		t.Errorf("%q and %q", both, other)
	}
}
