package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		scale    Scale
		from, to float64
		want     string
	}{
		{Linear, 0, 40, "0 10 20 30 40"},
		{Linear, -2, 2, "-2 -1 0 1 2"},
		{Linear, 0.98, 1, "0.980 0.985 0.990 0.995 1.000"},
		{Linear, 0, 0.6, "0.0 0.1 0.2 0.3 0.4 0.5 0.6"},
		{Time, 0, 0.02, "0.000 0.005 0.010 0.015 0.020"},
		{Time, 0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{Time, 100 * 3600, 110 * 3600, "4.2 4.3 4.4 4.5"},
		{Time, 0, 90, "0 15 30 45 60 75 90"},
		{Time, 0, 3600, "0 10 20 30 40 50 60"},
		{Time, 86400, 2 * 86400, "24 30 36 42 48"},
		{Time, 0, 7 * 86400, "0 1 2 3 4 5 6 7"},
		{Time, 0, 5000 * 86400, "0 1000 2000 3000 4000 5000"},
		{Log, 0.001, 10, "0.001 0.01 0.1 1 10"},
		{Log, 1, 30, "1 2 5 10 20"},
		{Log, 100, 3e6, "100 1000 10k 100k 1M"},
		{LogTime, 1, 86400, "1 s|10 s|1 min|10 min|1 h|6 h|1 d"},
		{LogTime, 3600, 86400, "1 h|2 h|3 h|6 h|12 h|1 d"},
	} {
		axis := Axis{Scale: c.scale, Min: c.from, Max: c.to}
		ticks := ticker(c.scale).Ticks(axis.at(c.from), axis.at(c.to))
		slices.SortFunc(ticks, func(a, b plot.Tick) int { return int(math.Copysign(1, a.Value-b.Value)) })
		var got []string
		for _, tick := range ticks {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		separator := " "
		if c.scale == LogTime {
			separator = "|"
		}
		if got := strings.Join(got, separator); got != c.want {
			t.Errorf("%v to %v: %s, want %s", c.from, c.to, got, c.want)
		}
	}
}

// TestThinned: a line through fewer points has the same extremes in every part, and the same ends.
func TestThinned(t *testing.T) {
	var all []Point
	for i := range 10_000 {
		all = append(all, Point{X: float64(i), Y: math.Sin(float64(i * i))})
	}
	few := thinned(all, 100)
	if len(few) > 4*101 || few[0] != all[0] || few[len(few)-1] != all[len(all)-1] {
		t.Errorf("%d points from %v to %v", len(few), few[0], few[len(few)-1])
	}
	if !slices.IsSortedFunc(few, func(a, b Point) int { return int(a.X - b.X) }) {
		t.Error("the points are not in order")
	}
	extremes := func(points []Point, part int) (least, greatest float64) {
		for _, p := range points {
			if p.X >= float64(part*100) && p.X <= float64(part*100+99) {
				least, greatest = min(least, p.Y), max(greatest, p.Y)
			}
		}
		return least, greatest
	}
	for part := range 100 {
		least, greatest := extremes(few, part)
		if wantLeast, wantGreatest := extremes(all, part); least != wantLeast || greatest != wantGreatest {
			t.Errorf("part %d: %v to %v, want %v to %v", part, least, greatest, wantLeast, wantGreatest)
		}
	}
	if got := thinned(all[:300], 100); len(got) != 300 {
		t.Errorf("%d of 300 points", len(got))
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		axis     Axis
		values   []float64
		min, max float64
	}{
		{Axis{}, []float64{3, 37}, 0, 40},
		{Axis{}, []float64{0.981, 0.999}, 0.98, 1},
		{Axis{Zero: true}, []float64{30, 37}, 0, 40},
		{Axis{Min: -1, Max: 5}, []float64{30, 37}, -1, 5},
		{Axis{Scale: Time}, []float64{60, 100}, 60, 100},
		{Axis{Scale: Time, Zero: true}, []float64{60, 100}, 0, 105},
	} {
		if got := c.axis.over(c.values); math.Abs(got.Min-c.min) > 1e-9 || math.Abs(got.Max-c.max) > 1e-9 {
			t.Errorf("%v: from %v to %v, want %v to %v", c.values, got.Min, got.Max, c.min, c.max)
		}
	}
}

func TestFront(t *testing.T) {
	all := []Point{{X: 3, Y: 1}, {X: 1, Y: 5}, {X: 2, Y: 5}, {X: 2, Y: 2}, {X: 4, Y: 4}, {X: 1, Y: 6}, {X: 9, Y: 1}}
	got := front(all)
	if want := []Point{{X: 1, Y: 5}, {X: 2, Y: 2}, {X: 3, Y: 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLooks: no two looks share a colour, dashes or a marker.
func TestLooks(t *testing.T) {
	for _, part := range []func(look) string{
		func(l look) string { return fmt.Sprint(l.color) },
		func(l look) string { return fmt.Sprint(l.dashes) },
		func(l look) string { return fmt.Sprint(l.marker) },
	} {
		seen := map[string]bool{}
		for _, l := range looks {
			seen[part(l)] = true
		}
		if len(seen) != Most {
			t.Errorf("%d different ones: %v", len(seen), seen)
		}
	}
}

// TestMarked: a long line has some markers, and two lines have them at different places.
func TestMarked(t *testing.T) {
	var points []Point
	for i := range 1000 {
		points = append(points, Point{X: float64(i)})
	}
	x := newPlot(Axis{Max: 999}, Axis{Max: 1}).X
	a := curvePlotter{Curve{Points: points}, 0, 2}.marked(x)
	b := curvePlotter{Curve{Points: points}, 1, 2}.marked(x)
	if len(a) != markers || len(b) != markers {
		t.Fatalf("%d and %d markers", len(a), len(b))
	}
	for i := range a {
		if d := b[i].X - a[i].X; d < 70 || d > 100 {
			t.Errorf("markers at %v and %v", a[i].X, b[i].X)
		}
	}
	if n := len(curvePlotter{Curve{Points: points, Form: Target}, 0, 2}.marked(x)); n != 0 {
		t.Errorf("%d markers on what another line should be", n)
	}
	if n := len(curvePlotter{Curve{Points: points, Form: Marks}, 0, 1}.marked(x)); n != 1000 {
		t.Errorf("%d of 1000 points", n)
	}
}

func TestShort(t *testing.T) {
	style := letters(tickSize, 0, 0)
	if s := short("_replicator", style, 100); s != "_replicator" {
		t.Error(s)
	}
	s := short("a/very/long/name/of/a/_replicator", style, 50)
	if style.Width(s) > 50 || !strings.HasPrefix(s, "a/ver") || !strings.HasSuffix(s, "ator") {
		t.Error(s)
	}
}
