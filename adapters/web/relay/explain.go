package relay

import (
	"net/http"
	"strconv"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/config"
	"couchrelay/core/explain"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/ratelimit"
)

// explanation is why a job runs or does not, as GET /_scheduler/jobs/ID/explain shows it. Null is a member that does
// not apply, or is not known; then Unknown has it.
type explanation struct {
	ID       *string         `json:"id"` // of the replication, null until it is known
	Job      string          `json:"job"`
	State    jobstore.State  `json:"state"`
	Sentence string          `json:"sentence"`
	Why      []explain.Cause `json:"why"`

	turn

	Error      *problem    `json:"error"`
	Holds      []heldBy    `json:"holds"`
	Pause      *pause      `json:"pause"`
	WaitsFor   *behind     `json:"waits_for"`
	Node       *runner     `json:"node"`
	Slots      slots       `json:"slots"`
	Servers    []endpoint  `json:"servers"`
	Checkpoint checkpoints `json:"checkpoint"`
	Pending    *int64      `json:"pending_changes"`
	Refused    int64       `json:"refused"` // documents, which /failures lists
	Told       *timestamp  `json:"told"`    // when the run told the numbers
	Unknown    []unknown   `json:"unknown"`
}

type (
	// turn is where the job stands among others.
	turn struct {
		Position     *int       `json:"position"`      // among the ready jobs, from 1
		AheadBounded bool       `json:"ahead_bounded"` // more jobs are before it than were counted
		Wait         *float64   `json:"estimated_wait_seconds"`
		Account      account    `json:"account"`
		Weight       int64      `json:"weight"`
		Priority     *place     `json:"priority"`
		Due          *timestamp `json:"due"`
	}
	account struct {
		Name   string   `json:"name"`
		Policy string   `json:"policy"`
		Shares int64    `json:"shares"`
		Jobs   int64    `json:"jobs"`
		Usage  *float64 `json:"usage_seconds"`
	}
	place struct {
		Epoch int64 `json:"epoch"`
		Key   int64 `json:"key"`
	}
	problem struct {
		Error  string  `json:"error"`
		Reason string  `json:"reason"`
		Class  *string `json:"class"`
		Advice *string `json:"advice"`
		Count  int     `json:"count"`
	}
	heldBy struct {
		ID     string    `json:"id"`
		Reason string    `json:"reason"`
		By     *string   `json:"by"`
		At     timestamp `json:"at"`
	}
	behind struct {
		ID       string         `json:"id"` // of the replication
		Job      *string        `json:"job"`
		Database *string        `json:"database"`
		DocID    *string        `json:"doc_id"`
		State    jobstore.State `json:"state,omitempty"`
	}
	runner struct {
		Name     string    `json:"name"`
		Worker   string    `json:"worker"`
		Status   string    `json:"status"`
		LastSeen timestamp `json:"last_seen"`
		Running  int       `json:"running"`
		MaxJobs  int       `json:"max_jobs"`
		Stopping bool      `json:"stopping"`
	}
	slots struct {
		Nodes   int `json:"nodes"`
		MaxJobs int `json:"max_jobs"`
		Running int `json:"running"`
		Free    int `json:"free"`
	}
	endpoint struct {
		Side        string   `json:"side"`
		URL         string   `json:"url"`
		Server      string   `json:"server"`
		Holds       []string `json:"holds"`
		Checkpoints *bool    `json:"checkpoints"` // whether checkpoints are stored there
		// Limiter is which requests the node that runs the job holds back, null if that is not known.
		Limiter *[]limiterView `json:"limiter"`
	}
	checkpoints struct {
		SourceSeq *string `json:"source_seq"`
	}
	unknown struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
	}
)

// explainJob answers GET /_scheduler/jobs/ID/explain.
func (s *service) explainJob(q *web.Request, id string) error {
	if err := noParameters(q); err != nil {
		return err
	}
	if err := s.mustSteer(q, id); err != nil {
		return err
	}
	v, err := s.sightOf(q)
	if err != nil {
		return err
	}
	asking := explain.Asking{Now: s.now(), Sees: v.sees}
	if s.Pauses != nil {
		asking.Node, asking.Pauses = s.Host.NodeName(), s.Pauses()
	}
	settings := s.Host.Config(q.Context())["replicator"]
	asking.MaxChurn, _ = strconv.Atoi(settings["max_churn"].Value) // 0, which is unknown, for a host that does not tell
	var c config.Settings
	if c.Set("min_run_time_sec", settings["min_run_time_sec"].Value) == nil {
		asking.MinRun = c.Node.MinRun
	}
	found, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (*explain.Explanation, error) {
		return explain.Read(tx.Snapshot(), s.Store, id, asking)
	})
	if err != nil {
		return err
	}
	if found == nil {
		return noJob(id)
	}
	return q.SendJSON(http.StatusOK, explanationOf(found))
}

// explanationOf words an explanation.
func explanationOf(e *explain.Explanation) explanation {
	v := explanation{
		ID: orNull(e.View.RepID), Job: e.JobID, State: e.View.State, Sentence: e.Sentence(), Why: e.Why,
		turn: turnOf(e), Pause: steeringOf(e.JobID, e.View).Pause, Holds: []heldBy{},
		Slots:      slots{e.Slots.Nodes, e.Slots.MaxJobs, e.Slots.Running, e.Slots.Free},
		Checkpoint: checkpoints{orNull(string(e.Checkpoint))}, Pending: e.Pending, Refused: e.View.Refused,
		Told: orNever(e.Told), Unknown: []unknown{},
	}
	if p := e.Problem; p != nil {
		v.Error = &problem{p.Error, p.Reason, orNull(p.Class), orNull(p.Advice), p.Count}
	}
	for _, h := range e.Holds {
		v.Holds = append(v.Holds, heldBy{h.ID(), h.Reason, orNull(h.By), timestamp(h.At)})
	}
	if b := e.Behind; b != nil {
		v.WaitsFor = &behind{b.RepID, orNull(b.JobID), orNull(b.Database), orNull(b.DocID), b.State}
	}
	if n := e.Node; n != nil {
		v.Node = &runner{n.Name, n.Worker, n.Status, timestamp(n.Seen), n.Running, n.MaxJobs, n.Stop}
		if n.Expired {
			v.Node.Status = string(lost)
		}
	}
	for i, side := range []string{"source", "target"} {
		at := e.Endpoint[i]
		v.Servers = append(v.Servers,
			endpoint{side, at.URL, at.Server, at.Holds, at.Checkpoints, limiterOf(at.Limiter)})
	}
	for _, u := range e.Unknown {
		v.Unknown = append(v.Unknown, unknown(u))
	}
	return v
}

// limiterOf returns the member limiter of an endpoint; nil, which is null in JSON, if the pauses are not known.
func limiterOf(pauses []ratelimit.Kept) *[]limiterView {
	if pauses == nil {
		return nil
	}
	list := []limiterView{}
	for _, p := range pauses {
		list = append(list, limiterView{p.Endpoint, p.Method, p.Wait.Seconds(), p.Closed})
	}
	return &list
}

func turnOf(e *explain.Explanation) turn {
	t := turn{
		Wait: inSeconds(e.Wait), Due: orNever(e.Due), Weight: e.View.Weight,
		Account: account{
			e.Account.Name, e.Account.Policy.String(), e.Account.Shares, e.Account.Jobs, inSeconds(e.Account.Usage),
		},
	}
	if p := e.Position; p != nil {
		n := p.Ahead + 1
		t.Position, t.AheadBounded = &n, p.More
	}
	if p := e.Priority; p != nil {
		t.Priority = &place{p.Epoch, p.Key}
	}
	return t
}

func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	n := d.Seconds()
	return &n
}

// orNever is null for a moment that there is not.
func orNever(at instant.Time) *timestamp {
	if at == 0 {
		return nil
	}
	t := timestamp(at)
	return &t
}
