package metrics

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// gather returns all metrics of this moment, ordered by name.
func (m *Meter) gather(s State, now time.Time) ([]*dto.MetricFamily, error) {
	present := prometheus.NewRegistry()
	if err := present.Register(moment{gauges: &m.gauges, state: s, uptime: now.Sub(m.began)}); err != nil {
		return nil, err
	}
	return prometheus.Gatherers{m.registry, present}.Gather()
}

// MediaType is that of Text.
const MediaType = string(expfmt.FmtText)

// Text returns all metrics in Prometheus' text format. OpenMetrics would give some of CouchDB's another name.
func (m *Meter) Text(s State, now time.Time) ([]byte, error) {
	families, err := m.gather(s, now)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// Stats returns all metrics of couchrelay as CouchDB's tree of statistics. Those that CouchDB does not have are below
// "couchrelay".
func (m *Meter) Stats(s State, now time.Time) (map[string]any, error) {
	families, err := m.gather(s, now)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for _, f := range families {
		if len(f.Metric) == 1 && len(f.Metric[0].Label) == 0 {
			values[f.GetName()] = valueOf(f.Metric[0])
		}
	}
	tree := map[string]any{}
	for _, f := range families {
		known, is := m.families[f.GetName()]
		if !is {
			continue // of Go and the process, which _system tells
		}
		path := known.Couch
		if path == "" {
			path = "couchrelay/" + strings.TrimPrefix(strings.TrimPrefix(known.Name, "couchrelay_"), "couchdb_")
		}
		for _, metric := range f.Metric {
			at := strings.Split(path, "/")
			for _, label := range metric.Label {
				at = append(at, label.GetValue())
			}
			graft(tree, at, leaf(known, metric, values[known.Less]))
		}
	}
	return tree, nil
}

// graft puts a value into a tree.
func graft(tree map[string]any, at []string, value any) {
	for _, name := range at[:len(at)-1] {
		below, is := tree[name].(map[string]any)
		if !is {
			below = map[string]any{}
			tree[name] = below
		}
		tree = below
	}
	tree[at[len(at)-1]] = value
}

// Stat is a metric as CouchDB tells one.
type Stat struct {
	Value any    `json:"value"`
	Type  string `json:"type"`
	Desc  string `json:"desc"`
}

// Below returns what is below a part of Stats, nil if there is nothing of this name.
func Below(tree any, name string) any {
	switch t := tree.(type) {
	case map[string]any:
		return t[name]
	case Stat:
		return map[string]any{"value": t.Value, "type": t.Type, "desc": t.Desc}[name]
	}
	return nil
}

// leaf is a metric as CouchDB tells one. Times are in milliseconds there.
func leaf(f Family, metric *dto.Metric, less float64) Stat {
	s := Stat{Value: valueOf(metric) - less, Type: f.Kind, Desc: f.Help}
	if f.Rest != "" {
		s.Desc = f.Rest
	}
	if h := metric.Histogram; h != nil {
		s.Value = distribution(h.GetSampleCount(), h.GetSampleSum())
	}
	if sum := metric.Summary; sum != nil {
		d := distribution(sum.GetSampleCount(), sum.GetSampleSum())
		percentiles := [][]float64{}
		for _, q := range sum.Quantile {
			if !math.IsNaN(q.GetValue()) {
				percentiles = append(percentiles, []float64{q.GetQuantile() * 100, q.GetValue() * 1000})
			}
		}
		d["percentile"] = percentiles
		s.Type, s.Value = "histogram", d
	}
	return s
}

// distribution is what CouchDB tells of one at least.
func distribution(n uint64, sum float64) map[string]any {
	mean := 0.0
	if n > 0 {
		mean = 1000 * sum / float64(n)
	}
	return map[string]any{"n": n, "arithmetic_mean": mean}
}

// valueOf is the value of a counter or gauge.
func valueOf(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }
