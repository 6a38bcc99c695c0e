package mutants

// overlooked are bugs of replications that were planted by somebody who had read all invariants and looked for what none of
// them sees.
var overlooked = []Mutant{
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
		Name: "counted-each-time", File: "core/replication/feed.go", What: "a source has to count what is to come after every part of its answer",
		Old: "\tf.recount = r.now.Add(countEvery)\n",
		New: "",
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
		Name: "queued-copies-forgotten", File: "core/replication/batch.go", What: "a batch whose documents wait for others to be copied first is taken for done, and they are never copied",
		Old: "if b.pending == 0 && len(b.fetch) == 0 && len(b.copies) == 0 {",
		New: "if b.pending == 0 && len(b.fetch) == 0 {",
	},
	{
		Name: "failed-reads-keep-budget", File: "core/replication/batch.go", What: "bulk reads that failed still count as memory in use, until there is none for another and the run stands still",
		Old: "\tr.memory -= r.fetchBudget()\n",
		New: "\tif reply.Failure == nil {\n\t\tr.memory -= r.fetchBudget()\n\t}\n",
	},
	{
		Name: "peeled-one-by-one", File: "core/replication/batch.go", What: "of a write that is too large one document is taken off at a time, and the rest is sent again and again",
		Old: "\t\tr.write(b, group, op.Docs[:n/2])\n\t\tr.write(b, group, op.Docs[n/2:])\n",
		New: "\t\tr.write(b, group, op.Docs[:1])\n\t\tr.write(b, group, op.Docs[1:])\n",
	},
	{
		Name: "source-asked-who-we-are", File: "core/replication/copy.go", What: "when the target refuses a document for who we are the source is opened, so that a target that is locked for a while has its documents left out",
		Old: "r.start(&call{op: peer.Open{Side: peer.Target}, doubted: c})",
		New: "r.start(&call{op: peer.Open{Side: peer.Source}, doubted: c})",
	},
	{
		Name: "no-time-to-find", File: "core/replication/copy.go", What: "a source that lacks a revision which it announced is asked again at once, and the run ends when it is not there yet",
		Old: "\tr.again(c, missingPause)\n",
		New: "\tr.again(c, 0)\n",
	},
	{
		Name: "covers-what-came-since", File: "core/replication/commit.go", What: "a checkpoint covers what was copied after the databases were asked to make their writes durable, and after the filter was looked at",
		Old: "\tk := &r.commits\n\tsession := r.newSession()\n",
		New: "\tk := &r.commits\n\tk.writing, k.covers = k.through, k.rows\n\tsession := r.newSession()\n",
	},
	{
		Name: "commit-blind-to-replacement", File: "core/replication/commit.go", What: "a checkpoint does not notice that a database was made again or has forgotten, and a one-shot is completed whose documents are gone",
		Old: "\tif r.isOther(op.Side, reply.Result.(peer.Committed).InstanceStartTime) {\n\t\t// Reached: a database was made again under a run\n\t\tr.commitFailed(replaced(op.Side))\n\t\treturn\n\t}\n",
		New: "",
	},
	{
		Name: "stop-skips-filter", File: "core/replication/commit.go", What: "the last checkpoint of a run that is stopped covers what was read with another filter",
		Old: "\tif r.plan.Filter != nil {\n\t\tk.step = checkingFilter\n",
		New: "\tif r.plan.Filter != nil && !r.stopping {\n\t\tk.step = checkingFilter\n",
	},
	{
		Name: "committed-as-far-as-done", File: "core/replication/commit.go", What: "what was done while a checkpoint was written counts and is told as checkpointed",
		Old: "\tk.committed = k.writing\n",
		New: "\tk.committed = k.through\n",
	},
	{
		Name: "checkpoint-after-each-batch", File: "core/replication/commit.go", What: "a one-shot that has read all writes a checkpoint after each batch, without an interval",
		Old: "case r.stopping || r.feed.over && len(r.batches) == 0:",
		New: "case r.stopping || r.feed.over:",
	},
	{
		Name: "passed-over-unsaved", File: "core/replication/feed.go", What: "what a filter left out behind the last row is in no checkpoint, and is read by every run again",
		Old: "\t\tif !sameMoment(got.LastSeq, f.since) {\n\t\t\tr.queueBatch(nil, got.LastSeq)\n\t\t}\n",
		New: "",
	},
	{
		Name: "idle-pause-unbounded", File: "core/replication/feed.go", What: "a source that answers long polls at once is asked less and less often, down to once in hours and days",
		Old: "f.pause = min(max(2*f.pause, idlePauseMin), idlePauseMax)",
		New: "f.pause = max(2*f.pause, idlePauseMin)",
	},
	{
		Name: "count-ends-run", File: "core/replication/feed.go", What: "a run ends when its source does not count what is to come, which is of no use but to be told",
		Old: "\tcase !ok || reply.Failure != nil:\n",
		New: "\tcase reply.Failure != nil:\n\t\tr.crash(trouble(peer.CountPending{Since: f.since}, reply.Failure))\n\tcase !ok:\n",
	},
	{
		Name: "feed-resume-unplanned", File: "core/replication/run.go", What: "nobody wakes a run when the pause of its feed is over, and it reads on when something else happens",
		Old: "r.feed.notBefore(r.now), ",
		New: "",
	},
	{
		Name: "filter-retry-unplanned", File: "core/replication/run.go", What: "nobody wakes a run that has to read its filter function once more, and it waits for ever",
		Old: "\tcase idle, ended:\n",
		New: "\tcase idle, identifying, ended:\n",
	},
	{
		Name: "window-of-first-failure", File: "core/replication/policy.go", What: "pauses and the time for all attempts go on from the first failure of a request though it made progress since, so that a document of which each attempt brings a revision is given up, in every run",
		Old: "\tif c.failed == 0 {\n\t\tc.since, c.wait = r.now, first\n",
		New: "\tif c.since == 0 {\n\t\tc.since, c.wait = r.now, first\n",
	},
	{
		Name: "longest-pause-first", File: "core/replication/policy.go", What: "a single answer 429 holds a request back for 25 seconds, where the first pause is a quarter of one",
		Old: "\tif c.answers < 7 { // 250 ms doubled seven times is beyond throttleMax\n\t\tpause = throttlePause << c.answers\n\t}\n",
		New: "",
	},
	{
		Name: "lockout-retried", File: "core/replication/policy.go", What: "a server that does not accept our password is asked with it again and again, as those do whom servers lock out, and the user hears of it late",
		Old: "return f.Status == 408 || f.Status >= 500",
		New: "return f.Status == 401 || f.Status == 408 || f.Status >= 500",
	},
	{
		Name: "server-errors-as-missing", File: "core/replication/policy.go", What: "a database whose server answers 500 or 503 is said not to exist, and its POST /_replicate is answered 404",
		Old: "\tcase f.Status == 408 || f.Status >= 500:\n\t\treturn \"http_request_failed\"\n",
		New: "",
	},
	{
		Name: "read-total-by-log", File: "core/checkpoint/checkpoint.go", What: "docs_read of a job goes back to what its log says whenever a run begins",
		Old: "max(c.DocsRead, o.DocsRead),",
		New: "o.DocsRead,",
	},
	{
		Name: "requests-by-endpoints", File: "core/repid/repid.go", What: "a request with a filter replaces the one without, or with another, between the same databases",
		Old: "return hash(append(t, optionTerms(r, r.Filter.Name)...))",
		New: "return hash(t)",
	},
	{
		Name: "filter-text-not-in-id", File: "core/repid/repid.go", What: "a filter function that changes leaves the replication its id and checkpoint, and what the one before kept back never comes",
		Old: "t = terms{binaryTerm(function), jsonText(f.QueryParams, `{}`)}",
		New: "t = terms{binaryTerm(f.Name), jsonText(f.QueryParams, `{}`)}",
	},
}
