package replication

import (
	"strings"
	"testing"

	"couchrelay/core/invariant"
	"couchrelay/core/peer"
)

// TestBreachEndsTheRun: whatever invariant breaks in the middle of a run, the run ends as crashed without one
// more request, above all without a checkpoint, and says which invariant it was.
func TestBreachEndsTheRun(t *testing.T) {
	for name, damage := range map[string]func(*Run){
		"replication.memory":  func(r *Run) { r.work.memory -= 1 << 30 },
		"replication.copies":  func(r *Run) { r.work.copies-- },
		"replication.pending": func(r *Run) { r.work.batches[0].pending-- },
		"replication.workers": func(r *Run) { r.plan.MaxWorkers = 0 },
		"replication.order":   func(r *Run) { r.work.batches = r.work.batches[1:] },
		"replication.commits": func(r *Run) { r.commits.step = syncing },
		"replication.looks":   func(r *Run) { r.watch.answers-- },
		"replication.writes":  func(r *Run) { r.work.packing.flying[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			w := halfway(t)
			var reported []string
			w.run.plan.Broken = func(b *invariant.Broken) { reported = append(reported, b.ID.Name()) }
			damage(w.run)
			effects := w.run.Step(w.now, Wake{})
			if len(reported) != 1 || reported[0] != name {
				t.Fatalf("reported are %q; effects: %v", reported, effects)
			}
			end, is := effects[0].(End)
			if len(effects) != 1 || !is || end.Cause != Crashed || end.Trouble.Error != "invariant_broken" ||
				!strings.Contains(end.Trouble.Reason, name) {
				t.Errorf("effects are %v", effects)
			}
			if more := w.run.Step(w.now, Reply{ID: w.flying[0].ID}); len(more) > 0 {
				t.Errorf("after its end the run wants %v", more)
			}
		})
	}
}

// TestBreachDropsEffects: nothing is done of what the step decided that broke an invariant.
func TestBreachDropsEffects(t *testing.T) {
	for _, broken := range []bool{false, true} {
		w := halfway(t)
		w.run.plan.Broken = func(*invariant.Broken) {}
		if broken {
			w.run.work.copies--
		}
		c := w.flying[0]
		effects := w.run.Step(w.now, Reply{ID: c.ID, Reply: w.perform(c)})
		_, calls := effects[0].(Call)
		if calls == broken || broken && len(effects) != 1 {
			t.Errorf("broken: %v; after %s the effects are %v", broken, c.Op, effects)
		}
	}
}

// TestBreachPanics: without a reporter, as in the simulator, a broken invariant stops whatever steps the run.
func TestBreachPanics(t *testing.T) {
	w := halfway(t)
	w.run.work.memory = -1
	defer func() {
		if b, is := recover().(*invariant.Broken); !is || b.ID != memoryAgrees {
			t.Errorf("recovered %v", b)
		}
	}()
	w.run.Step(w.now, Wake{})
	t.Error("no panic")
}

// halfway is a world whose run has asked what the target lacks of its first batches.
func halfway(t *testing.T) *world {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		w.dbs[peer.Source].write(id, "1-x")
	}
	w.begin()
	for len(w.run.work.batches) < 2 {
		w.proceed(func(int) int { return 0 })
	}
	return w
}

// TestPassedInOrder: a batch that is not done, or that follows a gap, is never passed.
func TestPassedInOrder(t *testing.T) {
	for name, b := range map[string]batch{
		"replication.done":  {first: 1, number: 1, stage: done, pending: 1},
		"replication.order": {first: 2, number: 2, stage: done},
	} {
		func() {
			defer func() {
				if broken, is := recover().(*invariant.Broken); !is || broken.ID.Name() != name {
					t.Errorf("%s: recovered %v", name, broken)
				}
			}()
			(&committer{}).passed(&b)
		}()
	}
}

// TestTooManyBatches: batches that a worker has begun are no more than the run may work on at once.
func TestTooManyBatches(t *testing.T) {
	for _, stage := range []stage{queued, diffing, moving, done} {
		p := &New(Plan{Options: Options{Workers: 1, MaxWorkers: 1, BatchSize: 1, Connections: 6}}).work
		work := 0
		for range 2 {
			p.queueBatch(nil, "1")
			p.batches[len(p.batches)-1].stage = stage
			if stage == diffing {
				work++
			}
		}
		func() {
			defer func() {
				broken, is := recover().(*invariant.Broken)
				if begun := stage == diffing || stage == moving; is != begun || is && broken.ID != withinLimit {
					t.Errorf("two at stage %d: %v", stage, broken)
				}
			}()
			p.audit(work, 0, 0)
		}()
	}
}
