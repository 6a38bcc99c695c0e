package oracle

import (
	"bytes"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/protocol"
)

// bulkReads judge how a run reads and writes documents in bulk, and when it copies them alone instead.
type bulkReads struct{ *chronicle }

var bulkSubject = subject{
	invariants: []Invariant{
		{"S30n", "A run asks for fewer documents at once when six answers in a row had room for a fifth of " +
			"them at most."},
		{"S30o", "A source that refused four bulk reads in a row is asked for none for 37 seconds."},
		{"S30p", "Attachments are not read again when the target has older revisions of the document with " +
			"them."},
		{"S30q", "When documents are too large together for the target, or it cannot read one of them, at most half " +
			"of them are sent next."},
		{"S86", "A run does not end because its target cannot read one of the documents that it is asked about, or " +
			"sent in bulk, or takes no question or log that is as long."},
		{"S30z", "A bulk read with attachments asks for documents that its source called small, and for no " +
			"more at once than it may bring."},
		{"S30r", "A bulk read that was answered 429 is not replaced by reads of single documents."},
	},
	begin: func(c *chronicle) {
		br := &bulkReads{c}
		c.on.runCalls.add(func(c call) {
			switch op := c.op.(type) {
			case peer.CopyDoc:
				br.checkStubs(c.run, op)
			case peer.FetchDocs:
				br.checkRefused(c.run, op)
				br.checkInline(c.run, c.id, op)
			}
		})
		c.on.runReplied.add(func(a reply) { a.bulk.note(a.run, a.op, a.Reply, br.w.Config().Memory) })
		c.on.runSaidEnd.add(br.checkEnd)
		c.on.runStepped.add(func(s runStep) {
			answer, _ := s.ev.(replication.Reply)
			switch op := s.asked.(type) {
			case peer.FetchDocs:
				br.checkWaits(s, op, answer.Failure)
			case peer.WriteDocs:
				br.checkHalves(s, op, answer.Failure)
			}
		})
	},
}

// bulk is how a run gets on with reading and writing in bulk. Only bulkReads change it.
type bulk struct {
	refused   int             // bulk reads in a row that the source refused for good
	refusedAt instant.Time    // the last of them, by the node's steady clock
	alone     map[string]bool // "ID REV" to be copied alone: the source refused bulk reads when they came
	told      map[string]int  // how often the feed told of "ID REV"
	partial   map[string]bool // "ID REV" of which the target has ancestors, and so maybe attachments
	copied    map[string]bool // ids of documents that were copied alone
	sizes     map[string]int  // "ID REV" that can be read in bulk with attachments: their sizes
	inline    map[uint64]bool // ids of the bulk reads with attachments
	excused   bool            // something could not be read or written in bulk
	blind     bool            // the target could not read what it was asked, and so did not tell what it has
	scanty    int             // answers in a row that brought a fifth of their request at most
	unheard   []peer.DocRev   // the first document of each bulk read that failed: the read may be repeated
}

// A source that does not read in bulk is asked no more than manyRefused times in a row, and again after
// refusedLast, as CouchDB's replicator does. After manyScanty answers the run must have noticed how much an
// answer has room for.
const (
	manyRefused = 4
	refusedLast = 37 * time.Second
	manyScanty  = 6
)

// note notes an answer to a run that may hold an amount of memory.
func (b *bulk) note(r *run, op peer.Op, reply peer.Reply, memory int) {
	switch op := op.(type) {
	case peer.FetchDocs:
		b.fetched(op, reply, r.p.Steady(), memory)
		if reply.Failure != nil {
			b.unheard = append(b.unheard, op.Docs[0])
		}
	case peer.WriteDocs:
		b.excused = b.excused || reply.Failure != nil
	case peer.DiffRevs:
		b.blind = b.blind || r.goesOnWithout(reply.Failure)
	}
	switch got := reply.Result.(type) {
	case peer.Changes:
		b.listed(got.Rows)
	case peer.Written:
		b.excused = b.excused || len(got.Refused) > 0
	case peer.Diff:
		if reply.Failure == nil {
			b.compared(r.counts.lacked, got, r.p.Steady())
		}
	}
}

// fetched notes the answer to a bulk read. A failure that may pass counts only when the read was repeated in
// vain.
func (b *bulk) fetched(op peer.FetchDocs, reply peer.Reply, now instant.Time, memory int) {
	b.excused = b.excused || reply.Failure != nil
	switch f := reply.Failure; {
	case f == nil:
		b.refused, b.alone = 0, nil
		b.brought(op, reply.Result.(peer.Fetched).Docs, memory)
	case f.Kind == peer.Status && f.Status != 429 && !protocol.Passes(f):
		b.refused, b.refusedAt = b.refused+1, now
	}
}

// A document that is read in bulk with its attachments has inlineMost bytes at most, and a sixteenth of what a
// run may hold, so that several of them are read at once.
const (
	inlineMost  = 256 << 10
	inlineShare = 16
)

// brought notes for how much of its request an answer had room, and what can be read once more with
// attachments.
func (b *bulk) brought(op peer.FetchDocs, docs []peer.FetchedDoc, memory int) {
	left := 0
	for i, d := range docs {
		small := d.Size > 0 && d.Size <= inlineMost && inlineShare*d.Size <= memory
		switch {
		case d.Fate == peer.Left:
			left++
		case d.Fate == peer.Attachments && !op.Attachments && small:
			if b.sizes == nil {
				b.sizes = map[string]int{}
			}
			b.sizes[op.Docs[i].ID+" "+op.Docs[i].Rev] = d.Size
		case d.Fate != peer.Taken:
			b.excused = true
		}
	}
	b.excused = b.excused || left == len(docs)
	if b.scanty++; left < 8 || left < 4*(len(docs)-left) {
		b.scanty = 0
	}
}

// listed notes the revisions that the feed told of.
func (b *bulk) listed(rows []peer.Change) {
	if b.told == nil {
		b.told = map[string]int{}
	}
	for _, row := range rows {
		for _, rev := range row.Revs {
			b.told[row.ID+" "+rev]++
		}
	}
}

// compared notes the revisions that the target lacks, of which the run knew some before. One that the feed tells of
// again may be in an earlier batch, which was not compared, and is read in bulk.
func (b *bulk) compared(known map[string]bool, got peer.Diff, now instant.Time) {
	for _, d := range got.Docs {
		for _, rev := range d.Missing {
			name := d.ID + " " + rev
			switch {
			case b.refused < manyRefused || now.Sub(b.refusedAt) >= refusedLast:
				delete(b.alone, name)
			case !known[name] && b.told[name] < 2:
				b.alone = with(b.alone, name)
			}
			if len(d.Ancestors) > 0 && !known[name] {
				b.partial = with(b.partial, name)
			} else {
				delete(b.partial, name)
			}
		}
	}
}

func with(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// checkRefused is S30n and S30o: a source that does not read in bulk, or answers with little, is not asked in
// vain for every batch. Revisions that a batch knew before its source refused too often may be asked for in
// bulk still.
func (br *bulkReads) checkRefused(r *run, op peer.FetchDocs) {
	b := &r.bulk
	if b.scanty >= manyScanty {
		br.Fail("S30n",
			"%s asks for %d documents in bulk, and the last %d answers had room for a fifth at most",
			r, len(op.Docs), b.scanty)
	}
	if r.p.Steady().Sub(b.refusedAt) >= refusedLast {
		b.alone = nil
	}
	for _, d := range op.Docs {
		if b.alone[d.ID+" "+d.Rev] {
			br.Fail("S30o", "%s reads %s %s in bulk, which its source refused %d times",
				r, d.ID, d.Rev, b.refused)
		}
	}
}

// checkInline is S30z and S30p, for bulk reads with attachments. One document is read whatever its size: it may
// have grown since its source told that.
func (br *bulkReads) checkInline(r *run, id uint64, op peer.FetchDocs) {
	if !op.Attachments {
		return
	}
	b, sum := &r.bulk, 0
	if b.inline == nil {
		b.inline = map[uint64]bool{}
	}
	b.inline[id] = true
	for _, d := range op.Docs {
		name := d.ID + " " + d.Rev
		size, told := b.sizes[name]
		if sum += size; !told || sum > op.Budget && len(op.Docs) > 1 {
			br.Fail("S30z", "%s reads %s in bulk with its attachments, %d bytes; with others %d, and has room for %d",
				r, name, size, sum, op.Budget)
		}
		if len(d.Since) == 0 && b.partial[name] && r.counts.diffs < unasked && !b.blind {
			br.Fail("S30p", "%s reads all attachments of %s, of which its target has older revisions", r, name)
		}
	}
}

// checkStubs is S30p: attachments are most of the bytes that are sent. Only the first copy of a document is
// judged, since later ones are sent whole when the source or the target lacked something after all. So are
// revisions that the run does not compare with the target any more, because the target lacked so many of
// those compared before.
func (br *bulkReads) checkStubs(r *run, op peer.CopyDoc) {
	b := &r.bulk
	if b.copied[op.ID] || r.counts.diffs >= unasked || b.blind {
		return
	}
	b.copied = with(b.copied, op.ID)
	whole := func(rev string) bool { return !b.partial[op.ID+" "+rev] }
	if len(op.Since) == 0 && !slices.ContainsFunc(op.Revs, whole) {
		br.Fail("S30p", "%s reads all attachments of %s %v, of which its target has older revisions",
			r, op.ID, op.Revs)
	}
}

// checkHalves is S30q: repeating a request that is too large would fail for ever, and single documents would
// be slow.
func (br *bulkReads) checkHalves(s runStep, op peer.WriteDocs, f *peer.Failure) {
	n := len(op.Docs)
	if !is413(f) && !(is400(f) && !op.Gzip) || n == 1 {
		return
	}
	for _, e := range s.effects {
		call, _ := e.(replication.Call)
		part, is := call.Op.(peer.WriteDocs)
		if is && part.Docs[0].Fetch == op.Docs[0].Fetch && len(part.Docs) > (n+1)/2 {
			br.Fail("S30q", "%s sent %d documents, which it did not take, and sends %d", s.run, n, len(part.Docs))
		}
	}
}

// is400 reports whether a target cannot read a request, or one of the documents in it.
func is400(f *peer.Failure) bool { return f != nil && f.Kind == peer.Status && f.Status == 400 }

// checkEnd is S86.
func (br *bulkReads) checkEnd(e ending) {
	answer, _ := e.ev.(replication.Reply)
	divides := false
	switch op := e.asked.(type) {
	case peer.PutLocal: // three checkpoints are the least
		divides = is413(answer.Failure) && bytes.Count(op.Body, []byte(`"session_id"`)) > 5
	case peer.WriteDocs:
		divides = is400(answer.Failure)
	case peer.DiffRevs:
		divides = is400(answer.Failure) || is413(answer.Failure)
	}
	if divides && e.end.Cause == replication.Crashed {
		br.Fail("S86", "%s gives up for %q: %s", e.run, e.asked, e.end.Trouble)
	}
}

// checkWaits is S30r: reading one by one is more to do for a server that has too much to do.
func (br *bulkReads) checkWaits(s runStep, op peer.FetchDocs, f *peer.Failure) {
	if f == nil || !protocol.Throttles(f) {
		return
	}
	for _, e := range s.effects {
		call, _ := e.(replication.Call)
		one, copies := call.Op.(peer.CopyDoc)
		if copies && slices.ContainsFunc(op.Docs, func(d peer.DocRev) bool { return d.ID == one.ID }) {
			br.Fail("S30r", "%s was asked to slow down, and reads %s alone", s.run, one.ID)
		}
	}
}
