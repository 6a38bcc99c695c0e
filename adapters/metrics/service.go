package metrics

import (
	"net/http"
	"strconv"
	"time"

	"couchrelay/adapters/web"

	"github.com/prometheus/client_golang/prometheus"
)

// service are the metrics of requests that the service answers.
type service struct {
	requests, aborted prometheus.Counter
	codes, methods    *prometheus.CounterVec
	took              prometheus.Observer
	refused           prometheus.Counter
}

func newService(m *Meter) service {
	const prefix = "couchdb_httpd_"
	return service{
		requests: m.counter(Family{Name: prefix + "requests_total", Couch: "couchdb/httpd/requests",
			Help: "requests that this node has answered"}),
		aborted: m.counter(Family{Name: prefix + "aborted_requests_total", Couch: "couchdb/httpd/aborted_requests",
			Help: "requests whose clients left before there was an answer"}),
		codes: m.counters(Family{Name: prefix + "status_codes", Couch: "couchdb/httpd_status_codes",
			Labels: []string{"code"}, Help: "answers of this node by their status"}),
		methods: m.counters(Family{Name: prefix + "request_methods", Couch: "couchdb/httpd_request_methods",
			Labels: []string{"method"}, Help: "requests to this node by their method"}),
		took: m.summaries(Family{Name: "couchdb_request_time_seconds", Couch: "couchdb/request_time",
			Help: "how long requests to this node took, feeds included, of the last ten minutes"},
			map[float64]float64{.5: .05, .75: .02, .9: .01, .95: .005, .99: .001, .999: .0001}).WithLabelValues(),
		refused: m.counter(Family{Name: "couchrelay_logins_refused_total",
			Help: "requests to this node whose login was refused"}),
	}
}

// Answered counts a request that is over.
func (m *Meter) Answered(q *web.Request, took time.Duration) {
	s := &m.service
	s.methods.WithLabelValues(oneOf(q.Method, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodDelete, http.MethodOptions, "COPY")).Inc()
	s.took.Observe(took.Seconds())
	if q.Denied {
		s.refused.Inc()
	}
	if status := q.Status(); status != 0 {
		s.requests.Inc()
		s.codes.WithLabelValues(strconv.Itoa(status)).Inc()
	} else {
		s.aborted.Inc()
	}
}
