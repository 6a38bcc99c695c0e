package loop

import (
	"context"

	"couchrelay/adapters/couch"
	"couchrelay/core/instant"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
)

// Replicate drives one replication without a store, until it ends. When stop is closed it ends in
// order, with a checkpoint; when ctx ends, at once. progress is called for every Progress effect.
func Replicate(ctx context.Context, stop <-chan struct{}, c clock.Clock, plan replication.Plan, pair *couch.Pair, progress func(replication.Info)) replication.End {
	events := make(chan replication.Event)
	r := newRun(ctx, plan, pair, func(ev replication.Event) {
		select {
		case events <- ev:
		case <-ctx.Done():
		}
	})
	defer r.drop()
	t := newTime(c)
	timer := c.Timer(0)
	defer timer.Stop()
	var ev replication.Event = replication.Begin{}
	for {
		for _, said := range r.step(t.steady(), ev) {
			switch said := said.(type) {
			case replication.Identify:
				go func() { r.post(replication.Identified{}) }()
			case replication.Progress:
				progress(said.Info)
			case replication.End:
				return said
			}
		}
		arm(timer, t, r.machine.Deadline())
		select {
		case ev = <-events:
		case <-timer.C:
			ev = replication.Wake{}
		case <-stop:
			stop, ev = nil, replication.Stop{}
		case <-ctx.Done():
			return replication.End{Cause: replication.Stopped, Info: r.machine.Info()}
		}
	}
}

// arm sets a timer to a moment of the steady clock.
func arm(timer *clock.Timer, t clockTime, at instant.Time) {
	timer.Stop()
	select {
	case <-timer.C:
	default:
	}
	if at != instant.Never {
		timer.Reset(max(0, at.Sub(t.steady())))
	}
}
