package figures

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Chart is curves and points over two axes.
type Chart struct {
	X, Y       Axis
	Curves     []Curve
	References []Reference
	Says       []string // what notes stand for and what is left out, a line each
}

// Axis is one of a chart or of bars.
type Axis struct {
	Label string // an axis of Time is labelled with its unit in addition
	Scale Scale
	// Min and Max are its ends. Where both are 0 the data say, and the ends of a linear axis are round.
	Min, Max float64
	Zero     bool // a linear axis, or one of time, has 0 on it
}

// Curve is a row of points.
type Curve struct {
	Name   string // in the legend; empty for none
	Look   int    // curves of one number look alike; from 0
	Form   Form
	Points []Point // of lines and steps, in the order of X
}

// Form is how a curve is drawn.
type Form uint8

// Forms.
const (
	Line   Form = iota // from point to point, with some markers
	Steps              // a value holds until the next, with some markers
	Target             // thin and without markers: what another line of its look should be
	Marks              // points alone
	Front              // steps between points that no other is better than, black
)

// Point is one of a curve, with its interval of confidence unless Low and High are equal. Note is written beside
// it.
type Point struct {
	X, Y      float64
	Low, High float64
	Note      string
}

// Reference is a line across a chart that data are compared with.
type Reference struct {
	Name     string // in the legend
	At       float64
	Vertical bool
}

// Errors of figures.
var (
	ErrEmpty   = errors.New("there is nothing to draw")
	ErrTooMany = errors.New("too much for one figure")
)

func (c Chart) check() error {
	n := 0
	for _, curve := range c.Curves {
		if curve.Look < 0 || curve.Look >= Most {
			return fmt.Errorf("curve %q has look %d: a figure tells only %d apart", curve.Name, curve.Look, Most)
		}
		for _, p := range curve.Points {
			if err := errors.Join(c.X.accepts(p.X), c.Y.accepts(p.Y, p.Low, p.High)); err != nil {
				return fmt.Errorf("curve %q: %w", curve.Name, err)
			}
		}
		n += len(curve.Points)
	}
	if n == 0 {
		return ErrEmpty
	}
	return nil
}

// accepts checks values that an axis is to show. Intervals may reach below a logarithmic one.
func (a Axis) accepts(value float64, interval ...float64) error {
	for _, v := range append(interval, value) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %v is no number", a.Label, v)
		}
	}
	if a.Scale.log() && value <= 0 {
		return fmt.Errorf("%s: %v has no place on a logarithmic axis", a.Label, value)
	}
	return nil
}

func (c Chart) natural() Size { return Size{88, 60} }

func (c Chart) draw(area draw.Canvas) {
	x, y := c.X.over(c.values(true)), c.Y.over(c.values(false))
	p := newPlot(x, y)
	p.Add(lattice{})
	var entries []entry
	for i, curve := range c.Curves {
		points := make([]Point, len(curve.Points))
		for k, q := range curve.Points {
			points[k] = Point{x.at(q.X), y.at(q.Y), y.at(q.Low), y.at(q.High), q.Note}
		}
		curve.Points = points
		d := curvePlotter{curve, i, len(c.Curves)}
		p.Add(d)
		if curve.Name != "" {
			entries = append(entries, entry{curve.Name, d.sample, d.sampleWidth()})
		}
	}
	for _, r := range c.References {
		if r.Vertical {
			r.At = x.at(r.At)
		} else {
			r.At = y.at(r.At)
		}
		p.Add(r)
		if r.Name != "" {
			width := lineSample
			if r.Vertical {
				width = shortSample
			}
			entries = append(entries, entry{r.Name, r.sample, width})
		}
	}
	p.Draw(legend(area, entries))
}

// values returns all values of an axis.
func (c Chart) values(x bool) (all []float64) {
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			switch {
			case x:
				all = append(all, p.X)
			case p.Low < p.High:
				all = append(all, p.Y, p.Low, p.High)
			default:
				all = append(all, p.Y)
			}
		}
	}
	for _, r := range c.References {
		if r.Vertical == x {
			all = append(all, r.At)
		}
	}
	return all
}

// over returns the axis with its ends set.
func (a Axis) over(values []float64) Axis {
	if a.Min != 0 || a.Max != 0 {
		return a
	}
	a.Min, a.Max = math.Inf(1), math.Inf(-1)
	if a.Zero {
		a.Min, a.Max = 0, 0
	}
	for _, v := range values {
		if !a.Scale.log() || v > 0 {
			a.Min, a.Max = min(a.Min, v), max(a.Max, v)
		}
	}
	switch {
	case a.Scale.log():
		if a.Max < a.Min*3 {
			a.Min, a.Max = a.Min/2, a.Max*2
		}
		// A margin keeps markers off the frame.
		margin := math.Pow(a.Max/a.Min, 0.04)
		a.Min, a.Max = a.Min/margin, a.Max*margin
	case a.Scale == Time:
		if a.Min == a.Max {
			a.Max = a.Min + 1
		}
		if a.Zero {
			a.Max *= 1.05
		}
	default:
		if a.Min == a.Max {
			a.Min, a.Max = a.Min-max(1, math.Abs(a.Min)/10), a.Max+max(1, math.Abs(a.Max)/10)
		}
		step := niceStep(a.Max - a.Min)
		a.Min, a.Max = math.Floor(a.Min/step+1e-9)*step, math.Ceil(a.Max/step-1e-9)*step
	}
	return a
}

// at is where the plot has a value: its logarithm on a logarithmic axis, since gonum's own pads those for a label that
// it takes to be elsewhere. What lies below is at the end.
func (a Axis) at(v float64) float64 {
	if a.Scale.log() {
		return math.Log(max(v, a.Min))
	}
	return v
}

// newPlot returns an empty plot with axes and letters of papers.
func newPlot(x, y Axis) *plot.Plot {
	p := plot.New()
	for _, to := range []struct {
		axis *plot.Axis
		from Axis
	}{{&p.X, x}, {&p.Y, y}} {
		a := to.axis
		a.Min, a.Max = to.from.at(to.from.Min), to.from.at(to.from.Max)
		a.Label.Text = to.from.Label
		if to.from.Scale == Time {
			a.Label.Text += " (" + unitOf(a.Max).name + ")"
		}
		a.Label.TextStyle.Font = letters(labelSize, 0, 0).Font
		a.Tick.Label.Font = letters(tickSize, 0, 0).Font
		a.Label.Padding, a.Padding = 2, 0
		a.Width, a.Tick.Width, a.Tick.Length = thin, thin, 3
		a.Tick.Marker = ticker(to.from.Scale)
	}
	return p
}

// ticker makes the ticks of a scale.
type ticker Scale

// Ticks is gonum's.
func (t ticker) Ticks(from, to float64) (ticks []plot.Tick) {
	switch Scale(t) {
	case Log:
		ticks = logTicks(math.Exp(from), math.Exp(to))
	case LogTime:
		ticks = logTimeTicks(math.Exp(from), math.Exp(to))
	case Time:
		return timeTicks(from, to)
	default:
		return regular(from, to, niceStep(to-from), 1)
	}
	for i := range ticks {
		ticks[i].Value = math.Log(ticks[i].Value)
	}
	return ticks
}

// lattice is the lines behind data at labelled ticks, and the frame.
type lattice struct{}

// Plot is gonum's.
func (lattice) Plot(c draw.Canvas, p *plot.Plot) {
	style := draw.LineStyle{Color: grid, Width: 0.4}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if x := c.X(p.X.Norm(t.Value)); t.Label != "" && c.ContainsX(x) {
			c.StrokeLine2(style, x, c.Min.Y, x, c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if y := c.Y(p.Y.Norm(t.Value)); t.Label != "" && c.ContainsY(y) {
			c.StrokeLine2(style, c.Min.X, y, c.Max.X, y)
		}
	}
}

var referenceStyle = draw.LineStyle{Color: soft, Width: 0.9, Dashes: []vg.Length{3, 2}}

// Plot is gonum's.
func (r Reference) Plot(c draw.Canvas, p *plot.Plot) {
	if x := c.X(p.X.Norm(r.At)); r.Vertical && c.ContainsX(x) {
		c.StrokeLine2(referenceStyle, x, c.Min.Y, x, c.Max.Y)
	}
	if r.Vertical {
		return
	}
	if y := c.Y(p.Y.Norm(r.At)); c.ContainsY(y) {
		c.StrokeLine2(referenceStyle, c.Min.X, y, c.Max.X, y)
	}
}

func (r Reference) sample(c *draw.Canvas) {
	if r.Vertical {
		c.StrokeLine2(referenceStyle, c.Center().X, c.Min.Y, c.Center().X, c.Max.Y)
		return
	}
	c.StrokeLine2(referenceStyle, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
}

// thinned returns few points that draw the same line as all: of each of many equal parts of the axis the first,
// the least, the greatest and the last.
func thinned(points []Point, parts int) []Point {
	if len(points) <= 4*parts {
		return points
	}
	first, last := points[0].X, points[len(points)-1].X
	var kept []Point
	for from := 0; from < len(points); {
		end := first + (last-first)*float64(len(kept)/4+1)/float64(parts)
		to := from + 1 + sort.Search(len(points)-from-1, func(i int) bool { return points[from+1+i].X > end })
		least, greatest := from, from
		for i := from; i < to; i++ {
			if points[i].Y < points[least].Y {
				least = i
			}
			if points[i].Y > points[greatest].Y {
				greatest = i
			}
		}
		for _, i := range []int{from, min(least, greatest), max(least, greatest), to - 1} {
			kept = append(kept, points[i])
		}
		from = to
	}
	return kept
}
