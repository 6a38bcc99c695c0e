package mutants

// stranger1 are bugs planted by somebody who read the core and hoped that nobody would notice.
var stranger1 = []Mutant{
	{
		Name: "log-totals-forgotten", File: "core/replication/start.go", What: "a job that is made anew counts from 0, though its log goes on",
		Old: "\tif len(history) > 0 {\n\t\tr.info.Counters = r.info.Counters.Max(history[0].Counters)\n\t}\n",
		New: "",
	},
	{
		Name: "updates-count-as-absent", File: "core/replication/batch.go", What: "a target that has the documents, but not their latest revisions, is no longer asked what it has",
		Old: "\t\tif len(d.Ancestors) == 0 {\n\t\t\tabsent += int64(len(d.Missing))\n\t\t}\n",
		New: "\t\tabsent += int64(len(d.Missing))\n",
	},
	{
		Name: "asks-for-more-than-fits", File: "core/replication/batch.go", What: "every bulk read asks for all that is left of a batch, however little of it may come",
		Old: "n := min(len(b.fetch), max(1, budget/r.docSize))",
		New: "n := len(b.fetch)",
	},
	{
		Name: "bulk-tried-always", File: "core/replication/batch.go", What: "a source that cannot read in bulk is asked to for every batch",
		Old: "\t\tr.skipBulk.observe(1, 1, bulkDecay, r.now)\n",
		New: "",
	},
	{
		Name: "attachments-sent-whole", File: "core/replication/batch.go", What: "a document with attachments is copied with all of them, also those that the target has",
		Old: "\t\t\tuseless++\n\t\t\tr.queueCopy(b, peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}, Since: d.Since})\n",
		New: "\t\t\tuseless++\n\t\t\tr.queueCopy(b, peer.CopyDoc{ID: d.ID, Revs: []string{d.Rev}})\n",
	},
	{
		Name: "obstacle-forgets-revisions", File: "core/replication/copy.go", What: "a copy that the target did not take is repeated without saying which revisions",
		Old: "if !whole || c.obstacle != nil {",
		New: "if !whole {",
	},
	{
		Name: "deletion-taken-for-missing", File: "core/replication/copy.go", What: "when the source is deleted under a copy, the run waits, and blames the source for revisions that it lacks",
		Old: "\t\tif f.Reason == \"Database does not exist.\" || f.Reason == \"no_db_file\" {\n\t\t\t// Reached: a source is deleted while documents are copied\n\t\t\tr.crash(Trouble{Error: \"db_not_found\", Reason: f.String()})\n\t\t\treturn\n\t\t}\n",
		New: "",
	},
	{
		Name: "lack-remembered", File: "core/replication/call.go", What: "a revision that was missing once counts as missing though the second answer has it",
		Old: "\tc.obstacle, c.lacking = nil, nil\n",
		New: "\tc.obstacle = nil\n",
	},
	{
		Name: "window-of-attempt", File: "core/replication/policy.go", What: "the time for all attempts of a request is measured from the start of the last one, and never over",
		Old: "r.now.Sub(c.since) >= retryWindow",
		New: "r.now.Sub(c.sent) >= retryWindow",
	},
	{
		Name: "rows-meanwhile-forgotten", File: "core/replication/commit.go", What: "rows that are done while a checkpoint is written wait for the next one as long as none",
		Old: "\tk.rows -= k.covers\n",
		New: "\tk.rows = 0\n",
	},
	{
		Name: "start-seq-by-last", File: "core/replication/commit.go", What: "an entry of a log tells the checkpoint before as the place where the run began",
		Old: "StartSeq: k.start,",
		New: "StartSeq: k.committed,",
	},
	{
		Name: "flat-from-oldest", File: "core/checkpoint/checkpoint.go", What: "a log of doc_ids tells the numbers of its oldest entry as those of now",
		Old: "e := &l.History[0]",
		New: "e := &l.History[len(l.History)-1]",
	},
	{
		Name: "full-poll-taken-for-caught", File: "core/replication/feed.go", What: "after a long poll as long as may be nothing is said to be to come",
		Old: "f.caught = got.End && (!op.Wait || len(got.Rows) < op.Limit)",
		New: "f.caught = got.End",
	},
	{
		Name: "counted-each-time", File: "core/replication/feed.go", What: "a source has to count what is to come after every part of its answer",
		Old: "\tf.recount = r.now.Add(countEvery)\n",
		New: "",
	},
	{
		Name: "older-log-overlooked", File: "core/replication/look.go", What: "an idle run is content with any log, also with that of a database that was put back",
		Old: "if !doc.Found || err != nil || log.SessionID != r.sides[on].log.SessionID {",
		New: "if !doc.Found || err != nil || log.SessionID == \"\" {",
	},
	{
		Name: "idle-reports-go-on", File: "core/replication/info.go", What: "a run that has been idle for long tells in every interval that nothing has changed",
		Old: "p.said, p.last = info, r.now",
		New: "p.said = info",
	},
	{
		Name: "stop-cancels-checkpoint", File: "core/replication/run.go", What: "a run that is stopped while it writes a checkpoint gives that up, and waits for it until it is killed",
		Old: "r.cancelCalls(func(c *call) bool { return !c.commits })",
		New: "r.cancelCalls(func(*call) bool { return true })",
	},
	{
		Name: "burst-counted-each", File: "core/ratelimit/ratelimit.go", What: "each of many answers 429 at once stretches the pause",
		Old: "if p.updated == 0 || now.Sub(p.updated) > Sensitivity {",
		New: "if p.updated == 0 || now.Sub(p.updated) > 0 {",
	},
	{
		Name: "long-quiet-forgotten", File: "core/ratelimit/ratelimit.go", What: "a Retry-After of minutes is forgotten after 50 seconds",
		Old: "return now.Sub(p.updated) > Expiry && p.notTill <= now",
		New: "return now.Sub(p.updated) > Expiry",
	},
	{
		Name: "quiet-ended-by-success", File: "core/ratelimit/ratelimit.go", What: "an answer to a request that was under way ends the quiet that a server has asked for",
		Old: "if p.pause == 0 && p.notTill <= now {",
		New: "if p.pause == 0 {",
	},
	{
		Name: "since-seq-shares-id", File: "core/repid/repid.go", What: "a replication with since_seq and one from the beginning have one id, and one checkpoint",
		Old: "\tif r.SinceSeq != nil {\n\t\tt = append(t, jsonText(r.SinceSeq, `null`))\n\t}\n",
		New: "",
	},
	{
		Name: "once-ends-continuous", File: "core/repid/repid.go", What: "a request to replicate once replaces the continuous replication of the same databases",
		Old: "binaryTerm(user), binaryTerm(extension(r))}",
		New: "binaryTerm(user)}",
	},
	{
		Name: "edits-counted-as-documents", File: "core/docs/record.go", What: "doc_count grows with every edit",
		Old: "\tdelta.move(r.known, r.alive, -1)\n",
		New: "",
	},
	{
		Name: "deletion-wins", File: "core/docs/revtree/tree.go", What: "a document with a conflict that is not deleted is deleted when the deletion is newer",
		Old: "\tif a.Deleted != b.Deleted {\n\t\tif a.Deleted {\n\t\t\treturn 1\n\t\t}\n\t\treturn -1\n\t}\n",
		New: "",
	},
	{
		Name: "born-again-at-one", File: "core/docs/update.go", What: "a deleted document that is written again does not follow from its deletion, and conflicts when it is as it first was",
		Old: "\tif winner, exists := r.tree.Winner(); exists && near == nil {\n\t\tparent = winner.Rev // a deleted document begins anew where it ended\n\t}\n",
		New: "",
	},
}
