package config

import (
	"cmp"
	"slices"

	"couchrelay/core/jobstore"
)

// sharing are the keys of [replicator] that jobstore.Sharing is made of.
var sharing = []string{
	"growth_interval", "interval", "interval_sec", "priority_coeff", "priority_interval", "scheduling_policy",
	"usage_coeff", "usage_interval",
}

// HoldsForAll reports whether a key holds for all nodes that share a store.
func HoldsForAll(section, key string) bool {
	return section == "replicator.shares" || section == "replicator" && slices.Contains(sharing, key)
}

// Adopt takes over what is in force on all nodes. s then owns the shares of c.
func (s *Settings) Adopt(c jobstore.Sharing) {
	if c.Shares == nil {
		c.Shares = map[string]int64{}
	}
	s.Replicator.Sharing = c
	s.Node.Interval, s.Node.UsageInterval = cmp.Or(c.Periods.Rotation, c.Forgetting.Interval), 0
	if c.Periods.Rotation != 0 {
		s.Node.UsageInterval = c.Forgetting.Interval
	}
}

// Take takes the value of one key from other settings. The key must be one that HoldsForAll.
func (s *Settings) Take(section, key string, from *Settings) error {
	if section == "replicator" {
		return s.Set(key, Replicator.Get(from, key))
	}
	shares := s.Replicator.Sharing.Shares
	delete(shares, key)
	if n, set := from.Replicator.Sharing.Shares[key]; set {
		shares[key] = n
	}
	return nil
}
