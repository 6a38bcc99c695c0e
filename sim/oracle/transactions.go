package oracle

import (
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// transactions are the invariants of how nodes use their store.
type transactions struct{ *chronicle }

var transactionSubject = subject{
	invariants: []Invariant{
		{"S17c", "A request that is carried out once more right after its commit changes nothing."},
		{"S17d", "No transaction of a node is too large for the store, or ends with an error that another " +
			"attempt gets over."},
		{"S17g", "The reads of a transaction take few round trips, however many jobs or documents it is about."},
	},
	begin: func(c *chronicle) {
		t := &transactions{c}
		c.on.askFailed.add(t.checkError)
		c.on.repeated.add(t.checkRepeated)
		c.on.landed.add(t.checkTrips)
		c.on.answered.add(t.checkReading)
	},
}

// checkRepeated demands that a request may be repeated: a client whose answer is lost cannot know that it
// committed.
func (t *transactions) checkRepeated(f world.Repeated) {
	if f.Changed {
		t.Fail("S17c", "%s repeated changed the store", f.Request)
	}
}

// checkError demands that a request fails only because of the store. One that is too large fails on every
// node and every time, so that nothing behind it is ever done; a failure that another attempt gets over is to
// be tried again.
func (t *transactions) checkError(f world.AskFailed) {
	switch kv.CodeOf(f.Err) {
	case kv.TransactionTooLarge, kv.KeyTooLarge, kv.ValueTooLarge,
		kv.NotCommitted, kv.TransactionTooOld, kv.FutureVersion, kv.ProcessBehind, kv.DatabaseLocked,
		kv.TagThrottled, kv.CommitUnknownResult:
		t.Fail("S17d", "%s: %v", f.Request, f.Err)
	}
}

// mostTrips returns how many round trips a request may take, and how many more for each replication whose right it
// hands over and each deleted database that it has emptied, since a request does these one by one. The numbers are what
// the slowest request in many simulated worlds took. A request exceeds them if it reads many rows one by one, or does
// not prefetch what it could.
func mostTrips(q node.Request) (most, each int) {
	switch q := q.(type) {
	case node.Charge, node.Join, node.Record, node.Tune:
		return 1, 0
	case node.Beat, node.EndRound, node.ListLeases, node.StoreRefused:
		return 2, 0
	case node.Retire:
		return 4 + passing*len(q.Without), 0
	case node.ReadRefused, node.Resume:
		return 3, 0
	case node.Claim:
		return 4, 4
	case node.ListOwned:
		return 5 + passing*len(q.Without), 0
	case node.Expire:
		return 5 + passing*len(q.Without), 0
	case node.Accept:
		return 6 + passing*len(q.Without), 0
	case node.Requeue, node.Crash:
		return 6, 3
	case node.Promote:
		return 8 + passing*len(q.Without), 3
	case node.StandBy:
		return 8, 3
	case node.Survey:
		return 12, 0
	case node.Complete, node.Fail:
		return 12, 4
	case node.Sweep:
		return 20 + passing*len(q.Without), 4
	}
	return 20, 3 // of users, whose writes have documents that are validated
}

// passing is how many round trips a request may take to pass over one of the jobs that could not be read (Without).
const passing = 2

// checkTrips is S17g.
func (t *transactions) checkTrips(l landing) {
	single, keys := 0, t.w.Store().Keys
	for _, m := range l.Mutations {
		if keys.Claim.Contains(m.Key) || keys.Lifted.Contains(m.Key) || keys.Dropped.Contains(m.Key) {
			single++
		}
	}
	if most, each := mostTrips(l.Request); l.Trips > most+each*single {
		t.Fail("S17g", "%T took %d round trips, for %d jobs, with %d rights and databases", l.Request, l.Trips,
			len(l.jobs), single)
	}
}

// checkReading is S17g for requests that change nothing, whose commits do not land.
func (t *transactions) checkReading(a world.Answered) {
	switch a.Request.(type) {
	case node.ListLeases, node.ListOwned, node.ReadRefused, node.Resume, node.Survey:
		if most, _ := mostTrips(a.Request); a.Trips > most {
			t.Fail("S17g", "%T took %d round trips", a.Request, a.Trips)
		}
	}
}
