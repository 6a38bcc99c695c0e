package follow

import (
	"cmp"
	"strings"

	"couchrelay/core/peer"
)

// leftover are documents of the mirror that the feed has not brought. If the database was put back while its feed was
// read, the rows of the backup may lie before the place that the feed was read from, so the run asks for each document
// before its job is removed.
type leftover struct {
	after  string   // up to where the mirror was compared
	unread []string // ids that the run has still to ask for
	// announced are the leaves that the feed told of documents which were left out then.
	announced map[string]string
	absent    []string   // ids of documents that the database does not have: to be removed
	found     []Incoming // documents that it has
	reads     int        // how often the run has asked for the found ones: a node that lags behind may still have them
}

func (in *inward) swept(q Sweep, got Swept) {
	in.asking = false
	if q.Odd && !got.Whole {
		in.run.leave(got.After)
	}
	in.left = leftover{after: got.After, unread: got.Unread, announced: got.Announced}
	in.run.job.Reconciling = !got.Whole
}

// confirm takes the answer about leftover documents. One that is there each time is taken as it is. But one that the
// feed has announced is left out again until it is as announced, or newer: it is neither gone nor as it was before
// because a node that lags behind has it so.
func (in *inward) confirm(got []peer.DocRead) {
	l := &in.left
	if len(got) == 0 || len(got) > len(l.unread) {
		in.run.end("malformed_response", "the server answered about other documents than it was asked for")
		return
	}
	for i, d := range got {
		id := l.unread[i]
		leaves := strings.Fields(l.announced[id])
		row := peer.Change{Seq: in.through, ID: id, Revs: leaves}
		switch {
		case len(leaves) > 0 && !isWinner(row, d.Rev) && !newer(d.Rev, leaves):
			// Reached: a document that was announced is still not there
			in.leave(id, missing(row))
		case d.Rev == "" || d.Deleted:
			l.absent = append(l.absent, id)
		default:
			l.found = append(l.found, incoming(in.through, id, d))
		}
	}
	l.unread = l.unread[len(got):]
	in.confirmed()
}

// confirmed goes on once it is known of some leftover documents whether they are there.
func (in *inward) confirmed() {
	l, size := &in.left, 0
	for _, d := range l.found {
		size += len(d.Body)
	}
	if size >= readBudget {
		l.unread = nil // the next sweep names the others
	}
	if len(l.unread) > 0 || len(l.found) == 0 {
		return
	}
	if l.reads++; l.reads == maxMissed {
		// Reached: a document that the feed did not bring is there
		in.docs, l.found = l.found, nil
		// The database was made again, or put back, if it lacks the last change of the feed by now. That stays the last
		// change of the job, unless there is none: a backup that lacks it may have these documents.
		in.verify = true
		for _, d := range in.docs[:min(len(in.docs), aheadAtMost)] { // a backup that is put back may lack them
			mark := peer.MarkOf(d.ID, d.Rev, nil)
			in.last, in.proof.ahead = cmp.Or(in.last, mark), append(in.proof.ahead, mark)
		}
		return
	}
	for _, d := range l.found {
		l.unread = append(l.unread, d.ID)
	}
	l.found, in.pause = nil, in.run.w.now.Add(stalePause<<l.reads)
}
