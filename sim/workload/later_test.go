package workload

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestLater: only continuous jobs of the beginning are there before, and their bursts come when they came.
func TestLater(t *testing.T) {
	job := func(id string, submit, remove time.Duration, continuous bool) Job {
		return Job{ID: id, Submit: submit, Remove: remove, Continuous: continuous, Speed: 1}
	}
	h := time.Hour
	bursty := job("d", 0, 0, true)
	bursty.Rate, bursty.Every, bursty.Burst, bursty.Phase = 1, 90*time.Minute, time.Minute, 20*time.Minute
	w := &Workload{
		Accounts: []Account{{"_replicator", 100}},
		Jobs: []Job{job("a", 0, 0, false), job("b", 0, 0, true), job("c", 0, 3*h, true), bursty,
			job("e", h, 2*h, true)},
		Changes: []Change{{0, 0, 50}, {h, 0, 70}}, Outages: []Outage{{0, 0, h}},
	}
	late := w.Later(10 * h)
	if err := late.Check(); err != nil {
		t.Error(err)
	}
	var ids []string
	for _, j := range late.Jobs {
		ids = append(ids, j.ID)
	}
	if !slices.Equal(ids, []string{"b", "c", "d", "a", "e"}) {
		t.Error(ids)
	}
	then, now := bursty.Fluid(), late.Jobs[2].Fluid()
	for at := time.Duration(0); at < 4*h; at += 7 * time.Minute {
		from := (10 * h).Seconds()
		a, b := then.Arrived(at.Seconds()), now.Arrived(at.Seconds()+from)-now.Arrived(from)
		if math.Abs(a-b) > 1e-6 {
			t.Errorf("at %v %v changes have come, and %v later", at, a, b)
		}
	}
	if j := late.Jobs; j[1].Remove != 13*h || j[3].Submit != 10*h || j[4].Submit != 11*h || j[4].Remove != 12*h {
		t.Errorf("%+v", j)
	}
	if !slices.Equal(late.Changes, []Change{{0, 0, 50}, {11 * h, 0, 70}}) ||
		late.Outages[0] != (Outage{0, 10 * h, 11 * h}) {
		t.Errorf("%+v %+v", late.Changes, late.Outages)
	}
	if w.End() != 3*h || late.End() != 13*h || w.Jobs[0].Submit != 0 {
		t.Error(w.End(), late.End())
	}
}
