package mutants

// unwatched are bugs of nodes, jobs and accounts that were planted in the same way.
var unwatched = []Mutant{
	{
		Name: "late-heartbeat-lands", File: "core/jobs/lease.go", What: "a heartbeat that lands late brings back what the worker said of itself before",
		Old: "\ttx.AddReadConflict(kv.KeyRange(key))\n\tvalue",
		New: "\tvalue",
	},
	{
		Name: "lease-end-unplanned", File: "core/node/node.go", What: "nobody wakes a node when its lease ends, and it notices when something else happens",
		Old: "at = min(at, t.beat, t.owned, t.rotate, n.ends)",
		New: "at = min(at, t.beat, t.owned, t.rotate)",
	},
	{
		Name: "old-list-outlives-lease", File: "core/node/lease.go", What: "a list of its jobs that a worker asked for under a lease which it has lost is taken for that of the present one",
		Old: "case Join, Beat, ListOwned, Accept, Resume, Retire:",
		New: "case Join, Beat, Accept, Resume, Retire:",
	},
	{
		Name: "own-past-left", File: "core/node/lease.go", What: "a worker does not give back what it ran under a lease that it has lost, and leaves that to others, who may not be there",
		Old: "if lease.Worker == n.worker {",
		New: "if n.wasOwn(lease.Worker) {",
	},
	{
		Name: "looks-for-dead-rarely", File: "core/node/lease.go", What: "monitors look for silent workers once in a timeout, so that jobs of a dead one wait for two or three",
		Old: "if n.due(&n.timers.scan, n.cfg.ActivityTimeout/beatsPerTimeout) {",
		New: "if n.due(&n.timers.scan, n.cfg.ActivityTimeout) {",
	},
	{
		Name: "polls-unless-waiting", File: "core/node/accept.go", What: "a node that waits to be told of jobs does not look by itself, so that one whose watch was lost hears of none for a minute",
		Old: "if n.due(&n.timers.poll, n.cfg.PollInterval) {",
		New: "if n.due(&n.timers.poll, n.cfg.PollInterval) && !n.awaiting[ReadyJobs] {",
	},
	{
		Name: "next-due-is-latest", File: "core/node/accept.go", What: "nobody looks for due jobs before the one is due that was next at the last look, however soon those are that crash meanwhile",
		Old: "n.timers.promote = min(n.timers.promote, n.clock.Steady.Add(wait))",
		New: "n.timers.promote = max(n.timers.promote, n.clock.Steady.Add(wait))",
	},
	{
		Name: "charged-by-steady", File: "core/node/share.go", What: "a node whose wall clock was set, or that was suspended, charges in the middle of intervals, when the last one has counted without it",
		Old: "left := time.Duration(interval-n.clock.Wall%interval)",
		New: "left := time.Duration(interval-n.clock.Steady%interval)",
	},
	{
		Name: "stored-by-now", File: "core/schedule/ledger.go", What: "what is used while a charge is being stored is taken for stored",
		Old: "e.stored = max(e.stored, c.Used)",
		New: "e.stored = e.Used",
	},
	{
		Name: "auto-below-floor", File: "core/schedule/policy.go", What: "priority_coeff auto keeps the short memory of a coefficient that was fixed before",
		Old: "if now >= max(floor, least) && now <= max(floor, 5*(least/2)) {",
		New: "if now > 0 && now >= least && now <= max(floor, 5*(least/2)) {",
	},
	{
		Name: "equals-keep-slots", File: "core/schedule/rotation.go", What: "a job does not give way to one of the same rank, which waits for ever under tags, as what runs pays at the end of its turn",
		Old: "ready[0].Compare(r.Place) <= 0 {",
		New: "ready[0].Compare(r.Place) < 0 {",
	},
	{
		Name: "tags-paid-once", File: "core/replicator/account.go", What: "two jobs of an account whose turns end together pay for one",
		Old: "tail, err := tx.Get(s.tail.Pack(account))",
		New: "tail, err := tx.Snapshot().Get(s.tail.Pack(account))",
	},
	{
		Name: "selectors-not-reserved", File: "core/replicator/store.go", What: "a job with a selector or a list of documents has no replication id until it runs, and fails for good if one that came later runs first",
		Old: "if rep.Filter.Kind == repdoc.FunctionFilter {",
		New: "if rep.Filter.Kind != repdoc.NoFilter {",
	},
	{
		Name: "pending-never-0", File: "core/replicator/record.go", What: "a job that has nothing to do any more tells that it does not know how much is to come",
		Old: "if i.ChangesPending >= 0 {",
		New: "if i.ChangesPending > 0 {",
	},
	{
		Name: "checkpoint-told-ahead", File: "core/replicator/record.go", What: "a job tells what it has copied as checkpointed_source_seq",
		Old: "CheckpointedSourceSeq: seqText(i.CheckpointedSeq),",
		New: "CheckpointedSourceSeq: seqText(i.ThroughSeq),",
	},
	{
		Name: "document-start-time", File: "core/replicator/document.go", What: "a completed document tells when its last run began as the start of its replication",
		Old: "StartTime: r.Created.ISO8601()",
		New: "StartTime: r.LastStart.ISO8601()",
	},
	{
		Name: "crashing-tells-numbers", File: "core/replicator/view.go", What: "_scheduler/jobs and _scheduler/docs do not tell why a job is crashing",
		Old: "case r.State == Crashing || r.State == Failed:",
		New: "case r.State == Failed:",
	},
	{
		Name: "duplicate-names-itself", File: "core/replicator/claim.go", What: "a document that fails since another has its replication names itself as the one in the way",
		Old: "d.Other.DocID, d.Other.Database)",
		New: "d.DocID, d.Other.Database)",
	},
}
