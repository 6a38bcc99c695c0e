package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/prng"
	"couchrelay/core/spec"
)

// refusing is a world of 20 documents, of which the target refuses six.
func refusing(t *testing.T, policy spec.OnRefusal) *world {
	w := newWorld(t)
	w.plan.OnRefusal = policy
	w.fill(20)
	for i := range 6 {
		w.refuses[fmt.Sprint("doc", 3*i)] = true
	}
	return w
}

func TestRefusedDocumentsAreListed(t *testing.T) {
	for policy, attempts := range map[spec.OnRefusal]int{spec.SkipRefused: 1, spec.RetryRefused: 2} {
		for _, bulk := range []bool{true, false} {
			w := refusing(t, policy)
			w.plan.UseBulkGet = bulk
			w.begin()
			if end := w.runToEnd(first); end.Cause != Completed || len(w.list) != 6 {
				t.Fatalf("%q: %s, listed %v", policy, end, w.list)
			}
			if n := w.count("diff"); n != 5+2*(attempts-1) { // of 5 batches, and of 2 pages for each further attempt
				t.Errorf("%q: the target is asked %d times what it lacks", policy, n)
			}
			for at, row := range w.list {
				if !w.refuses[at.id] || at.rev != "1-a" || row.Error != "forbidden" || row.attempts != attempts {
					t.Errorf("%q: %v is listed as %+v", policy, at, row)
				}
			}
		}
	}
}

// TestLongRefusal: of the target's words a part is listed, or the store could not take them.
func TestLongRefusal(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	words := "a" + strings.Repeat("\u00fc", maxRefusalText) // which is to be cut within a character
	w.reply = func(c Call) *peer.Reply {
		if _, is := c.Op.(peer.WriteDocs); !is {
			return nil
		}
		return &peer.Reply{Failure: &peer.Failure{
			Side: peer.Target, Kind: peer.Status, Status: 413, Error: words, Reason: words,
		}}
	}
	w.refuses["doc0"] = true
	w.begin()
	w.wantEnd(Completed, "")
	listed := w.list[peerRev{"doc0", "1-a"}]
	if listed == nil {
		t.Fatal("the document is not listed")
	}
	for _, text := range []string{listed.Error, listed.Reason} {
		if len(text) != maxRefusalText-1+len("...") || !utf8.ValidString(text) {
			t.Errorf("listed %+v", listed)
		}
	}
}

// TestFailAtFirstRefusal: the run ends in the step in which it learns of a refusal, and no checkpoint has the
// document.
func TestFailAtFirstRefusal(t *testing.T) {
	for _, bulk := range []bool{true, false} {
		w := refusing(t, spec.FailRefused)
		w.plan.UseBulkGet, w.plan.BatchSize, w.plan.Workers = bulk, 1, 1
		w.begin()
		end := w.runToEnd(first)
		why := end.Trouble.Reason
		if end.Cause != Failed || end.Trouble.Error != "refused" || end.Refused == nil || end.Refused.ID != "doc0" ||
			!strings.Contains(why, `"doc0", revision 1-a: `) || !strings.Contains(why, "forbidden") {
			t.Errorf("%s, %+v", end, end.Refused)
		}
		if n := len(w.dbs[peer.Target].at) - 1; n > 0 || len(w.dbs[peer.Target].local) > 0 {
			t.Errorf("%d documents and a checkpoint come behind the first one", n)
		}
	}
}

// TestListIsStoredBeforeBatchIsDone: as long as the list has not been stored nothing is checkpointed.
func TestListIsStoredBeforeBatchIsDone(t *testing.T) {
	w := refusing(t, spec.SkipRefused)
	w.deaf = true
	w.begin()
	for range 100 {
		w.proceed(first)
	}
	if len(w.asks) != 1 || w.run.Info().ThroughSeq != peer.Zero {
		t.Errorf("it waits for %v, through %s", w.asks, w.run.Info().ThroughSeq)
	}
	w.deaf = false
	if end := w.runToEnd(first); end.Cause != Completed {
		t.Error(end)
	}
}

// until lets the world go on for some time.
func (w *world) until(wait time.Duration) {
	for end := w.now.Add(wait); w.now < end && w.end == nil; {
		w.proceed(first)
	}
}

// copiesOf are the times since the beginning at which a document was copied.
func copiesOf(w *world, id string, wait time.Duration) (at []time.Duration) {
	began := w.now
	for end := w.now.Add(wait); w.now < end; {
		n := len(w.calls)
		w.proceed(first)
		for _, c := range w.calls[n:] {
			if strings.HasPrefix(c, fmt.Sprintf("copy %q", id)) {
				at = append(at, w.now.Sub(began))
			}
		}
	}
	return at
}

// TestPausesOfRefusedDocuments: refused documents are tried again, less and less often, and heal once the
// target takes them.
func TestPausesOfRefusedDocuments(t *testing.T) {
	w := refusing(t, spec.RetryRefused)
	w.plan.Continuous, w.plan.ProgressInterval, w.plan.CheckpointInterval = true, time.Hour, time.Hour
	w.begin()
	var gaps []time.Duration
	at := copiesOf(w, "doc3", 30*time.Hour)
	for i := range at[1:] {
		gap := at[i+1] - at[i]
		if gap > time.Second { // the target is asked whether it still lets us in, and then once more
			gaps = append(gaps, gap)
		}
	}
	if len(gaps) < 9 || len(gaps) > 16 {
		t.Fatalf("pauses of %v", gaps)
	}
	for i, gap := range gaps {
		if want := refusedPause(i + 2); gap < want*3/4 || gap > want*5/4 {
			t.Errorf("pause %d is %s, and should be %s", i, gap, want)
		}
	}
	clear(w.refuses)
	w.until(maxRefusedPause * 5 / 4)
	if len(w.list) > 0 || !w.dbs[peer.Target].has("doc3", "1-a") {
		t.Errorf("after the correction are listed: %v", w.list)
	}
	if n := len(copiesOf(w, "doc3", 24*time.Hour)); n > 0 {
		t.Errorf("%d copies after that", n)
	}
}

// TestAttemptsAreSpread: runs that meet the same refusals at one moment do not try all of them again at one moment.
func TestAttemptsAreSpread(t *testing.T) {
	moments := map[time.Duration]bool{}
	for run := range 5 {
		w := refusing(t, spec.RetryRefused)
		w.plan.Continuous, w.plan.Seed = true, uint64(100*run)
		w.begin()
		at := copiesOf(w, "doc3", 15*time.Minute)
		moments[at[len(at)-1]] = true
	}
	if len(moments) < 3 {
		t.Errorf("five runs tried at %v", moments)
	}
}

// TestHiccupWhenTriedAgain: a target that is busy for a moment while a refused document is tried again is asked once
// more soon, and not at the next attempt.
func TestHiccupWhenTriedAgain(t *testing.T) {
	w := refusing(t, spec.RetryRefused)
	w.plan.Continuous = true
	w.begin()
	w.until(time.Second)
	clear(w.refuses)
	var busy instant.Time
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.CopyDoc)
		if !is || op.ID != "doc3" || busy > 0 {
			return nil
		}
		busy = w.now
		refusal := &peer.Refusal{ID: op.ID, Rev: op.Revs[0], Status: 503, Error: "busy"}
		return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0], Refused: refusal}}}}
	}
	for end := w.now.Add(maxRefusedPause); !w.dbs[peer.Target].has("doc3", "1-a") && w.now < end; {
		w.proceed(first)
	}
	if passed := w.now.Sub(busy); busy == 0 || passed > 5*time.Second {
		t.Errorf("it was copied after %s", passed)
	}
}

// TestListedByAClockAhead: a document that was listed by a clock which was days ahead does not wait for as long.
func TestListedByAClockAhead(t *testing.T) {
	w := refusing(t, spec.RetryRefused)
	w.begin()
	w.wantEnd(Completed, "")
	for _, row := range w.list {
		row.last = w.now.Add(100 * time.Hour)
	}
	w.plan.Continuous = true
	w.begin()
	clear(w.refuses)
	if w.until(time.Minute); len(w.list) > 0 {
		t.Errorf("listed are still %v", w.list)
	}
}

// TestTryRefused: an operator need not wait for the next attempt, whatever the policy.
func TestTryRefused(t *testing.T) {
	for _, policy := range []spec.OnRefusal{spec.SkipRefused, spec.RetryRefused} {
		w := refusing(t, policy)
		w.plan.Continuous = true
		w.begin()
		w.until(5 * time.Hour)
		clear(w.refuses)
		w.asked = true
		w.step(TryRefused{})
		w.until(time.Second)
		if len(w.list) > 0 || !w.dbs[peer.Target].has("doc3", "1-a") {
			t.Errorf("%q: listed are still %v", policy, w.list)
		}
	}
}

// TestRefusedAncestor: a refused revision that comes as an ancestor of a newer one leaves the list soon.
func TestRefusedAncestor(t *testing.T) {
	w := refusing(t, spec.SkipRefused)
	w.plan.Continuous = true
	w.begin()
	w.until(time.Minute)
	clear(w.refuses)
	w.dbs[peer.Source].write("doc3", "2-b", "1-a")
	w.until(passSoon + time.Second)
	if w.list[peerRev{"doc3", "1-a"}] != nil || len(w.list) != 5 {
		t.Errorf("listed are %v", w.list)
	}
}

// TestWrittenDuringPass: what the feed brings over while a pass goes on, which has found it lacking, leaves the list,
// in whichever order answers come.
func TestWrittenDuringPass(t *testing.T) {
	for seed := range uint64(100) {
		w, rng := newWorld(t), prng.New(seed)
		w.plan.BatchSize = 1 // also of the pages
		w.fill(5)
		for i := range 5 {
			at := peerRev{fmt.Sprint("doc", i), "1-a"}
			w.list[at] = &entry{Finding{Refusal: peer.Refusal{ID: at.id, Rev: at.rev}}, 1, w.now}
		}
		w.begin()
		if end := w.runToEnd(rng.Intn); end.Cause != Completed || len(w.list) > 0 {
			t.Fatalf("seed %d: %s, listed are %v", seed, end, w.list)
		}
	}
}

// TestRefusedDuringPass: a document that the target refuses while a pass goes on, whose pages did not have it, is
// looked at as soon as a newer revision of it was written.
func TestRefusedDuringPass(t *testing.T) {
	for seed := range uint64(20) {
		w, rng := refusing(t, spec.SkipRefused), prng.New(seed)
		w.plan.Continuous = true
		earlier := Finding{Refusal: peer.Refusal{ID: "doc1", Rev: "1-a"}}
		w.list[peerRev{"doc1", "1-a"}] = &entry{earlier, 1, w.now}
		w.begin()
		for end := w.now.Add(time.Minute); w.now < end; {
			w.proceed(rng.Intn)
		}
		clear(w.refuses)
		w.dbs[peer.Source].write("doc3", "2-b", "1-a")
		w.until(passSoon + time.Second)
		if w.list[peerRev{"doc3", "1-a"}] != nil || len(w.list) != 5 {
			t.Fatalf("seed %d: listed are %v", seed, w.list)
		}
	}
}

// TestPagesOfTheList: a run that begins goes through the whole list, page by page, and takes out what the
// target has got meanwhile.
func TestPagesOfTheList(t *testing.T) {
	const n = 10_001
	w := newWorld(t)
	w.plan.BatchSize = 500
	w.fill(n)
	for i := range n {
		at := peerRev{fmt.Sprint("doc", i), "1-a"}
		w.list[at] = &entry{Finding{Refusal: peer.Refusal{ID: at.id, Rev: at.rev}}, 1, w.now}
		if i%2 == 0 {
			w.dbs[peer.Target].write(at.id, at.rev)
		} else {
			w.refuses[at.id] = true
		}
	}
	w.rows = func(op peer.ReadChanges) peer.Changes { // a checkpoint covers all
		return peer.Changes{LastSeq: op.Since, End: true}
	}
	w.begin()
	if end := w.runToEnd(first); end.Cause != Completed || len(w.list) != n/2 {
		t.Errorf("%s, %d are listed", end, len(w.list))
	}
	if pages := count(w.calls, "diff revs of 100 docs"); pages != n/listedAtOnce {
		t.Errorf("%d whole pages", pages)
	}
}

// TestPassWithoutCheckpoints: a one-shot that tries a long list again for the last time writes one checkpoint behind
// the list, and not one behind each page, though each page changes the list.
func TestPassWithoutCheckpoints(t *testing.T) {
	w := newWorld(t)
	w.plan.OnRefusal = spec.RetryRefused
	w.fill(5 * listedAtOnce)
	for i := range 5 * listedAtOnce {
		w.refuses[fmt.Sprint("doc", i)] = true
	}
	w.begin()
	w.wantEnd(Completed, "")
	w.calls = nil
	w.begin()
	w.wantEnd(Completed, "")
	if logs := w.count("put target _local/"); logs > 1 || len(w.list) != 5*listedAtOnce {
		t.Errorf("%d checkpoints, %d are listed", logs, len(w.list))
	}
}

func count(calls []string, what string) (n int) {
	for _, c := range calls {
		if c == what {
			n++
		}
	}
	return n
}

// TestDurableBeforeItLeavesTheList: a revision leaves the list only after the target has made durable what it
// got.
func TestDurableBeforeItLeavesTheList(t *testing.T) {
	w := refusing(t, spec.RetryRefused)
	w.plan.UseCheckpoints = false
	w.begin()
	w.runToEnd(first)
	clear(w.refuses)
	w.rows = func(op peer.ReadChanges) peer.Changes { return peer.Changes{LastSeq: op.Since, End: true} }
	n := len(w.calls)
	w.asked = true
	w.begin()
	w.runToEnd(first)
	calls := w.calls[n:]
	copied := slices.Index(calls, `copy "doc9" revs 1-a`)
	if len(w.list) > 0 || copied < 0 || calls[copied+1] != "commit target" {
		t.Errorf("listed are %v after %q", w.list, calls)
	}
	for _, c := range []struct {
		reply peer.Reply // of a target that has nothing of it
		error string
	}{
		{peer.Reply{Result: peer.Committed{InstanceStartTime: "2"}}, "checkpoint_commit_failure"},
		{peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 401, Error: "unauthorized"}}, "unauthorized"},
	} {
		w.list[peerRev{"doc9", "1-a"}] = &entry{Finding{Refusal: peer.Refusal{ID: "doc9", Rev: "1-a"}}, 1, w.now}
		w.reply = func(call Call) *peer.Reply {
			if _, is := call.Op.(peer.Commit); is {
				return &c.reply
			}
			return nil
		}
		w.begin()
		if end := w.runToEnd(first); end.Cause != Crashed || end.Trouble.Error != c.error || len(w.list) != 1 {
			t.Errorf("%s, listed are %v", end, w.list)
		}
	}
}

// TestRefusedAndGone: a run goes on when the source does not have a refused revision any more, or breaks off every
// answer, or the target answers to it what would end the run at another document. All stay in the list.
func TestRefusedAndGone(t *testing.T) {
	for name, damage := range map[string]func(*world, Call) *peer.Reply{
		"not_found": func(_ *world, c Call) *peer.Reply {
			op, is := c.Op.(peer.CopyDoc)
			if !is {
				return nil
			}
			return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0], Missing: true}}}}
		},
		peer.Broken.String(): func(_ *world, c Call) *peer.Reply {
			if _, is := c.Op.(peer.CopyDoc); !is {
				return nil
			}
			return &peer.Reply{Result: peer.Copied{}, Failure: &peer.Failure{Kind: peer.Broken}}
		},
		"bad": func(_ *world, c Call) *peer.Reply {
			op, is := c.Op.(peer.CopyDoc)
			if !is {
				return nil
			}
			v := &peer.Refusal{ID: op.ID, Rev: op.Revs[0], Status: 400, Error: "bad"}
			return &peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: op.Revs[0], Refused: v}}}}
		},
	} {
		w := refusing(t, spec.RetryRefused)
		w.reply = func(c Call) *peer.Reply { return damage(w, c) }
		w.begin()
		end := w.runToEnd(first)
		row := w.list[peerRev{"doc3", "1-a"}]
		status := map[string]int{"not_found": 404, "bad": 400}[name]
		if end.Cause != Completed || len(w.list) != 6 || row.Error != name || row.Status != status {
			t.Errorf("%s: %s, listed are %v", name, end, w.list)
		}
	}
}

// TestBrokenCopyLetsOthersThrough: a refused document that the source never delivers, or the target never has
// done with, does not keep those behind it from being tried within the shortest turn of a job.
func TestBrokenCopyLetsOthersThrough(t *testing.T) {
	for name, f := range map[string]*peer.Failure{
		"broken": {Kind: peer.Broken},
		"500":    {Kind: peer.Status, Side: peer.Target, Status: 500},
	} {
		w := refusing(t, spec.RetryRefused)
		w.plan.Continuous, w.plan.Connections = true, 1 // one copy at a time
		w.begin()
		w.until(time.Second)
		clear(w.refuses)
		w.reply = func(c Call) *peer.Reply {
			if op, is := c.Op.(peer.CopyDoc); is && op.ID == "doc0" {
				return &peer.Reply{Result: peer.Copied{}, Failure: f}
			}
			return nil
		}
		w.asked = true
		w.step(TryRefused{})
		w.until(5 * time.Second)
		if len(w.list) != 1 || w.list[peerRev{"doc0", "1-a"}] == nil {
			t.Errorf("%s: after 5 s are listed %v", name, w.list)
		}
	}
}

// TestVerdictsThatNameNothing: a refusal in bulk that does not tell which of several documents it is about has
// them all copied one by one, so that the list has the right ones.
func TestVerdictsThatNameNothing(t *testing.T) {
	w := refusing(t, spec.SkipRefused)
	w.reply = func(c Call) *peer.Reply {
		if _, is := c.Op.(peer.WriteDocs); is {
			return &peer.Reply{Result: peer.Written{Refused: []peer.Refusal{{Error: "forbidden"}}}}
		}
		return nil
	}
	w.begin()
	if end := w.runToEnd(first); end.Cause != Completed || len(w.list) != 6 {
		t.Errorf("%s, listed are %v", end, w.list)
	}
}

// TestPassIsNotPutOff: a document that is due later does not put off the pass for one that is due sooner.
func TestPassIsNotPutOff(t *testing.T) {
	r := New(Plan{})
	r.refused.next, r.now = instant.Never, instant.Seconds(100)
	for _, wait := range []time.Duration{time.Hour, time.Minute, 6 * time.Hour} {
		r.refused.passBy(wait)
	}
	if want := r.now.Add(time.Minute); r.refused.next != want {
		t.Errorf("the next pass is at %s, want %s", r.refused.next, want)
	}
}

// TestReasonOfRefusal: a job that fails for a refused document says which it is, and what the target answered.
func TestReasonOfRefusal(t *testing.T) {
	for status, answer := range map[int]string{0: "forbidden: no", 403: "403 forbidden: no"} {
		r := New(Plan{})
		r.refused.fatal = &peer.Refusal{ID: "d", Rev: "1-a", Status: status, Error: "forbidden", Reason: "no"}
		r.refused.failed()
		want := `the target refused document "d", revision 1-a: ` + answer
		if end, is := r.out[len(r.out)-1].(End); !is || end.Trouble.Reason != want {
			t.Errorf("it ends with %+v, want %s", r.out, want)
		}
	}
}

// TestManyRefused: a run whose target refuses millions of documents does not remember each.
func TestManyRefused(t *testing.T) {
	r := New(Plan{Options: Options{Workers: 1, BatchSize: 100, Connections: 6}})
	r.refused.begin()
	passes, most := 0, 0
	for i := range 3 * maxKnown {
		r.work.refuse(&batch{}, peer.Refusal{ID: fmt.Sprint("doc", i), Rev: "1-a", Error: "forbidden"})
		if r.refused.passWhenDue(); r.refused.passing {
			passes++
			r.refused.onPage(RefusedPage{})
		}
		most = max(most, len(r.refused.docs))
	}
	if passes != 3 || most >= maxKnown {
		t.Errorf("%d passes, %d documents", passes, most)
	}
}
