package top

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/terminal"
)

// detail is a job that the user looks at.
type detail struct {
	id      string
	job     *Job
	explain *explained
	gone    string // why there is no such job any more
}

// explained is why a job runs or does not.
type explained struct {
	Sentence string   `json:"sentence"`
	Due      *string  `json:"due"`
	Position *int64   `json:"position"`
	Bounded  bool     `json:"ahead_bounded"` // more jobs may be before it than the position tells
	Wait     *float64 `json:"estimated_wait_seconds"`
	Weight   int64    `json:"weight"`
	Account  *struct {
		Name   string   `json:"name"`
		Policy string   `json:"policy"`
		Shares int64    `json:"shares"`
		Jobs   int64    `json:"jobs"`
		Usage  *float64 `json:"usage_seconds"` // nil for a policy that does not go by it
	} `json:"account"`
	Error *struct {
		Error  string `json:"error"`
		Class  string `json:"class"`
		Advice string `json:"advice"`
	} `json:"error"`
}

// list is a page that has nothing but a table.
type list struct {
	rows [][]string
	more bool // behind these
}

// listing describes such a page. Its name is that of the path below _scheduler and of the member of the answer.
type listing struct {
	title   string
	query   url.Values
	columns [][2]string // members of the rows, with their titles
}

// few is how many rows of a list that may be long are asked for.
var few = url.Values{"limit": {strconv.Itoa(PageRows)}}

var lists = map[string]listing{
	"holds": {"holds", nil, [][2]string{{"id", "HOLD"}, {"jobs", "JOBS"}, {"reason", "REASON"}, {"by", "BY"},
		{"at", "SINCE"}}},
	"follow": {"followed databases", nil, [][2]string{{"name", "DATABASE"}, {"node", "NODE"},
		{"changes_pending", "CHANGES"}, {"states_pending", "STATES"}, {"error", "ERROR"}, {"next_try", "NEXT TRY"},
		{"url", "URL"}}},
	"accounts": {"accounts, with their recent use of slots", few, [][2]string{{"name", "ACCOUNT"},
		{"shares", "SHARES"}, {"jobs", "JOBS"}, {"usage_seconds", "USE (S)"}}},
	"servers": {"servers", few, [][2]string{{"server", "SERVER"}, {"jobs", "JOBS"}, {"crashing", "CRASHING"},
		{"holds", "HOLDS"}, {"example.error", "ERROR"}, {"example.reason", "FOR EXAMPLE"}}},
	"errors": {"errors of jobs that are crashing or failed", few, [][2]string{{"error", "ERROR"},
		{"class", "CLASS"}, {"crashing", "CRASHING"}, {"failed", "FAILED"}, {"advice", "WHAT TO DO"}}},
}

// read takes an answer. One that is no answer of a couchrelay counts as a mistake of that request.
func (m *Model) read(a Answer, now time.Time) {
	if m.stale(a.Request) {
		return
	}
	if a.Problem != "" {
		m.refuse(a)
		return
	}
	delete(m.limits, a.What)
	var err error
	switch a.What {
	case "figures":
		var f figures
		switch f, err = readFigures(a.Raw); {
		case err == nil && f.known:
			m.figures, m.rates = f, m.rates.add(now, f.counters)
		case err == nil:
			m.fronted, m.figures, m.rates = true, figures{}, nil
			m.limits[a.What] = "those of the CouchDB that answers here"
		}
	case "nodes":
		var v struct {
			Nodes []Node
			By    string `json:"answered_by"`
		}
		if err = json.Unmarshal(a.Raw, &v); err == nil {
			m.nodes, m.by = v.Nodes, v.By
		}
	case "rows":
		err = m.readRows(a.Raw, now)
	case "job":
		j := &Job{}
		if err = json.Unmarshal(a.Raw, j); err == nil {
			m.detail.job, m.detail.gone = j, ""
			m.measure(j, now)
		}
	case "explain":
		e := &explained{}
		if err = json.Unmarshal(a.Raw, e); err == nil {
			m.detail.explain = e
		}
	case "verb":
		m.said(a.Raw)
	default:
		err = m.readList(a.What, a.Raw)
	}
	if err != nil {
		m.limits[a.What] = "the answer means nothing here: is it a couchrelay?"
	}
}

// refuse takes an answer that tells of a mistake.
func (m *Model) refuse(a Answer) {
	problem := terminal.Clean(a.Problem)
	switch a.What {
	case "verb":
		m.message = problem
		return
	case "job", "explain":
		m.detail.gone = problem
	case "figures":
		m.figures, m.rates = figures{}, nil
	case "nodes":
		m.nodes = nil
	}
	m.limits[a.What] = problem
}

// stale reports whether a request was for something that the user does not look at any more.
func (m *Model) stale(r Request) bool {
	switch r.What {
	case "rows":
		now := m.rowsRequest()
		return r.Path != now.Path || r.Query.Encode() != now.Query.Encode()
	case "job", "explain":
		return !strings.HasPrefix(r.Path, m.detail.path())
	}
	return false
}

func (m *Model) readRows(raw []byte, now time.Time) error {
	var r rows
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	r.Jobs = append(r.Jobs, r.Docs...)
	if len(r.Jobs) > PageRows {
		r.Jobs = r.Jobs[:PageRows]
	}
	r.Docs = nil
	m.table, m.of = r, m.filter
	seen := map[string]series{}
	for i := range r.Jobs {
		m.measure(&r.Jobs[i], now)
		seen[r.Jobs[i].Job] = m.progress[r.Jobs[i].Job]
	}
	m.progress = seen // and none of other pages
	m.order()
	return nil
}

// measure takes a job's numbers for its rate.
func (k *known) measure(j *Job, now time.Time) {
	if j.Info != nil && j.State == "running" {
		k.progress[j.Job] = k.progress[j.Job].add(now, Counters{Docs: float64(j.Info.DocsWritten)})
	}
}

func (k *known) readList(what string, raw []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	var objects []map[string]any
	if err := json.Unmarshal(all[what], &objects); err != nil {
		return err
	}
	l := list{more: len(all["cursor"]) > 0 && string(all["cursor"]) != "null"}
	for _, o := range objects {
		var row []string
		for _, c := range lists[what].columns {
			row = append(row, cellOf(o, c[0]))
		}
		l.rows = append(l.rows, row)
	}
	k.lists[what] = l
	return nil
}

// cellOf is a member of an object, or a member of a member, in words.
func cellOf(object map[string]any, name string) string {
	if outer, inner, is := strings.Cut(name, "."); is {
		below, _ := object[outer].(map[string]any)
		return cellOf(below, inner)
	}
	switch v := object[name].(type) {
	case nil:
		return ""
	case float64:
		return number(int64(v))
	case []any:
		return terminal.Clean(strings.Trim(fmt.Sprint(v), "[]"))
	default:
		return terminal.Clean(fmt.Sprint(v))
	}
}

// said tells what an order has done.
func (m *Model) said(raw []byte) {
	var v struct {
		ID, State, Note string
		Changed         *bool
	}
	if json.Unmarshal(raw, &v) != nil {
		return
	}
	what := "done"
	if v.Changed != nil && !*v.Changed {
		what = "nothing was to be done"
	}
	m.message = what + ": the job is " + terminal.Clean(v.State)
	if v.Note != "" {
		m.message += "; " + terminal.Clean(v.Note)
	}
	m.again = true
}

// Sorts are the orders of rows.
var Sorts = []string{"state", "rate", "pending", "errors", "database", "started", "name"}

// ranks are the states in the order in which they want to be seen.
var ranks = []string{
	"running", "unreadable", "crashing", "error", "failed", "paused", "pending", "initializing", "completed",
}

// order sorts the rows that are here: those of a page, or all if there are no more. Rows that are equal keep the order
// of the service, so that a list stands still.
func (m *Model) order() {
	slices.SortStableFunc(m.table.Jobs, func(a, b Job) int {
		n := m.compare(m.sort, &a, &b)
		if m.reverse {
			return -n
		}
		return n
	})
}

// compare is the order of two jobs by a column.
func (k *known) compare(by string, a, b *Job) int {
	switch by {
	case "rate":
		ra, _ := k.jobRate(a)
		rb, _ := k.jobRate(b)
		return cmp.Compare(rb, ra)
	case "pending":
		pa, _ := a.pending()
		pb, _ := b.pending()
		return cmp.Compare(pb, pa)
	case "errors":
		return cmp.Compare(b.errors(), a.errors())
	case "database":
		return cmp.Compare(text(a.Database), text(b.Database))
	case "started":
		return cmp.Compare(b.Started, a.Started)
	case "name":
		return cmp.Compare(a.name(), b.name())
	}
	return cmp.Compare(slices.Index(ranks, a.State), slices.Index(ranks, b.State))
}

// jobRate is how many documents a job writes in a second.
func (k *known) jobRate(j *Job) (perSecond float64, known bool) {
	if j.State != "running" {
		return 0, false
	}
	return k.progress[j.Job].rate(func(c Counters) float64 { return c.Docs })
}
