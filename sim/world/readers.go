package world

import (
	"context"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/explain"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/sim/decide"
)

// reader is a request of a user who wants to know something. Users who look at jobs (looking) read outside of all
// transactions, so that they change no run; a reader's transaction meets the faults of reads. There are readers in
// worlds with fdb-misread, which is about what they are told.
type reader struct {
	*users
	tx   kv.Tx
	site *decide.Site
}

// readEvery is the longest time between two readers.
const readEvery = 10 * time.Second

// startReaders has users read now and then, until nothing fails any more.
func startReaders(u *users) {
	if u.w.Config.Rates[misread] == 0 {
		return
	}
	site := u.w.Decider.Site("readers")
	u.w.Engine.Go(nil, "readers", func() {
		for !u.w.healed {
			_ = u.w.Engine.Sleep(context.Background(), site.Duration(0, readEvery))
			if p := u.frontend(site); p != nil {
				read := readings[site.Int(len(readings))]
				u.w.Engine.Go(p.Process, "api", func() { // observers judge what comes of it
					ctx := u.w.Engine.NewContext(p.Process, RequestLimit)
					_ = kv.Do(ctx, u.w.db, func(tx kv.Tx) error { return read(reader{u, tx, site}) })
					u.w.asks.end(u.w.Engine.Self())
				})
			}
		}
	})
}

// few is the length of pages: some lists are longer.
const few = 4

// readings are what readers want to know.
var readings = []func(reader) error{
	reader.page, reader.page, reader.account, reader.explanation, reader.feed, reader.document,
	func(r reader) error { _, _, err := r.lists().Total(jobstore.Filter{Documents: true}); return err },
	func(r reader) error { _, _, err := r.lists().Count(jobstore.Filter{Server: "s1"}, few); return err },
	func(r reader) error { _, _, err := r.lists().Servers("", few); return err },
	func(r reader) error { _, _, err := r.lists().Errors("", few); return err },
	func(r reader) error { _, err := r.w.store.Keys.Holds(r.tx.Snapshot()); return err },
	func(r reader) error {
		_, err := r.w.store.Keys.Refusals(r.tx.Snapshot(), r.jobID(), "", "", few)
		return err
	},
	func(r reader) error { _, _, err := r.w.store.Find(r.tx.Snapshot(), r.jobID()); return err },
	func(r reader) error { _, err := r.w.store.Jobs.Counts(r.tx.Snapshot()); return err },
	func(r reader) error { _, err := node.Members(r.tx.Snapshot(), r.w.store); return err },
	func(r reader) error { _, err := r.w.store.Keys.Jobs.Incarnate(r.tx); return err }, // as a process that starts
}

func (r reader) lists() jobstore.Lists {
	if row, err := r.w.db.Present().Get(r.w.store.Keys.Reindex); err == nil && row != nil {
		r.w.asks.current[r.w.Engine.Self()] = Asked{Scans: true}
	}
	return jobstore.Lists{Store: r.w.store, Reader: r.tx.Snapshot()}
}

// jobID is that of any job.
func (r reader) jobID() string {
	if n := len(r.requests); n > 0 && r.site.Int(4) == 3 {
		return r.requests[r.site.Int(n)]
	}
	if len(r.jobs) == 0 {
		return ""
	}
	return r.jobs[r.site.Int(len(r.jobs))].JobID()
}

// page reads a page of a list of jobs.
func (r reader) page() error {
	t := r.tenants[r.site.Int(len(r.tenants))]
	filters := []jobstore.Filter{
		{}, {Documents: true}, {Documents: true, Instance: jobstore.DocumentJobs(t.instance)},
		{User: Requester}, {Server: "s1"}, {States: []jobstore.State{jobstore.Running, jobstore.Crashing}},
		{Workers: []string{"n1/1", "n2/1"}},
	}
	_, err := r.lists().Page(jobstore.Listing{
		Filter: filters[r.site.Int(len(filters))], Limit: few, Descending: r.site.Int(2) == 1,
	})
	return err
}

// account reads accounts, and what one of them uses.
func (r reader) account() error {
	account := r.tenants[r.site.Int(len(r.tenants))].name
	s, snapshot, now := r.w.store, r.tx.Snapshot(), r.w.Engine.Now()
	if _, _, err := jobstore.Uses(snapshot, s, now, "", few); err != nil {
		return err
	}
	// As checks of stored accounts do.
	if _, err := s.Charges(snapshot, account); err != nil {
		return err
	}
	_, _, err := s.Shared(snapshot)
	return err
}

func (r reader) explanation() error {
	asking := explain.Asking{Now: r.w.Engine.Now(), MaxChurn: 1}
	_, err := explain.Read(r.tx.Snapshot(), r.w.store, r.jobID(), asking)
	return err
}

// feed reads the changes, the list and the description of a replicator database.
func (r reader) feed() error {
	db, err := r.w.store.Docs.Open(r.tx, r.tenants[r.site.Int(len(r.tenants))].name)
	if err != nil {
		return err
	}
	switch full := r.site.Int(2) == 1; r.site.Int(3) {
	case 0:
		_, err = db.Changes(docs.Query{Limit: few, AllDocs: full, Docs: full, Conflicts: full})
	case 1:
		_, _, err = db.List(docs.Listing{Limit: few, Docs: full, Conflicts: full})
	default:
		_, err = db.Info()
	}
	return err
}

// document reads any document.
func (r reader) document() error {
	db, err := r.w.store.Docs.Open(r.tx, r.tenants[r.site.Int(len(r.tenants))].name)
	if err != nil {
		return err
	}
	if len(r.jobs) == 0 {
		return nil
	}
	want := docs.Want{Conflicts: true, DeletedConflicts: true, RevsInfo: true, LocalSeq: true}
	_, err = db.Read(r.jobs[r.site.Int(len(r.jobs))].id, want)
	return err
}
