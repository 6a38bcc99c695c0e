package host

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// since are the steps after the first n.
func (w *world) since(n int) string { return strings.Join(w.steps[n:], "; ") }

// TestRouting: what a run says reaches the node, and the other way round, each as a step of its own.
func TestRouting(t *testing.T) {
	w := running(t, work(t, "a", ""))
	if got := w.since(len(w.steps) - 2); !strings.HasPrefix(got, "run 1 begin; run 1 identifies as ") {
		t.Fatalf("it begins with %s", got)
	}
	n := len(w.steps)
	w.tell(RunEvent{1, replication.GiveWay{}}) // nothing is in flight yet
	if got := w.since(n); got != "run 1 give way; run 1 gives way" {
		t.Errorf("when it is to give way: %s", got)
	}
	n = len(w.steps)
	w.open(1)
	if got := w.since(n); !strings.HasSuffix(got, "run 1 identified") {
		t.Errorf("after the claim: %s", got)
	}
	n = len(w.steps)
	w.tell(node.Drain{})
	if got := w.since(n); got != "drain; run 1 stop; run 1 end stopped" {
		t.Errorf("when it drains: %s", got)
	}
	if !slices.Equal(w.closed, []uint64{1}) || len(w.over) != 4 || w.h.Run(1) != nil {
		t.Errorf("closed %v, cancelled %v", w.closed, w.over)
	}
	done[node.Requeue](w, node.Ok{})
	done[node.Accept](w, node.Accepted{})
	done[node.Charge](w, node.Ok{})
	retire := w.asks[len(w.asks)-1]
	w.h.Tell(node.Done{ID: retire.ID, Result: node.Progressed{Done: true}})
	w.tell(node.Wake{})
	if w.steps[len(w.steps)-1] == "wake" {
		t.Error("it is told of more after its exit")
	}
	if !w.exited || w.h.Deadline() != instant.Never || w.h.Due(instant.Never-1) != nil {
		t.Errorf("it has not left: %v, due at %s", w.asks, w.h.Deadline())
	}
}

// TestKilled: the calls of a run that is killed are cancelled in order, each once, before its link is closed.
func TestKilled(t *testing.T) {
	w := running(t, work(t, "a", ""), work(t, "b", ""))
	w.pass(time.Second)
	done[node.Claim](w, node.Claimed{})
	done[node.Claim](w, node.Claimed{})
	w.pass(time.Second)
	other := w.calls(2)
	w.asks = nil
	w.tell(node.Notified{Topic: node.WorkerCalls})
	ask := w.asks[len(w.asks)-1]
	w.h.Tell(node.Done{ID: ask.ID, Fault: node.LeaseLost}) // both jobs may be another worker's
	var got []string
	for _, e := range w.h.Step(w.now) {
		switch e.(type) {
		case node.KillRun, RunEffect, Close:
			got = append(got, e.String())
		}
		w.perform(e)
	}
	want := []string{
		"kill run 1", "run 1 cancel 1", "run 1 cancel 2", "run 1 cancel 3", "run 1 cancel 4", "close run 1",
		"kill run 2", "run 2 cancel 1", "run 2 cancel 2", "run 2 cancel 3", "run 2 cancel 4", "close run 2",
	}
	if !slices.Equal(got, want) || len(other) != 4 {
		t.Errorf("got %q", got)
	}
}

// TestKilledAfterItsEnd: a run that is killed by what was on its way when it ended is closed once.
func TestKilledAfterItsEnd(t *testing.T) {
	w := running(t, work(t, "a", ""))
	w.open(1)
	w.asks = nil
	w.tell(node.Notified{Topic: node.WorkerCalls})
	ask := w.asks[len(w.asks)-1]
	w.h.Tell(RunEvent{1, replication.Stop{}})
	w.h.Tell(node.Done{ID: ask.ID, Fault: node.LeaseLost}) // before the node hears of the end
	n := len(w.steps)
	w.tell(RunEvent{1, replication.Wake{}})
	if got := w.since(n); !slices.Equal(w.closed, []uint64{1}) || !strings.HasPrefix(got, "run 1 stop; done") ||
		!strings.HasSuffix(got, "run 1 end stopped") {
		t.Errorf("closed %v: %s", w.closed, got)
	}
}

// TestLate: what comes for a call that is not in flight, or a run that is gone, is no step of anything.
func TestLate(t *testing.T) {
	w := running(t, work(t, "a", ""))
	w.open(1)
	ids := w.calls(1)
	opened := peer.Reply{Result: peer.Opened{InstanceStartTime: "0"}}
	w.reply(1, ids[0], opened)
	for what, late := range map[string]RunEvent{
		"answered":  {1, replication.Reply{ID: ids[0], Reply: opened}},
		"never was": {1, replication.Reply{ID: 99, Reply: opened}},
		"no run":    {7, replication.Reply{ID: ids[1], Reply: opened}},
		"no wake":   {7, replication.Wake{}},
	} {
		n := len(w.steps)
		if w.tell(late); len(w.steps) != n {
			t.Errorf("%s: %s", what, w.since(n))
		}
	}
	w.tell(node.Drain{})
	n := len(w.steps)
	w.reply(1, ids[1], opened)
	w.tell(RunEvent{1, replication.Identified{}})
	if len(w.steps) != n {
		t.Errorf("after its end: %s", w.since(n))
	}
}

// TestQueuedForGone: what a step brought about for a run is dropped when the run is gone by its turn.
func TestQueuedForGone(t *testing.T) {
	w := running(t, work(t, "a", ""))
	w.open(1)
	n := len(w.steps)
	w.h.Tell(node.Drain{})                          // brings about Stop, by which the run ends
	w.h.Tell(RunEvent{1, replication.Stop{}})       // comes before that
	w.h.Tell(RunEvent{1, replication.Identified{}}) // comes when the run is gone
	w.tell(RunEvent{1, replication.Wake{}})
	if got := w.since(n); got != "drain; run 1 stop; run 1 end stopped" {
		t.Errorf("stepped: %s", got)
	}
}

// TestRefused: a run that cannot be opened crashes in the place where it would have begun, and has no plan.
func TestRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.refuses = func(run uint64) bool { return run == 2 }
	done[node.Join](w, node.Ok{})
	n := len(w.steps)
	list := []jobstore.Work{work(t, "a", ""), work(t, "b", ""), work(t, "c", "")}
	done[node.Accept](w, node.Accepted{Work: list})
	var got []string
	for _, step := range w.steps[n+1:] {
		if !strings.Contains(step, "identifies") {
			got = append(got, step)
		}
	}
	want := []string{"run 1 begin", "run 2 end crashed: invalid_replication: no such place", "run 3 begin"}
	if !slices.Equal(got, want) {
		t.Errorf("stepped %q", got)
	}
	if len(w.plans) != 2 || w.h.Run(2) != nil {
		t.Errorf("plans %v", w.plans)
	}
	n = len(w.steps)
	w.h.Refuse(1, "too late")
	w.h.Refuse(2, "again")
	w.h.Refuse(9, "never was")
	if w.h.Next() != nil || w.h.Run(1) == nil {
		t.Errorf("a run is refused that has begun, or is gone: %s", w.since(n))
	}
}

// TestPlanComplete: no part of a plan is left out.
func TestPlanComplete(t *testing.T) {
	rec := jobstore.Record{Created: 5, RepID: "r", Lessons: jobstore.Lessons{Throttled: true}, ErrorCount: 2}
	rec.Stats.ListSaved, rec.Stats.DocsRead = [2]int64{1: 4}, 3
	rec.Refused = &jobstore.RefusedDocs{Listed: 1, Changes: 2}
	common := `,"continuous":true,"create_target":true,"create_target_params":{"q":"1"},"since_seq":"5"` +
		`,"on_refusal":"retry"`
	var missing []string
	for i, more := range []string{`,"filter":"d/f"`, `,"doc_ids":["a"]`} {
		w := newWorld(t, func(c *Config) { c.Memory, c.MaxListed, c.Broken = 77, 78, func(*invariant.Broken) {} })
		job, mine, read := work(t, "a", common+more), rec, int64(3)
		job.Replication.Target.Compression = spec.CompressOn
		if job.Record = &mine; i == 1 {
			mine.Reset, read = 9, 0
		}
		other := work(t, "b", "")
		other.Record.Refused = &jobstore.RefusedDocs{Of: "base"} // all that were listed have got through
		w.begin(job, other)
		w.pass(time.Second)
		// The one of two that waits a moment has a delay.
		plan := w.plans[1]
		if plan.Delay = max(plan.Delay, w.plans[2].Delay); plan.Seed == w.plans[2].Seed {
			t.Error("two runs have one seed")
		}
		if w.plans[2].Listed > 0 {
			t.Error("a run is to read an empty list")
		}
		if id := w.plans[2].ResumedID; other.Record.RepID == "" && id != "base" {
			t.Errorf("the list of a job whose id is not known yet is of %q", id)
		}
		base := repid.Base(repid.Version, repid.Server{UUID: "u"}, job.Replication, "")
		if ids := plan.IDs(""); ids.Bases[0] != base {
			t.Errorf("the replication has the id %s on this server, and runs under %v", base, ids)
		}
		zero := append(zeros(reflect.ValueOf(plan)), zeros(reflect.ValueOf(plan.Options))...)
		if i == 0 {
			missing = zero
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return !slices.Contains(zero, name) })
		if plan.Memory != 77 || plan.MaxListed != 78 {
			t.Errorf("limits %d and %d", plan.Memory, plan.MaxListed)
		}
		if plan.ResumedID != "r" || plan.Created != 5 || plan.Resumed.DocsRead != read ||
			plan.Workers != 2 {
			t.Errorf("%+v", plan)
		}
		if ids := plan.IDs("code"); len(ids.Bases) != 4 || ids.Extension == "" {
			t.Errorf("%+v", ids)
		}
	}
	if len(missing) > 0 {
		t.Errorf("never set: %q", missing)
	}
}

func zeros(v reflect.Value) (names []string) {
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

// TestCrashesOfPlan: a run is told of all crashes in a row, and of those of long runs that got no further.
func TestCrashesOfPlan(t *testing.T) {
	for _, c := range [][3]int{{0, 0, 0}, {2, 0, 2}, {1, 5, 5}} {
		w := newWorld(t, nil)
		job := work(t, "a", "")
		job.Record.ErrorCount, job.Record.Stuck = c[0], c[1]
		w.begin(job)
		w.pass(time.Second)
		if got := w.plans[1].Crashes; got != c[2] {
			t.Errorf("after %d crashes, and %d without getting further, a run is told of %d", c[0], c[1], got)
		}
	}
}

// TestIntervalOfLaterSettings: a run goes by the settings with which it begins.
func TestIntervalOfLaterSettings(t *testing.T) {
	w := running(t, work(t, "a", ""))
	later := node.DefaultSettings()
	later.ProgressInterval, later.StallTimeout = 77*time.Second, 78*time.Second
	w.tell(node.Configure{Settings: later})
	done[node.Accept](w, node.Accepted{Work: []jobstore.Work{work(t, "b", "")}})
	before, after := w.plans[1].ProgressInterval, w.plans[2].ProgressInterval
	if before == after || after != later.ProgressInterval {
		t.Errorf("%s before the change, %s after", before, after)
	}
	before, after = w.plans[1].StallTimeout, w.plans[2].StallTimeout
	if before != node.DefaultSettings().StallTimeout || after != later.StallTimeout {
		t.Errorf("a run is stalled after %s before the change, %s after", before, after)
	}
}

// TestRunsGoFirst: of a run and the node that are both due the run is woken first, so that it may end before
// the node would kill it.
func TestRunsGoFirst(t *testing.T) {
	w := running(t, work(t, "a", ""), work(t, "b", "")) // one of the two waits a moment
	late := w.now.Steady.Add(time.Hour)
	if ev, is := w.h.Due(late).(RunEvent); !is || w.h.Node().Deadline() > late {
		t.Errorf("%v is due, and the node at %s", ev, w.h.Node().Deadline())
	}
}

// TestPlanOfRecording: a plan may come from elsewhere.
func TestPlanOfRecording(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Plan = func(s node.StartRun) replication.Plan {
			ids := replication.IDs{Bases: []string{"x"}}
			return replication.Plan{Seed: s.Run + 100, IDs: func(string) replication.IDs { return ids }}
		}
	})
	w.begin(work(t, "a", ""))
	if w.plans[1].Seed != 101 || !strings.HasSuffix(w.since(0), "identifies as x") {
		t.Errorf("%+v, %s", w.plans[1], w.since(0))
	}
}

// TestEvents: nothing is done without an event, before the first nobody is due, and other events are a
// mistake.
func TestEvents(t *testing.T) {
	h := New(Config{Node: node.Config{Settings: node.DefaultSettings(), Roles: node.AllRoles, Worker: "w"}})
	if h.Next() != nil || h.Step(node.Clock{}) != nil || h.Deadline() != instant.Never || h.Due(5) != nil {
		t.Error("it has something to do")
	}
	h.Tell(node.Start{})
	effects := h.Step(node.Clock{Steady: 5, Wall: 5})
	if len(effects) == 0 || h.Deadline() == instant.Never || h.Node().MaxJobs() != 500 {
		t.Error("it does not begin")
	}
	defer func() {
		if recover() == nil {
			t.Error("it takes any event")
		}
	}()
	h.Tell(instant.Time(5))
	h.Step(node.Clock{})
}
