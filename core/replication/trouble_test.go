package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

func TestRetries(t *testing.T) {
	for _, c := range []struct {
		prefix  string
		failure peer.Failure
		tries   int
		least   time.Duration
		trouble string
	}{
		{"read changes", status(503), 6, 7750 * time.Millisecond, "http_request_failed: GET http://h/db/: 503"},
		{"diff", status(500), 6, 7750 * time.Millisecond, "http_request_failed"},
		{"write", peer.Failure{Kind: peer.TimedOut}, 6, 7750 * time.Millisecond, "timeout"},
		// 1 s, 4 s, 16 s, 64 s, then a minute is over
		{"copy", peer.Failure{Kind: peer.Broken}, 5, 85 * time.Second, "connection_closed"},
		{"read changes", status(418), 1, 0, "changes_req_failed: GET http://h/db/: 418"},
		{"diff", status(407), 1, 0, "revs_diff_failed"},
		{"write", status(404), 1, 0, "bulk_docs_failed"},
		{"copy", status(401), 1, 0, "unauthorized: unauthorized to access or create database http://h/db/"},
		{"open target", status(404), 1, 0, "db_not_found: could not open http://h/db/"},
		{"open target", peer.Failure{Kind: peer.Unresolvable, URL: "http://h/db/"}, 6, 7 * time.Second,
			"nxdomain: could not resolve http://h/db/"},
		{"open source", status(401), 1, 0, "unauthorized: unauthorized to access or create database http://h/db/"},
		{"open source", loginFails(401), 1, 0, "unauthorized: POST http://h/_session: 401 session_x: no"},
		{"open source", loginFails(400), 1, 0, "http_request_failed: POST http://h/_session: 400 session_x: no"},
		{"open source", peer.Failure{URL: "http://h/db/", Status: 400, Error: "no_more_auth_plugins_left_to_try"}, 1, 0,
			"http_request_failed"},
		{"open source", peer.Failure{Kind: peer.Insecure}, 1, 0, "tls_failed"},
		{"read changes", peer.Failure{Kind: peer.NoSecret, URL: "http://h/db/", Reason: `secret "s": x`}, 1, 0,
			`secret_missing:  http://h/db/: secret_missing: secret "s": x`},
		{"get source _local/four", status(403), 1, 0, "forbidden"},
		{"commit", status(404), 1, 0, "checkpoint_commit_failure: Failure on source commit"},
		{"put target", status(401), 1, 0, "checkpoint_commit_failure: Error updating the target checkpoint document"},
		{"diff", status(429), 13, 150 * time.Second, "max_backoff"},
		{"fetch", status(429), 13, 150 * time.Second, "max_backoff"},
		{"fetch", peer.Failure{Kind: peer.Unreachable}, 6, 7750 * time.Millisecond, "connect_failed"},
	} {
		t.Run(fmt.Sprint(c.prefix, " ", c.failure.Kind, c.failure.Status), func(t *testing.T) {
			w := newWorld(t)
			w.fill(3)
			w.attachments["doc2"] = true
			w.failOn(c.prefix, 0, c.failure)
			w.begin()
			began := w.now
			end := w.wantEnd(Crashed, c.trouble)
			tries := 0
			for _, call := range w.calls {
				if strings.HasPrefix(call, c.prefix) {
					tries++
				}
			}
			if c.prefix == "commit" {
				tries = 1 // both sides are asked at once
			}
			if tries != c.tries || w.now.Sub(began) < c.least {
				t.Errorf("%d tries in %s, want %d in at least %s", tries, w.now.Sub(began), c.tries, c.least)
			}
			if (c.failure.Status == 429) != end.Trouble.Throttled {
				t.Errorf("throttled is %v", end.Trouble.Throttled)
			}
		})
	}
}

// loginFails is the failure of a request that needs a session.
func loginFails(code int) peer.Failure {
	return peer.Failure{Method: "POST", URL: "http://h/_session", Status: code, Error: "session_x", Reason: "no"}
}

// TestRetryAfterIsHonoured: a run waits for as long as Retry-After says, with 429 (slow down) and 503 (out of service),
// but not for hours.
func TestRetryAfterIsHonoured(t *testing.T) {
	for _, code := range []int{429, 503} {
		for asked, want := range map[time.Duration]time.Duration{
			40 * time.Second: 40 * time.Second, time.Hour: 300 * time.Second,
		} {
			w := newWorld(t)
			w.fill(1)
			f := status(code)
			f.RetryAfter = asked
			w.failOn("diff", 1, f)
			w.begin()
			began := w.now
			w.wantEnd(Completed, "")
			if d := w.now.Sub(began); d < want || d > want+time.Second {
				t.Errorf("%d: took %s after %s was asked for", code, d, asked)
			}
		}
	}
}

// A database that is made again while a checkpoint is written takes the log as the one before would have. The
// next run does not trust it, and one that goes on notices.
func TestLogInAnotherDatabase(t *testing.T) {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		for _, continuous := range []bool{false, true} {
			w := newWorld(t)
			w.plan.Continuous = continuous
			w.fill(2)
			w.begin()
			for !strings.HasPrefix(w.calls[len(w.calls)-1], "put "+side.String()) {
				w.proceed(first)
			}
			w.dbs[side].start = "2"
			if continuous {
				w.wantEnd(Crashed, "checkpoint_commit_failure: instance_start_time on "+side.String())
				continue
			}
			w.wantEnd(Completed, "")
			w.calls = nil
			w.begin()
			if w.wantEnd(Completed, ""); !slices.Contains(w.calls, "read changes since 0 limit 12 normal") {
				t.Errorf("the log of another database on the %s is trusted: %v", side, w.calls)
			}
		}
	}
}

// TestFilterThatChangedBack: what another filter function left out for a while must not be covered.
func TestFilterThatChangedBack(t *testing.T) {
	w := newWorld(t)
	w.plan.Filter, w.filter, w.filterRev = &peer.GetFilter{DesignDoc: "d", Name: "f"}, "one", "1-a"
	w.fill(2)
	w.begin()
	for w.run.info.DocsWritten < 2 {
		w.proceed(first)
	}
	w.filterRev = "3-c" // 2-b was another
	w.wantEnd(Changed, "")
	if _, saved := w.dbs[peer.Target].local["four"]; saved {
		t.Error("there is a checkpoint")
	}
}

// TestLateLog: a log that arrives after its database was made again is not trusted, whoever sent it.
func TestLateLog(t *testing.T) {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		w := newWorld(t)
		w.fill(2)
		w.begin()
		w.wantEnd(Completed, "")
		log := w.dbs[side].local["four"]
		w.dbs[side] = newDatabase()
		w.dbs[side].start, w.dbs[side].local["four"] = "2", log
		w.dbs[peer.Source].write("new", "1-a")
		w.begin()
		w.wantEnd(Completed, "")
		if !w.dbs[peer.Target].has("new", "1-a") || side == peer.Target && !w.dbs[side].has("doc0", "1-a") {
			t.Errorf("%s made again, and documents are missing: %v", side, w.calls)
		}
		w.calls = nil
		w.begin()
		if w.wantEnd(Completed, ""); slices.Contains(w.calls, "read changes since 0 limit 12 normal") {
			t.Errorf("%s made again, and its own log is not trusted: %v", side, w.calls)
		}
	}
}

// TestTrusted: which logs may be of another database than the one that they are found in.
func TestTrusted(t *testing.T) {
	for _, c := range []struct {
		seq            peer.Seq
		written, start string
		rev            string
		want           bool
	}{
		{`"12-g1AAAA"`, "1700000000000000", "1800000000000000", "0-2", false}, // CouchDB 3
		{`"12-g1AAAA"`, "1700000000000000", "1700000000000000", "0-1", true},
		{`"12-g1AAAA"`, "", "1800000000000000", "0-1", true},  // CouchDB's log
		{`"12-g1AAAA"`, "1700000000000000", "0", "0-1", true}, // CouchDB 2
		{`"12-g1AAAA"`, "0", "1800000000000000", "0-1", true},
		// CouchDB 1, PouchDB: it may be when the server was started
		{"12", "1700000000000000", "1800000000000000", "0-2", true},
		{"12", "1700000000000000", "1800000000000000", "0-1", false},
		{"12", "", "1800000000000000", "0-1", true},
		{`"12"`, "1700000000000000", "1800000000000000", "0-2", true}, // others
		{`"a-12"`, "1700000000000000", "1800000000000000", "0-2", true},
		{`[12,"a"]`, "1700000000000000", "1800000000000000", "0-2", true}, // BigCouch
	} {
		log := checkpoint.Log{SessionID: "s", InstanceStart: c.written}
		s := side{start: c.start, clustered: clustered(c.seq), log: log, logRev: c.rev}
		if got := s.trusted().SessionID == "s"; got != c.want {
			t.Errorf("%+v: trusted %t", c, got)
		}
	}
}

func TestStopCheckpoints(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(2)
	w.begin()
	for w.run.info.DocsWritten < 2 {
		w.proceed(first)
	}
	w.step(Stop{})
	w.wantEnd(Stopped, "")
	if w.dbs[peer.Target].local["four"].body == nil || w.run.info.CheckpointedSeq != `"2-opaque"` {
		t.Errorf("no checkpoint: %+v", w.run.info)
	}
	for _, call := range []string{"open target", "get target", "read", "diff", "fetch", "write"} {
		w := newWorld(t)
		w.fill(2)
		w.begin()
		for !slices.ContainsFunc(w.calls, func(c string) bool { return strings.HasPrefix(c, call) }) {
			w.proceed(first)
		}
		w.step(Stop{})
		w.wantEnd(Stopped, "")
	}
}

func TestStopWhileAnEndpointIsDown(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	w.begin()
	for w.run.info.DocsWritten < 2 {
		w.proceed(first)
	}
	w.failOn("", 0, status(503))
	w.step(Stop{})
	w.wantEnd(Stopped, "")
	if got := w.run.Tally(); got.Checkpoints != 0 || got.CheckpointFailures != 1 {
		t.Errorf("counted %+v", got)
	}
}

func TestRecreatedDatabase(t *testing.T) {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		w := newWorld(t)
		w.fill(2)
		w.begin()
		for w.run.info.DocsWritten < 2 {
			w.proceed(first)
		}
		w.dbs[side].start = "2"
		w.wantEnd(Crashed,
			fmt.Sprintf("checkpoint_commit_failure: instance_start_time on %s database has changed", side))
	}
	w := newWorld(t)
	w.fill(2)
	w.dbs[peer.Source].start = "0"
	w.begin()
	for w.run.info.DocsWritten < 2 {
		w.proceed(first)
	}
	w.dbs[peer.Source].start = "3" // a cluster in the middle of an upgrade
	w.wantEnd(Completed, "")
}

func TestCheckpointConflict(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	lost := false
	w.fault = func(c Call) fault { // written, but the answer is lost
		if _, ok := c.Op.(peer.PutLocal); ok && !lost {
			lost = true
			return loses
		}
		return works
	}
	w.begin()
	w.wantEnd(Completed, "")

	w = newWorld(t)
	w.numbers()
	w.fill(2)
	w.begin()
	w.wantEnd(Completed, "")
	w.dbs[peer.Source].write("new", "1-a")
	w.begin()
	for w.run.commits.step != writingTarget {
		w.proceed(first)
	}
	w.dbs[peer.Source].local["four"] = localDoc{7, checkpoint.Log{SessionID: "other"}.Encode(false)}
	w.wantEnd(Crashed, "checkpoint_commit_failure: Error updating the source checkpoint document: conflict")

	w.begin()
	for w.run.commits.step != writingTarget {
		w.proceed(first)
	}
	delete(w.dbs[peer.Source].local, "four")
	w.wantEnd(Crashed, "checkpoint_commit_failure: the checkpoint document on the source database is gone")
}

// TestNoLookDuringCheckpoint: while a checkpoint is being written, which looks itself, the run does not look at the
// databases, however long that takes. Neither does it while one is wanted.
func TestNoLookDuringCheckpoint(t *testing.T) {
	for _, step := range []commitStep{resting, syncing, writingTarget, writingSource} {
		w := newWorld(t)
		w.plan.Continuous = true
		w.fill(2)
		w.begin()
		for w.run.commits.step != step || len(w.run.work.batches) > 0 || !w.run.commits.wanted() {
			w.proceed(first)
		}
		if at := w.run.watch.due(); at != instant.Never {
			t.Errorf("in step %d it looks at %s", step, at)
		}
	}
}

// TestLookFindsRunBefore: an idle run that finds such a checkpoint goes on, and takes a backup for one still.
func TestLookFindsRunBefore(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(2)
	w.begin()
	for w.run.info.CheckpointedSeq != `"2-opaque"` {
		w.proceed(first)
	}
	log, rev := w.logOn(peer.Target), w.dbs[peer.Target].local["four"].rev
	log.History = append([]checkpoint.Entry{{SessionID: "before", RecordedSeq: `"2-opaque"`}}, log.History...)
	log.SessionID = "before"
	w.dbs[peer.Target].local["four"] = localDoc{rev + 1, log.Encode(false)}
	for look := w.run.watch.next; w.end == nil && (w.now <= look || w.run.watch.looking); {
		w.proceed(first)
	}
	if w.end != nil || w.run.sides[peer.Target].log.SessionID != "before" {
		t.Fatalf("ended %v, log %+v", w.end, w.run.sides[peer.Target].log)
	}
	w.dbs[peer.Target].local["four"] = localDoc{rev, checkpoint.Log{SessionID: "older"}.Encode(false)}
	w.wantEnd(Crashed, "checkpoint_commit_failure: the checkpoint document on the target database has changed")
}

func TestFilter(t *testing.T) {
	w := newWorld(t)
	w.plan.Filter = &peer.GetFilter{DesignDoc: "d", Name: "f"}
	w.plan.IDs = func(code string) IDs { return IDs{Bases: []string{"id of " + code}, Extension: "+continuous"} }
	w.filter = "one"
	w.fill(2)
	w.begin()
	w.wantEnd(Completed, "")
	if w.calls[0] != "get filter d/f" || w.identified != "id of one+continuous" {
		t.Errorf("identified as %q; calls %v", w.identified, w.calls)
	}

	w.fill(5)
	w.begin()
	for w.run.info.DocsWritten < 5 {
		w.proceed(first)
	}
	w.filter = "two"
	before := w.dbs[peer.Target].local["id of one"].rev
	w.wantEnd(Changed, "")
	if w.dbs[peer.Target].local["id of one"].rev != before {
		t.Error("wrote a checkpoint for what two filters chose")
	}

	w.failOn("get filter", 1, status(404))
	w.begin()
	end := w.wantEnd(Crashed, "filter_fetch_error: could not read filter d/f: GET http://h/db/: 404")
	if end.Trouble.Throttled {
		t.Error("it was asked to slow down")
	}

	w.failOn("get filter", 0, status(429))
	w.begin()
	if end := w.wantEnd(Crashed, "filter_fetch_error"); !end.Trouble.Throttled {
		t.Error("the next run does not hear that this one was asked to slow down")
	}
}

// A run notices another filter function without a checkpoint to write, since that may let through what has
// passed: an idle one, and a busy one that keeps no checkpoints.
func TestFilterChangesBetweenCheckpoints(t *testing.T) {
	for name, c := range map[string]struct {
		checkpoints bool
		docs, looks int
	}{
		"idle":                      {true, 2, 3}, // one to begin with, and a checkpoint's
		"idle, without checkpoints": {false, 2, 2},
		"busy, without checkpoints": {false, 20_000, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Continuous, w.plan.UseCheckpoints = true, c.checkpoints
			w.plan.CheckpointInterval = 100 * time.Millisecond
			w.plan.Filter, w.filter = &peer.GetFilter{DesignDoc: "d", Name: "f"}, "one"
			w.fill(c.docs)
			w.begin()
			looks := func() (n int) {
				for _, call := range w.calls {
					if call == "get filter d/f" {
						n++
					}
				}
				return n
			}
			for end := w.now.Add(2 * leastLook); looks() < c.looks && w.now < end; {
				w.proceed(first)
			}
			if looks() < c.looks || w.end != nil {
				t.Fatalf("read the filter function %d times, and ended with %+v", looks(), w.end)
			}
			w.filter = "two"
			w.wantEnd(Changed, "")
			if c.docs > 2 && w.end.Info.DocsWritten >= int64(c.docs) {
				t.Error("noticed only when everything was copied")
			}
		})
	}
}

// TestErrorWords: a status that no other rule is about ends a run with the word of what was asked for, under which
// users look the error up; some statuses have words of their own.
func TestErrorWords(t *testing.T) {
	for word, ops := range map[string][]peer.Op{
		"db_not_found":              {peer.Open{}, peer.Create{}},
		"changes_req_failed":        {peer.ReadChanges{}},
		"revs_diff_failed":          {peer.DiffRevs{}},
		"bulk_docs_failed":          {peer.WriteDocs{}},
		"open_doc_revs_failed":      {peer.CopyDoc{}},
		"filter_fetch_error":        {peer.GetFilter{}},
		"checkpoint_commit_failure": {peer.GetLocal{}, peer.PutLocal{}, peer.Commit{}},
		"http_error_400":            {peer.CountPending{}, peer.FindRev{}, peer.ReadDocs{}, peer.EditDocs{}},
	} {
		for _, op := range ops {
			for status, want := range map[int]string{
				400: word, 401: "unauthorized", 403: "forbidden",
				408: "http_request_failed", 500: "http_request_failed", 599: "http_request_failed",
			} {
				f := peer.Failure{Kind: peer.Status, Status: status}
				if got := TroubleOf(op, &f).Error; got != want {
					t.Errorf("%s: %d is %s, want %s", op, status, got, want)
				}
			}
		}
	}
}

// TestThrottledCheckpoint: the next run hears that a server asked to slow down when it was to store a checkpoint.
func TestThrottledCheckpoint(t *testing.T) {
	for _, at := range []string{"commit target", "put target"} {
		for code, slow := range map[int]bool{429: true, 500: false} {
			w := newWorld(t)
			w.fill(1)
			w.failOn(at, 0, status(code))
			w.begin()
			if end := w.wantEnd(Crashed, "checkpoint_commit_failure"); end.Trouble.Throttled != slow {
				t.Errorf("%s answers %d: throttled is %v", at, code, end.Trouble.Throttled)
			}
		}
	}
}

// TestCut: proxies cut long polls with 408 and 504; other failures are of the server.
func TestCut(t *testing.T) {
	cuts := map[peer.Failure]bool{
		{Kind: peer.Broken}: true, {Kind: peer.TimedOut}: true,
		{Kind: peer.Status, Status: 408}: true, {Kind: peer.Status, Status: 504}: true,
	}
	for kind := peer.Status; kind <= peer.Denied; kind++ {
		for status := 400; status < 600; status++ {
			f := peer.Failure{Kind: kind}
			if kind == peer.Status {
				f.Status = status
			}
			if Cut(&f) != cuts[f] {
				t.Errorf("%+v cuts: %v", f, Cut(&f))
			}
		}
	}
}
