package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"couchrelay/sim/campaign"
	"couchrelay/sim/oracle"
)

// TestVerdict: the exit status tells a script that the campaign was interrupted before all seeds were played. An
// invariant that broke before counts more.
func TestVerdict(t *testing.T) {
	interrupted, stop := context.WithCancel(context.Background())
	stop()
	broke := func(id string) []campaign.Failure {
		return []campaign.Failure{{Outcome: campaign.Outcome{Violation: &oracle.Violation{ID: id}}}}
	}
	for _, c := range []struct {
		ctx      context.Context
		failures []campaign.Failure
		want     status
	}{
		{context.Background(), nil, 0}, {interrupted, nil, 130},
		{context.Background(), broke("S1"), 2}, {interrupted, broke("S1"), 2}, {interrupted, broke("L1"), 3},
	} {
		got := status(0)
		_ = errors.As(verdict(c.ctx, io.Discard, worlds{}, c.failures), &got)
		if got != c.want {
			t.Errorf("interrupted %v, %d failures: %d", c.ctx.Err() != nil, len(c.failures), got)
		}
	}
}
