package replication

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// docCopy is the copy of one document: of some of its revisions, each of which streams from the source to the
// target with its attachments. It has one call, which is repeated until nothing is left of it: the operation
// shrinks to the revisions that are still to come, or to one of them if none comes. Of CouchDB's replication
// protocol this is "Fetch Changed Documents" with open_revs, and "Upload Document with Attachments".
type docCopy struct {
	*pipeline
	call     *call
	batch    *batch
	asked    []string        // revisions
	own      map[string]bool // the same; there may be hundreds of thousands
	later    []string        // revisions that narrow has put off; the call asks for them when its present ones are over
	atOnce   int             // how many of these it asked for last; 0 once one of them was left out
	narrowed bool            // narrow has put off some, now or before
	untried  bool            // no request has asked for the call's present revision alone yet; narrow sets it

	written int64 // documents that the run had written when the copy failed first, and this one's since

	doubtful []string        // revisions that the target refused, perhaps for our credentials, in the last answer
	admitted map[string]bool // revisions that the target refused so before it let us in
	lacked   int             // answers in which the source lacked a revision
	lacking  []string        // revisions that the last answer lacked
	gone     string          // how the source failed over these, maybe for an attachment of theirs; empty if it did not
	obstacle *peer.Refusal   // why the target did not take a revision that it must take, of the last answer
	counted  map[string]bool // revisions that the target took (true) or refused (false); each counts once
}

func (p *pipeline) copyDoc(b *batch, doc alone) {
	c := &docCopy{pipeline: p, batch: b, asked: doc.Revs, own: map[string]bool{}, counted: map[string]bool{}}
	for _, rev := range doc.Revs {
		c.own[rev] = true
	}
	c.call = &call{op: doc.CopyDoc, held: true, brief: p.spares(b), began: doc.began}
	c.call.absorb, c.call.then = c.absorb, c.onCopied
	p.issue(c.call)
}

// absorb counts what came over. When the target refused a document for which it might not know us any longer,
// and the answer then broke off, the target is asked about that first: until it lets us in, no attempt would
// get further.
func (c *docCopy) absorb(reply peer.Reply) peer.Reply {
	c.obstacle, c.lacking, c.gone, c.doubtful = nil, nil, "", nil
	progress := false
	if got, is := reply.Result.(peer.Copied); is {
		progress = c.takeCopied(got, reply.Failure == nil)
	}
	if len(c.call.op.(peer.CopyDoc).Revs) == 0 {
		reply.Failure = nil // the answer broke off behind all that the copy asks for
	}
	if c.call.failed == 0 && c.lacked == 0 && !c.narrowed {
		c.written = c.info.DocsWritten
	}
	if c.obstacle != nil && skippable(c.obstacle) && reply.Failure != nil && Transient(reply.Failure) {
		// Reached: a copy breaks off, and the target may know us no longer
		reply.Failure = nil
	}
	if c.untried = false; reply.Failure != nil && ofBulk(reply.Failure) && !progress {
		c.narrow()
	}
	return reply
}

// narrow has the next attempt ask for the last revision alone, and for the others after it (see over): each attempt may
// fail as the last one did. The source may be unable to read the first of them, or break off long answers, which begin
// with newer leaves each time. It reports whether there are others.
func (c *docCopy) narrow() bool {
	op := c.call.op.(peer.CopyDoc)
	last := len(op.Revs) - 1
	if last <= 0 {
		return false
	}
	c.later, op.Revs = append(c.later, op.Revs[:last]...), op.Revs[last:]
	c.narrowed, c.untried, c.atOnce, c.lacked = true, true, 1, 0
	c.call.op = op
	return true
}

// takeCopied counts the revisions that came over and leaves the others in the operation. The source may send
// a newer leaf in place of a revision that was asked for, so only a whole answer tells that nothing is left.
// If fewer revisions are left than before, the copy makes progress, and its retries and its patience begin
// anew. It reports whether it does.
func (c *docCopy) takeCopied(got peer.Copied, whole bool) bool {
	op := c.call.op.(peer.CopyDoc)
	c.info.BytesWritten += got.Bytes
	c.tally.read(0, got.Bytes)
	lacks := map[string]bool{}
	for _, rev := range got.Revs {
		switch {
		case rev.Missing:
			if !lacks[rev.Rev] {
				c.lacking = append(c.lacking, rev.Rev)
			}
			lacks[rev.Rev] = true
		case rev.Refused != nil && (!skippable(rev.Refused) || c.takesNone(rev.Refused)):
			c.obstacle = rev.Refused
		case rev.Refused != nil && aboutUs(rev.Refused) && c.doubts(rev.Rev):
			c.obstacle, c.doubtful = rev.Refused, append(c.doubtful, rev.Rev)
		default:
			c.count(rev)
		}
	}
	left := c.lacking
	if !whole || c.obstacle != nil {
		left = c.uncounted(op.Revs)
	}
	progress := len(left) < len(op.Revs)
	if progress {
		c.call.failed, c.call.throttled = 0, throttled{}
	}
	op.Revs = left
	c.call.op = op
	return progress
}

// doubts reports whether the target may have refused a revision only for our credentials. A newer leaf that comes in
// place of one that was asked for is doubted if it is the first of all: it may be another one at each attempt, and has
// a change of its own in the feed.
func (c *docCopy) doubts(rev string) bool {
	return !c.admitted[rev] && (len(c.admitted) == 0 || c.own[rev])
}

// count counts a revision that the target took or refused. A leaf that was not asked for comes again with
// every attempt, and counts once; a revision that was refused before and is taken now counts as taken too.
func (c *docCopy) count(rev peer.CopiedRev) {
	if written, counted := c.counted[rev.Rev]; written || counted && rev.Refused != nil {
		return
	}
	c.counted[rev.Rev] = rev.Refused == nil
	c.info.DocsRead++
	c.tally.read(1, 0)
	id := c.call.op.(peer.CopyDoc).ID
	if rev.Refused == nil {
		c.info.wrote(1)
		c.written++ // which tells nothing of other documents
		c.refused.wrote(id)
		return
	}
	v := *rev.Refused
	v.ID, v.Rev = id, rev.Rev
	c.refuse(c.batch, v)
}

// onCopied ends the copy, or decides how the rest of it comes over.
func (c *docCopy) onCopied(reply peer.Reply) {
	op := c.call.op.(peer.CopyDoc)
	if f := reply.Failure; f != nil {
		v := peer.Refusal{Status: f.Status, Error: cmp.Or(f.Error, f.Kind.String()), Reason: f.String()}
		lacks := f.Side == peer.Source && f.Kind == peer.Status && f.Status == 404
		switch {
		case lacks && (f.Reason == "Database does not exist." || f.Reason == "no_db_file"):
			// Reached: a source is deleted while documents are copied
			c.crash(Trouble{Error: "db_not_found", Reason: f.String()})
			return
		case lacks:
			c.lacking, c.gone = op.Revs, v.Reason
		case f.Kind == peer.Oversized:
			c.leave(Finding{Refusal: v})
			return
		case ofBulk(f) && c.leaves() && (c.untried || c.narrow()):
			c.again(c.call, 0) // only a revision that failed alone is left out
			return
		case ofBulk(f) && c.leaves():
			// Reached: a document that was refused before cannot be copied at all
			c.leave(Finding{Refusal: v, Failed: true})
			return
		default:
			c.crash(trouble(op, f))
			return
		}
	}
	switch {
	case c.obstacle != nil:
		c.overcome(op, c.obstacle)
	case len(c.lacking) > 0:
		c.askAgain(op)
	default:
		c.over()
	}
}

// over ends the copy, or goes on with revisions that narrow has put off. It asks for twice as many each time, as long
// as all of them come over: only the first ones may have made the whole answer fail, and one at a time takes long.
func (c *docCopy) over() {
	if n := len(c.later); n > 0 {
		c.atOnce = min(max(1, 2*c.atOnce), n)
		op := c.call.op.(peer.CopyDoc)
		op.Revs, c.later = slices.Clone(c.later[n-c.atOnce:]), c.later[:n-c.atOnce]
		c.call.op, c.call.failed, c.call.throttled, c.lacked = op, 0, throttled{}, 0
		c.again(c.call, 0)
		return
	}
	c.finish(c.call)
	c.copies--
	c.batch.pending--
	if c.batch.retries {
		c.refused.copied(c.call.op.(peer.CopyDoc).ID, c.asked, c.counted)
	}
}

// notThere is listed for a revision that the source does not have. It may have it again, as a cluster does
// whose node comes back.
const notThere = "the source does not have this revision at present"

// lenientAfter is after how many crashes in a row a run is lenient: with CouchDB's pauses after a quarter of an hour.
const lenientAfter = 5

// lenient reports whether the run leaves out documents that it cannot copy, though their failures may pass. Runs
// before it ended for such a failure, or for another one, so that what follows them would never come over.
func (p *Plan) lenient() bool { return p.Crashes >= lenientAfter && p.OnRefusal != spec.FailRefused }

// leaves reports whether a copy that failed is left out, and listed: it was listed before, or the run is lenient, and
// it fails for this document alone, as the target has taken others since the first failure.
func (c *docCopy) leaves() bool {
	alone := c.plan.lenient() && c.info.DocsWritten > c.written && c.hasRoom()
	return (c.spares(c.batch) || alone) && !c.stopping
}

// spares reports whether copies of a batch that fail end no run, as they are listed. Under on_refusal fail nothing is
// left listed.
func (p *pipeline) spares(b *batch) bool { return b.retries && p.plan.OnRefusal != spec.FailRefused }

// hasRoom reports whether the list has a place for what the copy may leave out yet.
func (c *docCopy) hasRoom() bool {
	return c.batch.retries || c.refused.hasRoom(c.call.op.(peer.CopyDoc).ID, c.uncounted(c.asked)...)
}

// uncounted returns those of some revisions of which it is not known yet whether the target takes or refuses them.
func (c *docCopy) uncounted(revs []string) []string {
	return slices.DeleteFunc(slices.Clone(revs), func(rev string) bool { _, counted := c.counted[rev]; return counted })
}

// takesNone reports whether a refusal is to end the run: it may pass, and be for each of our requests, the list has no
// place for it, and nothing tells that the target takes other documents: it has taken none since the list had room.
func (c *docCopy) takesNone(v *peer.Refusal) bool {
	return mayPass(v) && aboutUs(v) && !c.hasRoom() && c.info.Written == c.refused.taken
}

// leave leaves out what the call asks for, and lists it: it must not end a run that could go on without it. What is put
// off may fail in the same way, so it has fewer retries.
func (c *docCopy) leave(v Finding) {
	op := c.call.op.(peer.CopyDoc)
	for _, rev := range op.Revs {
		c.counted[rev] = false
		v.ID, v.Rev = op.ID, rev
		if !c.batch.retries {
			c.info.refused(v.Refusal)
		}
		c.refused.list(c.batch, v)
	}
	c.call.brief, c.atOnce = true, 0
	c.over()
}

// askAgain gives the source time to find a revision that it announced: the node of a cluster that answers may
// not have it yet. The source is asked once more, and then for all attachments, since the target may lack
// those too.
func (c *docCopy) askAgain(op peer.CopyDoc) {
	c.lacked++
	if c.lacked > 1 && c.leaves() {
		// Reached: the source does not have a revision that was refused any more
		v := peer.Refusal{Status: 404, Error: "not_found", Reason: cmp.Or(c.gone, notThere)}
		c.leave(Finding{Refusal: v, Failed: true})
		return
	}
	if c.lacked > 1 && c.batch.retries && !c.stopping && (c.plan.Continuous || c.plan.Crashes >= lenientAfter) {
		// Reached: under fail, the source does not have a listed revision
		c.keepListed()
		return
	}
	if c.lacked > 1 || c.stopping {
		// Reached: the source does not have what it announced
		const lacks = "the source announced revisions of document %q that it does not have: %s"
		reason := strings.TrimSpace(fmt.Sprintf(lacks+" %s", op.ID, some(c.lacking), c.gone))
		c.crash(Trouble{Error: "missing_doc", Reason: reason})
		return
	}
	op.Since = nil
	c.call.op = op
	c.again(c.call, c.missingPause())
}

// keepListed ends a copy from the list whose source does not have the revisions, and leaves these listed as they are.
// Under on_refusal fail, too: the source may have been made again since they were listed, so that all later runs would
// crash for them. They cannot be taken off: the node of a cluster that has them may come back. Nor may checkpoints do
// without the list: a job that is made anew would pass over what that node has.
func (c *docCopy) keepListed() {
	for _, rev := range c.lacking {
		c.counted[rev] = false
	}
	c.refused.keeps = true
	c.refused.gone = cmp.Or(c.refused.gone, c.now)
	c.refused.passBy(min(max(c.now.Sub(c.refused.gone), firstRefusedPause), maxRefusedPause))
	c.over()
}

// some names a few revisions; a document may have thousands.
func some(revs []string) string {
	const few = 5
	if more := len(revs) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(revs[:few], ", "), more)
	}
	return strings.Join(revs, ", ")
}

// overcome deals with a revision that the target did not take although it must.
func (c *docCopy) overcome(op peer.CopyDoc, o *peer.Refusal) {
	f := &peer.Failure{
		Side: peer.Target, Method: "PUT", URL: op.ID,
		Kind: peer.Status, Status: o.Status, Error: o.Error, Reason: o.Reason,
	}
	switch {
	case skippable(o) && len(c.doubtful) > 0:
		// Reached: a target may know us no longer
		c.doubt()
	case o.Status == 412 && len(op.Since) > 0: // an attachment that was sent as a stub is not on the target
		// Reached: a stub is missing at the target
		op.Since = nil
		c.call.op = op
		c.again(c.call, 0)
	case c.grantRetry(c.call, f):
		c.call.failure = f
	case c.spares(c.batch), c.leaves():
		c.leave(Finding{Refusal: *o, Failed: true})
	default:
		c.crash(Trouble{
			Error:  "doc_write_failed",
			Reason: fmt.Sprintf("the target answered %d to document %q: %s: %s", o.Status, op.ID, o.Error, o.Reason),
		})
	}
}

// doubt opens the target to learn why it refused revisions with 401 or 403: a validation function may refuse
// them, or the target may refuse our credentials, and then every document. No revision is left out while the
// target lets us in nowhere. If it lets us in, it must refuse a revision once more before that is left out.
func (c *docCopy) doubt() {
	op := peer.Open{Side: peer.Target}
	c.issue(&call{op: op, began: c.call.began, doubt: true, then: func(reply peer.Reply) {
		if reply.Failure != nil {
			c.crash(trouble(op, reply.Failure))
			return
		}
		if c.admitted == nil {
			c.admitted = map[string]bool{}
		}
		for _, rev := range c.doubtful {
			c.admitted[rev] = true
		}
		c.again(c.call, 0)
	}})
}
