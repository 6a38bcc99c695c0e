package oracle

import (
	"time"

	"couchrelay/core/peer"
)

// costs judge how many requests a run sends, when all goes well, by what it had to move.
type costs struct{ *chronicle }

var costSubject = subject{
	invariants: []Invariant{
		{"S97a", "A run whose servers answer without an error sends few requests of each kind beyond those that " +
			"its settings and what it moved demand."},
	},
	begin: func(c *chronicle) {
		cs := &costs{c}
		c.on.runCalls.add(func(c call) { c.spent.called(c.run, c.op) })
		c.on.runReplied.add(func(a reply) { a.spent.replied(a, c.w.Config().Memory) })
		c.on.runSaidEnd.add(cs.check)
	},
}

// spending is what a run has sent, and what came of it. Only costs change it.
type spending struct {
	trouble bool // an answer was an error, or had one
	sent    [errands]int
	logs    map[peer.GetLocal]bool
	moved
}

// moved is what the answers to a run demand of it.
type moved struct {
	short   int // answers of the feed that had some rows, but fewer than the run asked for
	full    int // rows of all other answers of the feed that had some
	moves   int // answers after which the source is at another sequence
	rows    int
	lists   int // of documents to compare, each as long as it may be
	lacking int // documents of which the target lacks revisions
	heavy   int // documents that fill a bulk read each
	bytes   int // of all others
	alone   int // documents that did not come in bulk
	bulks   int // bulk reads that brought documents
}

// errand is a kind of requests that are counted together.
type errand int

const (
	openings errand = iota
	logReads
	filterReads
	feedReads
	comparisons
	bulkReadings
	bulkWrites
	singleCopies
	saves
	lookups
	errands
)

var errandNames = [errands]string{
	"to open databases", "for logs", "for its filter", "for changes", "to compare revisions", "to read in bulk",
	"to write in bulk", "to copy documents alone", "to save", "to look around",
}

// errandOf is the kind of a request. What is about refused documents is none.
func errandOf(op peer.Op) (errand, bool) {
	switch op.(type) {
	case peer.Open, peer.Create:
		return openings, true
	case peer.GetLocal:
		return logReads, true
	case peer.GetFilter:
		return filterReads, true
	case peer.ReadChanges:
		return feedReads, true
	case peer.DiffRevs:
		return comparisons, true
	case peer.FetchDocs:
		return bulkReadings, true
	case peer.WriteDocs:
		return bulkWrites, true
	case peer.CopyDoc:
		return singleCopies, true
	case peer.PutLocal, peer.Commit:
		return saves, true
	case peer.CountPending, peer.FindRev, peer.ReadNewest:
		return lookups, true
	}
	return 0, false
}

func (s *spending) called(r *run, op peer.Op) {
	k, is := errandOf(op)
	if !is || r.ofList(op) {
		s.trouble = true
		return
	}
	s.sent[k]++
	if log, is := op.(peer.GetLocal); is {
		if s.logs == nil {
			s.logs = map[peer.GetLocal]bool{}
		}
		s.logs[log] = true
	}
}

// replied notes an answer.
func (s *spending) replied(a reply, memory int) {
	s.trouble = s.trouble || a.Failure != nil
	switch got := a.Result.(type) {
	case peer.Changes:
		op := a.op.(peer.ReadChanges)
		if s.read(len(got.Rows), op.Limit, a.Replication().WorkerBatchSize); got.LastSeq != op.Since {
			s.moves++
		}
	case peer.Diff:
		s.lacking += len(got.Docs)
	case peer.Fetched:
		s.fetched(got.Docs, memory/heavyShare)
	case peer.Written:
		s.trouble = s.trouble || len(got.Refused) > 0
	case peer.Copied:
		for _, rev := range got.Revs {
			s.trouble = s.trouble || rev.Refused != nil || rev.Missing
		}
	}
}

// heavyShare is the part of a run's memory that a bulk read need not be larger than.
const heavyShare = 8

func (m *moved) read(rows, asked, batch int) {
	m.rows += rows
	m.lists += (rows + batch - 1) / batch
	switch {
	case rows >= asked:
		m.full += rows
	case rows > 0:
		m.short++
	}
}

func (m *moved) fetched(docs []peer.FetchedDoc, heavy int) {
	came := 0
	for _, d := range docs {
		switch {
		case d.Fate == peer.Taken:
			if came++; d.Size > heavy {
				m.heavy++
			} else {
				m.bytes += d.Size
			}
		case d.Fate != peer.Left:
			m.alone++
		}
	}
	if came > 0 {
		m.bulks++
	}
}

// A run whose batches take long may ask both sides three times how long a round trip takes, after ten seconds.
const (
	triedAfter = 10 * time.Second
	tries      = 3
	// quickReads is how often a source that does not wait for changes is asked in ten seconds after it had some: each
	// pause is twice as long as the one before, from a quarter of a second on.
	quickReads = 6
	// countedAfter is how soon the source may be asked once more how many changes are to come.
	countedAfter = 30 * time.Second
)

// demanded is how many requests of each kind a run of this length needs that does nothing in vain: it reads as many
// changes at once as a batch has, if the source has so many; compares a batch at once; reads and writes it at once,
// unless it is too large for the memory of a run; and saves, looks at its filter, its logs and its databases in
// intervals. While there are no changes it reads the feed every ten seconds.
func (r *run) demanded(took time.Duration, heavy int) (n [errands]int) {
	m, rep, batch := &r.spent.moved, r.Replication(), r.Replication().WorkerBatchSize
	pause := r.interval()
	intervals, looks := 1+int(took/pause), int(took/r.lookInterval())
	n[openings] = 3 + 2*looks
	if r.batches() > r.workers() {
		n[openings] += 2 * tries * min(m.lists, 1+int(took/triedAfter))
	}
	n[logReads] = len(r.spent.logs) + 2*(intervals+looks)
	n[filterReads] = intervals + looks
	n[feedReads] = m.short + m.full/batch + 1 + int(took/idlePause) + m.moves
	if source := r.begin.source; source != nil && source.Server.NoLongPoll {
		n[feedReads] += quickReads * (1 + m.moves)
	}
	n[comparisons] = m.lists
	n[bulkReadings] = m.lists + m.heavy + m.bytes/heavy + m.alone
	n[bulkWrites] = m.bulks
	n[singleCopies] = max(m.alone, m.lacking)             // an answer does not say which are too large for a bulk read
	if !rep.UseBulkGet || r.counts.absent >= absentMost { // or the target was not asked which it lacks
		n[singleCopies] = max(n[singleCopies], m.rows)
	}
	n[saves] = 4 * intervals
	n[lookups] = 2 + 3*intervals + int(took/countedAfter)
	return n
}

// allowed is how many requests of a kind a run may send that needs n. How documents share bulk reads and writes is hard
// to tell from outside where they hardly fit into a run's memory, and a feed may bring its rows one by one: what
// is noticed is waste that grows with the documents or with time.
func (k errand) allowed(n int) int {
	switch k {
	case bulkReadings, bulkWrites, singleCopies, feedReads:
		return 5*n + 20
	}
	return 2*n + 10
}

func (cs *costs) check(e ending) {
	s := &e.spent
	if s.trouble || e.WentBack() || cs.w.ClocksWereSet() {
		return
	}
	took := cs.w.Now().Sub(e.Began())
	for k, n := range e.demanded(took, cs.w.Config().Memory/heavyShare) {
		if s.sent[k] > errand(k).allowed(n) {
			cs.Fail("S97a", "%s sent %d requests %s in %s, and needed %d, for %+v", e.run, s.sent[k], errandNames[k],
				took, n, s.moved)
		}
	}
}
