package relay

import (
	"fmt"
	"net/http"
	"runtime/metrics"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// gauge is a number of jobs, with the name and the words that it has in CouchDB. It is of all jobs in the store.
type gauge struct {
	name, desc string
	states     []jobstore.State // empty for all
}

var gauges = []gauge{
	{"crashed", "replicator scheduler crashed jobs", []jobstore.State{jobstore.Crashing}},
	{"pending", "replicator scheduler pending jobs", []jobstore.State{jobstore.Pending}},
	{"running", "replicator scheduler running jobs", []jobstore.State{jobstore.Running}},
	{"total", "total number of replicator scheduler jobs", nil},
}

// monitor is the part of the service that tells numbers of a node where CouchDB does.
type monitor struct{ *service }

// count reads the gauges.
func (s monitor) count(q *web.Request) ([]int64, error) {
	return web.Run(q, s.DB, glance, func(tx kv.Tx) ([]int64, error) {
		r, values := jobstore.Lists{Store: s.Store, Reader: tx.Snapshot()}, make([]int64, len(gauges))
		for i, g := range gauges {
			n, known, err := r.Total(jobstore.Filter{States: g.states})
			if err != nil {
				return nil, err
			}
			if !known {
				return nil, &web.Error{Status: http.StatusServiceUnavailable, Name: "indexing",
					Reason: jobstore.ErrReindexing.Error()}
			}
			values[i] = n
		}
		return values, nil
	})
}

// statsAt is where the gauges are in CouchDB's tree of statistics.
var statsAt = []string{"couch_replicator", "jobs"}

// stats answers GET /_node/NAME/_stats with a part of CouchDB's tree: all, or what is below a path.
func (s monitor) stats(q *web.Request) error {
	values, err := s.count(q)
	if err != nil {
		return err
	}
	type metric struct {
		Value int64  `json:"value"`
		Type  string `json:"type"`
		Desc  string `json:"desc"`
	}
	jobs := map[string]any{}
	for i, g := range gauges {
		jobs[g.name] = metric{values[i], "gauge", g.desc}
	}
	var tree any = map[string]any{statsAt[0]: map[string]any{statsAt[1]: jobs}}
	for _, name := range q.Rest {
		below, _ := tree.(map[string]any)
		if tree = below[name]; tree == nil {
			return web.NotFound("of CouchDB's statistics there is " + strings.Join(statsAt, "/"))
		}
	}
	return q.SendJSON(http.StatusOK, tree)
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
		sample := []metrics.Sample{{Name: name}}
		if metrics.Read(sample); sample[0].Value.Kind() == metrics.KindUint64 {
			*field = int64(sample[0].Value.Uint64())
		}
	}
	return p
}

// system answers GET /_node/NAME/_system.
func (s monitor) system(q *web.Request) error { return q.SendJSON(http.StatusOK, s.process()) }

// prometheus answers GET /_node/NAME/_prometheus, with CouchDB's names.
func (s monitor) prometheus(q *web.Request) error {
	values, err := s.count(q)
	if err != nil {
		return err
	}
	var text strings.Builder
	write := func(name, kind, desc string, value int64) {
		fmt.Fprintf(&text, "# HELP couchdb_%[1]s %[3]s\n# TYPE couchdb_%[1]s %[2]s\ncouchdb_%[1]s %[4]d\n",
			name, kind, desc, value)
	}
	for i, g := range gauges {
		write("couch_replicator_jobs_"+g.name, "gauge", g.desc, values[i])
	}
	p := s.process()
	write("uptime_seconds", "counter", "couchdb uptime", p.Uptime)
	q.W.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err = q.W.Write([]byte(text.String()))
	return err
}
