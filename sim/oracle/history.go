package oracle

import (
	"errors"
	"net/http"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// histories judge how a log describes its run, and which earlier checkpoints it keeps.
type histories struct {
	*chronicle
	written int // logs so far, some of which are judged
}

var historySubject = subject{
	invariants: []Invariant{
		{"S14j", "A log tells where its run began to read and how far it has come, and above its history " +
			"what is in the newest entry."},
		{"S14k", "The newest entry of a log tells the counters of the job, when it was made and when the " +
			"entry was."},
		{"S14l", "The older entries of a log are as the run found or wrote them."},
		{"S21a", "A run does not write one checkpoint after another at the same sequence."},
		{"S21b", "A checkpoint that is written leaves in the log the one at which both sides agreed."},
		{"S21c", "A log keeps an earlier checkpoint of its run that is n to 3n checkpoints old, for n = 1, " +
			"2, 4 and so on."},
	},
	begin: func(c *chronicle) {
		hs := &histories{chronicle: c}
		c.on.logWritten.add(func(f world.LogWritten) {
			if hs.sampled(&hs.written) {
				hs.checkLog(f)
			}
			hs.noteWritten(f)
		})
		c.on.runCalls.add(func(c call) {
			if op, is := c.op.(peer.PutLocal); is && c.writesAnew(op, hs.logs) {
				hs.checkTotals(c.run, op.Body)
				hs.checkPositions(c.run, op.Body)
			}
		})
		c.on.runReplied.add(func(a reply) {
			if got, is := a.Result.(peer.Local); is {
				a.history.keep(historyOf(got.Body))
			}
			if _, is := a.op.(peer.PutLocal); is && is413(a.Failure) {
				a.history.thinned = true
			}
		})
	},
}

// history has the entries that a run has found and written in its logs. Only histories change it.
type history struct {
	sessions []string               // of the checkpoints that were written to the target, in order
	last     map[*peers.DB]saidLast // what was written to a database last
	items    map[string]bool        // entries of histories that the run found or wrote, by their text
	thinned  bool                   // a server took no log that long
}

// keep remembers entries.
func (h *history) keep(items []json.RawMessage) {
	if h.items == nil {
		h.items = map[string]bool{}
	}
	for _, i := range items {
		h.items[string(i)] = true
	}
}

// noteWritten notes a checkpoint on the target of its run.
func (hs *histories) noteWritten(f world.LogWritten) {
	head, err := hs.logs.head(f.Body)
	if err != nil || head.session == "" {
		return // S11b tells of the former; an empty log has no checkpoint
	}
	for _, r := range hs.runs {
		if r.saving.put[peer.Target].session != head.session ||
			hs.w.Database(r.Replication().Target.URL) != f.DB {
			continue
		}
		if n := len(r.history.sessions); n == 0 || r.history.sessions[n-1] != head.session {
			r.history.sessions = append(r.history.sessions, head.session)
		}
	}
}

// checkLog judges a log before it is written. Logs are not judged that the run does not write alone: another
// job or run has the same one, a database was made again or put back, a request of an earlier run has arrived
// late, or the log takes back checkpoints that must not be trusted.
func (hs *histories) checkLog(f world.LogWritten) {
	r, source, target := hs.writer(f.ID)
	entries := hs.logs.entries(f.Body)
	if source == nil || target == nil || len(entries) < 2 {
		return
	}
	now, found := entries[0], r.lookup.found
	if hs.senders.madeSince(r, now.session, source, target) || found.source == nil || hs.sharesLog(r, f.ID) ||
		found.restoredS != found.source.Restored() || found.restoredT != found.target.Restored() ||
		!hs.ownLog(r, peer.Source, found.source, found.textS, f.ID) ||
		!hs.ownLog(r, peer.Target, found.target, found.textT, f.ID) ||
		now != r.saving.made {
		return
	}
	read := hs.logs.read(f.Body)
	hs.checkNew(r, f.DB, saidLast{now, read.lists[now.session], read.states[now.session]})
	if f.DB == found.target {
		hs.checkAgreed(r, f.ID, entries)
		if !r.history.thinned {
			hs.checkSpread(r, entries)
		}
	}
}

// sharesLog reports whether another job, or run, has the same checkpoints.
func (hs *histories) sharesLog(r *run, base string) bool {
	for id, s := range hs.shadows { // in any order: one is enough
		if id != r.JobID() && s.header != nil && s.record.BaseID == base {
			return true
		}
	}
	return slices.ContainsFunc(hs.runs, func(other *run) bool { return other != r && other.Base() == base })
}

// ownLog reports whether a log is still the one that the run found or wrote.
func (hs *histories) ownLog(r *run, side peer.Side, db *peers.DB, found, base string) bool {
	body := db.Log(base)
	head, err := hs.logs.head(body)
	return string(body) == found || err == nil && head.session == r.saving.there[side].session
}

// saidLast is what a log says: its newest checkpoint, the list on which that relies, and the writer's list, as it was.
type saidLast struct {
	entry
	list, state list
}

// checkNew is S21a: a checkpoint that says nothing new is work for both servers, and makes the log forget
// older ones. The same one may be written again when its answer was lost, and a source that repeats changes
// has the run come to the same sequence twice.
func (hs *histories) checkNew(r *run, db *peers.DB, now saidLast) {
	source, before := r.lookup.found.source, r.history.last[db]
	if r.history.last == nil {
		r.history.last = map[*peers.DB]saidLast{}
	}
	r.history.last[db] = now
	same := source.Number(peer.Seq(before.seq)) == source.Number(peer.Seq(now.seq))
	same = same && before.list == now.list && before.state == now.state
	same = same && len(r.counts.listed) == 0 // the list may be as before by now
	if before.session != now.session && before.session != "" && same && !r.WentBack() {
		hs.Fail("S21a", "%s writes a checkpoint at %s again", r, now.seq)
	}
}

// checkAgreed is S21b. The target is written first: until the source has the new checkpoint too, the one
// before is valid.
func (hs *histories) checkAgreed(r *run, id string, log []entry) {
	l := &r.lookup.found
	at := hs.logs.agreed(l.source, l.target, id, r.readerOf())
	anew := hs.logs.lacksList(l.source, l.target, id, r.readerOf())
	if at == peer.Zero || anew || hs.logs.lone(l.source, l.target, id) != nil {
		return
	}
	kept := func(e entry) bool { return e.seq == string(at) && slices.Contains(log, e) }
	if !slices.ContainsFunc(hs.logs.entries(l.source.Log(id)), kept) {
		hs.Fail("S21b", "%s writes a checkpoint at %s, and drops the one at %s, where both sides agreed",
			r, log[0].seq, at)
	}
}

// checkSpread is S21c: a database that is put back from a backup must find a common checkpoint not far back.
// So of the checkpoints that are age to 3*age old, counted in checkpoints, the log has one, for age 1, 2, 4
// and so on.
func (hs *histories) checkSpread(r *run, log []entry) {
	older := r.history.sessions
	if n := len(older); n > 0 && older[n-1] == log[0].session { // it is written again
		older = older[:n-1]
	}
	inLog := func(session string) bool {
		return slices.ContainsFunc(log, func(e entry) bool { return e.session == session })
	}
	for n, age := len(older), 1; 3*age <= n; age *= 2 {
		if !slices.ContainsFunc(older[n-3*age:n-age+1], inLog) {
			hs.Fail("S21c", "%s has written %d checkpoints, and its log has none of the last %d to %d",
				r, n, age, 3*age)
		}
	}
}

// checkPositions is S14j. The log of a replication of chosen documents tells its newest counters a second
// time, for CouchDB 1.0.
func (hs *histories) checkPositions(r *run, body []byte) {
	var newest struct {
		Start    json.RawMessage `json:"start_last_seq"`
		End      json.RawMessage `json:"end_last_seq"`
		Recorded json.RawMessage `json:"recorded_seq"`
	}
	var flat, want item
	head, _ := hs.logs.head(body)
	err := errors.Join(json.Unmarshal(historyOf(body)[0], &newest), json.Unmarshal(body, &flat))
	began, come := string(newest.Start) == string(r.feed.from), string(newest.End) == head.seq
	if err != nil || !began || !come || string(newest.Recorded) != head.seq {
		hs.Fail("S14j", "%s began at %s, has come to %s, and tells in its log of %s, %s, %s: %v",
			r, r.feed.from, head.seq, newest.Start, newest.End, newest.Recorded, err)
	}
	if r.Replication().Filter.Kind == spec.DocIDs {
		_ = json.Unmarshal(historyOf(body)[0], &want) // it was read before
		want.Counters = checkpoint.Counters{
			DocsRead: want.DocsRead, DocsWritten: want.DocsWritten, DocWriteFailures: want.DocWriteFailures,
		}
	}
	if flat != want {
		hs.Fail("S14j", "%s tells %+v above the history of its log, and should %+v", r, flat, want)
	}
}

// checkTotals is S14k and S14l. Times are by the node's clock.
func (hs *histories) checkTotals(r *run, body []byte) {
	httpDate := func(at instant.Time) string {
		return time.UnixMicro(int64(at)).UTC().Format(http.TimeFormat)
	}
	items := historyOf(body)
	var newest item
	want := item{
		Start: httpDate(r.Record().Created), End: httpDate(r.p.Steady()), Counters: r.Info().Counters,
	}
	if err := json.Unmarshal(items[0], &newest); err != nil || newest != want {
		hs.Fail("S14k", "%s writes %+v into its log, and it is %+v: %v", r, newest, want, err)
	}
	for _, old := range items[1:] {
		if !r.history.items[string(old)] {
			hs.Fail("S14l", "%s writes %s into its log, which it has neither found nor written before",
				r, old)
		}
	}
	r.history.keep(items)
}
