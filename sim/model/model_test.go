package model

import (
	"context"
	"errors"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"
)

// bench is a store whose commits a model is told of.
type bench struct {
	t     *testing.T
	db    *fakefdb.Database
	s     *jobstore.Store
	m     *Model
	now   instant.Time
	by    node.Request // of the present commit; nil for users
	wrong error        // the first breach
	sent  func(uint64) *Sent
}

func newBench(t *testing.T) *bench {
	root := tuple.Subspace(tuple.Pack("test"))
	b := &bench{t: t, m: New(root), now: instant.Seconds(1_000_000)}
	b.s = jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "u", HostName: "h", Port: 1}))
	b.s.Jobs.Incarnation = 1
	b.db = fakefdb.New(fakefdb.OnCommit(func(l fakefdb.Landing) {
		if b.wrong == nil {
			b.wrong = b.m.Commit(&Commit{
				Mutations: l.Mutations, Read: l.Read, Version: l.Version, Stamp: l.Stamp, Request: b.by, Wall: b.now,
				Sent: b.sent,
			})
		}
	}))
	return b
}

// as has a request, or a user, commit a transaction.
func (b *bench) as(q node.Request, f func(kv.Tx) error) {
	b.t.Helper()
	b.by = q
	if err := kv.Do(context.Background(), b.db, f); err != nil {
		b.t.Fatal(err)
	}
}

// ask has a request be carried out as it is.
func (b *bench) ask(q node.Request) (result node.Result) {
	b.t.Helper()
	b.as(q, func(tx kv.Tx) (err error) {
		result, err = node.Perform(tx, b.s, q, b.now)
		return err
	})
	return result
}

// user has a user make a job by a request, and returns its id.
func (b *bench) user(source string) (id string) {
	b.t.Helper()
	body := `{"source": "http://s/` + source + `", "target": "https://T:7000/b", "continuous": true}`
	rep, err := spec.ParseRequest([]byte(body), b.s.Config.Parse)
	if err != nil {
		b.t.Fatal(err)
	}
	b.as(nil, func(tx kv.Tx) (err error) {
		id, err = b.s.Replicate(tx, rep, "u", b.now)
		return err
	})
	return id
}

const worker = "w/1"

func (b *bench) join() { b.t.Helper(); b.ask(node.Join{Worker: worker}) }

func demand(batch uint64, n int) node.Accept {
	return node.Accept{Worker: worker, Node: "w", Demand: jobs.Demand{Batch: batch, Max: n}}
}

// accept has the worker take a job under a batch, and returns the job with its lock.
func (b *bench) accept(batch uint64) node.Held {
	b.t.Helper()
	work := b.ask(demand(batch, 1)).(node.Accepted).Work
	if len(work) != 1 {
		b.t.Fatalf("%d jobs are accepted", len(work))
	}
	return node.Held{JobID: work[0].JobID, Lock: work[0].Lock}
}

// runs makes a job that runs.
func (b *bench) runs() node.Held {
	b.t.Helper()
	b.join()
	b.user("a")
	return b.accept(1)
}

// beat is the heartbeat of the worker that is stored.
func (b *bench) beat() *[10]byte { return (*[10]byte)([]byte(b.m.leases[worker].stamp())) }

func crash(h node.Held) node.Crash {
	return node.Crash{Held: h, Trouble: replication.Trouble{Error: "e", Throttled: true}}
}

// check compares what breaks with the rule that should; none if broken is false.
func (b *bench) check(broken bool, rule Rule) {
	b.t.Helper()
	found, is := errors.AsType[*Breach](b.wrong)
	if is != broken || is && found.Rule != rule {
		b.t.Errorf("breaks %v, and should break rule %d: %v", b.wrong, rule, broken)
	}
}

// TestLifeOfJobs: what the service does is allowed, and takes the transitions that it is made of.
func TestLifeOfJobs(t *testing.T) {
	b := newBench(t)
	h := b.runs()
	b.m.Ran(h.Lock)
	b.ask(node.Record{Held: h})
	b.ask(node.Claim{Held: h, RepID: "r", BaseID: "r"})
	b.ask(crash(h))
	b.now = b.now.Add(time.Hour)
	b.ask(node.Promote{Limit: 10})
	h = b.accept(2)
	b.as(nil, func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: b.s, Tx: tx, Now: b.now}.Pause(h.JobID, "why")
		return err
	})
	b.ask(node.Requeue{Held: h})
	b.as(nil, func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: b.s, Tx: tx, Now: b.now}.Resume(h.JobID, "why")
		return err
	})
	h = b.accept(3)
	b.ask(node.Beat{Worker: worker})
	b.ask(node.Expire{Worker: worker, Beat: b.beat(), Limit: 10})
	q := demand(0, 1)
	for _, q.Worker = range []string{"w/2", "w/3"} {
		b.ask(node.Join{Worker: q.Worker})
		if q.Worker == "w/2" {
			b.ask(q)
			b.ask(node.Expire{Worker: q.Worker, Limit: 10})
		}
	}
	h.Lock = b.ask(q).(node.Accepted).Work[0].Lock
	b.now = b.now.Add(time.Hour)
	b.ask(node.Record{Held: h})
	b.ask(node.Complete{Held: h})
	b.now = b.now.Add(48 * time.Hour)
	b.ask(node.Sweep{Limit: 10, Drop: 10})
	b.ask(node.Retire{Worker: "w/3", Limit: 10})
	b.check(false, 0)
	if len(b.m.jobs) != 0 || len(b.m.leases) != 0 {
		t.Errorf("%v and %v are left", b.m.jobs, b.m.leases)
	}
	for _, taken := range []transition{
		adds, accepts, updates, backsOff, promotes, stops, queues, comesBack, expires, returns, absolves, finishes,
		removes,
	} {
		if b.m.Counts[taken] == 0 {
			t.Errorf("%q was not counted", rules[taken].words)
		}
	}
}

// TestBreaches damages one commit of each kind.
func TestBreaches(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		do   func(b *bench)
	}{
		{"a job without its place", Rows, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) { tx.ClearRange(k.Jobs.Ready.Range()) })
		}},
		{"a row that is left over", Rows, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) { tx.Set(k.Jobs.Waiting.Pack(int64(5), "x"), nil) })
		}},
		{"a job that is counted twice", Rows, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Jobs.Count.Pack("ready", int64(1)), 1) })
		}},
		{"an account that is counted twice", Rows, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Count.Pack("user:u"), 1) })
		}},
		{"weights that nobody has", Rows, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Weights.Pack("user:u"), 1) })
		}},
		{"a label that is not true", Rows, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) { tx.Set(k.Index.Pack(int64(2), "user", "v", "x"), nil) })
		}},
		{"a tally that nothing moves", Rows, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Tally.Pack("", int64(2), "user", "u"), 1) })
		}},
		{"data without a job", Life, func(b *bench) {
			b.damaged(func(tx kv.Tx, k jobstore.Keys) {
				data := k.Jobs.Job.Sub("x").Range()
				data.Begin = kv.KeyAfter(data.Begin)
				tx.ClearRange(data)
				tx.Set(k.Jobs.Job.Pack("x", int64(0)), []byte("{}"))
			})
		}},
		{"a signal for nothing", Rows, func(b *bench) {
			h := b.runs()
			b.damagedBy(node.Record{Held: h}, func(tx kv.Tx, k jobstore.Keys) {
				tx.Add(k.Jobs.Signal.Pack(int64(0)), 1)
			})
		}},
		{"a worker that is called for nothing", Rows, func(b *bench) {
			h := b.runs()
			b.damagedBy(node.Record{Held: h}, func(tx kv.Tx, k jobstore.Keys) { tx.Add(k.Jobs.Call.Pack(worker), 1) })
		}},
		{"a worker that is not called", Rows, func(b *bench) {
			h := b.runs()
			b.as(nil, func(tx kv.Tx) error {
				err := b.s.Cancel(tx, h.JobID)
				tx.Clear(b.s.Keys.Jobs.Call.Pack(worker))
				return err
			})
		}},
		{"a job whose account still counts it", Rows, func(b *bench) {
			h := b.runs()
			b.damagedBy(node.Complete{Held: h}, func(tx kv.Tx, k jobstore.Keys) {
				tx.Add(k.Count.Pack("user:u"), 1)
			})
		}},
		{"an end that a record says and the queue does not", Taking, func(b *bench) {
			h := b.runs()
			b.as(node.Requeue{Held: h}, func(tx kv.Tx) error { tx.Set([]byte("other"), nil); return nil })
		}},
		{"an end that is another one", Life, func(b *bench) {
			h := b.runs()
			b.carriesOut(node.Requeue{Held: h}, node.Complete{Held: h})
		}},
		{"a state that the request does not bring about", Records, func(b *bench) {
			h := b.runs()
			b.carriesOut(node.Fail{Held: h}, node.Complete{Held: h})
		}},
		{"a heartbeat that changes a job", Life, func(b *bench) {
			h := b.runs()
			b.carriesOut(node.Beat{Worker: worker}, node.Requeue{Held: h})
		}},
		{"an end of a job of others", Taking, func(b *bench) {
			h := b.runs()
			h.Lock.Batch++
			b.as(node.Record{Held: h}, func(tx kv.Tx) error { tx.Set([]byte("other"), nil); return nil })
		}},
		{"a report that moves the job", Life, func(b *bench) {
			h := b.runs()
			b.as(node.Record{Held: h}, func(tx kv.Tx) error {
				_, err := b.s.Jobs.Stop(tx, h.JobID)
				return err
			})
		}},
		{"a promotion that comes too early", Taking, func(b *bench) {
			h := b.runs()
			b.ask(crash(h))
			b.as(node.Promote{Limit: 10}, func(tx kv.Tx) error {
				_, _, err := b.s.Jobs.Promote(tx, b.now.Add(time.Hour), 10)
				return err
			})
		}},
		{"a promotion that leaves a job behind", Taking, func(b *bench) {
			b.ask(crash(b.runs()))
			b.user("b")
			b.ask(crash(b.accept(2)))
			b.now = b.now.Add(time.Hour)
			b.as(node.Promote{Limit: 10}, func(tx kv.Tx) error {
				_, _, err := b.s.Jobs.Promote(tx, b.now, 1)
				return err
			})
		}},
		{"a lock of another worker", Taking, func(b *bench) {
			b.join()
			b.ask(node.Join{Worker: "w/2"})
			b.user("a")
			other := demand(0, 1)
			other.Worker = "w/2"
			b.carriesOut(demand(0, 1), other)
		}},
		{"a lock that a run had", Taking, func(b *bench) {
			h := b.runs()
			b.m.Ran(h.Lock)
			b.ask(node.Requeue{Held: h})
			b.accept(h.Lock.Batch)
		}},
		{"more jobs than were asked for", Taking, func(b *bench) {
			b.join()
			b.user("a")
			b.user("b")
			b.carriesOut(demand(0, 1), demand(0, 2))
		}},
		{"a job that is not among the first", Taking, func(b *bench) {
			b.join()
			for _, source := range []string{"a", "b", "c", "d"} {
				b.user(source)
			}
			one := demand(0, 1)
			one.Demand.Window = 4
			one.Demand.Part = ^jobs.Part(1 << jobs.Bucket(b.first())) // so not the first
			b.carriesOut(demand(0, 1), one)
		}},
		{"a job that a live worker loses", Taking, func(b *bench) {
			b.runs()
			old := b.beat()
			b.ask(node.Beat{Worker: worker})
			now := node.Expire{Worker: worker, Beat: b.beat(), Limit: 10}
			b.carriesOut(node.Expire{Worker: worker, Beat: old, Limit: 10}, now)
		}},
		{"a job that is held against a worker which leaves", Life, func(b *bench) {
			b.runs()
			b.carriesOut(node.Retire{Worker: worker, Limit: 10}, node.Expire{Worker: worker, Beat: b.beat(), Limit: 10})
		}},
		{"a lease that is gone before the jobs", Leasing, func(b *bench) {
			b.runs()
			b.as(node.Retire{Worker: worker, Limit: 10}, func(tx kv.Tx) error {
				tx.Clear(b.s.Keys.Jobs.Worker.Pack(worker))
				tx.Clear(b.s.Keys.Jobs.Beat.Pack(worker))
				return nil
			})
		}},
		{"a heartbeat that is left over", Leasing, func(b *bench) {
			b.join()
			b.damagedBy(node.Retire{Worker: worker, Limit: 10}, func(tx kv.Tx, k jobstore.Keys) {
				tx.Set(k.Jobs.Beat.Pack(worker), make([]byte, 10))
			})
		}},
		{"a heartbeat of another worker", Leasing, func(b *bench) {
			b.join()
			b.carriesOut(node.Beat{Worker: "w/2"}, node.Beat{Worker: worker})
		}},
		{"a lease that a user ends", Leasing, func(b *bench) {
			b.join()
			b.carriesOut(nil, node.Retire{Worker: worker, Limit: 10})
		}},
		{"a record that the queue does not follow", Records, func(b *bench) {
			h := b.runs()
			b.as(node.Record{Held: h}, func(tx kv.Tx) error {
				return b.s.Jobs.Update(tx, h.JobID, h.Lock, []byte(`{"state":"pending"}`))
			})
		}},
		{"another replication", Records, func(b *bench) {
			h := b.runs()
			b.as(node.Record{Held: h}, func(tx kv.Tx) error {
				return b.s.Jobs.Update(tx, h.JobID, h.Lock, []byte(`{"state":"running","source":"http://x"}`))
			})
		}},
		{"a claim of a job that there is not", Records, func(b *bench) {
			b.as(nil, func(tx kv.Tx) error { tx.Set(b.s.Keys.Claim.Pack("r"), []byte("x")); return nil })
		}},
		{"a claim that is taken from a job", Records, func(b *bench) {
			h := b.runs()
			b.ask(node.Claim{Held: h, RepID: "r", BaseID: "r"})
			b.as(nil, func(tx kv.Tx) error { tx.Clear(b.s.Keys.Claim.Pack("r")); return nil })
		}},
		{"an end that leaves a job waiting", Records, func(b *bench) {
			h := b.runs()
			b.ask(node.Claim{Held: h, RepID: "r", BaseID: "r"})
			b.m.jobs["x"] = job{state: pending, schedule: schedule{lot: "behind/r"}} // of which the store knows nothing
			b.ask(node.Complete{Held: h})
		}},
		{"a change of what a job does", Life, func(b *bench) {
			h := b.runs()
			b.damagedBy(node.Record{Held: h}, func(tx kv.Tx, k jobstore.Keys) {
				tx.ClearRange(k.Spec.Sub(h.JobID).Range())
				tx.Set(k.Spec.Pack(h.JobID, int64(0)), []byte("{}"))
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			c.do(b)
			b.check(true, c.rule)
		})
	}
}

// first is the job that stands first in the queue.
func (b *bench) first() (id string) {
	b.t.Helper()
	b.as(nil, func(tx kv.Tx) error {
		rows, err := tx.GetRange(b.s.Keys.Jobs.Ready.Range(), kv.RangeOptions{Limit: 1})
		id = string(rows[0].Value)
		return err
	})
	return id
}

// damaged has a user make a job, in a transaction that does something else as well.
func (b *bench) damaged(damage func(kv.Tx, jobstore.Keys)) {
	b.t.Helper()
	rep, err := spec.ParseRequest([]byte(`{"source": "http://s/a", "target": "http://t/b"}`), b.s.Config.Parse)
	if err != nil {
		b.t.Fatal(err)
	}
	b.as(nil, func(tx kv.Tx) error {
		_, err := b.s.Replicate(tx, rep, "u", b.now)
		damage(tx, b.s.Keys)
		return err
	})
}

// damagedBy has a request be carried out by a transaction that does something else as well.
func (b *bench) damagedBy(q node.Request, damage func(kv.Tx, jobstore.Keys)) {
	b.t.Helper()
	b.as(q, func(tx kv.Tx) error {
		_, err := node.Perform(tx, b.s, q, b.now)
		damage(tx, b.s.Keys)
		return err
	})
}

// carriesOut has the transaction of a request do what another one asks for.
func (b *bench) carriesOut(q, other node.Request) {
	b.t.Helper()
	b.as(q, func(tx kv.Tx) error {
		_, err := node.Perform(tx, b.s, other, b.now)
		return err
	})
}
