package peers

import (
	"context"
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// copyDoc reads revisions from the source and writes each to the target, at moments of their own.
func (p *Pair) copyDoc(ctx context.Context, op peer.CopyDoc) peer.Reply {
	var found []*docs.Document
	var readable int
	var damage *peer.Failure
	torn := false
	reply := p.request(ctx, peer.Source, "GET", op, at(func(db *DB, f Fault) peer.Reply {
		found = db.revs(op.ID, op.Revs)
		if len(found) == 0 || f == RevMissing {
			found = make([]*docs.Document, 1)
		}
		if torn = db.Server.CutsRevs && len(found) > 1; torn {
			p.net.Torn(db, op.ID)
		}
		if f == RevDamaged {
			db.damage(found)
		}
		readable, damage = db.readable(found)
		return peer.Reply{Result: peer.Copied{}}
	}))
	if reply.Failure != nil && reply.Result == nil {
		return reply
	}
	broken := reply.Failure
	switch {
	case broken != nil:
		found = found[:len(found)/2]
	case torn:
		broken, found = p.torn(), found[:len(found)-1]
	}
	if damage != nil && len(found) > readable {
		broken, found = p.ofSource(*damage), found[:readable]
	}
	if p.carry(ctx, peer.Source, found...) != nil {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Cancelled}}
	}
	var copied peer.Copied
	if slices.Contains(found, nil) {
		for _, rev := range op.Revs {
			if !slices.ContainsFunc(found, func(d *docs.Document) bool { return d != nil && d.Rev.String() == rev }) {
				copied.Revs = append(copied.Revs, peer.CopiedRev{Rev: rev, Missing: true})
			}
		}
	}
	for i, doc := range found {
		if doc == nil {
			continue
		}
		out, failure := p.put(ctx, op, doc)
		if failure != nil {
			return peer.Reply{Result: copied, Failure: failure}
		}
		copied.Bytes += int64(len(doc.Body))
		copied.Revs = append(copied.Revs, out)
		if left := len(found) - i - 1; out.Refused != nil && out.Refused.Status == 413 && left > 0 && left < tears {
			// The target did not read to the end, where the next one begins.
			return peer.Reply{Result: copied, Failure: p.torn()}
		}
	}
	return peer.Reply{Result: copied, Failure: broken}
}

// carry has documents travel from or to a side. Those that are nil were not there.
func (p *Pair) carry(ctx context.Context, side peer.Side, list ...*docs.Document) error {
	host, _ := Find(p.url(side))
	server := p.net.Server(host)
	if server == nil {
		return nil // the request fails
	}
	sum := 0
	for _, doc := range list {
		if doc != nil {
			sum += size(doc)
		}
	}
	return p.net.Carry(ctx, p.owner, server, sum)
}

// tears is the number of revisions behind a refused one up to which the refusal breaks the answer. It is more
// than the number of retries of a request, and so small that a run gets through within its turn.
const tears = 10

// torn is the failure of an answer of the source that ended too soon.
func (p *Pair) torn() *peer.Failure { return p.ofSource(peer.Failure{Kind: peer.Broken}) }

// ofSource is a failure of a request for revisions.
func (p *Pair) ofSource(f peer.Failure) *peer.Failure {
	f.Side, f.Method, f.URL = peer.Source, "GET", p.rep.Source.URL
	return &f
}

// put writes one revision to the target.
func (p *Pair) put(ctx context.Context, op peer.CopyDoc, doc *docs.Document) (peer.CopiedRev, *peer.Failure) {
	out := peer.CopiedRev{Rev: doc.Rev.String()}
	if p.carry(ctx, peer.Target, doc) != nil {
		return out, &peer.Failure{Kind: peer.Cancelled}
	}
	reply := p.request(ctx, peer.Target, "PUT", op, at(func(db *DB, f Fault) peer.Reply {
		refuse := func(status int, name string) peer.Reply {
			out.Refused = &peer.Refusal{ID: doc.ID, Rev: out.Rev, Status: status, Error: name}
			return peer.Reply{}
		}
		if p.bare[doc.ID] = p.bare[doc.ID] || f == StubMissing; p.bare[doc.ID] && len(op.Since) > 0 {
			return refuse(412, "missing_stub")
		}
		if f == Conflict409 {
			return refuse(409, "conflict")
		}
		if db.Server.tooLarge(doc) {
			return db.Server.refusesSize()
		}
		if w := db.replicated([]*docs.Document{doc})[0]; w.Err != nil {
			if w.Err.Name != "" { // a proxy has no word, and says nothing about the document
				p.net.Refused(p.rep.Target.URL, doc.ID, out.Rev)
			}
			return refuse(statuses[w.Err.Kind], w.Err.Name)
		}
		return peer.Reply{}
	}))
	f := reply.Failure
	if f == nil || f.Kind != peer.Status || f.Status < 400 || f.Status >= 500 || f.Status == 408 || f.Status == 429 {
		return out, f
	}
	out.Refused = &peer.Refusal{ID: doc.ID, Rev: out.Rev, Status: f.Status, Error: f.Error, Reason: f.Reason}
	p.doubt(out.Refused)
	return out, nil
}

// doubt tells the network of a refusal by a server, rather than by a database, that may leave a revision out.
// One for the revision's size may at once. One for our credentials (401, 403) may when it comes a second time
// for the document, since the server has accepted the credentials elsewhere meanwhile.
func (p *Pair) doubt(r *peer.Refusal) {
	switch r.Status {
	case 401, 403:
		if p.shut[r.ID]++; p.shut[r.ID] < 2 {
			return
		}
	case 413:
	default:
		return
	}
	p.net.Refused(p.rep.Target.URL, r.ID, r.Rev)
}
