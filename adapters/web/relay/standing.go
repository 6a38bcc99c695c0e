package relay

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/explain"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
)

// standing is the part of the service that tells how accounts, servers and errors stand. Its lists come page by page:
// one may have fewer rows than were asked for and a cursor all the same.
type standing struct{ *service }

// routes lists the endpoints.
func (s standing) routes() []web.Route {
	return []web.Route{
		{Method: "GET", Path: "/_scheduler/accounts", Handler: s.listAccounts},
		{Method: "GET", Path: "/_scheduler/servers", Handler: s.listServers},
		{Method: "GET", Path: "/_scheduler/errors", Handler: s.listErrors},
	}
}

// Bounds of a page.
const (
	defaultStanding = 50
	maxStanding     = 200
	// countedCrashes is up to which number the crashing jobs of a server are counted.
	countedCrashes = 100
)

// standingPage reads which page is asked for: its length, and the name before it.
func standingPage(q *web.Request) (limit int, after string, err error) {
	limit = defaultStanding
	if err := onceEach(q); err != nil {
		return 0, "", err
	}
	for name := range q.Query {
		switch text := q.Query.Get(name); name {
		case "limit":
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxStanding {
				return 0, "", web.QueryError("`limit` must be an integer from 1 to " + strconv.Itoa(maxStanding))
			}
		case "cursor":
			raw, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil || tuple.Subspace(nil).Scan(raw, &after) != nil || after == "" {
				return 0, "", web.QueryError("`cursor` must be that of an earlier answer, or absent")
			}
		default:
			return 0, "", web.QueryError("unknown parameter `" + name + "`: known are limit and cursor")
		}
	}
	return limit, after, nil
}

// cursorBehind leads to the page behind a name, and is null on the last one.
func cursorBehind(name string) *string {
	if name == "" {
		return nil
	}
	return new(base64.RawURLEncoding.EncodeToString(tuple.Pack(name)))
}

type (
	// accountView is an account as GET /_scheduler/accounts shows it.
	accountView struct {
		Name   string      `json:"name"`
		Shares int64       `json:"shares"`
		Jobs   int64       `json:"jobs"`
		Usage  *float64    `json:"usage_seconds"` // null if the policy does not go by it
		Used   []spentView `json:"used"`
	}
	// spentView is what an account used in an interval.
	spentView struct {
		Time    timestamp `json:"time"`
		Seconds float64   `json:"seconds"`
	}
	accountsView struct {
		Policy   string        `json:"policy"`
		Interval float64       `json:"interval_seconds"` // of used
		Coeff    float64       `json:"usage_coeff"`      // what is left of usage an interval later
		Accounts []accountView `json:"accounts"`
		Cursor   *string       `json:"cursor"`
	}
)

// listAccounts lists the accounts with their shares and what they used of late, in the order of their names.
func (s standing) listAccounts(q *web.Request) error {
	limit, after, err := standingPage(q)
	if err != nil {
		return err
	}
	now, order, next := s.now(), schedule.Order{}, ""
	uses, err := web.Run(q, s.DB, glance, func(tx kv.Tx) (list []jobstore.Use, err error) {
		if order, err = s.Store.Order(tx.Snapshot()); err == nil {
			list, next, err = jobstore.Uses(tx.Snapshot(), s.Store, now, after, limit)
		}
		return list, err
	})
	if err != nil {
		return err
	}
	answer := accountsView{
		Policy: order.Policy.String(), Interval: order.Forgetting.Interval.Seconds(),
		Coeff: float64(order.Forgetting.Coeff) / 1e6, Cursor: cursorBehind(next),
		Accounts: make([]accountView, len(uses)),
	}
	for i, u := range uses {
		v := accountView{Name: u.Account, Shares: u.Shares, Jobs: u.Jobs, Used: make([]spentView, len(u.Spent))}
		if order.Needs() == schedule.NeedsUsage {
			v.Usage = new(slotSeconds(u.Usage))
		}
		for j, spent := range u.Spent {
			v.Used[j] = spentView{timestamp(spent.At), slotSeconds(spent.Used)}
		}
		answer.Accounts[i] = v
	}
	return q.SendJSON(http.StatusOK, answer)
}

func slotSeconds(microseconds int64) float64 {
	return (time.Duration(microseconds) * time.Microsecond).Seconds()
}

type (
	// serverView is a server as GET /_scheduler/servers shows it.
	serverView struct {
		Server   string        `json:"server"`
		Jobs     int64         `json:"jobs"`             // that are not over
		Over     int64         `json:"over"`             // of documents that are completed or failed
		Crashing int           `json:"crashing"`         // up to countedCrashes
		More     bool          `json:"crashing_bounded"` // there may be more
		Example  *exampleView  `json:"example"`          // one of them, null without any
		Holds    []string      `json:"holds"`            // on the server or its host
		Limiter  []limiterView `json:"limiter"`
	}
	exampleView struct {
		Job    string `json:"job"`
		Error  string `json:"error"`
		Reason string `json:"reason"`
	}
	// limiterView is an endpoint whose requests this node holds back, since its server has asked for fewer.
	limiterView struct {
		URL    string  `json:"url"`
		Method string  `json:"method"`
		Pause  float64 `json:"pause_seconds"`
		Closed bool    `json:"closed"` // requests fail but for a probe
	}
)

// listServers lists the servers of the jobs, in the order of their names.
func (s standing) listServers(q *web.Request) error {
	limit, after, err := standingPage(q)
	if err != nil {
		return err
	}
	var next string
	views, err := readable(q, s.service, func(lists jobstore.Lists) ([]serverView, error) {
		found, behind, err := lists.Servers(after, limit)
		if err != nil {
			return nil, indexing(err)
		}
		next = behind
		holds, err := s.Store.Keys.Holds(lists.Reader)
		if err != nil {
			return nil, err
		}
		views := make([]serverView, len(found))
		for i, c := range found {
			v := serverView{Server: c.Value, Jobs: c.Active, Over: c.Over, Holds: []string{}, Limiter: []limiterView{}}
			for _, h := range holds {
				if h.On(c.Value) {
					v.Holds = append(v.Holds, h.ID())
				}
			}
			if err := v.lookForCrashes(lists); err != nil {
				return nil, err
			}
			views[i] = v
		}
		return views, nil
	})
	if err != nil {
		return err
	}
	s.limited(views)
	return q.SendJSON(http.StatusOK, struct {
		Servers []serverView `json:"servers"`
		Node    string       `json:"node"` // of the limiter
		Cursor  *string      `json:"cursor"`
	}{views, s.Host.NodeName(), cursorBehind(next)})
}

// lookForCrashes counts the crashing jobs of the server, and reads one.
func (v *serverView) lookForCrashes(lists jobstore.Lists) (err error) {
	filter := jobstore.Filter{Server: v.Server, States: []jobstore.State{jobstore.Crashing}}
	if v.Crashing, v.More, err = lists.Count(filter, countedCrashes); err != nil || v.Crashing == 0 {
		return err
	}
	page, err := lists.Page(jobstore.Listing{Filter: filter, Limit: 1})
	for _, j := range page.Jobs {
		v.Example = &exampleView{j.ID, j.Error, j.Reason}
	}
	return err
}

// limited adds what the limiter of this node knows.
func (s standing) limited(views []serverView) {
	if s.Pauses == nil {
		return
	}
	at := map[string]*serverView{}
	for i := range views {
		at[views[i].Server] = &views[i]
	}
	for _, p := range s.Pauses() {
		server, _ := jobstore.Servers(p.Endpoint)
		if v := at[server]; v != nil && len(v.Limiter) < countedCrashes {
			v.Limiter = append(v.Limiter, limiterView{p.Endpoint, p.Method, p.Wait.Seconds(), p.Closed})
		}
	}
}

// errorView is an error as GET /_scheduler/errors shows it.
type errorView struct {
	Error    string  `json:"error"`
	Class    *string `json:"class"`
	Advice   *string `json:"advice"`
	Crashing int64   `json:"crashing"`
	Failed   int64   `json:"failed"` // of documents
}

// listErrors lists the errors of jobs that are crashing or failed, in the order of their names.
func (s standing) listErrors(q *web.Request) error {
	limit, after, err := standingPage(q)
	if err != nil {
		return err
	}
	var next string
	found, err := web.Run(q, s.DB, glance, func(tx kv.Tx) (list []jobstore.Counted, err error) {
		list, next, err = jobstore.Lists{Store: s.Store, Reader: tx.Snapshot()}.Errors(after, limit)
		return list, indexing(err)
	})
	if err != nil {
		return err
	}
	views := make([]errorView, len(found))
	for i, c := range found {
		class, _ := explain.ClassOf(c.Value)
		views[i] = errorView{c.Value, orNull(class.Class), orNull(class.Advice), c.Active, c.Over}
	}
	return q.SendJSON(http.StatusOK, struct {
		Errors []errorView `json:"errors"`
		Cursor *string     `json:"cursor"`
	}{views, cursorBehind(next)})
}

// indexing is the answer while the index of an older store is being built.
func indexing(err error) error {
	if errors.Is(err, jobstore.ErrReindexing) {
		return &web.Error{Status: http.StatusServiceUnavailable, Name: "indexing", Reason: err.Error()}
	}
	return err
}
