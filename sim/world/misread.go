package world

import (
	"bytes"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/sim/fakefdb"
)

const (
	misread = string(fakefdb.Misread)
	// mostMisread is the most that a swarm draws for its rate. It is less than that of others, since a request that
	// meets it fails at once.
	mostMisread = 20_000
)

// Misread is an attempt of a transaction that was given a row of which nothing can be made, or ends with a read that
// failed.
// It is told when the function that reads has come to its end, before a commit has an effect.
type Misread struct {
	fakefdb.Misreading
	Who     string       // a node, or "user"
	Request node.Request // nil for all that is no request of a node
}

func (Misread) fact() {}

// tellMisread tells observers of an attempt. Transactions of the world itself, in which nothing fails, are not told.
func tellMisread(w *World, m fakefdb.Misreading) {
	if w.storeWorld.undisturbed {
		return
	}
	who := "user"
	if p := w.nodeOf(w.Engine.Owner()); p != nil {
		who = p.Name
	}
	w.emit(Misread{m, who, w.asks.current[w.Engine.Self()].Request})
}

// sparing chooses the rows that fdb-misread leaves as they are: those that mean something whatever bytes they have, and
// those that a transaction may have read and not need.
type sparing struct{ w *World }

// rows is nil, for all, in worlds without the fault.
func (s sparing) rows() func(fakefdb.Row) bool {
	if s.w.Config.Rates[misread] == 0 {
		return nil
	}
	return func(r fakefdb.Row) bool {
		asked := s.w.asks.current[s.w.Engine.Self()]
		return s.unneeded(r, asked) || !r.Behind && s.free(r.Key) || r.Behind && s.cutOff(r.Key, asked)
	}
}

func in(key []byte, spaces ...tuple.Subspace) bool {
	return slices.ContainsFunc(spaces, func(space tuple.Subspace) bool { return space.Contains(key) })
}

// unneeded reports whether what a row says is for others. Nodes that were given up are kept for people. Who reads the
// list of refused documents needs of the job its lock alone, and who changes the list may take a row out unread.
// A sweep leaves rows of accounts that it cannot read as they are, and of jobs that it could not read it looks whether
// they are there. That a run is to be stopped is for its worker, who
// lists its jobs, unless it could not read that of this one.
func (s sparing) unneeded(r fakefdb.Row, asked Asked) bool {
	k := &s.w.store.Keys
	switch q := asked.Request.(type) {
	case nil:
		e, err := k.Jobs.Job.Unpack(r.Key)
		if asked.Scans && err == nil && len(e) > 1 && !r.Behind {
			return true
		}
	case node.StoreRefused:
		return in(r.Key, k.Refused)
	case node.ReadRefused:
		e, err := k.Jobs.Job.Unpack(r.Key)
		return err == nil && len(e) > 1 && !r.Behind
	case node.ListOwned:
		var lock jobs.Lock
		var id string
		err := k.Jobs.Owned.Scan(r.Key, &lock.Worker, &lock.Batch, &id)
		return err == nil && !r.Behind && slices.Contains(q.Without, id)
	case node.Sweep:
		e, err := k.Jobs.Job.Unpack(r.Key)
		odd := err == nil && !r.Behind && len(e) == 1 && slices.Contains(q.Without, e[0].(string))
		if odd || in(r.Key, k.Usage, k.Count) {
			return true
		}
	}
	return in(r.Key, k.Jobs.Gone) || !r.Behind && in(r.Key, k.Jobs.Owned)
}

// free reports whether a row may have any value: counters, numbers and tags, places, ids of jobs, and rows whose
// presence alone counts, as that of a hold. Of a worker's lease nothing counts but whether the worker is live, and
// other workers pass over what they cannot read of its heartbeat.
func (s sparing) free(key []byte) bool {
	k := &s.w.store.Keys
	for _, q := range []jobs.Keys{k.Jobs, s.w.follows.store.Keys.Jobs} {
		if in(key, q.Count, q.Signal, q.Call, q.Worker, q.Beat, q.Ready) {
			return true
		}
	}
	return in(key, k.Claim, k.Count, k.Usage, k.Weights, k.Tail, k.Tally, k.Shares, k.Dropped, k.Swept) ||
		bytes.Equal(key, k.Virtual) || bytes.Equal(key, k.Floor) || bytes.Equal(key, k.Reindex) ||
		in(key, k.Held) || s.countsDocuments(key)
}

// cutOff reports whether a row behind a key may be read without being looked at. An accept reads more ready jobs than
// it takes, a promotion more waiting jobs and lifted holds than it moves, and an expiry one job more than it gives
// back. Of heartbeats the newest alone counts.
func (s sparing) cutOff(key []byte, asked Asked) bool {
	k := &s.w.store.Keys
	for _, q := range []jobs.Keys{k.Jobs, s.w.follows.store.Keys.Jobs} {
		if in(key, q.Ready, q.Beat) {
			return true
		}
		if in(key, q.Waiting) {
			e, err := q.Waiting.Unpack(key)
			return err != nil || len(e) != 2 || asked.Request == nil || instant.Time(e[0].(int64)) > asked.Wall
		}
	}
	_, expires := asked.Request.(node.Expire)
	return expires && in(key, k.Jobs.Owned) || in(key, k.Lifted, s.w.follows.store.Keys.Jobs.Owned)
}

// countsDocuments reports whether a row is one of the counters of a replicator database, which are below a 1, its
// instance and a 1 or 2 (see the package comment of docs).
func (s sparing) countsDocuments(key []byte) bool {
	if !s.w.store.Keys.Docs.Contains(key) {
		return false
	}
	e, err := s.w.store.Keys.Docs.Unpack(key)
	return err == nil && len(e) == 3 && e[0] == int64(1) && (e[2] == int64(1) || e[2] == int64(2))
}
