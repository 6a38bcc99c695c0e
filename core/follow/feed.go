package follow

import (
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// polls are the long polls of a feed.
type polls struct {
	wait bool // the feed has been read to its end: long polls from now on
	idle int  // how many in a row brought nothing, but for the first too soon; 0 to 6
}

// quietPoll is how long a long poll that brings nothing should take. A server that answers sooner is asked less and
// less often, down to once in idlePause.
const (
	quietPoll = time.Second
	idlePause = 10 * time.Second
)

// pollAtMost bounds a long poll. Its server may send heartbeats for ever, and nothing else, if the database is another
// one by now, or was put back, and has fewer changes: only opening it again tells.
const pollAtMost = 10 * time.Minute

// pollEnds is when the run ends the call under way, as it has lasted too long or all is to be read anew; Never unless
// it is a long poll.
func (in *inward) pollEnds() instant.Time {
	op, is := in.call.op.(peer.ReadChanges)
	switch {
	case !is || !op.Wait:
		return instant.Never
	case in.proof.lost:
		return in.run.w.now
	}
	return in.call.sent.Add(pollAtMost)
}

// read takes rows of the feed. Each document is taken once, at its last row.
func (in *inward) read(c *call, op peer.ReadChanges, reply peer.Reply) {
	got, _ := reply.Result.(peer.Changes)
	if f := reply.Failure; f != nil && len(got.Rows) == 0 {
		if op.Wait && in.run.w.now.Sub(c.sent) >= quietPoll && replication.Cut(f) {
			in.pause, in.verify = in.run.w.now.Add(stalePause), true // behind the cut may be another database
			return
		}
		in.run.fail(op, f)
		return
	}
	if op.Wait && len(got.Rows) > 0 && !whole(op, reply) {
		// Reached: a long poll brings a part of what has changed
		in.wait, in.verify = false, true        // all of it is read once it is known where the database is
		in.pause = in.run.w.now.Add(stalePause) // the node that is asked then may lag behind
		return
	}
	last := map[string]int{}
	for i, row := range got.Rows {
		last[row.ID] = i
	}
	in.rows = nil
	in.proof.ahead = slices.DeleteFunc(in.proof.ahead, func(m peer.Mark) bool { _, came := last[m.ID]; return came })
	for i, row := range got.Rows {
		if last[row.ID] != i || len(row.Revs) == 0 || !in.run.takes(row.ID) {
			continue
		}
		if in.last = peer.MarkOf(row.ID, row.Revs[0], row.Revs[1:]); !strings.HasPrefix(row.ID, "_design/") {
			in.rows = append(in.rows, row)
		}
	}
	if in.through = in.since; got.LastSeq != "" {
		in.through = got.LastSeq
	} else if n := len(got.Rows); n > 0 {
		in.through = got.Rows[n-1].Seq
	}
	if in.behind = got.Pending; reply.Failure != nil {
		in.behind = -1
	}
	in.end = reply.Failure == nil && got.End
	in.verify = true
	if len(in.rows) == 0 {
		in.since = in.through
	}
	if in.wait {
		in.pauseWhenIdle(c, got)
	}
	in.wait = in.wait || in.end
	in.flush = len(in.rows) == 0 && (len(got.Rows) > 0 || in.end && in.run.job.Goal != "")
}

// pauseWhenIdle keeps a server whose long polls do not wait from being asked in a busy loop.
func (in *inward) pauseWhenIdle(c *call, got peer.Changes) {
	if len(got.Rows)+got.Skipped > 0 || in.run.w.now.Sub(c.sent) >= quietPoll {
		in.idle = 0
	}
	if len(got.Rows) == 0 {
		// Reached: a long poll of a followed database brings nothing
		in.pause = in.run.w.now.Add(min(stalePause<<in.idle, idlePause))
		in.idle = min(in.idle+1, 6)
	}
}

// whole reports whether a long poll has brought all that had changed. There may be more if it broke off, or has as many
// rows as it may.
func whole(op peer.ReadChanges, reply peer.Reply) bool {
	got := reply.Result.(peer.Changes)
	return reply.Failure == nil && (got.Pending == 0 || len(got.Rows)+got.Skipped < op.Limit)
}
