package peers

import (
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// mishaps are verdicts of servers on documents of a bulk write that failed by chance: nothing is wrong with
// them.
var mishaps = []peer.Refusal{
	{Error: "internal_server_error", Reason: "No DB shards could be opened."},
	{Error: "not_found", Reason: "no_db_file"},
	{Error: "os_process_error", Reason: "exit_status: 1"},
	{Error: "timeout", Reason: "The request could not be processed in a reasonable amount of time."},
	{Error: "conflict", Reason: "Document update conflict."},
	{Error: "error", Reason: "undefined"},
}

// leavesOut reports whether a verdict is about the document itself: the target does not want it.
func leavesOut(v peer.Refusal) bool { return v.Error == "unauthorized" || v.Error == "forbidden" }

// mishap returns what goes wrong with the i-th document of a bulk write, or nil.
func (t Traits) mishap(f Fault, i int, d *docs.Document) *peer.Refusal {
	number := int(d.ID[len(d.ID)-1])
	if f != FailsSome && !(t.FailsInBulk && number%4 == 1) || f == FailsSome && i%2 == 1 {
		return nil
	}
	v := mishaps[(i+number)%len(mishaps)]
	v.ID, v.Rev = d.ID, d.Rev.String()
	return &v
}

// write carries out a bulk write.
func (p *Pair) write(db *DB, op peer.WriteDocs, f Fault) peer.Reply {
	var list []*docs.Document
	for _, k := range op.Docs {
		list = append(list, p.kept[k.Fetch][k.Index])
	}
	if db.Server.MaxWrite > 0 && len(op.Docs) > db.Server.MaxWrite || slices.ContainsFunc(list, db.Server.tooLarge) {
		return db.Server.refusesSize()
	}
	if failure := db.Server.refuseGzip(op); failure != nil {
		return peer.Reply{Failure: failure}
	}
	for _, d := range list {
		if failure := unreadable(db, d.ID); failure != nil {
			return peer.Reply{Failure: failure}
		}
	}
	if failure := p.refuseInline(db, list, f); failure != nil {
		return peer.Reply{Failure: failure}
	}
	if f == WritesPart {
		list = list[:len(list)/2]
	}
	var written peer.Written
	var taken []*docs.Document
	for i, d := range list {
		if v := db.Server.mishap(f, i, d); v != nil {
			written.Refused = append(written.Refused, *v)
			continue
		}
		taken = append(taken, d)
	}
	for _, w := range db.replicated(taken) {
		if w.Err != nil && w.Err.Name == "missing_stub" {
			return peer.Reply{Failure: missingStub()} // as in a cluster, others may have been written
		}
		if w.Err != nil {
			p.net.Refused(p.rep.Target.URL, w.ID, w.Rev.String())
			written.Refused = append(written.Refused,
				peer.Refusal{ID: w.ID, Rev: w.Rev.String(), Error: w.Err.Name, Reason: w.Err.Reason})
		}
	}
	return peer.Reply{Result: written}
}

// fetch carries out a bulk read.
func (p *Pair) fetch(db *DB, id uint64, op peer.FetchDocs, f Fault) peer.Reply {
	if db.Server.NoBulkGet {
		return peer.Reply{Failure: answer(404, "not_found", "missing")}
	}
	kept := make([]*docs.Document, len(op.Docs))
	var got peer.Fetched
	bytes := 0
	for i, d := range op.Docs {
		fate := peer.FetchedDoc{Fate: peer.Left}
		found := db.revs(d.ID, []string{d.Rev})
		if f == RevDamaged && i == 0 {
			db.damage(found)
		}
		if _, failure := db.readable(found); failure != nil {
			return peer.Reply{Failure: failure}
		}
		switch {
		case bytes > op.Budget || f == LeavesOut && i >= len(op.Docs)/2:
		case f == RevMissing && i == 0, len(found) == 0, found[0] == nil:
			fate.Fate = peer.Missing
		case len(found[0].Attachments) > 0 && !db.Server.sends(op):
			fate = peer.FetchedDoc{Fate: peer.Attachments, Size: size(since(found[0], d.Since))}
		default:
			kept[i] = since(found[0], d.Since)
			fate = peer.FetchedDoc{Fate: peer.Taken, Size: size(kept[i]), Rev: found[0].Rev.String()}
			bytes += fate.Size
		}
		got.Docs = append(got.Docs, fate)
	}
	p.kept[id] = kept
	return peer.Reply{Result: got}
}
