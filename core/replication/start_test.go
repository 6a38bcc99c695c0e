package replication

import (
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// asksFor lets the run proceed, the newest answers first or the oldest, until it has asked for something.
func (w *world) asksFor(prefix string, choose func(int) int) {
	w.t.Helper()
	for w.count(prefix) == 0 {
		if w.end != nil {
			w.t.Fatalf("ended %v before it asked to %s: %v", w.end, prefix, w.calls)
		}
		w.proceed(choose)
	}
}

func newest(n int) int { return n - 1 }

// remake replaces a database by an empty one of the same name, which tells its age as start.
func (w *world) remake(side peer.Side, start string) {
	w.dbs[side] = newDatabase()
	w.dbs[side].start = start
}

// TestLogOfDatabaseThatIsGone: a target that is deleted and made again between the answers to the requests
// for its log and for its description gets all documents, whether the server tells databases of one name
// apart or not, and with and without checkpoints.
func TestLogOfDatabaseThatIsGone(t *testing.T) {
	for name, start := range map[string]string{"another start": "2", "unknown start": "0", "no start": ""} {
		for _, use := range []bool{true, false} {
			w := newWorld(t)
			if name != "another start" {
				w.dbs[peer.Target].start = start
			}
			w.fill(3)
			w.begin()
			w.plan.Resumed = w.wantEnd(Completed, "").Info.Counters

			w.plan.UseCheckpoints, w.calls = use, nil
			w.begin()
			for w.run.opener.search[peer.Target].left > 0 {
				w.proceed(newest)
			}
			w.remake(peer.Target, start)
			if end := w.wantEnd(Completed, ""); len(w.dbs[peer.Target].leafs) != 3 {
				t.Errorf("%s, checkpoints %v: %d documents arrive, %s, by %v", name, use, len(w.dbs[peer.Target].leafs),
					end, w.calls)
			}
		}
	}
}

// TestLogThatNamesItsDatabase: a log that was read beside the description of its database is read again
// unless it says that it was written for that one.
func TestLogThatNamesItsDatabase(t *testing.T) {
	log := checkpoint.Log{SessionID: "s", SourceLastSeq: `"1-opaque"`}
	for _, c := range []struct {
		written, start string
		numbers        bool // the server numbers its changes
		reads          int
	}{
		{written: "1", start: "1", reads: 1},
		{written: "", start: "1", reads: 2},
		{written: "7", start: "1", reads: 2},
		{written: "0", start: "0", reads: 2},
		{written: "1", start: "1", numbers: true, reads: 2},
	} {
		w := newWorld(t)
		w.plan.Resumed.DocsRead = 1
		log.InstanceStart = c.written
		w.dbs[peer.Source].local["four"] = localDoc{2, log.Encode(false)}
		w.dbs[peer.Source].start = c.start
		w.reply = func(call Call) *peer.Reply {
			if op, is := call.Op.(peer.Open); is && op.Side == peer.Source && c.numbers {
				return &peer.Reply{Result: peer.Opened{UpdateSeq: "1", InstanceStartTime: c.start}}
			}
			return nil
		}
		w.begin()
		w.asksFor("read changes", newest)
		if n := w.count("get source"); n != c.reads || w.count("get source _local/four") != n {
			t.Errorf("%+v: logs are read %d times: %v", c, n, w.calls)
		}
	}
}

// TestOlderLogOfDatabaseThatIsGone: what holds for a log under the present id holds for one of an older
// server.
func TestOlderLogOfDatabaseThatIsGone(t *testing.T) {
	for _, start := range []string{"2", "0", ""} {
		w := newWorld(t)
		w.dbs[peer.Target].start = strings.ReplaceAll(start, "2", "1")
		w.fill(3)
		w.begin()
		w.wantEnd(Completed, "")
		local := w.dbs[peer.Target].local
		local["three"] = local["four"]
		delete(local, "four")
		w.begin()
		for w.run.opener.search[peer.Target].left > 0 {
			w.proceed(newest)
		}
		w.remake(peer.Target, start)
		if end := w.wantEnd(Completed, ""); len(w.dbs[peer.Target].leafs) != 3 {
			t.Errorf("start %q: %d documents arrive, %s, by %v", start, len(w.dbs[peer.Target].leafs), end, w.calls)
		}
	}
}

// TestOlderLogReadOnce: a log under an older id that was asked for when its database was open is that
// database's, also if it does not name it, as older servers' do not.
func TestOlderLogReadOnce(t *testing.T) {
	w := newWorld(t)
	w.plan.Resumed.DocsRead = 1
	log := checkpoint.Log{SessionID: "s", SourceLastSeq: `"1-opaque"`}
	w.dbs[peer.Target].local["three"] = localDoc{2, log.Encode(false)}
	w.begin()
	w.asksFor("read changes", newest)
	if four, three := w.count("get target _local/four"), w.count("get target _local/three"); four+three != 2 {
		t.Errorf("the present log is read %d times, the older one %d: %v", four, three, w.calls)
	}
}

// TestNewestLogCounts: a log under the present id counts more than those under older ids, and of these that
// of the newest version, though all are asked for at once.
func TestNewestLogCounts(t *testing.T) {
	w, bases := newWorld(t), []string{}
	w.plan.IDs = func(string) IDs { return IDs{Bases: bases} }
	for _, id := range []string{"two", "three", "four"} {
		bases = []string{id}
		w.dbs[peer.Source].write(id, "1-a")
		w.begin()
		w.wantEnd(Completed, "")
	}
	for _, bases = range [][]string{{"four", "three", "two"}, {"none", "four", "three", "two"}} {
		w.calls = nil
		w.begin()
		w.wantEnd(Completed, "")
		if w.count(`read changes since "3-opaque"`) == 0 || w.count("get source _local/two") != 1 {
			t.Errorf("%v: it does not go on from the newest log: %v", bases, w.calls)
		}
	}
}

// TestTroubleOfDatabaseComesFirst: what is wrong with a database is told, and not that its log could not be
// read either, in whichever order the answers come.
func TestTroubleOfDatabaseComesFirst(t *testing.T) {
	for _, choose := range []func(int) int{first, newest} {
		w := newWorld(t)
		w.answer = func(c Call) *peer.Failure {
			f := status(404)
			if strings.Contains(c.Op.String(), "target") {
				return &f
			}
			return nil
		}
		w.begin()
		if end := w.runToEnd(choose); end.Cause != Crashed || end.Trouble.Error != "db_not_found" ||
			!strings.HasPrefix(end.Trouble.Reason, "could not open") {
			t.Errorf("ended %s", end)
		}
	}
}

// TestLogTrouble: a log that cannot be read ends the run, also if that was known before the database was
// open.
func TestLogTrouble(t *testing.T) {
	for _, choose := range []func(int) int{first, newest} {
		for _, log := range []string{"_local/four", "_local/three"} {
			w := newWorld(t)
			w.failOn("get target "+log, 0, status(403))
			w.begin()
			if end := w.runToEnd(choose); end.Cause != Crashed || end.Trouble.Error != "forbidden" {
				t.Errorf("%s: ended %s", log, end)
			}
		}
	}
}

// TestLogTroubleAtOnce: a run whose log cannot be read ends without the answers about its logs under older ids.
func TestLogTroubleAtOnce(t *testing.T) {
	w := newWorld(t)
	newest := func(op peer.GetLocal) bool { return op.Side == peer.Target && op.ID == "four" }
	w.answer = func(c Call) *peer.Failure {
		if op, is := c.Op.(peer.GetLocal); is && newest(op) {
			return &peer.Failure{Side: op.Side, Kind: peer.Status, Status: 403}
		}
		return nil
	}
	w.begin()
	for w.end == nil {
		answered := func(c Call) bool { op, is := c.Op.(peer.GetLocal); return !is || newest(op) }
		if !slices.ContainsFunc(w.flying, answered) {
			t.Fatalf("it waits for %v", w.flying)
		}
		w.proceed(func(int) int { return slices.IndexFunc(w.flying, answered) })
	}
	if w.end.Trouble.Error != "forbidden" {
		t.Errorf("it ended %s", w.end)
	}
}

// TestLogsWaitForTheirDatabase: of a server that does not answer the description of the database is asked for
// again and again, and the logs only once that has come.
func TestLogsWaitForTheirDatabase(t *testing.T) {
	w := newWorld(t)
	w.answer = func(c Call) *peer.Failure {
		f := status(503)
		if strings.Contains(c.Op.String(), "target") && w.count("open target") < 4 {
			return &f
		}
		return nil
	}
	w.fill(1)
	w.begin()
	for w.count("open target") < 4 {
		w.proceed(first)
	}
	if logs := w.count("get target"); logs != 2 {
		t.Errorf("%d requests for logs beside four for the description", logs)
	}
	w.wantEnd(Completed, "")
	if logs := w.count("get target"); logs != 4 {
		t.Errorf("%d requests for logs", logs)
	}
}

// TestOlderLogsAtOnce: a job that has copied something finds its log under the present id and asks for no
// other; if there is none, it asks for those of older servers then.
func TestOlderLogsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.plan.Resumed.MissingChecked = 1
	w.fill(1)
	w.begin()
	w.asksFor("read changes", first)
	w.wantCalls("open source", "get source _local/four", "open target", "get target _local/four",
		"get source _local/three", "get target _local/three", "read changes since 0 limit 12 normal")
}

// TestOlderLogKeepsItsMark: a log without checkpoints is copied to the present id with its mark, by which runs tell
// that the logs which follow it are of the same database.
func TestOlderLogKeepsItsMark(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.dbs[peer.Target].local["three"] = localDoc{1, checkpoint.Log{Mark: "m"}.Encode(false)}
	w.begin()
	w.wantEnd(Completed, "")
	if log := w.logOn(peer.Target); log.Mark != "m" || log.SessionID == "" {
		t.Errorf("the log is %+v", log)
	}
}

// TestOlderLogGone: a database that was made again while its log was on its way to the present id has no log.
func TestOlderLogGone(t *testing.T) {
	w := newWorld(t)
	w.numbers()
	w.fill(2)
	body := checkpoint.Log{SessionID: "s", SourceLastSeq: "2"}.Encode(false)
	w.dbs[peer.Source].local["three"], w.dbs[peer.Target].local["three"] = localDoc{1, body}, localDoc{1, body}
	w.begin()
	for w.count("put target") == 0 {
		w.proceed(first)
	}
	delete(w.dbs[peer.Target].local, "three")
	if end := w.wantEnd(Completed, ""); end.Info.DocsWritten != 2 {
		t.Errorf("%s, %s", end, end.Info)
	}
}

// TestEmptyTargetLacksAll: a target that was never written to is not asked what it lacks, until 37 seconds
// are over.
func TestEmptyTargetLacksAll(t *testing.T) {
	w := newWorld(t)
	w.remake(peer.Target, "1")
	w.plan.Continuous, w.plan.CreateTarget = true, true
	w.fill(30)
	w.begin()
	for w.run.Info().DocsWritten < 30 {
		w.proceed(first)
	}
	if n := w.count("diff"); n != 0 {
		t.Errorf("it is asked %d times: %v", n, w.calls)
	}
	w.now = w.now.Add(38 * time.Second)
	w.dbs[peer.Source].write("late", "1-a")
	w.asksFor("diff", first)
}

// TestWrittenTargetIsAsked: a target that was written to, or does not tell, is asked what it lacks, also if
// the source was never written to when the run began.
func TestWrittenTargetIsAsked(t *testing.T) {
	for _, seq := range []peer.Seq{`"1-opaque"`, `"opaque"`} {
		w := newWorld(t)
		w.plan.Continuous = true
		w.reply = func(call Call) *peer.Reply {
			if op, is := call.Op.(peer.Open); is && op.Side == peer.Target {
				return &peer.Reply{Result: peer.Opened{UpdateSeq: seq, InstanceStartTime: "1"}}
			}
			return nil
		}
		w.begin()
		w.asksFor("read changes", first)
		w.fill(1)
		for w.run.Info().DocsWritten < 1 {
			w.proceed(first)
		}
		if n := w.count("diff"); n != 1 {
			t.Errorf("%s: it is asked %d times: %v", seq, n, w.calls)
		}
	}
}

// TestFarDatabasesAreAskedOnceMore: the first requests of a run also wait for their connections, so a long
// round trip time is measured once more as the copying starts.
func TestFarDatabasesAreAskedOnceMore(t *testing.T) {
	for trip, more := range map[time.Duration]int{9 * time.Millisecond: 0, 10 * time.Millisecond: 1} {
		for adaptive := range 2 {
			r := newRoad(t, 1, 100)
			r.trip = [2]time.Duration{trip, trip}
			w := r.runs[0]
			if adaptive == 0 {
				w.plan.MaxWorkers = w.plan.Workers
			}
			r.play(func() bool { return w.count("read changes") > 0 && w.run.Info().Written > 0 })
			for _, side := range []string{"source", "target"} {
				if n := w.count("open "+side) - 1; n != more*adaptive {
					t.Errorf("%s: the %s is asked %d times more", trip, side, n)
				}
			}
		}
	}
}

// TestNoDocumentsNoMeasure: a run that copies nothing, since a filter leaves out all changes, asks no more for the
// length of the line.
func TestNoDocumentsNoMeasure(t *testing.T) {
	r := newRoad(t, 1, 1)
	r.trip = [2]time.Duration{250 * time.Millisecond, 250 * time.Millisecond}
	w := r.runs[0]
	w.since = 9 // nothing is wanted
	w.rows = func(peer.ReadChanges) peer.Changes {
		return peer.Changes{End: true, LastSeq: `"9-opaque"`, Pending: -1}
	}
	r.play(func() bool { return w.end != nil })
	if n := w.count("open "); n != 2 || w.end.Cause != Completed {
		t.Errorf("ended %s after %d requests for descriptions", w.end, n)
	}
}

// TestCheckpointAfterMigration replaces the log that the migration wrote.
func TestCheckpointAfterMigration(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	body := checkpoint.Log{SessionID: "s", SourceLastSeq: `"2-opaque"`}.Encode(false)
	w.dbs[peer.Source].local["three"], w.dbs[peer.Target].local["three"] = localDoc{1, body}, localDoc{1, body}
	w.since = 2
	w.begin()
	w.wantEnd(Completed, "")
	var puts []string
	for _, call := range w.calls {
		if strings.HasPrefix(call, "put ") {
			puts = append(puts, call)
		}
	}
	want := []string{`put source _local/four rev ""`, `put target _local/four rev ""`,
		`put target _local/four rev "0-1"`, `put source _local/four rev "0-1"`}
	if !slices.Equal(puts, want) {
		t.Errorf("writes %q, want %q", puts, want)
	}
}
