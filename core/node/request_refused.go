package node

import (
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// StoreRefused changes the list of a job's refused documents. Run and Number, which is the change's among those
// of the run, name it, so that it happens once however often it is repeated.
type StoreRefused struct {
	Held
	Run, Number uint64
	Findings    []replication.Finding
}

func (q StoreRefused) String() string {
	return fmt.Sprintf("store %d refused of %s", len(q.Findings), q.Held)
}

func (q StoreRefused) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	by := fmt.Sprintf("%s/%d/%d", q.Lock.Worker, q.Run, q.Number)
	return Ok{}, q.owned(tx, s, now).StoreRefused(by, q.Findings)
}

func (q StoreRefused) answered(n *Node, c *call, _ Done) {
	n.emit(TellRun{Run: c.run.id, Event: replication.Stored{}})
	n.write(c.run)
}

// ReadRefused reads a page of that list.
type ReadRefused struct {
	Held
	replication.ReadRefused
}

// RefusedPage is a page of the list.
type RefusedPage struct{ replication.RefusedPage }

func (q ReadRefused) String() string { return q.ReadRefused.String() + " of " + q.Held.String() }

func (q ReadRefused) perform(tx kv.Tx, s *jobstore.Store, now instant.Time) (Result, error) {
	page, err := q.owned(tx, s, now).Refused(q.ID, q.Rev, q.Limit)
	return RefusedPage{page}, err
}

func (q ReadRefused) answered(n *Node, c *call, e Done) {
	n.emit(TellRun{Run: c.run.id, Event: e.Result.(RefusedPage).RefusedPage})
	n.write(c.run)
}

func (RefusedPage) result() {}

// maxRefusedNotes is the number of refused documents of a run that the log names.
const maxRefusedNotes = 10

// listedDocs is what a run has to do with the list of its refused documents.
type listedDocs struct {
	change   *StoreRefused // to be asked for; the run has no other one before its answer
	read     *ReadRefused  // likewise
	changes  uint64        // so far
	refusals int           // told to the log, or left out there because there are too many
	tried    instant.Time  // the last demand to try them that the run was told of
}

// listing is the part of a node that keeps the lists of refused documents for its runs.
type listing struct{ *Node }

func (n listing) onRefused(e RunRefused) {
	r := n.find(e.Run)
	if r == nil || r.state == over || r.gone {
		return // of a job that is gone nothing is stored any more, and no checkpoint covers what was refused
	}
	for _, f := range e.Findings {
		if !f.Over {
			n.note(r, f)
		}
	}
	l := &r.listed
	l.changes++
	l.change = &StoreRefused{Held: r.held, Run: r.id, Number: l.changes, Findings: e.Findings}
	n.write(r)
}

// note tells the log of a refused document.
func (n listing) note(r *run, f replication.Finding) {
	if r.listed.refusals++; r.listed.refusals <= maxRefusedNotes {
		word := f.Error
		if f.Status != 0 { // a bulk write answers each document without one
			word = fmt.Sprintf("%d %s", f.Status, f.Error)
		}
		n.Node.note("refused", r.held.JobID, "document %q, revision %s: %s: %s", f.ID, f.Rev, word, f.Reason)
	}
}

// noteRest tells the log at the end of a run how many documents it has not named.
func (n listing) noteRest(r *run) {
	if more := r.listed.refusals - maxRefusedNotes; more > 0 {
		n.Node.note("refused", r.held.JobID, "%d more refusals in this run", more)
	}
}

func (n listing) onRead(e RunReadsRefused) {
	if r := n.find(e.Run); r != nil && r.state != over && !r.gone {
		r.listed.read = &ReadRefused{Held: r.held, ReadRefused: e.ReadRefused}
		n.write(r)
	}
}

// try has a run try its refused documents if that was asked for since it was told last.
func (n listing) try(r *run, asked instant.Time) {
	if r.listed.tried != asked {
		// Reached: a run is told to try its refused documents
		r.listed.tried = asked
		n.emit(TellRun{Run: r.id, Event: replication.TryRefused{}})
	}
}
