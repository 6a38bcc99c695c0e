// Package follow runs the replication documents of databases of a CouchDB where they are: people and programs keep
// writing there. Each followed database has a mirror, a replicator database of the store, whose documents become jobs
// like all others; and each has a job of its own, of the type follow, which brings changes into the mirror and the
// states of replications back into the documents.
//
// A Worker is the stepped machine of one process. It has a lease, takes jobs of the databases that its configuration
// names, and runs each in two halves, each with one thing under way at a time. Inbound reads the changes of the
// followed database and applies them to the mirror, in the transaction that stores how far it is. Outbound looks at
// the changes of the mirror, and writes states that differ into the documents, as ordinary edits of the revision that
// was applied last: so nothing is written over, and what came in between is applied first.
//
// # Rows, below the root (type Keys)
//
//	("jobs", "follow", ...)     package jobs: the queue; the id of a job is the name of its mirror
//	("follow", job, "doc", id)  a document of the followed database, as it was applied last; see row
//	("follow", job, "due", id)  a document whose state is to be written back, or was and has not come by the feed
//
// # Whose write was it
//
// A change of the followed database comes from a user, or is a write of ours. What a row says decides: a revision that
// is known, or that ours was written over, is nothing new; the state that it lacks in the second case is written again.
// One whose body is the same, but for the state, is ours if it has the state that was sent last, even when the answer
// got lost, and its generation can be that write's. With the same body a state that is gone starts the replication
// again, as in CouchDB, and a terminal one that we did not write ends it, also if we would refuse the document.
// Everything else is an edit.
package follow
