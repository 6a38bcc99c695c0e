package replication

import (
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// midway has a run under way, before the end of the feed, whose source stores no logs. It returns the source as it was
// before its newest change, which moved doc0 from the beginning of the feed to the end.
func midway(t *testing.T, prepare func(*world)) (*world, *database) {
	w := newWorld(t)
	w.refuseLogs(403)
	w.plan.Workers, w.plan.MaxWorkers, w.plan.CheckpointInterval = 1, 1, time.Millisecond
	w.fill(40)
	backup := w.dbs[peer.Source].backup()
	w.dbs[peer.Source].write("doc0", "2-b", "1-a")
	prepare(w)
	w.begin()
	for w.count("put target") < 2 && w.end == nil {
		w.proceed(first)
	}
	return w, backup
}

// stopped has the run of midway end.
func stopped(t *testing.T, prepare func(*world)) (*world, *database) {
	w, backup := midway(t, prepare)
	w.step(Stop{})
	if w.end == nil {
		w.runToEnd(first)
	}
	if at := numberOf(w.logOn(peer.Target).SourceLastSeq); at == 0 || at > 40 || w.dbs[peer.Target].has("doc0", "1-a") {
		t.Fatalf("the run has come to change %d", at)
	}
	w.calls = nil
	return w, backup
}

func nothing(*world) {}

// hideNewest has the source refuse to tell its newest change.
func hideNewest(how peer.Failure) func(*world) {
	return func(w *world) {
		logs := w.answer
		w.answer = func(c Call) *peer.Failure {
			if c.Op == (peer.ReadNewest{}) {
				return &how
			}
			return logs(c)
		}
	}
}

// TestReadOnlySourcePutBackToLast: a source is put back to a backup that has the last change up to the checkpoint.
// Before that it has a document again that stood behind it when the checkpoint was written.
func TestReadOnlySourcePutBackToLast(t *testing.T) {
	w, backup := stopped(t, nothing)
	if newest := w.logOn(peer.Target).ReadOnly.Newest; newest.ID != "doc0" {
		t.Errorf("the newest change of the source is recorded as %+v", newest)
	}
	w.dbs[peer.Source] = backup
	w.begin()
	w.wantEnd(Completed, "")
	if from := w.feedStart(); from != "0" || !w.dbs[peer.Target].has("doc0", "1-a") {
		t.Errorf("the run began at %s, and has doc0: %v", from, w.dbs[peer.Target].has("doc0", "1-a"))
	}
}

// TestReadOnlySourceGoesOn: a run goes on from the target's log unless its source lacks the newest change.
func TestReadOnlySourceGoesOn(t *testing.T) {
	for name, c := range map[string]struct{ before, since func(*world) }{
		"as it was": {nothing, nothing},
		"the newest document was edited": {nothing, func(w *world) {
			w.dbs[peer.Source].write("doc0", "3-c", "2-b", "1-a")
		}},
		"it does not show that document":  {nothing, func(w *world) { w.failOn(`find "doc0"`, 0, status(403)) }},
		"a log of an earlier release":     {nothing, func(w *world) { w.damage(`"newest_id"`, `"other"`) }},
		"a log without the revision":      {nothing, func(w *world) { w.damage(`"newest_rev"`, `"other"`) }},
		"it refused to tell its newest":   {hideNewest(status(403)), nothing},
		"it knows no such question":       {hideNewest(status(400)), nothing},
		"it has told no change as newest": {func(w *world) { w.reply = tellsNone }, nothing},
		"a proxy knows no such document":  {nothing, func(w *world) { w.failOn(`find "doc0"`, 0, status(404)) }},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := stopped(t, c.before)
			last := w.logOn(peer.Target).ReadOnly.Last.Seq
			c.since(w)
			w.begin()
			w.wantEnd(Completed, "")
			if from := w.feedStart(); from != string(last) {
				t.Errorf("the run began at %s, and the log is of %s", from, last)
			}
		})
	}
}

func tellsNone(c Call) *peer.Reply {
	if c.Op == (peer.ReadNewest{}) {
		return &peer.Reply{Result: peer.NewestChange{}}
	}
	return nil
}

// TestNewestOfLaggingCluster: a node that lacks the newest change for a moment is asked once more.
func TestNewestOfLaggingCluster(t *testing.T) {
	w, _ := stopped(t, nothing)
	last, asked := w.logOn(peer.Target).ReadOnly.Last.Seq, 0
	w.reply = func(c Call) *peer.Reply {
		if strings.HasPrefix(c.Op.String(), `find "doc0"`) {
			if asked++; asked == 1 {
				return &peer.Reply{Result: peer.RevFound{}}
			}
		}
		return nil
	}
	w.begin()
	w.wantEnd(Completed, "")
	if from := w.feedStart(); from != string(last) || asked < 2 {
		t.Errorf("the run began at %s, after %d questions", from, asked)
	}
}

// TestReadOnlySourcePutBackToLastUnderItsRun ends the run before another checkpoint, or the next one before its first.
func TestReadOnlySourcePutBackToLastUnderItsRun(t *testing.T) {
	under, backup := midway(t, nothing)
	for under.logOn(peer.Target).ReadOnly == nil {
		under.proceed(first)
	}
	next, other := stopped(t, nothing)
	next.begin()
	for next.feedStart() == "nowhere" {
		next.proceed(first)
	}
	for w, backup := range map[*world]*database{under: backup, next: other} {
		w.dbs[peer.Source] = backup
		w.wantEnd(Crashed, `checkpoint_commit_failure: the source database lacks a revision of document "doc0"`)
	}
}

// TestNewestCannotBeRead: a source that fails over a question about its newest change says nothing against it.
func TestNewestCannotBeRead(t *testing.T) {
	for word, how := range map[string]peer.Failure{
		"max_backoff": status(429), "http_request_failed": status(500), "endpoint_denied": {Kind: peer.Denied},
	} {
		w, _ := midway(t, hideNewest(how))
		w.wantEnd(Crashed, word)
		if log := w.logOn(peer.Target); log.ReadOnly != nil {
			t.Errorf("%s: the target's log is %+v", word, log.ReadOnly)
		}
	}
	w, _ := stopped(t, nothing)
	w.failOn(`find "doc0"`, 0, status(500))
	w.begin()
	w.wantEnd(Crashed, "http_request_failed")
	if from := w.feedStart(); from != "nowhere" {
		t.Errorf("the run began at %s", from)
	}
}

// TestNewestIsHidden: a source whose newest change cannot be asked for is not known by it, so that no run ends, and
// none begins anew, for a document that the source does not show, or cannot read.
func TestNewestIsHidden(t *testing.T) {
	broken, throttled := status(500), status(429)
	for _, c := range []struct {
		answer peer.Reply
		end    Cause
		word   string
	}{
		{peer.Reply{Result: peer.RevFound{}}, Completed, ""},
		{peer.Reply{Failure: &broken}, Completed, ""},
		{peer.Reply{Failure: &throttled}, Crashed, "max_backoff"},
	} {
		w, _ := midway(t, func(w *world) {
			w.reply = func(asked Call) *peer.Reply {
				if strings.HasPrefix(asked.Op.String(), `find "doc0"`) {
					return &c.answer
				}
				return nil
			}
		})
		w.wantEnd(c.end, c.word)
	}
}

// TestNewestIsOfItsCheckpoint: of a source that has told its newest change, and tells none at the next checkpoint, that
// one has none.
func TestNewestIsOfItsCheckpoint(t *testing.T) {
	w, _ := midway(t, nothing)
	of := func() checkpoint.ReadOnly { return *w.logOn(peer.Target).ReadOnly }
	for w.logOn(peer.Target).ReadOnly == nil {
		w.proceed(first)
	}
	told := of()
	for w.reply = tellsNone; of() == told; {
		w.proceed(first)
	}
	if next := of(); told.Newest.ID != "doc0" || next.Newest.ID != "" || next.Last.ID == "doc0" {
		t.Errorf("the source is known by %+v, and then by %+v", told, next)
	}
}

// TestReadOnlySourceLocksOut: a source that does not say whether it has a change, as it does not know us any more, ends
// the run, and is not asked again.
func TestReadOnlySourceLocksOut(t *testing.T) {
	w, asked := readOnlyWorld(t, 403), 0
	w.reply = func(c Call) *peer.Reply {
		if _, is := c.Op.(peer.FindRev); is {
			asked++
			return &peer.Reply{Failure: &peer.Failure{Side: peer.Source, Kind: peer.Status, Status: 401}}
		}
		return nil
	}
	w.begin()
	if w.wantEnd(Crashed, "unauthorized"); asked != 1 {
		t.Errorf("it is asked %d times", asked)
	}
}
