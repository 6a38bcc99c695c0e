package figures

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// entry is one of a legend: a name and what draws a sample of it.
type entry struct {
	name   string
	sample func(*draw.Canvas)
	width  vg.Length // of the sample
}

const (
	lineSample  = vg.Length(26)
	shortSample = vg.Length(9) // of a marker or a shade
	sampleGap   = vg.Length(3) // before the name
	entryGap    = vg.Length(8) // between columns
	lineHeight  = vg.Length(9.5)
)

// legend draws entries in columns above a figure, where they hide no data, and returns the area that is left.
func legend(area draw.Canvas, entries []entry) draw.Canvas {
	area = draw.Crop(area, 2, -2, 1, -3)
	if len(entries) == 0 {
		return area
	}
	style := letters(tickSize, draw.XLeft, draw.YCenter)
	whole := area.Max.X - area.Min.X
	var sampleWidth, widest vg.Length
	for _, e := range entries {
		sampleWidth = max(sampleWidth, e.width)
	}
	for i := range entries {
		entries[i].name = short(entries[i].name, style, whole-sampleWidth-sampleGap)
		widest = max(widest, sampleWidth+sampleGap+style.Width(entries[i].name)+entryGap)
	}
	columns := min(len(entries), max(1, int((whole+entryGap)/widest)))
	rows := (len(entries) + columns - 1) / columns
	columns = (len(entries) + rows - 1) / rows
	left := area.Min.X + (whole+entryGap-widest*vg.Length(columns))/2
	for i, e := range entries {
		x := left + widest*vg.Length(i%columns) + sampleWidth
		y := area.Max.Y - lineHeight*(vg.Length(i/columns)+0.5)
		box := vg.Rectangle{Min: vg.Point{X: x - e.width, Y: y - 3}, Max: vg.Point{X: x, Y: y + 3}}
		e.sample(&draw.Canvas{Canvas: area.Canvas, Rectangle: box})
		area.FillText(style, vg.Point{X: x + sampleGap, Y: y + 0.5}, e.name)
	}
	return draw.Crop(area, 0, 0, 0, -lineHeight*vg.Length(rows)-4)
}
