package oracle

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

const anAccount = "a/_replicator"

// runFor starts a run of an account on the first node.
func (r *rig) runFor(account string) *world.Run {
	r.runs++
	rec := &jobstore.Record{Database: account, State: jobstore.Running}
	return r.runOf(r.node(1), jobstore.Work{
		JobID: "job", Lock: aLock, Replication: r.replication(nil), Record: rec,
	})
}

// charge has the first node store that the account used so much in the interval that began so long ago.
func (r *rig) charge(used time.Duration, ago time.Duration) {
	interval := instant.Time(time.Minute.Microseconds())
	at := (r.now() - instant.Time(ago.Microseconds())) / interval * interval
	c := schedule.Charge{Account: anAccount, At: at, Worker: "n1/1", Used: used.Microseconds()}
	r.commit(node.Charge{Charges: []schedule.Charge{c}}, func(tx kv.Tx) error {
		return r.w.View().Store().Charge(tx, []schedule.Charge{c}, r.now())
	})
}

// ranFor has a run of the account go on for ten minutes, of which so much is charged.
func ranFor(charged time.Duration, then func(*rig)) func(*rig) {
	return func(r *rig) {
		r.runFor(anAccount)
		r.pass(10 * time.Minute)
		if charged > 0 {
			r.charge(charged, 0)
		}
		then(r)
		r.atRest()
	}
}

func TestCharges(t *testing.T) {
	nothing := func(*rig) {}
	check(t, &chargeSubject, []case_{
		{"charged for what was used", ranFor(10*time.Minute, nothing), ""},
		{"charged for more", ranFor(10*time.Minute+time.Microsecond, nothing), "S9a"},
		{"charged by a node that used nothing", func(r *rig) { r.charge(time.Second, 0) }, "S9a"},
		{"charged but for the last intervals", ranFor(6*time.Minute, nothing), ""},
		{"charged for less", ranFor(6*time.Minute-time.Second, nothing), "S9b"},
		{"charged for less by a node that stood still", ranFor(time.Minute, func(r *rig) {
			r.node(1).StandStill(time.Second)
			r.pass(2 * time.Second)
		}), ""},
		{"charged for less by a node that leaves", ranFor(time.Minute, func(r *rig) {
			r.node(1).Leave()
		}), ""},
		{"charged for what an ended run used", func(r *rig) {
			run := r.runFor(anAccount)
			r.pass(time.Minute)
			r.see(world.RunEnded{Run: run})
			r.pass(time.Minute)
			r.charge(time.Minute, 0)
			r.charge(time.Minute+time.Second, 0)
		}, "S9a"},
		{"left with all charged", ranFor(10*time.Minute, func(r *rig) {
			r.landed(node.Retire{Worker: "n1/1"})
		}), ""},
		{"left with something uncharged", ranFor(9*time.Minute, func(r *rig) {
			r.landed(node.Retire{Worker: "n1/1"})
		}), "S9d"},
		{"another left", ranFor(9*time.Minute, func(r *rig) { r.landed(node.Retire{Worker: "n2/1"}) }), ""},
		{"left without its lease", ranFor(9*time.Minute, func(r *rig) {
			r.o.leases["n1/1"] = lease{gone: true}
			r.landed(node.Retire{Worker: "n1/1"})
		}), ""},
	})
}

func TestChargesDecay(t *testing.T) {
	// row has a charge be in the store that began so long ago, or after now when that is negative.
	row := func(r *rig, ago time.Duration) {
		at := r.now().Add(-ago)
		value := make([]byte, 8)
		r.set(r.w.View().Store().Keys.Usage.Pack(anAccount, int64(at), "n9/1"), value)
	}
	check(t, &chargeSubject, []case_{
		{"kept while they count", ranFor(10*time.Minute, func(r *rig) {
			row(r, 5*time.Minute)
			r.charge(10*time.Minute, 0)
		}), ""},
		{"kept for long", ranFor(0, func(r *rig) {
			c := schedule.Charge{Account: anAccount, At: r.now(), Worker: "n1/1"}
			row(r, time.Hour)
			r.landed(node.Charge{Charges: []schedule.Charge{c}})
		}), "S10a"},
		{"kept for long, though none is charged since", ranFor(10*time.Minute, func(r *rig) {
			row(r, 99*time.Minute)
		}), ""},
		{"kept for more than any counts", ranFor(10*time.Minute, func(r *rig) {
			row(r, 102*time.Minute)
		}), "S10a"},
		{"of more use than known", ranFor(10*time.Minute, func(r *rig) {
			r.pass(2 * time.Minute)
			r.o.bills.of(payer{"n1/1", anAccount}).charges = map[instant.Time]int64{}
		}), "S10b"},
	})
}

// Nodes charge in the first quarter of each interval.
func TestChargesInTime(t *testing.T) {
	// charges has the first node charge so often, so long after the end of an interval.
	charges := func(times int, past time.Duration, between func(*rig)) func(*rig) {
		return func(r *rig) {
			now := time.Duration(r.now()) * time.Microsecond
			r.pass(now.Truncate(time.Minute) + time.Minute - now + past)
			for i := range times {
				id := uint64(i + 1)
				r.step(node.Wake{}, ask(id, node.Charge{Charges: []schedule.Charge{{}}}))
				between(r)
				r.step(done(id, node.Ok{}))
				r.pass(time.Minute)
			}
		}
	}
	nothing := func(*rig) {}
	check(t, &chargeSubject, []case_{
		{"in time", charges(6, 15*time.Second, nothing), ""},
		{"late now and then", charges(many-1, 16*time.Second, nothing), ""},
		{"late", charges(many, 16*time.Second, nothing), "S9c"},
		{"late without answers", charges(6, 16*time.Second, func(r *rig) {
			r.step(node.Wake{}, ask(99, node.Charge{Charges: []schedule.Charge{{}}}))
		}), ""},
		{"late when it leaves", charges(6, 16*time.Second, func(r *rig) { r.node(1).Leave() }), ""},
	})
}
