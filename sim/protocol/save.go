package protocol

import (
	"cmp"
	"slices"

	"couchrelay/core/peer"
)

// saving is how the run writes checkpoints.
type saving struct {
	point   point
	saved   span    // of the last checkpoint that is whole, or of the beginning
	agreed  string  // session of the newest checkpoint that both logs have; empty for none
	durable [2]int  // by side: how many positions were concluded when it was asked to make that durable
	looks   [2]bool // by side: the run has read its log there since it began the checkpoint before
	looked  int     // the same of the last look at the filter function
	last    *lone   // by what the target's log of this run, or the one that it goes on from alone, knows its source
	// newest is the newest change of a source that stores no logs, as it told; nil if it was not asked since the run
	// began the checkpoint before. kept is by question of last whether the source had that change since then; of a run
	// without last, whether it had some change.
	newest *peer.DocRevs
	// shown is how often the source has answered that it has this change.
	shown    int
	kept     [2]bool
	noCommit bool     // the source refuses to be asked to make its writes durable
	items    []string // entries of histories that the run found or wrote
	used     map[string]bool
	lastRead

	// What tells the run that it cannot go on: the filter function is another one, a database is, a log is of
	// another run, or a source that is read only lacks what it had.
	changed, other, foreign, lost bool
	others                        int // logs of other runs that it met when it wrote its own
	// behind is whether the last log that the run looked at lacked another run's that it had seen there, and had its
	// own or is on a source that stores none: it may go on, or take the database for one that was put back.
	behind bool
}

// lastRead is the log that was read last.
type lastRead struct {
	text string
	log  log
}

// point is a checkpoint.
type point struct {
	session string
	seq     peer.Seq
	at      span
	sent    [2]bool // to the sides, which have not refused it
	there   [2]bool
	whole   bool
	alone   bool // the target's copy was written again, for a source that stores none
}

// span has the numbers of the first and the last position at which a checkpoint may stand: where the feed told of
// changes again, its sequence is that of more than one.
type span struct{ first, last int }

// maxHistory is how many checkpoints a log has at most, and maxOthers how many logs of other runs a run may write its
// own over: one that wrote over any number would do so for ever, against another replicator that does the same.
const (
	maxHistory = 50
	maxOthers  = 3
)

// begin begins with what the logs say.
func (s *saving) begin(r *Run) {
	s.used, s.agreed = map[string]bool{}, r.start.ancestor.session
	if r.start.alone && r.start.proved > 0 && len(r.unproved()) == 0 {
		s.last = r.start.sides[peer.Target].log.lone
	}
	for on := range r.start.sides {
		s.knows(r.start.sides[on].log)
	}
}

// knows notes the checkpoints of a log.
func (s *saving) knows(l log) {
	s.items = append(s.items, l.history...)
	for _, e := range l.entries {
		s.used[e.session] = true
	}
}

// saves judges a request of a run that copies, which is not about documents.
func (r saver) saves(f *flight) error {
	switch op := f.op.(type) {
	case peer.GetFilter:
		if of := r.functionOf(); of == nil || *of != op {
			return breach(Covering, "it asks to %s, which is not its filter function", op)
		}
		f.marked = r.feed.concluded()
		r.took(looksAtFilter)
	case peer.Commit:
		return r.commits(f, op)
	case peer.PutLocal:
		return r.puts(op)
	case peer.GetLocal:
		if op.ID != r.base {
			return breach(Logging, "it copies, and asks to %s", op)
		}
		r.took(looksAtLog)
	case peer.FindRev:
		switch last := r.save.last; {
		case !r.start.alone:
			return breach(Covering, "it asks to %s, and its source stores logs", op)
		case last != nil && !equal(op, last.last()) && !equal(op, last.newest()) && !r.save.tells(op):
			return breach(Covering, "it asks to %s, and knows its source by %q and %q", op, last.ID, last.NewestID)
		}
		r.took(looksAtSource)
	case peer.ReadNewest:
		if !r.start.alone {
			return breach(Covering, "it asks to %s, and its source stores logs", op)
		}
		r.took(readsNewest)
	case peer.Open:
		r.took(looksAtDatabase)
	default:
		return breach(Copying, "it copies, and asks to %s", op)
	}
	return nil
}

// filtered takes the filter function.
func (r saver) filtered(f *flight, reply peer.Reply) {
	got, is := reply.Result.(peer.Filter)
	switch {
	case reply.Failure != nil || !is:
	case r.phase == naming:
		r.filter = &got
	case got != *r.filter:
		r.took(filterChanged)
		r.save.changed = true
	default:
		r.save.looked = max(r.save.looked, f.marked)
	}
}

// commits judges a request to make writes durable: for a checkpoint, or on the target for the list of refused
// documents. What a checkpoint covers was read with one filter function, so the run looks at that first.
func (r saver) commits(f *flight, op peer.Commit) error {
	s := &r.save
	f.marked = r.feed.concluded()
	if r.functionOf() != nil {
		f.marked = min(f.marked, s.looked)
	}
	for n, durable := range r.list.gone { // order does not matter: all are kept
		if op.Side == peer.Target && !durable {
			f.gone = append(f.gone, n)
		}
	}
	forList := op.Side == peer.Target && len(r.list.revs) > 0
	switch {
	case forList:
	case !r.UseCheckpoints:
		return breach(Covering, "it asks to %s, and writes no checkpoints", op)
	case f.marked == 0:
		return breach(Covering, "it asks to %s for a checkpoint, and has not looked at its filter function", op)
	}
	r.took(commitsSource + Transition(op.Side))
	return nil
}

// committed takes that a database has made its writes durable.
func (r saver) committed(f *flight, op peer.Commit, reply peer.Reply) {
	s := &r.save
	got, is := reply.Result.(peer.Committed)
	switch fail := reply.Failure; {
	case fail != nil && op.Side == peer.Source && refuses(fail):
		r.took(sourceRefusesCommit)
		r.start.alone, s.noCommit = true, true
	case fail != nil || !is:
	case r.isOther(op.Side, got.InstanceStartTime):
		r.took(findsOther)
		s.other = true
	default:
		s.durable[op.Side] = max(s.durable[op.Side], f.marked)
		for _, n := range f.gone {
			if _, is := r.list.gone[n]; is {
				r.list.gone[n] = true
			}
		}
	}
}

// isOther reports whether a database is not the one with which the run began.
func (r saver) isOther(on peer.Side, start string) bool {
	began := r.start.sides[on].start
	return start != began && known(start) && known(began)
}

// puts judges a log: first on the target and then, with the same checkpoint, on the source, unless that
// stores none.
func (r saver) puts(op peer.PutLocal) error {
	s, put := &r.save, r.readLog(op.Body)
	at := &r.start.sides[op.Side]
	p := &s.point
	switch {
	case !r.UseCheckpoints:
		return breach(Covering, "it asks to %s, and writes no checkpoints", op)
	case op.ID != r.base || op.Rev != at.rev:
		return breach(Logging, "it asks to %s, and its log is %s, in revision %q", op, r.base, at.rev)
	case s.others > maxOthers:
		return breach(Logging, "it writes a log, and has met those of other runs %d times", s.others)
	case put.fails || len(put.history) == 0 || put.session() == "":
		return breach(Logging, "it writes no log: %s", op.Body)
	case put.session() != p.session && op.Side == peer.Source:
		return breach(Logging, "it writes a checkpoint to its source first")
	case put.session() != p.session:
		if err := r.covers(&put); err != nil {
			return err
		}
	case op.Side == peer.Source && (r.start.alone && s.noCommit || !p.there[peer.Target]):
		return breach(Logging, "it writes a checkpoint to its source, and its target has it: %v",
			p.there[peer.Target])
	case p.there[op.Side] && (op.Side == peer.Source || !r.start.alone || p.alone):
		return breach(Logging, "it writes a checkpoint to its %s again", op.Side)
	case p.there[op.Side]:
		if err := r.hasKept(&put); err != nil {
			return err
		}
		r.took(writesForReadOnly)
		p.alone, p.there[op.Side] = true, false
	}
	p.sent[op.Side] = true
	r.took(writesTarget - Transition(peer.Target) + Transition(op.Side))
	return r.saysRight(op, at, &put)
}

// covers judges what a new checkpoint covers: all before it is concluded, and was when both databases were
// asked to make their writes durable.
func (r saver) covers(put *log) error {
	s := &r.save
	seq := put.entries[0].seq
	durable := s.durable[peer.Target]
	if !s.noCommit {
		durable = min(durable, s.durable[peer.Source])
	}
	switch {
	case s.point.session != "" && !s.point.whole:
		return breach(Logging, "it begins another checkpoint before the one at %s is whole", s.point.seq)
	case s.used[put.session()]:
		return breach(Logging, "it uses the session %s again", put.session())
	case s.changed || s.other || s.lost || s.foreign:
		return breach(Covering, "it writes a checkpoint, and was told that it cannot go on")
	case durable == 0:
		return breach(Covering, "it writes a checkpoint before both databases have made their writes durable")
	}
	if err := cmp.Or(r.hasLooked(), r.hasKept(put)); err != nil {
		return err
	}
	at, there := r.feed.span(seq, s.saved.first, durable)
	if !there {
		return breach(Covering, "it writes a checkpoint at %s, and had done all through %s when it asked to make "+
			"that durable; not concluded is %s",
			seq, r.feed.positions[durable-1-r.feed.first].seq, r.unfinished())
	}
	s.point = point{session: put.session(), seq: seq, at: at}
	s.used[put.session()], s.durable, s.looked, s.looks = true, [2]int{}, 0, [2]bool{}
	s.newest, s.shown, s.kept = nil, 0, [2]bool{}
	return nil
}

// hasLooked judges whether a run knows that the logs which it is about to replace are still there. That a server takes
// one tells nothing: some compare no revisions, and those of a database that was made again may be equal.
func (r saver) hasLooked() error {
	for on, at := range r.start.sides {
		keeps := r.start.alone && peer.Side(on) == peer.Source
		if at.rev != "" && !r.save.looks[on] && !keeps {
			return breach(Logging, "it writes a checkpoint, and has not looked at its log on the %s", peer.Side(on))
		}
		if r.nameless(peer.Side(on)) {
			return breach(Logging, "it writes a checkpoint, and nothing tells the %s from another one", peer.Side(on))
		}
	}
	return nil
}

// hasKept judges whether a run knows that a source which is known by changes alone was not put back to before those:
// the next run would go on from the log without what the source got in its place. And whether the log names the newest
// change: of one that was put back to before that, documents may stand in front of the checkpoint that were behind it.
func (r saver) hasKept(put *log) error {
	s := &r.save
	if put.lone == nil {
		return nil
	}
	if s.newest == nil {
		return breach(Covering, "it writes that its source is known by changes alone, and has not read the newest")
	}
	want, last := s.asks(), put.lone.last()
	is, known := want.ID == last.ID && slices.Equal(want.Revs, last.Revs), 1
	if s.last != nil {
		known = len(s.last.asks())
	} else if is && s.shown > 0 || s.shown > 1 { // the first change that the run passed is the newest
		known = 0
	}
	if slices.Contains(s.kept[:known], false) {
		return breach(Covering, "it writes that its source is known by changes alone, and has not looked for those "+
			"before: %v", s.kept[:known])
	}
	if is || s.shown == 0 { // one of them is enough, and one that the source does not show tells nothing
		want.ID = ""
	}
	if tells := put.lone.newest(); tells.ID != want.ID || want.ID != "" && !slices.Equal(tells.Revs, want.Revs) {
		return breach(Covering, "its source has %v as its newest change, and it writes %q", *s.newest, tells.ID)
	}
	return nil
}

// maxLeaves is how many leaves of a document a run looks for.
const maxLeaves = 51

// gotNewest takes the newest change of the source, or that it does not tell. What the source had before counts only if
// it is looked for behind that.
func (r saver) gotNewest(reply peer.Reply) {
	got, is := reply.Result.(peer.NewestChange)
	if !is && (reply.Failure == nil || !final(reply.Failure)) {
		return
	}
	r.save.newest, r.save.shown, r.save.kept = &got.Doc, 0, [2]bool{}
}

// tells reports whether a question is for the newest change that the source has told.
func (s *saving) tells(op peer.FindRev) bool {
	return s.newest != nil && equal(op, s.asks())
}

// asks is that question.
func (s *saving) asks() peer.FindRev {
	return peer.FindRev{ID: s.newest.ID, Revs: s.newest.Revs[:min(len(s.newest.Revs), maxLeaves)]}
}

// keeps takes whether the source has a change by which it is known.
func (r saver) keeps(op peer.FindRev, found bool) {
	s := &r.save
	told := s.tells(op)
	if told && found {
		s.shown++
	}
	switch last := s.last; {
	case last != nil && equal(op, last.newest()):
		s.lost, s.kept[1] = s.lost || !found, found
	case !told || last != nil && equal(op, last.last()):
		s.lost, s.kept[0] = s.lost || !found, found
	}
}

// nameless reports whether nothing tells a database from one that is made again: it refused to store an empty log. A
// source that stores none is known by its changes.
func (r saver) nameless(on peer.Side) bool {
	return r.start.sides[on].declined && !(on == peer.Source && r.start.alone)
}

// common is the newest checkpoint that both logs had when the run looked last. Another run may have written it.
func (r saver) common() string {
	source, target := &r.start.sides[peer.Source].log, &r.start.sides[peer.Target].log
	for _, e := range source.entries {
		if target.has(e.session) {
			return e.session
		}
	}
	return r.save.agreed
}

// saysRight judges what a log says.
func (r saver) saysRight(op peer.PutLocal, at *side, put *log) error {
	s := &r.save
	newest := put.entries[0]
	switch {
	case len(put.history) > maxHistory:
		return breach(Logging, "it writes a log of %d checkpoints", len(put.history))
	case newest != put.entries[1] || newest.seq != s.point.seq:
		return breach(Logging, "it writes %v above the history, and %v in it", newest, put.entries[1])
	case string(put.head.Start) != string(r.start.since) || string(put.head.End) != string(newest.seq):
		return breach(Logging, "it began at %s and has come to %s, and writes %s and %s",
			r.start.since, newest.seq, put.head.Start, put.head.End)
	case put.lists[newest.session] != (List{}) && put.lists[newest.session] != put.states[newest.session]:
		return breach(Logging, "it writes a checkpoint that relies on %v, with the list at %v",
			put.lists[newest.session], put.states[newest.session])
	case put.states[newest.session] != (List{}) && put.states[newest.session].Job != r.List.Job:
		return breach(Logging, "it writes a checkpoint with the state of another list, %v", put.states[newest.session])
	case put.mark != at.log.mark:
		return breach(Logging, "it writes a log with the mark %q over one with %q", put.mark, at.log.mark)
	case known(at.start) && put.made != at.start:
		return breach(Logging, "it writes a log for the database of %q to that of %q", put.made, at.start)
	case op.Side == peer.Target && put.lone != nil && !r.start.alone:
		return breach(Logging, "it writes that its source stores no logs, and it was not told so")
	case s.agreed != "" && !put.has(s.agreed) && !put.has(r.common()):
		return breach(Logging, "it drops the checkpoint %s, where both sides agree, from its log", s.agreed)
	}
	for _, old := range put.history[1:] {
		if !slices.Contains(s.items, old) {
			return breach(Logging, "it writes %s into its log, which it has neither found nor written", old)
		}
	}
	if !slices.Contains(s.items, put.history[0]) {
		s.items = append(s.items, put.history[0])
	}
	return nil
}

// putLog takes the answer to the write of a log.
func (r saver) putLog(op peer.PutLocal, reply peer.Reply) {
	if r.phase != copying {
		r.preparedLog(op, reply)
		return
	}
	f := reply.Failure
	switch {
	case f == nil:
		r.logIsThere(op.Side, r.readLog(op.Body), reply.Result.(peer.LocalWritten).Rev)
	case op.Side == peer.Source && refuses(f):
		r.took(sourceRefusesLog)
		r.start.alone, r.save.point.sent[op.Side] = true, false
		r.whole()
	case f.Status == 409:
		r.took(logConflicts)
	}
}

// logIsThere notes a log that a side has.
func (r saver) logIsThere(on peer.Side, l log, rev string) {
	at := &r.start.sides[on]
	at.log, at.rev, at.own = l, rev, r.save.point.session
	r.save.point.there[on], r.save.last = true, nil
	if l.session() == at.own { // else another run has gone on from it, and may know the source by another change
		r.save.last = l.lone // a source's log has none
	}
	if on == peer.Source || r.start.alone {
		r.whole()
	}
}

// whole notes a checkpoint that is where it has to be. While the source stores none, both logs agree at an older one.
func (r saver) whole() {
	s := &r.save
	if s.point.whole = true; s.point.there == [2]bool{true, true} {
		s.agreed = s.point.session
	}
	s.saved = s.point.at
	r.feed.forget(s.saved.first)
}

// gotLogAgain takes a log that the run looked at while it copies, after a conflict or to see whether the
// database is still the same.
func (r saver) gotLogAgain(op peer.GetLocal, got peer.Local) {
	s, at := &r.save, &r.start.sides[op.Side]
	p := &s.point
	s.behind, s.looks[op.Side] = false, true
	if !got.Found {
		s.foreign = s.foreign || at.rev != "" || p.session != "" && !p.whole
		return
	}
	l := r.readLog(got.Body)
	switch {
	case (op.Side == peer.Target || !r.start.alone) && !l.has(s.agreed):
		s.agreed = "" // another run has dropped it already
	case op.Side == peer.Source && r.start.alone && l.session() == p.session:
		s.agreed = p.session // the source has taken it before it refused
	case op.Side == peer.Source && r.start.alone && l.session() != s.agreed:
		s.agreed = "" // another run has written there
	}
	open := p.sent[op.Side] && !p.there[op.Side]
	cameOf := at.log.session() == "" && l.mark == at.log.mark || l.has(at.log.session())
	switch {
	case l.fails:
		s.foreign = true
	case open && l.has(p.session):
		r.took(findsOwnLog)
		if l.session() != p.session {
			s.others++
		}
		s.knows(l)
		at.rev = got.Rev
		r.logIsThere(op.Side, l, got.Rev)
	case (r.Reset || r.start.anew) && at.log.session() == "" && (l.session() != "" || open) &&
		(p.session == "" || !l.has(p.session)):
		s.foreign = true // it may be that of a backup
	case cameOf || at.own != "" && l.has(at.own) || p.session != "" && l.has(p.session):
		s.behind = !cameOf // a run may give up that finds itself where it has stored nothing
		if l.session() != at.log.session() {
			r.took(findsOthersLog)
			if open {
				s.others++
			}
		}
		s.knows(l)
		if at.rev = got.Rev; !open {
			at.log = l
		}
	case op.Side == peer.Source && r.start.alone:
		s.behind = true
		s.knows(l) // the target's log counts alone, and names whichever log its source has
		at.log, at.rev = l, got.Rev
	default:
		s.foreign = true
	}
}
