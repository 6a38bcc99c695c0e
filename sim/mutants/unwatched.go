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
		Name: "tags-paid-once", File: "core/jobstore/account.go", What: "two jobs of an account whose turns end together pay for one",
		Old: "tail, err := tx.Get(s.tail.Pack(account))",
		New: "tail, err := tx.Snapshot().Get(s.tail.Pack(account))",
	},
	{
		Name: "selectors-not-reserved", File: "core/jobstore/store.go", What: "a job with a selector or a list of documents has no replication id until it runs, and fails for good if one that came later runs first",
		Old: "if rep.Filter.Kind == spec.FunctionFilter {",
		New: "if rep.Filter.Kind != spec.NoFilter {",
	},
	{
		Name: "pending-never-0", File: "core/jobstore/record.go", What: "a job that has nothing to do any more tells that it does not know how much is to come",
		Old: "if i.ChangesPending >= 0 {",
		New: "if i.ChangesPending > 0 {",
	},
	{
		Name: "checkpoint-told-ahead", File: "core/jobstore/record.go", What: "a job tells what it has copied as checkpointed_source_seq",
		Old: "CheckpointedSourceSeq: seqText(i.CheckpointedSeq),",
		New: "CheckpointedSourceSeq: seqText(i.ThroughSeq),",
	},
	{
		Name: "document-start-time", File: "core/jobstore/document.go", What: "a completed document tells when its last run began as the start of its replication",
		Old: "StartTime: r.Created.ISO8601()",
		New: "StartTime: r.LastStart.ISO8601()",
	},
	{
		Name: "crashing-tells-numbers", File: "core/jobstore/view.go", What: "_scheduler/jobs and _scheduler/docs do not tell why a job is crashing",
		Old: "case r.State == Crashing || r.State == Failed:",
		New: "case r.State == Failed:",
	},
	{
		Name: "duplicate-names-itself", File: "core/jobstore/claim.go", What: "a document that fails since another has its replication names itself as the one in the way",
		Old: "d.Other.DocID, d.Other.Database)",
		New: "d.DocID, d.Other.Database)",
	},
	{
		Name: "repeated-accept-empty", File: "core/jobstore/run.go", What: "an accept that is repeated after it has committed brings nothing: its jobs run nowhere until the node looks through what it owns, one at each look, and it takes no others while one of them runs",
		Old: "\taccepted, err := s.Jobs.Accept(tx, worker, d, read)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tfor _, j := range accepted[len(list):] { // of an accept that is repeated\n\t\tif _, err := read(j); err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t}\n",
		New: "\tif _, err := s.Jobs.Accept(tx, worker, d, read); err != nil {\n\t\treturn nil, err\n\t}\n",
	},
	{
		Name: "replaced-run-goes-on", File: "core/node/run.go", What: "a node that is given a changed job while it runs the one before runs both, until it hears that the old one was taken away",
		Old: "\tfor _, old := range n.runs {\n\t\tif old.held.JobID == w.JobID { // its job was replaced\n\t\t\t// Reached: a job comes again while its old run is still here\n\t\t\tn.halt(old, \"replaced\")\n\t\t\tbreak\n\t\t}\n\t}\n",
		New: "",
	},
	{
		Name: "killed-run-untold", File: "core/node/run.go", What: "the end of a run that was killed as it did not stop is not stored: its job stays running, its slot in use, and a node that drains never leaves",
		Old: "\t\t\tr.finish(Requeue{Held: r.held, Turn: n.turn(r)})\n\t\t\tn.write(r)\n",
		New: "\t\t\tr.finish(Requeue{Held: r.held, Turn: n.turn(r)})\n",
	},
	{
		Name: "dropped-once", File: "core/jobstore/sweep.go", What: "of the jobs of a deleted database the first ten are removed, and the others run for ever",
		Old: "if len(list) < limit {",
		New: "if len(list) <= limit {",
	},
	{
		Name: "answered-from-before", File: "core/jobstore/transient.go", What: "a request that is repeated after it was completed, or failed, does nothing, and is answered what came of it then, until that is forgotten",
		Old: "\tif old != nil && !old.State.Terminal() {\n",
		New: "\tif old != nil {\n",
	},
	{
		Name: "expiry-past-heartbeat", File: "core/jobs/lease.go", What: "a worker is given up though its heartbeat arrives while that is being committed",
		Old: "now, err := tx.Get(q.beat.Pack(worker))",
		New: "now, err := tx.Snapshot().Get(q.beat.Pack(worker))",
	},
	{
		Name: "waits-both-timeouts", File: "core/node/lease.go", What: "monitors wait for the other's activity timeout after their own, so that the jobs of a dead worker lie for twice the time",
		Old: "timeout := max(n.cfg.ActivityTimeout, o.info.ActivityTimeout)",
		New: "timeout := n.cfg.ActivityTimeout + o.info.ActivityTimeout",
	},
	{
		Name: "next-due-untold", File: "core/jobs/create.go", What: "nobody is told when the next job is due, so that those that wait after a crash start with the next poll",
		Old: "\t\t\treturn moved, instant.Time(due), nil\n",
		New: "\t\t\tbreak\n",
	},
	{
		Name: "signal-for-new-only", File: "core/jobs/record.go", What: "nodes are told of new jobs, and not of those that others handed back, gave up or promoted: these wait for the next poll, whatever slots are free",
		Old: "if to.Ready() && (old == nil || !old.Ready()) {",
		New: "if to.Ready() && old == nil {",
	},
	{
		Name: "freed-slot-idle", File: "core/node/run.go", What: "the slot of a run that is over stays free until the next poll, though jobs wait",
		Old: "\tn.hungry = true\n",
		New: "",
	},
	{
		Name: "accounts-mixed-up", File: "core/jobstore/account.go", What: "of several accounts whose jobs a node runs all but the first are given the shares and numbers of jobs of others, or none, and their jobs cost nothing",
		Old: "a, row := &list[i], values[3*i:]",
		New: "a, row := &list[i], values[i:]",
	},
	{
		Name: "users-share-one-account", File: "core/jobstore/account.go", What: "the requests of all users are of one account, and the shares that a user was given do not count",
		Old: "return userAccount + r.User",
		New: "return userAccount",
	},
	{
		Name: "epochs-not-compared", File: "core/schedule/policy.go", What: "after a change of the policy nobody gives way to those that wait since before, or everybody to those that came since, as the keys of both are compared",
		Old: "return cmp.Or(cmp.Compare(p.Epoch, o.Epoch), cmp.Compare(p.Key, o.Key))",
		New: "return cmp.Compare(p.Key, o.Key)",
	},
	{
		Name: "looks-when-full-only", File: "core/node/share.go", What: "a node with free slots does not look at the queue: its runs owe for as long as jobs waited once, and those of accounts that it has not looked up keep their old places",
		Old: "\tif asking[Survey](n) {\n",
		New: "\tif asking[Survey](n) || len(n.runs) < n.cfg.MaxJobs {\n",
	},
	{
		Name: "running-on-the-dead", File: "core/jobstore/record.go", What: "a job that was given back after its worker had vanished is shown as running there until another one takes it",
		Old: "\tif j.State == jobs.Pending && r.State == Running {\n\t\tr.State, r.Node = Pending, \"\"\n\t}\n",
		New: "",
	},
	{
		Name: "renamed-under-old-name", File: "core/node/accept.go", What: "jobs of a node that was renamed, as another has its name, are said to run on that other",
		Old: "Node: n.name, Demand: d",
		New: "Node: n.cfg.Name, Demand: d",
	},
	{
		Name: "started-with-lease", File: "core/node/lease.go", What: "a node that lost its lease says that its process has just begun, and gives up its name to one that is younger",
		Old: "n.lease, n.seen = joining, 0",
		New: "n.lease, n.seen, n.started = joining, 0, n.clock.Wall",
	},
}
