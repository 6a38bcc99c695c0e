package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

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

// TestLimit: a replay ends at an event or a time, and goes on to the end without either; event 0 is none.
func TestLimit(t *testing.T) {
	for text, want := range map[string]limit{"": {}, "7": {event: 7}, "12m": {after: 12 * time.Minute}} {
		var got limit
		if err := got.parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "0s", "-5", "-5m", "soon", "7 "} {
		var got limit
		if err := got.parse(text); err == nil || !strings.HasPrefix(err.Error(), "--until "+text+": must be") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
