package oracle

import (
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/replication"
)

// databases are the invariants of databases when nothing moves any more: replicator databases, and
// databases of the servers.
type databases struct{ *chronicle }

var databaseSubject = subject{
	invariants: []Invariant{
		{"P1", "Nothing panics."},
		{"P1b", "No value that a read of the store returned is changed by its reader."},
		{"P1c", "No value that a read of a server's database returned is changed by its reader."},
		{"S14a", "A run whose target refused documents tells of refusals."},
		{"S15a", "A replicator database says that it has as many documents as it lists."},
		{"S30a", "A selector lets exactly the documents through that it selects."},
	},
	begin: func(c *chronicle) {
		d := &databases{c}
		c.on.atRest.add(func(struct{}) {
			for _, r := range d.runs {
				d.checkRefusals(r, r.Info())
			}
			d.checkCounted()
			d.checkIntact()
		})
	},
}

// checkRefusals is S14a for the refusals that a run tells. The run is excused when its target was made anew
// since it began, which it learns at its next checkpoint, and for documents that it has not come to yet.
func (d *databases) checkRefusals(r *run, info replication.Info) {
	rep := r.Replication()
	source, target := d.w.Database(rep.Source.URL), d.w.Database(rep.Target.URL)
	if source == nil || target == nil || target != r.begin.target {
		return
	}
	refused, through := 0, source.Number(info.ThroughSeq)
	for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
		lacks := func(rev string) bool { return !target.Has(offer.ID, rev) } // it may have got it before
		if target.Deny[offer.ID] != nil && offer.Number <= through && slices.ContainsFunc(offer.Revs, lacks) {
			refused++
		}
	}
	if refused > 0 && info.DocWriteFailures == 0 {
		d.Fail("S14a", "%s refused %d documents of job %s, which tells of none", target, refused, r.JobID())
	}
}

// checkCounted is S15a.
func (d *databases) checkCounted() {
	for _, t := range d.w.Tenants() {
		err := d.w.ReadDatabase(t, func(db *docs.Database) error {
			info, err := db.Info()
			if err != nil {
				return err
			}
			rows, more, err := db.List(docs.Listing{Limit: 1 << 20})
			if n := int64(len(rows)); err == nil && n != info.Docs && !more {
				d.Fail("S15a", "%s says that it has %d documents, and lists %d", t.Name(), info.Docs, n)
			}
			return err
		})
		if err != nil {
			d.unreadable("list of "+t.Name(), err)
		}
	}
}

// checkIntact is P1b, P1c and S30a, which the store and the servers know of themselves.
func (d *databases) checkIntact() {
	if err := d.w.StoreIntact(); err != nil {
		d.Fail("P1b", "%v", err)
	}
	for _, db := range d.w.Databases() {
		db.CheckLeaves()
		if err := db.Intact(); err != nil {
			d.Fail("P1c", "%s: %v", db, err)
		}
		if db.Misjudged != "" {
			d.Fail("S30a", "%s: %s", db, db.Misjudged)
		}
	}
}
