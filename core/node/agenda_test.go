package node

import (
	"cmp"
	"slices"
	"testing"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

// planned is something on an agenda.
type planned struct {
	at     instant.Time
	number uint64
}

func (p planned) comesDue() (at instant.Time, number uint64) { return p.at, p.number }

// TestAgenda: it does what a list does that is searched and sorted whenever something is asked of it.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda[planned]
		var list []planned
		draw := func(what string) instant.Time { return instant.Time(rapid.IntRange(1, 5).Draw(t, what)) }
		for number := range uint64(rapid.IntRange(0, 30).Draw(t, "steps")) {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				p := planned{draw("at"), number}
				a.add(p)
				list = append(list, p)
			case 2:
				p := planned{draw("at"), uint64(rapid.IntRange(0, int(number)).Draw(t, "number"))}
				a.remove(p)
				list = slices.DeleteFunc(list, func(o planned) bool { return o == p })
			case 3:
				now := draw("now")
				due := slices.DeleteFunc(slices.Clone(list), func(p planned) bool { return p.at > now })
				list = slices.DeleteFunc(list, func(p planned) bool { return p.at <= now })
				if got := a.take(now); !slices.Equal(got, due) {
					t.Fatalf("at %d are due %v, want %v", now, got, due)
				}
			}
			next := instant.Never
			if len(list) > 0 {
				next = slices.MinFunc(list, func(p, q planned) int { return cmp.Compare(p.at, q.at) }).at
			}
			if a.next() != next || len(a) != len(list) {
				t.Fatalf("the next of %v comes at %d, want %d of %v", a, a.next(), next, list)
			}
		}
	})
}
