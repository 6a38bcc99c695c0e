package figures

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/forecast"
	"couchrelay/sim/sweep"
)

// Choice says what of results a figure shows.
type Choice struct {
	Metrics []string          // as many as the figure needs; its own unless told
	By      string            // the axis whose values look different; the first unless told
	Over    string            // the axis along which a metric is drawn; the last unless told
	Where   map[string]string // only points with these settings
}

// part is the points of results that a figure shows.
type part struct {
	*sweep.Results
	Choice
	points []sweep.Summary
}

// chosen checks a choice and finds its points.
func chosen(r *sweep.Results, c Choice) (part, error) {
	p := part{Results: r, Choice: c}
	for _, name := range c.Metrics {
		if len(r.Summaries) > 0 && !has(r.Summaries[0].Metrics, name) {
			return p, fmt.Errorf("%s: no such metric; the results have %s", name, strings.Join(metricNames(r), ", "))
		}
	}
	for _, axis := range []string{c.By, c.Over} {
		if axis != "" && !slices.Contains(r.Header.Axes, axis) {
			return p, noAxis(r, axis)
		}
	}
	for key := range c.Where {
		if !slices.Contains(r.Header.Axes, key) {
			return p, noAxis(r, key)
		}
	}
	for _, s := range r.Summaries {
		fits := true
		for key, value := range c.Where {
			fits = fits && sweep.Same(s.Settings[key], value)
		}
		if fits {
			p.points = append(p.points, s)
		}
	}
	if len(p.points) == 0 {
		return p, errors.New("no point of the results has these settings")
	}
	return p, nil
}

func noAxis(r *sweep.Results, axis string) error {
	return fmt.Errorf("%s: no such axis; the results have %s", axis, strings.Join(r.Header.Axes, ", "))
}

func has(metrics map[string]sweep.Interval, name string) bool { _, is := metrics[name]; return is }

// metricNames are those of the results in the order of their header, without those of accounts.
func metricNames(r *sweep.Results) (names []string) {
	for _, m := range r.Header.Metrics {
		if has(r.Summaries[0].Metrics, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// axisOf is a linear axis for a metric. One in seconds is an axis of time.
func (p part) axisOf(metric string) Axis {
	a := Axis{Label: metric}
	switch unit := p.Header.Unit(metric); unit {
	case "":
	case "s":
		a.Scale = Time
	default:
		a.Label += " (" + unit + ")"
	}
	return a
}

// value returns a metric of a point with its interval, and whether there is one.
func value(s sweep.Summary, metric string) (v, low, high float64, there bool) {
	i := s.Metrics[metric]
	v, low, high = float64(i.Mean), float64(i.Low), float64(i.High)
	if math.IsNaN(low) || math.IsNaN(high) {
		low, high = v, v
	}
	return v, low, high, !math.IsNaN(v)
}

// families are the values of the axis by which points look different, and the look of each. Values beyond the
// last look are one family.
type families struct {
	axis  string
	looks map[string]int
	names []string
}

func (p part) families(without string) families {
	f := families{axis: p.By, looks: map[string]int{}}
	for _, axis := range p.Header.Axes {
		if f.axis == "" && axis != without {
			f.axis = axis
		}
	}
	if f.axis == "" {
		return families{looks: map[string]int{"": 0}, names: []string{""}}
	}
	for _, s := range p.points {
		v := s.Settings[f.axis]
		if _, known := f.looks[v]; known {
			continue
		}
		f.looks[v] = min(len(f.names), Most-1)
		if len(f.names) < Most {
			f.names = append(f.names, settingName(f.axis, v))
		}
	}
	if more := len(f.looks) - Most; more > 0 {
		f.names[Most-1] = fmt.Sprintf("%d other values of %s", more+1, f.axis)
	}
	return f
}

// settingName is a setting as legends have it: a policy says by its name what it is.
func settingName(key, value string) string {
	if key == "scheduling_policy" {
		return value
	}
	return key + "=" + value
}

// of returns the look of a point.
func (f families) of(s sweep.Summary) int { return f.looks[s.Settings[f.axis]] }

// curves makes one of each family.
func (f families) curves(form Form) (curves []Curve) {
	for look, name := range f.names {
		curves = append(curves, Curve{Name: name, Look: look, Form: form})
	}
	return curves
}

// missing tells how many points are left out, without what, and of how many others some seeds have no value.
func (p part) missing(left int, without string) (says []string) {
	if left > 0 {
		says = append(says, fmt.Sprintf("left out: %d points without %s", left, without))
	}
	some, all := 0, p.Header.Seeds()
	for _, s := range p.points {
		if slices.ContainsFunc(p.Metrics, func(m string) bool { n := s.Metrics[m].Seeds; return n > 0 && n < all }) {
			some++
		}
	}
	if some > 0 {
		says = append(says, fmt.Sprintf("%d points have means of some of the %d seeds", some, all))
	}
	return says
}

// compared shows a metric of each point.
func compared(p part) (Drawing, error) {
	metric := p.Metrics[0]
	d := Bars{X: p.axisOf(metric)}
	for _, s := range p.points {
		if v, low, high, there := value(s, metric); there {
			d.Bars = append(d.Bars, Bar{p.name(s), v, low, high, s.Point})
		}
	}
	if len(d.Bars) == 0 {
		return nil, fmt.Errorf("%w: no point has a value of %s", ErrEmpty, metric)
	}
	if slices.ContainsFunc(d.Bars, func(b Bar) bool { return len(b.Name) > longName }) {
		for _, b := range d.Bars {
			d.Says = append(d.Says, fmt.Sprintf("%d  %s", b.Number, b.Name))
		}
	}
	d.Says = append(d.Says, p.missing(len(p.points)-len(d.Bars), "a value of "+metric)...)
	return d, nil
}

// name tells a point from the others, without what they have in common.
func (p part) name(s sweep.Summary) string {
	var varied, words []string
	for _, axis := range p.Header.Axes {
		if slices.ContainsFunc(p.points, func(o sweep.Summary) bool { return o.Settings[axis] != s.Settings[axis] }) {
			varied = append(varied, axis)
		}
	}
	for _, axis := range varied {
		v, set := s.Settings[axis]
		switch {
		case !set:
		case len(varied) == 1:
			words = append(words, v)
		default:
			words = append(words, settingName(axis, v))
		}
	}
	if len(words) == 0 {
		return "as the experiment says"
	}
	return strings.Join(words, ", ")
}

// traded shows two metrics of each point, and the points at which neither can be bettered but at the other's cost.
func traded(p part) (Drawing, error) {
	best, left, err := (&sweep.Results{Header: p.Header, Runs: p.Runs, Summaries: p.points}).Undominated(p.Metrics)
	if err != nil {
		return nil, err
	}
	f := p.families("")
	d := Chart{X: p.axisOf(p.Metrics[0]), Y: p.axisOf(p.Metrics[1])}
	at := func(s sweep.Summary) (Point, bool) {
		x, _, _, hasX := value(s, p.Metrics[0])
		y, _, _, hasY := value(s, p.Metrics[1])
		return Point{X: x, Y: y}, hasX && hasY
	}
	line := Curve{Name: "Pareto front", Form: Front}
	for i, s := range best {
		point, _ := at(s)
		point.Note = strconv.Itoa(i + 1)
		line.Points = append(line.Points, point)
		d.Says = append(d.Says, fmt.Sprintf("%d  %s: %s, %s", i+1, p.name(s), p.told(0, point.X), p.told(1, point.Y)))
	}
	d.Curves = append([]Curve{line}, f.curves(Marks)...)
	for _, s := range p.points {
		if point, there := at(s); there {
			c := &d.Curves[1+f.of(s)]
			c.Points = append(c.Points, point)
		}
	}
	if len(line.Points) == 0 {
		return nil, fmt.Errorf("%w: no point has values of both %s and %s", ErrEmpty, p.Metrics[0], p.Metrics[1])
	}
	d.Says = append(d.Says, p.missing(left, "a value of both")...)
	d.X, d.Y = spread(d.X, d.values(true)), spread(d.Y, d.values(false))
	return d, nil
}

// told is a value of one of the metrics in words.
func (p part) told(metric int, v float64) string {
	text := fmt.Sprintf("%s %.4g", p.Metrics[metric], v)
	if unit := p.Header.Unit(p.Metrics[metric]); unit != "" {
		text += " " + unit
	}
	return text
}

// spread makes an axis logarithmic if its values are of several orders of magnitude. One of parts begins a little
// below 0, so that notes have room.
func spread(a Axis, values []float64) Axis {
	least, most := slices.Min(values), slices.Max(values)
	switch {
	case least > 0 && most > 20*least && a.Scale == Time:
		a.Scale = LogTime
	case least > 0 && most > 20*least:
		a.Scale = Log
	case least >= 0 && most > 0:
		a.Min, a.Max = -most/25, most*1.05
	}
	return a
}

// collapsed shows a metric by the ratio of the memory of priorities to a full turn.
func collapsed(p part) (Drawing, error) {
	if err := p.Header.CheckInputs(); err != nil {
		return nil, err
	}
	e, err := sweep.Parse(p.Header.File, p.Header.Experiment)
	if err != nil {
		return nil, err
	}
	f := p.families("")
	d := Chart{X: Axis{Label: "τ/L", Scale: Log}, Y: p.axisOf(p.Metrics[0]), Curves: f.curves(Marks)}
	d.Y.Zero = true
	const enough = forecast.ShortMemory / 1e6
	d.References = []Reference{{fmt.Sprint("τ/L = ", enough), enough, true}}
	queues, n := map[string]forecast.Queue{}, 0
	for _, s := range p.points {
		v, low, high, there := value(s, p.Metrics[0])
		ratio, err := memory(e, s, queues)
		if err != nil {
			return nil, err
		}
		if there && ratio > 0 {
			c := &d.Curves[f.of(s)]
			c.Points = append(c.Points, Point{X: ratio, Y: v, Low: low, High: high})
			n++
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: τ is the memory of fairshare, L the time of a turn: no point has both", ErrEmpty)
	}
	d.Says = p.missing(len(p.points)-n, "τ, L or a value")
	return d, nil
}

// memory returns tau/L of a point, 0 if it has none.
func memory(e *sweep.Experiment, s sweep.Summary, queues map[string]forecast.Queue) (float64, error) {
	var point sweep.Point
	for key, v := range s.Settings {
		one, err := sweep.ParsePoint(key + "=" + v)
		if err != nil {
			return 0, err
		}
		point = append(point, one...)
	}
	setup, err := e.Setup(point)
	if err != nil {
		return 0, err
	}
	name := setup.Recipe.String()
	q, known := queues[name]
	if !known {
		w, err := setup.Recipe.Build(e.First)
		if err != nil {
			return 0, err
		}
		for _, a := range w.Accounts {
			q.Accounts = append(q.Accounts, forecast.Account{Name: a.Name})
		}
		for _, j := range w.Busiest() { // jobs that come when others are gone make no turn longer
			q.Accounts[j.Account].Jobs++
		}
		q.Accounts = slices.DeleteFunc(q.Accounts, func(a forecast.Account) bool { return a.Jobs == 0 })
		queues[name] = q
	}
	q.Nodes = setup.Nodes
	return float64(forecast.Of(setup.Settings, q).Ratio) / 1e6, nil
}

// moved shows a metric along an axis.
func moved(p part) (Drawing, error) {
	over := p.Over
	if over == "" && len(p.Header.Axes) > 0 {
		over = p.Header.Axes[len(p.Header.Axes)-1]
	}
	if over == p.By {
		return nil, fmt.Errorf("%q: the axis along which a metric is drawn cannot also tell its curves apart", over)
	}
	f := p.families(over)
	d := Chart{X: Axis{Label: over}, Y: p.axisOf(p.Metrics[0]), Curves: f.curves(Line)}
	d.Y.Zero = true
	var apart []string // axes in which points of one curve differ
	last, times, left := map[int]sweep.Summary{}, false, 0
	for _, s := range p.points {
		x := sweep.Amount(s.Settings[over])
		v, low, high, there := value(s, p.Metrics[0])
		if math.IsNaN(x) || !there {
			left++
			continue
		}
		_, err := strconv.ParseFloat(s.Settings[over], 64)
		times = times || err != nil // 0 needs no unit
		look := f.of(s)
		c := &d.Curves[look]
		c.Points = append(c.Points, Point{X: x, Y: v, Low: low, High: high})
		for _, axis := range p.Header.Axes {
			before, known := last[look]
			if known && axis != over && before.Settings[axis] != s.Settings[axis] && !slices.Contains(apart, axis) {
				apart = append(apart, axis)
			}
		}
		last[look] = s
	}
	if times {
		d.X.Scale = Time
	}
	d.Says = p.missing(left, fmt.Sprintf("a number for %s, or a value", over))
	if len(apart) > 0 { // a line would go to and fro between them
		d.Says = append(d.Says, fmt.Sprintf("points of one look differ in %s, too: --where KEY=VALUE chooses",
			strings.Join(apart, ", ")))
		for i := range d.Curves {
			d.Curves[i].Form = Marks
		}
	}
	for i := range d.Curves {
		slices.SortStableFunc(d.Curves[i].Points, func(a, b Point) int { return int(math.Copysign(1, a.X-b.X)) })
	}
	if len(d.values(true)) == 0 {
		return nil, fmt.Errorf("%w: no point has a number for %q and a value of %s", ErrEmpty, over, p.Metrics[0])
	}
	x := d.values(true)
	least, most := slices.Min(x), slices.Max(x)
	switch {
	case least > 0 && most > 20*least && times:
		d.X.Scale = LogTime
	case least > 0 && most > 20*least:
		d.X.Scale = Log
	case most > least:
		d.X.Min, d.X.Max = least-(most-least)/25, most+(most-least)/25
	}
	return d, nil
}
