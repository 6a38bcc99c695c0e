package follow

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
)

// A row of one document that cannot be read, or of its replication, must not keep the others of the database from being
// followed. A request that meets one is repeated about fewer documents, until one is left, or its error names it. If
// that fails for maxOdd times in a row, the document is left out by name, and operators are told. What the feed brought
// of it is not lost: its row is written anew, of no revision, and the job is Missing something. So a later run looks
// whether the followed database has the document, as it does with those that the feed has not brought (see Sweep).
// A document that the followed database cannot read is left out likewise (see reads).

// maxOdd is how often in a row a document must be unreadable until it is left out: another read may bring it.
const maxOdd = 6

// missedPause is when a run ends that has left documents out, so that another one looks at them again.
const missedPause = 10 * time.Minute

// leftOut is the row of a document that was left out: none of its revisions is known, and no epoch has it.
var leftOut = row{Epoch: -1}

// leftIn is the epoch of rows of documents that were left out in an epoch after the feed had announced them. In a later
// epoch all is read anew, so that the feed announces them again, or does not.
func leftIn(epoch int64) int64 { return leftOut.Epoch - 1 - epoch }

// leaveOut leaves a document out that the followed database cannot read. What is known of it stays: it may turn out to
// be as it was.
func (a *applying) leaveOut(d Incoming, old *row) {
	kept := leftOut
	if old != nil {
		kept = *old
	}
	kept.Epoch, kept.Announced = leftIn(a.epoch), d.Announced
	a.note(d.ID, kept)
}

// oddDoc tells that something of a document cannot be read, though the job can; the id is empty if it is not known.
type oddDoc struct {
	id  string
	err error
}

func (e *oddDoc) Error() string { return e.err.Error() }
func (e *oddDoc) Unwrap() error { return e.err }

// ofDoc notes that an error is about a document, unless the store has failed.
func ofDoc(id string, err error) error {
	if _, is := errors.AsType[*jobs.UnreadableError](jobs.OfJob("", err)); is {
		return &oddDoc{id, err}
	}
	return err
}

// avoid has a request of a run that met something unreadable be about fewer documents when it is repeated.
func (a *ask) avoid(w *Worker, e Answer) {
	odd, leave := e.Doc, func() {}
	switch q := a.req.(type) {
	case Apply:
		if n := len(q.Docs); n > 1 {
			n /= 2
			q.Behind, q.Since, q.AtEnd = more(q.Behind, len(q.Docs)-n), q.Docs[n-1].Seq, false
			q.Docs = q.Docs[:n]
			a.req, a.fails = q, 0
			return
		} else if n == 1 {
			odd = q.Docs[0].ID
		}
		leave = func() { q.Odd = true; a.req = q }
	case Sweep:
		if q.Limit != 1 {
			q.Limit = max(1, q.of(w.cfg.Pages.Sweep)/2)
			a.req, a.fails = q, 0
			return
		}
		odd = "behind " + q.After
		leave = func() { q.Odd = true; a.req = q }
	case Look:
		leave = func() { q.Without = append(q.Without, odd); a.req = q }
	case Prepare:
		leave = func() { q.Without = append(q.Without, odd); a.req = q }
	case Sent:
		leave = func() { q.Without = append(q.Without, odd); a.req = q }
	}
	if odd != a.odd {
		a.odd, a.misses = odd, 0
	}
	if a.misses++; odd != "" && a.misses >= maxOdd {
		// Reached: a document of which a row cannot be read is left out
		leave()
		a.fails, a.misses = 0, 0
		w.note("follow_unreadable", a.run.ID, "", fmt.Sprintf("document %q is left out for now: %s", odd, e.Text))
	}
}

// missed is when the run ends since it has left out documents; Never if it has not, or something is under way.
func (r *run) missed() instant.Time {
	if !r.job.Missing || !r.in.atRest() {
		return instant.Never
	}
	return r.began.Add(missedPause)
}

// leave notes a document that the run has left out.
func (r *run) leave(id string) { r.odd, r.job.Missing = append(r.odd, id), true }

// maxAlien bounds the ids that a run tells of: a server may have any number of them.
const maxAlien = 20

// takes reports whether an id is one that documents of a mirror can have. Operators are told of each other one once.
func (r *run) takes(id string) bool {
	err := docs.ValidID(id)
	if err != nil && len(r.alien) < maxAlien && !slices.Contains(r.alien, id) {
		r.alien = append(r.alien, id)
		r.w.note("follow_unreadable", r.ID, "", fmt.Sprintf("document %.100q is passed over: %v", id, err))
	}
	return err == nil
}
