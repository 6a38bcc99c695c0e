package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// feeds keep the answers of a run's source about its changes, and judge how long a run leaves its feed alone.
type feeds struct{ *chronicle }

var feedSubject = subject{
	invariants: []Invariant{
		{"L8d", "A run that waits for nothing but changes reads its feed every ten seconds."},
	},
	begin: func(c *chronicle) {
		fs := &feeds{c}
		c.on.runCalls.add(fs.called)
		c.on.runReplied.add(func(a reply) { a.feed.note(a.op, a.Reply, c.w.Now()) })
	},
}

// feed is the part of its source's changes that a run has read. Only feeds change it.
type feed struct {
	begun    bool         // the run has begun to read it
	from     peer.Seq     // where the run began to read
	read     peer.Seq     // of the last row
	ended    bool         // the last answer was the end of the feed, as that was when the answer began
	end      peer.Seq     // end of the last answer; empty when it gave none
	answered instant.Time // when the last answer of the feed came; 0 when that was a failure
	worked   instant.Time // when the last answer came, of the feed or about its documents
	working  int          // requests about documents that have no answer
}

// note notes an answer.
func (f *feed) note(op peer.Op, reply peer.Reply, now instant.Time) {
	_, reads := op.(peer.ReadChanges)
	if reads || isWork(op) {
		f.worked = now
	}
	if isWork(op) {
		f.working--
	}
	changes, is := reply.Result.(peer.Changes)
	if !is {
		if reads {
			f.answered = 0
		}
		return
	}
	if n := len(changes.Rows); n > 0 {
		f.read = changes.Rows[n-1].Seq
	}
	whole := reply.Failure == nil
	f.ended, f.answered, f.end = changes.End && whole, 0, ""
	if whole {
		f.answered = now
	}
	if f.ended {
		f.end = changes.LastSeq
	}
}

// isWork reports whether a request is about documents.
func isWork(op peer.Op) bool {
	switch op.(type) {
	case peer.DiffRevs, peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		return true
	}
	return false
}

// idlePause is the longest pause between reads of a feed that brings nothing.
const idlePause = 10 * time.Second

// called is L8d: a run that reads too seldom is late with changes. Only pauses in which the run did nothing
// else count, and none in which its node stood still, or the store had not answered about refused documents. A feed
// that failed has pauses of its own (S28a).
func (fs *feeds) called(c call) {
	read, reads := c.op.(peer.ReadChanges)
	if !reads {
		if isWork(c.op) {
			c.feed.working++
		}
		return
	}
	f := &c.feed
	idle := f.answered != 0 && f.answered == f.worked && f.working == 0 &&
		c.p.PausedLast() < f.answered && c.saving.store == 0
	if pause := fs.w.Now().Sub(f.answered); idle && pause > idlePause+pauseSlack {
		fs.Fail("L8d", "%s reads changes again after %s, and did nothing in between", c.run, pause)
	}
	if !f.begun {
		f.begun, f.from = true, read.Since
	}
}
