package loop

import (
	"context"
	"sync"

	"couchrelay/adapters/couch"
	"couchrelay/core/replication"
)

// link carries out what a run asks of its endpoints. The goroutine of the loop calls its methods; replies
// come back through post, from other goroutines.
type link struct {
	pair   *couch.Pair
	ctx    context.Context // of all calls
	cancel context.CancelFunc
	post   func(replication.Reply)
	calls  sync.Map // id of a call in flight to its context.CancelFunc
}

func newLink(ctx context.Context, pair *couch.Pair, post func(replication.Reply)) *link {
	k := &link{pair: pair, post: post}
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k
}

// perform performs an effect of the run, but for those by which it talks to its owner.
func (k *link) perform(e replication.Effect) {
	switch e := e.(type) {
	case replication.Call:
		k.call(e)
	case replication.Cancel:
		if cancel, inFlight := k.calls.Load(e.ID); inFlight {
			cancel.(context.CancelFunc)()
		}
	case replication.Release:
		k.pair.Release(e.ID)
	}
}

func (k *link) call(c replication.Call) {
	ctx, cancel := context.WithCancel(k.ctx)
	k.calls.Store(c.ID, cancel)
	go func() {
		defer cancel()
		reply := k.pair.Do(ctx, c.ID, c.Op)
		k.calls.Delete(c.ID)
		k.post(replication.Reply{ID: c.ID, Reply: reply})
	}()
}

// close gives up everything in flight and lets go of the connections.
func (k *link) close() {
	k.cancel()
	k.pair.Close()
}
