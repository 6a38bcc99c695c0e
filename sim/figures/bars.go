package figures

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars compare values. They lie, so that long names can be read.
type Bars struct {
	X    Axis // linear
	Bars []Bar
	Says []string // as Chart's
}

// Bar is one of Bars, from the top, with its interval of confidence unless Low and High are equal. Where a name has no
// room all bars have their numbers instead, unless these are 0.
type Bar struct {
	Name             string
	Value, Low, High float64
	Number           int
}

// longName is how many letters of a name may have no room.
const longName = 20

// mostBars is how many fit on a page.
const mostBars = 40

func (b Bars) check() error {
	if len(b.Bars) == 0 {
		return ErrEmpty
	}
	if len(b.Bars) > mostBars {
		return fmt.Errorf("%w: %d bars, where %d have room", ErrTooMany, len(b.Bars), mostBars)
	}
	var wrong error
	for _, bar := range b.Bars {
		if err := b.X.accepts(bar.Value, bar.Low, bar.High); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("bar %q: %w", bar.Name, err))
		}
	}
	return wrong
}

func (b Bars) natural() Size { return Size{88, 18 + 5.5*float64(len(b.Bars))} }

func (b Bars) draw(area draw.Canvas) {
	area = legend(area, nil)
	values := []float64{0} // a bar's length is its value
	for _, bar := range b.Bars {
		values = append(values, bar.Value, bar.Low, bar.High)
	}
	p := newPlot(b.X.over(values), Axis{Min: 0, Max: float64(len(b.Bars))})
	p.Y.Tick.Length, p.Y.Width = 0, 0
	var names plot.ConstantTicks
	half := (area.Max.X - area.Min.X) / 2
	noRoom := slices.ContainsFunc(b.Bars, func(bar Bar) bool { return p.Y.Tick.Label.Width(bar.Name) > half })
	for i, bar := range b.Bars {
		label := short(bar.Name, p.Y.Tick.Label, half)
		if noRoom && bar.Number > 0 {
			label = strconv.Itoa(bar.Number)
		}
		names = append(names, plot.Tick{Value: float64(len(b.Bars)-i) - 0.5, Label: label})
	}
	p.Y.Tick.Marker = names
	p.Add(b)
	p.Draw(area)
}

// Plot is gonum's.
func (b Bars) Plot(c draw.Canvas, p *plot.Plot) {
	gridlines := draw.LineStyle{Color: grid, Width: 0.4}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		x := c.X(p.X.Norm(t.Value))
		c.StrokeLine2(gridlines, x, c.Min.Y, x, c.Max.Y)
	}
	row := (c.Max.Y - c.Min.Y) / vg.Length(len(b.Bars))
	zero := c.X(p.X.Norm(0))
	for i, bar := range b.Bars {
		y := c.Max.Y - row*(vg.Length(i)+0.5)
		end := c.X(p.X.Norm(bar.Value))
		c.SetColor(pale(looks[0].color))
		c.Fill(box(zero, y-row*0.32, end, y+row*0.32))
		outline := draw.LineStyle{Color: looks[0].color, Width: thin}
		c.SetLineStyle(outline)
		c.Stroke(box(zero, y-row*0.32, end, y+row*0.32))
		if bar.Low < bar.High {
			low, high := c.X(p.X.Norm(bar.Low)), c.X(p.X.Norm(bar.High))
			whisker := draw.LineStyle{Color: ink, Width: 0.8}
			c.StrokeLine2(whisker, low, y, high, y)
			for _, x := range []vg.Length{low, high} {
				c.StrokeLine2(whisker, x, y-2, x, y+2)
			}
		}
	}
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: thin}, zero, c.Min.Y, zero, c.Max.Y)
}

// box is the outline of a rectangle.
func box(x0, y0, x1, y1 vg.Length) (p vg.Path) {
	rect := vg.Rectangle{
		Min: vg.Point{X: vg.Length(math.Min(float64(x0), float64(x1))), Y: y0},
		Max: vg.Point{X: max(x0, x1), Y: y1},
	}
	return rect.Path()
}
