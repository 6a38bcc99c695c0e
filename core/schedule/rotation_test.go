package schedule

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"pgregory.net/rapid"
)

func TestRotate(t *testing.T) {
	now := instant.Seconds(1000)
	// c10 is a continuous job that runs for 10 seconds, o20 a one-shot for 20.
	jobs := func(list ...string) (running []Running) {
		for _, s := range list {
			var kind rune
			var age int64
			fmt.Sscanf(s, "%c%d", &kind, &age)
			running = append(running, Running{Continuous: kind == 'c', Since: now.Add(-time.Duration(age) * time.Second)})
		}
		return running
	}
	for _, c := range []struct {
		name    string
		running []Running
		ready   int
		limits  Limits
		want    []int
	}{
		{"nothing runs", nil, 5, Limits{MaxJobs: 2, MaxChurn: 2}, nil},
		{"nothing waits", jobs("c10", "c20"), 0, Limits{MaxJobs: 2, MaxChurn: 2}, nil},
		{"the oldest gives way", jobs("c10", "c20"), 1, Limits{MaxJobs: 2, MaxChurn: 2}, []int{1}},
		{"free slots are filled first", jobs("c10", "c20"), 2, Limits{MaxJobs: 3, MaxChurn: 2}, []int{1}},
		{"churn is bounded", jobs("c10", "c20", "c30"), 9, Limits{MaxJobs: 3, MaxChurn: 2}, []int{2, 1}},
		{"no churn", jobs("c10", "c20", "c30"), 9, Limits{MaxJobs: 3}, nil},
		{"swap all", jobs("c10", "c20"), 9, Limits{MaxJobs: 2, MaxChurn: 9}, []int{1, 0}},
		{"one-shots stay", jobs("o10", "c5", "o30"), 9, Limits{MaxJobs: 3, MaxChurn: 9}, []int{1}},
		{"the young stay", jobs("c10", "c70"), 9, Limits{MaxJobs: 2, MaxChurn: 9, MinRun: time.Minute}, []int{1}},
		{"excess", jobs("c10", "c20", "c30"), 0, Limits{MaxJobs: 1, MaxChurn: 0}, []int{2, 1}},
		{"excess takes continuous first", jobs("o30", "c10", "o20"), 0, Limits{MaxJobs: 1}, []int{1, 0}},
		{"excess takes the young too", jobs("c10", "c20"), 0, Limits{MaxJobs: 0, MinRun: time.Hour}, []int{1, 0}},
		{"excess uses up churn", jobs("c10", "c20", "c30"), 9, Limits{MaxJobs: 2, MaxChurn: 2}, []int{2, 1}},
	} {
		if got := Rotate(c.running, c.ready, c.limits, now); fmt.Sprint(got) != fmt.Sprint(append([]int{}, c.want...)) {
			t.Errorf("%s: stops %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRotateKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := instant.Seconds(1000)
		running := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Running {
			return Running{Continuous: rapid.Bool().Draw(t, "continuous"), Since: instant.Seconds(rapid.Int64Range(0, 1000).Draw(t, "since"))}
		}), 0, 20).Draw(t, "running")
		l := Limits{rapid.IntRange(0, 20).Draw(t, "max"), rapid.IntRange(0, 10).Draw(t, "churn"), time.Duration(rapid.IntRange(0, 900).Draw(t, "min")) * time.Second}
		ready := rapid.IntRange(0, 20).Draw(t, "ready")
		stops := Rotate(running, ready, l, now)
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
		if free := l.MaxJobs - (len(running) - len(stops)); len(stops) > excess && free > ready {
			t.Fatalf("frees %d slots for %d jobs", free, ready)
		}
	})
}
