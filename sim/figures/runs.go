package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"couchrelay/sim/metrics"
	"couchrelay/sim/workload"
)

// Run is one that was played, with series or spans as the figure needs.
type Run struct {
	Name     string // what tells it from others in the figure; empty if it is alone
	Result   *metrics.Result
	Workload *workload.Workload
}

// classes put accounts together that a figure cannot tell apart.
type classes struct {
	names []string
	of    []int // by account
}

// classify keeps the accounts with the greatest entitlements, in their order, if there are too many, and makes
// one class of all others.
func classify(r *metrics.Result) classes {
	n := len(r.Accounts)
	if n <= Most {
		c := classes{names: r.Accounts}
		for i := range n {
			c.of = append(c.of, i)
		}
		return c
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	weight := func(i int) float64 {
		if w := r.AccountValue(i, "entitled-share"); !math.IsNaN(w) {
			return math.Round(100 * w) // so that noise does not choose among equals
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight(b), weight(a)) })
	kept := order[:Most-1]
	slices.Sort(kept)
	c := classes{of: make([]int, n)}
	for i := range c.of {
		c.of[i] = Most - 1
	}
	for look, account := range kept {
		c.of[account] = look
		c.names = append(c.names, r.Accounts[account])
	}
	c.names = append(c.names, fmt.Sprintf("%d others", n-len(kept)))
	return c
}

// span is the axis of the time that was measured.
func span(r *metrics.Result) Axis {
	return Axis{Label: "time", Scale: Time, Min: r.From.Seconds(), Max: r.Until.Seconds()}
}

// middles are the times in the middle of the windows of series.
func middles(r *metrics.Result) []float64 {
	var all []float64
	from := r.From
	for _, end := range r.Series.Ends {
		all = append(all, (from+end).Seconds()/2)
		from = end
	}
	return all
}

// ends are the times at the end of the windows of series.
func ends(r *metrics.Result) []float64 {
	var all []float64
	for _, end := range r.Series.Ends {
		all = append(all, end.Seconds())
	}
	return all
}

// row makes points of values, but for those that are missing.
func row(times, values []float64, scale float64) (points []Point) {
	for i, v := range values {
		if !math.IsNaN(v) {
			points = append(points, Point{X: times[i], Y: v * scale})
		}
	}
	return points
}

// summed adds up the series of each class.
func summed(c classes, r *metrics.Result, of func(*metrics.AccountSeries) []float64) [][]float64 {
	all := make([][]float64, len(c.names))
	for a := range r.Series.Accounts {
		values := of(&r.Series.Accounts[a])
		if all[c.of[a]] == nil {
			all[c.of[a]] = make([]float64, len(values))
		}
		for i, v := range values {
			all[c.of[a]][i] += v
		}
	}
	return all
}

// shares is the share of each account over time.
func shares(runs []Run) (Drawing, error) {
	r := runs[0].Result
	c, times := classify(r), middles(r)
	got := summed(c, r, func(s *metrics.AccountSeries) []float64 { return s.Share })
	due := summed(c, r, func(s *metrics.AccountSeries) []float64 { return s.Entitled })
	d := Chart{X: span(r), Y: Axis{Label: "share (%)", Zero: true}}
	for i := range c.names {
		d.Curves = append(d.Curves, Curve{Look: i, Form: Target, Points: row(times, due[i], 1)})
	}
	for i, name := range c.names {
		d.Curves = append(d.Curves, Curve{Name: name, Look: i, Points: row(times, got[i], 1)})
	}
	d.Curves[0].Name = "entitled (thin)"
	return d, nil
}

// lags is the lag of each account over time.
func lags(runs []Run) (Drawing, error) {
	r := runs[0].Result
	c, times := classify(r), ends(r)
	values := summed(c, r, func(s *metrics.AccountSeries) []float64 { return s.Lag })
	most := 0.0
	for _, v := range values {
		for _, x := range v {
			most = max(most, math.Abs(x))
		}
	}
	u := units[0]
	for _, bigger := range units[1:3] {
		if most >= 10*bigger.seconds {
			u = bigger
		}
	}
	d := Chart{X: span(r), Y: Axis{Label: "lag (slot-" + u.name + ")", Zero: true}}
	d.References = []Reference{{At: 0}}
	for i, name := range c.names {
		d.Curves = append(d.Curves, Curve{Name: name, Look: i, Points: row(times, values[i], 1/u.seconds)})
	}
	return d, nil
}

// percentTop is the end of an axis of percentages. Lines at 100 stay off the edge.
const percentTop = 103

// overTime makes a figure of one series of each run.
func overTime(y Axis, of func(*metrics.Series) []float64) func([]Run) (Drawing, error) {
	return func(runs []Run) (Drawing, error) {
		d := Chart{X: span(runs[0].Result), Y: y}
		for i, r := range runs {
			d.X.Min, d.X.Max = min(d.X.Min, r.Result.From.Seconds()), max(d.X.Max, r.Result.Until.Seconds())
			points := row(middles(r.Result), of(r.Result.Series), 1)
			d.Curves = append(d.Curves, Curve{Name: r.Name, Look: i, Points: points})
		}
		return d, nil
	}
}

// jains is Jain's index of each run over time; the axis begins near the least value, since most are close to 1.
func jains(runs []Run) (Drawing, error) {
	drawing, err := overTime(Axis{Label: "Jain's index"}, func(s *metrics.Series) []float64 { return s.Jain })(runs)
	d := drawing.(Chart)
	least := 0.98
	for _, v := range d.values(false) {
		least = min(least, v)
	}
	d.Y.Min = math.Floor(least*50) / 50
	d.Y.Max = 1 + (1-d.Y.Min)*(percentTop-100)/100
	return d, err
}

// leastWait is as what shorter waits count, since a logarithmic axis has no place for 0.
const leastWait = 1.0

// waits is how long jobs waited for a slot: by account, or by run if there are several.
func waits(runs []Run) (Drawing, error) {
	d := Chart{X: Axis{Label: "wait", Scale: LogTime}, Y: Axis{Label: "waits no longer than this (%)", Max: percentTop}}
	if len(runs) > 1 {
		for i, r := range runs {
			d.Curves = append(d.Curves, cumulated(r.Name, i, waited(r.Result, -1)))
		}
		return d, nil
	}
	r := runs[0].Result
	c := classify(r)
	all := make([][]weighted, len(c.names))
	for a := range r.Accounts {
		all[c.of[a]] = append(all[c.of[a]], waited(r, a)...)
	}
	for i, name := range c.names {
		d.Curves = append(d.Curves, cumulated(name, i, all[i]))
	}
	return d, nil
}

// weighted is a value that came up some times.
type weighted struct{ value, weight float64 }

// waited are the waits of an account, or of all, before first and later starts.
func waited(r *metrics.Result, account int) (all []weighted) {
	for _, family := range []string{"wait-first", "wait-turn"} {
		d := r.Distribution(family, account)
		before := 0.0
		for _, p := range d.Points() {
			all = append(all, weighted{max(p.Value, leastWait), (p.Part - before) * d.Weight()})
			before = p.Part
		}
	}
	return all
}

// cumulated is the curve of the part of values that are no greater.
func cumulated(name string, look int, values []weighted) Curve {
	c := Curve{Name: name, Look: look, Form: Steps}
	slices.SortFunc(values, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	sum, total := 0.0, 0.0
	for _, v := range values {
		total += v.weight
	}
	for i, v := range values {
		if i == 0 {
			c.Points = append(c.Points, Point{X: v.value})
		}
		sum += v.weight
		c.Points = append(c.Points, Point{X: v.value, Y: 100 * sum / total})
	}
	return c
}

// gantt is when some jobs ran and waited.
func gantt(runs []Run) (Drawing, error) {
	r, w := runs[0].Result, runs[0].Workload
	c := classify(r)
	d := Gantt{From: r.From.Seconds(), To: r.Until.Seconds(), Accounts: c.names}
	rows := map[int]*Row{}
	var jobs []int
	for _, s := range r.Gantt {
		job := &w.Jobs[s.Job]
		if rows[s.Job] == nil {
			rows[s.Job] = &Row{Account: c.of[job.Account]}
			jobs = append(jobs, s.Job)
		}
		rows[s.Job].Spans = append(rows[s.Job].Spans, spans(s)...)
	}
	slices.SortFunc(jobs, func(a, b int) int {
		return cmp.Or(cmp.Compare(rows[a].Account, rows[b].Account), cmp.Compare(a, b))
	})
	for _, j := range jobs {
		d.Rows = append(d.Rows, *rows[j])
	}
	return d, nil
}

// spans are those of a figure for one of the meter. A run begins with its start-up.
func spans(s metrics.Span) []Span {
	from, to := s.From.Seconds(), s.To.Seconds()
	switch s.State {
	case metrics.Waiting:
		return []Span{{Waiting, from, to}}
	case metrics.Backoff:
		return []Span{{Backoff, from, to}}
	}
	begun := min(max(s.Ready.Seconds(), from), to)
	return []Span{{StartUp, from, begun}, {Running, begun, to}}
}
