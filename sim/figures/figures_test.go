package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

// examples has one of each form of drawing, with as much as it takes.
func examples() map[string]Drawing {
	lines := Chart{X: Axis{Label: "time", Scale: Time}, Y: Axis{Label: "share (%)"}}
	clouds := Chart{X: Axis{Label: "τ/L", Scale: Log}, Y: Axis{Label: "wait", Scale: LogTime},
		References: []Reference{{"τ/L = 0.4", 0.4, true}, {"a day", 86400, false}}}
	gantt := Gantt{To: 3600}
	var best []Point
	for i := range Most {
		name := fmt.Sprintf("account %d, whose name is far too long for a legend to hold it in a column", i)
		line := Curve{Name: name, Look: i, Form: Form(i % 2)}
		cloud := Curve{Name: fmt.Sprint("max_churn=", 1<<i), Look: i, Form: Marks}
		for k := range 50 {
			line.Points = append(line.Points, Point{X: 3600 * float64(k), Y: float64(i*10 + k%7)})
			x := 0.01 * float64(1+k+i)
			cloud.Points = append(cloud.Points, Point{X: x, Y: 600 / x, Low: 300 / x, High: 900 / x})
		}
		best = append(best, cloud.Points...)
		target := Curve{Look: i, Form: Target, Points: []Point{{X: 0, Y: 10}, {X: 180000, Y: 10}}}
		lines.Curves = append(lines.Curves, target, line)
		clouds.Curves = append(clouds.Curves, cloud)
		gantt.Accounts = append(gantt.Accounts, name)
		for range 4 {
			gantt.Rows = append(gantt.Rows, Row{i, []Span{{Waiting, 0, 600}, {StartUp, 600, 610}, {Running, 610, 1800},
				{Backoff, 1800, 4000}}})
		}
	}
	best = front(best)
	for i := range best {
		best[i].Note = strconv.Itoa(i + 1)
	}
	clouds.Curves = append(clouds.Curves, Curve{Name: "front", Form: Front, Points: best})
	bars := Bars{X: Axis{Label: "longest wait (h)"}}
	for i := range mostBars {
		v := float64(i - 3)
		bars.Bars = append(bars.Bars, Bar{fmt.Sprint("a setting with quite a long name: ", i), v, v - 1, v + 2, 0})
	}
	return map[string]Drawing{"lines": lines, "clouds": clouds, "bars": bars, "gantt": gantt}
}

func drawn(t *testing.T, d Drawing, size Size, f Format) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, d, size, f, "couchsim <of> a test"); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSameBytes(t *testing.T) {
	for name, d := range examples() {
		for _, f := range []Format{SVG, PNG} {
			first := drawn(t, d, Size{}, f)
			if !bytes.Equal(first, drawn(t, examples()[name], Size{}, f)) {
				t.Errorf("%s as %s: other bytes the second time", name, f)
			}
			if f == SVG {
				wellFormed(t, name, first)
				continue
			}
			c, err := png.DecodeConfig(bytes.NewReader(first))
			if want := int(d.natural().Width/25.4*dpi + 0.5); err != nil || c.Width != want {
				t.Errorf("%s: %d pixels wide, want %d; %v", name, c.Width, want, err)
			}
		}
	}
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		switch _, err := decoder.Token(); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// label finds texts that are not turned, with their place and size.
var label = regexp.MustCompile(`<text x="([-.e0-9]+)" y="([-.e0-9]+)" transform="scale\(1, -1\)"\s+` +
	`style="[^"]*font-size:([.0-9]+)px[^"]*">([^<]*)</text>`)

type box2 struct {
	text           string
	x0, x1, y0, y1 float64
}

// labels are the texts of a figure that lie on a line, without that of the turned label of an axis.
func labels(t *testing.T, svg []byte) (all []box2) {
	turned := regexp.MustCompile(`(?s)<g transform="rotate.*?</g>`)
	for _, m := range label.FindAllSubmatch(turned.ReplaceAll(svg, nil), -1) {
		var v [3]float64
		for i := range v {
			var err error
			if v[i], err = strconv.ParseFloat(string(m[i+1]), 64); err != nil {
				t.Fatal(err)
			}
		}
		style := letters(vg.Length(v[2]), 0, 0)
		width := float64(style.Width(string(m[4])))
		all = append(all, box2{string(m[4]), v[0], v[0] + width, v[1] - 0.7*v[2], v[1]})
	}
	return all
}

// TestNothingIsClipped: all texts lie inside of the figure, whatever its size, and on no other text.
func TestNothingIsClipped(t *testing.T) {
	for name, d := range examples() {
		for _, size := range []Size{{}, {Width: 60}, {Width: 300, Height: 200}} {
			svg := drawn(t, d, size, SVG)
			width := d.natural().Width
			if size.Width > 0 {
				width = size.Width
			}
			all := labels(t, svg)
			if len(all) < 8 {
				t.Fatalf("%s: only %d texts found", name, len(all))
			}
			for i, a := range all {
				if a.x0 < -0.5 || a.x1 > width*72/25.4+0.5 {
					t.Errorf("%s, %v mm wide: %q reaches from %.1f to %.1f", name, width, a.text, a.x0, a.x1)
				}
				for _, b := range all[:i] {
					if a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1 {
						t.Errorf("%s, %v mm wide: %q lies on %q", name, width, a.text, b.text)
					}
				}
			}
		}
	}
}

// TestWholeWidth: axes reach to the right edge of the figure, whatever their scales.
func TestWholeWidth(t *testing.T) {
	line := regexp.MustCompile(`<path d="M[-0-9.,e]+L([0-9.]+),[0-9.]+" style="fill:none`)
	for _, scale := range []Scale{Linear, Log, Time, LogTime} {
		c := Chart{X: Axis{Label: "a rather long name of an axis", Scale: scale},
			Curves: []Curve{{Points: []Point{{X: 0.01, Y: 1}, {X: 100, Y: 2}}}}}
		most := 0.0
		for _, m := range line.FindAllSubmatch(drawn(t, c, Size{}, SVG), -1) {
			x, err := strconv.ParseFloat(string(m[1]), 64)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, x)
		}
		if width := c.natural().Width * 72 / 25.4; most < width-15 || most > width {
			t.Errorf("scale %d: the axis ends at %.0f of %.0f", scale, most, width)
		}
	}
}

func TestLegendAndAxes(t *testing.T) {
	c := Chart{
		X: Axis{Label: "time", Scale: Time}, Y: Axis{Label: "lag"},
		Curves: []Curve{
			{Name: "a", Form: Line, Points: []Point{{X: 0, Y: 1}, {X: 7200, Y: 3}}},
			{Name: "b", Look: 1, Form: Steps, Points: []Point{{X: 0, Y: 2}, {X: 7200, Y: 4}}},
		},
	}
	svg := string(drawn(t, c, Size{}, SVG))
	for _, want := range []string{">a<", ">b<", ">time (min)<", ">lag<", ">120<",
		"<desc>couchsim &lt;of&gt; a test</desc>", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is missing in\n%s", want, svg)
		}
	}
	// Each look's colour is on the curve, its sample and three markers: two points and the one in the legend.
	for _, l := range looks[:2] {
		hex := fmt.Sprintf("#%02X%02X%02X", l.color.R, l.color.G, l.color.B)
		if n := strings.Count(svg, "stroke:"+hex) + strings.Count(svg, "fill:"+hex); n != 5 {
			t.Errorf("%s is drawn %d times", hex, n)
		}
	}
}

// TestLegendIsBalanced: four entries of which three have room beside each other stand two by two.
func TestLegendIsBalanced(t *testing.T) {
	c := Chart{X: Axis{Label: "x"}, Y: Axis{Label: "y"}}
	for i := range 4 {
		c.Curves = append(c.Curves, Curve{Name: fmt.Sprint("max_churn=", i), Look: i, Points: []Point{{X: 1, Y: 1}}})
	}
	var places []float64
	for _, l := range labels(t, drawn(t, c, Size{}, SVG)) {
		if strings.HasPrefix(l.text, "max_churn") {
			places = append(places, l.x0)
		}
	}
	if len(places) != 4 || places[0] != places[2] || places[1] != places[3] || places[0] == places[1] {
		t.Errorf("the entries begin at %v", places)
	}
}

func TestRefusals(t *testing.T) {
	point := func(x, y float64) Chart {
		return Chart{X: Axis{Label: "x", Scale: Log}, Y: Axis{Label: "y"},
			Curves: []Curve{{Name: "c", Points: []Point{{X: x, Y: y}}}}}
	}
	rows := func(n, spans int) Gantt {
		return Gantt{To: 1, Accounts: []string{"a"},
			Rows: slices.Repeat([]Row{{0, slices.Repeat([]Span{{Running, 0, 1}}, spans)}}, n)}
	}
	for _, c := range []struct {
		d    Drawing
		size Size
		want string
	}{
		{Chart{}, Size{}, "nothing to draw"},
		{Bars{}, Size{}, "nothing to draw"},
		{Gantt{To: 1}, Size{}, "nothing to draw"},
		{point(0, 1), Size{}, `curve "c": x: 0 has no place on a logarithmic axis`},
		{point(1, math.NaN()), Size{}, `curve "c": y: NaN is no number`},
		{Chart{Curves: []Curve{{Name: "c", Look: Most}}}, Size{}, "tells only 8 apart"},
		{Bars{Bars: make([]Bar, mostBars+1)}, Size{}, "41 bars, where 40"},
		{Bars{Bars: []Bar{{Name: "b", Value: math.Inf(1)}}}, Size{}, `bar "b"`},
		{rows(MostRows+1, 1), Size{}, "601 jobs, where 600"},
		{rows(2, mostSpans), Size{}, "200000 runs and waits, where 100000"},
		{Gantt{To: 1, Rows: []Row{{0, []Span{{}}}}}, Size{}, "row 0: account 0"},
		{point(1, 1), Size{Width: 5}, "5 mm: must be from 20 to 1000"},
		{point(1, 1), Size{Height: 5000}, "5000 mm: must be"},
	} {
		var b bytes.Buffer
		err := Write(&b, c.d, c.size, SVG, "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		if b.Len() > 0 {
			t.Errorf("%v, but %d bytes were written", err, b.Len())
		}
	}
	if !errors.Is(Write(io.Discard, Chart{}, Size{}, PNG, ""), ErrEmpty) {
		t.Error("an empty figure is not ErrEmpty")
	}
}

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]Format{"a.svg": SVG, "b/c.PNG": PNG} {
		if f, err := FormatOf(path); f != want || err != nil {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
	for _, path := range []string{"svg", "a.pdf", ""} {
		if f, err := FormatOf(path); err == nil {
			t.Errorf("%s: %v", path, f)
		}
	}
}

// TestOneValue: data without an extent have axes all the same.
func TestOneValue(t *testing.T) {
	for _, x := range []Scale{Linear, Log, Time, LogTime} {
		for _, y := range []Scale{Linear, Log, LogTime} {
			for _, v := range []float64{1e-6, 1, 1e7} {
				d := Chart{X: Axis{Scale: x}, Y: Axis{Scale: y}, Curves: []Curve{{Points: []Point{{X: v, Y: v}}}}}
				drawn(t, d, Size{}, SVG)
			}
		}
	}
	zero := Chart{X: Axis{Scale: Time}, Curves: []Curve{{Points: []Point{{X: 0, Y: 0}, {X: 1, Y: 0}}}}}
	drawn(t, zero, Size{}, SVG)
	drawn(t, Bars{Bars: []Bar{{Name: "none"}}}, Size{}, SVG)
}
