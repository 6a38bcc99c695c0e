package figures

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// Scale is how an axis is divided.
type Scale uint8

// Scales. Those of time have values in seconds.
const (
	Linear Scale = iota
	Log
	Time
	LogTime
)

func (s Scale) log() bool { return s == Log || s == LogTime }

// unit is one in which times are told.
type unit struct {
	name    string
	seconds float64
	most    float64   // seconds up to which an axis has this unit
	steps   []float64 // between ticks, in this unit
}

var units = []unit{
	{"s", 1, 180, []float64{1, 2, 5, 10, 15, 30, 60}},
	{"min", 60, 3 * 3600, []float64{1, 2, 5, 10, 15, 30, 60}},
	{"h", 3600, 3 * 86400, []float64{1, 2, 3, 6, 12, 24}},
	{"d", 86400, math.Inf(1), []float64{1, 2, 5, 7, 14, 28, 56, 112, 365}},
}

// unitOf returns the unit of an axis from 0 to a time.
func unitOf(seconds float64) unit {
	for _, u := range units {
		if seconds <= u.most {
			return u
		}
	}
	return units[len(units)-1]
}

// mostTicks is how many labels an axis may have.
const mostTicks = 6

// niceStep returns a round distance of at most mostTicks ticks over a span.
func niceStep(span float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(span/mostTicks)))
	for _, m := range []float64{1, 2, 5} {
		if span/(m*power) <= mostTicks {
			return m * power
		}
	}
	return 10 * power
}

// regular returns ticks at multiples of step, labelled in a unit.
func regular(from, to, step, unit float64) (ticks []plot.Tick) {
	decimals := int(max(0, -math.Floor(math.Log10(step/unit)+1e-9)))
	for k := math.Ceil(from/step - 1e-9); k*step <= to+step*1e-9; k++ {
		value := k*step + 0 // without the sign of a zero
		ticks = append(ticks, plot.Tick{Value: value, Label: strconv.FormatFloat(value/unit, 'f', decimals, 64)})
	}
	return ticks
}

// timeTicks are whole numbers of a unit, or parts of one where an axis has few of them.
func timeTicks(from, to float64) []plot.Tick {
	u := unitOf(to)
	if span := (to - from) / u.seconds; span < 2 {
		return regular(from, to, niceStep(span)*u.seconds, u.seconds)
	}
	for _, s := range u.steps {
		if (to-from)/(s*u.seconds) <= mostTicks+1 {
			return regular(from, to, s*u.seconds, u.seconds)
		}
	}
	step := math.Ceil(niceStep((to - from) / u.seconds))
	return regular(from, to, step*u.seconds, u.seconds)
}

// closest is the least distance of two labels of a logarithmic axis, as a part of its length.
const closest = 0.11

// logTicks are powers of ten, and twos and fives between if there is room.
func logTicks(from, to float64) []plot.Tick {
	var first, second, rest []plot.Tick
	for e := math.Floor(math.Log10(from)); e <= math.Ceil(math.Log10(to)); e++ {
		for m := 1.0; m < 10; m++ {
			t := plot.Tick{Value: m * math.Pow(10, e)}
			t.Label = short10(t.Value)
			switch m {
			case 1:
				first = append(first, t)
			case 2, 5:
				second = append(second, t)
			default:
				rest = append(rest, t)
			}
		}
	}
	return labelled(from, to, first, second, unlabelled(rest))
}

// short10 writes a number with one digit in few letters.
func short10(v float64) string {
	for _, s := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if v >= s.size*0.999 {
			if s.name == "k" {
				s.size = 1e3
			}
			return strconv.FormatFloat(v/s.size, 'g', 4, 64) + s.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// logTimes are the times that a logarithmic axis has, by importance.
var logTimes = [2][]plot.Tick{
	{
		{Value: 0.001, Label: "1 ms"}, {Value: 0.01, Label: "10 ms"}, {Value: 0.1, Label: "100 ms"},
		{Value: 1, Label: "1 s"}, {Value: 10, Label: "10 s"}, {Value: 60, Label: "1 min"},
		{Value: 600, Label: "10 min"}, {Value: 3600, Label: "1 h"}, {Value: 6 * 3600, Label: "6 h"},
		{Value: 86400, Label: "1 d"}, {Value: 7 * 86400, Label: "7 d"}, {Value: 28 * 86400, Label: "28 d"},
		{Value: 365 * 86400, Label: "1 y"},
	}, {
		{Value: 2, Label: "2 s"}, {Value: 5, Label: "5 s"}, {Value: 20, Label: "20 s"}, {Value: 30, Label: "30 s"},
		{Value: 120, Label: "2 min"}, {Value: 300, Label: "5 min"}, {Value: 1200, Label: "20 min"},
		{Value: 1800, Label: "30 min"}, {Value: 7200, Label: "2 h"}, {Value: 3 * 3600, Label: "3 h"},
		{Value: 12 * 3600, Label: "12 h"}, {Value: 2 * 86400, Label: "2 d"}, {Value: 4 * 86400, Label: "4 d"},
		{Value: 14 * 86400, Label: "14 d"},
	},
}

func logTimeTicks(from, to float64) []plot.Tick {
	return labelled(from, to, logTimes[0], logTimes[1], nil)
}

// labelled returns the ticks of a range. Those of first keep their labels where they are not too close; if they
// are few, those of second have labels too.
func labelled(from, to float64, first, second, rest []plot.Tick) (ticks []plot.Tick) {
	at := func(t plot.Tick) float64 { return math.Log(t.Value/from) / math.Log(to/from) }
	inside := func(all []plot.Tick) (in []plot.Tick) {
		for _, t := range all {
			if x := at(t); x > -1e-9 && x < 1+1e-9 {
				in = append(in, t)
			}
		}
		return in
	}
	first, second = inside(first), inside(second)
	candidates := first
	if len(first) < 4 {
		candidates = append(candidates, second...)
	} else {
		rest = append(rest, unlabelled(second)...)
	}
	var taken []float64
	for _, t := range candidates {
		for _, x := range taken {
			if math.Abs(x-at(t)) < closest {
				t.Label = ""
			}
		}
		if t.Label != "" {
			taken = append(taken, at(t))
		}
		ticks = append(ticks, t)
	}
	return append(ticks, inside(rest)...)
}

func unlabelled(ticks []plot.Tick) []plot.Tick {
	var bare []plot.Tick
	for _, t := range ticks {
		bare = append(bare, plot.Tick{Value: t.Value})
	}
	return bare
}
