package metrics

import (
	"net/http"

	"couchrelay/adapters/couch"
	"couchrelay/core/peer"

	"github.com/prometheus/client_golang/prometheus"
)

// endpoints are the metrics of requests to the servers of replications.
type endpoints struct {
	names *names // of servers

	requests                        prometheus.Counter
	responses, failures             prometheus.Counter
	streams, streamFailures, unread prometheus.Counter

	total     *prometheus.CounterVec
	byWork    *prometheus.HistogramVec
	byServers *prometheus.SummaryVec
}

func newEndpoints(m *Meter) endpoints {
	const prefix, path = "couchdb_couch_replicator_", "couch_replicator/"
	couch := func(f Family) prometheus.Counter {
		f.Name, f.Couch = prefix+f.Name, path+f.Couch
		if f.Less != "" {
			f.Less = prefix + f.Less
		}
		return m.counter(f)
	}
	return endpoints{
		names: &names{},
		requests: couch(Family{Name: "requests_total", Couch: "requests",
			Help: "HTTP requests to the servers of replications"}),
		responses: couch(Family{Name: "responses_total", Couch: "responses/success", Less: "responses_failure_total",
			Help: "requests to the servers of replications that were answered or failed, but those with status 429",
			Rest: "answers of the servers of replications that are no failures"}),
		failures: couch(Family{Name: "responses_failure_total", Couch: "responses/failure",
			Help: "answers of the servers of replications with status 408 or from 500 on, and missing answers"}),
		streams: couch(Family{Name: "stream_responses_total", Couch: "stream_responses/success",
			Less: "stream_responses_failure_total",
			Help: "those of the responses that are for streams: changes and documents",
			Rest: "those of the answers that are streams: changes and documents"}),
		streamFailures: couch(Family{Name: "stream_responses_failure_total", Couch: "stream_responses/failure",
			Help: "those of the failures that should have been streams"}),
		unread: couch(Family{Name: "changes_read_failures_total", Couch: "changes_read_failures",
			Help: "requests for changes that failed; they are repeated for a while"}),
		total: m.counters(Family{Name: "couchrelay_endpoint_requests_total", Labels: []string{"server", "outcome"},
			Help: "HTTP requests to the servers of replications, by host and outcome"}),
		byWork: m.histograms(Family{Name: "couchrelay_endpoint_request_seconds", Labels: []string{"operation"},
			Help: "time until the headers of an answer, by what was asked for; that of changes has long polls"},
			[]float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 120}),
		byServers: m.summaries(Family{Name: "couchrelay_server_request_seconds", Labels: []string{"server"},
			Help: "time until the headers of an answer, by host, without those to requests for changes"}, nil),
	}
}

// Attempted counts a request to the server of a replication.
func (m *Meter) Attempted(a couch.Attempt) {
	e := &m.endpoints
	outcome := outcomeOf(a)
	server := e.names.label(a.Server)
	e.total.WithLabelValues(server, outcome).Inc()
	e.requests.Inc()
	if a.Operation != couch.OfChanges {
		e.byServers.WithLabelValues(server).Observe(a.Took.Seconds())
	}
	e.byWork.WithLabelValues(a.Operation).Observe(a.Took.Seconds())
	if outcome == "throttled" || outcome == "cancelled" {
		return
	}
	stream := a.Operation == couch.OfChanges || a.Operation == couch.OfDocuments
	failed := a.Status == 0 || a.Status == http.StatusRequestTimeout || a.Status >= 500
	e.responses.Inc()
	if stream {
		e.streams.Inc()
	}
	if !failed {
		return
	}
	e.failures.Inc()
	if stream {
		e.streamFailures.Inc()
	}
	if a.Operation == couch.OfChanges {
		e.unread.Inc()
	}
}

// outcomeOf returns what became of a request, in one of a few words.
func outcomeOf(a couch.Attempt) string {
	switch {
	case a.Status == 0:
		return withoutAnswer(a.Kind)
	case a.Status < 400:
		return "success"
	case a.Status == http.StatusTooManyRequests:
		return "throttled"
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		return "denied"
	case a.Status == http.StatusNotFound:
		return "not_found"
	case a.Status == http.StatusConflict:
		return "conflict"
	case a.Status < 500:
		return "client_error"
	}
	return "server_error"
}

func withoutAnswer(k peer.Kind) string {
	switch k {
	case peer.TimedOut:
		return "timeout"
	case peer.Insecure:
		return "tls"
	case peer.Cancelled:
		return "cancelled"
	case peer.Malformed:
		return "malformed"
	case peer.Unresolvable, peer.Unreachable, peer.Broken:
		return "network"
	}
	return other
}
