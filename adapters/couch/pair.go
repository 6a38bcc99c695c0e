package couch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"couchrelay/core/peer"
	"couchrelay/core/reach"
	"couchrelay/core/spec"
)

// Pair carries out the operations of one replication. It is safe for concurrent use.
type Pair struct {
	source, target *endpoint
	filter         spec.Filter
	style          string // parameter of _changes: all_docs for all leaves, main_only for the winners
	// noDocIDs is set once the source has refused POST _changes, and answered GET. Its changes are then filtered by
	// document ids here.
	noDocIDs atomic.Bool

	mu     sync.Mutex // guards the fields below
	closed bool       // Close was called: nothing is kept any more
	// feed is the feed that the last ReadChanges left open, nil if there is none. A read takes it out
	// (takeFeed) and thereby owns it until it leaves it here again (leaveFeed).
	feed *feed
	// kept has the bodies of documents by the id of the FetchDocs that brought them, in the order of its
	// Docs, nil for those that did not come. Release deletes them. They are never changed, so writes read
	// them without the lock. Nil after Close.
	kept map[uint64][][]byte
}

// Pair prepares the two endpoints of a replication. Nothing is sent yet. The caller closes the pair after its
// last operation.
func (c *Client) Pair(r spec.Replication) (*Pair, error) {
	p := &Pair{filter: r.Filter, style: "all_docs", kept: map[uint64][][]byte{}}
	p.filter.DocIDs = slices.Sorted(slices.Values(r.Filter.DocIDs)) // as feed.only demands
	if r.WinningRevsOnly {
		p.style = "main_only"
	}
	policy := &everywhere
	if c.options.Reach != nil {
		policy = c.options.Reach(userOf(r), r.User.Admin)
	}
	var err error
	if p.source, err = c.newEndpoint(peer.Source, r.Source, policy); err != nil {
		return nil, err
	}
	if p.target, err = c.newEndpoint(peer.Target, r.Target, policy); err != nil {
		p.source.close()
		return nil, err
	}
	for _, e := range []*endpoint{p.source, p.target} {
		if tell := c.options.PlainHTTP; tell != nil && e.base.Scheme == "http" {
			tell(e.side, e.shown)
		}
	}
	return p, nil
}

var everywhere reach.Policy

// userOf returns the user who has made a replication, as the service knows. The name in a document's user_ctx may be
// any.
func userOf(r spec.Replication) string {
	if r.DocID != "" {
		return r.Owner
	}
	return r.User.Name
}

// Close ends the open feed, and releases the connections and all kept bodies. No operation may be in flight.
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

// Do carries out an operation, one attempt of it. It returns soon after the context ends. id is that of the
// call; the bodies that a FetchDocs brings are kept under it, and WriteDocs names them by it.
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
	case peer.FindRev:
		return reply(p.findRev(ctx, op))
	case peer.ReadNewest:
		return reply(p.readNewest(ctx))
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
	case peer.ReadDocs:
		return reply(p.readDocs(ctx, op))
	case peer.EditDocs:
		return reply(p.editDocs(ctx, op))
	}
	panic(fmt.Sprintf("couch: unknown operation %T", op))
}

// Release forgets the bodies that the FetchDocs with this id brought. A write of them that is in flight goes
// on.
func (p *Pair) Release(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kept, id)
}

// keep keeps the bodies that a FetchDocs brought, unless the pair was closed in the meantime.
func (p *Pair) keep(id uint64, bodies [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept != nil {
		p.kept[id] = bodies
	}
}

// bodies returns the bodies of kept documents. It is all or nothing: nil if one of them is not kept, since a
// write that left one out would be taken for a write of all.
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

// reply makes the reply of an operation that has either a result or a failure. ReadChanges and CopyDoc may
// have both.
func reply[R peer.Result](result R, f *peer.Failure) peer.Reply {
	if f != nil {
		return peer.Reply{Failure: f}
	}
	return peer.Reply{Result: result}
}
