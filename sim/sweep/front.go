package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"couchrelay/sim/metrics/stats"
)

// Undominated returns the points at which none of the metrics can be bettered without another getting worse: the
// Pareto front of the means. They are in the order of the first metric. It tells how many points are left out, since
// they lack a value.
func (r *Results) Undominated(names []string) (front []Summary, left int, err error) {
	var sign []float64
	for _, name := range names {
		m := r.Header.metric(name)
		switch {
		case !slices.Contains(r.names(), name):
			return nil, 0, fmt.Errorf("%s: no such metric; known are %s", name, strings.Join(r.names(), ", "))
		case m.Better == "less":
			sign = append(sign, 1)
		case m.Better == "more":
			sign = append(sign, -1)
		default:
			return nil, 0, fmt.Errorf("%s: neither more nor less of it is better", name)
		}
	}
	values := func(s Summary) []float64 {
		v := make([]float64, len(names))
		for i, name := range names {
			v[i] = sign[i] * float64(s.Metrics[name].Mean)
		}
		return v
	}
	for _, s := range r.Summaries {
		if slices.ContainsFunc(values(s), math.IsNaN) {
			left++
			continue
		}
		if !slices.ContainsFunc(r.Summaries, func(o Summary) bool { return dominates(values(o), values(s)) }) {
			front = append(front, s)
		}
	}
	slices.SortStableFunc(front, func(a, b Summary) int { return cmp.Compare(values(a)[0], values(b)[0]) })
	return front, left, nil
}

// dominates reports whether a is less in one place, and nowhere more.
func dominates(a, b []float64) bool {
	less := false
	for i := range a {
		if !(a[i] <= b[i]) {
			return false
		}
		less = less || a[i] < b[i]
	}
	return less
}

// Effect is how an axis moves the mean of a metric.
type Effect struct {
	Axis string `json:"axis"`
	// From and To are the first and the last value of the axis, and Change how much greater the metric is at the
	// last, on the average over Pairs of points that have these values and differ in nothing else.
	From   string `json:"from"`
	To     string `json:"to"`
	Change Number `json:"change"`
	Pairs  int    `json:"pairs"`
	// Rank is Spearman's rank correlation of the metric and the axis over all points, of which no two need be
	// alike in other axes; NaN for an axis of words.
	Rank Number `json:"rank_correlation"`
}

// Sensitivity returns what each axis does to a metric, one at a time.
func (r *Results) Sensitivity(metric string) ([]Effect, error) {
	if !slices.Contains(r.names(), metric) {
		return nil, fmt.Errorf("%s: no such metric; known are %s", metric, strings.Join(r.names(), ", "))
	}
	var list []Effect
	for _, axis := range r.Header.Axes {
		list = append(list, r.effect(axis, metric))
	}
	return list, nil
}

func (r *Results) effect(axis, metric string) Effect {
	var levels []string
	for _, s := range r.Summaries {
		if v := s.Settings[axis]; !slices.Contains(levels, v) {
			levels = append(levels, v)
		}
	}
	numeric := !slices.ContainsFunc(levels, func(v string) bool { return math.IsNaN(Amount(v)) })
	if numeric {
		slices.SortFunc(levels, func(a, b string) int { return cmp.Compare(Amount(a), Amount(b)) })
	}
	e := Effect{Axis: axis, From: levels[0], To: levels[len(levels)-1], Rank: Number(math.NaN())}
	first, changes := map[string]float64{}, []float64{}
	for _, s := range r.Summaries {
		if s.Settings[axis] == e.From {
			first[r.beside(s.Settings, axis)] = float64(s.Metrics[metric].Mean)
		}
	}
	var x, y []float64
	for _, s := range r.Summaries {
		value := float64(s.Metrics[metric].Mean)
		if math.IsNaN(value) {
			continue
		}
		x, y = append(x, Amount(s.Settings[axis])), append(y, value)
		was, is := first[r.beside(s.Settings, axis)]
		if is && e.From != e.To && s.Settings[axis] == e.To && !math.IsNaN(was) {
			changes = append(changes, value-was)
		}
	}
	e.Change, e.Pairs = Number(stats.Mean(changes)), len(changes)
	if numeric && len(levels) > 1 {
		e.Rank = Number(correlation(ranks(x), ranks(y)))
	}
	return e
}

// Inert returns the axes with which no value of any run changes, where nothing else differs between two points: what
// they set has no effect beside the other settings.
func (r *Results) Inert() []string {
	return slices.DeleteFunc(slices.Clone(r.Header.Axes), func(axis string) bool {
		first, pairs := map[string]Values{}, 0
		for _, run := range r.Runs {
			beside := fmt.Sprint(run.Seed, "\n", r.beside(run.Settings, axis))
			was, is := first[beside]
			switch {
			case !is:
				first[beside] = run.Metrics
			case !maps.EqualFunc(was, run.Metrics, func(a, b Number) bool { return a == b || a != a && b != b }):
				return true
			default:
				pairs++
			}
		}
		return pairs == 0
	})
}

// beside are the settings of a point but for one axis.
func (r *Results) beside(settings map[string]string, axis string) string {
	var all []string
	for _, a := range r.Header.Axes {
		if a != axis {
			all = append(all, settings[a])
		}
	}
	return strings.Join(all, "\n")
}

// Amount is a value as a number, times in seconds; NaN for words.
func Amount(value string) float64 {
	if x, err := strconv.ParseFloat(value, 64); err == nil {
		return x
	}
	if d, err := parseSpan(value); err == nil {
		return d.Seconds()
	}
	return math.NaN()
}

// Same reports whether two values are the same, as 1m and 60s are.
func Same(a, b string) bool { return a == b || Amount(a) == Amount(b) }

// ranks are the places of values in their order; equal ones share the mean of theirs.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	all := make([]float64, len(values))
	for i := 0; i < len(order); {
		end := i
		for end < len(order) && values[order[end]] == values[order[i]] {
			end++
		}
		for _, place := range order[i:end] {
			all[place] = float64(i+end-1) / 2
		}
		i = end
	}
	return all
}

// correlation is Pearson's; NaN when one of the two does not vary.
func correlation(x, y []float64) float64 {
	mx, my := stats.Mean(x), stats.Mean(y)
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy += dx * dy
		xx += dx * dx
		yy += dy * dy
	}
	return xy / math.Sqrt(xx*yy)
}
