// Command traces draws what the window of a run does in the stories of core/replication/testdata/traces: how many
// batches it may work on at once, how many documents it writes in a second, and how many requests are at the servers.
//
//	go run ./internal/traces core/replication/testdata/traces bin/traces
package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: traces FROM TO: draws FROM/*.tsv into TO/*.png")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "traces:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.tsv"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no *.tsv in %s", from)
	}
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".tsv")
		t, err := read(file)
		if err == nil {
			err = t.draw(name, filepath.Join(to, name+".png"))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// trace is a table. The first column is the time in seconds.
type trace struct {
	columns []string
	values  [][]point // by column but the first
}

func read(file string) (*trace, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	t := &trace{columns: strings.Split(lines[0], "\t")[1:]}
	t.values = make([][]point, len(t.columns))
	for n, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != len(t.columns)+1 {
			return nil, fmt.Errorf("line %d has %d columns, want %d", n+2, len(cells), len(t.columns)+1)
		}
		numbers := make([]float64, len(cells))
		for i, cell := range cells {
			if numbers[i], err = strconv.ParseFloat(cell, 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", n+2, err)
			}
		}
		for i := range t.columns {
			t.values[i] = append(t.values[i], point{numbers[0], numbers[i+1]})
		}
	}
	return t, nil
}

// colors can be told apart by people who do not see all of them (Okabe and Ito).
var colors = []color.Color{color.RGBA{G: 114, B: 178, A: 255}, color.RGBA{R: 213, G: 94, A: 255}}

// curve is the line through the values of a column.
type curve struct {
	points []point
	style  draw.LineStyle
}

type point struct{ x, y float64 }

// Plot is gonum's.
func (c curve) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	line := make([]vg.Point, len(c.points))
	for i, at := range c.points {
		line[i] = vg.Point{X: x(at.x), Y: y(at.y)}
	}
	canvas.StrokeLines(c.style, line)
}

// DataRange is gonum's.
func (c curve) DataRange() (xmin, xmax, ymin, ymax float64) {
	for _, at := range c.points {
		xmax, ymax = max(xmax, at.x), max(ymax, at.y)
	}
	return 0, xmax, 0, ymax
}

// Thumbnail is gonum's.
func (c curve) Thumbnail(canvas *draw.Canvas) {
	middle := canvas.Center().Y
	canvas.StrokeLine2(c.style, canvas.Min.X, middle, canvas.Max.X, middle)
}

// draw writes three charts below each other: batches, documents in a second, requests at the servers.
func (t *trace) draw(name, file string) error {
	var charts [][]*plot.Plot
	for _, kind := range []string{"batches", "documents/s", "at the"} {
		p := plot.New()
		p.Y.Label.Text, p.Y.Min, p.Legend.Top = kind, 0, true
		if kind == "at the" {
			p.Y.Label.Text = "requests at a server"
			p.X.Label.Text = "seconds"
		}
		drawn := 0
		for i, column := range t.columns {
			if !strings.HasPrefix(column, kind) {
				continue
			}
			line := curve{t.values[i], draw.LineStyle{Color: colors[drawn%len(colors)], Width: vg.Points(1.5)}}
			p.Add(line)
			p.Legend.Add(column, line)
			drawn++
		}
		charts = append(charts, []*plot.Plot{p})
	}
	charts[0][0].Title.Text = name
	image := vgimg.New(18*vg.Centimeter, 18*vg.Centimeter)
	tiles := draw.Tiles{Rows: len(charts), Cols: 1, PadY: vg.Centimeter / 2, PadTop: 5, PadRight: 10}
	for i, canvas := range plot.Align(charts, tiles, draw.New(image)) {
		charts[i][0].Draw(canvas[0])
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: image}).WriteTo(out); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
