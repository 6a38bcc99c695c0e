package loop

import (
	"context"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/eventlog"
	"couchrelay/core/instant"
	"couchrelay/core/replication"
)

// run carries out what a replication's machine asks of its endpoints. Only the loop that owns it calls
// its methods; answers come back to that loop through post.
type run struct {
	machine *replication.Run
	pair    *couch.Pair
	ctx     context.Context // of all its calls
	cancel  context.CancelFunc
	calls   map[uint64]context.CancelFunc
	post    func(replication.Event)
	queued  instant.Time // deadline under which it stands in the queue of wakes
	id      uint64       // in log, which may be nil
	log     *eventlog.Writer
}

func newRun(ctx context.Context, plan replication.Plan, pair *couch.Pair, post func(replication.Event)) *run {
	r := &run{machine: replication.New(plan), pair: pair, calls: map[uint64]context.CancelFunc{}, post: post, queued: instant.Never}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// step hands an event to the machine, starts what it asks for, and returns what it says to its owner:
// Identify, Progress and End.
func (r *run) step(now instant.Time, ev replication.Event) (said []replication.Effect) {
	if reply, ok := ev.(replication.Reply); ok {
		if _, wanted := r.calls[reply.ID]; !wanted {
			return nil
		}
		r.calls[reply.ID]()
		delete(r.calls, reply.ID)
	}
	effects := r.machine.Step(now, ev)
	r.log.RunStepped(r.id, now, ev, effects)
	for _, e := range effects {
		switch e := e.(type) {
		case replication.Call:
			r.call(e)
		case replication.Cancel:
			if cancel := r.calls[e.ID]; cancel != nil {
				cancel()
				delete(r.calls, e.ID)
			}
		case replication.Release:
			r.pair.Release(e.ID)
		default:
			said = append(said, e)
		}
	}
	return said
}

func (r *run) call(c replication.Call) {
	ctx, cancel := context.WithCancel(r.ctx)
	r.calls[c.ID] = cancel
	go func() {
		r.post(replication.Reply{ID: c.ID, Reply: r.pair.Do(ctx, c.ID, c.Op)})
	}()
}

// drop gives up everything under way.
func (r *run) drop() {
	r.cancel()
	r.pair.Close()
}
