package relay

import (
	"context"
	"net/http"
	runtime "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/metrics"
	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// monitor is the part of the service that tells numbers of a node where CouchDB does.
type monitor struct{ *service }

// sendTime bounds the time in which a client has to take the answer. Tests shorten it.
var sendTime = 10 * time.Second

const (
	// scrapeTime bounds the look at the store, so that metrics are told while it does not answer.
	scrapeTime = 2 * time.Second
	// maxScrapes bounds the answers that are under way, each of which is held in memory until the client has it.
	maxScrapes = 16
)

// routes lists the endpoints.
func (s monitor) routes() []web.Route {
	get := func(path string, h web.Handler) web.Route {
		return web.Route{Method: "GET", Path: "/_node/{node}/" + path, Handler: configAPI(s).forThis(h)}
	}
	return []web.Route{
		get("_stats", s.bounded(s.stats)), get("_stats/{metric...}", s.bounded(s.stats)),
		get("_system", s.system), get("_prometheus", s.bounded(s.prometheus)),
	}
}

// NewScrapes returns a server that answers GET /_node/NAME/_prometheus to everybody and nothing else, as CouchDB does
// on [prometheus] port.
func NewScrapes(o Options) http.Handler {
	s := assemble(o)
	route := web.Route{Method: "GET", Path: "/_node/{node}/_prometheus"}
	route.Handler = configAPI{s}.forThis(monitor{s}.bounded(monitor{s}.prometheus))
	return s.whileAvailable(web.NewRouter(nil, []web.Route{route}))
}

// bounded refuses requests while there are too many of them.
func (s monitor) bounded(h web.Handler) web.Handler {
	return func(q *web.Request) error {
		select {
		case s.scrapes <- struct{}{}:
		default:
			return &web.Error{Status: http.StatusServiceUnavailable, Name: "busy",
				Reason: "too many clients are reading metrics"}
		}
		defer func() { <-s.scrapes }()
		return h(q)
	}
}

// state is what there is to tell of the present.
func (s monitor) state(q *web.Request) metrics.State {
	// The context of a request ends with the store.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), scrapeTime)
	defer cancel()
	var state metrics.State
	if s.Present != nil {
		state = s.Present(ctx)
	}
	if q.Context().Err() != nil {
		return state
	}
	stored, err := kv.RunWith(ctx, s.DB, kv.Options{Tag: "metrics", Stale: true}, s.stored)
	if err == nil {
		state.Store = stored
	}
	return state
}

// stored reads counters and leases: what it costs does not depend on the number of jobs.
func (s monitor) stored(tx kv.Tx) (*metrics.Stored, error) {
	r, found := tx.Snapshot(), &metrics.Stored{}
	var err error
	if found.Queue, err = s.Store.Jobs.Counts(r); err != nil {
		return nil, err
	}
	holds, err := s.Store.Keys.Holds(r)
	if err != nil {
		return nil, err
	}
	found.Holds = len(holds)
	members, err := node.Members(r, s.Store)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Expired {
			found.Lost++
		} else {
			found.Nodes = append(found.Nodes, m.Info)
		}
	}
	found.Jobs, err = s.count(r)
	return found, err
}

var allStates = []jobstore.State{jobstore.Pending, jobstore.Running, jobstore.Crashing, jobstore.Paused,
	jobstore.Completed, jobstore.Failed}

// count returns how many jobs there are by state, nil while the index of an older store is being built.
func (s monitor) count(r kv.Reader) (map[jobstore.State]int64, error) {
	lists, counts := jobstore.Lists{Store: s.Store, Reader: r}, map[jobstore.State]int64{}
	for _, state := range allStates {
		// Requests that are over are in no list, and are forgotten after a while.
		filter := jobstore.Filter{States: []jobstore.State{state}, Documents: state.Terminal()}
		n, known, err := lists.Total(filter)
		if err != nil || !known {
			return nil, err
		}
		counts[state] = n
	}
	return counts, nil
}

// stats answers GET /_node/NAME/_stats with CouchDB's tree of statistics, or with the part of it below a path.
func (s monitor) stats(q *web.Request) error {
	all, err := s.Meter.Stats(s.state(q), s.Clock.Now())
	if err != nil {
		return err
	}
	var tree any = all
	for i, name := range q.Rest {
		if tree = metrics.Below(tree, name); tree == nil {
			return web.NotFound("there is no statistic " + strings.Join(q.Rest[:i+1], "/") +
				"; see /_node/_local/_stats")
		}
	}
	return q.SendJSON(http.StatusOK, tree)
}

// prometheus answers GET /_node/NAME/_prometheus.
func (s monitor) prometheus(q *web.Request) error {
	text, err := s.Meter.Text(s.state(q), s.Clock.Now())
	if err != nil {
		return err
	}
	connection := http.NewResponseController(q.W)
	_ = connection.SetWriteDeadline(time.Now().Add(sendTime))   // of those that have one
	q.W.Header().Set("Content-Length", strconv.Itoa(len(text))) // so that nothing is left to send after the deadline
	q.Begin(http.StatusOK, metrics.MediaType)
	if _, err := q.W.Write(text); err != nil {
		return err
	}
	if connection.Flush() == nil {
		_ = connection.SetWriteDeadline(time.Time{})
	}
	return nil
}

// process is what the process says of itself, in CouchDB's words where those fit.
type process struct {
	Uptime int64 `json:"uptime"` // in seconds
	Memory struct {
		Total int64 `json:"total"`
		Heap  int64 `json:"heap"`
	} `json:"memory"` // in bytes
	Collections int64 `json:"garbage_collection_count"`
	Goroutines  int64 `json:"process_count"`
}

func (s monitor) process() (p process) {
	p.Uptime = int64(s.Clock.Since(s.began).Seconds())
	for name, field := range map[string]*int64{
		"/memory/classes/total:bytes":        &p.Memory.Total,
		"/memory/classes/heap/objects:bytes": &p.Memory.Heap,
		"/gc/cycles/total:gc-cycles":         &p.Collections,
		"/sched/goroutines:goroutines":       &p.Goroutines,
	} {
		sample := []runtime.Sample{{Name: name}}
		if runtime.Read(sample); sample[0].Value.Kind() == runtime.KindUint64 {
			*field = int64(sample[0].Value.Uint64())
		}
	}
	return p
}

// system answers GET /_node/NAME/_system.
func (s monitor) system(q *web.Request) error { return q.SendJSON(http.StatusOK, s.process()) }
