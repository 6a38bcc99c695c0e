package replication

import (
	"strconv"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

const (
	// quietRead is how long a long poll that brought nothing should have taken; a server that answers
	// sooner is asked less and less often, down to once in idlePauseMax.
	quietRead    = time.Second
	idlePauseMin = 250 * time.Millisecond
	idlePauseMax = 10 * time.Second
	// countEvery is how often a source is asked how much is to come while there is more than one answer of it.
	countEvery = 30 * time.Second
)

// feed reads the changes of the source, one request at a time.
type feed struct {
	since   peer.Seq // after which the next read starts
	reading *call
	begun   instant.Time  // when the present read was sent
	from    peer.Seq      // where it began
	pause   time.Duration // after long polls that came back too soon
	resume  instant.Time  // not before this the next read is sent
	caught  bool          // the source had no more rows at the last answer
	over    bool          // a one-shot has read all there was
	pending int64         // rows behind since as far as known, -1 when not
	count   *call         // asks the source for pending
	counted int64         // rows that were read when it was asked, -1 once nobody needs its answer
	recount instant.Time  // when to ask again
	rows    int64         // read in this run
	goal    peer.Seq      // the source's update_seq when it was opened
}

func (f *feed) begin(since peer.Seq) { f.since = since }

// notBefore is when the feed wants to be looked at again. Once that time has come, it waits for something else.
func (f *feed) notBefore(now instant.Time) instant.Time {
	if f.reading != nil || f.over || f.resume <= now {
		return instant.Never
	}
	return f.resume
}

// readMore asks for the next rows unless there is enough to do.
func (r *Run) readMore() {
	f := &r.feed
	waiting := 0
	for _, b := range r.batches {
		if b.stage == queued {
			waiting++
		}
	}
	if f.reading != nil || f.over || waiting > r.plan.Workers || r.now < f.resume {
		return
	}
	f.begun, f.from, f.resume = r.now, f.since, 0
	f.reading = r.start(&call{op: peer.ReadChanges{
		Since: f.since,
		Limit: r.plan.BatchSize * r.plan.Workers,
		Wait:  f.caught && r.plan.Continuous,
	}})
}

// takeRows queues what an answer brought, whole or not, and moves the position on.
func (r *Run) takeRows(got peer.Changes) {
	f := &r.feed
	f.rows += int64(len(got.Rows))
	if f.pending >= 0 {
		f.pending = max(-1, f.pending-int64(len(got.Rows))) // more than was said: nobody knows how many follow
	}
	for rows := got.Rows; len(rows) > 0; {
		n := min(len(rows), r.plan.BatchSize)
		r.queueBatch(rows[:n], rows[n-1].Seq)
		f.since = rows[n-1].Seq
		rows = rows[n:]
	}
}

func (r *Run) onChanges(op peer.ReadChanges, reply peer.Reply) {
	f := &r.feed
	f.reading = nil
	if reply.Failure != nil {
		r.crash(trouble(op, reply.Failure))
		return
	}
	got := reply.Result.(peer.Changes)
	if got.LastSeq != "" {
		if !sameMoment(got.LastSeq, f.since) {
			r.queueBatch(nil, got.LastSeq)
		}
		f.since = got.LastSeq
	}
	if f.since == f.from && !got.End {
		r.crash(Trouble{Error: "changes_req_failed", Reason: "the changes feed does not advance beyond " + string(f.from)})
		return
	}
	f.caught = got.End && (!op.Wait || len(got.Rows) < op.Limit)
	f.over = f.caught && !r.plan.Continuous
	r.estimatePending(got)
	r.pauseWhenIdle(op, len(got.Rows))
}

// estimatePending keeps the number of rows to come. Servers tell it at the end of an answer; before that
// it is asked for now and then, or read off the sequences of an unclustered server.
func (r *Run) estimatePending(got peer.Changes) {
	f := &r.feed
	distance := numericDistance(f.since, f.goal)
	switch {
	case got.Pending >= 0:
		f.pending = got.Pending
	case f.caught:
		f.pending = 0
	case f.pending < 0 && distance >= 0:
		f.pending = distance
	}
	switch {
	case got.End: // it tells more than an answer that is under way
		f.counted = -1
	case f.count == nil && distance < 0 && r.now >= f.recount:
		f.counted = f.rows
		f.count = r.start(&call{op: peer.CountPending{Since: f.since}})
	}
}

// onPending takes a count. What was read since it was asked for may be a part of it.
func (r *Run) onPending(reply peer.Reply) {
	f := &r.feed
	f.count = nil
	if f.counted < 0 {
		return
	}
	f.recount = r.now.Add(countEvery)
	p, ok := reply.Result.(peer.Pending)
	switch {
	case !ok || reply.Failure != nil:
	case p.Count < 0: // the source does not tell
		f.recount = instant.Never
	default:
		f.pending = max(-1, p.Count-(f.rows-f.counted))
	}
}

// pauseWhenIdle keeps a server whose long poll does not wait from being asked in a tight loop.
func (r *Run) pauseWhenIdle(op peer.ReadChanges, rows int) {
	f := &r.feed
	switch {
	case !op.Wait || rows > 0 || r.now.Sub(f.begun) >= quietRead:
		f.pause = 0
		return
	case sameMoment(f.since, f.from):
		f.pause = min(max(2*f.pause, idlePauseMin), idlePauseMax)
	default: // the filter leaves out what comes, or the server words moments in a way of its own
		f.pause = idlePauseMin
	}
	f.resume = r.now.Add(f.pause)
}

// number reads a sequence of an unclustered server.
func number(s peer.Seq) (int64, bool) {
	n, err := strconv.ParseInt(string(s), 10, 64)
	return n, err == nil
}

// numericDistance is -1 when it cannot be told, or to lies before from.
func numericDistance(from, to peer.Seq) int64 {
	a, okA := number(from)
	b, okB := number(to)
	if !okA || !okB {
		return -1
	}
	return max(-1, b-a)
}

// sameMoment says that two sequences surely name the same moment of a feed: equal, or with the same
// number in front. Clustered servers word one moment in many ways.
func sameMoment(a, b peer.Seq) bool { return a == b || ordinal(a) != "" && ordinal(a) == ordinal(b) }

// clustered says whether a sequence is one of a cluster: a number, and what the shards have.
func clustered(s peer.Seq) bool {
	return ordinal(s) != "" && strings.Contains(string(s), "-")
}

func ordinal(s peer.Seq) string {
	n, _, _ := strings.Cut(strings.Trim(string(s), `"`), "-")
	if _, err := strconv.ParseUint(n, 10, 64); err != nil {
		return ""
	}
	return n
}
