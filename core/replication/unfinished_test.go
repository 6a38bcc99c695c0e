package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// leftOut has a run leave doc3 out, which cannot be copied, and end.
func leftOut(t *testing.T) *world {
	w := newWorld(t)
	w.plan.Crashes, w.plan.BatchSize = lenientAfter, 40
	w.fill(40)
	down := peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 500}
	w.bad(down, func(peer.CopyDoc) *peer.Reply { return &peer.Reply{Failure: &down} })
	w.begin()
	w.wantEnd(Completed, "")
	if !w.lists("doc3", "1-a") {
		t.Fatal("doc3 is not listed")
	}
	w.reply = nil
	return w
}

func (w *world) unfinished(on peer.Side) bool {
	log, err := checkpoint.Parse(w.dbs[on].local["four"].body)
	if err != nil {
		w.t.Fatal(err)
	}
	return log.Newest().List != checkpoint.List{}
}

// TestCheckpointWithoutList: a checkpoint is due at once if the last one relies on the list without need.
func TestCheckpointWithoutList(t *testing.T) {
	for unfinished, soon := range map[bool]bool{false: true, true: false} {
		r := New(Plan{Options: Options{UseCheckpoints: true, CheckpointInterval: time.Minute}})
		k := &r.commits
		k.begin(checkpoint.Entry{List: checkpoint.List{Job: "j", Changes: 1}}, nil)
		k.moved, k.rows, k.refused.unfinished = true, 1, unfinished
		if at := k.due(); (at == k.now) != soon {
			t.Errorf("unfinished %t: due at %s", unfinished, at)
		}
	}
}

// TestListIsGone: a run finds checkpoints which cover a document that only a list had, and has no such list: its job
// was made again, or its service was put back to a backup. It copies all anew, however often it is killed, and its
// checkpoints rely on no list any more.
func TestListIsGone(t *testing.T) {
	for _, kills := range []int{0, 1, 3} {
		w := leftOut(t)
		clear(w.list)
		w.plan.Crashes, w.plan.BatchSize = 0, 4
		for n := range kills {
			w.begin()
			for range 12 + 6*n {
				w.proceed(first)
			}
		}
		w.begin()
		w.wantEnd(Completed, "")
		w.checkCompleted()
		if w.unfinished(peer.Source) || w.unfinished(peer.Target) {
			t.Error("the checkpoints rely on a list")
		}
		calls := len(w.calls)
		w.begin()
		w.wantEnd(Completed, "")
		if slices.ContainsFunc(w.calls[calls:], func(c string) bool { return strings.HasPrefix(c, "diff") }) {
			t.Errorf("all is compared again: %v", w.calls[calls:])
		}
	}
}

// TestLogsGoBeforeTheCopy: a run that copies all anew reads no changes before both databases have forgotten their logs.
func TestLogsGoBeforeTheCopy(t *testing.T) {
	last := func(n int) int { return n - 1 }
	for _, choose := range []func(int) int{first, last} {
		w := leftOut(t)
		clear(w.list)
		w.reply = func(c Call) *peer.Reply {
			if _, is := c.Op.(peer.ReadChanges); is && (w.unfinished(peer.Source) || w.unfinished(peer.Target)) {
				t.Errorf("%s, and there still is a log", c.Op)
			}
			return nil
		}
		w.begin()
		w.runToEnd(choose)
	}
}

// TestListOfGoneIsNeeded: under on_refusal fail a listed revision stays listed that the source does not have for a
// while. A job that is made anew has no list, and gets the document once the source has it again.
func TestListOfGoneIsNeeded(t *testing.T) {
	w := leftOut(t)
	w.plan.OnRefusal, w.plan.Continuous = spec.FailRefused, true
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.CopyDoc)
		if !is {
			return nil
		}
		return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0], Missing: true}}}}
	}
	w.begin()
	w.until(10 * time.Minute)
	if len(w.list) != 1 {
		t.Fatalf("listed %v", w.list)
	}
	clear(w.list)
	w.reply, w.plan.Crashes, w.plan.Continuous = nil, 0, false
	w.begin()
	w.wantEnd(Completed, "")
	w.checkCompleted()
}

// TestListOfAnotherReplication: a job has a list, which goes with its checkpoints unless the job was another
// replication when it got it.
func TestListOfAnotherReplication(t *testing.T) {
	for was, anew := range map[string]bool{"": false, "four+continuous": false, "five": true} {
		w := leftOut(t)
		w.plan.ResumedID = was
		calls := len(w.calls)
		w.begin()
		w.wantEnd(Completed, "")
		if got := slices.Contains(w.calls[calls:], "read changes since 0 limit 120 normal"); got != anew {
			t.Errorf("was %q: begins anew: %v, want %v", was, got, anew)
		}
	}
}

// TestListBecomesNeeded: documents were listed that nothing was to try again, so checkpoints relied on no list. Now the
// replication is to try them, so the next checkpoint does, for a job that is made anew.
func TestListBecomesNeeded(t *testing.T) {
	w := refusing(t, spec.SkipRefused)
	w.begin()
	w.wantEnd(Completed, "")
	if w.unfinished(peer.Target) {
		t.Fatal("a checkpoint relies on a list under skip")
	}
	w.plan.OnRefusal, w.plan.Continuous, w.plan.CheckpointInterval = spec.RetryRefused, true, time.Second
	w.begin()
	if w.until(firstRefusedPause / 2); !w.unfinished(peer.Target) {
		t.Error("the checkpoint relies on no list under retry")
	}
}

// TestListHeals: once nothing of a list is tried again, a checkpoint says so, though no change has come.
func TestListHeals(t *testing.T) {
	w := leftOut(t)
	w.plan.Continuous = true
	w.begin()
	if !w.unfinished(peer.Source) || !w.unfinished(peer.Target) {
		t.Fatal("the checkpoints rely on no list")
	}
	w.until(time.Hour)
	if len(w.list) > 0 || w.unfinished(peer.Source) || w.unfinished(peer.Target) {
		t.Errorf("listed %v; the checkpoints rely on a list: %v, %v", w.list,
			w.unfinished(peer.Source), w.unfinished(peer.Target))
	}
}

// TestHealedIsSaidAtOnce: a list becomes empty, and soon the run is killed. The next one has no list, and finds a
// checkpoint that relies on none.
func TestHealedIsSaidAtOnce(t *testing.T) {
	w := leftOut(t)
	w.plan.Continuous, w.plan.CheckpointInterval = true, time.Hour
	w.begin()
	for len(w.list) > 0 {
		w.proceed(first)
	}
	w.until(time.Second)
	w.plan.Continuous, w.calls = false, nil
	w.begin()
	if w.wantEnd(Completed, ""); w.feedStart() == "0" {
		t.Error("the next run begins anew")
	}
}

// TestRefusedForGood: what is refused, and not tried again, makes no checkpoint rely on the list: another job would not
// try it either.
func TestRefusedForGood(t *testing.T) {
	for policy, want := range map[spec.OnRefusal]bool{spec.SkipRefused: false, spec.RetryRefused: true} {
		w := refusing(t, policy)
		w.begin()
		w.until(time.Minute)
		if got := w.unfinished(peer.Target); got != want || len(w.list) == 0 {
			t.Errorf("%q: the checkpoints rely on the list: %v; it has %v", policy, got, w.list)
		}
	}
}

// TestFailedIsRefused: what could not be copied turns out to be refused, and under skip is not tried again. So the
// checkpoint relies on the list no more.
func TestFailedIsRefused(t *testing.T) {
	w := leftOut(t)
	w.refuses["doc3"] = true
	w.plan.Continuous = true
	w.begin()
	w.until(time.Hour)
	if len(w.list) != 1 || w.unfinished(peer.Target) {
		t.Errorf("listed %v; the checkpoint relies on a list: %v", w.list, w.unfinished(peer.Target))
	}
}

// TestListedAsPassBegins: a pass begins before the store is told of what was refused in the same step, so no page shows
// it. The checkpoint relies on it all the same, once it is listed.
func TestListedAsPassBegins(t *testing.T) {
	for _, told := range []string{"before", "after"} { // the end of the pass
		w := newWorld(t)
		w.plan.OnRefusal = spec.RetryRefused
		w.begin()
		f := &w.run.refused
		f.begin()
		f.list(&batch{}, Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-a", Status: 403}})
		f.passBy(0)
		if f.passWhenDue(); !f.passing {
			t.Fatal("no pass begins")
		}
		f.store()
		if told == "before" {
			f.onStored()
		}
		if f.onPage(RefusedPage{}); f.passing || f.unfinished != (told == "before") {
			t.Errorf("stored %s the end: passing %v, unfinished %v", told, f.passing, f.unfinished)
		}
		if f.onStored(); told == "after" && !f.unfinished {
			t.Error("what was stored after the pass does not count")
		}
	}
}

// TestStoppedBeforeListed: a run stops before the store has what was refused. Its last checkpoint does not rely on a
// list that is empty: the next run would read everything again.
func TestStoppedBeforeListed(t *testing.T) {
	w := newWorld(t)
	w.plan.OnRefusal, w.plan.Continuous, w.deaf = spec.RetryRefused, true, true
	w.fill(40)
	w.refuses["doc30"] = true
	w.begin()
	for len(w.asks) == 0 {
		w.proceed(first)
	}
	w.step(Stop{})
	if w.wantEnd(Stopped, ""); w.unfinished(peer.Target) {
		t.Error("the checkpoint relies on a list that is empty")
	}
	w.deaf, w.plan.Continuous, w.calls = false, false, nil
	w.begin()
	if w.wantEnd(Completed, ""); w.feedStart() == "0" {
		t.Error("the next run begins anew")
	}
}

// TestListIsGoneOfReadOnlySource: a source that may only be read by now keeps a log that relies on a list. It has
// nobody compare all anew with each run.
func TestListIsGoneOfReadOnlySource(t *testing.T) {
	for healed, starts := range map[bool]string{false: `0 "40-opaque" "40-opaque"`, true: `"40-opaque" "40-opaque"`} {
		w := leftOut(t)
		w.refuseLogs(403)
		if w.plan.Crashes = 0; healed {
			w.begin()
			w.wantEnd(Completed, "")
		}
		clear(w.list)
		var began []string
		for range strings.Fields(starts) {
			w.calls = nil
			w.begin()
			w.wantEnd(Completed, "")
			began = append(began, w.feedStart())
		}
		if got := strings.Join(began, " "); got != starts || !w.unfinished(peer.Source) {
			t.Errorf("healed %v: runs began at %s, want %s", healed, got, starts)
		}
	}
}

// TestPutBackToListed: a target is put back to a backup that lacks what has left the list since. The list has other
// revisions, and lacks it. So all is copied anew, once.
func TestPutBackToListed(t *testing.T) {
	w := leftOut(t)
	backup := w.dbs[peer.Target].backup()
	w.plan.OnRefusal = spec.RetryRefused
	w.refuses["new"] = true
	w.dbs[peer.Source].write("new", "1-a")
	w.begin()
	if w.wantEnd(Completed, ""); w.lists("doc3", "1-a") || !w.lists("new", "1-a") {
		t.Fatalf("the list has %v", w.list)
	}
	w.dbs[peer.Target] = backup
	w.begin()
	w.wantEnd(Completed, "")
	if !backup.has("doc3", "1-a") {
		t.Error("doc3 is neither on the target nor in the list")
	}
	w.calls = nil
	w.begin()
	if w.wantEnd(Completed, ""); w.feedStart() == "0" {
		t.Error("all is copied anew once more")
	}
}

// TestSourcePutBackWithList: a source is put back to a backup whose log the target's has forgotten. The target has all
// that has left the list, and a job whose record does not tell what the source had goes on from the checkpoint that
// both logs have. Else all is copied anew: the list may have newer revisions than the backup.
func TestSourcePutBackWithList(t *testing.T) {
	for _, told := range []bool{false, true} {
		sourcePutBack(t, told)
	}
}

func sourcePutBack(t *testing.T, told bool) {
	w := leftOut(t)
	w.plan.OnRefusal, w.refuses["doc3"], w.plan.Continuous = spec.RetryRefused, true, true
	w.begin()
	var backup *database
	for n := range 9 {
		if n == 5 {
			backup = w.dbs[peer.Source].backup()
		}
		w.dbs[peer.Source].write(fmt.Sprint("new", n), "1-a")
		w.until(time.Minute)
	}
	w.dbs[peer.Source], w.plan.Continuous, w.calls = backup, false, nil
	if !told {
		w.saved = [2]int64{}
	}
	if w.logOn(peer.Target).Has(w.logOn(peer.Source).SessionID) {
		t.Fatal("the target's log has that of the backup")
	}
	w.begin()
	if w.wantEnd(Completed, ""); (w.feedStart() == "0") != told {
		t.Errorf("told %t: it begins at %s", told, w.feedStart())
	}
}

// TestKilledBetweenLogs: a run is killed after its log was written to the target. The next one has its list, and
// goes on.
func TestKilledBetweenLogs(t *testing.T) {
	w := leftOut(t)
	w.dbs[peer.Source].write("new", "1-a")
	w.plan.OnRefusal, w.refuses["doc3"] = spec.RetryRefused, true
	w.begin()
	written := func(c Call) bool { put, is := c.Op.(peer.PutLocal); return is && put.Side == peer.Source }
	for !slices.ContainsFunc(w.flying, written) {
		w.proceed(first)
	}
	w.calls = nil
	w.begin()
	if w.wantEnd(Completed, ""); w.feedStart() != `"40-opaque"` {
		t.Errorf("the next run begins at %s", w.feedStart())
	}
}

// TestSpoiledForGood: a document that is answered 400 is listed and tried again, and a job that is made anew leaves it
// out at once, as CouchDB does, and goes on from the checkpoint.
func TestSpoiledForGood(t *testing.T) {
	w := newWorld(t)
	w.fill(10)
	w.unreadable(peer.Failure{Side: peer.Target, Kind: peer.Status, Status: 400, Error: "bad_request"}, "doc3")
	for range 3 {
		w.begin()
		if w.wantEnd(Completed, ""); len(w.list) != 1 || w.unfinished(peer.Target) {
			t.Errorf("listed %v; the checkpoint relies on a list: %v", w.list, w.unfinished(peer.Target))
		}
	}
}

// TestPutBackToSomeListed: of a list some get through, without any change at the source, and then the target is put
// back to a backup. The list has the others, and lacks what the target does. So all is copied anew, once.
func TestPutBackToSomeListed(t *testing.T) {
	w := refusing(t, spec.RetryRefused)
	w.begin()
	w.wantEnd(Completed, "")
	backup := w.dbs[peer.Target].backup()
	delete(w.refuses, "doc3")
	w.plan.Continuous = true
	w.begin()
	if w.until(time.Hour); w.lists("doc3", "1-a") || len(w.list) != 5 {
		t.Fatalf("the list has %v", w.list)
	}
	w.dbs[peer.Target], w.plan.Continuous = backup, false
	w.begin()
	if w.wantEnd(Completed, ""); !backup.has("doc3", "1-a") {
		t.Error("doc3 is neither on the target nor in the list")
	}
	w.calls = nil
	w.begin()
	if w.wantEnd(Completed, ""); w.feedStart() == "0" {
		t.Error("all is copied anew once more")
	}
}

// TestListPutBack: a service is put back to a backup, from when its list had less than the checkpoints rely on. A list
// that has changed since the checkpoint is none of that kind.
func TestListPutBack(t *testing.T) {
	for name, c := range map[string]struct {
		changes int64
		anew    bool
	}{
		"put back": {-1, true}, "as it was": {0, false}, "changed since": {1, false},
	} {
		w := refusing(t, spec.RetryRefused)
		w.begin()
		w.wantEnd(Completed, "")
		w.changes += c.changes
		if c.anew {
			delete(w.list, peerRev{"doc3", "1-a"})
		}
		w.calls = nil
		w.begin()
		if w.wantEnd(Completed, ""); (w.feedStart() == "0") != c.anew || !w.lists("doc3", "1-a") {
			t.Errorf("%s: the run began at %s, and lists %v", name, w.feedStart(), w.list)
		}
	}
}
