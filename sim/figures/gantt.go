package figures

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Gantt shows when jobs ran and waited, a row for each.
type Gantt struct {
	From, To float64  // seconds
	Accounts []string // by look
	Rows     []Row    // from the top; those of one account together
}

// Row is a job.
type Row struct {
	Account int // its place in Gantt.Accounts
	Spans   []Span
}

// Span is a time in one state.
type Span struct {
	State    State
	From, To float64 // seconds
}

// State is what a job does.
type State uint8

// States.
const (
	Waiting State = iota
	Backoff
	StartUp
	Running
)

// MostRows is how many jobs a Gantt chart shows, so that each can be seen.
const MostRows = 600

// mostSpans keeps files from growing beyond measure.
const mostSpans = 100_000

func (g Gantt) check() error {
	spans := 0
	for i, r := range g.Rows {
		if r.Account < 0 || r.Account >= min(len(g.Accounts), Most) {
			return fmt.Errorf("row %d: account %d is not among the %d that a figure tells apart",
				i, r.Account, Most)
		}
		spans += len(r.Spans)
	}
	switch {
	case spans == 0 || g.To <= g.From:
		return ErrEmpty
	case len(g.Rows) > MostRows:
		return fmt.Errorf("%w: %d jobs, where %d can be told apart", ErrTooMany, len(g.Rows), MostRows)
	case spans > mostSpans:
		return fmt.Errorf("%w: %d runs and waits, where %d can be told apart", ErrTooMany, spans, mostSpans)
	}
	return nil
}

func (g Gantt) natural() Size {
	return Size{180, 30 + min(200, max(20, 0.8*float64(len(g.Rows))))}
}

func (g Gantt) draw(area draw.Canvas) {
	p := newPlot(Axis{Label: "time", Scale: Time, Min: g.From, Max: g.To}, Axis{Min: 0, Max: float64(len(g.Rows))})
	area = legend(area, g.entries())
	// Names of accounts stand beside their rows where there is room.
	p.Y.Tick.Length = 0
	row := (area.Max.Y - area.Min.Y) / vg.Length(len(g.Rows)) * 0.85
	var names plot.ConstantTicks
	for from := 0; from < len(g.Rows); {
		to := g.sameAccount(from)
		if row*vg.Length(to-from) > p.Y.Tick.Label.Height("x") {
			name := short(g.Accounts[g.Rows[from].Account], p.Y.Tick.Label, (area.Max.X-area.Min.X)/5)
			names = append(names, plot.Tick{Value: float64(len(g.Rows)) - float64(from+to)/2, Label: name})
		}
		from = to
	}
	p.Y.Tick.Marker = names
	p.Add(g)
	p.Draw(area)
}

// sameAccount returns where the rows of the account of one end.
func (g Gantt) sameAccount(from int) int {
	to := from
	for to < len(g.Rows) && g.Rows[to].Account == g.Rows[from].Account {
		to++
	}
	return to
}

// entries explain the states, and the colours.
func (g Gantt) entries() (all []entry) {
	has := map[State]bool{}
	used := make([]bool, len(g.Accounts))
	for _, r := range g.Rows {
		used[r.Account] = true
		for _, s := range r.Spans {
			has[s.State] = true
		}
	}
	for i, name := range g.Accounts {
		if used[i] {
			all = append(all, entry{name, func(c *draw.Canvas) {
				c.SetColor(looks[i].color)
				c.Fill(box(c.Min.X, c.Min.Y, c.Max.X, c.Max.Y))
			}, shortSample})
		}
	}
	if has[StartUp] {
		all = append(all, entry{"start-up", func(c *draw.Canvas) {
			c.SetColor(pale(looks[0].color))
			c.Fill(box(c.Min.X, c.Min.Y, c.Max.X, c.Max.Y))
		}, shortSample})
	}
	for _, s := range []State{Waiting, Backoff} {
		if has[s] {
			name := map[State]string{Waiting: "waiting", Backoff: "back-off"}[s]
			all = append(all, entry{name, func(c *draw.Canvas) {
				c.StrokeLine2(idle[s], c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
			}, shortSample})
		}
	}
	return all
}

// idle is how jobs look that do not run.
var idle = map[State]draw.LineStyle{
	Waiting: {Color: soft, Width: 0.3},
	Backoff: {Color: ink, Width: 0.8, Dashes: []vg.Length{0.8, 0.8}},
}

// Plot is gonum's. What looks alike is one path, since there are many thousands.
func (g Gantt) Plot(c draw.Canvas, p *plot.Plot) {
	height := (c.Max.Y - c.Min.Y) / vg.Length(len(g.Rows))
	gap := min(height*0.12, 1)
	lines, starting, running := map[State]vg.Path{}, make([]vg.Path, Most), make([]vg.Path, Most)
	x := func(t float64) vg.Length { return c.X(p.X.Norm(math.Min(math.Max(t, g.From), g.To))) }
	for i, r := range g.Rows {
		top := c.Max.Y - height*vg.Length(i)
		for _, s := range r.Spans {
			from, to := x(s.From), x(s.To)
			if to <= from {
				continue
			}
			bar := box(from, top-height+gap, to, top-gap)
			switch s.State {
			case StartUp:
				starting[r.Account] = append(starting[r.Account], bar...)
			case Running:
				running[r.Account] = append(running[r.Account], bar...)
			default:
				path := lines[s.State]
				path.Move(vg.Point{X: from, Y: top - height/2})
				path.Line(vg.Point{X: to, Y: top - height/2})
				lines[s.State] = path
			}
		}
	}
	for _, s := range []State{Waiting, Backoff} {
		if len(lines[s]) > 0 {
			style := idle[s]
			style.Width = min(style.Width, height/6) // rows may be thinner than lines
			c.SetLineStyle(style)
			c.Stroke(lines[s])
		}
	}
	for i := range Most {
		for _, fill := range []struct {
			path  vg.Path
			solid bool
		}{{running[i], true}, {starting[i], false}} {
			if c.SetColor(looks[i].color); !fill.solid {
				c.SetColor(pale(looks[i].color))
			}
			if len(fill.path) > 0 {
				c.Fill(fill.path)
			}
		}
	}
	for from := 0; from < len(g.Rows); from = g.sameAccount(from) {
		y := c.Max.Y - height*vg.Length(from)
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.4}, c.Min.X, y, c.Max.X, y)
	}
}
