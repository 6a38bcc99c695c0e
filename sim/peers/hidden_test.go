package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// A backup hides what a reader of the feed has passed in it, and not reached in the database.
func TestHidden(t *testing.T) {
	now := instant.Time(0)
	s := NewServer("s1", Traits{Numeric: true}, func() instant.Time { now = now.Add(time.Second); return now })
	db := s.Create("a1")
	write := func(id string) {
		e := docs.Edit{Document: docs.Document{ID: id, Body: fmt.Appendf(nil, `{"n":%d}`, now)}}
		if was := db.Latest(id); was != nil {
			e.Rev = was.Rev
		}
		db.Write([]docs.Edit{e})
	}
	write("a") // 1, and 4
	write("b") // 2
	write("c") // 3, and 5 behind the backup
	write("a")
	backup := db.Snapshot()
	write("c")
	for since, want := range [][]string{nil, nil, nil, {"c"}, {"c"}, nil, nil} {
		if got := backup.Hidden(db, peer.Seq(fmt.Sprint(since))); !slices.Equal(got, want) {
			t.Errorf("since %d: hidden are %v, not %v", since, got, want)
		}
	}
}
