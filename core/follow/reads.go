package follow

import (
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// A request for documents may fail for one of them: the server cannot read its body, or takes too long for that, or a
// proxy refuses what is in it. One such document must not keep the others from being followed, so the request is
// repeated in parts. Before each part, and before a document is passed over that has failed alone, the server must
// answer a request about no documents. If it does not, the failure is the server's, and the run fails: a server that is
// down is asked twice. A document that is never there as the feed announces it is passed over likewise (see retreat):
// there the server has answered.
// A document that is passed over counts as unknown, not as deleted, so its job stays, and a later run looks whether it
// is as announced (see leftOut).

// maxUnread bounds the documents of the feed that are passed over in a row: more are the server's trouble, and the run
// fails. The next one begins behind them, so that many documents on one damaged part of a disk do not keep back those
// behind them. Documents that the feed did not bring, and states, are begun anew each time, so they have no such bound.
const maxUnread = 10

// reads is how a half of a run reads documents.
type reads struct {
	most  int           // documents that the next request may be about; 0 for any number
	probe bool          // the next request is about none
	id    string        // the document that failed alone last
	fails int           // and how often in a row
	alone *peer.Failure // with which it did so for the last time that it is tried; see trouble
	row   int           // how many documents in a row were passed over
	stale int           // how often the first document was read in an older revision than its row has
}

// outcome is what an answer to a request for documents means.
type outcome uint8

const (
	taken  outcome = iota // its documents are there
	again                 // the next request is another one
	unread                // its one document is to be passed over
	failed                // the request fails whichever documents it is about
)

// op is the next request for documents.
func (p *reads) op(ids []string) peer.ReadDocs {
	if ids[0] != p.id {
		p.alone = nil
	}
	if p.probe {
		ids = nil
	} else if p.most > 0 {
		ids = ids[:min(p.most, len(ids))]
	}
	return peer.ReadDocs{IDs: ids, Budget: readBudget}
}

// judge notes an answer. A document is tried so many times alone before it is passed over.
func (p *reads) judge(op peer.ReadDocs, f *peer.Failure, tries int) outcome {
	n := len(op.IDs)
	switch {
	case f == nil && n == 0:
		if p.probe = false; p.alone == nil {
			return again
		}
		p.most, p.fails, p.row = 1, 0, p.row+1
		return unread
	case f == nil:
		if p.fails, p.most = 0, 2*p.most; p.most >= readAtMost {
			p.most = 0
		}
		return taken
	case n == 0, !ofOne(f):
		p.alone = nil
		return failed
	case n > 1:
		// Reached: a request for documents is repeated in parts
		p.most, p.probe, p.alone = n/2, true, nil
		return again
	}
	if p.id != op.IDs[0] {
		p.id, p.fails = op.IDs[0], 0
	}
	p.most, p.probe, p.alone = 1, true, nil
	if p.fails++; p.fails >= tries {
		p.alone = f
	}
	return again
}

// readAtMost is more documents than any request is about that is not bounded otherwise.
const readAtMost = 1024

// ofOne reports whether a request for several documents may have failed for one of them. A server that breaks an answer
// off has come to a document that it cannot read; a proxy tells that with 502. One that falls silent, or a proxy that
// tells so, may take too long for a document.
func ofOne(f *peer.Failure) bool {
	failed := slices.Contains([]peer.Kind{peer.Broken, peer.Malformed, peer.TimedOut}, f.Kind)
	return failed || f.Kind == peer.Status && slices.Contains([]int{502, 503, 504}, f.Status) || refusesOne(f)
}

// refusesOne reports whether a request about several documents may have been refused for one of them, as one that is
// too large, or that a firewall refuses for its contents.
func refusesOne(f *peer.Failure) bool {
	may := slices.Contains([]int{400, 413, 500}, f.Status) || f.Status == 403 && f.Error == ""
	return f.Kind == peer.Status && may
}

// trouble words why the document that failed alone is passed over.
func (p *reads) trouble() replication.Trouble {
	t := replication.TroubleOf(peer.ReadDocs{}, p.alone)
	t.Reason = fmt.Sprintf("document %q is left out for now: %s", p.id, t.Reason)
	return t
}

// missing words why a document is passed over that is not as its row announces. CouchDB shows a replication document to
// others than its owner and admins without credentials, renamed.
func missing(row peer.Change) replication.Trouble {
	return replication.Trouble{Error: "missing_doc", Reason: fmt.Sprintf("document %q is left out for now: the server "+
		"announces revision %s of it, which it does not have, or shows to admins only", row.ID, row.Revs[0])}
}

// answered takes the answer to a request for documents. One that the feed did not bring is tried once: it has been left
// out before, or has a job that goes on.
func (in *inward) answered(op peer.ReadDocs, reply peer.Reply) {
	fed, tries := len(in.rows) > 0, 1
	if fed {
		tries = maxMissed
	}
	switch outcome := in.reads.judge(op, reply.Failure, tries); {
	case outcome == again:
		if in.reads.fails > 0 && in.reads.probe {
			in.pause = in.run.w.now.Add(stalePause << in.reads.fails)
		}
	case outcome == failed:
		in.run.fail(op, reply.Failure)
	case outcome == unread && fed && in.reads.row > maxUnread:
		in.run.fail(op, in.reads.alone)
	case outcome == unread:
		in.passOver(in.reads.trouble())
	case fed:
		in.fetched(reply.Result.(peer.DocsRead).Docs, false)
	default:
		in.confirm(reply.Result.(peer.DocsRead).Docs)
	}
}

// passOver leaves the first document out that is to be read.
func (in *inward) passOver(t replication.Trouble) {
	// Reached: a document that the followed database cannot read is left out
	if len(in.rows) > 0 {
		row := in.rows[0]
		in.leave(row.ID, t)
		leaves := strings.Join(peer.MarkOf(row.ID, row.Revs[0], row.Revs[1:]).Find().Revs, " ")
		in.docs = append(in.docs, Incoming{Seq: row.Seq, ID: row.ID, Announced: leaves, Unread: true})
		in.rows = in.rows[1:]
		return
	}
	in.leave(in.left.unread[0], t)
	in.left.unread, in.reads.row = in.left.unread[1:], 0
	in.confirmed()
}

// leave notes a document that is left out, and tells operators why.
func (in *inward) leave(id string, t replication.Trouble) {
	in.run.leave(id)
	in.run.unread = t
	in.run.w.note("follow_unreadable", in.run.ID, t.Error, t.Reason)
}
