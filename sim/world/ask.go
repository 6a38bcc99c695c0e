package world

import (
	"context"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/mix"
	"couchrelay/core/node"
	"couchrelay/sim/fakefdb"
)

// Asked is a request of a node to its store.
type Asked struct {
	// Request is nil for transactions of users.
	Request node.Request
	// Wall is the node's wall clock, by which the request is carried out.
	Wall instant.Time
	// Lag is by how much the node's steady clock was behind when it asked.
	Lag time.Duration
	// Number counts requests, in the order in which they were asked, from 1.
	Number uint64
}

// asks connects transactions of the store with the requests that they carry out.
type asks struct {
	n          uint64
	current    map[any]Asked    // by the coroutine that asks
	committing map[uint64]Asked // by the number of a transaction whose commit has not landed
	landed     []Asked          // in the present event
	repeats    int              // requests that might have been repeated
	repeating  bool
}

// asking notes what the running coroutine is about to ask of the store.
func (w *World) asking(q node.Request, wall instant.Time, lag time.Duration) {
	w.asks.n++
	w.asks.current[w.Engine.Self()] = Asked{q, wall, lag, w.asks.n}
}

// asked notes that the running coroutine has its answer.
func (w *World) asked() { delete(w.asks.current, w.Engine.Self()) }

// operation connects a transaction with the request that it carries out.
func (w *World) operation(op fakefdb.Op) {
	if op.Kind != fakefdb.Commit {
		return
	}
	if q, ok := w.asks.current[w.Engine.Self()]; ok {
		w.asks.committing[op.Tx] = q
	}
}

// landed is told of every commit.
func (w *World) landed(l fakefdb.Landing) {
	w.Engine.Note(mix.Pair(uint64(l.Version), uint64(len(l.Mutations))))
	by := w.asks.committing[l.Tx]
	delete(w.asks.committing, l.Tx)
	if w.asks.repeating {
		return
	}
	w.asks.landed = append(w.asks.landed, by)
	w.emit(Landed{l, by})
}

// stepped ends an event.
func (w *World) stepped() {
	w.emit(Stepped{})
	if landed := w.asks.landed; len(landed) > 0 {
		w.asks.landed = landed[:0]
		if len(landed) == 1 {
			w.repeat(landed[0])
		}
	}
}

// repeatEvery is how many requests are carried out for each one that is repeated.
const repeatEvery = 8

// repeat carries some requests out a second time, right after their commits, as clients do whose answers got lost.
func (w *World) repeat(a Asked) {
	switch a.Request.(type) {
	case nil, node.Join, node.Beat, node.Promote, node.Expire, node.Retire, node.Sweep:
		return // no request of a node; or these make progress, or say that time has passed
	}
	w.asks.repeats++
	if w.asks.repeats%(repeatEvery*max(w.Config.Sample, 1)) != 0 {
		return
	}
	before := w.db.Hash()
	w.around.atOnce, w.asks.repeating = true, true
	_, err := kv.Run(context.Background(), w.db, func(tx kv.Tx) (node.Result, error) {
		return node.Perform(tx, w.store, a.Request, a.Wall)
	})
	w.around.atOnce, w.asks.repeating = false, false
	if err == nil {
		w.emit(Repeated{a.Request, w.db.Hash() != before})
	}
}
