package jobstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"
)

func newWaitingBench(t *testing.T) *bench {
	b := newBench(t)
	b.s.Config.DuplicatesWait = true
	return b
}

func (b *bench) complete(w Work) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(replication.End{}, Turn{Place: w.Place})
	})
}

// promote has jobs come back.
func (b *bench) promote(without ...string) (moved int) {
	b.t.Helper()
	b.do(func(tx kv.Tx) (err error) { moved, _, err = b.s.Promote(tx, b.now, 10, without...); return err })
	return moved
}

func (b *bench) standBy(w Work, repID string, turn Turn) {
	b.t.Helper()
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).StandBy(repID, "", turn) })
}

// TestDuplicatesWait: documents with one replication run one after the other, whatever ends each of them.
func TestDuplicatesWait(t *testing.T) {
	for name, end := range map[string]func(*bench, Work){
		"completed": (*bench).complete,
		"failed": func(b *bench, w Work) {
			b.do(func(tx kv.Tx) error {
				return b.s.Owned(tx, w.JobID, w.Lock, b.now).Fail(crash.Trouble, Turn{Place: w.Place})
			})
		},
		"deleted": func(b *bench, _ Work) { b.put("one", `{"_deleted":true}`, admin) },
		"another replication": func(b *bench, _ Work) {
			b.put("one", `{"source":"http://h/x","target":"http://h/b"}`, admin)
		},
		"said to be completed": func(b *bench, _ Work) {
			b.put("one", simple[:len(simple)-1]+`,"_replication_state":"completed"}`, admin)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newWaitingBench(t)
			b.put("one", simple, admin)
			w := b.accept()
			b.put("three", simple, admin)
			b.put("two", simple, admin)
			for _, id := range []string{"two", "three"} {
				if v := b.shown(jobID(id)); v.State != Pending || v.WaitsFor != w.Record.RepID {
					t.Errorf("%s is %s and waits for %q", id, v.State, v.WaitsFor)
				}
			}
			if ids, _ := b.tryAccept(); len(ids) > 0 {
				t.Fatalf("accepted %v", ids)
			}
			end(b, w)
			b.promote()
			if name == "another replication" {
				b.pause(jobID("one")) // which is ready, too
			}
			next := b.accept()
			if next.JobID != jobID("three") || !next.Claimed {
				t.Fatalf("next is %s, claimed %v", next.JobID, next.Claimed)
			}
			b.complete(next)
			b.promote()
			if last := b.accept(); last.JobID != jobID("two") || !last.Claimed {
				t.Errorf("last is %s, claimed %v", last.JobID, last.Claimed)
			}
		})
	}
}

// TestAwaitedOnce: further jobs with the replication of one that runs do not keep that from storing its progress.
func TestAwaitedOnce(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	w := b.accept()
	b.put("two", simple, admin)
	attempts := 0
	b.do1(func(tx kv.Tx) error {
		err := b.s.Owned(tx, w.JobID, w.Lock, b.now).Progress(Stats{})
		if attempts++; attempts == 1 {
			b.put("three", simple, admin)
		}
		return err
	})
	if attempts != 1 {
		t.Errorf("progress is stored by attempt %d", attempts)
	}
}

// TestHeirIsRemoved: a job that got the replication of another and is removed, or paused, before it runs does not
// keep the others from it, or shows that it does.
func TestHeirIsRemoved(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	b.put("two", simple, admin)
	b.put("three", simple, admin)
	b.put("one", `{"_deleted":true}`, admin)
	b.promote()
	b.put("three", `{"_deleted":true}`, admin)
	b.promote()
	if w := b.accept(); w.JobID != jobID("two") {
		t.Errorf("accepted %s", w.JobID)
	}
}

// TestPausedDuplicate: a job that waits may be paused and resumed; it waits again then, or runs.
func TestPausedDuplicate(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	w := b.accept()
	b.put("two", simple, admin)
	b.pause(jobID("two"))
	if v := b.shown(jobID("two")); v.State != Paused {
		t.Fatalf("it is %s", v.State)
	}
	b.resume(jobID("two"))
	two := b.accept()
	b.standBy(two, two.Record.RepID, Turn{Place: two.Place, Began: two.Place})
	if v := b.shown(jobID("two")); v.WaitsFor == "" || v.History[0].Type != "waiting" {
		t.Fatalf("it is %s: %+v", v.State, v.History[0])
	}
	b.complete(w)
	b.promote()
	b.accept()
}

// TestPausedBeforeStandBy: a job that was paused while it ran, and turns out to be a duplicate, is paused and waits for
// nothing, so that no other one's end has it run.
func TestPausedBeforeStandBy(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	one := b.accept()
	b.put("two", `{"source":"http://h/x","target":"http://h/b"}`, admin)
	two := b.accept()
	b.pause(two.JobID)
	b.standBy(two, one.Record.RepID, Turn{Place: two.Place, Began: two.Place})
	if v := b.shown(two.JobID); v.State != Paused || v.WaitsFor != "" {
		t.Errorf("it is %s and waits for %q", v.State, v.WaitsFor)
	}
	b.complete(one)
	b.promote()
	if v := b.shown(two.JobID); v.State != Paused {
		t.Errorf("after the other one's end it is %s", v.State)
	}
}

// TestStandByOfFreeReplication: the other job ended between the refusal and the end of the run.
func TestStandByOfFreeReplication(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	w := b.accept()
	b.standBy(w, "free", Turn{Place: schedule.Place{Key: w.Place.Key + 1}, Began: w.Place})
	if got := b.accept(); got.Place != w.Place {
		t.Errorf("it stood at %+v, and now at %+v", w.Place, got.Place)
	}
}

// TestEndWithoutClaim: a job that has lost its replication to another one hands it to none when it ends.
func TestEndWithoutClaim(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	one := b.accept()
	b.put("two", simple, admin)
	b.do(func(tx kv.Tx) error {
		claim := b.s.Keys.Claim.Pack(one.Record.RepID)
		tx.Set(claim, []byte(jobID("another")))
		rec, err := b.s.Record(tx, one.JobID)
		if err == nil {
			err = b.s.Owned(tx, one.JobID, one.Lock, b.now).bequeath(rec)
		}
		if owner, _ := tx.Get(claim); string(owner) != jobID("another") || !rec.Awaited {
			t.Errorf("it goes to %s; awaited %t", owner, rec.Awaited)
		}
		tx.Set(claim, []byte(one.JobID))
		return err
	})
}

// TestPlaceOfDuplicate: a job that waited for its turn, and may not run since another has its replication, still has
// that turn before it when the other one is over, whatever the policy and its weight. Its account pays for the run.
func TestPlaceOfDuplicate(t *testing.T) {
	for _, policy := range []schedule.Policy{schedule.FairShare, schedule.FIFO, schedule.Tags} {
		t.Run(policy.String(), func(t *testing.T) {
			b := newWaitingBench(t)
			b.share(func(c *Sharing) { c.Policy = policy })
			b.put("one", simple, admin)
			one := b.accept()
			b.put("two", weighing(simple, "1"), admin)
			b.pause(jobID("two"))
			b.resume(jobID("two"))
			two := b.accept()
			before := b.account("_replicator").Tail
			grown := schedule.Place{Epoch: two.Place.Epoch, Key: two.Place.Key + 7}
			b.standBy(two, two.Record.RepID, Turn{Place: grown, Owed: time.Minute, Began: two.Place})
			if paid := b.account("_replicator").Tail - before; policy == schedule.Tags && paid != 60_000_000 {
				t.Errorf("its account paid %d", paid)
			}
			b.complete(one)
			b.promote()
			if got := b.accept(); got.JobID != two.JobID || got.Place != two.Place {
				t.Errorf("%s stood at %+v, and %s runs from %+v", two.JobID, two.Place, got.JobID, got.Place)
			}
		})
	}
}

// TestRequestOfDuplicate: a request for a replication that a document runs is told so, and makes no job.
func TestRequestOfDuplicate(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	rep, err := spec.ParseRequest([]byte(simple), b.s.Config.Parse)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kv.Run(context.Background(), b.db, func(tx kv.Tx) (string, error) {
		return b.s.Replicate(tx, rep, "u", b.now)
	})
	if dup, is := errors.AsType[*Duplicate](err); !is || dup.Other.DocID != "one" {
		t.Errorf("%v", err)
	}
	b.put("one", `{"_deleted":true}`, admin)
	b.do(func(tx kv.Tx) error { _, err := b.s.Replicate(tx, rep, "u", b.now); return err })
}

// TestRequestBehindDropped: jobs of a deleted database are in no request's way before they are swept, be it a new one
// or one that is to run again; another document's job that waited behind them has the replication first.
func TestRequestBehindDropped(t *testing.T) {
	rep, err := spec.ParseRequest([]byte(simple), spec.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for name, others := range map[string]bool{"none waits": false, "another document waits": true} {
		b := newWaitingBench(t)
		ask := func() (id string, err error) {
			return kv.Run(context.Background(), b.db, func(tx kv.Tx) (string, error) {
				return b.s.Replicate(tx, rep, "u", b.now)
			})
		}
		id, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		b.end(b.accept(), func(h Owned) error { return h.Fail(crash.Trouble, Turn{}) })
		b.put("one", simple, admin)
		b.put("two", simple, admin)
		if running := b.accept(); running.JobID != jobID("one") {
			t.Fatal(running.JobID)
		}
		b.do1(func(tx kv.Tx) error {
			b.s.Drop(tx, tuple.UUID{1})
			return b.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
		})
		b.do1(func(tx kv.Tx) error { return b.s.Docs.Create(tx, "_replicator", tuple.UUID{2}, b.now) })
		if others {
			b.put("three", simple, admin)
		}
		if changed, obstacle := b.retry(id); changed == others {
			t.Errorf("%s: it runs again: %v, %s", name, changed, obstacle)
		}
		again, err := ask()
		dup, is := errors.AsType[*Duplicate](err)
		if is != others || is && dup.Other.DocID != "three" || !is && again != id {
			t.Errorf("%s: %v", name, err)
		}
		b.do1(func(tx kv.Tx) error { return errors.Join(b.s.Audit(tx), b.s.Jobs.Audit(tx)) })
	}
}

// TestEditKeepsTheReplication: an edit that leaves the replication id as it is does not hand it to a job that waits.
func TestEditKeepsTheReplication(t *testing.T) {
	b := newWaitingBench(t)
	b.put("one", simple, admin)
	b.put("two", simple, admin)
	b.put("one", simple[:len(simple)-1]+`,"worker_batch_size":7}`, admin)
	w := b.accept()
	if w.JobID != jobID("one") || !w.Claimed {
		t.Fatalf("accepted %s, claimed %v", w.JobID, w.Claimed)
	}
	b.complete(w)
	b.promote()
	if w := b.accept(); w.JobID != jobID("two") {
		t.Errorf("accepted %s", w.JobID)
	}
}

// TestUnreadableHeir: a job ends, or is deleted, though one that waits for its replication cannot be read. The next one
// that can be read has it then, and the other once it is put right. One that came in between has it first.
func TestUnreadableHeir(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		b := newWaitingBench(t)
		set := func(id string, value []byte) (was []byte) {
			key := b.s.Keys.Jobs.Job.Pack(jobID(id), 0)
			b.do1(func(tx kv.Tx) (err error) { was, err = tx.Get(key); tx.Set(key, value); return err })
			return was
		}
		promote := func(without ...string) error {
			return kv.Do(t.Context(), b.db, func(tx kv.Tx) error {
				_, _, err := b.s.Promote(tx, b.now, 9, without...)
				return err
			})
		}
		start := func(id string) (w Work) {
			t.Helper()
			b.do1(func(tx kv.Tx) error {
				b.batch++
				got, err := b.s.Accept(tx, "w", "node1", jobs.Demand{Batch: b.batch, Max: 5}, b.now)
				if err == nil && (len(got.Work) != 1 || got.Work[0].JobID != jobID(id) || !got.Work[0].Claimed) {
					t.Fatalf("accepted %v, want %s", got.Work, id)
				}
				w = got.Work[0]
				return err
			})
			return w
		}
		write := func(id, body string) {
			if err := b.writeTo("_replicator", id, body, admin); err != nil {
				t.Fatal(err)
			}
		}
		end := func(w Work) {
			if deleted {
				write(w.Record.DocID, `{"_deleted":true}`)
				return
			}
			b.do1(func(tx kv.Tx) error {
				return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(replication.End{}, Turn{Place: w.Place})
			})
		}
		b.put("first", simple, admin)
		w := start("first")
		b.put("odd", simple, admin)
		b.put("other", simple, admin)
		was := set("odd", []byte(fakefdb.Unreadable))
		end(w)
		if e, is := errors.AsType[*jobs.UnreadableError](promote()); !is || e.Job != jobID("odd") {
			t.Errorf("deleted %t: told of %v", deleted, e)
		}
		if err := promote(jobID("odd")); err != nil {
			t.Fatal(err)
		}
		end(start("other"))
		b.do1(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 9, jobID("odd")); return err })
		write("late", simple)
		w = start("late")
		running := set("late", []byte(fakefdb.Unreadable))
		if err := promote(jobID("odd"), jobID("late")); err != nil {
			t.Errorf("deleted %t: the one that has it keeps the rest from being moved: %v", deleted, err)
		}
		set("late", running)
		set("odd", was)
		b.promote()
		b.put("yet another", simple, admin)
		end(w)
		b.promote()
		end(start("odd"))
		b.promote()
		start("yet another")
	}
}

// TestRepairWakes: a job that waits for a replication which no job has, or for a job that would not wake it, has its
// turn after a repair.
func TestRepairWakes(t *testing.T) {
	for _, damage := range []string{"no claim", "not awaited", "no note"} {
		b := newWaitingBench(t)
		b.put("first", simple, admin)
		b.put("second", simple, admin)
		repID := b.record(jobID("first")).RepID
		if damage == "no note" {
			b.put("first", `{"_deleted":true}`, admin)
		}
		b.do1(func(tx kv.Tx) error {
			switch damage {
			case "no claim":
				tx.Clear(b.s.Keys.Claim.Pack(repID))
			case "no note": // as an older node leaves it, which takes it for that of a hold
				tx.ClearRange(b.s.Keys.Lifted.Range())
			default:
				j, rec, err := readJob(b.s, tx, jobID("first"))
				rec.Awaited = false
				return errors.Join(err, lots{b.s, tx}.save(j, rec))
			}
			return nil
		})
		if left := b.mendAll(); len(left) > 0 {
			t.Errorf("%s: a repair leaves %s", damage, left[0].What)
		}
		b.promote()
		if damage == "not awaited" {
			b.put("first", `{"_deleted":true}`, admin)
			b.promote()
		}
		if got := b.record(jobID("second")); got.WaitsFor != "" {
			t.Errorf("%s: second still waits for %s", damage, got.WaitsFor)
		}
	}
}

// TestHandedOverAtOnce: a job that waits for another one's replication has it from the moment of that one's end, and no
// document that is written later comes first.
func TestHandedOverAtOnce(t *testing.T) {
	b := newWaitingBench(t)
	b.put("1", simple, admin)
	b.put("2", simple, admin)
	for _, next := range []string{"3", "4", "5"} {
		w := b.accept()
		if next > "4" {
			b.put(w.Record.DocID, `{"_deleted":true}`, admin)
		} else {
			b.complete(w)
		}
		b.put(next, simple, admin)
		if v := b.shown(jobID(next)); v.WaitsFor == "" {
			t.Errorf("%s does not wait", next)
		}
	}
	if w := b.accept(); w.Record.DocID != "4" {
		t.Errorf("%s comes first", w.Record.DocID)
	}
}
