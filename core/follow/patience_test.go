package follow_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// TestLeaveWhileJoining: a worker that is told to leave before it has heard that it has a lease waits for that, and
// gives the lease back.
func TestLeaveWhileJoining(t *testing.T) {
	w := newWorld(t)
	k := w.start()
	k.tell(follow.Drain{})
	if k.left {
		t.Fatal("the worker has left, and does not know whether it has a lease")
	}
	w.settle(10 * time.Second)
	leases, err := kv.Run(context.Background(), w.db, func(tx kv.Tx) ([]jobs.Lease, error) {
		return w.store.Queue.Leases(tx)
	})
	if !k.left || len(leases) > 0 || err != nil {
		t.Errorf("has left %t, leases %v, %v", k.left, leases, err)
	}
}

// TestLeaseGivenBackOnce: a lease that was lost and given back is not given back again when the next one is lost.
func TestLeaseGivenBackOnce(t *testing.T) {
	w := newWorld(t)
	k := w.start()
	w.settle(time.Second)
	back := map[string]int{}
	w.done = func(q follow.Request) bool {
		if q, is := q.(follow.Expire); is {
			back[q.Worker]++
		}
		_, is := q.(follow.Beat)
		return is
	}
	for leasesLost(k) < 3 {
		w.settle(time.Second)
	}
	if back["w1"] != 1 || back["w1-2"] != 1 {
		t.Errorf("leases are given back %v", back)
	}
}

// misread has the next attempt to prepare states fail for a row of one document, and returns how long the attempt was
// waited for.
func (k *worker) misread(id string) time.Duration {
	k.w.t.Helper()
	prepares := func(a follow.Ask) bool { _, is := a.Request.(follow.Prepare); return is }
	for begin := k.w.now; ; k.w.pass(50 * time.Millisecond) {
		for range 100 {
			if i := slices.IndexFunc(k.asks, prepares); i >= 0 {
				answer := follow.Answer{
					ID: k.asks[i].ID, Outcome: follow.StoreDown, Text: "no", Unreadable: mirror, Part: true, Doc: id,
				}
				k.asks = slices.Delete(k.asks, i, i+1)
				k.tell(answer)
				return k.w.now.Sub(begin)
			}
			if !k.act(first) {
				break
			}
		}
		if k.w.now.Sub(begin) > time.Minute {
			k.w.t.Fatalf("no states are prepared: %v", k.asks)
		}
	}
}

// TestMissesOfAnother: a document is left out that could not be read several times in a row, and another one in between
// begins the count anew. Once it is left out the next attempt comes soon.
func TestMissesOfAnother(t *testing.T) {
	const inRow = 6
	w := newWorld(t)
	w.write("d", to(0))
	w.write("e", to(1))
	k := w.start()
	w.settle(10 * time.Second)
	w.complete("d")
	w.complete("e")
	for range inRow - 1 {
		k.misread("d")
	}
	if k.misread("e"); k.told("d")+k.told("e") > 0 {
		t.Errorf("operators are told %v", k.notes)
	}
	for range inRow {
		if k.told("d") > 0 {
			t.Errorf("too early operators are told %v", k.notes)
		}
		k.misread("d")
	}
	if k.told("d") != 1 {
		t.Errorf("operators are told %v", k.notes)
	}
	if waited := k.misread("e"); waited > 2*time.Second {
		t.Errorf("the next attempt comes after %s", waited)
	}
}
