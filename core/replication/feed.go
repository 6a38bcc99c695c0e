package replication

import (
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

const (
	// quietRead is how long a long poll that brought nothing should have taken. A server that answers sooner
	// is asked less and less often, down to once in idlePauseMax.
	quietRead    = time.Second
	idlePauseMin = 250 * time.Millisecond
	idlePauseMax = 10 * time.Second
	// countEvery is how often a source is asked how many changes are to come, while an answer of it is being
	// read.
	countEvery = 30 * time.Second
)

// feed reads the changes of the source, one request at a time: "Listen to Changes Feed" and "Read Batch of
// Changes" in CouchDB's replication protocol. A one-shot reads all that was there when its first request was
// answered. A continuous run goes on with long polls.
type feed struct {
	*Run

	since   peer.Seq      // after which the next read starts; moves on with every row that is queued
	reading *call         // the read in flight or waiting for its next attempt; nil without one
	begun   instant.Time  // when the present or last read was asked for
	from    peer.Seq      // since at that time
	pause   time.Duration // before the next long poll, after ones that came back too soon; 0 to idlePauseMax
	resume  instant.Time  // the next read is not sent before this
	caught  bool          // the last answer ended with the newest change of the source
	over    bool          // a one-shot has read all there was; nothing is read any more
	rows    int64         // read in this run
	goal    peer.Seq      // update_seq of the source when it was opened

	// pending is the number of rows that follow since, as far as it is known: -1 if it is not. Servers tell
	// it, and every row that is read counts it down.
	pending int64
	// byNumbers is set while pending is the difference of two sequences, of which some may have no row any more.
	byNumbers bool
	count     *call        // asks the source for pending; nil if it is not being asked
	counted   int64        // rows when the source was asked; -1 if the answer is not needed any more
	recount   instant.Time // the source is not asked again before this
}

func (f *feed) begin(since peer.Seq) { f.since = since }

// notBefore is the moment from which the feed can read again; Never if it waits for something other than
// time.
func (f *feed) notBefore(now instant.Time) instant.Time {
	if f.reading != nil || f.over || f.resume <= now {
		return instant.Never
	}
	return f.resume
}

// readMore asks for the next rows, unless there is enough to do: as many batches waiting as there are
// workers, or rows that take as much memory as documents may.
func (f *feed) readMore() {
	workers := f.work.window.size()
	waiting, room := f.work.waiting()
	enough := waiting > workers || room < 0
	if f.reading != nil || f.over || enough || f.now < f.resume {
		return
	}
	f.begun, f.from = f.now, f.since
	op := peer.ReadChanges{
		Since: f.since,
		Limit: f.plan.BatchSize * workers,
		Wait:  f.caught && f.plan.Continuous,
	}
	f.reading = &call{op: op, absorb: f.absorb, then: func(reply peer.Reply) { f.onChanges(op, reply) }}
	f.issue(f.reading)
}

// absorb queues the rows of an answer. An answer that broke off after some rows, be they of unwanted documents, is no
// failure: the feed goes on behind them, as after a part of an answer, though not at once.
func (f *feed) absorb(reply peer.Reply) peer.Reply {
	got, is := reply.Result.(peer.Changes)
	if !is {
		return reply
	}
	passed := got.LastSeq != "" && got.LastSeq != f.since
	f.takeRows(got)
	if (passed || len(got.Rows) > 0) && reply.Failure != nil {
		// Reached: a feed that broke off has brought something
		reply.Failure, f.resume = nil, f.now.Add(firstPause)
	}
	return reply
}

// takeRows queues the rows of an answer, whole or not, and moves the position on.
func (f *feed) takeRows(got peer.Changes) {
	f.rows += int64(len(got.Rows))
	if f.pending >= 0 {
		f.pending = max(-1, f.pending-int64(len(got.Rows))) // with more rows than were announced it is not known
	}
	for rows := got.Rows; len(rows) > 0; {
		n := min(len(rows), f.plan.BatchSize)
		f.work.queueBatch(rows[:n], rows[n-1].Seq)
		f.since = rows[n-1].Seq
		f.sides[peer.Source].tells(f.since)
		rows = rows[n:]
	}
}

// onChanges takes the end of an answer. Its last_seq may lie behind the last row, where a filter left rows
// out; then an empty batch takes the checkpoint there. A read that neither moves on nor reaches the end would
// be repeated for ever.
func (f *feed) onChanges(op peer.ReadChanges, reply peer.Reply) {
	f.reading = nil
	if reply.Failure != nil {
		f.crash(trouble(op, reply.Failure))
		return
	}
	got := reply.Result.(peer.Changes)
	if got.LastSeq != "" {
		if !sameMoment(got.LastSeq, f.since) {
			f.work.queueBatch(nil, got.LastSeq)
		}
		f.since = got.LastSeq
		f.sides[peer.Source].tells(f.since)
	}
	if f.since == f.from && !got.End {
		f.crash(Trouble{Error: "changes_req_failed",
			Reason: "the changes feed does not advance beyond " + string(f.from)})
		return
	}
	f.caught = got.End && (!op.Wait || len(got.Rows) < op.Limit)
	f.over = f.caught && !f.plan.Continuous
	if !f.work.open() {
		f.turn.moves()
	}
	f.estimatePending(got)
	f.pauseWhenIdle(op, len(got.Rows))
}

// estimatePending keeps the number of rows to come. Servers tell it at the end of an answer. Before that, an
// unclustered server's sequences are numbers and can be subtracted, and any other server is asked now and
// then.
func (f *feed) estimatePending(got peer.Changes) {
	distance := numericDistance(f.since, f.goal)
	switch {
	case f.caught: // whatever is told: of a feed of chosen documents CouchDB also counts all others
		f.pending, f.byNumbers = 0, false
	case got.Pending >= 0:
		f.pending, f.byNumbers = got.Pending, false
	case f.pending < 0 || f.byNumbers:
		f.pending, f.byNumbers = distance, distance >= 0
	}
	switch {
	case got.End: // the end of an answer tells more than a count that is in flight
		f.counted = -1
	case f.count == nil && distance < 0 && f.now >= f.recount:
		f.counted = f.rows
		f.count = &call{op: peer.CountPending{Since: f.since}, then: f.onPending}
		f.issue(f.count)
	}
}

// onPending takes a count. Rows that were read since it was asked for may be included in it.
func (f *feed) onPending(reply peer.Reply) {
	f.count = nil
	if f.counted < 0 {
		return
	}
	f.recount = f.now.Add(countEvery)
	p, ok := reply.Result.(peer.Pending)
	switch {
	case !ok || reply.Failure != nil:
	case p.Count < 0: // the source does not tell
		f.recount = instant.Never
	default:
		f.pending, f.byNumbers = max(-1, p.Count-(f.rows-f.counted)), false
	}
}

// pauseWhenIdle keeps a server whose long poll does not wait, or brings the same rows each time, from being asked in a
// busy loop.
func (f *feed) pauseWhenIdle(op peer.ReadChanges, rows int) {
	moved := !sameMoment(f.since, f.from)
	switch {
	case !op.Wait && !moved: // this tells nothing of long polls
		return
	case !op.Wait || moved && rows > 0 || f.now.Sub(f.begun) >= quietRead:
		f.pause = 0
		return
	case !moved:
		f.pause = min(max(2*f.pause, idlePauseMin), idlePauseMax)
	default: // a filter leaves out what is written, or the server words one moment in many ways
		f.pause = idlePauseMin
	}
	f.resume = f.now.Add(f.pause)
}

// numericDistance returns how many changes lie between two sequences of an unclustered server; -1 if that
// cannot be told, or if to is before from.
func numericDistance(from, to peer.Seq) int64 {
	a, okA := from.Number()
	b, okB := to.Number()
	if !okA || !okB {
		return -1
	}
	return max(-1, b-a)
}

// sameMoment reports whether two sequences surely name the same moment of a feed: they are equal, or have the
// same number in front. The rest of a clustered server's sequence depends on which of its nodes answered.
func sameMoment(a, b peer.Seq) bool { return a == b || a.Ordinal() != "" && a.Ordinal() == b.Ordinal() }

// clustered reports whether a sequence is a clustered server's: a number, then the sequences of the shards,
// encoded.
func clustered(s peer.Seq) bool {
	return s.Ordinal() != "" && strings.Contains(string(s), "-")
}
