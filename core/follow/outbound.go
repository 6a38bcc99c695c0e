package follow

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/explain"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// outward is the half of a run that writes states back. It does one thing at a time.
type outward struct {
	run    *run
	call   *call // under way
	asking bool  // a request is

	looked string       // up to where the mirror's changes are known
	next   instant.Time // when it looks at them again
	pause  instant.Time // and not before
	retry  instant.Time // when it goes through all that is due; 0 if nothing is
	fails  int          // how often in a row that left something

	passing bool   // it goes through all that is due, page by page
	after   string // the last id of the page
	paging  bool   // there are others behind it
	skipped bool   // something was not written
	stray   stray  // tells whether the database was put back unnoticed
	// troubled reports that operators were told of it.
	troubled bool

	reads   reads
	states  []State // of the page, whose documents are not read
	edits   []edit  // to be written
	alone   bool    // one by one: a request with several failed
	row     int     // how many in a row have failed alone
	written []Written
}

// stray is a document with a state to be written that the followed database does not have as its feed has told, though
// the feed was read to its end.
type stray struct {
	peer.Mark              // the document as it is there; its revision is empty if it is not there
	passes    int          // how many passes in a row have met it
	met       bool         // this pass has
	other     peer.Mark    // another stray that this pass has met
	reread    instant.Time // strays have nothing read anew before
}

// strayPause is the shortest time between two times that a run reads a database anew because of strays: a node of a
// cluster may lag behind for long, and its answers must not have all read again and again.
const strayPause = time.Hour

// edit is a state on its way.
type edit struct {
	State
	base string // the revision that it replaces
	body []byte
}

func (out *outward) deadline() instant.Time {
	if out.call != nil || out.asking || !out.run.in.opened {
		return instant.Never
	}
	if out.retry != 0 {
		return max(min(out.next, out.retry), out.run.w.now)
	}
	return max(out.next, out.run.w.now)
}

func (out *outward) ask(q Request) {
	out.asking = true
	out.run.w.ask(out.run, q)
}

// advance begins the next step, if none is under way.
func (out *outward) advance() {
	r := out.run
	switch {
	case out.call != nil || out.asking || !r.in.opened:
	case len(out.edits) > 0:
		op := peer.EditDocs{}
		for _, e := range out.edits[:out.atOnce()] {
			op.Docs = append(op.Docs, peer.NewEdit{ID: e.ID, Body: e.body})
		}
		out.call = r.call(op)
	case len(out.written) > 0:
		out.ask(Sent{Held: r.Held, Docs: out.written})
	case len(out.states) > 0:
		ids := make([]string, len(out.states))
		for i, s := range out.states {
			ids[i] = s.ID
		}
		out.call = r.call(out.reads.op(ids))
	case out.paging:
		out.ask(Prepare{Held: r.Held, Looked: out.looked, All: true, After: out.after})
	default:
		out.rest()
	}
}

// rest ends a pass, and begins another one or looks at the mirror if the time for that has come.
func (out *outward) rest() {
	r, passed := out.run, out.passing
	switch {
	case out.skipped:
		if out.passing {
			out.fails++
			out.stray.passed(&r.in)
		}
		if out.retry == 0 {
			out.retry = r.w.now.Add(pauses.Jittered(max(out.fails, 1), &r.w.rng))
		}
	case out.passing:
		out.fails, out.troubled, out.stray.Mark = 0, false, peer.Mark{}
	}
	out.passing, out.skipped = false, false
	// By turns: passes may begin again at once, and each may take long for one document, and the mirror may change for
	// hours, so that each look is followed by another one.
	due := out.retry != 0 && out.retry <= r.w.now
	switch {
	case out.next <= r.w.now && (passed || !due):
		out.ask(Look{Held: r.Held, Looked: out.looked})
	case due:
		out.passing, out.retry = true, 0
		out.ask(Prepare{Held: r.Held, Looked: out.looked, All: true})
	}
}

// skip leaves out a state whose document is not there as the mirror knows it, and notes the stray.
func (out *outward) skip(id, rev string) {
	out.skipped = true
	switch s, is := &out.stray, (peer.Mark{ID: id, Rev: rev}); {
	case !out.run.in.atRest(), slices.Contains(out.run.odd, id): // the feed, or a later run, will bring it
	case is == s.Mark:
		s.met = true
	default:
		s.other = is
	}
}

// passed ends a pass, and has the database read anew if several passes in a row have met the stray. A node that lags
// behind catches up, and the feed tells of edits and deletions. So the document is as a backup has it, or was purged,
// and the feed will not tell.
func (s *stray) passed(in *inward) {
	now := in.run.w.now
	if !s.met {
		s.Mark, s.passes = s.other, 0
	}
	s.met, s.other = false, peer.Mark{}
	if s.Mark == (peer.Mark{}) {
		return
	}
	if s.passes++; s.passes >= maxMissed && s.reread <= now {
		// Reached: a document of which there is a state is not as the feed has told
		in.proof.lost = true
		*s = stray{reread: now.Add(strayPause)}
	}
}

// changed has the mirror looked at soon.
func (out *outward) changed() { out.next = out.pause }

// again has all that is due looked at now.
func (out *outward) again() { out.retry, out.fails = max(out.run.w.now, 1), 0 }

// seen has the states of documents that changed prepared, and waits for other changes.
func (out *outward) seen(got Seen) {
	out.asking = false
	if !got.More {
		r := out.run
		out.next, out.pause = r.w.now.Add(lookEvery), r.w.now.Add(lookPause)
		r.w.do(Await{r.id, r.ID, got.At})
	}
	if got.Looked != out.looked {
		out.looked = got.Looked
		out.ask(Prepare{Held: out.run.Held, Changed: got.Changed, Looked: got.Looked})
	}
}

func (out *outward) prepared(got Prepared) {
	out.asking = false
	if out.states, out.after, out.paging = got.States, got.After, got.More; got.Rest {
		out.again()
	}
}

func (out *outward) reply(c *call, reply peer.Reply) {
	outcome, f := taken, reply.Failure
	if op, reads := c.op.(peer.ReadDocs); reads {
		outcome = out.reads.judge(op, f, 1)
	}
	switch {
	case outcome == again:
		return
	case outcome == unread:
		t := out.reads.trouble()
		out.trouble(t.Error, t.Reason)
		out.states = out.states[1:]
		return
	case f != nil:
		out.failed(c.op, f)
		return
	}
	switch got := reply.Result.(type) {
	case peer.DocsRead:
		out.read(got)
	case peer.Edited:
		out.edited(got)
	}
}

// failed ends a pass for the failure of an operation. A write that may have failed for one of its documents, or since
// they take too long together, says nothing of the others.
func (out *outward) failed(op peer.Op, f *peer.Failure) {
	t := replication.TroubleOf(op, f)
	_, writes := op.(peer.EditDocs)
	mayBeOne := writes && ofOne(f)
	switch {
	case mayBeOne && out.atOnce() > 1:
		// Reached: states are written one by one, as several at once failed
		out.alone = true
	case writes && refusesOne(f), mayBeOne && out.row < maxUnread: // more are the server's trouble
		out.row++
		out.trouble(t.Error, fmt.Sprintf("the state of document %q cannot be written: %s", out.edits[0].ID, t.Reason))
		out.edits = out.edits[1:]
	default:
		out.trouble(t.Error, t.Reason)
		out.states, out.edits, out.paging, out.row = nil, nil, false, 0
	}
}

// atOnce is how many edits the next request has.
func (out *outward) atOnce() int {
	if out.alone {
		return 1
	}
	return len(out.edits)
}

// trouble tells that states cannot be written, once in a series.
func (out *outward) trouble(err, reason string) {
	if !out.troubled {
		out.run.w.note("follow_states_failed", out.run.ID, err, reason)
	}
	out.skipped, out.troubled = true, true
}

// read makes edits of documents that are as the mirror knows them, but for the state, or as they were just before: what
// came then may have gone with a backup, and if a node that lags behind has answered, the edit is a conflict. The feed
// brings the others, and also a later revision that has no state: a user may have written it after the job ended, to
// run it again.
func (out *outward) read(got peer.DocsRead) {
	if len(got.Docs) == 0 || len(got.Docs) > len(out.states) {
		out.trouble("malformed_response", "the server answered about other documents than it was asked for")
		out.states = nil
		return
	}
	out.alone = false
	for i, d := range got.Docs {
		s := out.states[i]
		switch {
		case d.TooLarge:
			out.skipped = true
			continue
		case d.Rev == "" || d.Deleted:
			out.skip(s.ID, d.Rev)
			continue
		}
		body, digest, state, err := split(d.Body)
		edited := digest != s.Body || disowned(s.Owner, body)
		switch {
		case err == nil && d.Rev != s.Rev && edited:
			out.skip(s.ID, d.Rev)
		case err != nil:
			out.trouble("malformed_response", fmt.Sprintf("document %q cannot be read: %v", s.ID, err))
		case state == noState && d.Rev != s.Rev && !slices.Contains(s.Over, d.Rev):
			// Reached: a document was written without state
			out.skip(s.ID, d.Rev)
		case state == s.Digest && !slices.Contains(s.Over, d.Rev):
			out.written = append(out.written, Written{s.ID, s.Rev, s.Rev, d.Rev, s.Digest})
		case d.Rev == s.Rev || slices.Contains(s.Over, d.Rev) || slices.Contains(s.Was, state):
			body, _ := withState(d.Body, s.Members) // it was read before
			out.edits = append(out.edits, edit{State: s, base: d.Rev, body: body})
		default:
			out.skip(s.ID, d.Rev)
		}
	}
	out.states = out.states[len(got.Docs):]
}

// edited notes what was written. A conflict means that the document has changed: the feed brings it.
func (out *outward) edited(got peer.Edited) {
	n := out.atOnce()
	edits := out.edits[:n]
	out.edits, out.row = out.edits[n:], 0
	if len(got.Docs) != len(edits) {
		out.trouble("malformed_response", "the server answered about other documents than it was sent")
		return
	}
	for i, d := range got.Docs {
		switch {
		case d.Error == "" && d.Rev != "":
			e := edits[i]
			out.written = append(out.written, Written{e.ID, e.Rev, e.base, d.Rev, e.Digest})
		case d.Error == "conflict":
			out.skipped = true
		default:
			if _, known := explain.ClassOf(d.Error); !known {
				d.Error = "doc_write_failed"
			}
			out.trouble(d.Error, fmt.Sprintf("the state of document %q cannot be written: %s", d.ID, d.Reason))
		}
	}
}

func (out *outward) recorded() { out.asking, out.written = false, nil }
