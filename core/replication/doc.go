// Package replication is one run of one replication, as a stepped machine. The run identifies itself, opens
// both databases and finds the checkpoint that they have in common. Then it reads changes, asks which
// revisions the target lacks, copies those and writes checkpoints, all overlapping, until everything is
// copied (one-shots), until it is stopped, or until it cannot go on. It speaks the protocol of CouchDB 3's
// replicator in the words of package peer, and touches nothing itself.
//
// Comments name the sections of "CouchDB Replication Protocol" in CouchDB's documentation where they apply.
//
// # Obligations of the driver
//
// Package host keeps 1 and 4 for its drivers, but for the clock, and drops late replies for them.
//
//  1. Step is called with Begin once, then with one event at a time; now never goes back.
//  2. Every Call is answered by exactly one Reply with the same id, unless it was cancelled. A Reply to a cancelled
//     Call is ignored.
//  3. Step is called with Wake at Deadline, or any time.
//  4. After End no event comes any more. Calls that are still in flight may be dropped.
//  5. Every Refused is answered by Stored, and every ReadRefused by RefusedPage, unless the run ended.
//  6. Bodies that a FetchDocs kept stay until Release or the end of the run. A FetchDocs that failed keeps none.
//
// # The promise
//
// A checkpoint never covers a change that is not durably on the target. Batches are numbered in the order of
// the feed. A batch is done when each of its revisions was written, was found on the target, or was refused
// by the target and stored in the list of refused documents. A checkpoint takes the sequence at the end of
// the last batch before the first one that is not done, and it is written only after the target has made
// durable what was written to it.
package replication
