package metrics

import (
	"maps"
	"slices"
	"time"

	"couchrelay/core/host"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what there is at the moment of a scrape. Nil and zero times stand for what is not known: then the metrics
// that tell it are left out, so that no graph shows 0 in its place.
type State struct {
	Store *Stored // nil if the store does not answer
	// Lags are those of the runs of this node, by database; "" are requests. Nil if the node does not say.
	Lags map[string]host.Lag
	// Follows are how many databases the configuration of this node follows.
	Follows int
	// Certificate is when that of the listener expires.
	Certificate time.Time
}

// Stored is what the store has of all nodes.
type Stored struct {
	Jobs  map[jobstore.State]int64 // nil while the index of an older store is being built
	Queue jobs.Counts
	Holds int
	Nodes []node.Info // those with a lease
	Lost  int         // those of them whose jobs are being given to others
}

// gauges are the metrics that are read when they are asked for.
type gauges struct {
	names       *names // of databases
	descs       map[string]*prometheus.Desc
	descendants []*prometheus.Desc
}

// requests is the label of the runs of requests, which are of no database.
const requests = "_replicate"

var gaugeFamilies = []Family{
	{Name: inJobs + "running", Couch: "couch_replicator/jobs/running", Help: "jobs that run, on all nodes"},
	{Name: inJobs + "pending", Couch: "couch_replicator/jobs/pending",
		Help: "jobs that wait for their turn, or are held, on all nodes"},
	{Name: inJobs + "crashed", Couch: "couch_replicator/jobs/crashed",
		Help: "jobs that have crashed and wait for another attempt, on all nodes"},
	{Name: inJobs + "total", Couch: "couch_replicator/jobs/total",
		Help: "jobs that run, wait, have crashed or are paused, on all nodes"},
	{Name: "couchrelay_jobs", Labels: []string{"state"},
		Help: "jobs of all nodes by their state; completed and failed ones are those of documents alone"},
	{Name: "couchrelay_queue_jobs", Labels: []string{"standing"},
		Help: "pending jobs of all nodes: ready, waiting (after a crash), or parked (paused, held, duplicates)"},
	{Name: "couchrelay_holds", Help: "holds in force"},
	{Name: "couchrelay_nodes", Labels: []string{"status"},
		Help: "nodes with a lease by their status; lost are those that are given up"},
	{Name: "couchrelay_slots", Help: "jobs that all nodes which take some can run at a time (max_jobs)"},
	{Name: "couchrelay_slots_used", Help: "jobs that these nodes run, as they have told last"},
	{Name: "couchdb_membership", Labels: []string{"nodes"},
		Help: "nodes: all_nodes are alive, cluster_nodes also those whose jobs are being given to others"},
	{Name: "couchrelay_store_up", Help: "1 if the store answered this scrape, else 0"},
	{Name: "couchrelay_runs", Labels: []string{"database"},
		Help: "runs of this node by the database of their documents; _replicate are those of requests"},
	{Name: "couchrelay_lag_changes", Labels: []string{"database"},
		Help: "changes that runs of this node have to copy yet, as far as sources tell, by database"},
	{Name: "couchrelay_lag_seconds", Labels: []string{"database"},
		Help: "how long the run of this node that is furthest behind has not been up to date, by database"},
	{Name: "couchrelay_followed_databases", Help: "databases of CouchDBs that the configuration of this node follows"},
	{Name: "couchrelay_certificate_expiry_timestamp_seconds", Help: "when the certificate of [ssl] expires"},
	{Name: "couchdb_uptime_seconds", Kind: "counter", Help: "how long this process runs"},
}

func newGauges(m *Meter) gauges {
	g := gauges{names: &names{}, descs: map[string]*prometheus.Desc{}}
	for _, f := range gaugeFamilies {
		if f.Kind == "" {
			f.Kind = "gauge"
		}
		m.describe(f)
		d := prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
		g.descs[f.Name] = d
		g.descendants = append(g.descendants, d)
	}
	return g
}

// moment is a State with the meter that tells it.
type moment struct {
	*gauges
	state  State
	uptime time.Duration
	out    chan<- prometheus.Metric
}

// Describe is prometheus.Collector's.
func (m moment) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.descendants {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (m moment) Collect(out chan<- prometheus.Metric) {
	m.out = out
	out <- prometheus.MustNewConstMetric(m.descs["couchdb_uptime_seconds"], prometheus.CounterValue, m.uptime.Seconds())
	m.gauge("couchrelay_followed_databases", float64(m.state.Follows))
	if !m.state.Certificate.IsZero() {
		m.gauge("couchrelay_certificate_expiry_timestamp_seconds", float64(m.state.Certificate.Unix()))
	}
	m.tellLags()
	if m.state.Store == nil {
		m.gauge("couchrelay_store_up", 0)
		return
	}
	m.gauge("couchrelay_store_up", 1)
	m.tellJobs(m.state.Store)
	m.tellNodes(m.state.Store)
}

func (m moment) gauge(name string, value float64, labels ...string) {
	m.out <- prometheus.MustNewConstMetric(m.descs[name], prometheus.GaugeValue, value, labels...)
}

// tellJobs tells of jobs, by the counters of the store.
func (m moment) tellJobs(s *Stored) {
	m.gauge("couchrelay_holds", float64(s.Holds))
	m.gauge("couchrelay_queue_jobs", float64(s.Queue.Ready), "ready")
	m.gauge("couchrelay_queue_jobs", float64(s.Queue.Waiting), "waiting")
	m.gauge("couchrelay_queue_jobs", float64(s.Queue.Parked), "parked")
	if s.Jobs == nil {
		return
	}
	total := int64(0)
	for state, n := range s.Jobs {
		m.gauge("couchrelay_jobs", float64(n), string(state))
		if !state.Terminal() {
			total += n
		}
	}
	m.gauge(inJobs+"running", float64(s.Jobs[jobstore.Running]))
	m.gauge(inJobs+"pending", float64(s.Jobs[jobstore.Pending]))
	m.gauge(inJobs+"crashed", float64(s.Jobs[jobstore.Crashing]))
	m.gauge(inJobs+"total", float64(total))
}

// tellNodes tells of nodes.
func (m moment) tellNodes(s *Stored) {
	counts := map[node.Status]int{node.Up: 0, node.InMaintenance: 0, node.Draining: 0, "lost": s.Lost}
	slots, used := 0, 0
	for _, n := range s.Nodes {
		if _, known := counts[n.Status]; known { // others are of a later release
			counts[n.Status]++
		}
		if n.Status == node.Up {
			slots, used = slots+n.MaxJobs, used+n.Running
		}
	}
	for status, n := range counts {
		m.gauge("couchrelay_nodes", float64(n), string(status))
	}
	m.gauge("couchrelay_slots", float64(slots))
	m.gauge("couchrelay_slots_used", float64(used))
	m.gauge("couchdb_membership", float64(len(s.Nodes)), "all_nodes")
	m.gauge("couchdb_membership", float64(len(s.Nodes)+s.Lost), "cluster_nodes")
}

// tellLags tells of the runs of this node.
func (m moment) tellLags() {
	if m.state.Lags == nil {
		return
	}
	present := slices.Sorted(maps.Keys(m.state.Lags))
	m.names.retain(present)
	lags := map[string]host.Lag{}
	for _, database := range present {
		lag := m.state.Lags[database]
		label := requests
		if database != "" {
			label = m.names.label(database)
		}
		sum := lags[label]
		sum.Runs, sum.Changes, sum.Behind = sum.Runs+lag.Runs, sum.Changes+lag.Changes, max(sum.Behind, lag.Behind)
		lags[label] = sum
	}
	for label, lag := range lags {
		m.gauge("couchrelay_runs", float64(lag.Runs), label)
		m.gauge("couchrelay_lag_changes", float64(lag.Changes), label)
		m.gauge("couchrelay_lag_seconds", lag.Behind.Seconds(), label)
	}
}
