package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"couchrelay/core/kv"
)

// TestAuditFinds proves that the audit can fail.
func TestAuditFinds(t *testing.T) {
	var ready *Job // "b", which no worker has
	for name, damage := range map[string]func(*Queue, kv.Tx){
		"index row gone":   func(q *Queue, tx kv.Tx) { tx.ClearRange(q.Keys.Ready.Range()) },
		"stray index row":  func(q *Queue, tx kv.Tx) { tx.Set(q.Keys.Waiting.Pack(int64(5), "x"), nil) },
		"counter off":      func(q *Queue, tx kv.Tx) { tx.Add(q.Keys.Count.Pack("ready"), 1) },
		"counter missing":  func(q *Queue, tx kv.Tx) { tx.ClearRange(q.Keys.Count.Range()) },
		"header gone":      func(q *Queue, tx kv.Tx) { tx.Clear(q.Keys.Job.Pack("a")) },
		"header malformed": func(q *Queue, tx kv.Tx) { tx.Set(q.Keys.Job.Pack("a"), []byte("junk")) },
		"unknown state": func(q *Queue, tx kv.Tx) {
			tx.Set(q.Keys.Job.Pack("b"), encodeHeader(&Job{ID: "b", State: Finished + 1}))
		},
		"no state": func(q *Queue, tx kv.Tx) { tx.Set(q.Keys.Job.Pack("b"), encodeHeader(&Job{ID: "b"})) },
		"pending with a lock": func(q *Queue, tx kv.Tx) {
			tx.Set(q.Keys.Job.Pack("b"), encodeHeader(&Job{ID: "b", State: Pending, Lock: Lock{"w", 1}}))
		},
		"resubmitted without a run": func(q *Queue, tx kv.Tx) { // nothing else tells
			ready.Resubmit = true
			tx.Set(q.Keys.Job.Pack("b"), encodeHeader(ready))
		},
		"stop of a run that is not to stop": func(q *Queue, tx kv.Tx) {
			tx.Set(q.Keys.Owned.Pack("w", uint64(1), "a"), []byte(stopMark))
		},
		"lease gone": func(q *Queue, tx kv.Tx) { tx.ClearRange(q.Keys.Worker.Range()) },
	} {
		db, q := newQueue(t)
		register(t, db, q, "w")
		add(t, db, q, "a", "b")
		must(t, db, accept(q, "w", 1, 1))
		audit := func(tx kv.Tx) (struct{}, error) { return struct{}{}, q.Audit(tx) }
		must(t, db, audit)
		ready = must(t, db, func(tx kv.Tx) (*Job, error) { return q.Get(tx, "b") })
		must(t, db, func(tx kv.Tx) (struct{}, error) { damage(q, tx); return struct{}{}, nil })
		if _, err := kv.Run(context.Background(), db, audit); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAuditOfHeaders: what a header may not say, whatever the indexes have.
func TestAuditOfHeaders(t *testing.T) {
	held, workers := Lock{"w", 7}, map[string]bool{"w": true}
	for _, c := range []struct {
		job  Job
		says string
	}{
		{Job{State: Pending}, ""}, {Job{State: Finished}, ""}, {Job{State: Running, Lock: held}, ""},
		{Job{State: Running, Lock: held, Resubmit: true}, ""}, {Job{State: Running, Lock: held, Stop: true}, ""},
		{Job{}, "has state 0"}, {Job{State: Finished + 1}, "has state"},
		{Job{State: Running}, "with lock"}, {Job{State: Pending, Lock: held}, "with lock"},
		{Job{State: Running, Lock: Lock{"gone", 7}}, "has no lease"},
		{Job{State: Pending, Resubmit: true}, "resubmitted or to be stopped"},
		{Job{State: Finished, Stop: true}, "resubmitted or to be stopped"},
	} {
		err := checkJob(&c.job, workers)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", &c.job, err)
		}
	}
}
