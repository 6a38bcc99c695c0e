package jobstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// by is the hand of an operator.
func (b *bench) by(tx kv.Tx) Operator { return Operator{Store: b.s, Tx: tx, By: "ann", Now: b.now} }

func (b *bench) pause(id string) (changed bool) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error {
		done, err := b.by(tx).Pause(id, "too loud")
		changed = changed || done
		return err
	})
	return changed
}

func (b *bench) resume(id string) (changed bool) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error {
		done, err := b.by(tx).Resume(id, "")
		changed = changed || done
		if _, is := err.(Obstacle); is {
			return nil
		}
		return err
	})
	return changed
}

// tryAccept takes up to five ready jobs, and returns their ids and how many were parked.
func (b *bench) tryAccept() (ids []string, parked int) {
	b.t.Helper()
	taken := get(b, func(tx kv.Tx) (Taken, error) {
		return b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: b.batch + 1, Max: 5}, b.now)
	})
	for _, w := range taken.Work {
		ids = append(ids, w.JobID)
	}
	if len(ids) > 0 {
		b.batch++
	}
	b.do1(func(tx kv.Tx) error { return b.s.Audit(tx) })
	return ids, taken.Parked
}

func (b *bench) shown(id string) View {
	b.t.Helper()
	return b.record(id).View()
}

// TestPauseOfPendingJob: a paused job stands in no queue, keeps its pause over edits of its document, and its claim.
func TestPauseOfPendingJob(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	id := jobID("r")
	if !b.pause(id) || b.pause(id) {
		t.Fatal("the first pause changes nothing, or the second something")
	}
	v := b.shown(id)
	if v.State != Paused || v.Pause == nil || v.Pause.By != "ann" || v.Pause.Reason != "too loud" {
		t.Errorf("shown as %s, %+v", v.State, v.Pause)
	}
	if e := v.History[0]; e.Type != "paused" || e.By != "ann" {
		t.Errorf("history says %+v", e)
	}
	b.put("r", `{"source":"http://h/c","target":"http://h/b"}`, admin)
	if v := b.shown(id); v.State != Paused || v.Pause == nil || v.Source != "http://h/c/" {
		t.Errorf("after an edit it is %s from %s", v.State, v.Source)
	}
	if ids, _ := b.tryAccept(); len(ids) > 0 {
		t.Fatalf("a paused job was accepted: %v", ids)
	}
	if n := get(b, b.jobsCounted); n != 0 {
		t.Errorf("a paused job counts as %d of its account", n)
	}
	if !b.resume(id) || b.resume(id) {
		t.Fatal("the first end of the pause changes nothing, or the second something")
	}
	if n := get(b, b.jobsCounted); n != 1 {
		t.Errorf("a resumed job counts as %d of its account", n)
	}
	if ids, _ := b.tryAccept(); len(ids) != 1 {
		t.Error("a resumed job is not accepted")
	}
}

func (b *bench) jobsCounted(tx kv.Tx) (int64, error) {
	list, err := b.s.Accounts(tx, []string{"_replicator"}, schedule.Order{}, b.now)
	if err != nil {
		return 0, err
	}
	return list[0].Jobs, nil
}

// TestPauseOfRunningJob: the worker is asked to stop, and the job is paused when it has; also when the worker
// vanishes instead, or the run crashes.
// TestPauseOfCrashingJob: the job comes back for the rest of its wait, as crashing as it was.
func TestPauseOfCrashingJob(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	b.crash(w)
	header := func() *jobs.Job {
		return get(b, func(tx kv.Tx) (*jobs.Job, error) { return b.s.Jobs.Get(tx, w.JobID) })
	}
	due := header().Due
	b.pause(w.JobID)
	b.resume(w.JobID)
	if j := header(); due <= b.now || j.Due != due || b.shown(w.JobID).State != Crashing {
		t.Errorf("due at %s, was due at %s: %s", j.Due, due, b.shown(w.JobID).State)
	}
	if ids, _ := b.tryAccept(); len(ids) > 0 {
		t.Errorf("accepted %v", ids)
	}
}

func TestPauseOfRunningJob(t *testing.T) {
	for name, end := range map[string]func(*bench, Work){
		"requeued": func(b *bench, w Work) {
			b.do(func(tx kv.Tx) error {
				return b.s.Owned(tx, w.JobID, w.Lock, b.now).Requeue(nil, Turn{Place: w.Place})
			})
		},
		"crashed": func(b *bench, w Work) {
			b.do(func(tx kv.Tx) error {
				return b.s.Owned(tx, w.JobID, w.Lock, b.now).Crash(crash.Trouble, nil, Turn{Place: w.Place}, 1)
			})
		},
		"vanished": func(b *bench, w Work) {
			b.do1(func(tx kv.Tx) error { _, err := b.s.Jobs.Expire(tx, "w", nil, 10); return err })
			b.do1(func(tx kv.Tx) error { return b.s.Jobs.Register(tx, "w", nil) })
			if ids, parked := b.tryAccept(); len(ids) != 0 || parked != 1 {
				b.t.Errorf("accepted %v, parked %d", ids, parked)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put("r", simple, admin)
			w := b.accept()
			b.pause(w.JobID)
			held := get(b, func(tx kv.Tx) ([]jobs.Held, error) { return b.s.Jobs.Owned(tx, "w") })
			if v := b.shown(w.JobID); v.State != Running || v.Pause == nil || len(held) != 1 || !held[0].Stop {
				t.Fatalf("it is %s, held as %+v", v.State, held)
			}
			end(b, w)
			if v := b.shown(w.JobID); v.State != Paused {
				t.Errorf("it is %s", v.State)
			}
			b.resume(w.JobID)
			if name == "crashed" {
				b.wantState(w.JobID, Crashing) // its wait goes on
				return
			}
			if ids, _ := b.tryAccept(); len(ids) != 1 {
				t.Error("it is not accepted")
			}
		})
	}
}

// TestPausedDocument: people who keep documents in version control pause there.
func TestPausedDocument(t *testing.T) {
	b := newBench(t)
	const paused = `{"source":"http://u:p@h/a","target":"http://h/b","paused":true}`
	b.put("r", paused, admin)
	id := jobID("r")
	if v := b.shown(id); v.State != Paused || !v.PausedByDocument {
		t.Fatalf("a new document: %s", v.State)
	}
	if b.resume(id) {
		t.Error("an operator resumes what the document pauses")
	}
	b.put("r", simple, admin)
	w := b.accept()
	b.put("r", paused, admin)
	held := get(b, func(tx kv.Tx) ([]jobs.Held, error) { return b.s.Jobs.Owned(tx, "w") })
	if len(held) != 1 || !held[0].Stop || held[0].Lock != w.Lock {
		t.Fatalf("a running job is not to be stopped in order: %+v", held)
	}
	if b.record(id).Created != w.Record.Created {
		t.Error("the job was made anew")
	}
	b.requeue(w, Turn{Place: w.Place})
	if v := b.shown(id); v.State != Paused {
		t.Errorf("once its run has stopped, the job is %s", v.State)
	}
	if err := b.put("q", `{"source":"http://h/a","target":"http://h/b","paused":"yes"}`, admin); err == nil {
		t.Error("a pause that is no boolean is taken")
	}
}

// TestHold: no job that a hold matches is accepted, and its jobs come back one by one when it is lifted.
func TestHold(t *testing.T) {
	b := newBench(t)
	b.put("on", `{"source":"http://a:5984/x","target":"http://B.example:80/y"}`, admin)
	b.put("off", `{"source":"http://a:5985/x","target":"http://c/y"}`, admin)
	hold := Hold{Server: "b.EXAMPLE", Reason: "disks"}
	if err := hold.Validate(); err != nil {
		t.Fatal(err)
	}
	calls := get(b, func(tx kv.Tx) (int64, error) { return b.s.Jobs.Calls(tx, "w") })
	var made bool
	b.do(func(tx kv.Tx) error { m, err := b.by(tx).MakeHold(hold); made = made || m; return err })
	if again := get(b, func(tx kv.Tx) (int64, error) { return b.s.Jobs.Calls(tx, "w") }); !made || again <= calls {
		t.Errorf("made %v, the worker was called %d times before and %d after", made, calls, again)
	}
	if ids, parked := b.tryAccept(); len(ids) != 1 || ids[0] != jobID("off") || parked != 1 {
		t.Fatalf("accepted %v, parked %d", ids, parked)
	}
	if v := b.shown(jobID("on")); v.State != Pending || v.HeldBy != "server:b.example" {
		t.Errorf("it is %s, held by %q", v.State, v.HeldBy)
	}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold("server:b.example"); return err })
	if left := get(b, func(tx kv.Tx) (*Hold, error) { return b.s.Keys.Hold(tx, "server:b.example") }); left != nil {
		t.Errorf("the hold that is lifted is %+v", *left)
	}
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 10); return err })
	if ids, _ := b.tryAccept(); len(ids) > 0 {
		t.Error("it comes back at once, with all the others")
	}
	b.now = b.now.Add(time.Minute)
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 10); return err })
	if ids, _ := b.tryAccept(); len(ids) != 1 {
		t.Error("it does not come back")
	}
}

// TestHoldMadeAgain: jobs of a lifted hold that have not come back yet stay where they are if it is made once more.
func TestHoldMadeAgain(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	hold := Hold{Server: "h"}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
	if _, parked := b.tryAccept(); parked != 1 {
		t.Fatalf("%d jobs are parked", parked)
	}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold(hold.ID()); return err })
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 9); return err })
	if v := b.shown(jobID("r")); v.HeldBy != hold.ID() {
		t.Errorf("it is %s, held by %q", v.State, v.HeldBy)
	}
}

// TestLiftOfNoHold: there is nothing to lift where there is no hold, and no row is left that says otherwise.
func TestLiftOfNoHold(t *testing.T) {
	b := newBench(t)
	before := b.db.Hash()
	if get(b, func(tx kv.Tx) (bool, error) { return b.by(tx).LiftHold("server:h") }) || b.db.Hash() != before {
		t.Error("a hold was lifted that nobody made")
	}
}

// TestReleaseIsSpread: the jobs of a lifted hold are due at different times, all within a minute.
func TestReleaseIsSpread(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		b.put(string(rune('a'+i)), `{"source":"http://a/x","target":"http://c/y`+string(rune('a'+i))+`"}`, admin)
	}
	hold := Hold{Database: "_replicator"}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
	for parked := 1; parked > 0; {
		_, parked = b.tryAccept()
	}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold(hold.ID()); return err })
	for range 3 {
		b.do1(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 9); return err })
	}
	due := map[instant.Time]bool{}
	for _, j := range get(b, func(tx kv.Tx) ([]*jobs.Job, error) { return b.s.Jobs.List(tx, jobs.Page{Limit: 100}) }) {
		if j.Lot != "" || j.Due < b.now || j.Due > b.now.Add(time.Minute) {
			t.Errorf("%s", j)
		}
		due[j.Due] = true
	}
	if len(due) < 15 {
		t.Errorf("%d due times of 20 jobs", len(due))
	}
}

// TestLiftedAndUnreadable: a job of a lifted hold that cannot be read stays where it is until it can.
func TestLiftedAndUnreadable(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	hold := Hold{Server: "h"}
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(hold); return err })
	b.tryAccept()
	b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold(hold.ID()); return err })
	if b.promote(jobID("r")); b.shown(jobID("r")).HeldBy == "" {
		t.Error("it comes back unread")
	}
	if b.promote(); b.shown(jobID("r")).HeldBy != "" {
		t.Error("it does not come back")
	}
}

// TestLiftedAtOnce: the jobs of all lifted holds come back with the next look, within its bound.
func TestLiftedAtOnce(t *testing.T) {
	b := newBench(t)
	for _, server := range []string{"a", "b", "c"} {
		for i := range 4 {
			doc := fmt.Sprintf(`{"source":"http://%s/x","target":"http://t/%s%d"}`, server, server, i)
			b.put(fmt.Sprint(server, i), doc, admin)
		}
		b.do(func(tx kv.Tx) error { _, err := b.by(tx).MakeHold(Hold{Server: server}); return err })
	}
	for parked := 1; parked > 0; {
		_, parked = b.tryAccept()
	}
	for _, server := range []string{"a", "b", "c"} {
		b.do(func(tx kv.Tx) error { _, err := b.by(tx).LiftHold("server:" + server); return err })
	}
	for _, want := range []int{5, 5, 2} {
		b.do1(func(tx kv.Tx) error {
			moved, _, err := b.s.Promote(tx, b.now, 5)
			if moved != want {
				t.Errorf("%d jobs come back, not %d", moved, want)
			}
			return err
		})
	}
	if rows := get(b, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(b.s.Keys.Lifted.Range(), kv.RangeOptions{})
	}); len(rows) > 0 {
		t.Errorf("%d holds are still lifted", len(rows))
	}
}

// TestServers: a hold without a port means all ports, and one with a port that port only. What is no URL is on no
// server.
func TestServers(t *testing.T) {
	rec := Record{Source: "https://A.example/db/", Target: "http://[::1]:5984/db/"}
	for server, want := range map[string]bool{
		"a.example": true, "a.example:443": true, "a.example:80": false, "b.example": false, "[::1]": true,
		"[::1]:5984": true, "[::1]:80": false, "example": false,
	} {
		if e := (Hold{Server: server}); e.Matches(&rec) != want {
			t.Errorf("%s matches: %v", server, !want)
		}
	}
	for _, endpoint := range []string{"", "a.example/db/", "http://:80/db/", "http://a.example:x/db/"} {
		if with, without := Servers(endpoint); with != "" || without != "" {
			t.Errorf("%q is on %q and %q", endpoint, with, without)
		}
	}
}

// TestHoldOnServer: a hold on a server is on no other one, and one on a database is on none.
func TestHoldOnServer(t *testing.T) {
	for _, c := range []struct {
		hold Hold
		want bool
	}{{Hold{Server: "h"}, true}, {Hold{Server: "h:80"}, true}, {Hold{Server: "i"}, false},
		{Hold{Database: "d"}, false}} {
		if c.hold.On("h:80") != c.want {
			t.Errorf("%+v is on the server: %v", c.hold, !c.want)
		}
	}
}

// TestNameOfHold: a hold names a server of as many bytes as a label has, and of no more.
func TestNameOfHold(t *testing.T) {
	for size, fits := range map[int]bool{maxLabel: true, maxLabel + 1: false} {
		if err := (&Hold{Server: strings.Repeat("h", size)}).Validate(); (err == nil) != fits {
			t.Errorf("of %d bytes: %v", size, err)
		}
	}
}

// TestManyHolds: the first hold that stops a job is found among many, without a comparison with each.
func TestManyHolds(t *testing.T) {
	rec := Record{Database: "b/_replicator", Source: "https://A.example/db/", Target: "http://[::1]:5984/db/"}
	all := []Hold{
		{Database: "a/_replicator"}, {Database: "b/_replicator"}, {Server: "[::1]"}, {Server: "[::1]:5984"},
		{Server: "[::1]:80"}, {Server: "a.example"}, {Server: "a.example:443"}, {Server: "b.example"},
	}
	for set := range 1 << len(all) {
		var some []Hold
		want := ""
		for i, e := range all {
			if set&(1<<i) != 0 {
				some = append(some, e)
				if want == "" && e.Matches(&rec) {
					want = e.ID()
				}
			}
		}
		if got := HoldingOf(some).Stops(&rec); got != want {
			t.Errorf("of %v %q stops the job, and should be %q", some, got, want)
		}
	}
	for i := range 100_000 {
		all = append(all, Hold{Server: fmt.Sprintf("h%d.example", i)})
	}
	many := HoldingOf(all[4:])
	for range 100_000 {
		if got := many.Stops(&rec); got != "server:a.example" {
			t.Fatalf("%q stops the job", got)
		}
	}
}

// TestReturnUnderTags: a job that was paused while the others had turns has saved up none.
func TestReturnUnderTags(t *testing.T) {
	b := newBench(t)
	tags := DefaultSharing()
	tags.Policy = schedule.Tags
	b.do(func(tx kv.Tx) error { return b.s.Share(tx, tags, b.now) })
	b.put("r", simple, admin)
	b.pause(jobID("r"))
	for i := range 20 {
		id := "o" + string(rune('a'+i))
		b.put(id, `{"source":"http://h/`+id+`","target":"http://h/z"}`, admin)
		w := b.accept()
		turn := Turn{Place: w.Place, Owed: time.Hour}
		b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(crash, turn) })
	}
	b.put("last", `{"source":"http://h/last","target":"http://h/z"}`, admin)
	first := get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 1) })[0]
	b.resume(jobID("r"))
	again := get(b, func(tx kv.Tx) ([]schedule.Place, error) { return b.ready(tx, 1) })[0]
	if again.Compare(first) < 0 {
		t.Errorf("it comes back at %v, before %v, which waits", again, first)
	}
}

// TestReturnFromEarlierPolicy: a job that was paused while the policy changed comes back to the place that it had,
// though other jobs have used up time since.
func TestReturnFromEarlierPolicy(t *testing.T) {
	b := newBench(t)
	to := func(p schedule.Policy) { b.share(func(c *Sharing) { c.Policy = p }) }
	to(schedule.Tags)
	b.put("r", simple, admin)
	had := b.first()
	b.pause(jobID("r"))
	to(schedule.FIFO)
	to(schedule.Tags)
	for _, id := range []string{"a", "b"} {
		b.put(id, `{"source":"http://h/`+id+`","target":"http://h/z"}`, admin)
		w := b.accept()
		b.do(func(tx kv.Tx) error {
			return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(crash, Turn{Place: w.Place, Owed: time.Hour})
		})
	}
	b.resume(jobID("r"))
	if got := b.first(); got != had {
		t.Errorf("it comes back at %v, and was at %v", got, had)
	}
}

// TestPausedTwiceAtOnce: an order that is given at the moment in which the document pauses its job is no repetition of
// that: the pause outlives the document's.
func TestPausedTwiceAtOnce(t *testing.T) {
	const document = `{"source":"http://h/a","target":"http://h/b","continuous":true`
	b := newBench(t)
	b.put("r", document+`}`, admin)
	b.put("r", document+`,"paused":true}`, admin)
	if !b.pause(jobID("r")) {
		t.Error("the order changed nothing")
	}
	b.put("r", document+`}`, admin)
	if v := b.shown(jobID("r")); v.State != Paused {
		t.Errorf("the job is %s", v.State)
	}
}
