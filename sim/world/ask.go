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
	// Scans is set for a list of a user while no index has the jobs: it reads more of them than it looks at.
	Scans bool
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

// begin notes the request that a coroutine is about to carry out on the store, and numbers it. A coroutine
// has one at a time.
func (a *asks) begin(coroutine any, q Asked) {
	a.n++
	q.Number = a.n
	a.current[coroutine] = q
}

// end notes that a coroutine has the answer to its request.
func (a *asks) end(coroutine any) { delete(a.current, coroutine) }

// commits notes that a coroutine sends the commit of a transaction, which carries out the coroutine's
// request.
func (a *asks) commits(coroutine any, tx uint64) {
	if q, ok := a.current[coroutine]; ok {
		a.committing[tx] = q
	}
}

// landed is told of every commit.
func (w *World) landed(l fakefdb.Landing) {
	h := uint64(l.Version)
	for _, m := range l.Mutations {
		h = mix.Bytes(mix.Bytes(h, m.Key), m.Value)
	}
	w.Engine.Note(h)
	by := w.asks.committing[l.Tx]
	delete(w.asks.committing, l.Tx)
	if w.asks.repeating {
		return
	}
	w.asks.landed = append(w.asks.landed, by)
	w.emit(Landed{l, by})
}

// stepped is called after every event of the engine.
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

// repeat carries out some requests a second time, right after their commits, as a client does that lost the
// answer.
func (w *World) repeat(a Asked) {
	switch a.Request.(type) {
	case nil, node.Join, node.Beat, node.Promote, node.Expire, node.Retire, node.Sweep:
		return // no request of a node; or these make progress, or say that time has passed
	case node.Accept:
		if !took(w, a.Request.(node.Accept)) {
			return // it has parked jobs, perhaps, and another one looks at the next
		}
	}
	w.asks.repeats++
	if w.asks.repeats%(repeatEvery*max(w.Config.Sample, 1)) != 0 {
		return
	}
	before := w.db.Hash()
	w.storeWorld.undisturbed, w.asks.repeating = true, true
	_, err := kv.Run(context.Background(), w.db, func(tx kv.Tx) (node.Result, error) {
		return node.Perform(tx, w.store, a.Request, a.Wall)
	})
	w.storeWorld.undisturbed, w.asks.repeating = false, false
	if err == nil {
		w.emit(Repeated{a.Request, w.db.Hash() != before})
	}
}

// took reports whether the worker of an accept holds jobs by it.
func took(w *World, q node.Accept) bool {
	owned := w.store.Keys.Jobs.Owned.Sub(q.Worker, q.Demand.Batch)
	rows, err := w.View().Present().GetRange(owned.Range(), kv.RangeOptions{Limit: 1})
	return err == nil && len(rows) > 0
}
