package mutants

// leases are bugs about who may work on a job.
var leases = []Mutant{
	{
		Name: "alone-and-waits", File: "core/node/lease.go", What: "a process that has the store to itself waits for its earlier lives as for others",
		Old: "lease.Expired || n.cfg.Exclusive || ",
		New: "lease.Expired || ",
	},
	{
		Name: "update-unlocked", File: "core/jobs/work.go", What: "progress is stored without a look at the lock",
		Old: "\tif _, err := q.held(tx, id, lock); err != nil {\n\t\treturn err\n\t}\n\tq.setData(tx, id, data)\n",
		New: "\tq.setData(tx, id, data)\n",
	},
	{
		Name: "lock-without-batch", File: "core/jobs/work.go", What: "a lock is compared by its worker, not by its accept",
		Old: "j.State != Running || j.Lock != lock {\n\t\treturn nil, fmt.Errorf(\"job %q: %w\", id, ErrHalt)",
		New: "j.State != Running || j.Lock.Worker != lock.Worker {\n\t\treturn nil, fmt.Errorf(\"job %q: %w\", id, ErrHalt)",
	},
	{
		Name: "requeue-unfenced", File: "core/jobs/work.go", What: "whoever ran a job may queue it again, also when it is another's by now",
		Old: "\told, err := q.held(tx, id, lock)\n\tif err != nil {\n\t\treturn err\n\t}\n\tq.setData(tx, id, data)\n",
		New: "\told, err := q.header(tx, id)\n\tif err != nil || old == nil {\n\t\treturn err\n\t}\n\tq.setData(tx, id, data)\n",
	},
	{
		Name: "heartbeat-of-the-dead", File: "core/jobs/lease.go", What: "a worker that was expired may send heartbeats",
		Old: "\tif err := q.checkLease(tx, worker); err != nil {\n\t\treturn 0, err\n\t}\n\tq.stamp(tx, worker, info)",
		New: "\tq.stamp(tx, worker, info)",
	},
	{
		Name: "lease-never-given-up", File: "core/node/lease.go", What: "a worker whose heartbeats do not get through goes on",
		Old: "\t\tn.loseLease(\"no heartbeat got through\")\n",
		New: "\t\tn.ends = n.clock.Steady.Add(n.granted)\n",
	},
	{
		Name: "lease-from-answer", File: "core/node/lease.go", What: "a lease counts from the answer to the heartbeat, not from when it was sent",
		Old: "\tn.ends = c.sent.Add(n.granted)\n\tif b.Calls",
		New: "\tn.ends = n.clock.Steady.Add(n.granted)\n\tif b.Calls",
	},
	{
		Name: "zombie-keeps-runs", File: "core/node/lease.go", What: "a worker that lost its lease forgets its runs, and does not stop them",
		Old: "\t\t\tn.charge(r)\n\t\t\tn.emit(KillRun{Run: r.id})\n\t\t}\n\t}\n\tn.runs = nil",
		New: "\t\t\tn.charge(r)\n\t\t}\n\t}\n\tn.runs = nil",
	},
	{
		Name: "expiry-ignores-beat", File: "core/jobs/lease.go", What: "a worker is expired though it has shown signs of life since it was judged",
		Old: "\t\t\tif err != nil || !bytes.HasPrefix(now, beat[:]) {",
		New: "\t\t\tif err != nil || !bytes.HasPrefix(now, beat[:0]) {",
	},
	{
		Name: "beat-of-first-look", File: "core/node/lease.go", What: "a monitor remembers the first heartbeat that it saw of a worker",
		Old: "if k.beat == o.beat {",
		New: "if k.beat[0] == o.beat[0] {",
	},
	{
		Name: "lease-read-from-snapshot", File: "core/jobs/lease.go", What: "an accept does not conflict with the expiry of its worker",
		Old: "\trow, err := tx.Get(q.worker.Pack(worker))\n\tif err != nil {\n\t\treturn err\n\t}\n\tif len(row) == 0 || row[0] != leaseLive {",
		New: "\trow, err := tx.Snapshot().Get(q.worker.Pack(worker))\n\tif err != nil {\n\t\treturn err\n\t}\n\tif len(row) == 0 || row[0] != leaseLive {",
	},
	{
		Name: "slot-never-freed", File: "core/node/run.go", What: "a run that ended while its job was taken away keeps its slot",
		Old: "\t\tn.halt(r, e.Text)\n\t\treturn\n\t}\n\tswitch c.req.(type) {",
		New: "\t\tif r.state != over {\n\t\t\tn.halt(r, e.Text)\n\t\t}\n\t\treturn\n\t}\n\tswitch c.req.(type) {",
	},
	{
		Name: "lost-not-counted", File: "core/jobs/lease.go", What: "workers that vanish are not counted against the jobs that they ran",
		Old: "to.State, to.Lock, to.Resubmit, to.Lost = Pending, Lock{}, false, old.Lost+1",
		New: "to.State, to.Lock, to.Resubmit = Pending, Lock{}, false",
	},
	{
		Name: "lost-at-accept", File: "core/jobs/work.go", What: "the workers that vanished with a job are forgotten when another takes it",
		Old: "to.State, to.Resubmit, to.Lock = Running, false, Lock{Worker: worker, Batch: d.Batch}",
		New: "to.State, to.Resubmit, to.Lost, to.Lock = Running, false, 0, Lock{Worker: worker, Batch: d.Batch}",
	},
	{
		Name: "never-absolved", File: "core/jobs/work.go", What: "workers that vanished count for ever against a job that runs well",
		Old: "\tto := *old\n\tto.Lost = 0\n\tq.move(tx, old, &to)\n\treturn nil\n",
		New: "\treturn nil\n",
	},
	{
		Name: "beat-row-left", File: "core/jobs/lease.go", What: "the heartbeat of a worker that is gone stays in the store",
		Old: "\ttx.Clear(q.beat.Pack(worker))\n",
		New: "",
	},
	{
		Name: "call-row-left", File: "core/jobs/lease.go", What: "the call counter of a worker that is gone stays in the store",
		Old: "\ttx.Clear(q.call.Pack(worker))\n",
		New: "",
	},
	{
		Name: "beat-pause-grows", File: "core/node/call.go", What: "a heartbeat that failed waits as long as other requests before the next attempt",
		Old: "\t\t\tc.pause = min(c.pause, maxBeatPause)\n",
		New: "\t\t\tc.pause = min(c.pause, maxPause)\n",
	},
	{
		Name: "accepting-for-ever", File: "core/node/lease.go", What: "a worker that lost its lease in the middle of an accept never accepts again",
		Old: "\tn.runs = nil\n\tn.accepting = false\n",
		New: "\tn.runs = nil\n",
	},
	{
		Name: "call-seen-before", File: "core/node/lease.go", What: "a worker waits for its call counter to differ from one that is long past",
		Old: "\tn.seen = o.Calls\n",
		New: "",
	},
	{
		Name: "renamed-by-the-dead", File: "core/node/member.go", What: "a node that was killed and comes back takes its own old lease for another node",
		Old: "|| o.beats < beatsOfALiving ||",
		New: "|| o.beats > beatsOfALiving ||",
	},
	{
		Name: "own-timeout-only", File: "core/node/lease.go", What: "a monitor goes by its own activity timeout alone, though the other's is longer",
		Old: "timeout := max(n.cfg.ActivityTimeout, o.info.ActivityTimeout)",
		New: "timeout := n.cfg.ActivityTimeout",
	},
	{
		Name: "awaiting-not-reset", File: "core/node/lease.go", What: "a worker waits once only for jobs that are taken from it",
		Old: "\tn.awaiting[e.Topic] = false\n",
		New: "\tn.awaiting[e.Topic] = n.lease == live && e.Topic == WorkerCalls\n",
	},
	{
		Name: "watch-never-armed", File: "core/node/accept.go", What: "a node that found no job does not wait for one",
		Old: "\t\tn.await(Await{Topic: ReadyJobs, Seen: a.Signal})\n\t\treturn",
		New: "\t\treturn",
	},
	{
		Name: "armed-too-late", File: "core/node/perform.go", What: "a node that waits for a change misses the one that came before it began to",
		Old: "if err != nil || counter != a.Seen {",
		New: "if err != nil || counter < a.Seen {",
	},
}

// results are bugs about commits of unknown outcome and transactions that meet.
var results = []Mutant{
	{
		Name: "unknown-taken-for-done", File: "core/kv/kv.go", What: "a commit of unknown result is taken for one that happened",
		Old: "\t\tif err == nil {\n\t\t\treturn result, nil\n\t\t}\n",
		New: "\t\tif err == nil || CodeOf(err) == CommitUnknownResult {\n\t\t\treturn result, nil\n\t\t}\n",
	},
	{
		Name: "accept-not-recognised", File: "core/jobs/work.go", What: "an accept that is repeated takes more jobs instead of those that it took",
		Old: "\tif len(taken) > 0 {\n",
		New: "\tif len(taken) > d.Max {\n",
	},
	{
		Name: "accept-number-kept", File: "core/node/accept.go", What: "the next accept has the number of the one before",
		Old: "\tn.batch++\n",
		New: "",
	},
	{
		Name: "charge-added", File: "core/jobstore/account.go", What: "a charge is added, so that a repeated one counts twice",
		Old: "tx.Max(s.usage.Pack(c.Account, int64(c.At), c.Worker), uint64(c.Used))",
		New: "tx.Add(s.usage.Pack(c.Account, int64(c.At), c.Worker), c.Used)",
	},
	{
		Name: "token-forgotten", File: "core/docs/update.go", What: "a repeated edit is not recognised as one's own",
		Old: "\t\tr.remember(e.Token, rev)\n",
		New: "",
	},
	{
		Name: "promotion-without-conflict", File: "core/jobs/create.go", What: "two nodes promote one job, each without seeing the other",
		Old: "due instant.Time) error {\n\told, err := q.header(tx, id)",
		New: "due instant.Time) error {\n\told, err := q.header(tx.Snapshot(), id)",
	},
	{
		Name: "fault-taken-for-halt", File: "core/node/perform.go", What: "a store that does not answer is taken for a job that was taken away",
		Old: "\treturn StoreDown\n",
		New: "\treturn Halted\n",
	},
	{
		Name: "conflict-not-repeated", File: "core/kv/error.go", What: "a transaction that conflicted is given up",
		Old: "case TransactionTooOld, FutureVersion, NotCommitted, CommitUnknownResult",
		New: "case TransactionTooOld, FutureVersion, CommitUnknownResult",
	},
}

// queue are bugs about where jobs wait.
var queue = []Mutant{
	{
		Name: "accept-of-any-size", File: "core/jobstore/run.go", What: "an accept takes as many jobs as were asked for, however large their records are",
		Old: "return size >= acceptBytes, nil",
		New: "return false, nil",
	},
	{
		Name: "row-left-behind", File: "core/jobs/record.go", What: "a job that is removed leaves its row in the index",
		Old: "\tif oldKey != nil && !bytes.Equal(key, oldKey) {\n",
		New: "\tif oldKey != nil && to != nil && !bytes.Equal(key, oldKey) {\n",
	},
	{
		Name: "signal-lost", File: "core/jobs/record.go", What: "nobody is told that a job has become ready",
		Old: "\t\tif to.Ready() && (old == nil || !old.Ready()) {\n\t\t\ttx.Add(q.signal, 1)\n\t\t}\n",
		New: "",
	},
	{
		Name: "call-lost", File: "core/jobs/create.go", What: "a worker is not called when its job is removed",
		Old: "\tif old.State == Running {\n\t\ttx.Add(q.call.Pack(old.Lock.Worker), 1)\n\t}\n",
		New: "",
	},
	{
		Name: "due-ignored", File: "core/jobs/create.go", What: "jobs are promoted before they are due",
		Old: "if instant.Time(due) > now || moved == limit {",
		New: "if moved == limit {",
	},
	{
		Name: "never-promoted", File: "core/node/accept.go", What: "jobs are promoted while somebody is hungry only",
		Old: "\tif n.due(&n.timers.promote, n.cfg.PollInterval) {\n\t\taskOnce(n, Promote{Limit: promoteLimit})",
		New: "\tif n.due(&n.timers.promote, n.cfg.PollInterval) && n.hungry {\n\t\taskOnce(n, Promote{Limit: promoteLimit})",
	},
	{
		Name: "waiting-counted-ready", File: "core/jobs/record.go", What: "waiting jobs are counted with the ready ones",
		Old: "\tif j.State == Pending && !j.Ready() {\n\t\treturn q.count.Pack(\"waiting\")\n\t}\n",
		New: "",
	},
	{
		Name: "transient-kept", File: "core/jobstore/sweep.go", What: "finished jobs of requests are never forgotten",
		Old: "if rec != nil && rec.Expires == instant.Time(at) {",
		New: "if rec != nil && rec.Expires < instant.Time(at) {",
	},
	{
		Name: "page-too-short", File: "core/jobs/create.go", What: "a page of jobs ends with the rows that were read first",
		Old: "\t\tat.Begin = q.job.Sub(list[len(list)-1].ID).Range().End\n\t}\n\treturn list",
		New: "\t\tat.Begin = q.job.Sub(list[len(list)-1].ID).Range().End\n\t\tbreak\n\t}\n\treturn list",
	},
	{
		Name: "taken-from-behind", File: "core/jobs/work.go", What: "the jobs that wait at the end of the queue are taken first",
		Old: "kv.RangeOptions{Limit: max(d.Max, d.Window)}",
		New: "kv.RangeOptions{Limit: max(d.Max, d.Window), Reverse: true}",
	},
	{
		Name: "maintenance-accepts", File: "core/node/node.go", What: "a node in maintenance goes on to take jobs",
		Old: "Has(Replication) && !n.cfg.Maintenance && !n.draining",
		New: "Has(Replication) && !n.draining",
	},
	{
		Name: "maintenance-keeps-runs", File: "core/node/node.go", What: "a node in maintenance keeps the jobs that it has",
		Old: "\tif s.Maintenance {\n\t\tn.stopAll()\n\t}\n",
		New: "",
	},
	{
		Name: "drain-gives-up", File: "core/node/node.go", What: "a node that drains leaves before its runs have ended",
		Old: "if !n.draining || len(n.runs) > 0 || n.accepting {",
		New: "if !n.draining || n.accepting {",
	},
	{
		Name: "maintenance-untold", File: "core/node/member.go", What: "others are told of a node in maintenance that it is up",
		Old: "\tcase n.cfg.Maintenance:\n\t\ti.Status = InMaintenance\n",
		New: "",
	},
	{
		Name: "slots-untold", File: "core/node/member.go", What: "others are told of the slots that a node may use as if it used them",
		Old: "Running: len(n.runs),",
		New: "Running: n.cfg.MaxJobs,",
	},
	{
		Name: "slow-stop", File: "core/node/run.go", What: "a run that does not stop is never killed",
		Old: "\t\tif r.state == stopping && n.clock.Steady >= r.deadline {",
		New: "\t\tif r.state == going && n.clock.Steady >= r.deadline && r.deadline > 0 {",
	},
	{
		Name: "calls-unheard", File: "core/node/lease.go", What: "a node that hears with its heartbeat that a job was taken from it waits to be notified",
		Old: "\tif b.Calls != n.seen {\n",
		New: "\tif b.Calls < n.seen {\n",
	},
	{
		Name: "settings-wait", File: "core/node/node.go", What: "a node goes by new settings at its next rotation",
		Old: "\tn.timers.rotate = min(n.timers.rotate, n.clock.Steady)\n",
		New: "",
	},
	{
		Name: "sweep-once", File: "core/node/call.go", What: "what is left after a sweep waits for the next one",
		Old: "\tcase Sweep:\n\t\tif !e.Result.(Progressed).Done {\n\t\t\tn.ask(q)\n\t\t}\n",
		New: "\tcase Sweep:\n",
	},
}

// scheduling are bugs about who gets a slot, and what it costs.
var scheduling = []Mutant{
	{
		Name: "account-never-left", File: "core/jobstore/run.go", What: "jobs that are over still count for their accounts",
		Old: "\tif left == jobs.Finished {\n",
		New: "\tif left != jobs.Finished {\n",
	},
	{
		Name: "churn-ignored", File: "core/schedule/rotation.go", What: "any number of jobs give way in one cycle",
		Old: "swaps := min(len(ready), l.MaxChurn-excess)",
		New: "swaps := len(ready)",
	},
	{
		Name: "late-accept-kept", File: "core/node/run.go", What: "jobs that come after max_jobs was lowered run all the same",
		Old: "case !n.accepts(), len(n.runs) > n.cfg.MaxJobs:",
		New: "case !n.accepts():",
	},
	{
		Name: "slot-too-many", File: "core/node/accept.go", What: "one job more than there are free slots is asked for",
		Old: "free := n.cfg.MaxJobs - len(n.runs)\n",
		New: "free := n.cfg.MaxJobs - len(n.runs) + 1\n",
	},
	{
		Name: "excess-kept", File: "core/schedule/rotation.go", What: "jobs above max_jobs keep their slots when that is lowered",
		Old: "excess := max(0, len(running)-l.MaxJobs)",
		New: "excess := max(0, len(running)-max(len(running), l.MaxJobs))",
	},
	{
		Name: "swap-for-worse", File: "core/schedule/rotation.go", What: "a job gives way to one that sorts behind it",
		Old: " && ready[0].Compare(r.Place) <= 0 {",
		New: " {",
	},
	{
		Name: "min-run-ignored", File: "core/schedule/rotation.go", What: "a job gives way as soon as it runs",
		Old: "r.Continuous && now.Sub(r.Since) >= l.MinRun && ",
		New: "r.Continuous && ",
	},
	{
		Name: "one-shots-first", File: "core/schedule/rotation.go", What: "of the jobs above max_jobs one-shots are stopped first",
		Old: "\t\t\tif a.Continuous {\n\t\t\t\treturn -1\n\t\t\t}\n\t\t\treturn 1",
		New: "\t\t\tif a.Continuous {\n\t\t\t\treturn 1\n\t\t\t}\n\t\t\treturn -1",
	},
	{
		Name: "free-slots-ignored", File: "core/schedule/rotation.go", What: "jobs give way though there are free slots for those that wait",
		Old: "\tready = ready[min(free, len(ready)):]",
		New: "\tready = ready[min(free*0, len(ready)):]",
	},
	{
		Name: "appetite-lost", File: "core/node/accept.go", What: "after an accept the slots that are left stay free until the next poll",
		Old: "\tn.batch++\n\tn.hungry = true\n",
		New: "\tn.batch++\n",
	},
	{
		Name: "one-shot-gives-way", File: "core/schedule/rotation.go", What: "one-shots give way too",
		Old: "if r.Continuous && now.Sub(",
		New: "if now.Sub(",
	},
	{
		Name: "last-turn-not-charged", File: "core/node/share.go", What: "what a run used since the last charge is lost when it ends",
		Old: "func (n *Node) turn(r *run) jobstore.Turn {\n\tn.charge(r)\n",
		New: "func (n *Node) turn(r *run) jobstore.Turn {\n",
	},
	{
		Name: "charged-twice", File: "core/node/share.go", What: "every charge covers the whole run",
		Old: "\tr.charged = n.clock.Steady\n",
		New: "",
	},
	{
		Name: "decayed-twice", File: "core/schedule/usage.go", What: "usage decays once more for every charge",
		Old: "for ; at < to && usage > 0; at += length {",
		New: "for ; at <= to && usage > 0; at += length {",
	},
	{
		Name: "key-upside-down", File: "core/schedule/decay.go", What: "who used most goes first",
		Old: "{ return now + Log2(min(p, maxPriority)) }",
		New: "{ return now - Log2(min(p, maxPriority)) }",
	},
	{
		Name: "shares-not-squared", File: "core/schedule/usage.go", What: "priorities grow by shares, not by their square",
		Old: "max(jobs, 0), shares*shares)",
		New: "max(jobs, 0), shares)",
	},
	{
		Name: "newcomer-not-counted", File: "core/jobstore/account.go", What: "a new job is not counted for its own place",
		Old: "\ta.Jobs++\n",
		New: "",
	},
	{
		Name: "tags-owe-nothing", File: "core/node/share.go", What: "what a job used while others waited moves no tags",
		Old: "\t\tr.owed += ran\n",
		New: "\t\tr.owed = 0\n",
	},
	{
		Name: "owes-all", File: "core/node/share.go", What: "what a job used moves tags, whether others waited or not",
		Old: "\tif n.share.waiting {\n\t\tr.owed += ran\n\t}\n",
		New: "\tr.owed += ran\n",
	},
	{
		Name: "drain-uncharged", File: "core/node/node.go", What: "a node that leaves does not charge what its runs used last",
		Old: "\t\tif n.storeCharges() {",
		New: "\t\tif n.draining || n.storeCharges() {",
	},
	{
		Name: "halt-uncharged", File: "core/node/run.go", What: "what a run used whose job was taken away is not charged",
		Old: "\t\tn.charge(r)\n\t\tn.emit(KillRun{Run: r.id})\n\t\tn.note(\"halted\"",
		New: "\t\tn.emit(KillRun{Run: r.id})\n\t\tn.note(\"halted\"",
	},
	{
		Name: "charges-forgotten-early", File: "core/node/share.go", What: "a charge is forgotten once it was stored, though its interval goes on",
		Old: "n.clock.Wall.Add(-ledgerMemory)",
		New: "n.clock.Wall",
	},
	{
		Name: "charged-rarely", File: "core/node/share.go", What: "charges are stored after thousands of intervals",
		Old: "%interval) * time.Microsecond",
		New: "%interval) * time.Millisecond",
	},
	{
		Name: "look-too-short", File: "core/node/share.go", What: "a rotation does not see the jobs behind those for which there are free slots",
		Old: "First: n.cfg.MaxChurn + max(0, n.cfg.MaxJobs-len(n.runs))",
		New: "First: n.cfg.MaxChurn",
	},
	{
		Name: "late-accept-loses-place", File: "core/node/run.go", What: "a job that comes too late goes to the head of the queue",
		Old: "r.finish(Requeue{Held: r.held, Turn: n.turn(r)})\n\tcase w.Lost",
		New: "r.finish(Requeue{Held: r.held})\n\tcase w.Lost",
	},
}

// backoff are bugs about how long jobs wait after crashes.
var backoff = []Mutant{
	{
		Name: "health-halved", File: "core/backoff/backoff.go", What: "crashes are forgotten after half the time",
		Old: "if ran > p.Health {",
		New: "if ran > p.Health/2 {",
	},
	{
		Name: "wait-unbounded", File: "core/backoff/backoff.go", What: "waits double beyond the greatest",
		Old: "\t\tif d > p.Max/2 {\n\t\t\treturn p.Max\n\t\t}\n",
		New: "",
	},
	{
		Name: "reset-at-start", File: "core/jobstore/run.go", What: "crashes are forgotten when the job starts again",
		Old: "rec.State, rec.Node, rec.LastStart, rec.LastUpdated = Running, node, now, now\n",
		New: "rec.State, rec.Node, rec.LastStart, rec.LastUpdated = Running, node, now, now\n\t\t\trec.heal()\n",
	},
	{
		Name: "never-healed", File: "core/jobstore/run.go", What: "a job that has run for long still shows its crashes",
		Old: "\t\t\trec.heal()\n\t\t\tif err := s.Jobs.Absolve(",
		New: "\t\t\tif err := s.Jobs.Absolve(",
	},
	{
		Name: "crashes-survive-edit", File: "core/jobstore/document.go", What: "the job of a changed document starts with the crashes of the one before",
		Old: "\trec.User = rep.User.Name\n",
		New: "\trec.User = rep.User.Name\n\tif old != nil {\n\t\trec.ErrorCount = old.ErrorCount\n\t}\n",
	},
	{
		Name: "crash-queued-at-once", File: "core/jobstore/run.go", What: "a job is ready again right after its crash",
		Old: "return s.queue(tx, jobID, lock, rec, turn, due, now)",
		New: "return s.queue(tx, jobID, lock, rec, turn, min(due, 0), now)",
	},
}

// clock are bugs about which clock is asked.
var clock = []Mutant{
	{
		Name: "silence-by-wall-clock", File: "core/node/lease.go", What: "how long a worker was silent is measured by a clock that jumps",
		Old: "since: n.clock.Steady}\n",
		New: "since: n.clock.Wall}\n",
	},
	{
		Name: "lease-by-wall-clock", File: "core/node/lease.go", What: "a worker's own lease is measured by a clock that jumps",
		Old: "n.clock.Steady >= n.ends {",
		New: "n.clock.Wall >= n.ends {",
	},
}
