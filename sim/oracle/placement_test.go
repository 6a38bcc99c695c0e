package oracle

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// priority is the priority of a place in the queue.
func priority(epoch int64, key float64) []byte {
	return tuple.Pack(epoch, int64(key), int64(0))
}

// under has a policy be in force for long.
func under(policy schedule.Policy, then func(*rig)) func(*rig) {
	return func(r *rig) {
		c := jobstore.DefaultSharing()
		c.Policy = policy
		r.share(c, true)
		r.pass(commitLate + time.Second)
		then(r)
	}
}

func TestPlacement(t *testing.T) {
	// made has a job of the account be made, of which a place is expected, and stand so far from where the
	// core puts it.
	made := func(off float64, epoch int64) func(*rig) {
		return func(r *rig) {
			r.o.ExpectPlace("job", anAccount)
			order, _ := r.w.View().Store().Order(r.w.View().Present())
			s := aJob(jobstore.Record{State: jobstore.Pending, Database: anAccount})
			key := 0.0
			if order.Policy == schedule.FairShare {
				key = clockOf(order.Decay, r.now()) * aHalfLife
			}
			s.header.Priority = priority(order.Epoch+epoch, key+off)
			r.change(nil, &shadow{}, s)
		}
	}
	fair := func(then func(*rig)) func(*rig) { return under(schedule.FairShare, then) }
	check(t, &placementSubject, []case_{
		{"first", fair(made(0, 0)), ""},
		{"too far behind", fair(made(0.2*aHalfLife, 0)), "S10c"},
		{"too far before", fair(made(-0.1*aHalfLife, 0)), "S10c"},
		{"of another epoch", fair(made(0, 1)), "S10c"},
		{"behind, by what its account used", fair(func(r *rig) {
			// A minute of slots, which have decayed for no interval, over 100 shares twice.
			r.o.bills.of(payer{"n1/1", anAccount}).charge(r.now().Add(-2*time.Minute), 60_000_000)
			made(0, 0)(r)
		}), "S10c"},
		{"before, while an operator changes the policy", fair(func(r *rig) {
			r.see(world.SharingAsked{})
			made(aHalfLife, 0)(r)
		}), ""},
		{"in front", under(schedule.FIFO, made(0, 0)), ""},
		{"not in front", under(schedule.FIFO, made(1, 0)), "S10c"},
		{"at the first tag", under(schedule.Tags, made(0, 0)), ""},
		{"at a later tag", under(schedule.Tags, made(1, 0)), "S10c"},
		{"at the tag of the last dispatch", under(schedule.Tags, func(r *rig) {
			before := aJob(jobstore.Record{State: jobstore.Pending})
			after := aJob(jobstore.Record{State: jobstore.Running})
			before.header.Priority = priority(r.o.sharing.epoch, 5)
			r.change(node.Accept{}, before, after)
			made(5, 0)(r)
		}), "S10c"}, // the store does not know of that tag
		{"while another waits", under(schedule.Tags, func(r *rig) {
			r.know("another", &shadow{header: &jobs.Job{State: jobs.Pending}, record: &jobstore.Record{}})
			made(1, 0)(r)
		}), ""},
		{"unreadable", fair(func(r *rig) {
			r.o.ExpectPlace("job", anAccount)
			r.change(nil, &shadow{}, aJob(jobstore.Record{State: jobstore.Pending}))
		}), "S3a"},
	})
}

func TestTurnsCost(t *testing.T) {
	// pays has the turn of a job end that owes so much, and move the tag of its account so far.
	pays := func(owed time.Duration, moves int64) func(*rig) {
		return func(r *rig) {
			q := node.Complete{Held: held, Turn: jobstore.Turn{Owed: owed}}
			if moves == 0 {
				r.change(q, aJob(jobstore.Record{State: jobstore.Running}),
					aJob(jobstore.Record{State: jobstore.Completed}))
				return
			}
			r.commit(q, func(tx kv.Tx) error {
				tail := binary.LittleEndian.AppendUint64(nil, uint64(moves))
				tx.Set(r.w.View().Store().Keys.Tail.Pack(anAccount), tail)
				return nil
			})
		}
	}
	// begins has two accounts pay that lay behind, so that it shows where their tags begin.
	begins := func(first, second int64, stale ...string) func(*rig) {
		return func(r *rig) {
			for n, at := range []int64{first, second} {
				r.commit(node.Requeue{Held: held}, func(tx kv.Tx) error {
					key := r.w.View().Store().Keys.Tail.Pack(fmt.Sprint(n))
					if stale == nil { // else it is as if it read long ago
						if _, err := tx.Get(key); err != nil {
							return err
						}
					}
					tx.Set(key, binary.LittleEndian.AppendUint64(nil, uint64(at)))
					return nil
				})
			}
		}
	}
	check(t, &placementSubject, []case_{
		{"what it owes", under(schedule.Tags, pays(time.Second, 1_000_000)), ""},
		{"less", under(schedule.Tags, pays(time.Second, 999_999)), "S10d"},
		{"nothing", under(schedule.Tags, pays(time.Second, 0)), "S10d"},
		{"nothing, and owes nothing", under(schedule.Tags, pays(0, 0)), ""},
		{"nothing under fair share", under(schedule.FairShare, pays(time.Second, 0)), ""},
		{"where others began", under(schedule.Tags, begins(7, 7)), ""},
		{"before others", under(schedule.Tags, begins(7, 6)), "S10r"},
		{"as others began after it read", under(schedule.Tags, begins(7, 6, "stale")), ""},
	})
}

func TestQueuedAgain(t *testing.T) {
	// stands has a job be queued again that stood at key 7 of an epoch, and stand at this key.
	stands := func(key func(*rig) float64, epoch int64, owed time.Duration) func(*rig) {
		return func(r *rig) {
			order, _ := r.w.View().Store().Order(r.w.View().Present())
			after := aJob(jobstore.Record{State: jobstore.Pending})
			after.header.Priority = priority(order.Epoch, key(r))
			turn := jobstore.Turn{Place: schedule.Place{Epoch: order.Epoch + epoch, Key: 7}, Owed: owed}
			asked := world.Asked{Request: node.Requeue{Held: held, Turn: turn}, Wall: r.now()}
			landed := world.Landed{Asked: asked}
			running := aJob(jobstore.Record{State: jobstore.Running})
			r.o.on.jobMoved.tell(jobChange{id: "job", before: running, after: after,
				landing: landing{Landed: landed}})
		}
	}
	// standsBy has a job wait for another one's replication, that stood at key 5 and ran until key 7.
	standsBy := func(key float64) func(*rig) {
		return func(r *rig) {
			order, _ := r.w.View().Store().Order(r.w.View().Present())
			before := aJob(jobstore.Record{State: jobstore.Running})
			before.header.Priority = priority(order.Epoch, 5)
			after := aJob(jobstore.Record{State: jobstore.Pending})
			after.header.Priority = priority(order.Epoch, key)
			turn := jobstore.Turn{Place: schedule.Place{Epoch: order.Epoch, Key: 7}, Owed: 2}
			asked := world.Asked{Request: node.StandBy{Held: held, Turn: turn}, Wall: r.now()}
			r.o.on.jobMoved.tell(jobChange{id: "job", before: before, after: after,
				landing: landing{Landed: world.Landed{Asked: asked}}})
		}
	}
	there, elsewhere := func(*rig) float64 { return 7 }, func(*rig) float64 { return 8 }
	present := func(r *rig) float64 { return float64(r.now()) }
	check(t, &placementSubject, []case_{
		{"where it stood", under(schedule.FairShare, stands(there, 0, 0)), ""},
		{"elsewhere", under(schedule.FairShare, stands(elsewhere, 0, 0)), "S10j"},
		{"elsewhere, in another epoch", under(schedule.FairShare, stands(elsewhere, -1, 0)), ""},
		{"elsewhere, and owes nothing", under(schedule.Tags, stands(elsewhere, 0, 0)), "S10j"},
		{"elsewhere, and owes something", under(schedule.Tags, stands(elsewhere, 0, 1)), ""},
		{"behind all", under(schedule.FIFO, stands(present, 0, 0)), ""},
		{"before others", under(schedule.FIFO, stands(there, 0, 0)), "S10j"},
		{"standing by where it stood before its run", under(schedule.Tags, standsBy(5)), ""},
		{"standing by where it would stand after a turn", under(schedule.Tags, standsBy(7)), "S10j"},
		{"standing by behind all under fifo", under(schedule.FIFO, standsBy(7)), "S10j"},
		{"unreadable", under(schedule.FIFO, func(r *rig) {
			waits := aJob(jobstore.Record{State: jobstore.Pending})
			r.change(node.Requeue{Held: held}, aJob(jobstore.Record{State: jobstore.Running}), waits)
		}), "S3a"},
	})
}
