package jobs

import (
	"cmp"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// waiting are copies of the jobs that wait, by due time.
func (m *model) waiting() []*Job {
	var list []*Job
	for _, j := range m.jobs {
		if j.State == Pending && j.Due > 0 && j.Lot == "" {
			copied := *j
			list = append(list, &copied)
		}
	}
	slices.SortFunc(list, func(a, b *Job) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID)) })
	return list
}

func (s *machine) Promote(t *rapid.T) {
	now, limit := instant.Time(rapid.Int64Range(0, 12).Draw(t, "now")), rapid.IntRange(1, 3).Draw(t, "limit")
	type result struct {
		moved int
		next  instant.Time
	}
	waiting := s.m.waiting()
	got, late, err := runOnce(t, s, func(tx kv.Tx) (result, error) {
		moved, next, err := s.q.Promote(tx, now, limit)
		return result{moved, next}, err
	})
	if !late { // else it chose from those that waited before
		waiting = s.m.waiting()
	}
	due := len(slices.DeleteFunc(slices.Clone(waiting), func(j *Job) bool { return j.Due > now }))
	moves := min(due, limit)
	next := instant.Never
	if moves < len(waiting) {
		next = waiting[moves].Due
	}
	if err != nil || got != (result{moves, next}) {
		t.Fatalf("promoted %v, %v, want %d, next %s", got, err, moves, next)
	}
	for _, was := range waiting[:moves] {
		j := s.m.jobs[was.ID]
		if j == nil || j.State != Pending || j.Due != was.Due {
			t.Fatalf("promoted %s, which is %s by now", was, j)
		}
		j.Due = 0
	}
}

func (s *machine) Recall(t *rapid.T) {
	latest, limit := instant.Time(rapid.Int64Range(6, 12).Draw(t, "latest")), rapid.IntRange(1, 3).Draw(t, "limit")
	beyond := func() []*Job {
		list := slices.DeleteFunc(s.m.waiting(), func(j *Job) bool { return j.Due <= latest })
		slices.Reverse(list)
		return list[:min(len(list), limit)]
	}
	waiting := beyond()
	moved, late, err := runOnce(t, s, func(tx kv.Tx) (int, error) { return s.q.Recall(tx, latest, limit) })
	if !late { // else it chose from those that waited before
		waiting = beyond()
	}
	if err != nil || moved != len(waiting) {
		t.Fatalf("recalled %d, %v, want %d", moved, err, len(waiting))
	}
	for _, was := range waiting {
		j := s.m.jobs[was.ID]
		if j == nil || j.State != Pending || j.Due != was.Due {
			t.Fatalf("recalled %s, which is %s by now", was, j)
		}
		j.Due = 0
	}
}
