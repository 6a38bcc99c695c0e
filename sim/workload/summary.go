package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/config"
)

// Summary is a workload in a few numbers.
type Summary struct {
	Accounts, Jobs, Continuous, OneShots, Idle, Bursty, Failing, Removed, Changes, Outages, Servers int

	First, Last time.Duration // when the first and the last job are submitted
	// Most is how many jobs there are at most at a time, if one-shots end without having waited.
	Most int
	// Slots is how many slots copying alone takes on the average: the rates of the continuous jobs that are there at a
	// time by their speeds, at most. A continuous job wants a slot all the time; what is above Slots is for freshness.
	Slots float64
	// Work is for how long one slot copies the one-shots and what continuous jobs have to copy when they come.
	Work time.Duration
}

// Summary counts.
func (w *Workload) Summary() Summary {
	s := Summary{Accounts: len(w.Accounts), Jobs: len(w.Jobs), Changes: len(w.Changes), Outages: len(w.Outages)}
	servers := map[int]bool{}
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	work := 0.0 // seconds
	for i := range w.Jobs {
		j := &w.Jobs[i]
		servers[j.Server] = true
		count(&s.Continuous, j.Continuous)
		count(&s.OneShots, !j.Continuous)
		count(&s.Idle, j.Continuous && j.Rate == 0)
		count(&s.Bursty, j.Every > 0 && j.Burst < j.Every)
		count(&s.Failing, j.MTBF > 0)
		count(&s.Removed, j.Remove > 0)
		work += j.Backlog / j.Speed
	}
	s.Servers = len(servers)
	s.Work = rounded(work)
	if n := len(w.Jobs); n > 0 {
		s.First, s.Last = w.Jobs[0].Submit, w.Jobs[n-1].Submit
	}
	s.Most, s.Slots = w.most()
	return s
}

// most is how many jobs there are at a time, and how many slots copying what changes takes, at most.
func (w *Workload) most() (most int, slots float64) {
	type step struct {
		at    time.Duration
		n     int
		slots float64
	}
	steps := make([]step, 0, 2*len(w.Jobs))
	for i := range w.Jobs {
		j, copying := &w.Jobs[i], 0.0
		if j.Continuous {
			copying = j.Rate / j.Speed
		}
		steps = append(steps, step{j.Submit, 1, copying})
		end := j.Remove
		if run := j.Startup + rounded(j.Backlog/j.Speed); !j.Continuous && (end == 0 || j.Submit+run < end) {
			end = j.Submit + run
		}
		if end > 0 {
			steps = append(steps, step{end, -1, -copying})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	now, copying := 0, 0.0
	for _, s := range steps {
		now, copying = now+s.n, copying+s.slots
		most, slots = max(most, now), max(slots, copying)
	}
	return most, slots
}

// rest is what sums of thousandths may be off by.
const rest = 1e-6

// String tells it in lines.
func (s Summary) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "accounts  %d\njobs      %d: %d continuous, %d one-shots\n", s.Accounts, s.Jobs, s.Continuous,
		s.OneShots)
	for _, part := range []struct {
		n    int
		what string
	}{
		{s.Idle, "continuous without changes"}, {s.Bursty, "with changes in bursts"},
		{s.Failing, "crash again and again"},
		{s.Removed, "are removed"},
	} {
		if part.n > 0 {
			fmt.Fprintf(&text, "          %d %s\n", part.n, part.what)
		}
	}
	fmt.Fprintf(&text, "come      from %s to %s; %d at a time at most\n", config.Short(s.First), config.Short(s.Last),
		s.Most)
	slots := max(0, math.Ceil(s.Slots*1000-rest)/1000)
	fmt.Fprintf(&text, "demand    %s slots to copy what changes, and %s of one slot for backlogs\n",
		strconv.FormatFloat(slots, 'f', -1, 64), config.Short(s.Work.Round(time.Second)))
	if s.Changes+s.Outages > 0 {
		fmt.Fprintf(&text, "events    %d changes of shares, %d outages; jobs need %d servers\n", s.Changes, s.Outages,
			s.Servers)
	}
	return text.String()
}
