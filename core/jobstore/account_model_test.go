package jobstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/core/schedule"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// TestAccountsModel: charges, jobs and turns in any order, with unknown outcomes, against plain sums.
func TestAccountsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := fakefdb.New()
		s := New(tuple.Subspace(tuple.Pack("test")), DefaultConfig(repid.Server{UUID: "u"}))
		now := instant.Seconds(1_700_000_000)
		run := func(f func(kv.Tx) error) error { return kv.Do(context.Background(), db, f) }
		must := func(f func(kv.Tx) error) {
			if err := run(f); err != nil {
				t.Fatal(err)
			}
		}
		policy := schedule.Policy(rapid.IntRange(0, len(schedule.Policies())-1).Draw(t, "policy"))
		c := DefaultSharing()
		c.Policy = policy
		must(func(tx kv.Tx) error { return s.Share(tx, c, now) })
		must(func(tx kv.Tx) error { return s.Jobs.Register(tx, "w", nil) })
		var ledger schedule.Ledger
		var sent [][]schedule.Charge
		used, owed := map[string]int64{}, map[string]int64{}
		var running []Work
		batch, jobsMade := uint64(0), 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				jobsMade++
				rec := &Record{User: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "user")}
				rec.Weight = rapid.SampledFrom([]int64{0, 1, 300}).Draw(t, "weight")
				id := fmt.Sprint("j", jobsMade)
				must(func(tx kv.Tx) error {
					place, err := s.enter(tx, rec, now)
					if err != nil {
						return err
					}
					rec.State = Pending
					return s.Jobs.Add(tx, id, jobs.Schedule{Priority: rec.priority(place)}, rec.encode())
				})
				owed[rec.Account()] += c.Forgetting.Interval.Microseconds()
			},
			"accept": func(t *rapid.T) {
				batch++
				must(func(tx kv.Tx) error {
					accepted, err := s.Jobs.Accept(tx, "w", jobs.Demand{Batch: batch, Max: 2}, nil)
					if err != nil {
						return err
					}
					var work []Work
					for _, j := range accepted.Jobs {
						rec, err := decodeRecord(j)
						if err != nil {
							return err
						}
						place, err := placeOf(j.Priority)
						if err != nil {
							return err
						}
						work = append(work, Work{JobID: j.ID, Lock: j.Lock, Record: rec, Place: place})
					}
					running = append(running, work...)
					return s.dispatched(tx, work)
				})
			},
			"end": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip()
				}
				w := running[0]
				running = running[1:]
				turn := Turn{Place: w.Place, Owed: time.Duration(rapid.IntRange(0, 100).Draw(t, "owed")) * time.Second}
				end := func(tx kv.Tx) error { return s.Owned(tx, w.JobID, w.Lock, now).Requeue(nil, turn) }
				if rapid.Bool().Draw(t, "over") {
					end = func(tx kv.Tx) error {
						rec := *w.Record
						_, err := s.Jobs.Finish(tx, w.JobID, w.Lock, rec.encode())
						if err == nil {
							rec.State = Completed
							err = s.Jobs.AddFinished(tx, w.JobID, rec.encode())
						}
						if err == nil {
							s.leave(tx, &rec)
							_, err = s.settle(tx, &rec, turn, now)
						}
						return err
					}
				}
				must(end)
				_ = run(end) // again, as after an unknown outcome: the lock is gone
				owed[w.Record.Account()] += turn.Owed.Microseconds()
			},
			"use": func(t *rapid.T) {
				ran := time.Duration(rapid.IntRange(0, 90).Draw(t, "ran")) * time.Second
				now = now.Add(ran)
				account := rapid.SampledFrom([]string{"user:a", "user:b"}).Draw(t, "account")
				ledger.Add(account, ran, now, c.Forgetting.Interval)
				used[account] += ran.Microseconds()
			},
			"send": func(*rapid.T) {
				due := ledger.Due("w", math.MaxInt)
				sent = append(sent, due)
				must(func(tx kv.Tx) error { return s.Charge(tx, due, now) })
			},
			"late": func(t *rapid.T) {
				if len(sent) > 0 {
					must(func(tx kv.Tx) error { return s.Charge(tx, rapid.SampledFrom(sent).Draw(t, "which"), now) })
				}
			},
			"": func(t *rapid.T) {
				must(func(tx kv.Tx) error { return auditAccounts(tx, s) })
				for _, account := range slices.Sorted(maps.Keys(owed)) {
					var a schedule.Account
					must(func(tx kv.Tx) (err error) {
						tail, err := tx.Get(s.Keys.Tail.Pack(account))
						a.Tail = kv.Counter(tail)
						return err
					})
					if policy == schedule.Tags && a.Tail < owed[account] {
						t.Fatalf("%s owes %d, its tail is %d", account, owed[account], a.Tail)
					}
				}
			},
		})
		due := ledger.Due("w", math.MaxInt)
		must(func(tx kv.Tx) error { return s.Charge(tx, due, now) })
		for _, account := range slices.Sorted(maps.Keys(used)) {
			var total int64
			must(func(tx kv.Tx) error {
				charges, err := s.Charges(tx, account)
				total = 0
				for _, c := range charges {
					total += c.Used
				}
				return err
			})
			forgotten := now >= instant.Seconds(1_700_000_000).Add(c.Forgetting.Memory()-c.Forgetting.Interval)
			if total > used[account] || !forgotten && total != used[account] {
				t.Fatalf("%s was charged %d for %d", account, total, used[account])
			}
		}
	})
}
