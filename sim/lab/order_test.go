package lab

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/schedule"

	"pgregory.net/rapid"
)

// TestAgenda: what is planned happens by time, and at one moment in the order in which it was planned.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		var twin []due
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(twin) == 0 || rapid.IntRange(0, 2).Draw(t, "kind") > 0 {
				d := due{at: instant.Time(rapid.IntRange(0, 9).Draw(t, "at")), which: uint64(n)}
				a.plan(d)
				twin = append(twin, d)
				slices.SortStableFunc(twin, func(x, y due) int { return cmp.Compare(x.at, y.at) })
				continue
			}
			if got, want := a.next(), twin[0]; got.at != want.at || got.which != want.which {
				t.Fatalf("next is %d at %d, want %d at %d", got.which, got.at, want.which, want.at)
			}
			twin = twin[1:]
		}
		if len(a.heap) != len(twin) {
			t.Fatalf("%d are left, want %d", len(a.heap), len(twin))
		}
	})
}

// TestIndex: jobs come out by epoch, key and rank, whatever was dropped before; a job is nowhere else.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "jobs")
		x := index{at: make([]int32, n), rank: make([]int32, n)}
		for i := range n {
			x.at[i], x.rank[i] = -1, int32(n-i)
		}
		var twin []entry
		order := func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.place.Epoch, b.place.Epoch), cmp.Compare(a.place.Key, b.place.Key),
				cmp.Compare(x.rank[a.job], x.rank[b.job]))
		}
		for range rapid.IntRange(1, 3*n).Draw(t, "steps") {
			job := int32(rapid.IntRange(0, n-1).Draw(t, "job"))
			if x.at[job] >= 0 {
				x.drop(job)
				twin = slices.DeleteFunc(twin, func(e entry) bool { return e.job == job })
			} else {
				epoch, key := rapid.Int64Range(0, 1).Draw(t, "epoch"), rapid.Int64Range(-3, 3).Draw(t, "key")
				e := entry{schedule.Place{Epoch: epoch, Key: key}, job}
				x.add(e)
				twin = append(twin, e)
				slices.SortFunc(twin, order)
			}
			first := rapid.IntRange(0, n+1).Draw(t, "first")
			if got, want := x.first(first), twin[:min(first, len(twin))]; !slices.Equal(got, want) {
				t.Fatalf("the first %d are %v, want %v", first, got, want)
			}
			for i, e := range x.heap {
				if x.at[e.job] != int32(i) {
					t.Fatalf("job %d is at %d, and noted at %d", e.job, i, x.at[e.job])
				}
			}
			there := 0
			for _, at := range x.at {
				if at >= 0 {
					there++
				}
			}
			if there != len(twin) {
				t.Fatalf("%d jobs are noted, and %d are there", there, len(twin))
			}
		}
	})
}

// TestJoinedTwice: a worker that asks again for its lease has one, and none once it has expired.
func TestJoinedTwice(t *testing.T) {
	var l leases
	for _, worker := range []string{"n2/1", "n1/1", "n2/1"} {
		if _, err := l.join(node.Join{Worker: worker}); err != nil {
			t.Error(err)
		}
	}
	if n := len(l.list().List); n != 2 {
		t.Errorf("two workers have %d leases", n)
	}
	l.find("n2/1").expired = true
	if _, err := l.join(node.Join{Worker: "n2/1"}); !errors.Is(err, jobs.ErrLeaseLost) {
		t.Error(err)
	}
}
