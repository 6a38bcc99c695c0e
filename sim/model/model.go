package model

import (
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv/keymap"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
)

// Rule is a kind of demand.
type Rule uint8

// Rules.
const (
	Rows      Rule = iota // the rows of a job agree with each other and with the counters
	Life                  // a job changes as its life and the request allow
	Taking                // who takes a job, which, and under which lock
	Leasing               // how leases begin, live and end
	Records               // what the record of a job says
	Following             // which job a document has
	Storing               // what is stored of a document that was sent
	Telling               // what is written into documents of the ends of jobs
	Winning               // which of the leaves of a document it is
)

// Breach is something that the specification does not allow.
type Breach struct {
	Rule Rule
	Text string
}

func (b *Breach) Error() string { return b.Text }

func breach(rule Rule, c *Commit, format string, args ...any) error {
	by := "a user"
	if c.Request != nil {
		by = c.Request.String()
	}
	return &Breach{rule, by + ": " + fmt.Sprintf(format, args...)}
}

// Commit is a commit that took effect.
type Commit struct {
	Mutations []ryw.Mutation
	Read      int64    // read version of the transaction
	Version   int64    // of the commit
	Stamp     [10]byte // of the commit
	// Request is what the commit carries out, by the node's clock Wall; nil if it is of a user.
	Request node.Request
	Wall    instant.Time
	// Sent finds the document that a user sends by the number which that has as its member n; nil if there is none.
	// Without it documents may have any content.
	Sent func(n uint64) *Sent
}

// Model has the jobs and leases of a queue, by all commits so far.
type Model struct {
	// Counts are the transitions taken.
	Counts Counts
	spaces
	documents
	dropped map[string]bool // how the ids of jobs of deleted databases begin
	jobs    map[string]job
	stands  map[string]stand   // of the same
	queued  keymap.Map[string] // the ready ones, by their keys in the queue
	since   map[string]int64   // versions of the commits that last changed the headers of jobs
	held    map[string]int     // numbers of running jobs, by worker
	ran     map[lock]bool      // locks under which runs began
	leases  map[string]lease
	numbers map[string]int64  // counters that are not 0, by key
	claims  map[string]string // the jobs that have replications, by replication id
	free    map[string]bool   // lifted holds, and lots of jobs that wait for a replication which is free
	indexed progress          // of the index of an older store
}

// spaces are where rows are.
type spaces struct {
	root, queue, ready            tuple.Subspace
	index, tally, counts, weights tuple.Subspace
	expire                        tuple.Subspace
}

// New is a store below root without jobs.
func New(root tuple.Subspace) *Model {
	queue := root.Sub("jobs", "replication")
	return &Model{
		spaces: spaces{
			root: root, queue: queue, ready: queue.Sub("ready"), index: root.Sub("index"), tally: root.Sub("tally"),
			counts: root.Sub("count"), weights: root.Sub("weights"), expire: root.Sub("expire"),
		},
		dropped: map[string]bool{}, jobs: map[string]job{}, stands: map[string]stand{}, since: map[string]int64{},
		held: map[string]int{}, ran: map[lock]bool{}, leases: map[string]lease{},
		numbers: map[string]int64{}, claims: map[string]string{}, free: map[string]bool{},
		documents: documents{
			databases: map[string]database{}, winners: map[string]document{}, designs: map[string]document{},
			leaves: map[string]leaves{},
		},
	}
}

// Commit takes note of a commit. A *Breach is the first thing that is wrong with it; then the model is not told of
// others any more.
func (m *Model) Commit(c *Commit) error {
	w, err := m.read(c)
	if err != nil {
		return breach(Rows, c, "%v", err)
	}
	for _, judge := range []func(*Commit, *writing) error{
		m.judgeJobs, m.judgeSums, m.judgeTaking, m.judgeClaims, m.judgeLeases, m.judgeDocuments,
	} {
		if err := judge(c, w); err != nil {
			return err
		}
	}
	m.follow(c, w)
	return nil
}

// Ran takes note of a run that begins under a lock. An accept whose answer was lost may be repeated under its lock once
// the jobs that it took are gone, but not once one of them runs.
func (m *Model) Ran(l jobs.Lock) { m.ran[lock{l.Worker, l.Batch}] = true }

// follow takes jobs and leases over as they were found.
func (m *Model) follow(c *Commit, w *writing) {
	m.documents.follow(w)
	m.indexed = w.indexed
	for _, ch := range w.changes {
		if ch.was.state == running {
			m.held[ch.was.lock.worker]--
		}
		if ch.found.state == running {
			m.held[ch.found.lock.worker]++
		}
		if ch.was.ready() {
			m.queued.Delete(m.placeOf(ch.id, ch.was))
		}
		if ch.found.ready() {
			m.queued.Put(m.placeOf(ch.id, ch.found), ch.id)
		}
		if ch.found.sequence != ch.was.sequence {
			m.since[ch.id] = c.Version
		}
		m.stands[ch.id] = ch.now
		if m.jobs[ch.id] = ch.found; ch.found.state == absent {
			delete(m.jobs, ch.id)
			delete(m.stands, ch.id)
			delete(m.since, ch.id)
		}
	}
	for name, free := range w.free {
		if m.free[name] = free; !free {
			delete(m.free, name)
		}
	}
	for repID, owner := range w.claims {
		if m.claims[repID] = owner; owner == "" {
			delete(m.claims, repID)
		}
	}
	for worker, l := range w.leases {
		if m.leases[worker] = l.found; l.found == (lease{}) {
			delete(m.leases, worker)
		}
	}
}
