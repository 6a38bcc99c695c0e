package peers

import (
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// A sequence covers as many changes after jumps, and after the database was put back, as when it was told.
func TestJumps(t *testing.T) {
	now := instant.Time(0)
	s := NewServer("s1", Traits{}, func() instant.Time { now = now.Add(time.Second); return now })
	db := s.Create("a1")
	told := map[int64]string{0: string(db.Last())}
	write := func() {
		id := string(rune('a' + db.last()))
		db.Write([]docs.Edit{{Document: docs.Document{ID: id, Body: []byte("{}")}}})
		told[db.last()] = string(db.Last())
	}
	check := func() {
		t.Helper()
		for n, seq := range told {
			if is := db.Number(db.seq(n)); is != n {
				t.Errorf("%s covers %d changes", db.seq(n), is)
			}
			if is := db.Number(peer.Seq(seq)); is != n && n <= db.last() {
				t.Errorf("%s covers %d changes, and was told after %d", seq, is, n)
			}
		}
	}
	write()
	backup := db.Snapshot()
	write()
	Jump(db, 1000)
	write()
	write()
	check()
	db.Restore(backup)
	if is := db.Number(peer.Seq(told[3])); is != 1 {
		t.Errorf("%s of before the restore covers %d changes", told[3], is)
	}
	Jump(db, 500)
	clear(told)
	write()
	write()
	write()
	check()
	Jump(db, MaxNumber)
	Jump(db, MaxNumber)
	write()
	check()
	if db.last() != 5 {
		t.Errorf("there are %d changes", db.last())
	}
	if last := db.jumps.shown(db.last()); last > MaxNumber+1 || last < MaxNumber {
		t.Errorf("the last number is %d", last)
	}
}
