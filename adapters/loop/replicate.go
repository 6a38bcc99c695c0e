package loop

import (
	"context"

	"couchrelay/adapters/couch"
	"couchrelay/core/instant"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
)

// Replicate drives one replication without a store, until it ends. When stop is closed the replication writes
// a checkpoint and ends; when ctx ends, it ends at once. progress is called for every Progress effect. list is
// empty; Replicate keeps in it what the target refuses. Replicate closes the pair.
func Replicate(
	ctx context.Context, stop <-chan struct{}, c clock.Clock, plan replication.Plan, pair *couch.Pair,
	progress func(replication.Info), list *Refused,
) replication.End {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan replication.Reply)
	k := newLink(ctx, pair, func(reply replication.Reply) {
		select {
		case replies <- reply:
		case <-ctx.Done():
		}
	})
	defer k.close()
	run := replication.New(plan)
	t := newTime(c)
	timer := c.Timer(0)
	defer timer.Stop()
	queue := []replication.Event{replication.Begin{}}
	for {
		for ; len(queue) > 0; queue = queue[1:] {
			for _, e := range run.Step(t.steady(), queue[0]) {
				switch e := e.(type) {
				case replication.Identify:
					queue = append(queue, replication.Identified{}) // there is no other run to claim the id
				case replication.Progress:
					progress(e.Info)
				case replication.Refused:
					list.change(e.Findings, t.steady())
					queue = append(queue, replication.Stored{})
				case replication.ReadRefused:
					queue = append(queue, list.page(e, t.steady()))
				case replication.End:
					return e
				default:
					k.perform(e)
				}
			}
		}
		arm(timer, t, run.Deadline())
		select {
		case reply := <-replies:
			queue = append(queue, reply)
		case <-timer.C:
			queue = append(queue, replication.Wake{})
		case <-stop:
			stop, queue = nil, append(queue, replication.Stop{})
		case <-ctx.Done():
			return replication.End{Cause: replication.Stopped, Info: run.Info()}
		}
	}
}

// arm sets a timer to a moment of the steady clock, or stops it for instant.Never.
func arm(timer *clock.Timer, t clockTime, at instant.Time) {
	timer.Stop()
	if at != instant.Never {
		timer.Reset(max(0, at.Sub(t.steady())))
	}
}
