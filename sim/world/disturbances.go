package world

import (
	"context"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/sim/engine"
	"couchrelay/sim/fakefdb"
)

// disturbances are the faults of a node's clocks, of its running on, and of its way to the store, with the
// times that observers need to make allowance for them. Moments are of the engine; one in the past means that
// it is over.
type disturbances struct {
	w       *World
	process *engine.Process

	skew time.Duration // by how much the wall clock is ahead; negative when it is behind
	lag  time.Duration // by how much the steady clock is behind; only grows within a life, but for resume
	// pausedUntil and suspendedUntil are the ends of the last pause of any kind, and of the last suspension.
	pausedUntil, suspendedUntil instant.Time
	// stallsFor is how long the process is to stand still at its next transaction; 0 for not at all. It does
	// so before a step of the transaction if stallsBefore is set, else between the commit and the answer.
	stallsFor    time.Duration
	stallsBefore bool
	// isolatedUntil is when the process reaches the store again.
	isolatedUntil instant.Time
	// untilGivenUp has an isolation or suspension end early, at the moment at which another worker begins to
	// give this one up: then both act at once. cutOff has the wake functions of operations that wait for the
	// isolation to end.
	untilGivenUp bool
	cutOff       []func()
	// reachesSince is the end of the last isolation or outage that met an operation of this process.
	reachesSince instant.Time
}

// restart ends what does not outlive a process. Its wall clock and its way to the store stay as they are.
func (d *disturbances) restart() {
	d.stallsFor, d.lag, d.suspendedUntil = 0, 0, 0
	d.pausedUntil = min(d.pausedUntil, d.w.Engine.Now())
}

// heal ends all disturbances.
func (d *disturbances) heal() {
	d.skew, d.isolatedUntil, d.stallsFor, d.untilGivenUp = 0, 0, 0, false
	d.reachesSince = min(d.reachesSince, d.w.Engine.Now())
	d.resume()
}

// pause stops the process for a while, as a fault with a name.
func (d *disturbances) pause(fault string, lasts time.Duration) {
	d.w.Engine.Logf(d.process.Name, "zz paused for %s", lasts)
	d.w.Engine.Pause(d.process, lasts)
	d.pausedUntil = max(d.pausedUntil, d.w.Engine.Now().Add(lasts))
	d.w.emit(FaultHit{fault, d.process.Name, "", lasts})
}

// suspend stops the process together with its steady clock, as the suspension of a machine does: the process
// cannot know how long it lasted. A process that is paused already is left alone.
func (d *disturbances) suspend(lasts time.Duration) {
	if d.Paused() {
		return
	}
	d.lag += lasts
	d.pause(NodeSuspend, lasts)
	d.suspendedUntil = d.w.Engine.Now().Add(lasts)
}

// resume ends a pause or a suspension.
func (d *disturbances) resume() {
	now := d.w.Engine.Now()
	if early := d.suspendedUntil.Sub(now); early > 0 {
		d.lag -= early
	}
	d.pausedUntil, d.suspendedUntil = min(d.pausedUntil, now), min(d.suspendedUntil, now)
	d.w.Engine.Resume(d.process)
}

// stall pauses a process that is to stall at this point of its transaction: before a step, or before the
// answer.
func (d *disturbances) stall(before bool) {
	if lasts := d.stallsFor; lasts > 0 && before == d.stallsBefore {
		d.stallsFor = 0
		d.pause(NodeStall, lasts)
	}
}

// givenUp ends the isolation, suspension or stall of a worker that another one begins to give up, if it is to last
// until then.
func (w *World) givenUp(by *Node, worker string) {
	for _, p := range w.nodes {
		if p != by && p.untilGivenUp && strings.HasPrefix(worker, p.Name+"/") {
			p.reconnect()
		}
	}
}

// reconnect ends a pause of any kind and the isolation from the store.
func (d *disturbances) reconnect() {
	if d.pausedUntil > d.w.Engine.Now() {
		d.resume()
	}
	d.isolatedUntil, d.untilGivenUp, d.reachesSince = 0, false, min(d.reachesSince, d.w.Engine.Now())
	for _, wake := range d.cutOff {
		wake()
	}
	d.cutOff = nil
}

// sleepCutOff is Sleep of an operation of an isolated process, which goes on early when the process is
// reconnected.
func (d *disturbances) sleepCutOff(ctx context.Context, wait time.Duration) error {
	return d.w.Engine.Await(ctx, func(wake func()) {
		d.cutOff = append(d.cutOff, wake)
		d.w.Engine.After(wait, d.process, "", wake)
	})
}

// Clock returns what the node's clocks show.
func (d *disturbances) Clock() node.Clock {
	return node.Clock{Steady: d.Steady(), Wall: d.w.Engine.Now().Add(d.skew)}
}

// Steady returns what the steady clock shows, which the node, its runs and its limiter of requests have in
// common.
func (d *disturbances) Steady() instant.Time { return d.w.Engine.Now().Add(-d.lag) }

// Lag returns by how much the steady clock is behind, since it stood still while the machine was suspended.
// It is not negative. It is ahead of the truth during a suspension: suspend adds the whole length at its
// beginning.
func (d *disturbances) Lag() time.Duration { return d.lag }

// Paused reports whether the node is paused or suspended.
func (d *disturbances) Paused() bool { return d.w.Engine.Paused(d.process) }

// PausedLast returns the end of the last pause or suspension, which may be to come. It is 0 when there was
// none, and at most Booted when there was none in this life.
func (d *disturbances) PausedLast() instant.Time { return d.pausedUntil }

// Awoke returns the end of the last suspension of this life, which may be to come; 0 when there was none.
func (d *disturbances) Awoke() instant.Time { return d.suspendedUntil }

// ReachesSince returns the end of the last isolation or outage that kept an operation of the node from the
// store. It may be to come; it is 0 when there was none in any life.
func (d *disturbances) ReachesSince() instant.Time { return d.reachesSince }

// Disturbed reports whether the node cannot learn at the moment what the store says.
func (d *disturbances) Disturbed() bool {
	now := d.w.Engine.Now()
	return d.Paused() || d.isolatedUntil > now || d.w.storeWorld.outUntil(fakefdb.Read) > now
}
