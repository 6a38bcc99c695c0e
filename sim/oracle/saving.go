package oracle

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// savings judge when a run writes checkpoints, and its requests before and after.
type savings struct{ *chronicle }

var savingSubject = subject{
	invariants: []Invariant{
		{"P1d", "A run cancels only requests that are in flight."},
		{"S11c", "Before a run writes a checkpoint, both databases have made their writes durable."},
		{"S11d", "Before a run writes a checkpoint, it has found its filter function unchanged."},
		{"S11e", "A checkpoint covers what was done when the databases were asked to make that durable."},
		{"S21d", "A run that goes on leaves an interval between its checkpoints, and ten while it reads " +
			"nothing, unless something has left the list."},
		{"S21e", "What a continuous run has done waits for a checkpoint no longer than the interval."},
		{"S21f", "A one-shot that has read all, and waits for no answer, writes its last checkpoint within " +
			"two seconds."},
		{"S21g", "A run tells of a checkpoint only when both sides have it."},
		{"S21h", "A run that is stopped in order writes a checkpoint of what it has done, if its databases " +
			"let it."},
		{"S21i", "A run that is stopped in order goes on with the checkpoint that it is writing."},
	},
	begin: func(c *chronicle) {
		sv := &savings{c}
		c.on.logWritten.add(sv.noteWritten)
		c.on.runCalls.add(sv.called)
		c.on.runCancels.add(sv.checkCancel)
		c.on.runReplied.add(func(a reply) { a.saving.note(a, c.w.Now()) })
		c.on.runReplied.add(sv.noteSeen)
		c.on.runTells.add(func(t telling) { sv.checkTold(t.run, t.info) })
		c.on.runSaidEnd.add(func(e ending) {
			sv.checkStopped(e)
			sv.checkTold(e.run, e.end.Info)
		})
		c.on.runStepped.add(sv.checkRest)
	},
}

// saving is how a run saves how far it has come. Only savings change it.
type saving struct {
	sent
	// shared is by side whether another run has written its log over the run's since that was last written to the
	// target: two jobs whose ids differ in create_target or continuous alone have one log. Of a source that stores
	// none for the run, it is whether another run has written one since the run last saw the log there.
	shared [2]bool

	// A checkpoint begins with a look at the filter function, if there is one, and then with the source that
	// is asked to make its writes durable. Either question may be repeated.
	looking bool // the run has asked for the filter function, and has no answer
	syncing bool // the run has asked the source since it last sent a checkpoint
	// covers is through which all was done when the checkpoint began. Of a run that asks the target alone, any such
	// question may have begun it, since the run also asks before it forgets that documents were refused.
	covers []peer.Seq
	listed bool // something was listed since; the list may have been empty before
	left   bool // something was taken off the list, and no checkpoint has told that

	durable  [2]bool   // by side: its writes are durable, as of the present checkpoint
	filtered bool      // the filter function was read for the present checkpoint
	filters  [2]string // revisions of its design document: first and last read

	at     instant.Time // when the last checkpoint was whole; 0 while there is none
	rested instant.Time // when the last answer came about a checkpoint, or about a database as a whole
	still  instant.Time // since when a one-shot that has read all waits for no answer; 0 if it does
	early  string       // what is wrong with a checkpoint that came too soon, unless the run ends now; or empty
	store  int          // questions to the store that have no answer, about refused documents
	stored instant.Time // when the last of these answers came
	// unsaved is set when a request for a checkpoint failed after the stop, when it met another job's log, when a
	// database refused an empty log, as nothing tells that from one that is made again, and when the source lacked a
	// change that was purged.
	unsaved bool

	lone, unasked bool // the source refuses to store logs, and to make its writes durable
}

// writesAnew reports whether a run is about to send the first of the two copies of a checkpoint. A log with
// one entry takes back checkpoints that must not be trusted.
func (r *run) writesAnew(op peer.PutLocal, logs logs) bool {
	head, _ := logs.head(op.Body) // a body that is no log has no session
	return op.Side == peer.Target && r.feed.begun && head.session != r.saving.put[peer.Target].session &&
		len(logs.entries(op.Body)) > 1
}

// called hears of every request of a run before it leaves.
func (sv *savings) called(c call) {
	r := c.run
	switch op := c.op.(type) {
	case peer.PutLocal:
		if r.writesAnew(op, sv.logs) {
			head, _ := sv.logs.head(op.Body)
			empty := sv.logs.read(op.Body).relies() == (list{}) || r.saving.listed
			if healed := r.saving.list && empty; !healed && !r.saving.left { // which is told at once
				sv.checkPace(r)
			}
			r.saving.left = r.saving.left && r.saving.store > 0
			sv.checkAskedFirst(r, head)
		}
		r.saving.sends(op, r.feed.begun, sv.logs)
	case peer.Commit:
		if op.Side == peer.Source || r.saving.unasked {
			sv.checkDelay(r)
			r.saving.begins(r, true)
		}
	case peer.GetFilter:
		r.saving.begins(r, false)
	case peer.ReadChanges, peer.DiffRevs, peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		sv.checkGoesOn(r)
	}
}

// begins notes the progress when a checkpoint began: with the question to the source to make its writes
// durable, when commits is true, or with a look at the filter function.
func (s *saving) begins(r *run, commits bool) {
	filtered := r.Replication().Filter.Kind == spec.FunctionFilter
	already := s.looking
	if commits {
		already = s.syncing
	}
	if r.feed.begun && commits != filtered && (!already || s.unasked) {
		if !already {
			s.covers, s.listed = nil, false
		}
		s.covers = append(s.covers, r.Info().ThroughSeq)
	}
	s.looking, s.syncing = s.looking || !commits, s.syncing || commits
}

// note notes an answer.
func (s *saving) note(a reply, now instant.Time) {
	switch op := a.op.(type) {
	case peer.ReadChanges, peer.DiffRevs, peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		return
	case peer.Open, peer.Commit, peer.PutLocal, peer.GetLocal, peer.GetFilter, peer.FindRev, peer.ReadNewest:
		if f := a.Failure; f != nil && !s.noteReadOnly(op, f) {
			s.unsaved = s.unsaved || a.stopped || f.Status == 409 || refusesEmpty(a)
		}
		if put, is := op.(peer.PutLocal); is && s.made != (entry{}) && a.Failure == nil && put.Side == s.second() {
			s.at = now
		}
	}
	s.rested = now
	switch got := a.Result.(type) {
	case peer.Local:
		s.unsaved = s.unsaved || a.feed.begun && got.Found && s.isOthers(a, got)
	case peer.RevFound:
		op := a.op.(peer.FindRev)
		gone := func(rev string) bool { return peers.Purged(a.begin.source, op.ID, rev) }
		s.unsaved = s.unsaved || !got.Found && slices.ContainsFunc(op.Revs, gone)
	case peer.Committed:
		s.durable[a.op.(peer.Commit).Side] = true
	case peer.Filter:
		s.filtered, s.looking = true, false
		if s.filters[1] = got.Rev; s.filters[0] == "" {
			s.filters[0] = got.Rev
		}
	}
}

// refusesEmpty reports whether a database does not store the log that a run writes before it reads changes.
func refusesEmpty(a reply) bool {
	_, writes := a.op.(peer.PutLocal)
	return writes && !a.feed.begun && final(a.Failure)
}

// final reports whether a server will not answer otherwise when it is asked again.
func final(f *peer.Failure) bool {
	return f.Kind == peer.Status && (f.Status/100 == 3 || f.Status/100 == 4) && f.Status != 408 && f.Status != 429
}

// isOthers reports whether a log that the run looks at is another run's, which shares it, or was emptied by that.
func (s *saving) isOthers(a reply, got peer.Local) bool {
	on := a.op.(peer.GetLocal).Side
	found := [2]string{a.lookup.found.textS, a.lookup.found.textT}[on]
	session := sessionOf(got.Body)
	return session == "" || session != s.put[on].session && session != sessionOf([]byte(found))
}

// second is the side whose copy completes a checkpoint.
func (s *saving) second() peer.Side {
	if s.lone {
		return peer.Target
	}
	return peer.Source
}

// noteReadOnly notes a source that lets the run read only, and reports whether a failure says that it does.
func (s *saving) noteReadOnly(op peer.Op, f *peer.Failure) bool {
	if f.Kind != peer.Status || !slices.Contains([]int{401, 403, 405}, f.Status) {
		return false
	}
	switch op := op.(type) {
	case peer.PutLocal:
		s.lone = s.lone || op.Side == peer.Source
		return op.Side == peer.Source
	case peer.Commit:
		refuses := op.Side == peer.Source
		s.lone, s.unasked = s.lone || refuses, s.unasked || refuses
		return refuses
	}
	return false
}

// noteWritten notes a checkpoint that is being written.
func (sv *savings) noteWritten(f world.LogWritten) {
	head, err := sv.logs.head(f.Body)
	if err != nil {
		return // S11b tells
	}
	for _, r := range sv.runs {
		s, rep := &r.saving, r.Replication()
		for side, url := range []string{rep.Source.URL, rep.Target.URL} {
			if sv.w.Database(url) != f.DB {
				continue
			}
			if s.put[side].session != head.session {
				s.shared[side] = s.shared[side] || f.ID == r.Base()
				continue
			}
			if peer.Side(side) == peer.Target {
				s.shared = [2]bool{peer.Source: s.shared[peer.Source] && s.lone}
			}
			if s.there[side] = s.put[side]; s.there[peer.Source] == s.there[peer.Target] {
				s.whole = s.there[side]
			}
		}
	}
}

// noteSeen notes that a run whose source stores no log of its own has seen the log that is there.
func (sv *savings) noteSeen(a reply) {
	op, looks := a.op.(peer.GetLocal)
	got, answered := a.Result.(peer.Local)
	if !looks || !answered || !a.saving.lone || op.Side != peer.Source || op.ID != a.Base() {
		return
	}
	source := sv.w.Database(a.Replication().Source.URL)
	if source != nil && bytes.Equal(got.Body, source.Log(op.ID)) {
		a.saving.shared[peer.Source] = false
	}
}

// overwritten reports whether another run's log has taken the place of the run's.
func (s *saving) overwritten() bool { return s.shared[peer.Source] || s.shared[peer.Target] }

// checkAskedFirst is S11c, S11d and S11e, and has the next checkpoint begin. A server that loses its last
// writes in a crash must not lose changes that a checkpoint covers, so its documents are made durable first,
// and only changes done before that are covered. Changes read with one filter function are not covered by a
// checkpoint with another.
func (sv *savings) checkAskedFirst(r *run, head entry) {
	s := &r.saving
	filtered := r.Replication().Filter.Kind == spec.FunctionFilter
	switch {
	case !s.durable[peer.Target] || !s.durable[peer.Source] && !s.unasked:
		sv.Fail("S11c", "%s writes a checkpoint, and has not had both sides make their writes durable", r)
	case filtered && !s.filtered:
		sv.Fail("S11d", "%s writes a checkpoint, and has not looked whether its filter function is the same",
			r)
	case !slices.Contains(s.covers, peer.Seq(head.seq)):
		sv.Fail("S11e",
			"%s had done all through %s when it asked to make that durable, and writes a checkpoint at %s",
			r, s.covers, head.seq)
	case s.filters[0] != s.filters[1]:
		sv.Fail("S11d", "%s writes a checkpoint, and its filter function is of %s, no more of %s",
			r, s.filters[1], s.filters[0])
	}
	s.durable, s.filtered, s.syncing = [2]bool{}, false, false
}

// idlePace is how many times less often a checkpoint is written that covers no more rows than the one before.
const idlePace = 10

// checkPace is S21d: checkpoints are work for both servers. The first one is excused, the last ones of a run
// that is stopped, and the ones of a one-shot that has done all it read, or whose source is not the one any
// more with which it began. So is the last one of a run that ends as stalled: such a run has no request in
// flight, so whether it ends is seen when it asks for documents once more.
func (sv *savings) checkPace(r *run) {
	rep, s, source := r.Replication(), &r.saving, r.begin.source
	same := sv.goesOn(r)
	through := func(seq peer.Seq) bool { return source.Number(r.feed.read) <= source.Number(seq) }
	atEnd := !rep.Continuous && (!same || r.feed.ended && through(r.Info().ThroughSeq))
	if s.at == 0 || r.stopped || atEnd {
		return
	}
	pace := r.interval()
	if same && through(peer.Seq(s.put[s.second()].seq)) {
		pace *= idlePace
	}
	if since := sv.w.Now().Sub(s.at); since < pace {
		s.early = fmt.Sprintf("%s writes a checkpoint %s after the one before; it should be %s", r, since, pace)
	}
	if r.Flights() > 0 {
		sv.checkGoesOn(r)
	}
}

// checkGoesOn is S21d of a run that has more to do than its last checkpoint.
func (sv *savings) checkGoesOn(r *run) {
	if s := &r.saving; s.early != "" {
		sv.Fail("S21d", "%s", s.early)
		s.early = ""
	}
}

// checkDelay is S21e, called before each request that may begin a checkpoint: a run that crashes repeats
// changes that no checkpoint covers. A checkpoint of them is due an interval after the last answer about a
// checkpoint, or when the last answer came that rows waited for, if that was later. Excused are runs that are
// stopped or were paused meanwhile, the first checkpoint, and databases that are not those any more with
// which the run began.
func (sv *savings) checkDelay(r *run) {
	rep, s, source := r.Replication(), &r.saving, r.begin.source
	paused := r.p.PausedLast() >= min(r.feed.worked, s.rested)
	if s.syncing || s.at == 0 || r.stopped || !rep.Continuous || paused || s.store > 0 ||
		!sv.asBegun(r) || !sv.goesOn(r) {
		return
	}
	read, saved := source.Number(r.feed.read), peer.Seq(s.put[s.second()].seq)
	late := sv.w.Now().Sub(max(r.feed.worked, s.stored, s.rested.Add(rep.CheckpointInterval)))
	if read > source.Number(saved) && read <= source.Number(r.Info().ThroughSeq) && late > time.Second {
		sv.Fail("S21e",
			"%s begins with a checkpoint %s after it was due: it has done all through %s, "+
				"and the last one is at %s",
			r, late, r.feed.read, saved)
	}
}

// checkRest is S21f, called after each step: a one-shot that has read all is over when it has nothing left to
// do. Only a source that is looking for a revision has the run wait without a request in flight, and failures
// that it waits to repeat.
func (sv *savings) checkRest(step runStep) {
	r := step.run
	s, now := &r.saving, sv.w.Now()
	s.noteStore(step, now)
	if s.still != 0 && now.Sub(s.still) > missingPause && r.p.PausedLast() < s.still {
		sv.Fail("S21f", "%s has read all, and did nothing for %s", r, now.Sub(s.still))
	}
	switch {
	case !r.feed.ended || r.Replication().Continuous || r.Flights() > 0 || s.store > 0 || r.Info().Waiting != "":
		s.still = 0
	case s.still == 0:
		s.still = now
	}
}

// noteStore counts the questions to the store that have no answer.
func (s *saving) noteStore(step runStep, now instant.Time) {
	switch step.ev.(type) {
	case replication.Stored, replication.RefusedPage:
		s.store, s.stored = s.store-1, now
	}
	for _, e := range step.effects {
		switch e := e.(type) {
		case replication.Refused:
			s.store++
			s.listed = s.listed || slices.ContainsFunc(e.Findings, func(f replication.Finding) bool { return !f.Over })
			s.left = s.left || slices.ContainsFunc(e.Findings, func(f replication.Finding) bool { return f.Over })
		case replication.ReadRefused:
			s.store++
		}
	}
}

// checkTold is S21g. The next checkpoint may be at the same sequence as the one before, when a source names a
// document twice, and a run may tell of where it began, and again when its source repeats changes.
func (sv *savings) checkTold(r *run, info replication.Info) {
	s, at := &r.saving, info.CheckpointedSeq
	last := s.put[s.second()]
	sent := last.seq == string(at) && last.session == s.put[peer.Target].session
	whole := s.whole.seq == string(at) || sv.has(r, peer.Source) && sv.has(r, peer.Target)
	if s.lone {
		whole = s.there[peer.Target].seq == string(at)
	}
	switch {
	case !r.feed.begun || at == r.feed.from:
	case !slices.Contains(s.puts, at):
		sv.Fail("S21g", "%s tells of a checkpoint at %s, and has written none there", r, at)
	case sent && !whole:
		sv.Fail("S21g", "%s tells of a checkpoint at %s, and has %v written of %v", r, at, s.there, s.put)
	case sent:
		s.whole = last // a database may be gone when the run tells of it again
	}
}

// has reports whether a side has the checkpoint that the run asked it to write last, also behind one of another run of
// the job that has gone on from it.
func (sv *savings) has(r *run, side peer.Side) bool {
	rep, put := r.Replication(), r.saving.put[side]
	db := sv.w.Database([]string{rep.Source.URL, rep.Target.URL}[side])
	return r.saving.there[side] == put ||
		db != nil && put.session != "" && slices.Contains(sv.logs.entries(db.Log(r.Base())), put)
}

// checkStopped is S21h: a run that moves to another node must not begin far back. Excused are runs without
// checkpoints, those that had not begun to read, databases that failed, that were made again or put back, and
// logs that another job wrote.
func (sv *savings) checkStopped(e ending) {
	rep, source := e.Replication(), e.begin.source
	if e.end.Cause != replication.Stopped || !rep.UseCheckpoints || !e.feed.begun || e.saving.unsaved ||
		!sv.asBegun(e.run) || max(source.Since, sv.w.Database(rep.Target.URL).Since) >= e.Began() {
		return
	}
	target := sv.w.Database(rep.Target.URL)
	if sv.logs.read(target.Log(e.Base())).lone.purged(source) {
		return
	}
	done, saved := e.end.Info.ThroughSeq, e.end.Info.CheckpointedSeq
	if source.Number(done) != source.Number(saved) && !sameNumber(done, saved) {
		sv.Fail("S21h", "%s was stopped at %s, and its checkpoint is at %s", e.run, done, saved)
	}
}

// sameNumber reports whether sequences differ in nothing but that the source was put back in between: a run
// that was offered nothing since has nothing new to save.
func sameNumber(a, b peer.Seq) bool {
	number := func(s peer.Seq) peer.Seq { return s[:strings.IndexAny(string(s)+"-", "-:")] }
	return number(a) == number(b)
}

// checkCancel is P1d and S21i: a checkpoint that is given up may have been written to one side only.
func (sv *savings) checkCancel(c cancel) {
	if c.Op == nil {
		sv.Fail("P1d", "%s cancels request %d, which is not in flight", c.run, c.RunCancels.ID)
	}
	_, stops := c.Event.(replication.Stop)
	if put, is := c.Op.(peer.PutLocal); is && stops && c.feed.begun {
		sv.Fail("S21i", "%s is stopped, and gives up %s", c.run, put)
	}
}
