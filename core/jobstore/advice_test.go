package jobstore

import (
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestAdvice: what a check cannot mend, and advises an operator to do, mends it.
func TestAdvice(t *testing.T) {
	first := newFullBench(t)
	k, pairs := first.s.Keys, first.db.Pairs()
	in, paused := k.Docs.Sub(1, tuple.UUID{1}), jobID("paused")
	give := func(b *bench, do func(Operator) (bool, error)) {
		b.t.Helper()
		b.now++ // no order is taken for the repetition of an earlier one
		b.do1(func(tx kv.Tx) error {
			changed, err := do(b.by(tx))
			if err == nil && !changed {
				b.t.Error("the order changed nothing")
			}
			return err
		})
	}
	parked := func(lot string) func(b *bench, tx kv.Tx) error {
		return func(b *bench, tx kv.Tx) error {
			j, rec, err := readJob(b.s, tx, paused)
			if err == nil {
				rec.Pause = nil
				err = lots{b.s, tx}.park(j, rec, lot)
			}
			return err
		}
	}
	resume := func(b *bench) { give(b, func(o Operator) (bool, error) { return o.Resume(paused, "") }) }
	write := func(b *bench) { b.put("ready", simple, admin) }
	for advice, c := range map[string]struct {
		damage func(b *bench, tx kv.Tx) error
		follow func(b *bench)
	}{
		"stands still as if it were paused: resume it": {parked(lotPaused), resume},
		`for an unknown reason, "nowhere": pause and resume it`: {parked("nowhere"), func(b *bench) {
			give(b, func(o Operator) (bool, error) { return o.Pause(paused, "") })
			resume(b)
		}},
		"has no job: write it again": {func(b *bench, tx kv.Tx) error {
			return b.s.remove(tx, jobID("ready"))
		}, write},
		`has no document "ready" in _replicator: cancel it`: {func(b *bench, tx kv.Tx) error {
			db, _ := b.s.Docs.Open(tx, "_replicator")
			doc, _ := db.Read("ready", docs.Want{})
			_, err := db.Update([]docs.Edit{{Document: docs.Document{ID: "ready", Rev: doc.Rev, Deleted: true}}})
			return err
		}, func(b *bench) { give(b, func(o Operator) (bool, error) { return o.Cancel(jobID("ready")) }) }},
		"the hold cannot be read: lift it, and make it again": {func(b *bench, tx kv.Tx) error {
			tx.Set(b.row(k.Held, "held", 1).Key, []byte("{}"))
			return nil
		}, func(b *bench) {
			give(b, func(o Operator) (bool, error) { return o.LiftHold("server:held.t") })
			give(b, func(o Operator) (bool, error) { return o.MakeHold(Hold{Server: "held.t"}) })
		}},
		"has no place in the feed of changes: write it again": {func(b *bench, tx kv.Tx) error {
			tx.Clear(b.row(in.Sub(5), "ready", 1).Key)
			tx.Clear(b.row(in.Sub(7), "ready", 3).Key)
			return nil
		}, write},
	} {
		t.Run(advice, func(t *testing.T) {
			b := *first
			b.t = t
			b.do1(func(tx kv.Tx) error { return c.damage(&b, tx) })
			defer b.restore(pairs)
			advised := false
			for _, f := range b.findings() {
				advised = advised || strings.HasSuffix(f.What, advice) && !f.Mends()
				b.mend(&f)
			}
			if !advised {
				t.Error("the check does not advise this")
			}
			c.follow(&b)
			for _, f := range b.findings() {
				t.Errorf("left is %s: %s", f.Key, f.What)
			}
		})
	}
}
