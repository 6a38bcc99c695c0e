package explain

import (
	"cmp"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/ratelimit"
	"couchrelay/core/schedule"
)

// Asking is the moment of an explanation, and what the process knows that gives it.
type Asking struct {
	Now instant.Time
	// MaxChurn is max_churn of the node that answers, taken for that of all; 0 if it is not known.
	MaxChurn int
	MinRun   time.Duration // min_run_time_sec of the same node, likewise
	// Node is the name of the node that answers, and Pauses are the requests that it holds back after answers 429.
	// Without a name they are not known.
	Node   string
	Pauses []ratelimit.Kept
	// Sees says of other jobs whether the asking user may know of them. Nil stands for a user who sees all.
	Sees func(*jobstore.Record) bool
}

// Read explains a job by its id or its replication's; nil when there is none, or its database is deleted. Give a
// snapshot reader: it reads much that changes all the time.
func Read(r kv.Reader, s *jobstore.Store, id string, asking Asking) (*Explanation, error) {
	jobID, rec, err := s.Find(r, id)
	if err != nil || rec == nil {
		return nil, err
	}
	job, err := s.Jobs.Get(r, jobID)
	if err != nil || job == nil {
		return nil, err
	}
	x := explaining{
		Explanation: &Explanation{JobID: jobID, At: asking.Now, View: rec.View()},
		asking:      asking, s: s, r: r, job: job, rec: rec,
	}
	for _, read := range []func() error{x.holds, x.nodes, x.behind, x.account, x.place, x.numbers, x.endpoints} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	x.problem()
	x.why()
	x.estimate()
	return x.Explanation, nil
}

// explaining is an explanation that is being read.
type explaining struct {
	*Explanation
	asking Asking
	s      *jobstore.Store
	r      kv.Reader
	job    *jobs.Job
	rec    *jobstore.Record
	order  schedule.Order
}

// over reports whether the job does not run again.
func (x *explaining) over() bool { return x.rec.State.Terminal() }

func (x *explaining) holds() error {
	list, err := x.s.Keys.Holds(x.r)
	for _, h := range list {
		if h.Matches(x.rec) && !x.over() {
			x.Holds = append(x.Holds, h)
		}
	}
	return err
}

// nodes reads who runs the job, and the slots of the nodes that take jobs.
func (x *explaining) nodes() error {
	members, err := node.Members(x.r, x.s)
	if err != nil {
		return err
	}
	for _, m := range members {
		i := m.Info
		if !m.Expired && i.Roles.Has(node.Replication) && i.Status == node.Up {
			x.Slots.Nodes++
			x.Slots.MaxJobs += i.MaxJobs
			x.Slots.Running += i.Running
			x.Slots.Free += max(0, i.MaxJobs-i.Running)
		}
		if x.job.State == jobs.Running && m.Worker == x.job.Lock.Worker {
			x.Node = &Node{
				Name: i.Name, Worker: m.Worker, Status: string(i.Status), Seen: i.Seen, Expired: m.Expired,
				Running: i.Running, MaxJobs: i.MaxJobs, Stop: x.job.Stop,
			}
		}
	}
	if x.job.State == jobs.Running && x.Node == nil {
		x.unknown("node", "no lease has the worker "+x.job.Lock.Worker+" of the job's lock")
	}
	return nil
}

// behind reads the job that this one waits for.
func (x *explaining) behind() error {
	if x.rec.WaitsFor == "" {
		return nil
	}
	x.Behind = &Behind{RepID: x.rec.WaitsFor}
	id, err := x.s.JobOf(x.r, x.rec.WaitsFor)
	if err != nil || id == "" {
		x.unknown("waits_for", "no job has the replication any more; this one is about to get it")
		return err
	}
	other, err := x.s.Record(x.r, id)
	if err != nil || other == nil {
		x.unknown("waits_for", "the job that had the replication is gone; this one is about to get it")
		return err
	}
	x.Behind.State = other.View().State
	if x.asking.Sees != nil && !x.asking.Sees(other) {
		return nil
	}
	x.Behind.JobID = id
	x.Behind.Database, x.Behind.DocID = other.Database, other.DocID
	return nil
}

func (x *explaining) account() (err error) {
	if x.order, err = x.s.Order(x.r); err != nil {
		return err
	}
	name := x.rec.Account()
	list, err := x.s.Accounts(x.r, []string{name}, x.order, x.asking.Now)
	if err != nil {
		return err
	}
	x.Account = Account{Name: name, Shares: list[0].Shares, Jobs: list[0].Jobs, Policy: x.order.Policy}
	if x.order.Needs() != schedule.NeedsUsage {
		x.unknown("account.usage_seconds", "policy "+x.order.Policy.String()+" does not go by usage, so none is "+
			"stored")
		return nil
	}
	usage := time.Duration(list[0].Usage) * time.Microsecond
	x.Account.Usage = &usage
	return nil
}

// place reads where the job stands in the queue.
func (x *explaining) place() error {
	if x.over() {
		return nil
	}
	p, err := jobstore.PlaceOf(x.job)
	if err != nil {
		return err
	}
	x.Priority = &p
	if x.job.State == jobs.Pending {
		x.Due = x.job.Due
	}
	if !x.job.Ready() {
		return nil
	}
	ahead, more, err := x.s.Keys.Jobs.Ahead(x.r, x.job, MaxAhead)
	x.Position = &Position{Ahead: ahead, More: more}
	return err
}

// numbers are those that the run told last.
func (x *explaining) numbers() error {
	stats := x.rec.Stats
	if stats.Untold() {
		for _, field := range []string{"checkpoint.source_seq", "pending_changes"} {
			x.unknown(field, "no run of the job has told any numbers yet")
		}
		return nil
	}
	x.Told, x.Checkpoint = x.rec.LastUpdated, stats.CheckpointedSourceSeq
	if x.Checkpoint == "" {
		x.unknown("checkpoint.source_seq", "no run of the job has told a checkpoint yet")
	}
	if x.Pending = stats.ChangesPending; x.Pending == nil {
		x.unknown("pending_changes", "the source does not tell how many changes there are")
	}
	return nil
}

func (x *explaining) endpoints() error {
	rep, err := x.s.Spec(x.r, x.JobID)
	if err != nil {
		return err
	}
	for i, url := range []string{x.rec.Source, x.rec.Target} {
		server, host := jobstore.Servers(url)
		e := Endpoint{URL: url, Server: server}
		for _, h := range x.Holds {
			if h.Server != "" && (h.Server == server || h.Server == host) {
				e.Holds = append(e.Holds, h.ID())
			}
		}
		if stores := i == 1 || !x.rec.Stats.SourceReadOnly; rep != nil {
			stores = stores && rep.UseCheckpoints
			e.Checkpoints = &stores
		}
		x.Endpoint[i] = e
	}
	if rep == nil {
		x.unknown("servers.checkpoints", "the replication of the job is not stored any more")
	}
	if x.over() {
		return nil
	}
	x.limiters()
	x.unknown("rates", "the store has the totals of all runs, and not when they grew")
	return nil
}

// limiters tells which requests of the job wait, if it runs on the node that is asked.
func (x *explaining) limiters() {
	switch {
	case x.job.State != jobs.Running || x.Node == nil:
		return
	case x.asking.Node != x.Node.Name:
		x.unknown("servers.limiter", "node "+x.Node.Name+", which runs the job, keeps the pauses between its requests "+
			"in its memory: ask that node")
		return
	}
	for i := range x.Endpoint {
		e := &x.Endpoint[i]
		e.Limiter = []ratelimit.Kept{}
		for _, p := range x.asking.Pauses {
			if database(p.Endpoint) == database(e.URL) {
				e.Limiter = append(e.Limiter, p)
			}
		}
	}
}

// database is a URL of one without its query and the slash at its end.
func database(url string) string {
	path, _, _ := strings.Cut(url, "?")
	return strings.TrimSuffix(path, "/")
}

// problem is the error of the last crash, until a healthy run makes up for it.
func (x *explaining) problem() {
	if x.rec.Error == "" {
		return
	}
	c, known := ClassOf(x.rec.Error)
	if !known {
		x.unknown("error.class", "the error "+x.rec.Error+" has no class")
	}
	x.Problem = &Problem{
		Error: x.rec.Error, Reason: x.rec.Reason, Class: c.Class, Advice: c.Advice,
		Count: cmp.Or(x.rec.ErrorCount, 1),
	}
	if x.rec.State == jobstore.Failed {
		x.Problem.Advice = c.OfFailed(x.rec.Transient())
	}
}
