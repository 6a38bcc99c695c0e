package peers

import "couchrelay/core/peer"

// PutLog writes a log as a replication does, at once and without a fault. Tests of observers use it.
func PutLog(db *DB, id string, body []byte) {
	refusal := db.Deny[Logs]
	delete(db.Deny, Logs)
	_, _ = db.putLocal(peer.PutLocal{ID: id, Rev: db.LogRev(id), Body: body}) // with its revision nothing refuses it
	if refusal != nil {
		db.Deny[Logs] = refusal
	}
}
