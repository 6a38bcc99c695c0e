package metrics

import (
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Family describes metrics of one name.
type Family struct {
	Name, Kind, Help string
	Labels           []string
	// Couch is the place in CouchDB's tree of statistics, with slashes between; empty if CouchDB has no such metric.
	Couch string
	// Less names the family whose value CouchDB's statistics subtract: they tell successes, and Prometheus all. Rest
	// says what is left then.
	Less, Rest string
}

// Meter has the metrics of a process. It is safe for concurrent use.
type Meter struct {
	Engine *Engine // what the node and its runs do

	registry *prometheus.Registry
	families map[string]Family
	order    []string // names of families, as they were made
	began    time.Time

	endpoints endpoints
	service   service
	store     transactions
	faults    faults
	gauges    gauges
}

// faults are what should not happen.
type faults struct {
	invariants, certificates prometheus.Counter
	follow                   *prometheus.CounterVec
}

// New returns a Meter of a process that begins now.
func New(version string, now time.Time) *Meter {
	m := &Meter{registry: prometheus.NewRegistry(), families: map[string]Family{}, began: now}
	m.Engine = newEngine(m)
	m.endpoints = newEndpoints(m)
	m.service = newService(m)
	m.store = newTransactions(m)
	m.faults = faults{
		invariants: m.counter(Family{Name: "couchrelay_invariants_broken_total",
			Help: "times that something did not hold that must always hold: each is a bug in couchrelay"}),
		certificates: m.counter(Family{Name: "couchrelay_certificate_errors_total",
			Help: "certificates that could not be read or do not verify, as the log says"}),
		follow: m.counters(Family{Name: "couchrelay_follow_errors_total", Labels: []string{"kind"},
			Help: "troubles with followed databases, by the event of the log"}),
	}
	for _, kind := range followErrors {
		m.faults.follow.WithLabelValues(kind)
	}
	m.gauges = newGauges(m)
	info := m.describe(Family{Name: "couchrelay_build_info", Kind: "gauge", Labels: []string{"version", "go_version"},
		Help: "1, for the version of couchrelay and that of Go which compiled it"})
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: info.Name, Help: info.Help,
			ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()}},
			func() float64 { return 1 }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// InvariantBroken counts a broken invariant.
func (m *Meter) InvariantBroken() { m.faults.invariants.Inc() }

// CertificateFailed counts a certificate that cannot be read or does not verify.
func (m *Meter) CertificateFailed() { m.faults.certificates.Inc() }

// FollowNoted counts what the log says of followed databases, as far as it is trouble.
func (m *Meter) FollowNoted(event string) {
	if slices.Contains(followErrors, event) {
		m.faults.follow.WithLabelValues(event).Inc()
	}
}

var followErrors = []string{"follow_failed", "follow_states_failed", "follow_unreadable", "follow_lease_lost"}

// Families returns the families that couchrelay makes itself. Those of Go and the process are the client library's.
func (m *Meter) Families() []Family {
	list := make([]Family, len(m.order))
	for i, name := range m.order {
		list[i] = m.families[name]
	}
	return list
}

// describe notes a family.
func (m *Meter) describe(f Family) Family {
	m.families[f.Name] = f
	m.order = append(m.order, f.Name)
	return f
}

// counters makes a family of counters.
func (m *Meter) counters(f Family) *prometheus.CounterVec {
	f.Kind = "counter"
	m.describe(f)
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.Labels)
	m.registry.MustRegister(c)
	return c
}

// counter makes a counter without labels.
func (m *Meter) counter(f Family) prometheus.Counter { return m.counters(f).WithLabelValues() }

// histograms makes a family of histograms.
func (m *Meter) histograms(f Family, buckets []float64) *prometheus.HistogramVec {
	f.Kind = "histogram"
	m.describe(f)
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: buckets}, f.Labels)
	m.registry.MustRegister(h)
	return h
}

// summaries makes a family of summaries.
func (m *Meter) summaries(f Family, objectives map[float64]float64) *prometheus.SummaryVec {
	f.Kind = "summary"
	m.describe(f)
	s := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: f.Name, Help: f.Help, Objectives: objectives}, f.Labels)
	m.registry.MustRegister(s)
	return s
}
