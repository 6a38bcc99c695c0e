package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// name is a revision of a document.
type name struct{ id, rev string }

// stage is how far a revision has come.
type stage uint8

const (
	announced stage = iota // by the feed, and nothing asked yet
	asking                 // the target is being asked whether it has it
	lacking                // the target lacks it
	reading                // it is being read, or copied
	kept                   // its body was read
	writing                // its body is being written
	refused                // the target refused it for good, and the list has to know
	concluded
)

var stages = [...]string{
	announced: "announced", asking: "asking", lacking: "lacking", reading: "reading", kept: "read",
	writing: "writing",
	refused: "refused", concluded: "concluded",
}

// want is a revision that the feed told of, or the list of refused documents.
type want struct {
	name
	position *position // nil for one of the list
	since    instant.Time
	began    instant.Time // when it was first read, or copied; 0 before
	read     instant.Time // when the read began that brought its body; 0 before
	stage    stage
	// concluded, by this way or another; the rows of one document ask for a revision more than once.
	satisfied bool

	pool     *pool
	inline   bool       // its body was read with them
	alone    bool       // it has to be copied by itself
	failed   bool       // its body was not written in bulk
	came     string     // the revision that came in its place
	doubted  bool       // the target may have refused our credentials
	admitted bool       // and has let us in since
	doubts   *suspicion // of the copy that it is a part of; nil before
	missed   int        // answers in which the source lacked it
	waits    []*refusal // that the list has to know
	parts    *question  // of a comparison that is made in parts; else nil
	// unanswered is set when a lenient run has no answer to a comparison, and may go on without one.
	unanswered bool
}

// pool has the wants of one revision: more than one when the feed told of it again before it was concluded,
// or the list of refused documents has it too. Which of them a request is about is not known then, so of
// such a document the automaton judges no more than whether it is concluded in the end.
type pool struct {
	list      []*want
	ancestors []string // that the target has
	attached  bool     // it has attachments, whose bytes did not come
}

// add adds a want.
func (r copier) add(w *want) {
	if r.wants[w.name] == nil {
		r.wants[w.name] = &pool{}
	}
	w.pool = r.wants[w.name]
	if w.pool.list = append(w.pool.list, w); len(w.pool.list) > 1 {
		r.twice[w.id] = true
	}
}

// next is the want of a name that a request may be about; nil when there is none.
func (r copier) next(n name, may func(*want) bool) *want {
	w := r.pick(n, may)
	if w == nil && r.twice[n.id] {
		w = &want{name: n, stage: lacking, since: r.now}
		r.add(w)
	}
	return w
}

// learn notes that the target lacks a revision, and which ancestors of it the target has.
func (w *want) learn(ancestors []string) {
	w.stage, w.pool.ancestors = lacking, append(w.pool.ancestors, ancestors...)
}

// compareSoon is how long after a comparison the next one may be left out, as in CouchDB's replicator.
const compareSoon = 37 * time.Second

// skips say when the comparison with the target may be left out: nearly all that were compared were missing.
type skips struct {
	ratio float64      // of revisions that were missing, as in CouchDB's replicator
	asked instant.Time // when a comparison was last asked for, or answered
	last  instant.Time // when it was last allowed to leave it out; 0 for never
}

// look notes whether a comparison may be left out now. A run computes with integers, so a bit less is enough.
func (s *skips) look(now instant.Time) {
	if s.ratio > 0.9499 {
		s.last = max(s.last, min(now, s.asked.Add(compareSoon)))
	}
}

// observe takes an answer.
func (s *skips) observe(absent, checked int, now instant.Time) {
	s.look(now)
	if checked > 0 {
		s.ratio += 0.4 * (float64(absent)/float64(checked) - s.ratio)
	}
}

// pick is a want of a name that a test lets through; nil when there is none.
func (r copier) pick(n name, may func(*want) bool) *want {
	of := r.wants[n]
	if of == nil {
		return nil
	}
	for _, w := range of.list {
		if may(w) {
			return w
		}
	}
	return nil
}

// readable reports whether a want may be read now: the target lacks it, or may be taken to lack it.
func (r copier) readable(w *want) bool {
	if w.stage == announced && w.unanswered {
		return true
	}
	if w.stage == announced && w.position != nil {
		r.skips.look(r.now)
		return r.skips.last != 0 && r.skips.last >= w.since
	}
	return w.stage == lacking
}

// conclude notes that a revision is on the target, or listed.
func (r copier) conclude(w *want) {
	w.stage = concluded
	kept := []*want{}
	for _, o := range w.pool.list {
		if !o.satisfied && o.position != nil {
			o.satisfied = true
			o.position.left--
		}
		if o.stage != concluded {
			kept = append(kept, o)
		}
	}
	if w.pool.list = kept; len(kept) == 0 && r.wants[w.name] == w.pool {
		delete(r.wants, w.name)
	}
	own := func(f *refusal) bool { return f.name == w.name }
	if r.list.revs[w.name] && !slices.ContainsFunc(w.waits, own) {
		if _, known := r.list.gone[w.name]; !known { // what was durable stays so
			r.list.gone[w.name] = false
		}
	}
}

// compares judges a question for what the target lacks.
func (r copier) compares(f *flight, op peer.DiffRevs) error {
	if r.isPage(op) {
		r.took(comparesList)
		f.page, r.list.comparing = true, true
		for _, d := range op.Docs {
			for _, rev := range d.Revs {
				r.twice[d.ID] = r.twice[d.ID] || r.wants[name{d.ID, rev}] != nil // it may be the rows' comparison
			}
		}
		return nil
	}
	r.took(compares)
	r.skips.asked = r.now
	seen := map[string]bool{}
	for _, d := range op.Docs {
		if seen[d.ID] {
			return breach(Copying, "it compares document %q twice in one request", d.ID)
		}
		seen[d.ID] = true
		for _, rev := range d.Revs {
			r.twice[d.ID] = r.twice[d.ID] || r.list.revs[name{d.ID, rev}] // it may be the page's comparison
			w := r.next(name{d.ID, rev}, func(w *want) bool { return w.stage == announced })
			if w == nil {
				return breach(Copying, "it compares %s of %q, of which the feed did not tell since", rev, d.ID)
			}
			w.stage = asking
			f.wants = append(f.wants, w)
		}
	}
	return nil
}

// compared takes what the target lacks.
func (r copier) compared(f *flight, reply peer.Reply) {
	got, is := reply.Result.(peer.Diff)
	if f.page {
		switch {
		case divides(reply.Failure) && len(r.list.page) > 1:
			r.list.halve()
			return
		case divides(reply.Failure), r.goesOnWithout(reply.Failure):
			got, is = peer.Diff{Docs: lacksAll(r.list.page)}, true
		}
		r.list.compared(r.Run, got, is)
		return
	}
	parts, asked := f.wants[0].parts, f.op.(peer.DiffRevs).Docs
	switch known := parts != nil; {
	case isTooLong(reply.Failure), known && unreadable(reply.Failure):
		if len(asked) > 1 {
			f.halve()
			return
		}
		got, is = peer.Diff{Docs: lacksAll(asked)}, true
	case known && r.goesOnWithout(reply.Failure):
		got, is = peer.Diff{Docs: lacksAll(asked)}, true
	}
	switch {
	case is:
		r.learnAll(f, got)
	case unreadable(reply.Failure):
		r.turn.moved = cmp.Or(r.turn.moved, r.now)
		for _, w := range f.wants {
			w.learn(nil)
		}
	default:
		for _, w := range f.wants {
			w.stage, w.unanswered = announced, r.goesOnWithout(reply.Failure)
		}
	}
}

// goesOnWithout reports whether a lenient run may, after a comparison failed, take all revisions in it for lacking: the
// target may fail on one of the documents at each attempt, or a firewall refuse its contents, with no word for that.
func (r *Run) goesOnWithout(f *peer.Failure) bool {
	if f == nil || !r.Lenient || Throttles(f) {
		return false
	}
	switch f.Kind {
	case peer.Status:
		return Passes(f) || f.Error == ""
	case peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}

// question is a comparison that is made in parts, since the target did not take it whole.
type question struct {
	all    int // revisions that it is about
	left   int // of these, those without an answer
	absent int // those of documents that the target does not have
}

// question is what a comparison is a part of; itself if that is not known.
func (f *flight) question() *question {
	if parts := f.wants[0].parts; parts != nil {
		return parts
	}
	return &question{all: len(f.wants), left: len(f.wants)}
}

// halve has the revisions of a comparison asked about in two parts.
func (f *flight) halve() {
	parts := f.question()
	for _, w := range f.wants {
		w.stage, w.parts = announced, parts
	}
}

// learnAll takes which revisions of a comparison the target lacks. The run goes on once all parts are answered.
func (r copier) learnAll(f *flight, got peer.Diff) {
	missing, absent := map[name][]string{}, 0
	for _, d := range got.Docs {
		if len(d.Ancestors) == 0 {
			absent += len(d.Missing)
		}
		for _, rev := range d.Missing {
			missing[name{d.ID, rev}] = append([]string{}, d.Ancestors...)
		}
	}
	parts := f.question()
	parts.left, parts.absent = parts.left-len(f.wants), parts.absent+absent
	if parts.left == 0 {
		r.turn.moved = cmp.Or(r.turn.moved, r.now)
		r.skips.observe(parts.absent, parts.all, r.now)
		r.skips.asked = r.now
	}
	for _, w := range f.wants {
		if ancestors, lacks := missing[w.name]; lacks {
			r.took(isLacking)
			w.learn(ancestors)
			continue
		}
		r.took(has)
		r.conclude(w)
	}
}

// divides reports whether a comparison of a page of the list is made in parts: the target cannot read it, or a proxy
// finds it too long.
func divides(f *peer.Failure) bool { return unreadable(f) || isTooLong(f) }

func isTooLong(f *peer.Failure) bool { return f != nil && f.Kind == peer.Status && f.Status == 413 }

// unreadable reports whether a request failed for one of its documents, which the target cannot read. What it says of
// the others is not known: each may be taken to lack.
func unreadable(f *peer.Failure) bool { return f != nil && f.Kind == peer.Status && f.Status == 400 }

// lacksAll is the answer of a target that has nothing of what it was asked for.
func lacksAll(asked []peer.DocRevs) (all []peer.DocMissing) {
	for _, d := range asked {
		all = append(all, peer.DocMissing{ID: d.ID, Missing: d.Revs})
	}
	return all
}

// fetches judges a bulk read.
func (r copier) fetches(f *flight, op peer.FetchDocs) error {
	if r.took(readsBulk); op.Attachments {
		r.took(readsInline)
	}
	if !r.UseBulkGet || len(op.Docs) == 0 {
		return breach(Copying, "it reads %d documents in bulk, and use_bulk_get is %v", len(op.Docs), r.UseBulkGet)
	}
	for _, d := range op.Docs {
		w := r.next(name{d.ID, d.Rev}, func(w *want) bool {
			return r.readable(w) && !w.alone && w.pool.attached == op.Attachments
		})
		switch {
		case w == nil:
			return breach(Copying, "it reads %s of %q in bulk (attachments %v), which is not what comes next: %s",
				d.Rev, d.ID, op.Attachments, r.stands(d.ID, d.Rev))
		case strings.HasPrefix(d.ID, "_design/"):
			return breach(Copying, "it reads %q in bulk; a target may refuse that alone", d.ID)
		case !within(d.Since, w.pool.ancestors) && !r.twice[d.ID]:
			return breach(Copying, "it takes %v for ancestors of %s of %q, and the target has %v",
				d.Since, d.Rev, d.ID, w.pool.ancestors)
		}
		r.takes(f, w)
	}
	return nil
}

// stands says how far a revision has come.
func (r copier) stands(id, rev string) string {
	of := r.wants[name{id, rev}]
	if of == nil {
		return "nothing is open of it"
	}
	text := fmt.Sprintf("attachments %v, told twice %v", of.attached, r.twice[id])
	for _, w := range of.list {
		text += fmt.Sprintf(", %s (alone %v, failed %v, listed %v)", stages[w.stage], w.alone, w.failed,
			w.position == nil)
	}
	return text
}

// takes notes that a request is about a revision.
func (r copier) takes(f *flight, w *want) {
	switch {
	case w.unanswered:
		r.turn.moved = cmp.Or(r.turn.moved, r.now)
	case w.stage == announced:
		r.took(leavesOutComparison)
	}
	w.stage = reading
	f.wants = append(f.wants, w)
}

// within reports whether a list has all of another. Most often they are the same.
func within(part, whole []string) bool {
	return slices.Equal(part, whole) ||
		!slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}

// fetched takes what a bulk read brought.
func (r copier) fetched(id uint64, f *flight, reply peer.Reply) {
	got, is := reply.Result.(peer.Fetched)
	op := f.op.(peer.FetchDocs)
	for i, w := range f.wants {
		w.stage = lacking
		if reply.Failure != nil || !is || i >= len(got.Docs) {
			continue
		}
		switch d := got.Docs[i]; d.Fate {
		case peer.Taken:
			r.took(comes)
			w.stage, w.inline, w.came, w.failed = kept, op.Attachments, d.Rev, false
			w.read = f.sent
			if w.came == "" {
				w.came = w.rev
			}
			r.bodies[peer.Kept{Fetch: id, Index: i}] = w
		case peer.Attachments:
			r.took(hasAttachments)
			w.pool.attached, w.alone = true, op.Attachments
		case peer.Left:
			r.took(doesNotFit)
		default:
			r.took(cannotBeRead)
			w.alone = true
		}
	}
}

// writes judges a bulk write: of bodies that were read, each once.
func (r copier) writes(f *flight, op peer.WriteDocs) error {
	if r.took(writesBulk); op.Gzip {
		r.took(compresses)
	}
	if len(op.Docs) == 0 {
		return breach(Copying, "it writes nothing")
	}
	for _, k := range op.Docs {
		w := r.bodies[k]
		if w == nil || w.stage != kept && !r.twice[w.id] {
			return breach(Copying, "it writes document %d of read %d, which it has not read or has written",
				k.Index, k.Fetch)
		}
		w.stage = writing
		f.wants = append(f.wants, w)
	}
	return nil
}

// written takes what the target wrote. A verdict is about the body of that name, or else about all of that
// document, or else about all.
func (r copier) written(f *flight, op peer.WriteDocs, reply peer.Reply) {
	got, is := reply.Result.(peer.Written)
	if reply.Failure != nil || !is {
		for _, w := range f.wants {
			w.stage, w.failed = kept, true
			if reply.Failure.Status == 413 && len(op.Docs) == 1 && !w.inline {
				r.took(tooLarge)
				r.refuse(name{w.id, w.came}, w)
			}
		}
		return
	}
	said := map[*want]bool{} // whether it was refused
	for _, v := range got.Refused {
		about := meant(f.wants, said, v)
		sure := len(about) == 1 && (v.Error == "unauthorized" || v.Error == "forbidden")
		for _, w := range about {
			said[w] = sure
		}
	}
	for i, w := range f.wants {
		delete(r.bodies, op.Docs[i])
		switch refused, is := said[w]; {
		case !is:
			r.took(written)
			r.conclude(w)
		case refused:
			r.took(refusedInBulk)
			r.refuse(name{w.id, w.came}, w)
		default:
			r.took(goesWrongInBulk)
			w.stage, w.alone = lacking, true
		}
	}
}

// meant are the wants that a verdict of a bulk write may be about.
func meant(sent []*want, said map[*want]bool, v peer.Refusal) (about []*want) {
	var open, of []*want
	for _, w := range sent {
		if sure, is := said[w]; is && !sure {
			continue // it is copied alone anyway
		}
		open = append(open, w)
		switch {
		case w.id != v.ID:
		case w.came == v.Rev:
			return []*want{w}
		default:
			of = append(of, w)
		}
	}
	if len(of) > 0 {
		return of
	}
	return open
}
