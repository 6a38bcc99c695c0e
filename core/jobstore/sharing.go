package jobstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// Shared reads the settings that are in force on all nodes; known is false if none were stored yet.
func (s *Store) Shared(r kv.Reader) (c Sharing, known bool, err error) {
	b, err := r.Get(s.Keys.Order)
	if err != nil || b == nil {
		return Sharing{}, false, err
	}
	o, err := s.Order(r)
	if err != nil {
		return Sharing{}, false, err
	}
	c = Sharing{
		Policy: o.Policy, Forgetting: o.Forgetting, PriorityCoeff: o.PriorityCoeff, Seed: o.Seed, Periods: o.Periods,
	}
	c.Shares, err = s.storedShares(r)
	return c, true, err
}

// Changes lists, for people, the differences between these settings and the ones that take their place.
func (c Sharing) Changes(to Sharing) []string {
	var list []string
	note := func(name string, from, to any) {
		if from != to {
			list = append(list, fmt.Sprintf("%s: %v, was %v", name, to, from))
		}
	}
	note("scheduling_policy", c.Policy, to.Policy)
	interval := func(c Sharing) time.Duration { return cmp.Or(c.Periods.Rotation, c.Forgetting.Interval) }
	usage := func(c Sharing) string {
		if c.Periods.Rotation == 0 {
			return period(0)
		}
		return period(c.Forgetting.Interval)
	}
	note("interval", interval(c), interval(to))
	note("usage_interval", usage(c), usage(to))
	note("priority_interval", period(c.Periods.Priority), period(to.Periods.Priority))
	note("growth_interval", period(c.Periods.Growth), period(to.Periods.Growth))
	note("usage_coeff", millionths(c.Forgetting.Coeff), millionths(to.Forgetting.Coeff))
	note("priority_coeff", coeff(c.PriorityCoeff), coeff(to.PriorityCoeff))
	accounts := append(slices.Sorted(maps.Keys(c.Shares)), slices.Sorted(maps.Keys(to.Shares))...)
	slices.Sort(accounts)
	for _, account := range slices.Compact(accounts) {
		note("shares of "+account, shareOf(c.Shares, account), shareOf(to.Shares, account))
	}
	return list
}

// period is a period as it is configured: one that is not set follows interval.
func period(d time.Duration) string {
	if d == 0 {
		return "interval"
	}
	return d.String()
}

func shareOf(shares map[string]int64, account string) int64 {
	return cmp.Or(shares[account], schedule.DefaultShares)
}

// coeff is a priority_coeff as it is configured.
func coeff(n int64) string {
	if n == 0 {
		return "auto"
	}
	return millionths(n)
}

func millionths(n int64) string { return fmt.Sprintf("%d.%06d", n/1_000_000, n%1_000_000) }
