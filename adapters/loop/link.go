package loop

import (
	"context"
	"sync"

	"couchrelay/adapters/couch"
	"couchrelay/core/replication"
)

// link carries out a run's calls to its endpoints. The goroutine of the loop calls its methods. Each call has
// a goroutine of its own, which hands the reply to post.
type link struct {
	pair   *couch.Pair             // closed by close
	ctx    context.Context         // of all calls
	cancel context.CancelFunc      // of ctx
	post   func(replication.Reply) // takes replies from other goroutines, also after close
	calls  sync.Map                // from the id of a call in flight to its context.CancelFunc
}

// newLink returns a link over a pair, which it owns from then on.
func newLink(ctx context.Context, pair *couch.Pair, post func(replication.Reply)) *link {
	k := &link{pair: pair, post: post}
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k
}

// perform carries out an effect of the run that concerns its endpoints, and ignores all others: these are for
// the run's owner.
func (k *link) perform(e replication.Effect) {
	switch e := e.(type) {
	case replication.Call:
		k.call(e)
	case replication.Cancel:
		k.end(e.ID)
	case replication.Release:
		k.pair.Release(e.ID)
	}
}

// call starts an operation.
func (k *link) call(c replication.Call) {
	ctx, cancel := context.WithCancel(k.ctx)
	k.calls.Store(c.ID, cancel)
	go func() {
		reply := k.pair.Do(ctx, c.ID, c.Op)
		k.end(c.ID)
		k.post(replication.Reply{ID: c.ID, Reply: reply})
	}()
}

// end ends the context of a call. Of one that has ended nothing is left in memory.
func (k *link) end(id uint64) {
	if cancel, inFlight := k.calls.LoadAndDelete(id); inFlight {
		cancel.(context.CancelFunc)()
	}
}

// close cancels all calls in flight and releases the connections.
func (k *link) close() {
	k.cancel()
	k.pair.Close()
}
