package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/check"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb/damaged"
)

// TestDamagedRowsAreTold: whichever row that a request of a node reads has a value that nothing can be made of, or
// stands before one whose key cannot be read, the request fails. It does not go on without the row, nor as if it were
// not there. Values that mean something whatever bytes they have are left out: counters, ids, and leases.
func TestDamagedRowsAreTold(t *testing.T) {
	w := newWorld(t)
	free := []string{
		"claim/", "count/", "usage/", "jobs/replication/count/", "jobs/replication/signal/", "jobs/replication/worker/",
		"jobs/replication/beat/",
	}
	tried := map[string]int{}
	try := func(q Request) bool {
		name := fmt.Sprintf("%T", q)
		if tried[name]++; tried[name] > 4 {
			return false
		}
		op := func(tx kv.Tx) error { _, err := Perform(tx, w.s, q, w.now); return err }
		err := damaged.Each(t.Context(), w.db, op, func(row damaged.Row, err error) {
			key := check.Readable(tuple.Subspace(tuple.Pack("test")), row.Key)
			is := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			if _, reads := q.(ReadRefused); reads && is("jobs/replication/job/") {
				return // of the job the lock alone counts
			}
			if _, sweeps := q.(Sweep); sweeps && (is("usage/") || is("count/")) {
				return // they stay as they are
			}
			switch q.(type) {
			case Complete, Fail, StandBy, Claim:
				if strings.Contains(key, "|twin") { // the job that waits goes on waiting
					return
				}
			}
			if err == nil && (row.Behind || !slices.ContainsFunc(free, is)) {
				t.Errorf("%s goes on past a damaged %s (behind: %v)", name, key, row.Behind)
			}
		}, w.s.Keys.Reindex)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return false
	}
	w.putMany(8, true)
	w.put("twin", `{"source":"http://h/a0","target":"http://h/b0","continuous":true}`)
	n := w.start("n", nil)
	n.hold = try
	w.pass(time.Minute)
	held := n.runs[0].held
	for _, q := range []Request{ // that the rest does not bring
		Join{Worker: "z"}, Resume{Held: held}, Fail{Held: held}, StandBy{Held: held, RepID: "x"}, Tune{}, EndRound{},
		Sweep{Limit: 1, Drop: 1, Looks: held.JobID},
		Expire{Worker: "z", Beat: &[10]byte{}, Limit: 1, By: "n"},
	} {
		try(q)
	}
	refused := []replication.Finding{{Refusal: peer.Refusal{ID: "d", Rev: "1-a", Status: 403}}}
	n.step(RunRefused{Run: n.runOf("r003"), Findings: refused})
	n.step(RunReadsRefused{Run: n.runOf("r003")})
	n.step(RunProgress{Run: n.runOf("r003")})
	n.step(RunIdentifies{Run: n.runOf("r004"), ID: "x", Base: "b"})
	n.endRun(n.runOf("r000"), replication.Completed)
	n.endRun(n.runOf("r001"), replication.Crashed)
	n.endRun(n.runOf("r002"), replication.Stopped)
	w.pass(10 * time.Minute)
	other := w.start("other", nil)
	other.hold = try
	w.pass(10 * time.Minute)
	n.paused = true
	w.pass(10 * time.Minute)
	departed := func(tx kv.Tx) error { _, err := Departed(tx, w.s, nil); return err }
	if err := damaged.Unread(t.Context(), w.db, departed); err != nil {
		t.Error(err)
	}
	other.step(Drain{})
	other.stopAll()
	w.pass(time.Minute)
	for _, row := range registry {
		if name := fmt.Sprintf("%T", row.request); tried[name] == 0 {
			t.Errorf("there was no %s", name)
		}
	}
}

// TestUnreadableResume: of the jobs of an accept that the node never heard of one cannot be read. The others run, and
// the node goes on to take jobs; the one runs once it is put right.
func TestUnreadableResume(t *testing.T) {
	for _, some := range []int{1, 3} {
		unreadableResume(t, some)
	}
}

func unreadableResume(t *testing.T, some int) {
	w := newWorld(t)
	n := w.start("n1", nil)
	w.pass(time.Second)
	w.putMany(some, true)
	var taken []string
	w.do(func(tx kv.Tx) error {
		got, err := w.s.Accept(tx, n.worker, "n1", jobs.Demand{Batch: n.batch, Max: some}, w.now)
		for _, job := range got.Work {
			taken = append(taken, job.JobID)
		}
		return err
	})
	slices.Sort(taken)
	key, was := w.s.Keys.Spec.Pack(taken[0], int64(0)), []byte(nil)
	set := func(value []byte) {
		w.do(func(tx kv.Tx) (err error) {
			was, err = tx.Get(key)
			tx.Set(key, value)
			return err
		})
	}
	set([]byte{0xff})
	w.put("next", `{"source":"http://h/c","target":"http://h/d","continuous":true}`)
	n.lookOwned()
	n.step(Wake{})
	w.pass(time.Minute)
	if n.runOf("next"); n.Running() != some {
		t.Errorf("%d jobs run, want %d; %v", n.Running(), some, n.texts)
	}
	set(was)
	w.pass(10 * time.Minute)
	if n.Running() != some+1 {
		t.Errorf("%d jobs run once all can be read, want %d; %v", n.Running(), some+1, n.texts)
	}
	w.audit()
}

// TestUnreadableSweep: a job of a deleted database of which a row cannot be read keeps no others from being removed, of
// its database, of another one and of requests, and neither does the job of a request. They go once they can be read.
func TestUnreadableSweep(t *testing.T) {
	for _, part := range [][]any{nil, {int64(0)}} {
		w := newWorld(t)
		w.putMany(5, true)
		var list []string
		w.do(func(tx kv.Tx) error {
			list = nil
			for i := range 4 {
				body := fmt.Sprintf(`{"source":"http://h/x%d","target":"http://h/b"}`, i)
				rep, err := spec.ParseRequest([]byte(body), w.s.Config.Parse)
				if err != nil {
					return err
				}
				id, err := w.s.Replicate(tx, rep, "", w.now)
				if list = append(list, id); err != nil {
					return err
				}
			}
			return nil
		})
		d := w.start("n", nil)
		w.pass(time.Minute)
		for _, r := range slices.Clone(d.runs) {
			if slices.Contains(list, r.held.JobID) {
				d.endRun(r.id, replication.Completed)
			}
		}
		d.paused = true
		keys := [][]byte{
			w.rowOf("r000", part...), w.rowOf("r003", part...),
			w.s.Keys.Jobs.Job.Pack(append([]any{list[1]}, part...)...),
		}
		was := make([][]byte, len(keys))
		for i, key := range keys {
			was[i] = w.damage(key, []byte{0xff})
		}
		w.do(func(tx kv.Tx) error {
			w.s.Drop(tx, tuple.UUID{1})
			return w.s.Docs.Delete(tx, "_replicator", tuple.UUID{1})
		})
		w.now = w.now.Add(w.s.Config.TransientMaxAge)
		left := func() (n int) {
			w.do(func(tx kv.Tx) error {
				ids, err := w.s.Keys.Jobs.IDs(tx)
				n = len(ids)
				return err
			})
			return n
		}
		other := w.start("other", nil)
		w.pass(10 * time.Minute)
		if n := left(); n != len(keys) {
			t.Errorf("%v: %d jobs are left, want %d; %v", part, n, len(keys), other.texts)
		}
		for i, key := range keys {
			w.damage(key, was[i])
		}
		w.pass(10 * time.Minute)
		if n := left(); n != 0 {
			t.Errorf("%v: %d jobs are left once all can be read", part, n)
		}
		w.do(func(tx kv.Tx) error {
			if list, err := w.s.Keys.DroppedDBs(tx); err != nil || len(list) > 0 {
				t.Errorf("%v: left are %v: %v", part, list, err)
			}
			return nil
		})
		w.audit()
	}
}

// TestUnreadableHeir: a job ends though the one that waits for its replication cannot be read. That one runs once it
// can be.
func TestUnreadableHeir(t *testing.T) {
	w := newWorld(t)
	w.put("one", `{"source":"http://h/a","target":"http://h/b"}`)
	w.put("two", `{"source":"http://h/a","target":"http://h/b"}`)
	n := w.start("n1", nil)
	was := w.damage(w.rowOf("two", int64(0)), []byte{0xff})
	n.endRun(n.runOf("one"), replication.Completed)
	w.pass(10 * time.Minute)
	if w.state("one") != jobstore.Completed || n.Running() != 0 {
		t.Errorf("one is %s, %d run; %v", w.state("one"), n.Running(), n.texts)
	}
	w.damage(w.rowOf("two", int64(0)), was)
	w.pass(10 * time.Minute)
	if w.state("two") != jobstore.Running {
		t.Errorf("two is %s", w.state("two"))
	}
	w.audit()
}

// TestAllReadableAgain: a node could not read many jobs for a while, as of a store whose key it did not have yet. Once
// one of them can be read, the others are not looked at one in a minute, and no sweep looks for any once all are.
func TestAllReadableAgain(t *testing.T) {
	const n = 20
	w := newWorld(t)
	w.putMany(n, true)
	keys, was := make([][]byte, n), make([][]byte, n)
	for i := range n {
		keys[i] = w.rowOf(fmt.Sprintf("r%03d", i), int64(0))
		was[i] = w.damage(keys[i], []byte{0xff})
	}
	d := w.start("n", nil)
	if w.pass(10 * time.Minute); d.Running() != 0 || count(d.notes, "job_unreadable") < n {
		t.Fatalf("%d run, %d notes", d.Running(), count(d.notes, "job_unreadable"))
	}
	for i, key := range keys[1:] {
		w.damage(key, was[i+1])
	}
	if w.pass(3 * time.Minute); d.Running() != n-1 {
		t.Errorf("%d of %d jobs run that can be read", d.Running(), n-1)
	}
	w.damage(keys[0], was[0])
	if w.pass(time.Hour); d.Running() != n {
		t.Errorf("%d of %d jobs run", d.Running(), n)
	}
	d.hold = func(q Request) bool {
		if s, sweeps := q.(Sweep); sweeps && s.Looks != "" {
			t.Errorf("a sweep looks for job %s, though all run", s.Looks)
		}
		return false
	}
	w.pass(5 * time.Minute)
	w.audit()
}

// TestUnreadableGetsNoSlot: while jobs that cannot be read are all that wait, no run gives way. Once one of them can be
// read, it has its turn, although no slot is free.
func TestUnreadableGetsNoSlot(t *testing.T) {
	w := newWorld(t)
	w.putMany(6, true)
	was := map[string][]byte{}
	for _, doc := range []string{"r001", "r002", "r003", "r004"} {
		was[doc] = w.damage(w.rowOf(doc, int64(0)), []byte{0xff})
	}
	n := w.start("n", func(c *Config) { c.MaxJobs = 2 })
	hour := func() (stops int) {
		before := count(n.notes, "stopped")
		for range 60 {
			w.pass(time.Minute)
			n.stopAll()
		}
		return count(n.notes, "stopped") - before
	}
	if stops := hour(); stops > 0 || n.Running() != 2 {
		t.Errorf("%d runs gave way, %d run", stops, n.Running())
	}
	w.damage(w.rowOf("r003", int64(0)), was["r003"])
	delete(was, "r003")
	if stops := hour(); stops < 30 {
		t.Errorf("%d runs gave way to a job that can be read again", stops)
	}
	for doc, row := range was {
		w.damage(w.rowOf(doc, int64(0)), row)
	}
	w.audit()
}
