package replication

import (
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv/mix"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// After fewVain passes in a row that took nothing off the list, the time before the next one doubles with each, up to
// maxVain of them.
const fewVain, maxVain = 2, 8

// followUps back off the passes through the list that follow writes of documents with listed revisions. A document may
// be written all the time of which the target refuses a leaf for good, and each pass asks about all that is listed.
type followUps struct {
	changed  bool // such a document was written since the last pass began
	followUp bool // the last pass was begun for that
	removed  bool // it has found something to take off the list
	vain     int  // follow-ups in a row that have not
}

// pause is how long after a write the next pass begins.
func (u *followUps) pause() time.Duration {
	return passSoon << (min(max(u.vain, fewVain), maxVain) - fewVain)
}

// ended notes that a pass is over.
func (u *followUps) ended() {
	switch {
	case u.removed:
		u.vain = 0
	case u.followUp:
		u.vain++
	}
}

// passWhenDue begins a pass, or goes on with the one under way.
func (f *refusals) passWhenDue() {
	switch {
	case f.now >= f.due():
		f.followUp, f.removed = f.changed, false
		f.passing, f.changed, f.next = true, false, instant.Never
		f.failing, f.keeps = f.files(), false
		f.insists = f.ending() && !f.last
		f.last = f.last || f.insists
		f.exact, f.found = !f.holds(filed.leaves), map[uint64]bool{}
		f.emit(ReadRefused{Limit: f.pageSize()})
	case f.batch != nil:
		if f.work.pump(f.batch); f.batch.stage == done {
			f.batch = nil
			f.makeDurable()
		}
	}
}

// onPage asks the target which revisions of a page it lacks.
func (f *refusals) onPage(page RefusedPage) {
	if !f.passing {
		return
	}
	f.page, f.over, f.tried = page, nil, map[peerRev]int{}
	f.demand, f.informed = page.Demand, true
	if len(page.Docs) == 0 {
		f.endPass()
		return
	}
	var op peer.DiffRevs
	for _, d := range page.Docs {
		if n := len(op.Docs); n > 0 && op.Docs[n-1].ID == d.ID {
			op.Docs[n-1].Revs = append(op.Docs[n-1].Revs, d.Rev)
		} else {
			op.Docs = append(op.Docs, peer.DocRevs{ID: d.ID, Revs: []string{d.Rev}})
		}
	}
	f.asking = true
	f.compare(op, f.compared)
}

// compare asks what the target lacks. A question that it cannot read is halved until the document is alone for which it
// cannot: the others of the page may have got through. A lenient run that gets no answer takes all of them for missing.
func (f *refusals) compare(op peer.DiffRevs, then func(missing []peer.DocMissing)) {
	c := &call{op: op, absorb: func(reply peer.Reply) peer.Reply {
		if reply.Failure != nil && f.plan.ofOneAtLast(reply.Failure) {
			return peer.Reply{Result: peer.Diff{Docs: lacksAll(op)}}
		}
		return reply
	}}
	c.then = func(reply peer.Reply) {
		got, is := reply.Result.(peer.Diff)
		switch {
		case is:
			then(got.Docs)
		case !ofOne(reply.Failure) && !isTooLong(reply.Failure):
			f.crash(trouble(op, reply.Failure))
		default:
			// Reached: the target does not take a question about documents of the list
			f.compareHalves(op, then)
		}
	}
	f.issue(c)
}

// compareHalves is compare for a question that the target has not read.
func (f *refusals) compareHalves(op peer.DiffRevs, then func(missing []peer.DocMissing)) {
	half := len(op.Docs) / 2
	if half == 0 {
		then(lacksAll(op))
		return
	}
	f.compare(peer.DiffRevs{Docs: op.Docs[:half]}, func(missing []peer.DocMissing) {
		f.compare(peer.DiffRevs{Docs: op.Docs[half:]}, func(more []peer.DocMissing) {
			then(slices.Concat(missing, more))
		})
	})
}

// compared notes which revisions the target has, and copies those again whose time has come.
func (f *refusals) compared(missing []peer.DocMissing) {
	f.asking = false
	lacks, since := map[peerRev]bool{}, map[string][]string{}
	for _, d := range missing {
		since[d.ID] = d.Ancestors
		for _, rev := range d.Missing {
			lacks[peerRev{d.ID, rev}] = true
		}
	}
	b := &batch{stage: moving, retries: true, demand: f.demand}
	for _, d := range f.page.Docs {
		if !lacks[peerRev{d.ID, d.Rev}] {
			// Reached: a refused document has got through
			f.leaves(d.ID, d.Rev)
			continue
		}
		f.found[mix.String(d.ID)] = true
		if !f.tries(d) {
			f.failing = f.failing || d.Failed
			f.keeps = f.keeps || f.outlives(d.Failed, d.Refused)
			continue
		}
		// Reached: a refused document is tried again
		f.tried[peerRev{d.ID, d.Rev}] = d.Attempts
		f.work.queueCopy(b, alone{CopyDoc: peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}, Since: since[d.ID]}})
	}
	if len(b.copies) > 0 {
		f.batch = b
		return
	}
	f.makeDurable()
}

// tries reports whether the pass copies a listed revision again. It takes along the revisions that are due soon, so
// that there are few passes, and leaves the others for a later one.
func (f *refusals) tries(d Listed) bool {
	switch pause := refusedPause(d.Attempts); {
	case d.Asked, f.plan.OnRefusal == spec.FailRefused: // under fail what another policy had listed must not stay so
		return true
	case !f.again(d.Failed):
		return false
	case f.insists || d.Age >= pause*3/4, d.Age < -pause: // the last attempt was by a clock that was far ahead
		return true
	default:
		f.passBy(pause - max(d.Age, 0))
		return false
	}
}

// copied takes the outcome of an attempt: which of the revisions that were asked for the target took (true) or
// refused (false). The source sent others in place of the rest, which are not leaves any more.
func (f *refusals) copied(id string, asked []string, counted map[string]bool) {
	for _, rev := range asked {
		if taken, came := counted[rev]; !came || taken {
			f.leaves(id, rev)
		}
	}
}

// makeDurable has the target keep what it has got before the list forgets it: a revision that is lost with the
// target's memory would be in no list.
func (f *refusals) makeDurable() {
	if len(f.over) == 0 {
		f.nextPage()
		return
	}
	op := peer.Commit{Side: peer.Target}
	f.ask(op, func(reply peer.Reply) {
		switch {
		case reply.Failure != nil:
			f.crash(trouble(op, reply.Failure))
		case f.sides[peer.Target].isOther(reply.Result.(peer.Committed).InstanceStartTime):
			f.crash(replaced(peer.Target))
		default:
			for _, o := range f.over {
				f.queue = append(f.queue, filed{Finding: o})
			}
			if f.exact {
				f.listed -= int64(len(f.over))
			}
			f.nextPage()
		}
	})
}

func (f *refusals) nextPage() {
	if !f.page.More {
		f.endPass()
		return
	}
	d := f.page.Docs[len(f.page.Docs)-1]
	f.emit(ReadRefused{ID: d.ID, Rev: d.Rev, Limit: f.pageSize()})
}

// pageSize is how many listed revisions are read, and compared with the target, at once.
func (f *refusals) pageSize() int { return min(f.plan.BatchSize, listedAtOnce) }

// endPass plans the next pass, a little later than it need be, so that those of many runs do not meet.
func (f *refusals) endPass() {
	f.passing, f.docs, f.tried = false, f.found, nil
	f.unfinished = f.keeps
	f.followUps.ended()
	if wait := f.next.Sub(f.now); f.next != instant.Never && wait >= firstRefusedPause/2 {
		f.next = f.next.Add(time.Duration(f.rng.Uint64n(uint64(wait / 8))))
	}
}

// outlives reports whether a listed revision is to be tried by a job that is made anew, too. The target, or a proxy
// before it, rarely takes later what it has refused, and CouchDB leaves that out at once: under skip it is not worth
// reading all again.
func (f *refusals) outlives(failed, refused bool) bool {
	return f.again(failed) && (f.plan.OnRefusal == spec.RetryRefused || !refused)
}

// leaves has a revision of the page leave the list.
func (f *refusals) leaves(id, rev string) {
	f.removed = true
	f.over = append(f.over, Finding{Refusal: peer.Refusal{ID: id, Rev: rev}, Over: true})
}
