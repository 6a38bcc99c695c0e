package peers

import (
	"slices"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// readDocs reads the winners of documents. A read may be stale: then the first document is not found, or as it was
// before in a node of a cluster that lags behind.
func readDocs(db *DB, op peer.ReadDocs, f Fault) peer.Reply {
	var got peer.DocsRead
	var found []*docs.Document
	size := 0
	for i, id := range op.IDs {
		if f == LeavesOut && i > 0 && i > len(op.IDs)/2 || i > 0 && size >= op.Budget {
			break
		}
		d := peer.DocRead{ID: id}
		doc := db.Latest(id)
		if f == RevMissing && i == 0 {
			doc = nil
			if !db.Server.Numeric {
				doc = db.Server.Lags[db.Name][id]
			}
		}
		if f == RevDamaged && i == 0 {
			db.spoil(doc)
		}
		if db.how(doc) == absent {
			doc = nil
		}
		found = append(found, doc)
		if doc != nil {
			d.Rev, d.Deleted = doc.Rev.String(), doc.Deleted
			if !doc.Deleted {
				d.Body = doc.AppendJSON(nil, docs.Format{})
			}
		}
		got.Docs = append(got.Docs, d)
		size += len(d.Body)
	}
	if slices.ContainsFunc(found, func(d *docs.Document) bool { return db.how(d) == slow }) {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.TimedOut}}
	}
	if _, failure := db.readable(found); failure != nil {
		return peer.Reply{Failure: failure}
	}
	return peer.Reply{Result: got}
}

// editDocs writes documents as users do, durably.
func editDocs(db *DB, op peer.EditDocs, f Fault) peer.Reply {
	if db.Server.EditsAlone && len(op.Docs) > 1 {
		return peer.Reply{Failure: answer(413, "too_large", "the request entity is too large")}
	}
	defer db.Sync()
	var got peer.Edited
	for i, e := range op.Docs {
		if f == WritesPart && i >= len(op.Docs)/2 {
			return peer.Reply{Failure: answer(500, "error", "timeout")}
		}
		d := peer.EditedDoc{ID: e.ID}
		doc, err := docs.ParseDocument(e.Body, docs.ReplicationMembers...)
		switch {
		case err != nil:
			d.Error, d.Reason = "bad_request", err.Error()
		case f == Conflict409:
			d.Error, d.Reason = docs.ErrConflict.Name, docs.ErrConflict.Reason
		case f == FailsSome && i%2 == 1:
			d.Error, d.Reason = "internal_server_error", "No DB shards could be opened."
		default:
			if w := db.Write([]docs.Edit{{Document: *doc}})[0]; w.Err != nil {
				d.Error, d.Reason = w.Err.Name, w.Err.Reason
			} else {
				d.Rev = w.Rev.String()
			}
		}
		got.Docs = append(got.Docs, d)
	}
	return peer.Reply{Result: got}
}
