package figures

import (
	"fmt"
	"strings"

	"couchrelay/sim/metrics"
	"couchrelay/sim/sweep"
)

// Figure is one of the catalogue: what it shows, and how it is made.
type Figure struct {
	Name  string
	Shows string
	// OfRuns makes it of runs that were played with series, or with spans for a Gantt chart; nil if it is made of
	// results. It takes one run unless Several.
	OfRuns  func([]Run) (Drawing, error)
	Several bool
	// Metrics are those that it shows of results unless told otherwise.
	Metrics []string

	ofResults func(part) (Drawing, error)
}

const (
	shareError = "share-error-max-run"
	longest    = "longest-gap"
)

// Catalogue has all figures, those of runs first.
var Catalogue = []Figure{
	{Name: "shares", OfRuns: shares,
		Shows: "the share of each account in the slots in use over time, and what it was entitled to (thin)"},
	{Name: "lag", OfRuns: lags, Shows: "the lag of each account over time: below 0 it is ahead of its entitlement"},
	{Name: "waits", OfRuns: waits, Several: true,
		Shows: "how many of the waits for a slot were how long, by account; waits below 1 s count as 1 s, and " +
			"those that do not end are not counted"},
	{Name: "jain", OfRuns: jains, Several: true, Shows: "Jain's index of fairness over time; 1 is perfect"},
	{Name: "churn", Several: true, Shows: "starts of jobs per hour over time",
		OfRuns: overTime(Axis{Label: "starts (1/h)", Zero: true},
			func(s *metrics.Series) []float64 { return s.Starts })},
	{Name: "utilisation", Several: true, Shows: "the part of the slots that are in use, over time",
		OfRuns: overTime(Axis{Label: "utilisation (%)", Max: percentTop},
			func(s *metrics.Series) []float64 { return s.Utilisation })},
	{Name: "gantt", OfRuns: gantt, Shows: "when jobs ran, started up, waited and were in back-off, a row for each job"},

	{Name: "compare", ofResults: compared, Metrics: []string{shareError},
		Shows: "a metric of each point, with its interval"},
	{Name: "axis", ofResults: moved, Metrics: []string{shareError},
		Shows: "a metric along one axis (--over), a curve for each value of another one (--by)"},
	{Name: "tau", ofResults: collapsed, Metrics: []string{shareError},
		Shows: "a metric by τ/L, the memory of priorities to a full turn; a marker for each value of an axis (--by)"},
	{Name: "pareto", ofResults: traded, Metrics: []string{shareError, longest},
		Shows: "two metrics of each point, and the points at which neither can be bettered but at the other's cost"},
}

// Find returns a figure of the catalogue.
func Find(name string) (*Figure, error) {
	var names []string
	for i := range Catalogue {
		if Catalogue[i].Name == name {
			return &Catalogue[i], nil
		}
		names = append(names, Catalogue[i].Name)
	}
	return nil, fmt.Errorf("%q: no such figure; there are %s", name, strings.Join(names, ", "))
}

// Says are the lines that belong to a drawing, and are not in it.
func Says(d Drawing) []string {
	switch d := d.(type) {
	case Chart:
		return d.Says
	case Bars:
		return d.Says
	}
	return nil
}

// OfResults makes a figure of results.
func (f *Figure) OfResults(r *sweep.Results, c Choice) (Drawing, error) {
	if len(c.Metrics) == 0 {
		c.Metrics = f.Metrics
	}
	if len(c.Metrics) != len(f.Metrics) {
		return nil, fmt.Errorf("%s shows %d metrics, not %d", f.Name, len(f.Metrics), len(c.Metrics))
	}
	p, err := chosen(r, c)
	if err != nil {
		return nil, err
	}
	return f.ofResults(p)
}
