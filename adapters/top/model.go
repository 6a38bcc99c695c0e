package top

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PageRows is how many rows of a list are asked for at a time.
const PageRows = 100

// longestPause is the most time between two attempts to reach a service that does not answer.
const longestPause = 30 * time.Second

// Filter chooses jobs; empty members choose all.
type Filter struct{ State, Server, User, Error, Node, Database string }

// Request is one that the service is to be asked.
type Request struct {
	What   string // which answer it is for
	Method string
	Path   string
	Query  url.Values
	Body   any
}

// Round are requests that are sent one after the other, until one has no answer.
type Round struct {
	ID       int
	Requests []Request
}

// Answer is that to a request. Those with a mistake say which: Refused if the service says so.
type Answer struct {
	Request
	Raw     []byte
	Problem string
	Refused bool
}

// Effect is what a model wants done.
type Effect struct {
	Ask           *Round
	Quit, Suspend bool
}

// The pages.
const (
	jobsPage  = "jobs"
	jobPage   = "job"
	nodesPage = "nodes"
	helpPage  = "help"
)

// Model is the view: what it knows, and what its user does.
type Model struct {
	server string
	page   string
	poll
	wish
	known
	place
	prompt  *prompt
	message string
}

// poll is the state of the requests under way, and the time of the next round.
type poll struct {
	interval time.Duration
	frozen   bool
	round    int  // the last one
	busy     bool // it is under way
	ordering bool // with an order
	leaving  bool // the view ends when that is answered
	again    bool // something else is to be asked as soon as it ends
	asked    time.Time
	next     time.Time // of the next round
	failures int       // in a row
	down     time.Time // since when there is no answer; zero while there are some
	trouble  string    // why
	fresh    time.Time // of the last answers
}

// wish is which jobs the user wants to see, in which order.
type wish struct {
	filter  Filter
	sort    string
	reverse bool
	pages   []page // those behind the first one, up to this one
}

// page is where a page of rows begins.
type page struct {
	cursor string
	first  int // rows before it, as they were then: a page may have fewer than PageRows
}

// first is how many rows are before this page.
func (w *wish) first() int {
	if n := len(w.pages); n > 0 {
		return w.pages[n-1].first
	}
	return 0
}

// known is what answers have told.
type known struct {
	limits   map[string]string // why requests of a kind have no answer
	figures  figures
	rates    series
	nodes    []Node
	by       string // the node that answered
	fronted  bool   // _local is a CouchDB's, which has this service before it
	table    rows
	of       Filter // of table
	progress map[string]series
	detail   detail
	lists    map[string]list
}

// place is what part of a page is on the screen.
type place struct {
	selected string // job
	top      int    // first row of the table
	scroll   int    // first line of another page
	height   int    // rows of the table, or lines, as it was drawn last
}

// New returns a model that has asked nothing.
func New(server string, interval time.Duration, filter Filter, sort string) *Model {
	return &Model{
		server: server, page: jobsPage, poll: poll{interval: interval}, wish: wish{filter: filter, sort: sort},
		known: known{limits: map[string]string{}, progress: map[string]series{}, lists: map[string]list{}},
	}
}

// Tick tells the time. A round begins when its time has come.
func (m *Model) Tick(now time.Time) []Effect {
	if m.busy || m.frozen && !m.again || now.Before(m.next) {
		return nil
	}
	return m.ask(now, m.requests())
}

// Wait is how long nothing happens if no key is pressed and no answer comes. The age of the data is told each second.
func (p *poll) Wait(now time.Time) time.Duration {
	wait := time.Second
	if !p.busy && !p.frozen {
		wait = min(wait, p.next.Sub(now))
	}
	return max(wait, 10*time.Millisecond)
}

// refresh asks at once for what the page shows now.
func (m *Model) refresh(now time.Time) []Effect {
	m.next = now
	if m.busy {
		m.again = true
		return nil
	}
	return m.ask(now, m.requests())
}

func (p *poll) ask(now time.Time, requests []Request) []Effect {
	p.round++
	p.busy, p.again, p.asked = true, false, now
	return []Effect{{Ask: &Round{ID: p.round, Requests: requests}}}
}

// requests are those of a page. A page of rows is all that is read of a list.
func (m *Model) requests() []Request {
	get := func(what, path string, query url.Values) Request {
		return Request{What: what, Method: "GET", Path: path, Query: query}
	}
	node := "_local" // any one, behind a balancer
	if m.fronted && m.by != "" {
		node = url.PathEscape(m.by)
	}
	list := []Request{get("figures", "/_node/"+node+"/_stats", nil), get("nodes", "/_scheduler/nodes", nil)}
	switch m.page {
	case jobPage:
		return append(list, get("job", m.detail.path(), nil), get("explain", m.detail.path()+"/explain", nil))
	case jobsPage:
		return append(list, m.rowsRequest())
	case nodesPage, helpPage:
		return list
	}
	return append(list, get(m.page, "/_scheduler/"+m.page, lists[m.page].query))
}

func (d *detail) path() string { return "/_scheduler/jobs/" + url.PathEscape(d.id) }

// rowsRequest asks for the page of rows. Jobs that are over are in the list of documents only.
func (w *wish) rowsRequest() Request {
	f := w.filter
	q := url.Values{"limit": {strconv.Itoa(PageRows)}}
	path := "/_scheduler/jobs"
	if slices.ContainsFunc(strings.Split(f.State, ","), over) {
		path = "/_scheduler/docs"
		q.Set("database", "*")
	}
	for name, value := range map[string]string{
		"states": f.State, "server": f.Server, "user": f.User, "error": f.Error, "node": f.Node,
		"database": f.Database,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if n := len(w.pages); n > 0 {
		q.Set("cursor", w.pages[n-1].cursor)
	}
	return Request{What: "rows", Method: "GET", Path: path, Query: q}
}

// over reports whether jobs in a state have ended.
func over(state string) bool {
	return state == "failed" || state == "completed" || state == "error" || state == "initializing"
}

// Take takes the answers of a round.
func (m *Model) Take(id int, answers []Answer, now time.Time) []Effect {
	if id != m.round {
		return nil
	}
	ordered, leaving := m.ordering, m.leaving
	m.busy, m.ordering, m.leaving = false, false, false
	for _, a := range answers {
		if a.Problem != "" && !a.Refused {
			if ordered {
				m.message = "there was no answer: it is not known whether that was done"
			}
			m.fail(a.Problem, now)
			return nil
		}
		m.read(a, now)
		leaving = leaving && a.Problem == "" // which is to be seen
	}
	if leaving {
		return []Effect{{Quit: true}}
	}
	m.failures, m.down, m.trouble, m.fresh = 0, time.Time{}, "", now
	m.next = now.Add(m.interval)
	if m.again {
		return m.refresh(now)
	}
	return nil
}

// fail waits longer for each attempt in a row that failed.
func (p *poll) fail(problem string, now time.Time) {
	if p.down.IsZero() {
		p.down = now
	}
	p.failures++
	p.trouble = problem
	pause := p.interval << min(p.failures-1, 10)
	p.next, p.again = now.Add(max(p.interval, min(pause, longestPause))), false
}

// Problem is why the last round had no answer, or why the service does not list jobs; empty if all is well.
func (m *Model) Problem() string {
	if m.trouble != "" {
		return m.trouble
	}
	return m.limits["rows"]
}
