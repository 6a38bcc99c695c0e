package mutants

// checkpoints are bugs about what a checkpoint covers.
var checkpoints = []Mutant{
	{
		Name: "since-seq-ignored", File: "core/replication/start.go", What: "since_seq is ignored",
		Old: "\tif since == peer.Zero && r.plan.SinceSeq != \"\" {\n\t\tsince = r.plan.SinceSeq\n\t}\n",
		New: "",
	},
	{
		Name: "since-seq-always", File: "core/replication/start.go", What: "since_seq wins over the checkpoint",
		Old: "if since == peer.Zero && r.plan.SinceSeq != \"\" {",
		New: "if r.plan.SinceSeq != \"\" {",
	},
	{
		Name: "checkpoint-ahead", File: "core/replication/commit.go", What: "a checkpoint covers what was read, not what was copied",
		Old: "k.writing, k.covers, k.synced = k.through, k.rows, [2]bool{}",
		New: "k.writing, k.covers, k.synced = r.feed.since, k.rows, [2]bool{}",
	},
	{
		Name: "gaps-passed", File: "core/replication/batch.go", What: "the position moves to the end of a batch though one before is not done",
		Old: "\tkept := r.batches[:0:0]\n\tfor i, b := range r.batches {\n",
		New: "\tkept := r.batches[:0:0]\n\tfor i, b := range r.batches {\n\t\tif b.stage == done {\n\t\t\tr.commits.passed(b)\n\t\t}\n",
	},
	{
		Name: "checkpoints-rare", File: "core/replication/commit.go", What: "ten intervals pass between two checkpoints",
		Old: "\tk.next, k.look = r.now.Add(r.plan.CheckpointInterval),",
		New: "\tk.next, k.look = r.now.Add(10*r.plan.CheckpointInterval),",
	},
	{
		Name: "not-made-durable", File: "core/replication/commit.go", What: "checkpoints are written without asking the databases to make their writes durable",
		Old: "\tr.commits.step = syncing\n\tr.start(&call{op: peer.Commit{Side: peer.Source}, commits: true})\n\tr.start(&call{op: peer.Commit{Side: peer.Target}, commits: true})\n",
		New: "\tr.commits.step = syncing\n\tr.writeLogs()\n",
	},
	{
		Name: "checkpoint-on-target-only", File: "core/replication/commit.go", What: "a checkpoint is written to the target only",
		Old: "\tif on == peer.Target {\n\t\tk.step = writingSource\n\t\tr.putLog(peer.Source)\n\t\treturn\n\t}\n",
		New: "",
	},
	{
		Name: "idle-look-at-logs-only", File: "core/replication/look.go", What: "an idle run is content with its log, which may have come into another database",
		Old: "if !logs || known(r.sides[side].start) {",
		New: "if !logs {",
	},
	{
		Name: "filter-change-unnoticed", File: "core/replication/commit.go", What: "a checkpoint covers what was read with another filter",
		Old: "case now != r.filter:",
		New: "case now.Code == \"\":",
	},
	{
		Name: "filter-changed-back-unnoticed", File: "core/replication/commit.go", What: "a checkpoint covers what was read while the filter was another one for a while",
		Old: "case now != r.filter:",
		New: "case now.Code != r.filter.Code:",
	},
	{
		Name: "idle-look-removed", File: "core/replication/look.go", What: "an idle run never looks whether its databases are the same",
		Old: "\treturn k.look\n",
		New: "\treturn instant.Never\n",
	},
	{
		Name: "replaced-unnoticed", File: "core/replication/look.go", What: "a database that was made again is taken for the one before",
		Old: "return start != s.start && known(start) && known(s.start)",
		New: "return start == \"\" && known(s.start)",
	},
	{
		Name: "source-log-trusted", File: "core/checkpoint/compare.go", What: "the newest checkpoint of the source counts, whatever the target says",
		Old: "\ts, t := source.entries(), target.entries()\n",
		New: "\ts, t := source.entries(), source.entries()\n",
	},
	{
		Name: "run-begins-at-zero", File: "core/replication/start.go", What: "a run reads the changes from the beginning, whatever the checkpoints say",
		Old: "\tr.feed.begin(since)\n",
		New: "\tr.feed.begin(peer.Zero)\n",
	},
	{
		Name: "checkpoint-at-end-only", File: "core/replication/commit.go", What: "a continuous run writes a checkpoint when it ends only",
		Old: "\treturn k.next\n}",
		New: "\treturn instant.Never\n}",
	},
	{
		Name: "counters-begin-anew", File: "core/replication/start.go", What: "a run that goes on at a checkpoint counts from its numbers, not from the job's",
		Old: "r.info.Counters = r.info.Counters.Max(history[0].Counters)",
		New: "r.info.Counters = history[0].Counters",
	},
	{
		Name: "conflict-taken-for-own", File: "core/replication/commit.go", What: "a log that somebody else wrote counts as written",
		Old: "if !doc.Found || err != nil || log.SessionID != r.commits.log.SessionID {",
		New: "if !doc.Found || err != nil || log.SessionID == \"\" {",
	},
	{
		Name: "stop-without-checkpoint", File: "core/replication/commit.go", What: "a run that is stopped writes no checkpoint of what it has done",
		Old: "\tcase r.stopping || r.feed.over && len(r.batches) == 0:",
		New: "\tcase r.feed.over && len(r.batches) == 0:",
	},
	{
		Name: "checkpoints-without-end", File: "core/replication/commit.go", What: "rows that a checkpoint covers ask for another one, again and again",
		Old: "\tk.rows -= k.covers\n",
		New: "",
	},
	{
		Name: "checkpoints-unasked", File: "core/replication/commit.go", What: "use_checkpoints false is ignored",
		Old: "return r.plan.UseCheckpoints && k.moved",
		New: "return k.moved",
	},
	{
		Name: "history-begins-anew", File: "core/checkpoint/trail.go", What: "a run drops the checkpoints of earlier ones from the log",
		Old: "all := append(append([]Entry{}, own...), t.base...)",
		New: "all := append([]Entry{}, own...)",
	},
	{
		Name: "two-checkpoints-kept", File: "core/checkpoint/trail.go", What: "a run keeps its last two checkpoints in the log only",
		Old: "if len(own) < maxOwn && t.stays(k) {",
		New: "if len(own) < 2 && t.stays(k) {",
	},
}

// copying are bugs about documents on their way.
var copying = []Mutant{
	{
		Name: "batch-ends-with-answer", File: "core/replication/feed.go", What: "every batch of an answer ends with the answer's last sequence",
		Old: "r.queueBatch(rows[:n], rows[n-1].Seq)",
		New: "r.queueBatch(rows[:n], got.Rows[len(got.Rows)-1].Seq)",
	},
	{
		Name: "feed-over-early", File: "core/replication/feed.go", What: "a one-shot ends with the first part of the feed",
		Old: "f.over = f.caught && !r.plan.Continuous",
		New: "f.over = !r.plan.Continuous",
	},
	{
		Name: "broken-answer-skipped", File: "core/replication/call.go", What: "a read that goes on after a broken answer starts behind what was lost",
		Old: "reply.Failure, r.feed.resume = nil, r.now.Add(firstPause)",
		New: "reply.Failure, r.feed.resume, r.feed.since = nil, r.now.Add(firstPause), r.feed.goal",
	},
	{
		Name: "diff-half-used", File: "core/replication/batch.go", What: "half of the answer to _revs_diff is used",
		Old: "missing := reply.Result.(peer.Diff).Docs\n",
		New: "missing := reply.Result.(peer.Diff).Docs\n\tmissing = missing[:(len(missing)+1)/2]\n",
	},
	{
		Name: "conflicts-dropped", File: "core/replication/batch.go", What: "one revision of each document is fetched",
		Old: "for _, rev := range d.Missing {",
		New: "for _, rev := range d.Missing[:1] {",
	},
	{
		Name: "repeated-row-wins", File: "core/replication/batch.go", What: "of two rows for a document in one batch the later one counts",
		Old: "b.docs[i].Revs = union(b.docs[i].Revs, row.Revs)",
		New: "b.docs[i].Revs = row.Revs[:len(row.Revs)/2]",
	},
	{
		Name: "rest-not-asked-again", File: "core/replication/batch.go", What: "what _bulk_get left out is not asked for again",
		Old: "\tb.fetch = append(left, b.fetch...)\n",
		New: "\tif len(b.fetch) == 0 {\n\t\tb.fetch = left\n\t}\n",
	},
	{
		Name: "missing-revisions-forgotten", File: "core/replication/copy.go", What: "a revision that the source did not find is given up without a word",
		Old: "\tleft := c.lacking\n",
		New: "\tleft := c.lacking\n\tc.lacking = nil\n",
	},
	{
		Name: "partial-write-taken-for-done", File: "core/replication/batch.go", What: "a _bulk_docs that failed for good is taken for done",
		Old: "\t\tif f.Kind != peer.Status || f.Status != 413 {\n\t\t\tr.crash(trouble(op, f))\n\t\t\treturn\n\t\t}\n\t\tr.writeSmaller(b, group, op, f)\n",
		New: "\t\tif f.Kind == peer.Status && f.Status == 413 {\n\t\t\tr.writeSmaller(b, group, op, f)\n\t\t}\n",
	},
	{
		Name: "second-half-dropped", File: "core/replication/batch.go", What: "of a write that was too large the first half is repeated",
		Old: "\t\tr.write(b, group, op.Docs[n/2:])\n",
		New: "",
	},
	{
		Name: "bulk-refusals-ignored", File: "core/replication/batch.go", What: "documents that the target refused are counted as written",
		Old: "r.judge(b, group, op, reply.Result.(peer.Written).Refused)",
		New: "r.judge(b, group, op, reply.Result.(peer.Written).Refused[:0])",
	},
	{
		Name: "mishaps-left-out", File: "core/replication/batch.go", What: "a document that a target could not write is left out like one that it refused",
		Old: "if v.Error == \"unauthorized\" || v.Error == \"forbidden\" {",
		New: "if v.Error != \"\" {",
	},
	{
		Name: "refusal-counted-twice", File: "core/replication/info.go", What: "a document that the target does not take counts as two",
		Old: "\tr.info.Refused++",
		New: "\tr.info.Refused += 2",
	},
	{
		Name: "retries-at-once", File: "core/replication/policy.go", What: "what failed is repeated without a pause",
		Old: "first, growth := firstPause, time.Duration(2)",
		New: "first, growth := time.Duration(0), time.Duration(2)",
	},
	{
		Name: "pauses-kept", File: "core/ratelimit/ratelimit.go", What: "a server that asked to slow down is asked slowly for ever after",
		Old: "\tp.pause = shrunk(p.pause, now.Sub(p.updated))\n",
		New: "",
	},
	{
		Name: "lockout-counted-as-refusal", File: "core/replication/copy.go", What: "a document is left out because the target knows us no more",
		Old: "(!skippable(rev.Refused) || aboutUs(rev.Refused) && !c.admitted)",
		New: "!skippable(rev.Refused)",
	},
	{
		Name: "newer-leaf-is-progress", File: "core/replication/copy.go", What: "a copy that brings revisions again that nobody asked for is repeated for ever",
		Old: "\tif len(left) < len(op.Revs) {\n",
		New: "\tif len(got.Revs) > 0 {\n",
	},
	{
		Name: "doubts-wait-for-whole-answers", File: "core/replication/call.go", What: "a target that may know us no more is not opened as long as answers of the source break off",
		Old: "\tif c.obstacle != nil && skippable(c.obstacle) && ",
		New: "\tif c.obstacle != nil && r.stopping && ",
	},
	{
		Name: "refusals-are-no-progress", File: "core/replication/copy.go", What: "a copy is given up though each attempt brings a revision, as the target takes none",
		Old: "\tif len(left) < len(op.Revs) {\n",
		New: "\tif len(left) < len(op.Revs) && got.Revs[0].Refused == nil {\n",
	},
	{
		Name: "no-changes-untold-with-log", File: "core/replication/commit.go", What: "a replication whose filter let nothing through does not say that there was nothing to do",
		Old: "\tcase r.feed.rows == 0:\n",
		New: "\tcase r.feed.rows == 0 && r.commits.log.SessionID == \"\":\n",
	},
	{
		Name: "stub-sent-again", File: "core/replication/copy.go", What: "an attachment that the target lacks is sent as a stub again, for ever",
		Old: "\t\top.Since = nil\n\t\tc.op = op\n\t\tr.again(c, 0)\n",
		New: "\t\tc.op = op\n\t\tr.again(c, 0)\n",
	},
	{
		Name: "retry-after-ignored", File: "core/ratelimit/ratelimit.go", What: "Retry-After holds back the request that got it, and no other",
		Old: "\tp.notTill = max(p.notTill, now.Add(min(retryAfter, MaxRetryAfter)))\n",
		New: "",
	},
	{
		Name: "pending-null-as-0", File: "core/replication/feed.go", What: "a source that does not tell pending changes has none",
		Old: "\tcase got.Pending >= 0:\n\t\tf.pending = got.Pending\n",
		New: "\tcase got.Pending >= -1:\n\t\tf.pending = max(got.Pending, 0)\n",
	},
	{
		Name: "polls-without-pause", File: "core/replication/feed.go", What: "a source that answers long polls at once is asked without a pause",
		Old: "\tf.resume = r.now.Add(f.pause)\n",
		New: "",
	},
	{
		Name: "cut-polls-fail", File: "core/replication/policy.go", What: "a run ends when its long polls are cut a few times, however long they waited",
		Old: "if !is || !read.Wait || r.now.Sub(c.sent) < quietRead {",
		New: "if is || !read.Wait {",
	},
	{
		Name: "looks-without-rest", File: "core/replication/look.go", What: "an idle run looks after its databases all the time when its checkpoint interval is short",
		Old: "max(lookFactor*interval, leastLook)",
		New: "lookFactor*interval",
	},
	{
		Name: "count-dropped", File: "core/replication/feed.go", What: "how much is to come stays unknown when rows came while the source counted",
		Old: "	case p.Count < 0: // the",
		New: "	case p.Count < 0 || f.rows > f.counted: // the",
	},
	{
		Name: "part-taken-for-end", File: "core/replication/feed.go", What: "an answer with fewer rows than could be is taken for the end of the feed",
		Old: "f.caught = got.End && (",
		New: "f.caught = (got.End || len(got.Rows) < op.Limit) && (",
	},
	{
		Name: "moment-by-its-words", File: "core/replication/feed.go", What: "a source that answers long polls at once, each time in other words, is asked without a pause",
		Old: "case sameMoment(f.since, f.from):",
		New: "case f.since == f.from:",
	},
	{
		Name: "bodies-kept", File: "core/replication/batch.go", What: "bodies are not released when all of them were written",
		Old: "\t\tr.info.BytesWritten += int64(group.bytes)\n\t\tr.emit(Release{ID: group.id})\n",
		New: "\t\tr.info.BytesWritten += int64(group.bytes)\n",
	},
	{
		Name: "memory-leaks", File: "core/replication/batch.go", What: "bodies that were written still count as memory in use",
		Old: "\t\tr.memory -= group.bytes\n",
		New: "",
	},
	{
		Name: "copy-slots-leak", File: "core/replication/copy.go", What: "a copied document keeps its connection",
		Old: "\t\tr.finish(c)\n\t\tr.copies--\n",
		New: "\t\tr.finish(c)\n",
	},
	{
		Name: "bulk-get-unasked", File: "core/replication/batch.go", What: "use_bulk_get false is ignored",
		Old: "bulk := r.plan.UseBulkGet && r.skipBulk",
		New: "bulk := r.skipBulk",
	},
	{
		Name: "one-retry-less", File: "core/replication/policy.go", What: "a request is repeated once less than configured",
		Old: "c.failed > r.plan.Retries",
		New: "c.failed >= r.plan.Retries",
	},
	{
		Name: "throttled-answers-use-retries", File: "core/replication/policy.go", What: "answers 429 use up retries",
		Old: "\tif r.now.Sub(c.begin) >= patience {",
		New: "\tif c.answers >= r.plan.Retries {",
	},
	{
		Name: "progress-seldom", File: "core/replication/info.go", What: "a run that is busy tells how it stands as seldom as an idle one",
		Old: "if info.same(p.said) && r.now.Sub(p.last)",
		New: "if r.now.Sub(p.last)",
	},
	{
		Name: "ne-of-nothing", File: "core/mango/match.go", What: "$ne lets documents through that lack the field",
		Old: "\t\treturn missing && n.op == opExists && n.arg.Kind == ejson.False\n",
		New: "\t\treturn missing && (n.op == opNe || n.op == opExists && n.arg.Kind == ejson.False)\n",
	},
	{
		Name: "lt-takes-equal", File: "core/mango/match.go", What: "$lt lets equal values through",
		Old: "return n.compare(v, n.arg) < 0",
		New: "return n.compare(v, n.arg) <= 0",
	},
	{
		Name: "exceptions-stop-runs", File: "core/replication/policy.go", What: "a document over which the target's validation function fails ends the run, again and again",
		Old: "return f.Thrown()",
		New: "return false",
	},
}

// duplicates are bugs about jobs with one replication id.
var duplicates = []Mutant{
	{
		Name: "clocks-behind-end-waits", File: "core/jobstore/run.go", What: "a node whose clock is minutes behind ends waits that others gave",
		Old: "now.Add(s.Config.Backoff.Max+wrongClock)",
		New: "now.Add(s.Config.Backoff.Max)",
	},
	{
		Name: "dropped-in-the-way", File: "core/jobstore/claim.go", What: "a document fails for good because a job of a deleted database, not swept yet, has its replication",
		Old: "passing = dropped != nil",
		New: "passing = passing && dropped != nil",
	},
	{
		Name: "refused-goes-on", File: "core/node/run.go", What: "a run goes on though another has its replication",
		Old: "if !c.Refused {",
		New: "if !c.Refused || c.Passing {",
	},
	{
		Name: "claim-read-from-snapshot", File: "core/jobstore/claim.go", What: "two jobs claim a replication, each without seeing the other",
		Old: "\towner, err := tx.Get(s.claim.Pack(repID))\n\tif err != nil || owner == nil || string(owner) == jobID {",
		New: "\towner, err := tx.Snapshot().Get(s.claim.Pack(repID))\n\tif err != nil || owner == nil || string(owner) == jobID {",
	},
	{
		Name: "claim-not-taken", File: "core/jobstore/claim.go", What: "a job that knows its replication does not claim it again",
		Old: "\tif rec.RepID != repID {\n\t\tif err := s.dropClaim",
		New: "\tif rec.RepID == repID {\n\t\treturn nil\n\t} else if rec.RepID != repID {\n\t\tif err := s.dropClaim",
	},
	{
		Name: "claim-lost-by-crash", File: "core/jobstore/claim.go", What: "whoever waits after a crash loses its replication to another",
		Old: "other.State.Terminal() || other.RepID != repID {",
		New: "other.State.Terminal() || other.State == Crashing || other.RepID != repID {",
	},
	{
		Name: "claim-kept-when-over", File: "core/jobstore/claim.go", What: "a job that is over keeps others from its replication",
		Old: "other.State.Terminal() || other.RepID != repID {",
		New: "other.RepID != repID {",
	},
	{
		Name: "claim-leaked", File: "core/jobstore/store.go", What: "a job that is removed leaves its claim behind",
		Old: "\tif err := s.dropClaim(tx, jobID, rec.RepID); err != nil {\n\t\treturn err\n\t}\n",
		New: "",
	},
	{
		Name: "operand-not-normal", File: "core/repid/repid.go", What: "replications with different selectors have one id",
		Old: "\t\tt = terms{jsonText(normal, `{}`)}\n",
		New: "\t\tt = terms{jsonText(normal[:0:0], `{}`)}\n",
	},
}

// documents are bugs about replication documents and their jobs.
var documents = []Mutant{
	{
		Name: "last-numbers-lost", File: "core/jobstore/run.go", What: "a job that is over tells what its run said before the end",
		Old: "rec.Stats, rec.Result = StatsOf(end.Info), end.Result",
		New: "rec.Result = end.Result",
	},
	{
		Name: "crash-numbers-lost", File: "core/jobstore/run.go", What: "a job that crashes tells what its run said before the end",
		Old: "\t\tif stats != nil {\n\t\t\trec.Stats = *stats\n\t\t}\n\t\tif rec.Transient()",
		New: "\t\tif rec.Transient()",
	},
	{
		Name: "node-stays", File: "core/jobstore/run.go", What: "a job that waits says that it runs on a node",
		Old: "rec.State, rec.Node, rec.LastUpdated = Pending, \"\", now",
		New: "rec.State, rec.LastUpdated = Pending, now",
	},
	{
		Name: "state-not-written", File: "core/jobstore/run.go", What: "a document does not say that its job is over",
		Old: "\treturn s.writeTerminal(tx, rec, now)\n",
		New: "\treturn nil\n",
	},
	{
		Name: "removed-job-stays", File: "core/jobstore/document.go", What: "a document that is deleted leaves its job",
		Old: "\tif doc.Deleted {\n\t\treturn s.remove(tx, jobID)\n\t}\n",
		New: "\tif doc.Deleted {\n\t\treturn nil\n\t}\n",
	},
	{
		Name: "dropped-jobs-stay", File: "core/jobstore/sweep.go", What: "a database that is deleted leaves its jobs",
		Old: "\ttx.Set(s.dropped.Pack(instancePrefix(instance)), nil)\n",
		New: "",
	},
	{
		Name: "instance-ignored", File: "core/jobstore/document.go", What: "the end of a job reaches the document of that name in a database that was made again",
		Old: "\tif instancePrefix(db.Instance) != rec.Instance {\n\t\treturn nil\n\t}\n",
		New: "",
	},
	{
		Name: "change-not-followed", File: "core/jobstore/document.go", What: "a document whose replication changes keeps its job",
		Old: "if running != nil && spec.Equal(running, rep) {",
		New: "if running != nil {",
	},
	{
		Name: "touch-restarts", File: "core/jobstore/document.go", What: "any change of a document makes its job anew",
		Old: "if running != nil && spec.Equal(running, rep) {",
		New: "if running == nil && spec.Equal(running, rep) {",
	},
	{
		Name: "request-restarts", File: "core/jobstore/transient.go", What: "a request that is repeated makes its job anew",
		Old: "if running != nil && spec.Equal(running, rep) {",
		New: "if running == nil && spec.Equal(running, rep) {",
	},
	{
		Name: "cancel-ignored", File: "core/jobstore/transient.go", What: "a request that is canceled goes on",
		Old: "{ return s.remove(tx, jobID) }",
		New: "{ return nil }",
	},
	{
		Name: "reason-not-written", File: "core/jobstore/document.go", What: "a document that failed does not say why",
		Old: "\t\tmembers[\"_replication_state_reason\"] = text(rec.Reason)\n",
		New: "",
	},
	{
		Name: "terminal-forgotten", File: "core/jobstore/run.go", What: "a job of a request is forgotten as soon as it is over",
		Old: "rec.Expires = now.Add(s.Config.TransientMaxAge)",
		New: "rec.Expires = now",
	},
	{
		Name: "start-not-noted", File: "core/jobstore/run.go", What: "a job tells when it ran first, not when its run began",
		Old: "rec.State, rec.Node, rec.LastStart, rec.LastUpdated = Running, node, now, now",
		New: "rec.State, rec.Node, rec.LastUpdated = Running, node, now\n\t\t\tif rec.LastStart == 0 {\n\t\t\t\trec.LastStart = now\n\t\t\t}",
	},
	{
		Name: "error-stays", File: "core/jobstore/run.go", What: "a job that recovered tells its last error",
		Old: "r.ErrorCount, r.Error, r.Reason, r.Throttled = 0, \"\", \"\", false",
		New: "r.ErrorCount, r.Throttled = 0, false",
	},
	{
		Name: "slow-for-ever", File: "core/jobstore/run.go", What: "a job that was asked to slow down is slow for ever after",
		Old: "r.ErrorCount, r.Error, r.Reason, r.Throttled = 0, \"\", \"\", false",
		New: "r.ErrorCount, r.Error, r.Reason = 0, \"\", \"\"",
	},
	{
		Name: "history-keeps-oldest", File: "core/jobstore/record.go", What: "a long history loses the newest events",
		Old: "r.History = r.History[:min(len(r.History), max(limit, 1))]",
		New: "r.History = r.History[max(0, len(r.History)-max(limit, 1)):]",
	},
	{
		Name: "first-error-stays", File: "core/jobstore/run.go", What: "a job that crashes again tells why it crashed first",
		Old: "rec.State, rec.Node, rec.Error, rec.Reason, rec.Throttled = Crashing, \"\", t.Error, t.Reason, t.Throttled",
		New: "if rec.State, rec.Node, rec.Throttled = Crashing, \"\", t.Throttled; rec.Error == \"\" {\n\t\t\trec.Error, rec.Reason = t.Error, t.Reason\n\t\t}",
	},
	{
		Name: "result-lost", File: "core/jobstore/run.go", What: "the answer to a request is empty",
		Old: "rec.Stats, rec.Result = StatsOf(end.Info), end.Result",
		New: "rec.Stats = StatsOf(end.Info)",
	},
	{
		Name: "document-without-numbers", File: "core/jobstore/document.go", What: "a document that is completed does not say what was done",
		Old: "\t\tmembers[\"_replication_stats\"] = stats\n",
		New: "\t\t_ = stats\n",
	},
	{
		Name: "forgotten-early", File: "core/jobstore/sweep.go", What: "finished jobs of requests are forgotten at the next sweep",
		Old: "\tdue.End = s.expire.Pack(int64(now) + 1)\n",
		New: "",
	},
	{
		Name: "request-tried-again", File: "core/jobstore/run.go", What: "a request whose run crashes is tried again like a document",
		Old: "if rec.Transient() && !t.Throttled {",
		New: "if rec.Transient() && rec.ErrorCount > 2 && !t.Throttled {",
	},
	{
		Name: "finished-not-made-anew", File: "core/jobstore/document.go", What: "a document that is finished and submitted again keeps its finished job",
		Old: "\tif old != nil && !old.State.Terminal() {\n\t\trunning, err := s.Spec(tx, jobID)",
		New: "\tif old != nil {\n\t\trunning, err := s.Spec(tx, jobID)",
	},
	{
		Name: "workers-lost-kept", File: "core/jobstore/run.go", What: "workers that a job lost are held against it after a healthy run",
		Old: "\t\t\tif err := s.Jobs.Absolve(tx, jobID, lock); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n",
		New: "",
	},
	{
		Name: "numbers-of-another", File: "core/jobstore/claim.go", What: "a job that becomes another replication keeps the numbers of the one before",
		Old: "\t\tif rec.RepID != \"\" { // another replication now: its numbers begin anew\n\t\t\trec.Stats = Stats{}\n\t\t}\n",
		New: "",
	},
	{
		Name: "usage-kept", File: "core/jobstore/account.go", What: "what an account used is kept for ever",
		Old: "\t\t\ttx.ClearRange(kv.Range{Begin: all.Begin, End: s.usage.Pack(c.Account, int64(now.Add(-memory)))})\n",
		New: "",
	},
	{
		Name: "all-come-back-at-once", File: "core/backoff/backoff.go", What: "jobs that failed together come back together",
		Old: "return d - time.Duration(rng.Uint64n(uint64(quarter)+1))",
		New: "return d",
	},
	{
		Name: "spec-left", File: "core/jobstore/store.go", What: "a job that is removed leaves its replication, passwords included",
		Old: "\ts.clearSpec(tx, jobID)\n\t_, err",
		New: "\t_, err",
	},
}
