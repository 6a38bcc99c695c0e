// Package capture makes a workload of what a service does: of a running CouchDB or couchrelay, by its
// monitoring endpoints (Server), or of a recorded log (Log). The workload begins at the first look, or with the
// log. What a service does not tell is estimated; the notes of a capture say what, and by which numbers.
//
//	rate     what came at the source between two looks, by the time between them: what was done, and by how
//	         much more is pending. Of jobs that did not run in both looks, and with one look: all that was ever
//	         done, by the age of the job. Then backlogs of the first day count as changes that came, and
//	         counters that outlive a job (they do, in checkpoints) make rates too high.
//	speed    what was done while many changes were pending, by the time for it; the median of all jobs for those
//	         of which that is not known, or 50 changes a second.
//	backlog  the changes pending at the first look; of a one-shot that tells none, the median of the one-shots
//	         that do or that have completed, or 10,000.
//	startup  the time from the start of a run to the first documents that the target has taken, the median of
//	         a job's starts (Log); monitoring does not tell it, so Server takes 2 s.
//	mtbf     the time that a job ran, by its crashes, as far as its history or the log goes. It does not tell
//	         crashes of the job from those of a server, so outages of the past become crashes at random.
//	server   one for each host and port of a source; there are no outages.
//
// Jobs that a couchrelay shows as paused or held, or as waiting while another job has their replication, want no slot,
// and are no part of the workload of Server. Weights are those that the service tells.
//
// A captured workload has no hosts, URLs or errors. Names of databases, users and documents are replaced by
// numbers, the same throughout a capture, unless Options.Names is set. Nothing that is read with credentials
// in it (documents, headers) is kept.
package capture
