package mutants

// load are bugs about how much is done at once, and how often.
var load = []Mutant{
	{
		Name: "workers-ignored", File: "core/replication/batch.go", What: "any number of batches is under way",
		Old: "if busy++; busy > r.plan.Workers {",
		New: "if busy++; busy > r.plan.BatchSize*r.plan.Workers {",
	},
	{
		Name: "copies-at-once", File: "core/replication/batch.go", What: "copies are bounded by the batch's own number",
		Old: "\tslots := max(1, r.plan.Connections-r.plan.Workers-1)\n",
		New: "\tslots := max(1, r.plan.Connections)\n",
	},
	{
		Name: "budget-not-reserved", File: "core/replication/batch.go", What: "bodies that are asked for do not count as memory",
		Old: "\t\tr.memory += budget\n",
		New: "",
	},
	{
		Name: "throttled-not-slower", File: "core/replication/plan.go", What: "a run after 429 works on as many batches as before",
		Old: "\t\to.Workers, o.BatchSize = min(o.Workers, throttledWorkers), min(o.BatchSize, throttledBatch)\n",
		New: "\t\to.BatchSize = min(o.BatchSize, throttledBatch)\n",
	},
	{
		Name: "pause-never-grows", File: "core/replication/policy.go", What: "pauses between attempts stay the same",
		Old: "\tc.wait = min(growth*c.wait, maxPause)\n",
		New: "\tc.wait = min(growth*first, maxPause)\n",
	},
	{
		Name: "throttle-pause-same", File: "core/replication/policy.go", What: "pauses after 429 stay the same",
		Old: "\t\tpause = throttlePause << c.answers\n",
		New: "\t\tpause = throttlePause\n",
	},
	{
		Name: "interval-ignored", File: "core/replication/commit.go", What: "checkpoints follow each other at once",
		Old: "k.next, k.look = r.now.Add(r.plan.CheckpointInterval), nextLook",
		New: "k.next, k.look = r.now, nextLook",
	},
	{
		Name: "idle-checkpoints-often", File: "core/replication/commit.go", What: "a run whose feed moves without rows writes as many checkpoints as a busy one",
		Old: "\tcase k.rows == 0:\n\t\treturn k.next.Add((idleFactor - 1) * r.plan.CheckpointInterval)\n",
		New: "",
	},
	{
		Name: "no-startup-jitter", File: "core/node/accept.go", What: "runs of one accept start together",
		Old: "delay = time.Duration(n.rng.Uint64n(uint64(window) + 1))",
		New: "delay = 0 * window",
	},
	{
		Name: "in-step", File: "core/node/node.go", What: "what nodes do regularly has no jitter",
		Old: "\t*timer = n.clock.Steady.Add(n.jitter(every))\n",
		New: "\t*timer = n.clock.Steady.Add(every)\n",
	},
	{
		Name: "diff-skipped", File: "core/replication/ratio.go", What: "the target is asked what it lacks when it lacked nearly all",
		Old: "return a.value <= threshold ||",
		New: "return a.value > threshold ||",
	},
	{
		Name: "reads-ahead", File: "core/replication/feed.go", What: "the feed is read however much is still to be looked at",
		Old: "waiting > r.plan.Workers ||",
		New: "waiting > r.plan.Workers*r.plan.BatchSize*1000 ||",
	},
	{
		Name: "broken-read-again", File: "core/replication/call.go", What: "a read that broke off begins again where it began",
		Old: "len(got.Rows) > 0 && reply.Failure != nil {",
		New: "len(got.Rows) > 0 && reply.Failure != nil && c.failed > 0 {",
	},
	{
		Name: "conflict-gives-up", File: "core/replication/policy.go", What: "a run ends when another write of a document is in its way",
		Old: "if !transient(f) && !(copies && f.Status == 409) {",
		New: "if !transient(f) {",
	},
	{
		Name: "last-checkpoint-waits", File: "core/replication/commit.go", What: "a one-shot that has done all waits for the checkpoint interval",
		Old: "case r.stopping || r.feed.over && len(r.batches) == 0:",
		New: "case r.stopping:",
	},
	{
		Name: "forgets-wait-of-429", File: "core/replication/policy.go", What: "patience begins anew with every 429",
		Old: "\tif c.answers == 0 {\n\t\tc.begin = r.now\n\t}\n",
		New: "\tc.begin = r.now\n",
	},
}

// stored are bugs of the databases themselves: the service's own, and those of the servers in the simulator.
var stored = []Mutant{
	{
		Name: "conflicts-not-in-feed", File: "core/docs/changes.go", What: "the feed of a database tells of the winning revisions only, whatever was asked for",
		Old: "\t\tif q.Docs || q.Match != nil || q.AllDocs && c.conflicted {",
		New: "\t\tif q.Docs || q.Match != nil {",
	},
	{
		Name: "deletion-not-read", File: "core/docs/read.go", What: "a revision that deletes is read as one that does not",
		Old: "Deleted: w.Deleted, Body",
		New: "Body",
	},
	{
		Name: "chunk-again", File: "core/docs/split.go", What: "a long document is read with its second part in place of all others",
		Old: "keys[i] = chunkKey(key, i+1)",
		New: "keys[i] = chunkKey(key, 1)",
	},
}

// told are bugs about what jobs and logs tell.
var told = []Mutant{
	{
		Name: "docs-read-uncounted", File: "core/replication/batch.go", What: "documents read in bulk are not counted as read",
		Old: "\t\t\tr.info.DocsRead++\n\t\t\tr.info.BulkGetDocs++\n",
		New: "\t\t\tr.info.BulkGetDocs++\n",
	},
	{
		Name: "attempts-by-taken", File: "core/replication/batch.go", What: "bulk_get_attempts counts what came, not what was asked for",
		Old: "r.info.BulkGetAttempts += int64(len(op.Docs))",
		New: "r.info.BulkGetAttempts++",
	},
	{
		Name: "bytes-untold", File: "core/replication/batch.go", What: "bytes that are sent in bulk are not counted",
		Old: "\t\tr.info.BytesWritten += int64(group.bytes)\n",
		New: "",
	},
	{
		Name: "oldest-refusals", File: "core/replication/info.go", What: "refusals are listed from the first, and the latest are left out",
		Old: "append([]peer.Refusal{f}, r.info.Refusals...)",
		New: "append(r.info.Refusals[:len(r.info.Refusals):len(r.info.Refusals)], f)",
	},
	{
		Name: "no-changes-untold", File: "core/replication/commit.go", What: "the answer to a request that had nothing to do does not say so",
		Old: "case r.feed.rows == 0:",
		New: "case r.feed.rows < 0:",
	},
	{
		Name: "log-start-by-now", File: "core/replication/commit.go", What: "a log tells the end of a run as its start",
		Old: "StartTime: r.plan.Created.RFC1123()",
		New: "StartTime: r.now.RFC1123()",
	},
	{
		Name: "too-large-gives-up", File: "core/replication/policy.go", What: "a document that is too large for the target ends the run",
		Old: "case 413, 415:",
		New: "case 415:",
	},
	{
		Name: "create-params-lost", File: "core/replication/plan.go", What: "create_target_params are not passed on",
		Old: "CreateTarget: rep.CreateTarget, CreateParams: rep.CreateTargetParams,",
		New: "CreateTarget: rep.CreateTarget,",
	},
	{
		Name: "log-without-counters", File: "core/replication/commit.go", What: "a log tells no numbers",
		Old: "RecordedSeq: k.writing, Counters: r.info.Counters,",
		New: "RecordedSeq: k.writing,",
	},
	{
		Name: "source-seq-back", File: "core/replication/batch.go", What: "source_seq is the batch done last, not the newest",
		Old: "if b.number > r.furthest {",
		New: "if b.number != r.furthest {",
	},
	{
		Name: "added-not-noted", File: "core/jobstore/store.go", What: "the history of a job does not begin with added",
		Old: "\trec.note(s.Config.MaxHistory, Event{Type: \"added\", At: now})\n",
		New: "",
	},
	{
		Name: "stopped-not-noted", File: "core/jobstore/run.go", What: "the history of a job that was stopped lacks that",
		Old: "\t\trec.stop(s, now)\n\t\trec.State, rec.Node, rec.LastUpdated = Pending",
		New: "\t\trec.State, rec.Node, rec.LastUpdated = Pending",
	},
	{
		Name: "completed-with-crashes", File: "core/jobstore/run.go", What: "a job that is completed still tells its crashes",
		Old: "\t\trec.heal()\n\t\trec.stop(s, now)\n",
		New: "\t\trec.stop(s, now)\n",
	},
	{
		Name: "interval-in-seconds", File: "core/jobstore/record.go", What: "checkpoint_interval is told in seconds",
		Old: "rep.CheckpointInterval.Milliseconds()",
		New: "int64(rep.CheckpointInterval.Seconds())",
	},
	{
		Name: "user-forgotten", File: "core/jobstore/transient.go", What: "a request's job has no user",
		Old: "&Record{User: user}",
		New: "&Record{}",
	},
	{
		Name: "winners-not-stored", File: "core/spec/spec.go", What: "winning_revs_only is not stored",
		Old: "`json:\"winning_revs_only,omitempty\"`",
		New: "`json:\"-\"`",
	},
	{
		Name: "bulk-get-not-parsed", File: "core/spec/parse.go", What: "use_bulk_get is not read",
		Old: "r.UseBulkGet = p.boolean(\"use_bulk_get\", c.UseBulkGet)",
		New: "r.UseBulkGet = p.boolean(\"use_bulk_get\", c.UseBulkGet) || c.UseBulkGet",
	},
	{
		Name: "elder-renamed", File: "core/node/member.go", What: "of two nodes with one name the elder is renamed",
		Old: "o.info.Started > n.started ||",
		New: "o.info.Started < n.started ||",
	},
	{
		Name: "request-in-the-way", File: "core/node/run.go", What: "a document fails for good because a request has its replication",
		Old: "if c.Passing || r.transient {",
		New: "if r.transient {",
	},
	{
		Name: "requeue-numbers-lost", File: "core/node/run.go", What: "a job that was stopped tells what its run said before the end",
		Old: "r.finish(Requeue{Held: r.held, Stats: &stats, Turn: turn})",
		New: "r.finish(Requeue{Held: r.held, Turn: turn})",
	},
	{
		Name: "progress-of-before", File: "core/node/run.go", What: "what a run tells while its progress is being stored is lost",
		Old: "\t\tr.progress = &stats\n",
		New: "\t\tif r.progress == nil {\n\t\t\tr.progress = &stats\n\t\t}\n",
	},
	{
		Name: "document-user-forgotten", File: "core/jobstore/document.go", What: "the job of a document has no user",
		Old: "\trec.User = rep.User.Name\n",
		New: "",
	},
	{
		Name: "state-time-kept", File: "core/jobstore/document.go", What: "a document does not say since when its job is over",
		Old: "if before != string(rec.State) {",
		New: "if before != \"\" && before != string(rec.State) {",
	},
}

// kept are bugs about what a run keeps to while servers are slow, sources lack things, and nothing is wrong.
var kept = []Mutant{
	{
		Name: "filter-told-less", File: "core/spec/filter.go", What: "a filter is not told of a parameter that the feed knows",
		Old: "\t\tparams = append(params, peer.Param{Name: m.Name, Value: text})\n",
		New: "\t\tif m.Name != \"attachments\" {\n\t\t\tparams = append(params, peer.Param{Name: m.Name, Value: text})\n\t\t}\n",
	},
	{
		Name: "create-decides", File: "core/replication/start.go", What: "a target that the server does not make is taken for missing",
		Old: "t.Error != \"db_not_found\" {",
		New: "t.Error != \"\" {",
	},
	{
		Name: "log-of-another-trusted", File: "core/replication/start.go", What: "a log that was written for a database that is gone counts",
		Old: "if known(written) && known(s.start) &&",
		New: "if known(written) && !known(written) &&",
	},
	{
		Name: "first-log-of-another-trusted", File: "core/replication/start.go", What: "a first log that was written for a database that is gone counts where it is no cluster",
		Old: "&& (s.clustered || s.logRev == firstRev)",
		New: "&& s.clustered",
	},
	{
		Name: "logs-end-with-server", File: "core/replication/start.go", What: "logs count for nothing once a server that is no cluster was started again",
		Old: "&& (s.clustered || s.logRev == firstRev)",
		New: "",
	},
	{
		Name: "young-run-halted", File: "core/node/lease.go", What: "a job that came after the list of a worker's jobs was asked for is taken for lost",
		Old: "if r.since < c.sent && !r.writing()",
		New: "if !r.writing()",
	},
	{
		Name: "young-run-in-the-way", File: "core/schedule/rotation.go", What: "nobody gives way behind a run that has just begun",
		Old: "\t\tr := running[i]\n",
		New: "\t\tr := running[i]\n\t\tif now.Sub(r.Since) < l.MinRun {\n\t\t\tbreak\n\t\t}\n",
	},
	{
		Name: "filter-429-unsaid", File: "core/replication/start.go", What: "a run that ends since its filter was answered 429 does not say so",
		Old: ", Throttled: trouble(c.op, f).Throttled}",
		New: "}",
	},
	{
		Name: "commit-429-unsaid", File: "core/replication/commit.go", What: "a run that ends since its checkpoint was answered 429 does not say so",
		Old: "\t\tThrottled: f != nil && f.Kind == peer.Status && f.Status == 429,\n",
		New: "",
	},
	{
		Name: "bulk-429-copies", File: "core/replication/batch.go", What: "documents are read one by one when bulk reads are answered 429",
		Old: "return f.Status != 429",
		New: "return true",
	},
	{
		Name: "slow-bulk-ends-run", File: "core/replication/batch.go", What: "a run gives up when bulk reads break off or take too long",
		Old: "\tcase peer.Broken, peer.TimedOut, peer.Malformed:\n\t\treturn true\n\t}\n\treturn false\n}\n\n// sortFetched",
		New: "\t}\n\treturn false\n}\n\n// sortFetched",
	},
	{
		Name: "answered-copy-canceled", File: "core/replication/call.go", What: "a run that ends cancels a copy that was answered",
		Old: "c.id, c.due = 0, instant.Never // nothing",
		New: "c.due = instant.Never // nothing",
	},
	{
		Name: "missing-again-as-stubs", File: "core/replication/copy.go", What: "what the source lacked is asked for again without attachments",
		Old: "\top.Since = nil\n\tc.op = op\n\tr.again(c, missingPause)\n",
		New: "\tr.again(c, missingPause)\n",
	},
	{
		Name: "log-start-forgotten", File: "core/checkpoint/checkpoint.go", What: "old entries of a log lose when their job began",
		Old: "SessionID: e.SessionID, StartTime: e.StartTime, EndTime: e.EndTime,\n\t\t\tStartSeq: seq(",
		New: "SessionID: e.SessionID, EndTime: e.EndTime,\n\t\t\tStartSeq: seq(",
	},
	{
		Name: "progress-each-second", File: "core/replication/info.go", What: "a run tells of its progress every second",
		Old: "\tp.gap = min(2*p.gap, r.plan.ProgressInterval)\n",
		New: "",
	},
	{
		Name: "checkpoint-untold", File: "core/replication/commit.go", What: "a run tells of its checkpoint at its next progress",
		Old: "\tr.reports.next = r.now\n",
		New: "",
	},
}

// turns are bugs about who has a turn, and what it costs.
var turns = []Mutant{
	{
		Name: "newest-first", File: "core/schedule/rotation.go", What: "under fifo those that ran shortest give way",
		Old: "\t\treturn cmp.Compare(a.Since, b.Since)\n",
		New: "\t\treturn cmp.Compare(b.Since, a.Since)\n",
	},
	{
		Name: "grown-twice", File: "core/node/share.go", What: "a run's place grows by the whole run each time",
		Old: "\t\tr.grown = n.clock.Steady\n",
		New: "",
	},
	{
		Name: "fifo-by-start", File: "core/jobstore/account.go", What: "fifo queues by when jobs were made",
		Old: "\tcase order.Policy == schedule.FIFO:\n\t\there.Key = int64(now)\n",
		New: "\tcase order.Policy == schedule.FIFO:\n\t\there.Key = int64(rec.Created)\n",
	},
	{
		Name: "epoch-stays", File: "core/jobstore/order.go", What: "a change of the policy starts no epoch",
		Old: "\t\to.Epoch++\n",
		New: "",
	},
	{
		Name: "shares-not-cleared", File: "core/jobstore/order.go", What: "an account that lost its shares keeps them",
		Old: "\t\t\ttx.Clear(s.shares.Pack(account))\n",
		New: "\t\t\tcontinue\n",
	},
	{
		Name: "tags-cost-upside-down", File: "core/schedule/policy.go", What: "turns cost those more who have more shares",
		Old: "return mulDiv(max(d.Microseconds(), 0), DefaultShares, max(shares, 1))",
		New: "return mulDiv(max(d.Microseconds(), 0), max(shares, 1), DefaultShares)",
	},
	{
		Name: "tags-turn-unpaid", File: "core/jobstore/run.go", What: "the last turn of a job costs nothing",
		Old: "\tif _, err := s.settle(tx, rec, turn, now); err != nil {\n\t\treturn err\n\t}\n\tif rec.Transient()",
		New: "\tif rec.Transient()",
	},
	{
		Name: "tags-saved-up", File: "core/jobstore/account.go", What: "an account that had nothing to do saves up turns",
		Old: "\ttag = max(floor, number(tail))\n",
		New: "\ttag = max(floor*0, number(tail))\n",
	},
	{
		Name: "future-charges-kept", File: "core/jobstore/account.go", What: "charges of clocks that were ahead are kept",
		Old: "\t\t\ttx.ClearRange(kv.Range{Begin: s.usage.Pack(c.Account, int64(now.Add(memory))), End: all.End}) // of clocks that were wrong\n",
		New: "\t\t\t_ = all\n",
	},
}
