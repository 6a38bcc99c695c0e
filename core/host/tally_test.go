package host

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// copyOne has a run go on until it has read one document of 100 bytes.
func (w *world) copyOne(run uint64) {
	w.t.Helper()
	w.open(run)
	for steps := 0; w.h.Tally().DocsRead == 0; steps++ {
		if steps > 20 || len(w.calls(run)) == 0 {
			w.t.Fatalf("it waits for %v", w.links[run])
		}
		ids := w.calls(run)
		id := ids[0]
		if _, feed := w.links[run][id].(peer.ReadChanges); feed {
			id = ids[len(ids)-1] // what it has read comes first
		}
		var result peer.Result
		switch op := w.links[run][id].(type) {
		case peer.Open:
			result = peer.Opened{InstanceStartTime: "0", UpdateSeq: "1"}
		case peer.PutLocal:
			result = peer.LocalWritten{Rev: "0-1"}
		case peer.GetLocal:
			result = peer.Local{}
		case peer.ReadChanges:
			rows := []peer.Change{{Seq: "1", ID: "a", Revs: []string{"1-a"}}}
			result = peer.Changes{Rows: rows, LastSeq: "1", Pending: 7}
		case peer.DiffRevs:
			result = peer.Diff{Docs: []peer.DocMissing{{ID: "a", Missing: []string{"1-a"}}}}
		case peer.FetchDocs:
			result = peer.Fetched{Docs: []peer.FetchedDoc{{Fate: peer.Taken, Size: 100, Rev: "1-a"}}}
		default:
			w.t.Fatalf("it asks for %s", op)
		}
		w.reply(run, id, peer.Reply{Result: result})
	}
}

// TestTallyOfRuns: the host counts what its runs have done, and goes on counting when they are gone. Lags are those of
// the runs there are, by database.
func TestTallyOfRuns(t *testing.T) {
	one := work(t, "a", `,"continuous":true`)
	one.Record.Database = "team/_replicator"
	w := running(t, one)
	if got := w.h.Tally(); got != (replication.Tally{}) {
		t.Errorf("before anything it counts %+v", got)
	}
	w.copyOne(1)
	want := replication.Tally{DocsRead: 1, BytesRead: 100}
	if got := w.h.Tally(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	now := w.now.Steady.Add(time.Minute)
	lag := w.h.Lags(now)["team/_replicator"]
	if lag.Runs != 1 || lag.Changes != 8 || lag.Behind < time.Minute || lag.Behind > time.Minute+time.Second {
		t.Errorf("the lag is %+v", lag)
	}
	w.tell(node.Notified{Topic: node.WorkerCalls})
	w.h.Tell(node.Done{ID: w.asks[len(w.asks)-1].ID, Fault: node.LeaseLost})
	w.tell(node.Wake{})
	if w.h.Run(1) != nil {
		t.Fatal("the run is not gone")
	}
	if got := w.h.Tally(); got != want || len(w.h.Lags(now)) > 0 {
		t.Errorf("afterwards it counts %+v, lags %v", got, w.h.Lags(now))
	}
}

// TestToldOfCopying: the node is told how far a run has come and what its target refuses, and the run what is stored of
// that.
func TestToldOfCopying(t *testing.T) {
	w := running(t, work(t, "a", `,"continuous":true`))
	w.copyOne(1)
	n := len(w.steps)
	for _, id := range w.calls(1) {
		if _, writes := w.links[1][id].(peer.WriteDocs); writes {
			refused := peer.Refusal{ID: "a", Rev: "1-a", Error: "forbidden"}
			w.reply(1, id, peer.Reply{Result: peer.Written{Refused: []peer.Refusal{refused}}})
		}
	}
	w.pass(node.DefaultSettings().ProgressInterval)
	done[node.StoreRefused](w, node.Ok{})
	got := w.since(n)
	for _, want := range []string{"run 1 refused ", "run 1 stored", "run 1 progress "} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not among %s", want, got)
		}
	}
}

// TestNumbers: each run that copies tells its numbers, and one that has not begun has none.
func TestNumbers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Node.StartupJitter = 0 })
	numbers := func() map[string]int64 {
		all := map[string]int64{}
		w.h.Numbers(func(jobID string, info replication.Info) { all[jobID] = info.DocsRead })
		return all
	}
	done[node.Join](w, node.Ok{})
	accept := w.asks[slices.IndexFunc(w.asks, func(a node.Ask) bool { _, is := a.Request.(node.Accept); return is })]
	list := []jobstore.Work{work(t, "a", ""), work(t, "b", "")}
	w.h.Tell(node.Done{ID: accept.ID, Result: node.Accepted{Work: list}})
	for _, e := range w.h.Step(w.now) { // the runs are there, and their first steps are still to come
		w.perform(e)
	}
	if lags := w.h.Lags(w.now.Steady); len(numbers()) > 0 || len(lags) > 0 {
		t.Errorf("before the runs begin: %v, lags %v", numbers(), lags)
	}
	w.tell(node.Wake{})
	w.copyOne(1)
	if got := numbers(); !maps.Equal(got, map[string]int64{"a": 1}) {
		t.Errorf("while one of two runs copies: %v", got)
	}
}

// TestLagOfUnknown: a run whose source has not told how many changes there are does not make the others' fewer.
func TestLagOfUnknown(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Node.StartupJitter = 0 })
	w.begin(work(t, "a", `,"continuous":true`), work(t, "b", `,"continuous":true`))
	w.copyOne(1)
	if lag := w.h.Lags(w.now.Steady)[""]; lag.Runs != 2 || lag.Changes != 8 {
		t.Errorf("the lag is %+v", lag)
	}
}
