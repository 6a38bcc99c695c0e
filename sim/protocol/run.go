package protocol

import (
	"fmt"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// Rule is a kind of demand.
type Rule uint8

// Rules.
const (
	Beginning Rule = iota // what is asked before the feed is read, and where the feed begins
	Copying               // which changes, revisions and bodies are asked for, and which are written
	Covering              // what a checkpoint covers, and what comes before it
	Logging               // what a log says, and in which order both are written
	Waiting               // when the next request comes at the latest and at the soonest
	Yielding              // when a run that is to give way does so
	Ending                // what is concluded when the run ends
)

// Breach is something that the protocol does not allow.
type Breach struct {
	Rule Rule
	Text string
}

func (b *Breach) Error() string { return b.Text }

func breach(rule Rule, format string, args ...any) error {
	return &Breach{rule, fmt.Sprintf(format, args...)}
}

// Terms are what a run is told before it begins.
type Terms struct {
	*spec.Replication
	Reset   bool // the run is to discard the checkpoints that it finds, and to copy everything anew
	Lenient bool // the job has crashed so often that the run leaves out documents which it cannot copy
	// Listed is how many revisions the job's list has, and MaxListed how many it may have.
	Listed, MaxListed int
	// ListOf is the base id of the replication that the job's list is of; empty if nothing is listed.
	ListOf string
	// List is by what checkpoints know the job's list.
	List List
	// ListSaved is of which state of the list there was a checkpoint, or is to be one since something has left the
	// list, or it began, by peer.Side; 0 if that is not known.
	ListSaved [2]int64
	// ListSavedOf is the id of the replication that ListSaved is of, or its base id; empty if that is not known.
	ListSavedOf string
	// StallTimeout is for how long a run gets nowhere before it is stalled; 0 for ever.
	StallTimeout time.Duration
}

type phase uint8

const (
	naming   phase = iota // reading the filter function, and waiting for the right to run
	opening               // looking whether the databases are there
	locating              // looking for checkpoints
	copying
	over
)

// flight is a request without an answer.
type flight struct {
	op     peer.Op
	sent   instant.Time
	wants  []*want // the revisions that it is about
	marked int     // changes that were concluded when it left
	page   bool    // it compares a page of the list of refused documents
	gone   []name  // what the list may forget once this request has made it durable
}

// told is the answer by which the run makes its present step; op is nil if it makes it by another event.
type told struct {
	op     peer.Op
	sent   instant.Time
	reply  peer.Reply
	missed int // how often the source lacked a revision of it
}

// Run is what the protocol knows of a run from its requests and their answers so far.
type Run struct {
	Terms
	// Counts are the transitions taken.
	Counts Counts

	now     instant.Time
	phase   phase
	base    string // id of the checkpoints; empty until the run has named itself
	filter  *peer.Filter
	flights map[uint64]*flight
	last    told
	dropped int // requests about documents that the run gave up in the present step

	start beginning
	turn
	documents
	list list
	save saving
	wait waiting

	opener
	copier
	lister
	saver
}

// documents are the changes that the run has read, and how far each revision has come.
type documents struct {
	feed   feed
	wants  map[name]*pool
	twice  map[string]bool // ids of documents of which a revision was open twice at a time
	bodies map[peer.Kept]*want
	skips  skips
}

// The parts of a run: what comes before the feed is read, the feed and documents, the list of refused
// documents, and checkpoints. Their files have the state of each.
type (
	opener struct{ *Run }
	copier struct{ *Run }
	lister struct{ *Run }
	saver  struct{ *Run }
)

// New is a run that has not begun.
func New(t Terms) *Run {
	r := &Run{Terms: t, flights: map[uint64]*flight{}, list: newList()}
	r.list.size = t.Listed
	r.wants, r.twice, r.bodies = map[name]*pool{}, map[string]bool{}, map[peer.Kept]*want{}
	r.opener, r.copier, r.lister, r.saver = opener{r}, copier{r}, lister{r}, saver{r}
	return r
}

// Hear tells of an event before whatever the run does by it.
func (r *Run) Hear(now instant.Time, ev replication.Event) error {
	r.now, r.last, r.dropped = now, told{}, 0
	switch ev := ev.(type) {
	case replication.GiveWay:
		r.turn.asked = now
	case replication.Identified:
		return r.identified()
	case replication.Reply:
		return r.replied(ev.ID, ev.Reply)
	case replication.Stop:
		r.took(stops)
		r.stopped = true
	case replication.Stored:
		r.stored()
	case replication.RefusedPage:
		r.paged(ev)
	}
	return nil
}

// replied takes an answer. One to a request that was given up never reaches the run.
func (r *Run) replied(id uint64, reply peer.Reply) error {
	f := r.flights[id]
	if f == nil {
		return nil
	}
	delete(r.flights, id)
	r.last = told{op: f.op, sent: f.sent, reply: reply}
	defer r.getsOn(f.op, reply)
	r.wait.answered(r, f.op, reply)
	if reply.Failure != nil {
		r.took(failures)
	}
	switch op := f.op.(type) {
	case peer.ReadChanges:
		r.read(op, reply)
	case peer.DiffRevs:
		r.compared(f, reply)
	case peer.FetchDocs:
		r.fetched(id, f, reply)
	case peer.WriteDocs:
		r.written(f, op, reply)
	case peer.CopyDoc:
		r.copied(f, op, reply)
	default:
		return r.toldOfDatabase(f, reply)
	}
	return nil
}

// toldOfDatabase takes an answer about a database as a whole, or about a log.
func (r *Run) toldOfDatabase(f *flight, reply peer.Reply) error {
	switch op := f.op.(type) {
	case peer.GetFilter:
		r.filtered(f, reply)
	case peer.Open:
		r.opened(op, reply)
	case peer.Create:
		r.start.made = r.start.made || reply.Failure == nil || final(reply.Failure)
	case peer.GetLocal:
		r.gotLog(op, reply)
	case peer.PutLocal:
		r.putLog(op, reply)
	case peer.Commit:
		r.committed(f, op, reply)
	case peer.FindRev:
		r.foundRev(op, reply)
	case peer.ReadNewest:
		r.gotNewest(reply)
	}
	return nil
}

// Call judges a request that is about to leave.
func (r *Run) Call(now instant.Time, id uint64, op peer.Op) error {
	r.now = now
	if err := r.wait.called(r, op); err != nil {
		return err
	}
	f := &flight{op: op, sent: now}
	defer r.moves(f)
	r.flights[id] = f
	switch {
	case r.phase == over:
		return breach(Ending, "it asks to %s, and is over", op)
	case r.phase == copying:
		return r.asks(f)
	}
	if read, is := op.(peer.ReadChanges); is {
		if err := r.begins(read); err != nil {
			return err
		}
		return r.asks(f)
	}
	return r.prepares(f)
}

// asks judges a request of a run that copies.
func (r *Run) asks(f *flight) error {
	if (r.stopped || r.gaveUp) && getsOnBy(f.op) {
		return breach(Copying, "it stops, and asks to %s", f.op)
	}
	switch op := f.op.(type) {
	case peer.ReadChanges:
		return r.reads(op)
	case peer.CountPending:
		return r.counts(op)
	case peer.DiffRevs:
		return r.compares(f, op)
	case peer.FetchDocs:
		return r.fetches(f, op)
	case peer.WriteDocs:
		return r.writes(f, op)
	case peer.CopyDoc:
		return r.copies(f, op)
	}
	return r.saves(f)
}

// getsOnBy reports whether an operation is about changes and documents.
func getsOnBy(op peer.Op) bool {
	switch op.(type) {
	case peer.ReadChanges, peer.DiffRevs, peer.FetchDocs, peer.WriteDocs, peer.CopyDoc, peer.CountPending:
		return true
	}
	return false
}

// Cancel judges a request that the run gives up.
func (r *Run) Cancel(id uint64) error {
	f := r.flights[id]
	if f == nil {
		return breach(Copying, "it gives up request %d, which has no answer to come", id)
	}
	delete(r.flights, id)
	r.took(givesUp)
	if len(f.wants) > 0 || f.page {
		r.dropped++
	}
	if _, reads := f.op.(peer.ReadChanges); reads && r.phase == copying && !r.stopped {
		r.gaveUp = true // it is stalled, or about to end
	}
	return nil
}

// Does tells of an effect that is no request and not the end.
func (r *Run) Does(e replication.Effect) error {
	switch e := e.(type) {
	case replication.Identify:
		return r.identifies(e)
	case replication.Refused:
		return r.lists(e.Findings)
	case replication.GivesWay:
		return r.givesWay()
	case replication.ReadRefused:
		r.took(readsList)
		r.list.questions++
	}
	return nil
}

// final reports whether a failure will not pass by itself.
func final(f *peer.Failure) bool { return !Passes(f) && !Throttles(f) }

// Throttles reports whether a server asks to slow down.
func Throttles(f *peer.Failure) bool { return f.Kind == peer.Status && f.Status == 429 }

// Passes reports whether a failure may pass by itself within seconds.
func Passes(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status == 408 || f.Status >= 500
	case peer.Unresolvable, peer.Unreachable, peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}
