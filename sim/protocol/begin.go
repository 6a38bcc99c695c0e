package protocol

import (
	"slices"
	"strings"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// side is what the run was told of one database.
type side struct {
	opening   bool // its description was asked for
	opened    bool
	start     string   // instance_start_time when it was opened
	clustered bool     // its sequences are texts, with a number in front
	seq       peer.Seq // the newest that it was told to be at, by its description or its feed
	fewer     bool     // it was at a later one before, which only happens in clusters
	asked     []string // ids under which a log was looked for
	answered  map[string]bool
	early     []string // those that were asked for before the database was opened
	failed    bool     // such a request failed, and need not be repeated
	found     string   // id under which the log was found; empty for none
	log       log      // as it was found or written last
	rev       string   // of the log's document
	own       string   // session of the run's last checkpoint that it knows to be in there
	older     map[string]log
	discarded bool
	declined  bool // it refused to store an empty log
	// marked is whether it got a log without checkpoints beside the one under an older id; confirmed, whether that was
	// read again since. What has both is one database.
	marked, confirmed bool
	// the log was changed by another writer while the run discarded it, and is looked for once more
	again bool
}

// beginning is the state of a run that has not begun to copy.
type beginning struct {
	sides [2]side // by peer.Side
	made  bool    // the target was made, or its server answered that it will not
	anew  bool    // the checkpoints rely on a list that is gone
	kept  bool    // the source keeps its log over a reset
	// alone is whether the source stores no logs, proved how many of the changes that it is known by it had, and
	// asked how often it was asked for the next one.
	alone    bool
	proved   int
	asked    int
	since    peer.Seq
	ancestor entry // at which both logs agreed; zero when they did not
}

// olderVersions is how many ids a log may have from older servers.
const olderVersions = 3

// functionOf is the filter function of a replication; nil without one.
func (r opener) functionOf() *peer.GetFilter {
	if r.Filter.Kind != spec.FunctionFilter {
		return nil
	}
	ddoc, name := r.Filter.DesignDoc()
	return &peer.GetFilter{DesignDoc: ddoc, Name: name}
}

// identifies judges a run that asks for the right to run under an id: a filter function is a part of the id.
func (r opener) identifies(e replication.Identify) error {
	if r.functionOf() != nil && r.filter == nil {
		return breach(Beginning, "it names itself before it has read its filter function")
	}
	if r.phase != naming || r.base != "" {
		return breach(Beginning, "it names itself twice")
	}
	r.took(names)
	r.base = e.Base
	return nil
}

func (r opener) identified() error {
	if r.base == "" || r.phase != naming {
		return breach(Beginning, "it was given the right to run, and has not asked for it")
	}
	r.phase = opening
	return nil
}

// prepares judges a request of a run that does not copy yet.
func (r opener) prepares(f *flight) error {
	switch op := f.op.(type) {
	case peer.GetFilter:
		if of := r.functionOf(); r.phase != naming || of == nil || *of != op || r.filter != nil ||
			len(r.flights) > 1 {
			return breach(Beginning, "it asks to %s, which is not what comes next", op)
		}
		r.took(readsFilter)
		return nil
	case peer.Open:
		return r.opens(op)
	case peer.Create:
		if r.phase != opening || !r.CreateTarget || !r.start.sides[peer.Source].opened || r.start.made {
			return breach(Beginning, "it makes its target, which is not what comes next")
		}
		if !slices.Equal(op.Params, r.CreateTargetParams) {
			return breach(Beginning, "it makes its target with %v", op.Params)
		}
		r.took(makesTarget)
		return nil
	case peer.GetLocal:
		return r.locates(op)
	case peer.PutLocal:
		return r.prepareLog(op)
	case peer.FindRev:
		return r.proves(op)
	}
	return breach(Beginning, "it asks to %s, and has not begun to read changes", f.op)
}

// opens judges a look at a database.
func (r opener) opens(op peer.Open) error {
	s := &r.start.sides[op.Side]
	if r.phase != opening || s.opened || r.another(op) {
		return breach(Beginning, "it asks to %s, which is not what comes next", op)
	}
	if op.Side == peer.Target && r.CreateTarget && !r.start.made {
		return breach(Beginning, "it opens its target before that was made")
	}
	s.opening = true
	r.took(opensSource + Transition(op.Side))
	return nil
}

// another reports whether an equal request is in flight besides.
func (r opener) another(op peer.Op) bool {
	n := 0
	for _, f := range r.flights { // in any order: they are counted
		switch f.op.(type) {
		case peer.Open, peer.GetLocal:
			if f.op == op {
				n++
			}
		}
	}
	return n > 1
}

// opened takes the description of a database.
func (r opener) opened(op peer.Open, reply peer.Reply) {
	got, is := reply.Result.(peer.Opened)
	s := &r.start.sides[op.Side]
	s.fewer = !s.clustered && got.UpdateSeq.Before(s.seq)
	if is && !s.fewer {
		s.seq = got.UpdateSeq
	}
	switch {
	case reply.Failure != nil || !is:
	case r.phase == opening:
		s.opened, s.start = true, got.InstanceStartTime
		s.clustered = got.UpdateSeq.Ordinal() != "" && strings.Contains(string(got.UpdateSeq), "-")
		if op.Side == peer.Target && got.UpdateSeq.Ordinal() == "0" {
			r.skips = skips{ratio: 1, asked: r.now} // nothing was ever written to it, so it lacks all
		}
		if r.start.sides[0].opened && r.start.sides[1].opened {
			r.phase = locating
		}
	case op.Side == peer.Target:
		r.admitted()
	}
}

// locates judges a look for a log: first under the present id, then under those of older versions; while the
// database is being opened under all of them, if the run likes.
func (r opener) locates(op peer.GetLocal) error {
	s := &r.start.sides[op.Side]
	if op.ID == r.base && s.inDoubt() {
		*s = side{opening: true, opened: true, start: s.start, clustered: s.clustered, seq: s.seq}
	}
	first, repeats := len(s.asked) == 0, slices.Contains(s.asked, op.ID)
	switch {
	case !s.opening:
		return breach(Beginning, "it asks to %s before it opens that database", op)
	case first != (op.ID == r.base) && !repeats:
		return breach(Beginning, "it looks for a log as %s, and its own id is %s", op.ID, r.base)
	case repeats && !s.opened:
		return breach(Beginning, "it asks to %s again, and does not know whether that database is there", op)
	case r.another(op), s.answered[op.ID] && !s.awaits(op.ID), s.found != "" && !repeats:
		return breach(Beginning, "it asks to %s again", op)
	case !first && op.ID != r.base && s.opened && !s.answered[r.base] && !slices.Contains(s.early, op.ID):
		return breach(Beginning, "it asks to %s before it knows whether there is a log under its own id", op)
	}
	if !repeats {
		s.asked = append(s.asked, op.ID)
	}
	if !s.opened {
		s.early = append(s.early, op.ID)
	}
	r.took(looksForLog)
	return nil
}

// inDoubt reports whether a log may be of another database that had the name of the one that was opened: it
// was asked for before, and does not say that it was written for this one. Absence is not in doubt: the run
// copies more than it must.
func (s *side) inDoubt() bool {
	return s.opened && slices.Contains(s.early, s.found) && !(s.tellsApart() && s.log.made == s.start)
}

// awaits reports whether the log under an older id is to be read again, as the present id got one without checkpoints.
func (s *side) awaits(id string) bool { return s.marked && !s.confirmed && id == s.found }

// gotLog takes a log, or its absence.
func (r opener) gotLog(op peer.GetLocal, reply peer.Reply) {
	got, is := reply.Result.(peer.Local)
	s := &r.start.sides[op.Side]
	if f := reply.Failure; f != nil || !is {
		givenUp := f == nil || final(f) || r.wait.exhausted(r.Run, op, f)
		s.failed = s.failed || givenUp && slices.Contains(s.early, op.ID)
		return
	}
	if r.phase == copying {
		r.gotLogAgain(op, got)
		return
	}
	if s.answered == nil {
		s.answered = map[string]bool{}
	}
	s.answered[op.ID] = true
	if s.awaits(op.ID) {
		s.confirmed, s.log = true, log{mark: s.log.mark}
		if !got.Found {
			r.took(losesOlder)
			s.found = r.base
			return
		}
		mark := s.log.mark
		s.log = r.readLog(got.Body)
		s.log.mark = mark
		return
	}
	switch {
	case !got.Found:
	case op.ID == r.base:
		r.took(findsLog)
		s.found, s.log, s.rev = op.ID, r.readLog(got.Body), got.Rev
	default:
		if s.older == nil {
			s.older = map[string]log{}
		}
		s.older[op.ID] = r.readLog(got.Body)
	}
	if s.found == "" && len(s.answered) == 1+olderVersions {
		for _, id := range s.asked[1:] { // the newest version comes first
			if l, is := s.older[id]; is {
				r.took(findsOlder)
				s.found, s.log = id, l
				return
			}
		}
	}
}

// prepareLog judges a log that is written before anything is copied: one of an older version under the
// present id, or none in place of one that is to be forgotten.
func (r opener) prepareLog(op peer.PutLocal) error {
	s, put := &r.start.sides[op.Side], r.readLog(op.Body)
	switch {
	case op.ID != r.base || op.Rev != s.rev || s.found == "" && !r.lacksMark(s) || !s.opened || s.inDoubt():
		return breach(Logging, "it asks to %s, and has found revision %q of %q", op, s.rev, s.found)
	case s.found == "" && len(put.entries) > 0:
		return breach(Logging, "it has copied nothing, and writes %v to the %s", put.entries, op.Side)
	case len(put.entries) == 0 && put.mark == "":
		return breach(Logging, "it writes an empty log without a mark to the %s", op.Side)
	case len(put.entries) > 0 && put.mark != s.log.mark:
		return breach(Logging, "it writes a log with the mark %q over one with %q", put.mark, s.log.mark)
	case r.marks(s, op):
		r.took(marksDatabase)
		return nil
	case (r.Reset || r.discards() && s.found == r.base) && len(put.entries) > 0:
		return breach(Logging, "it is to forget its checkpoints, and writes %v to the %s", put.entries, op.Side)
	case r.discards() && len(put.entries) == 0:
		r.took(discardsLog)
		return nil
	case s.found == r.base || !r.UseCheckpoints || s.rev != "" && !s.confirmed:
		return breach(Logging, "it writes a log to the %s before it has copied anything", op.Side)
	case !s.tellsApart() && !s.confirmed:
		return breach(Logging, "it copies a log of the %s to another id, and the database may be made again", op.Side)
	case !slices.Equal(trim(put.entries), trim(s.log.entries)):
		return breach(Logging, "it found %v under an older id, and writes %v", s.log.entries, put.entries)
	}
	r.took(migratesLog)
	return nil
}

// trim leaves out the checkpoint above a history if it is the first one in it.
func trim(l []entry) []entry {
	if len(l) > 1 && l[0] == l[1] {
		return l[1:]
	}
	return l
}

// preparedLog takes the answer to prepareLog.
func (r opener) preparedLog(op peer.PutLocal, reply peer.Reply) {
	s := &r.start.sides[op.Side]
	f := reply.Failure
	switch {
	case f != nil && r.marks(s, op) && final(f) && (f.Status != 409 || s.again):
		s.declined = true
		r.start.alone = r.start.alone || op.Side == peer.Source && refuses(f)
	case f == nil:
		s.marked = r.marks(s, op) && s.found != ""
		s.early = nil // whatever it was, it is what the run says now
		s.rev = reply.Result.(peer.LocalWritten).Rev
		put := r.readLog(op.Body)
		if s.discarded = r.discards() && len(put.entries) == 0; s.discarded {
			s.log = log{}
		}
		if len(put.entries) == 0 {
			s.log.mark = put.mark
		}
	case op.Side == peer.Source && refuses(f) && r.discards():
		r.start.kept, r.start.alone = true, r.start.alone || s.rev == ""
	case op.Side == peer.Source && refuses(f):
		r.start.alone = true
	case (r.discards() || r.marks(s, op)) && f.Status == 409 && !s.again:
		*s = side{opening: true, opened: true, start: s.start, clustered: s.clustered, seq: s.seq, again: true}
	}
}

// lacksMark reports whether a side is to get a log without checkpoints before anything is copied: it has none under the
// present id, and its instance_start_time does not tell whether it is made again. Then the log tells.
func (r opener) lacksMark(s *side) bool {
	none := s.found != r.base && len(s.answered) == 1+olderVersions
	return r.UseCheckpoints && !s.tellsApart() && none && s.rev == "" && !s.declined
}

// marks reports whether a write puts a log without checkpoints where there is none, and not in the place of one that is
// to be forgotten.
func (r opener) marks(s *side, op peer.PutLocal) bool {
	return r.lacksMark(s) && len(r.readLog(op.Body).entries) == 0 && (s.found == "" || !r.Reset)
}

// tellsApart reports whether no two databases of that name have one instance_start_time.
func (s *side) tellsApart() bool { return s.clustered && known(s.start) }

// refuses reports whether a server said that it stores no log, now or later.
func refuses(f *peer.Failure) bool {
	return f.Kind == peer.Status && (f.Status == 401 || f.Status == 403 || f.Status == 405)
}

// lone is what the target's log says of a source that stores none; nil if that does not hold.
func (r opener) lone() *lone {
	source, target := &r.start.sides[peer.Source], &r.start.sides[peer.Target]
	l := target.log.lone
	if l == nil || target.foreign() || l.ID == "" || l.Rev == "" || len(l.Seq) == 0 ||
		l.Session != source.log.session() || l.Start != source.start || !source.clustered && !known(source.start) {
		return nil
	}
	return l
}

// proves judges a question for the last change that a source is known by.
func (r opener) proves(op peer.FindRev) error {
	next := r.unproved()
	if r.phase != locating || len(next) == 0 || !equal(op, next[0]) || r.Reset || r.lacksList() {
		return breach(Beginning, "it asks for %s of %q, by which its source is not known", op.Revs, op.ID)
	}
	r.took(provesSource)
	return nil
}

// unproved are the questions whose answers the run does not know yet, or that the source has denied.
func (r opener) unproved() []peer.FindRev {
	l := r.lone()
	if l == nil {
		return nil
	}
	all := l.asks()
	return all[min(r.start.proved, len(all)):]
}

// foundRev takes the answer to whether the source has a revision by which it is known.
func (r opener) foundRev(op peer.FindRev, reply peer.Reply) {
	got, is := reply.Result.(peer.RevFound)
	if f := reply.Failure; f != nil && final(f) && r.mayBeHidden(op) {
		got.Found, is = true, true
	}
	switch {
	case !is:
	case r.phase == copying:
		r.keeps(op, got.Found)
	case got.Found:
		r.start.proved, r.start.asked = r.start.proved+1, 0
	default:
		r.start.asked++
		r.findsLater()
	}
}

// mayBeHidden reports whether a question is for the newest change, whose document the source may refuse to show to a
// replication that leaves it out: a refusal says nothing about the change.
func (r opener) mayBeHidden(op peer.FindRev) bool {
	l := r.save.last
	if r.phase != copying {
		l = r.lone()
	}
	return l != nil && equal(op, l.newest())
}

// begins judges the first read of the feed: the run has seen both logs, and begins where they agree.
func (r opener) begins(op peer.ReadChanges) error {
	if r.phase != locating || len(r.flights) > 1 {
		return breach(Beginning, "it reads changes before it knows the logs of both databases")
	}
	for on := range r.start.sides {
		s := &r.start.sides[on]
		kept := peer.Side(on) == peer.Source && (r.start.kept || r.start.alone)
		switch {
		case s.inDoubt():
			return breach(Beginning, "it reads changes, and the log of its %s may be of another database",
				peer.Side(on))
		case s.found == "" && len(s.answered) < 1+olderVersions:
			return breach(Beginning, "it reads changes and has looked for the log of its %s as %v only",
				peer.Side(on), s.asked)
		case r.lacksMark(s) && !kept:
			return breach(Beginning, "it reads changes, and its %s has no log by which it is known", peer.Side(on))
		case s.marked && !s.confirmed:
			return breach(Beginning, "it reads changes, and has not read the older log of its %s again", peer.Side(on))
		case r.discards() && !kept && len(s.log.entries) > 0:
			return breach(Beginning, "it is to start over, and its %s still has checkpoints", peer.Side(on))
		}
	}
	if len(r.unproved()) > 0 && !r.Reset && !r.lacksList() && r.start.asked < 2 {
		return breach(Beginning, "it reads changes before it knows whether its source has %s, by which it is known",
			r.unproved()[0])
	}
	want, t := r.beginsAt()
	if op.Since != want {
		return breach(Beginning, "it begins at %s, and by the logs it should at %s", op.Since, want)
	}
	r.took(t)
	r.phase, r.start.since = copying, want
	r.feed.begin(want)
	r.save.begin(r.Run)
	return nil
}

// beginsAt is where the feed is to be read from.
func (r opener) beginsAt() (peer.Seq, Transition) {
	gone := r.lacksList()
	switch target := &r.start.sides[peer.Target]; {
	case gone:
		r.took(beginsWithoutList)
	case !target.foreign() && !r.Reset && !r.may(target.log.session()):
		r.took(passesOthers)
	}
	if !r.Reset && !gone {
		if l := r.lone(); l != nil && len(r.unproved()) == 0 {
			if r.start.alone = true; r.may(r.start.sides[peer.Target].log.session()) {
				return peer.Seq(l.Seq), beginsAlone
			}
		}
		if e, _ := r.common(); e != (entry{}) && e.seq != peer.Zero {
			r.start.ancestor = e
			return e.seq, beginsAtCheckpoint
		}
	}
	if len(r.SinceSeq) > 0 {
		return peer.Seq(r.SinceSeq), beginsAtSince
	}
	return peer.Zero, beginsAnew
}
