package oracle

import "strings"

// Invariants are what must hold, as sentences by id: S while things happen, L after all trouble is over,
// B and P of the program itself.
var Invariants = map[string]string{
	"S1":  "No job is run by two live workers under one lock.",
	"S2":  "A worker that lost its job commits nothing for it any more.",
	"S3":  "A replication document or request that was accepted is there, and has its job.",
	"S4":  "A job whose document was deleted, or whose request was canceled, is gone, and stops running in a while.",
	"S5":  "A node runs no more than max_jobs, and takes none while it hands them back.",
	"S6":  "A rotation stops as many as there are jobs before them, no more than max_churn, and nobody while slots are free.",
	"S7":  "A job's state changes in the ways that there are, its document says the same, and it counts the workers that vanished with it.",
	"S8":  "The wait after a crash is within its bounds and kept, and crashes are forgotten after a healthy run only.",
	"S9":  "What accounts are charged is what their runs used, and what they owe is what they used while others waited.",
	"S10": "Usage decays as defined, and gives jobs their places.",
	"S11": "A checkpoint covers nothing that the target has not stored.",
	"S12": "Where the next run of a replication would begin, the target has everything before.",
	"S13": "Every leaf that the source offered is on the target, or was refused there.",
	"S14": "A job tells what its runs read, and what its target took and refused, no more and no less.",
	"S15": "No revision is invented or altered, and a database shows all that it has.",
	"S16": "The counters of a job never go back, and are those that its run told last.",
	"S17": "A transaction is as small as the store wants, carried out twice it leaves the same state, and a run or worker that is over leaves nothing behind.",
	"S18": "Of the jobs with one replication id at most one runs: the one that came first, until it is over.",
	"S19": "A write that happened is not answered with a conflict.",
	"S20": "A server that asked for quiet has it, and one that has not for long is not held back from.",
	"S21": "Checkpoints are written to both sides, cover what is done, and do not follow each other too soon.",
	"S22": "The job of a document or request whose replication is the same stays the same.",
	"S23": "A job tells of no fewer pending changes than there are.",
	"S24": "A run is of a job that the store gave to its worker, the only one for that time, and is not dropped before that is over.",
	"S25": "No worker is given up within its activity timeout, and none does anything afterwards.",
	"S26": "A worker whose heartbeats do not get through tries again soon, and drops its runs within its activity timeout.",
	"S27": "A run begins where the checkpoints on both sides last agree, or where its replication says when they never did.",
	"S28": "What failed is not asked for again at once, and later the more often it failed.",
	"S29": "What a job tells of its starts, ends and errors is what happened.",
	"S30": "A run does as its replication says: it asks for nothing that this rules out, for no more at once than this allows, and gives up after all the retries only.",
	"S31": "What many do at once, or one does regularly, is spread in time, so that they do not do it together.",
	"L1":  "When all trouble is over, everything arrives.",
	"L2":  "When slots are free, no job waits that could run.",
	"L3":  "No job stays running that nobody runs.",
	"L4":  "No job that is due stays in the queue.",
	"L5":  "The registry shows all nodes that live, as they are, and nobody else.",
	"L6":  "Jobs start and stop soon after their documents say so.",
	"L7":  "Checkpoints come as far as what was copied.",
	"L8":  "What a user writes arrives soon, and a checkpoint covers it not long after the interval.",
	"B1":  "Nothing waits busily.",
	"P1":  "Nothing panics, and nobody changes what a read returned.",
}

// Live says whether the violation is one of liveness: nothing went wrong, but something never came.
func (v *Violation) Live() bool { return strings.HasPrefix(v.ID, "L") }
