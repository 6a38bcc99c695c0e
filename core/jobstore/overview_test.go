package jobstore

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
)

// TestUses: accounts with their shares, jobs and charges by interval, in pages, without those that have neither jobs
// nor use.
func TestUses(t *testing.T) {
	b := newBench(t)
	b.share(func(c *Sharing) { c.Shares = map[string]int64{"user:a": 300} })
	minute := instant.Seconds(1_700_000_040)
	b.now = minute.Add(75 * time.Second)
	b.replicate("a")
	b.replicate("b")
	b.charge(10, "user:a", "w1", minute.Add(-time.Minute))
	b.charge(30, "user:a", "w1", minute)
	b.charge(5, "user:a", "w2", minute)
	b.charge(7, "user:c", "w2", minute)
	b.put("r", simple, admin)
	b.do1(func(tx kv.Tx) error { // once there were jobs, and there are none any more
		tx.Add(b.s.Keys.Count.Pack("user:bb"), 0)
		tx.Add(b.s.Keys.Count.Pack("user:c"), 0)
		return nil
	})
	var list []Use
	pages := 0
	for after, first := "", true; first || after != ""; first = false {
		b.do1(func(tx kv.Tx) error {
			part, next, err := Uses(tx.Snapshot(), b.s, b.now, after, 2)
			list, after = append(list, part...), next
			return err
		})
		pages++
	}
	want := "[{_replicator 100 1 0 []} " +
		"{user:a 300 1 40 [{2023-11-14T22:13:00.000000Z 10} {2023-11-14T22:14:00.000000Z 35}]} " +
		"{user:b 100 1 0 []} {user:c 100 0 7 [{2023-11-14T22:14:00.000000Z 7}]}]"
	if got := fmt.Sprint(list); got != want || pages != 3 {
		t.Errorf("in %d pages\n%s, want\n%s", pages, got, want)
	}
}
