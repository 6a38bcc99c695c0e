package metrics

import (
	"context"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"

	"github.com/prometheus/client_golang/prometheus"
)

// transactions are the metrics of the store.
type transactions struct {
	total, conflicts, retries *prometheus.CounterVec
	commits                   prometheus.Observer
	tallies                   map[string]prometheus.Counter // by the kind of kv.Tally
}

func newTransactions(m *Meter) transactions {
	tag := []string{"tag"}
	t := transactions{
		total: m.counters(Family{Name: "couchrelay_store_transactions_total", Labels: []string{"tag", "outcome"},
			Help: "transactions of this process, by the kind of work and whether they committed in the end"}),
		conflicts: m.counters(Family{Name: "couchrelay_store_conflicts_total", Labels: tag,
			Help: "attempts of transactions that conflicted with others, and were repeated"}),
		retries: m.counters(Family{Name: "couchrelay_store_retries_total", Labels: tag,
			Help: "attempts of transactions that failed for another reason, and were repeated"}),
		commits: m.histograms(Family{Name: "couchrelay_store_commit_seconds",
			Help: "how long commits took that changed something or nothing, failed ones included"},
			[]float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}).WithLabelValues(),
		tallies: map[string]prometheus.Counter{
			jobs.TallyAdded: m.counter(Family{Name: inJobs + "adds_total", Couch: "couch_replicator/jobs/adds",
				Help: "jobs that this node has made, or made run again once they were over"}),
			jobs.TallyRemoved: m.counter(Family{Name: inJobs + "removes_total", Couch: "couch_replicator/jobs/removes",
				Help: "jobs that this node has ended for good or removed"}),
		},
	}
	for _, tag := range append(tags, untagged, other) {
		t.total.WithLabelValues(tag, "committed")
		t.total.WithLabelValues(tag, "failed")
		t.conflicts.WithLabelValues(tag)
		t.retries.WithLabelValues(tag)
	}
	return t
}

// tags are those of kv.Options that the process uses, and untagged stands for none: most requests have none.
var tags = []string{"follow", "list", "login", "metrics", "node", "security", "sweep"}

const untagged = "request"

// Store returns a database whose transactions count. It is to be the outermost one, which its users see.
func (m *Meter) Store(db kv.Database) kv.Database { return database{db, &m.store} }

type database struct {
	kv.Database
	meter *transactions
}

// Begin is kv.Database's.
func (d database) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	tag := untagged
	if o.Tag != "" {
		tag = oneOf(o.Tag, tags...)
	}
	return &transaction{Transaction: d.Database.Begin(ctx, o), meter: d.meter, tag: tag}
}

// transaction counts what becomes of a transaction. What it tallies counts when it has committed.
type transaction struct {
	kv.Transaction
	meter   *transactions
	tag     string
	tallies map[string]int64 // of the present attempt; nil for none
	over    bool             // it has counted
}

// Tally is kv.Tallier's.
func (t *transaction) Tally(kind string, n int64) {
	if t.tallies == nil {
		t.tallies = map[string]int64{}
	}
	t.tallies[kind] += n
}

// Commit is kv.Transaction's.
func (t *transaction) Commit() error {
	began := time.Now()
	err := t.Transaction.Commit()
	t.meter.commits.Observe(time.Since(began).Seconds())
	if err == nil {
		t.end("committed")
		for kind, n := range t.tallies {
			if counter := t.meter.tallies[kind]; counter != nil {
				counter.Add(float64(n))
			}
		}
		clear(t.tallies)
	}
	return err
}

// OnError is kv.Transaction's.
func (t *transaction) OnError(err error) error {
	clear(t.tallies)
	final := t.Transaction.OnError(err)
	switch {
	case final != nil:
		t.end("failed")
	case kv.CodeOf(err) == kv.NotCommitted:
		t.meter.conflicts.WithLabelValues(t.tag).Inc()
	default:
		t.meter.retries.WithLabelValues(t.tag).Inc()
	}
	return final
}

// end counts the transaction, once.
func (t *transaction) end(outcome string) {
	if !t.over {
		t.over = true
		t.meter.total.WithLabelValues(t.tag, outcome).Inc()
	}
}

var _ kv.Tallier = (*transaction)(nil)
