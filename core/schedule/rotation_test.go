package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"

	"pgregory.net/rapid"
)

func TestRotate(t *testing.T) {
	now := instant.Seconds(1000)
	// c10 is a continuous job that runs for 10 seconds, o20 a one-shot for 20, c10/7 one with key 7.
	jobs := func(list ...string) (running []Running) {
		for _, s := range list {
			var kind rune
			var age, key int64
			fmt.Sscanf(s, "%c%d/%d", &kind, &age, &key)
			running = append(running,
				Running{Continuous: kind == 'c', Since: now.Add(-time.Duration(age) * time.Second),
					Place: Place{Key: key}})
		}
		return running
	}
	n := func(ready int) []Place { return make([]Place, ready) }
	for _, c := range []struct {
		name    string
		running []Running
		ready   []Place
		limits  Limits
		want    []int
	}{
		{"nothing runs", nil, n(5), Limits{MaxJobs: 2, MaxChurn: 2}, nil},
		{"nothing waits", jobs("c10", "c20"), n(0), Limits{MaxJobs: 2, MaxChurn: 2}, nil},
		{"the oldest gives way", jobs("c10", "c20"), n(1), Limits{MaxJobs: 2, MaxChurn: 2}, []int{1}},
		{"free slots are filled first", jobs("c10", "c20"), n(2), Limits{MaxJobs: 3, MaxChurn: 2}, []int{1}},
		{"churn is bounded", jobs("c10", "c20", "c30"), n(9), Limits{MaxJobs: 3, MaxChurn: 2}, []int{2, 1}},
		{"no churn", jobs("c10", "c20", "c30"), n(9), Limits{MaxJobs: 3}, nil},
		{"swap all", jobs("c10", "c20"), n(9), Limits{MaxJobs: 2, MaxChurn: 9}, []int{1, 0}},
		{"one-shots stay", jobs("o10", "c5", "o30"), n(9), Limits{MaxJobs: 3, MaxChurn: 9}, []int{1}},
		{"the young stay", jobs("c10", "c70"), n(9), Limits{MaxJobs: 2, MaxChurn: 9, MinRun: time.Minute}, []int{1}},
		{"just old enough", jobs("c59", "c60"), n(9), Limits{MaxJobs: 2, MaxChurn: 9, MinRun: time.Minute}, []int{1}},
		{"excess", jobs("c10", "c20", "c30"), n(0), Limits{MaxJobs: 1, MaxChurn: 0}, []int{2, 1}},
		{"excess takes continuous first", jobs("o30", "c10", "o20"), n(0), Limits{MaxJobs: 1}, []int{1, 0}},
		{"excess takes the young too", jobs("c10", "c20"), n(0), Limits{MaxJobs: 0, MinRun: time.Hour}, []int{1, 0}},
		{"excess uses up churn", jobs("c10", "c20", "c30"), n(9), Limits{MaxJobs: 2, MaxChurn: 2}, []int{2, 1}},
		{"the worst gives way", jobs("c10/5", "c20/4"), keys(3), Limits{MaxJobs: 2, MaxChurn: 2}, []int{0}},
		{"not for a worse one", jobs("c10/5", "c20/4"), keys(6), Limits{MaxJobs: 2, MaxChurn: 2}, nil},
		{"as many as are better", jobs("c10/5", "c20/4", "c30/9"), keys(1, 5, 6), Limits{MaxJobs: 3, MaxChurn: 3},
			[]int{2, 0}},
		{"the first take free slots", jobs("c10/5"), keys(1, 6), Limits{MaxJobs: 2, MaxChurn: 2}, nil},
		{"the young stay, the next goes", jobs("c10/9", "c70/8"), keys(1),
			Limits{MaxJobs: 2, MaxChurn: 9, MinRun: time.Minute}, []int{1}},
		{"excess takes the worst", jobs("c10/1", "c20/2", "c30/3"), nil, Limits{MaxJobs: 1}, []int{2, 1}},
	} {
		if got := Rotate(FairShare, c.running, 0, c.ready, c.limits, now); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: stops %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRotateBesideYields: a job that gives way and keeps its slot for a while holds no free slot for those that wait.
func TestRotateBesideYields(t *testing.T) {
	now := instant.Seconds(1000)
	last := Place{Key: 9}
	running := []Running{{Continuous: true, Since: 1, Place: last}, {Continuous: true, Since: 2, Place: last}}
	for yields, want := range []string{"[]", "[0]", "[0 1]", "[0 1]"} {
		got := Rotate(FairShare, running, yields, keys(1, 2), Limits{MaxJobs: 4, MaxChurn: 4}, now)
		if fmt.Sprint(got) != want {
			t.Errorf("beside %d that give way: stops %v, want %s", yields, got, want)
		}
	}
	if got := Rotate(FairShare, running, 3, nil, Limits{MaxJobs: 2, MaxChurn: 4}, now); len(got) > 0 {
		t.Errorf("none waits, and it stops %v: those that give way leave room", got)
	}
}

// TestRotateByTags: accounts' tags say who may be swapped, running time says who goes first.
func TestRotateByTags(t *testing.T) {
	now := instant.Seconds(1000)
	running := []Running{
		{Continuous: true, Since: 3, Place: Place{Key: 9}}, {Continuous: true, Since: 1, Place: Place{Key: 4}},
		{Continuous: true, Since: 2, Place: Place{Key: 8}},
	}
	got := Rotate(Tags, running, 0, keys(5, 8, 8), Limits{MaxJobs: 3, MaxChurn: 3}, now)
	if fmt.Sprint(got) != "[2 0]" {
		t.Errorf("stops %v", got)
	}
}

// keys are places with these keys.
func keys(list ...int64) (places []Place) {
	for _, k := range list {
		places = append(places, Place{Key: k})
	}
	return places
}

func TestRotateKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := instant.Seconds(1000)
		running := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Running {
			return Running{
				Continuous: rapid.Bool().Draw(t, "continuous"),
				Since:      instant.Seconds(rapid.Int64Range(0, 1000).Draw(t, "since")),
				Place:      Place{rapid.Int64Range(0, 1).Draw(t, "epoch"), rapid.Int64Range(0, 5).Draw(t, "key")},
			}
		}), 0, 20).Draw(t, "running")
		l := Limits{
			MaxJobs: rapid.IntRange(0, 20).Draw(t, "max"), MaxChurn: rapid.IntRange(0, 10).Draw(t, "churn"),
			MinRun: time.Duration(rapid.IntRange(0, 900).Draw(t, "min")) * time.Second,
		}
		ready := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Place {
			return Place{rapid.Int64Range(0, 1).Draw(t, "epoch"), rapid.Int64Range(0, 5).Draw(t, "key")}
		}), 0, 20).Draw(t, "ready")
		slices.SortFunc(ready, Place.Compare)
		yields := rapid.IntRange(0, 3).Draw(t, "yields")
		stops := Rotate(Policy(rapid.IntRange(0, 2).Draw(t, "policy")), running, yields, ready, l, now)
		seen := map[int]bool{}
		for _, i := range stops {
			if seen[i] {
				t.Fatalf("%d twice", i)
			}
			seen[i] = true
		}
		excess := max(0, len(running)-l.MaxJobs)
		if len(stops) < excess || len(stops) > max(excess, l.MaxChurn) || len(running)-len(stops) > l.MaxJobs {
			t.Fatalf("stops %d of %d with %+v", len(stops), len(running), l)
		}
		if free := l.MaxJobs - (len(running) - len(stops)) - yields; len(stops) > excess && free > len(ready) {
			t.Fatalf("frees %d slots for %d jobs", free, len(ready))
		}
		free := max(0, l.MaxJobs-len(running)-yields)
		for n, i := range stops[excess:] {
			if ready[free+n].Compare(running[i].Place) > 0 {
				t.Fatalf("stops %v for %v", running[i].Place, ready[free+n])
			}
		}
	})
}
