package oracle

import (
	"encoding/binary"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// ofWeight is the record of a job of the account.
func ofWeight(state jobstore.State, weight int64) jobstore.Record {
	return jobstore.Record{State: state, Database: anAccount, Control: jobstore.Control{Weight: weight}}
}

func TestSumsOfWeights(t *testing.T) {
	// counts has the store count so many jobs of the account, with so much more than 100 for each.
	counts := func(n, excess int64) func(*rig) {
		return func(r *rig) {
			r.know("light", aJob(ofWeight(jobstore.Pending, 1)))
			r.know("heavy", aJob(ofWeight(jobstore.Running, 300)))
			r.know("over", aJob(ofWeight(jobstore.Failed, 700)))
			parked := aJob(ofWeight(jobstore.Pending, 900))
			parked.header.Lot = "paused"
			r.know("parked", parked)
			k := r.w.View().Store().Keys
			r.commit(nil, func(tx kv.Tx) error {
				tx.Add(k.Count.Pack(anAccount), n)
				tx.Add(k.Weights.Pack(anAccount), excess)
				return nil
			})
			(&weights{chronicle: r.o.chronicle}).checkSums()
		}
	}
	check(t, &weightSubject, []case_{
		{"those that demand slots", counts(2, 101), ""},
		{"one too many", counts(3, 101), "S10p"},
		{"the weights of others", counts(2, 100), "S10p"},
	})
}

func TestWays(t *testing.T) {
	// ends has a job of weight 50 beside one of 150 end a turn that began at the tag 1,000, when the account's next
	// tag is 61,000; it pays a minute, and is queued at a tag.
	endsBy := func(q func(jobstore.Turn) node.Request, tag, weight int64) func(*rig) {
		return func(r *rig) {
			order, _ := r.w.View().Store().Order(r.w.View().Present())
			r.know("other", aJob(ofWeight(jobstore.Pending, 200-weight)))
			before, after := aJob(ofWeight(jobstore.Running, weight)), aJob(ofWeight(jobstore.Pending, weight))
			before.header.Priority = priority(order.Epoch, 1000)
			after.header.Priority = priority(order.Epoch, float64(tag))
			turn := jobstore.Turn{Place: schedule.Place{Epoch: order.Epoch}, Owed: time.Minute}
			landed := world.Landed{Asked: world.Asked{Request: q(turn), Wall: r.now()}}
			tail := binary.LittleEndian.AppendUint64(nil, 61_000+60_000_000)
			key := r.w.View().Store().Keys.Tail.Pack(anAccount)
			landed.Mutations = append(landed.Mutations, ryw.Mutation{Key: key, Value: tail})
			r.know("job", after)
			r.o.on.jobMoved.tell(jobChange{id: "job", before: before, after: after, landing: landing{Landed: landed}})
		}
	}
	ends := func(tag, weight int64) func(*rig) {
		return endsBy(func(t jobstore.Turn) node.Request { return node.Requeue{Held: held, Turn: t} }, tag, weight)
	}
	standsBy := func(t jobstore.Turn) node.Request { return node.StandBy{Held: held, Turn: t} }
	check(t, &weightSubject, []case_{
		{"a light job, twice as far", under(schedule.Tags, ends(121_000, 50)), ""},
		{"a light job, as far as others", under(schedule.Tags, ends(61_000, 50)), "S10q"},
		{"a light job, too far", under(schedule.Tags, ends(122_000, 50)), "S10q"},
		{"a heavy job, sooner", under(schedule.Tags, ends(41_000, 150)), ""},
		{"a heavy job, at the floor", under(schedule.Tags, ends(50_000, 150)), ""},
		{"a heavy job, too soon", under(schedule.Tags, ends(40_000, 150)), "S10q"},
		{"standing by, no way", under(schedule.Tags, endsBy(standsBy, 1000, 50)), ""},
		{"under another policy", under(schedule.FairShare, ends(40_000, 150)), ""},
	})
}

func TestWeightsOfDocuments(t *testing.T) {
	has := func(weight int64) func(*rig) {
		return func(r *rig) {
			j := r.document("doc", map[string]any{"weight": 7})
			s := r.o.shadows[j.JobID()]
			s.record.Weight = weight
			(&weights{chronicle: r.o.chronicle}).checkDocuments()
		}
	}
	checkDocuments(t, &weightSubject, []case_{
		{"as its document", has(7), ""},
		{"another", has(0), "S3i"},
	})
}
