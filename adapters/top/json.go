package top

import (
	"encoding/json"
	"time"
)

// picture is what the view shows, for programs.
type picture struct {
	Time    time.Time        `json:"time"`
	Server  string           `json:"server"`
	Problem string           `json:"problem,omitempty"`
	Nodes   []Node           `json:"nodes"`
	Jobs    map[string]int64 `json:"jobs"`  // by state; null if they are not known
	Rates   *rates           `json:"rates"` // null before the second answer
	Total   *int64           `json:"total_rows"`
	Rows    []jsonRow        `json:"rows"`
}

// rates are those of the node that is asked, over the last 15 seconds.
type rates struct {
	Docs      float64 `json:"docs_per_second"`
	Bytes     float64 `json:"bytes_per_second"`
	Starts    float64 `json:"starts_per_second"`
	Crashes   float64 `json:"crashes_per_second"`
	Throttled float64 `json:"throttled_per_second"`
}

type jsonRow struct {
	Job      string   `json:"job"`
	ID       *string  `json:"id"`
	DocID    *string  `json:"doc_id"`
	Database *string  `json:"database"`
	State    string   `json:"state"`
	Rate     *float64 `json:"docs_per_second"`
	Pending  *int64   `json:"changes_pending"`
	Errors   int64    `json:"errors"`
	Problem  string   `json:"problem,omitempty"`
	Source   *string  `json:"source"`
	Target   *string  `json:"target"`
	Node     *string  `json:"node"`
	Started  string   `json:"start_time"`
}

// JSON is the picture as one object.
func (m *Model) JSON(now time.Time) ([]byte, error) {
	p := picture{Time: now.UTC().Truncate(time.Millisecond), Server: m.server, Problem: m.Problem(), Nodes: m.nodes,
		Jobs: m.figures.jobs, Total: m.table.Total, Rows: []jsonRow{}}
	if len(m.rates) > 1 {
		per := func(of func(Counters) float64) float64 {
			r, _ := m.rates.rate(of)
			return r
		}
		p.Rates = &rates{
			Docs:      per(func(c Counters) float64 { return c.Docs }),
			Bytes:     per(func(c Counters) float64 { return c.Bytes }),
			Starts:    per(func(c Counters) float64 { return c.Starts }),
			Crashes:   per(func(c Counters) float64 { return c.Crashes }),
			Throttled: per(func(c Counters) float64 { return c.Throttled }),
		}
	}
	for i := range m.table.Jobs {
		j := &m.table.Jobs[i]
		r := jsonRow{Job: j.Job, ID: j.ID, DocID: j.DocID, Database: j.Database, State: j.State, Errors: j.errors(),
			Problem: j.problem(), Source: j.Source, Target: j.Target, Node: j.Node, Started: j.Started}
		if rate, known := m.jobRate(j); known {
			r.Rate = &rate
		}
		if n, known := j.pending(); known {
			r.Pending = &n
		}
		p.Rows = append(p.Rows, r)
	}
	return json.Marshal(p)
}
