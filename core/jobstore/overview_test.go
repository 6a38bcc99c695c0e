package jobstore

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
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

// TestServersBesideDeletedDatabases: while many databases are being removed, the numbers of servers lack their jobs,
// and cost as many round trips as beside few, and the rows that there are.
func TestServersBesideDeletedDatabases(t *testing.T) {
	const servers = 20
	trips := map[int]int{}
	for _, databases := range []int{2, 20} {
		b := newBench(t)
		for i := range servers {
			b.put(fmt.Sprint("r", i), fmt.Sprintf(`{"source":"http://h%d/a","target":"http://h%d/b"}`, i, i), admin)
		}
		for i := range databases {
			name, instance := fmt.Sprintf("d%d/_replicator", i), tuple.UUID{2, byte(i)}
			b.do(func(tx kv.Tx) error { return b.s.Docs.Create(tx, name, instance, b.now) })
			body := `{"source":"http://h7/%d","target":"http://h9/%d"%s}`
			if err := b.writeTo(name, "live", fmt.Sprintf(body, i, i, ""), admin); err != nil {
				t.Fatal(err)
			}
			over := fmt.Sprintf(body, i, i, `,"_replication_state":"completed"`)
			if err := b.writeTo(name, "over", over, admin); err != nil {
				t.Fatal(err)
			}
			b.do1(func(tx kv.Tx) error { b.s.Drop(tx, instance); return b.s.Docs.Delete(tx, name, instance) })
		}
		r := &travelling{Reader: b.db.Present()}
		list, next, err := Lists{Store: b.s, Reader: r}.Servers("", 2*servers)
		if err != nil || next != "" || len(list) != servers {
			t.Fatalf("%v, behind %q, %v", list, next, err)
		}
		for _, c := range list {
			if c.Active != 1 || c.Over != 0 {
				t.Errorf("beside %d deleted databases: %+v", databases, c)
			}
		}
		if read := r.rows + r.keys; read > 2*servers+6*databases {
			t.Errorf("beside %d deleted databases %d rows and keys are read", databases, read)
		}
		trips[databases] = r.trips
	}
	if trips[20] > trips[2] {
		t.Errorf("round trips by deleted databases: %v", trips)
	}
}
