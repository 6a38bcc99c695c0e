package figures

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// marker is a shape on a curve: a polygon or a circle, filled or open. A white rim keeps it apart from what is
// behind it.
type marker struct {
	corners []vg.Point // for a radius of 1; none for a circle
	open    bool
}

var (
	square   = []vg.Point{{X: -0.9, Y: -0.9}, {X: 0.9, Y: -0.9}, {X: 0.9, Y: 0.9}, {X: -0.9, Y: 0.9}}
	triangle = []vg.Point{{X: 0, Y: 1.2}, {X: -1.1, Y: -0.8}, {X: 1.1, Y: -0.8}}
	diamond  = []vg.Point{{X: 0, Y: 1.3}, {X: -1.1, Y: 0}, {X: 0, Y: -1.3}, {X: 1.1, Y: 0}}
)

// path is the outline about a point.
func (m marker) path(at vg.Point, radius vg.Length) (p vg.Path) {
	if m.corners == nil {
		p.Move(vg.Point{X: at.X + radius, Y: at.Y})
		p.Arc(at, radius, 0, 2*math.Pi)
		p.Close()
		return p
	}
	for i, corner := range m.corners {
		to := at.Add(vg.Point{X: corner.X * radius, Y: corner.Y * radius})
		if i == 0 {
			p.Move(to)
			continue
		}
		p.Line(to)
	}
	p.Close()
	return p
}

// mark draws the marker of a look, with a rim of a width.
func mark(c *draw.Canvas, look int, at vg.Point, rim vg.Length) {
	l := looks[look]
	c.SetColor(color.White)
	c.Fill(l.marker.path(at, radius+rim))
	if !l.marker.open {
		c.SetColor(l.color)
		c.Fill(l.marker.path(at, radius))
		return
	}
	c.SetLineStyle(draw.LineStyle{Color: l.color, Width: 0.9})
	c.Stroke(l.marker.path(at, radius-0.3))
}
