package config

import (
	"reflect"
	"testing"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// TestHoldsForAll: the keys that hold for all nodes are those that change what nodes share, and no others.
func TestHoldsForAll(t *testing.T) {
	for _, k := range Replicator {
		changes := false
		for _, v := range []string{"150", "3", "0.25", "true", "false", "fifo", "[{sndbuf, 65536}]", "/a"} {
			s := Default()
			was := s.Replicator.Sharing
			was.Follow(s.Node.Interval, s.Node.UsageInterval)
			if s.Set(k.Name, v) != nil {
				continue
			}
			s.Replicator.Sharing.Follow(s.Node.Interval, s.Node.UsageInterval)
			changes = changes || !reflect.DeepEqual(s.Replicator.Sharing, was)
		}
		if HoldsForAll("replicator", k.Name) != changes {
			t.Errorf("%s changes what nodes share: %t", k.Name, changes)
		}
	}
	if !HoldsForAll("replicator.shares", "_replicator") || HoldsForAll("log", "interval") {
		t.Error("other sections")
	}
}

// TestAdopt: what one node puts in force another one tells by the same values.
func TestAdopt(t *testing.T) {
	for _, set := range []map[string]string{
		{}, {"interval": "5s"}, {"interval": "5s", "usage_interval": "20s"}, {"usage_interval": "1m"},
		{"priority_interval": "3s", "growth_interval": "2s", "scheduling_policy": "tags", "usage_coeff": "0.25"},
	} {
		one, other := Default(), Default()
		for key, value := range set {
			if err := one.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		_ = one.SetShares("user:a", "7")
		_ = other.SetShares("user:b", "8")
		_ = other.Set("usage_interval", "7s")
		if err := one.Check(); err != nil {
			t.Fatal(err)
		}
		other.Adopt(one.Replicator.Sharing)
		want := one.Replicator.Sharing
		if err := other.Check(); err != nil || !reflect.DeepEqual(other.Replicator.Sharing, want) ||
			other.Node.Interval != one.Node.Interval {
			t.Errorf("%v: %v\ngot  %+v\nwant %+v", set, err, other.Replicator.Sharing, want)
		}
	}
	first := Default()
	first.Adopt(jobstore.Sharing{}) // no node has put anything in force yet
	if err := first.SetShares("user:a", "7"); err != nil {
		t.Errorf("the first shares: %v", err)
	}
}

// TestTake: one key is taken, and all others stay.
func TestTake(t *testing.T) {
	from, to := Default(), Default()
	_ = from.SetShares("user:a", "7")
	_ = to.SetShares("user:b", "8")
	_ = to.SetShares("user:c", "9")
	from.Replicator.Sharing.Policy, from.Node.Interval = schedule.Tags, time.Second
	for _, n := range [][2]string{{"replicator.shares", "user:a"}, {"replicator.shares", "user:c"},
		{"replicator", "scheduling_policy"}} {
		if err := to.Take(n[0], n[1], &from); err != nil {
			t.Fatal(err)
		}
	}
	got := to.Replicator.Sharing
	if !reflect.DeepEqual(got.Shares, map[string]int64{"user:a": 7, "user:b": 8}) || got.Policy != schedule.Tags ||
		to.Node.Interval != time.Minute {
		t.Errorf("%+v", got)
	}
}
