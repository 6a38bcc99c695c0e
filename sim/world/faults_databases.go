package world

import (
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

func (d *deed) recreate() {
	d.tell(d.db.String(), "", 0)
	d.w.remake(d.db)
}

func (d *deed) recreateWithLogs() {
	d.tell(d.db.String(), "", 0)
	d.w.remake(d.db).TakeLogs(d.db, func(id string) bool {
		// A run that goes on waits for its answer, and looks, unless that of another attempt has come before.
		return !d.w.replicates(id) || d.db.Server.LaxLocals
	})
}

// ageLogs moves checkpoints, as if an older server had written them. The text of a filter function is a part of the
// ids, and may be another one by then; such logs are left alone. The database may be deleted and made again in the
// moment at which the next run begins to move them.
func ageLogs(d *deed) {
	older, version := map[string]string{}, 1+d.site.Int(3)
	for _, p := range d.w.nodes {
		for _, r := range p.runs {
			if rep := r.Replication(); rep.Filter.Kind != spec.FunctionFilter && d.db.LogRev(r.Base()) != "" {
				older[r.Base()] = repid.Base(version, d.w.store.Config.Server, rep, "")
			}
		}
	}
	db, lasts, snared := d.db, d.lasts(), d.site.Int(3) == 2
	d.tell(db.String(), "", lasts)
	d.w.Engine.After(lasts, nil, "logs aged", func() {
		for _, id := range slices.Sorted(maps.Keys(older)) {
			if db.Server.DB(db.Name) == db && !d.w.replicates(id) && !d.w.healed {
				peers.MoveLog(db, id, older[id])
				if snared {
					d.w.net.snares[db] = anyLog
				}
			}
		}
	})
}

func (d *deed) snare() {
	d.tell(d.db.String(), "", 0)
	d.w.net.snares[d.db] = hasCheckpoint
}

func (d *deed) deleteDB() {
	s, name := d.db.Server, d.db.Name
	s.Delete(name)
	lasts := d.lasts()
	d.tell(d.db.String(), "", lasts)
	d.w.Engine.After(lasts, nil, "db made again", func() {
		if s.DB(name) == nil {
			d.w.users.fill(s.Create(name))
		}
	})
}

// restore puts a source back. No client can tell the number of a change that is used again from the one
// before, and the protocol cannot see that a target lost documents which are not in a checkpoint yet.
func (d *deed) restore() {
	db := d.db
	if db.Server.Numeric || !isSource(db.Name) {
		return
	}
	backup := db.Snapshot()
	lasts := d.lasts()
	d.tell(db.String(), "put back at the end to what it was at the beginning", lasts)
	restoreAfter(d, lasts, backup)
}

// loseLeaf puts a source back to before a change that its winning revisions do not tell of.
func loseLeaf(d *deed) {
	db := d.db
	if db.Server.Numeric || !isSource(db.Name) {
		return
	}
	all := slices.DeleteFunc(slices.Clone(db.Offers(spec.Filter{}, true)), func(o peers.Offer) bool {
		return strings.HasPrefix(o.ID, "_design/") || db.Latest(o.ID).Deleted
	})
	if len(all) == 0 {
		return
	}
	id, lasts, backup := all[d.site.Int(len(all))].ID, d.lasts(), db.Snapshot()
	d.tell(db.String(), id+" gets a leaf, and loses it at the end", lasts)
	losingLeaf(d.w.users, db, id)
	restoreAfter(d, lasts, backup)
}

func restoreAfter(d *deed, lasts time.Duration, backup peers.Snapshot) {
	db := d.db
	d.w.Engine.After(lasts, nil, "db restored", func() {
		if db.Server.DB(db.Name) == db && !d.w.healed {
			db.Restore(backup)
			d.w.Engine.Logf(db.String(), "restored")
		}
	})
}

func (d *deed) editFilter() {
	d.tell(d.db.String(), "", 0)
	d.w.users.editFilter(d.db)
}

// jumpSequence has the changes to come numbered far behind the last one, once almost as far as numbers go.
func jumpSequence(d *deed) {
	by := int64(1) << d.site.Int(40)
	if d.site.Int(2) == 1 {
		by = peers.MaxNumber
	}
	d.tell(d.db.String(), "", 0)
	peers.Jump(d.db, by)
}

// purge removes documents of a source. At a target it would break the promise of checkpoints, of which no client can
// know.
func purge(d *deed) {
	if !isSource(d.db.Name) {
		return
	}
	d.tell(d.db.String(), "", 0)
	if d.site.Int(2) == 1 {
		d.w.net.purges[d.db] = true
		return
	}
	all := d.db.Offers(spec.Filter{}, false)
	first := d.site.Int(len(all))
	for _, offer := range all[first:min(first+1+d.site.Int(4), len(all))] {
		purgeDoc(d.w, d.db, offer.ID)
	}
}

// purgeAsked purges the first document that a request asks for, if it asks for any.
func (n *network) purgeAsked(db *peers.DB, op peer.Op) {
	id := ""
	switch op := op.(type) {
	case peer.FetchDocs:
		id = op.Docs[0].ID
	case peer.CopyDoc:
		id = op.ID
	default:
		return
	}
	delete(n.purges, db)
	purgeDoc(n.w, db, id)
}

func purgeDoc(w *World, db *peers.DB, id string) {
	if !strings.HasPrefix(id, "_design/") { // replications could not go on without their filter
		w.Engine.Logf(db.String(), "purged %s", id)
		peers.Purge(db, id)
	}
}
