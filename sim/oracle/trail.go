package oracle

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

// saved is what the oracle knows of the checkpoints of a run.
type saved struct {
	sessions []string            // written to the target, in order
	last     map[*peers.DB]entry // by database
	// put is what the run last asked a side to write, and there what of it was written.
	put, there [2]entry
	whole      entry           // that was there on both sides last
	at         instant.Time    // when the last one was complete
	read       peer.Seq        // of the last row that was read
	ended      bool            // the last answer was the end of the feed
	still      instant.Time    // since when the run waits for nothing, 0 while it does for something
	durable    [2]bool         // since the last one both sides made their writes so
	filters    [2]string       // revisions of the design document with the filter function, when it was first and last read
	items      map[string]bool // of histories that the run found or wrote, as they were
	from       peer.Seq        // where the run began to read
	worked     instant.Time    // when the last answer came that rows wait for
	rested     instant.Time    // when the last one came of a checkpoint, or of a look at the databases
	covers     peer.Seq        // what was done when it did
	looking    bool            // the filter function was asked for, and has not come
	syncing    bool            // the source was asked to make its writes durable, and no log was written since
	filtered   bool            // since the last one the filter function was read
	puts       []peer.Seq      // what the last checkpoints were to say
	fed        instant.Time    // when the last answer of the feed came, 0 when it failed
	end        peer.Seq        // of the feed, as far as the source said
}

// checkTrail is a part of S21: a checkpoint that is being written says something new, leaves the one valid that both
// sides had, and names moments of a long run that are not far apart, so that a database that is put back from a
// backup finds one not far back. It is called before the write.
func (o *checkpoints) checkTrail(r *run, db *peers.DB, id string, body []byte) {
	l := r.outlook
	if l.source == nil || l.restoredS != l.source.Restored() || l.restoredT != l.target.Restored() || o.sharesLog(r, id) {
		return
	}
	log := o.logs.entries(body)
	if len(log) < 2 { // it takes back what must not be trusted
		return
	}
	now := log[0]
	if !o.ownLog(r, peer.Source, l.source, l.logS, id) || !o.ownLog(r, peer.Target, l.target, l.logT, id) ||
		now != r.saved.put[peer.Source] && now != r.saved.put[peer.Target] {
		return // what a run before sent has arrived late
	}
	before := r.saved.last[db]
	if r.saved.last == nil {
		r.saved.last = map[*peers.DB]entry{}
	}
	r.saved.last[db] = now
	if before.session != now.session && before.session != "" && l.source.Number(peer.Seq(before.seq)) == l.source.Number(peer.Seq(now.seq)) && !r.WentBack() {
		o.Fail("S21", "run %d of %s writes a checkpoint at %s again", r.ID(), r.p.Name, now.seq)
	}
	if db != l.target {
		return
	}
	if at := o.logs.agreed(l.source, l.target, id); at != peer.Zero && !slices.ContainsFunc(o.logs.entries(l.source.Log(id)), func(e entry) bool { return e.seq == string(at) && slices.Contains(log, e) }) {
		o.Fail("S21", "run %d of %s writes a checkpoint at %s, and drops the one at %s, where both sides agreed", r.ID(), r.p.Name, now.seq, at)
	}
	older := r.saved.sessions
	if n := len(older); n > 0 && older[n-1] == now.session { // it is written again
		older = older[:n-1]
	}
	for n, age := len(older), 1; 3*age <= n; age *= 2 {
		if !slices.ContainsFunc(older[n-3*age:n-age+1], func(s string) bool {
			return slices.ContainsFunc(log, func(e entry) bool { return e.session == s })
		}) {
			o.Fail("S21", "run %d of %s has written %d checkpoints, and its log has none of the last %d to %d", r.ID(), r.p.Name, n, age, 3*age)
		}
	}
}

// sharesLog says whether another job, or run, has the same checkpoints.
func (o *checkpoints) sharesLog(r *run, base string) bool {
	for id, s := range o.shadows { // in any order: one is enough
		if id != r.JobID() && s.header != nil && s.record.BaseID == base {
			return true
		}
	}
	return slices.ContainsFunc(o.runs, func(other *run) bool { return other != r && other.Base() == base })
}

// ownLog says whether a log is still the one that the run found or wrote.
func (o *checkpoints) ownLog(r *run, side peer.Side, db *peers.DB, found, base string) bool {
	body := db.Log(base)
	head, err := o.logs.head(body)
	return string(body) == found || err == nil && head.session == r.saved.there[side].session
}

// askedToSave notes a checkpoint that the run asks a side to write.
func (o *checkpoints) askedToSave(r *run, op peer.PutLocal) {
	head, _ := o.logs.head(op.Body) // what is no log has no session
	if op.Side == peer.Target && r.reads && head.session != r.saved.put[peer.Target].session && len(o.logs.entries(op.Body)) > 1 {
		o.checkPace(r)
		o.checkTotals(r, op.Body)
		o.checkPositions(r, op.Body)
		o.checkAskedFirst(r, head)
	}
	if at := peer.Seq(head.seq); !slices.Contains(r.saved.puts, at) {
		r.saved.puts = append(r.saved.puts[max(0, len(r.saved.puts)-3):], at)
	}
	r.saved.put[op.Side], o.writers[head.session] = head, r.Began()
}

// save notes what comes of the requests that checkpoints are about.
func (s *saved) save(op peer.Op, reply peer.Reply, now instant.Time) {
	if rows, is := reply.Result.(peer.Changes); is && len(rows.Rows) > 0 {
		s.read = rows.Rows[len(rows.Rows)-1].Seq
	}
	if rows, is := reply.Result.(peer.Changes); is {
		s.ended = rows.End && reply.Failure == nil
	}
	switch op.(type) {
	case peer.ReadChanges, peer.DiffRevs, peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		s.worked = now
	default:
		s.rested = now
	}
	switch got := reply.Result.(type) {
	case peer.Local:
		s.keep(historyOf(got.Body))
	case peer.Committed:
		s.durable[op.(peer.Commit).Side] = true
	case peer.Changes:
		if s.fed = 0; reply.Failure == nil {
			s.fed = now
		}
		if s.end = ""; got.End && reply.Failure == nil {
			s.end = got.LastSeq
		}
	case peer.Filter:
		s.filtered, s.looking = true, false
		if s.filters[1] = got.Rev; s.filters[0] == "" {
			s.filters[0] = got.Rev
		}
	}
	if put, is := op.(peer.PutLocal); is && put.Side == peer.Source && reply.Failure == nil {
		s.at = now
	}
}

// checkAskedFirst is a part of S11: before a run writes a checkpoint it has both databases make durable what they have, and
// finds its filter function as it was.
func (o *checkpoints) checkAskedFirst(r *run, head entry) {
	s := &r.saved
	if s.durable != [2]bool{true, true} {
		o.Fail("S11", "run %d of %s writes a checkpoint, and has not had both sides make their writes durable", r.ID(), r.p.Name)
	}
	s.durable = [2]bool{}
	if r.Replication().Filter.Kind == spec.FunctionFilter && !s.filtered {
		o.Fail("S11", "run %d of %s writes a checkpoint, and has not looked whether its filter function is the same", r.ID(), r.p.Name)
	}
	if s.filtered = false; head.seq != string(s.covers) {
		o.Fail("S11", "run %d of %s had done all through %s when it asked its databases to make that durable, and writes a checkpoint at %s", r.ID(), r.p.Name, s.covers, head.seq)
	}
	s.syncing = false
	if s.filters[0] != s.filters[1] {
		o.Fail("S11", "run %d of %s writes a checkpoint, and its filter function is of %s, no more of %s", r.ID(), r.p.Name, s.filters[1], s.filters[0])
	}
}

// idlePace is how many times less often a checkpoint is written that covers no more rows than the one before.
const idlePace = 10

// checkPace is a part of S21: a run that goes on writes no checkpoint before the interval is over, and few while it
// reads nothing.
func (o *checkpoints) checkPace(r *run) {
	rep, s, source := r.Replication(), &r.saved, r.begin.source
	same := o.goesOn(r)
	if s.at == 0 || r.stopped || !rep.Continuous && (!same || s.ended && source.Number(s.read) <= source.Number(r.Info().ThroughSeq)) {
		return
	}
	pace := rep.CheckpointInterval
	if r.Record().Throttled {
		pace = min(pace, slowCheckpoint)
	}
	if same && source.Number(s.read) <= source.Number(peer.Seq(s.put[peer.Source].seq)) {
		pace *= idlePace
	}
	if since := o.w.Now().Sub(s.at); since < pace {
		o.Fail("S21", "run %d of %s writes a checkpoint %s after the one before; it should be %s", r.ID(), r.p.Name, since, pace)
	}
}

// begins notes what was done when a checkpoint began: with a look at the filter function, if there is one, or with the question
// to the source. Either may be repeated.
func (s *saved) begins(r *run, commits bool) {
	switch filtered := r.Replication().Filter.Kind == spec.FunctionFilter; {
	case commits == filtered || !r.reads:
	case commits && !s.syncing, !commits && !s.looking:
		s.covers = r.Info().ThroughSeq
	}
	s.looking, s.syncing = s.looking || !commits, s.syncing || commits
}

// checkDelay is a part of S21: what is done waits for a checkpoint no longer than the interval. It is called before each
// request to the source that may begin one.
func (o *checkpoints) checkDelay(r *run) {
	rep, s, source := r.Replication(), &r.saved, r.begin.source
	due := max(s.worked, s.rested.Add(rep.CheckpointInterval))
	if s.syncing || s.at == 0 || r.stopped || !rep.Continuous || r.p.PausedLast() >= min(s.worked, s.rested) || !o.asBegun(r) || !o.goesOn(r) ||
		source.Number(s.read) <= source.Number(peer.Seq(s.put[peer.Source].seq)) {
		return
	}
	if late := o.w.Now().Sub(due); late > time.Second && source.Number(s.read) <= source.Number(r.Info().ThroughSeq) {
		o.Fail("S21", "run %d of %s begins with a checkpoint %s after it was due: it has done all through %s, and the last one is at %s", r.ID(), r.p.Name, late, s.read, s.put[peer.Source].seq)
	}
}

// checkPositions is a part of S14: a log tells where the run began, and how far it has come. That of chosen documents tells
// the newest numbers once more, for CouchDB 1.0.
func (o *checkpoints) checkPositions(r *run, body []byte) {
	var newest struct {
		Start    json.RawMessage `json:"start_last_seq"`
		End      json.RawMessage `json:"end_last_seq"`
		Recorded json.RawMessage `json:"recorded_seq"`
	}
	var flat, want item
	head, _ := o.logs.head(body)
	err := errors.Join(json.Unmarshal(historyOf(body)[0], &newest), json.Unmarshal(body, &flat))
	if err != nil || string(newest.Start) != string(r.saved.from) || string(newest.End) != head.seq || string(newest.Recorded) != head.seq {
		o.Fail("S14", "run %d of %s began at %s, has come to %s, and tells in its log of %s, %s, %s: %v", r.ID(), r.p.Name, r.saved.from, head.seq, newest.Start, newest.End, newest.Recorded, err)
	}
	if r.Replication().Filter.Kind == spec.DocIDs {
		_ = json.Unmarshal(historyOf(body)[0], &want) // it was read before
		want.Counters = checkpoint.Counters{DocsRead: want.DocsRead, DocsWritten: want.DocsWritten, DocWriteFailures: want.DocWriteFailures}
	}
	if flat != want {
		o.Fail("S14", "run %d of %s tells %+v above the history of its log, and should %+v", r.ID(), r.p.Name, flat, want)
	}
}

// checkTotals is a part of S14: a log tells the numbers of the job, and where and when it began and ended.
func (o *checkpoints) checkTotals(r *run, body []byte) {
	httpDate := func(at instant.Time) string { return time.UnixMicro(int64(at)).UTC().Format(http.TimeFormat) }
	history := historyOf(body)
	var newest item
	want := item{Start: httpDate(r.Record().Created), End: httpDate(r.p.Steady()), Counters: r.Info().Counters}
	if err := json.Unmarshal(history[0], &newest); err != nil || newest != want {
		o.Fail("S14", "run %d of %s writes %+v into its log, and it is %+v: %v", r.ID(), r.p.Name, newest, want, err)
	}
	for _, old := range history[1:] {
		if !r.saved.items[string(old)] {
			o.Fail("S14", "run %d of %s writes %s into its log, which it has neither found nor written before", r.ID(), r.p.Name, old)
		}
	}
	r.saved.keep(history)
}

// item is a checkpoint in the history of a log.
type item struct {
	Start string `json:"start_time"`
	End   string `json:"end_time"`
	checkpoint.Counters
}

// historyOf is nil for what is no log.
func historyOf(body []byte) []json.RawMessage {
	var log struct{ History []json.RawMessage }
	_ = json.Unmarshal(body, &log) // S11 tells
	return log.History
}

// keep remembers items.
func (s *saved) keep(history []json.RawMessage) {
	if s.items == nil {
		s.items = map[string]bool{}
	}
	for _, i := range history {
		s.items[string(i)] = true
	}
}

// missingPause is how long a source has to find a revision that it announced; nothing else makes a run wait whose
// requests have been answered.
const missingPause = 2 * time.Second

// checkEnds is a part of S21: a one-shot that has read all, and has no requests under way or to repeat, writes its last
// checkpoint at once. It is called when the run has made a step.
func (o *checkpoints) checkEnds(r *run) {
	s, now := &r.saved, o.w.Now()
	if s.still != 0 && now.Sub(s.still) > missingPause && r.p.PausedLast() < s.still {
		o.Fail("S21", "run %d of %s has read all, and did nothing for %s", r.ID(), r.p.Name, now.Sub(s.still))
	}
	switch {
	case !s.ended || r.Replication().Continuous || r.Flights() > 0 || r.Info().Waiting != "":
		s.still = 0
	case s.still == 0:
		s.still = now
	}
}

// noteSaved notes that a checkpoint of a run is being written.
func (o *checkpoints) noteSaved(db *peers.DB, body []byte) {
	head, err := o.logs.head(body)
	if err != nil {
		return // S11 tells
	}
	for _, r := range o.runs {
		rep := r.Replication()
		for side, url := range []string{rep.Source.URL, rep.Target.URL} {
			if r.saved.put[side].session == head.session && o.w.Database(url) == db {
				s := &r.saved
				if s.there[side] = s.put[side]; s.there[peer.Source] == s.there[peer.Target] {
					s.whole = s.there[side]
				}
				if n := len(s.sessions); side == int(peer.Target) && (n == 0 || s.sessions[n-1] != head.session) {
					s.sessions = append(s.sessions, head.session)
				}
			}
		}
	}
}

// checkSaved is a part of S21: a run that tells of a checkpoint has written it to both sides. The next one may be at the
// same moment, when a source names a document twice.
func (o *checkpoints) checkSaved(r *run, info replication.Info) {
	s := &r.saved
	at, put, there := info.CheckpointedSeq, s.put, s.there
	switch {
	case !r.reads || at == s.from: // where it began, and may be again when a source repeats changes
	case !slices.Contains(s.puts, at):
		o.Fail("S21", "run %d of %s tells of a checkpoint at %s, and has written none there", r.ID(), r.p.Name, at)
	case put[peer.Source].seq == string(at) && put[peer.Source].session == put[peer.Target].session && there != put && s.whole.seq != string(at):
		o.Fail("S21", "run %d of %s tells of a checkpoint at %s, and has %v written of %v", r.ID(), r.p.Name, at, there, put)
	}
}

// checkStopped is a part of S21: a run that is stopped in order writes a checkpoint of what it has done, if its
// databases let it.
func (o *checkpoints) checkStopped(r *run, e replication.End) {
	rep, source := r.Replication(), r.begin.source
	if e.Cause != replication.Stopped || !rep.UseCheckpoints || !r.reads || r.attempts.unsaved || !o.asBegun(r) ||
		max(source.Since, o.w.Database(rep.Target.URL).Since) >= r.Began() {
		return
	}
	if done, saved := source.Number(e.Info.ThroughSeq), source.Number(e.Info.CheckpointedSeq); done != saved && !sameNumber(e.Info.ThroughSeq, e.Info.CheckpointedSeq) {
		o.Fail("S21", "run %d of %s was stopped at %s, and its checkpoint is at %s", r.ID(), r.p.Name, e.Info.ThroughSeq, e.Info.CheckpointedSeq)
	}
}

// sameNumber says whether sequences differ by no more than that the source was put back in between: a run that was
// offered nothing since has nothing new to save.
func sameNumber(a, b peer.Seq) bool {
	number := func(s peer.Seq) peer.Seq { return s[:strings.IndexAny(string(s)+"-", "-:")] }
	return number(a) == number(b)
}

// checkCancels is a part of S21: a run that is stopped in order goes on with the checkpoint that it is writing.
func (o *checkpoints) checkCancels(c cancel) {
	if c.Op == nil {
		o.Fail("P1", "run %d of %s cancels request %d, which is not under way", c.run.ID(), c.p.Name, c.RunCancels.ID)
	}
	_, stops := c.Event.(replication.Stop)
	if put, is := c.Op.(peer.PutLocal); is && stops && c.reads {
		o.Fail("S21", "run %d of %s is stopped, and gives up %s", c.run.ID(), c.p.Name, put)
	}
}
