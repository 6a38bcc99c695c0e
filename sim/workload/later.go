package workload

import (
	"slices"
	"time"
)

// Later returns the workload with a time before its beginning that only the continuous jobs of the beginning have: all
// one-shots, and whatever comes, changes or goes later, does so as much later.
func (w *Workload) Later(by time.Duration) *Workload {
	late := &Workload{
		Accounts: w.Accounts, Jobs: slices.Clone(w.Jobs), Changes: slices.Clone(w.Changes),
		Outages: slices.Clone(w.Outages),
	}
	delay := func(at *time.Duration) { *at = min(*at+by, maxTime) }
	for i := range late.Jobs {
		j := &late.Jobs[i]
		if j.Submit > 0 || !j.Continuous {
			delay(&j.Submit)
		} else if j.Every > 0 { // bursts come when they came
			j.Phase = ((j.Phase-by)%j.Every + j.Every) % j.Every
		}
		if j.Remove > 0 {
			delay(&j.Remove)
		}
	}
	for i := range late.Changes {
		if late.Changes[i].At > 0 {
			delay(&late.Changes[i].At)
		}
	}
	for i := range late.Outages {
		delay(&late.Outages[i].From)
		delay(&late.Outages[i].To)
	}
	late.sort()
	return late
}

// End is when the last job comes, or goes by removal, or shares or servers change.
func (w *Workload) End() (end time.Duration) {
	for i := range w.Jobs {
		end = max(end, w.Jobs[i].Submit, w.Jobs[i].Remove)
	}
	for _, c := range w.Changes {
		end = max(end, c.At)
	}
	for _, o := range w.Outages {
		end = max(end, o.To)
	}
	return end
}
