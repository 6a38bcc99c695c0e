package figures

import (
	"math"
	"sort"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curvePlotter draws a curve, which is the nth of all.
type curvePlotter struct {
	Curve
	nth, of int
}

// parts is into how many parts an axis is cut where there are more points than can be seen.
const parts = 500

// markers is how many of them are on a line.
const markers = 6

func (d curvePlotter) line() draw.LineStyle {
	l := looks[d.Look]
	switch d.Form {
	case Target:
		return draw.LineStyle{Color: l.color, Width: thin}
	case Front:
		return draw.LineStyle{Color: ink, Width: 0.7}
	}
	return draw.LineStyle{Color: l.color, Width: thick, Dashes: l.dashes}
}

// Plot is gonum's.
func (d curvePlotter) Plot(c draw.Canvas, p *plot.Plot) {
	at := func(q Point) vg.Point {
		return vg.Point{X: c.X(p.X.Norm(q.X)), Y: c.Y(p.Y.Norm(q.Y))}
	}
	if d.Form != Marks {
		var path []vg.Point
		for i, q := range thinned(d.Points, parts) {
			pt := at(q)
			if stepped := d.Form == Steps || d.Form == Front; stepped && i > 0 {
				path = append(path, vg.Point{X: pt.X, Y: path[len(path)-1].Y})
			}
			path = append(path, pt)
		}
		c.StrokeLines(d.line(), c.ClipLinesXY(path)...)
	}
	for _, q := range d.marked(p.X) {
		d.interval(&c, p, q)
		mark(&c, d.Look, at(q), d.rim())
	}
	var taken []vg.Rectangle
	for _, q := range d.Points {
		if q.Note != "" && c.Contains(at(q)) {
			taken = note(&c, at(q), q.Note, taken)
		}
	}
}

// rim is wide on a line, and narrow among other markers.
func (d curvePlotter) rim() vg.Length {
	if d.Form == Marks {
		return 0.3
	}
	return 0.9
}

// marked returns the points that get a marker: all where there are few, else some at equal distances, which
// differ from curve to curve so that markers do not hide each other.
func (d curvePlotter) marked(x plot.Axis) (some []Point) {
	switch {
	case d.Form == Target || d.Form == Front || d.of == 1 && d.Form != Marks:
		return nil
	case d.Form == Marks || len(d.Points) <= 2*markers:
		return d.Points
	}
	last := -1
	for k := range markers {
		goal := (float64(k) + (float64(d.nth)+0.5)/float64(d.of)) / markers
		if d.Form == Steps { // a distribution may be steep, with most points close together
			some = append(some, d.Points[int(goal*float64(len(d.Points)))])
			continue
		}
		i := sort.Search(len(d.Points), func(i int) bool { return x.Norm(d.Points[i].X) >= goal })
		if i < len(d.Points) && i != last && x.Norm(d.Points[i].X) < goal+1.0/markers {
			some, last = append(some, d.Points[i]), i
		}
	}
	return some
}

// interval draws the whiskers of a point.
func (d curvePlotter) interval(c *draw.Canvas, p *plot.Plot, q Point) {
	if q.Low >= q.High {
		return
	}
	x := c.X(p.X.Norm(q.X))
	from, to := max(c.Y(p.Y.Norm(q.Low)), c.Min.Y), min(c.Y(p.Y.Norm(q.High)), c.Max.Y)
	style := draw.LineStyle{Color: looks[d.Look].color, Width: thin}
	c.StrokeLine2(style, x, from, x, to)
	c.StrokeLine2(style, x-1.5, from, x+1.5, from)
	c.StrokeLine2(style, x-1.5, to, x+1.5, to)
}

// note writes beside a point: below and left of it, where a front has no other points, if there is room. A note
// that would lie on another is left out.
func note(c *draw.Canvas, at vg.Point, text string, taken []vg.Rectangle) []vg.Rectangle {
	style := letters(tickSize, draw.XRight, draw.YTop)
	at.X, at.Y = at.X-radius, at.Y-radius/2
	if at.X-style.Width(text) < c.Min.X {
		style.XAlign, at.X = draw.XLeft, at.X+2*radius
	}
	if at.Y-style.Height(text) < c.Min.Y {
		style.YAlign, at.Y = draw.YBottom, at.Y+radius
	}
	place := style.Rectangle(text).Add(at)
	for _, t := range taken {
		if place.Min.X < t.Max.X && t.Min.X < place.Max.X && place.Min.Y < t.Max.Y && t.Min.Y < place.Max.Y {
			return taken
		}
	}
	c.FillText(style, at, text)
	return append(taken, place)
}

// sample draws a short piece of the curve for the legend.
func (d curvePlotter) sample(c *draw.Canvas) {
	if d.Form == Target {
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: thin}, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
		return
	}
	if d.Form != Marks {
		c.StrokeLine2(d.line(), c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
	}
	if d.Form == Line || d.Form == Steps || d.Form == Marks {
		mark(c, d.Look, c.Center(), d.rim())
	}
}

func (d curvePlotter) sampleWidth() vg.Length {
	if d.Form == Marks {
		return shortSample
	}
	return lineSample
}

// front returns the points than which no other is at least as good in both, less being better, by their X.
func front(points []Point) []Point {
	sorted := append([]Point(nil), points...)
	sort.SliceStable(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		return a.X < b.X || a.X == b.X && a.Y < b.Y
	})
	var best []Point
	least := math.Inf(1)
	for _, p := range sorted {
		if p.Y < least {
			best, least = append(best, p), p.Y
		}
	}
	return best
}
