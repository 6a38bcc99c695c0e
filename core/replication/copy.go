package replication

import (
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/peer"
)

// copyState is what a CopyDoc call remembers between its answers.
type copyState struct {
	admitted bool            // the target let us in after it had refused a document for who we are
	lacked   int             // answers in which the source lacked a revision
	lacking  []string        // revisions that the last answer lacked
	obstacle *peer.Refusal   // why the target did not take a revision that it must take
	counted  map[string]bool // revisions that were written (true) or left out; one that nobody asked for may come again
}

// takeCopied counts the revisions that came over and leaves the others in the operation. A revision may
// come as a newer leaf that was not asked for, so only a whole answer tells that nothing is left. Fewer revisions that
// are left are progress, and retries and patience begin anew.
func (r *Run) takeCopied(c *call, got peer.Copied, whole bool) {
	op := c.op.(peer.CopyDoc)
	r.info.BytesWritten += got.Bytes
	for _, rev := range got.Revs {
		switch {
		case rev.Missing:
			if !slices.Contains(c.lacking, rev.Rev) {
				c.lacking = append(c.lacking, rev.Rev)
			}
		case rev.Refused != nil && (!skippable(rev.Refused) || aboutUs(rev.Refused) && !c.admitted):
			c.obstacle = rev.Refused
		default:
			r.countCopied(c, rev)
		}
	}
	left := c.lacking
	if !whole || c.obstacle != nil {
		left = slices.DeleteFunc(slices.Clone(op.Revs), func(rev string) bool { _, counted := c.counted[rev]; return counted })
	}
	if len(left) < len(op.Revs) {
		c.failed, c.throttled = 0, throttled{}
	}
	op.Revs = left
	c.op = op
}

// countCopied counts a revision that was written or is left out, unless it came before, or is taken only now.
func (r *Run) countCopied(c *call, rev peer.CopiedRev) {
	if written, counted := c.counted[rev.Rev]; written || counted && rev.Refused != nil {
		return
	}
	if c.counted == nil {
		c.counted = map[string]bool{}
	}
	c.counted[rev.Rev] = rev.Refused == nil
	r.info.DocsRead++
	if rev.Refused == nil {
		r.wrote(1)
	} else {
		r.refused(*rev.Refused)
	}
}

// onCopied ends a copy, or decides how what is left of it comes over.
func (r *Run) onCopied(c *call, reply peer.Reply) {
	op := c.op.(peer.CopyDoc)
	if f := reply.Failure; f != nil {
		if f.Side != peer.Source || f.Kind != peer.Status || f.Status != 404 {
			r.crash(trouble(op, f))
			return
		}
		if f.Reason == "Database does not exist." || f.Reason == "no_db_file" {
			// Reached: a source is deleted while documents are copied
			r.crash(Trouble{Error: "db_not_found", Reason: f.String()})
			return
		}
		c.lacking = op.Revs
	}
	switch {
	case c.obstacle != nil:
		r.overcome(c, op, c.obstacle)
	case len(c.lacking) > 0:
		r.askAgain(c, op)
	default:
		r.finish(c)
		r.copies--
		c.batch.pending--
	}
}

// some names a few revisions; a document may have thousands.
func some(revs []string) string {
	const few = 5
	if more := len(revs) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(revs[:few], ", "), more)
	}
	return strings.Join(revs, ", ")
}

// askAgain gives the source time to find a revision that it announced: once, and then with all
// attachments, since the target may lack those too.
func (r *Run) askAgain(c *call, op peer.CopyDoc) {
	if c.lacked++; c.lacked > 1 || r.stopping {
		// Reached: the source does not have what it announced
		r.crash(Trouble{
			Error:  "missing_doc",
			Reason: fmt.Sprintf("the source announced revisions of document %q that it does not have: %s", op.ID, some(c.lacking)),
		})
		return
	}
	op.Since = nil
	c.op = op
	r.again(c, missingPause)
}

// overcome deals with a document that the target did not take though it must.
func (r *Run) overcome(c *call, op peer.CopyDoc, o *peer.Refusal) {
	f := &peer.Failure{
		Side: peer.Target, Method: "PUT", URL: op.ID, Kind: peer.Status, Status: o.Status, Error: o.Error, Reason: o.Reason,
	}
	switch {
	case skippable(o): // of the document, or of everything that we ask for?
		// Reached: a target may know us no longer
		r.start(&call{op: peer.Open{Side: peer.Target}, doubted: c})
	case o.Status == 412 && len(op.Since) > 0: // an attachment that we sent as a stub is not there
		// Reached: a stub is missing at the target
		op.Since = nil
		c.op = op
		r.again(c, 0)
	case r.grantRetry(c, f):
		c.failure = f
	default:
		r.crash(Trouble{
			Error:  "doc_write_failed",
			Reason: fmt.Sprintf("the target answered %d to document %q: %s: %s", o.Status, op.ID, o.Error, o.Reason),
		})
	}
}

// onAdmitted goes on with a copy whose document was refused as a target refuses those whom it does not
// know. Nothing is left out while the target lets us in nowhere; if it does, it has to refuse the
// document once more.
func (r *Run) onAdmitted(c *call, op peer.Op, reply peer.Reply) {
	if reply.Failure != nil {
		r.crash(trouble(op, reply.Failure))
		return
	}
	c.admitted = true
	r.again(c, 0)
}
