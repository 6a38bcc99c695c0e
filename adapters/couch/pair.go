package couch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// Pair carries out the operations of one replication. It is safe for concurrent use.
type Pair struct {
	source, target *endpoint
	filter         spec.Filter
	style          string
	// noDocIDs says that the source is too old for POST _changes, so that doc_ids are filtered here.
	noDocIDs atomic.Bool

	mu     sync.Mutex
	closed bool
	feed   *feed               // that the last ReadChanges left open
	kept   map[uint64][][]byte // bodies by the FetchDocs that brought them, in the order of its Docs
}

// Pair connects a replication's two endpoints. Close it after its last operation.
func (c *Client) Pair(r spec.Replication) (*Pair, error) {
	p := &Pair{filter: r.Filter, style: "all_docs", kept: map[uint64][][]byte{}}
	if r.WinningRevsOnly {
		p.style = "main_only"
	}
	var err error
	if p.source, err = c.newEndpoint(peer.Source, r.Source); err != nil {
		return nil, err
	}
	if p.target, err = c.newEndpoint(peer.Target, r.Target); err != nil {
		p.source.close()
		return nil, err
	}
	return p, nil
}

// Close lets go of the connections and of all kept bodies.
func (p *Pair) Close() {
	p.mu.Lock()
	open := p.feed
	p.closed, p.feed, p.kept = true, nil, nil
	p.mu.Unlock()
	if open != nil {
		open.close()
	}
	p.source.close()
	p.target.close()
}

// Do carries out an operation. It returns as soon as the context ends. id names the bodies that a
// FetchDocs keeps.
func (p *Pair) Do(ctx context.Context, id uint64, op peer.Op) peer.Reply {
	switch op := op.(type) {
	case peer.Open:
		return reply(p.side(op.Side).openDB(ctx))
	case peer.Create:
		return reply(p.target.create(ctx, op))
	case peer.Commit:
		return reply(p.side(op.Side).commit(ctx))
	case peer.CountPending:
		return reply(p.source.countPending(ctx, op.Since))
	case peer.GetLocal:
		return reply(p.side(op.Side).getLocal(ctx, op))
	case peer.PutLocal:
		return reply(p.side(op.Side).putLocal(ctx, op))
	case peer.GetFilter:
		return reply(p.source.getFilter(ctx, op))
	case peer.ReadChanges:
		return p.readChanges(ctx, op)
	case peer.DiffRevs:
		return reply(p.target.diffRevs(ctx, op))
	case peer.FetchDocs:
		return reply(p.fetchDocs(ctx, id, op))
	case peer.WriteDocs:
		return reply(p.writeDocs(ctx, op))
	case peer.CopyDoc:
		return p.copyDoc(ctx, op)
	}
	panic(fmt.Sprintf("couch: unknown operation %T", op))
}

// Release forgets the bodies that the FetchDocs id keeps. Writes under way are not disturbed.
func (p *Pair) Release(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kept, id)
}

func (p *Pair) keep(id uint64, bodies [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept != nil {
		p.kept[id] = bodies
	}
}

// bodies finds kept documents, nil if one of them is not kept.
func (p *Pair) bodies(docs []peer.Kept) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([][]byte, len(docs))
	for i, d := range docs {
		fetched := p.kept[d.Fetch]
		if d.Index < 0 || d.Index >= len(fetched) || fetched[d.Index] == nil {
			return nil
		}
		out[i] = fetched[d.Index]
	}
	return out
}

func (p *Pair) side(s peer.Side) *endpoint {
	if s == peer.Target {
		return p.target
	}
	return p.source
}

// reply is the answer of an operation that either succeeds or fails.
func reply[R peer.Result](result R, f *peer.Failure) peer.Reply {
	if f != nil {
		return peer.Reply{Failure: f}
	}
	return peer.Reply{Result: result}
}
