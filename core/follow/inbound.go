package follow

import (
	"cmp"
	"slices"
	"time"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// inward is the half of a run that reads changes and applies them. It does one thing at a time.
type inward struct {
	run    *run
	call   *call // under way
	asking bool  // a request is

	opened bool
	verify bool     // whether it still is the same database, before what was read counts
	proof  proof    // and whether it has not been put back to an earlier state
	since  peer.Seq // up to where changes are applied
	stored peer.Seq // as the job has it
	flush  bool     // through is to be stored, though it brought no documents
	polls
	told bool // the feed has been read to its end, and the job says so

	rows    []peer.Change // read, whose documents are not
	docs    []Incoming    // read, and not applied
	through peer.Seq      // since, once all of these are applied
	last    peer.Mark     // newest one that was announced or read, also behind through: the database must know it
	behind  int64         // how many changes follow on it, -1 if the server did not tell
	end     bool          // there is nothing behind them

	reads reads
	left  leftover // of the database before, while all is read anew
	pause instant.Time
}

// proof is the search for the last change, which a database that was put back to an earlier state does not know, and
// once the feed has been read to its end for those that were read ahead of it.
type proof struct {
	due    []peer.Mark // changes that are to be found
	missed int         // how often the first of them was not to be had
	at     peer.Seq    // from where the feed is searched for it; empty unless it is
	lost   bool        // the outward half has found that the database was put back: all is to be read anew
	last   peer.Seq    // where the database was when it was opened last
	// goal is where it was when it was opened before the present feed was read, up to its end. Openings between the
	// pages of the feed leave it: a backup that was put back since would make itself the goal.
	goal peer.Seq
	// docs are those of the first rows, of which the first is newer than its row: taken once the change was found.
	docs []peer.DocRead
	// ahead are the revisions of documents that were read in later ones than their rows have. Their own rows have not
	// come, so a backup that is put back may have the last row, and lack these.
	ahead []peer.Mark
}

// stalePause is the first pause after a document was read in an older revision than its change has; it doubles.
const stalePause = 250 * time.Millisecond

// aheadAtMost bounds the documents without rows that are looked for at once after they were taken as they are.
const aheadAtMost = 20

// maxStale is how often a document is read in vain before it is left out, and maxMissed how often the last change
// before the feed is searched for it: for a moment a node of a cluster may not have it yet.
const (
	maxStale  = 6
	maxMissed = 3
)

func (in *inward) deadline() instant.Time {
	switch {
	case in.asking:
		return instant.Never
	case in.call != nil:
		return in.pollEnds()
	}
	return max(in.pause, in.run.w.now)
}

// atRest reports whether the feed was read to its end, and all that it told is applied.
func (in *inward) atRest() bool {
	return in.end && in.told && len(in.rows)+len(in.docs) == 0
}

func (in *inward) ask(q Request) {
	in.asking = true
	in.run.w.ask(in.run, q)
}

// advance begins the next step, if none is under way.
func (in *inward) advance() {
	r := in.run
	if in.call != nil && in.pollEnds() <= r.w.now {
		// Reached: a run ends a long poll
		r.w.do(Cancel{r.id, in.call.id})
		in.call, in.verify = nil, true
	}
	switch {
	case in.call != nil || in.asking || in.pause > r.w.now:
	case in.proof.lost:
		in.proof.lost = false
		in.open(Opened{r.Held, r.job.Instance, r.job.Last})
	case !in.opened, in.verify:
		in.call = r.call(peer.Open{})
	case in.proof.at != "":
		in.call = r.call(peer.ReadChanges{Since: in.proof.at, Limit: r.w.cfg.Pages.Read})
	case len(in.proof.due) > 0:
		in.call = r.call(in.proof.due[0].Find())
	case len(in.docs) > 0:
		q := in.apply()
		q.Docs, q.Behind = in.docs, more(in.behind, len(in.rows))
		if len(in.rows) > 0 {
			q.Since, q.AtEnd = in.docs[len(in.docs)-1].Seq, false
		}
		in.ask(q)
	case len(in.proof.docs) > 0:
		in.proveFeed()
	case len(in.rows) > 0:
		ids := make([]string, len(in.rows))
		for i, row := range in.rows {
			ids[i] = row.ID
		}
		in.call = r.call(in.reads.op(ids))
	case in.end && r.job.Reconciling && len(in.left.unread) > 0:
		in.call = r.call(in.reads.op(in.left.unread))
	case in.end && r.job.Reconciling:
		in.ask(Sweep{Held: r.Held, After: in.left.after, Absent: in.left.absent, Without: r.odd, Unread: r.unread})
	case in.flush, in.end && !in.told:
		in.ask(in.apply())
	default:
		in.call = r.call(peer.ReadChanges{Since: in.since, Limit: r.w.cfg.Pages.Read, Wait: in.wait})
	}
}

// apply stores how far the feed is read.
func (in *inward) apply() Apply {
	return Apply{
		Held: in.run.Held, From: in.stored, Since: in.through, Goal: in.proof.goal, Last: in.last, AtEnd: in.end,
		Behind: in.behind, Unread: in.run.unread,
	}
}

func (in *inward) reply(c *call, reply peer.Reply) {
	switch op := c.op.(type) {
	case peer.Open:
		if reply.Failure != nil {
			in.run.fail(op, reply.Failure)
			return
		}
		in.verify, in.proof.due = false, in.toFind()
		if in.opened && len(in.rows) == 0 {
			// Reached: a database at rest is opened again
			in.run.out.again() // a backup may have no state that was written, and all changes that are known
		}
		got := reply.Result.(peer.Opened)
		if in.proof.last = got.UpdateSeq; in.end {
			in.proof.goal = in.proof.last
		}
		switch now := got.InstanceStartTime; {
		case !in.opened, now != in.run.job.Instance:
			in.open(Opened{Held: in.run.Held, Instance: now})
		default:
			in.checkGoal()
		}
	case peer.FindRev:
		switch f := reply.Failure; {
		case f == nil:
			in.proved(reply.Result.(peer.RevFound).Found)
		case ofOne(f):
			// Reached: a request about the last change fails
			in.search()
		default:
			in.run.fail(op, f)
		}
	case peer.ReadChanges:
		if in.proof.at != "" {
			in.searched(op, reply)
			return
		}
		in.read(c, op, reply)
	case peer.ReadDocs:
		in.answered(op, reply)
	}
}

// proveFeed asks whether the database still knows the newest change of the feed, which the job notes before: the answer
// may end this run.
func (in *inward) proveFeed() {
	if in.run.job.Last == in.last {
		in.call = in.run.call(in.last.Find())
		return
	}
	q := in.apply()
	q.Since, q.AtEnd, q.Behind = in.since, false, more(in.behind, len(in.rows))
	in.ask(q)
}

// checkGoal begins anew if the database was put back while its feed was read, of which a part is applied.
func (in *inward) checkGoal() {
	if job := in.run.job; in.proof.last.Before(job.Goal) && job.Last != (peer.Mark{}) {
		// Reached: the followed database was put back while its changes were read
		in.open(Opened{in.run.Held, job.Instance, job.Last})
	}
}

// open forgets what was read, and notes which database is there.
func (in *inward) open(q Opened) {
	in.rows, in.docs, in.proof.docs, in.proof.ahead, in.proof.at = nil, nil, nil, nil, ""
	in.end, in.wait, in.told = false, false, false
	in.ask(q)
}

// toFind are the changes that a database must know which is the one that the job follows.
func (in *inward) toFind() (list []peer.Mark) {
	if in.opened && in.run.job.Last != (peer.Mark{}) {
		list = append(list, in.run.job.Last)
	}
	if in.end {
		list = append(list, in.proof.ahead...)
	}
	return list
}

// proved goes on if the database knows a change.
func (in *inward) proved(found bool) {
	if found {
		if in.proof.missed = 0; len(in.proof.due) > 0 {
			in.proof.due = in.proof.due[1:]
		}
		if newer := in.proof.docs; len(newer) > 0 && len(in.proof.due) == 0 {
			in.proof.docs = nil
			in.fetched(newer, true)
		}
	} else if in.proof.missed++; in.proof.missed < maxMissed {
		in.pause = in.run.w.now.Add(stalePause << in.proof.missed)
	} else {
		in.search()
	}
}

// search begins to look for a change in the feed, since the database does not have it, or fails when it is asked about
// the document. That may be for this document alone, which the feed then still announces. If the server is down, the
// request for the feed fails too.
func (in *inward) search() {
	in.proof.at = peer.Zero
	if in.sought() == in.run.job.Last {
		in.proof.at = cmp.Or(in.run.job.Before, in.proof.at)
	}
}

// sought is the change that is looked for.
func (in *inward) sought() peer.Mark {
	if len(in.proof.due) > 0 {
		return in.proof.due[0]
	}
	return in.last
}

// searched takes a page of the feed. If none has the change, the database was put back to an earlier state.
func (in *inward) searched(op peer.ReadChanges, reply peer.Reply) {
	got, _ := reply.Result.(peer.Changes)
	n := len(got.Rows)
	switch {
	case reply.Failure != nil && n == 0:
		in.run.fail(op, reply.Failure)
	case slices.ContainsFunc(got.Rows, in.sought().In):
		// Reached: the feed has a change that the database does not have
		in.proof.at = ""
		in.proved(true)
	case reply.Failure == nil && got.End:
		in.open(Opened{in.run.Held, in.run.job.Instance, in.run.job.Last})
	case reply.Failure == nil && got.LastSeq != "":
		in.proof.at = got.LastSeq
	case n > 0:
		in.proof.at = got.Rows[n-1].Seq
	}
}

// noted begins where the job says.
func (in *inward) noted(n Noted) {
	if n.Job.Epoch > in.run.job.Epoch {
		in.run.w.note("follow_reread", in.run.ID, "", "the database is another one than before, or was put back")
	}
	in.asking, in.opened, in.run.job = false, true, n.Job
	in.run.unread = replication.Trouble{}
	in.run.odd = nil // the job is not Missing any more, so no later run looks for what this one passes over
	in.proof, in.left = proof{due: in.toFind(), last: in.proof.last, goal: in.proof.last}, leftover{}
	in.since, in.stored, in.through, in.last = n.Job.Since, n.Job.Since, n.Job.Since, n.Job.Last
	if in.since == "" {
		in.since = peer.Zero
	}
	in.checkGoal()
}

// fetched takes documents, up to one that is older than its row: a node of a cluster that lags behind has answered, or
// a newer row will come. The feed, read again from there, tells. One that is newer was edited meanwhile, or the
// database was put back to a backup that has more edits of it: until the newest change of the feed was found behind
// the read (sure), nothing that was read counts from there on.
func (in *inward) fetched(got []peer.DocRead, sure bool) {
	if len(got) == 0 {
		in.run.end("malformed_response", "the server answered none of the documents that its changes have")
		return
	}
	for i, d := range got {
		row := in.rows[i]
		wins := isWinner(row, d.Rev)
		if !wins && !newer(d.Rev, row.Revs) {
			// Reached: a document is older than its row in the feed
			in.retreat(i)
			return
		}
		if in.reads.stale, in.reads.row = 0, 0; !wins && !sure {
			in.proof.docs, in.rows = got[i:], in.rows[i:]
			return
		}
		inc := incoming(row.Seq, row.ID, d)
		if !wins {
			if slices.ContainsFunc(in.docs, func(before Incoming) bool { return before.Announced != "" }) {
				// Reached: two documents are newer than their rows in the feed
				in.retreat(i) // only one of them can be the last change
				return
			}
			inc.Announced, in.last = row.Revs[0], peer.MarkOf(row.ID, d.Rev, row.Revs[1:])
			in.proof.ahead = append(in.proof.ahead, in.last)
		}
		in.docs = append(in.docs, inc)
	}
	in.rows = in.rows[len(got):]
}

// isWinner reports whether a document was read in the revision that its row announces as the one that wins: the first.
// PouchDB names leaves by the length of their histories alone, and deleted ones, which lose, among them. But it is no
// cluster: what it reads has all that the feed has told, so a leaf of the row that it reads wins.
func isWinner(row peer.Change, rev string) bool {
	_, noCluster := row.Seq.Number()
	return rev == row.Revs[0] || noCluster && slices.Contains(row.Revs, rev)
}

// incoming is a document as it was read, for the mirror.
func incoming(seq peer.Seq, id string, d peer.DocRead) Incoming {
	inc := Incoming{Seq: seq, ID: id, Rev: d.Rev, Deleted: d.Deleted, Body: d.Body}
	if d.TooLarge {
		inc.Refusal = "the document is too large to be read"
	}
	return inc
}

// retreat has the feed read again from the row before the i-th. The newest change that the feed has announced is stored
// as the job's last one. If the database was put back meanwhile, that change is gone, and the search for it tells so:
// the feed alone would not bring documents whose older revisions lie before the place that it is read from. A document
// that is not as announced each time is passed over; as with those that cannot be read, many in a row end the run.
func (in *inward) retreat(i int) {
	rows := in.rows[i:]
	in.rows, in.end, in.wait, in.behind = nil, false, false, -1
	if n := len(in.docs); n > 0 {
		in.through = in.docs[n-1].Seq
		return
	}
	in.through, in.flush = in.since, true
	if in.reads.stale++; in.reads.stale <= maxStale {
		in.pause = in.run.w.now.Add(stalePause << in.reads.stale)
		return
	}
	t := missing(rows[0])
	if in.reads.stale, in.reads.row = 0, in.reads.row+1; in.reads.row > maxUnread {
		in.run.end(t.Error, t.Reason)
		return
	}
	in.rows, in.through = rows[:1], rows[0].Seq // the feed is read again from there
	in.passOver(t)
}

// newer reports whether a revision has a higher generation than all leaves of a row. One that has a higher generation
// than the winner alone may be older: a parent of a leaf that was deleted, and loses since.
func newer(rev string, leaves []string) bool {
	x, err := revtree.ParseRev(rev)
	return err == nil && !slices.ContainsFunc(leaves, func(leaf string) bool {
		y, err := revtree.ParseRev(leaf)
		return err != nil || y.Gen >= x.Gen
	})
}

// applied goes on behind the documents that are in the mirror now.
func (in *inward) applied(q Apply, got Applied) {
	in.asking = false
	if q.Odd {
		in.run.leave(q.Docs[0].ID)
	}
	in.docs = slices.Clone(in.docs[got.N:]) // the old array would keep applied documents in memory
	switch {
	case len(in.docs) == 0:
		in.since, in.stored, in.flush = q.Since, q.Since, false
		if in.run.job.reach(q.Since, q); q.AtEnd {
			in.run.job.Goal = ""
		}
		if q.AtEnd && !in.told {
			in.told, in.run.job.Errors = true, 0
			in.run.w.note("follow_current", in.run.ID, "", "all documents are known")
		}
	case got.N > 0:
		in.since = q.Docs[got.N-1].Seq
		in.stored = in.since
		in.run.job.reach(in.since, q)
	}
	if got.Due {
		in.run.out.again()
	}
}
