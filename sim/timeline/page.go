package timeline

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"couchrelay/sim/oracle"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var page = template.Must(template.New("timeline").Parse(pageHTML))

// maxChanges is how many changes of jobs and runs, taken together, a page shows one by one. When there are
// more, those that are too close together for any screen are drawn as one.
const maxChanges = 60_000

// data is what the page's script draws: lists of numbers, since there are many.
type data struct {
	End       int64     `json:"end"` // milliseconds, as all times
	Healed    int64     `json:"healed"`
	Violation *mark     `json:"violation"`
	Texts     []string  `json:"texts"`
	Nodes     []row     `json:"nodes"`
	Jobs      []row     `json:"jobs"`
	Faults    []int64   `json:"faults"` // from, to, name, whom, text
	Bucket    int64     `json:"bucket"`
	Loads     []counted `json:"loads"`
	Least     int64     `json:"least"` // what is shorter is drawn together; 0 when nothing is
}

type mark struct {
	At   int64  `json:"at"`
	ID   string `json:"id"`
	Rule string `json:"rule"`
	Text string `json:"text"`
	Step uint64 `json:"step"`
}

type row struct {
	Name    string  `json:"name"`
	Group   string  `json:"group"`
	Blamed  bool    `json:"blamed"`  // the violation names it
	Changes []int64 `json:"changes"` // at, state, node, text
	Runs    []int64 `json:"runs"`    // from, to, node, text
}

type counted struct {
	Who    string          `json:"who"`
	Counts [kinds][]uint32 `json:"counts"`
}

// Write writes the page of a run that is over. title says which run it was, violation how it ended; that is
// nil when all invariants held.
func (r *Recorder) Write(out io.Writer, title string, violation *oracle.Violation) error {
	return page.Execute(out, map[string]any{
		"Title": title, "Events": r.trial.Engine.Played(), "Elapsed": r.trial.Elapsed().Round(time.Second),
		"Violation": violation, "CSS": template.CSS(pageCSS), "JS": template.JS(pageJS), "Data": r.data(violation),
	})
}

func (r *Recorder) data(violation *oracle.Violation) data {
	end := max(r.trial.Elapsed().Milliseconds(), 1)
	seconds := int(end/1000/maxBuckets) + 1
	d := data{
		End: end, Healed: r.healed, Texts: append([]string{}, r.texts.list...),
		Bucket: int64(seconds) * 1000, Least: r.least(end),
		Nodes: []row{}, Jobs: []row{}, Faults: []int64{}, Loads: []counted{}, // the page takes no null for a list
	}
	if v := violation; v != nil {
		d.End += end / 100 // so that its line stands free
		d.Violation = &mark{v.At.Sub(r.began).Milliseconds(), v.ID, oracle.Says(v.ID), v.Text, v.Step}
	}
	slices.SortFunc(r.nodes, func(a, b *lane) int { return cmp.Compare(a.name, b.name) })
	for _, l := range r.nodes {
		d.Nodes = append(d.Nodes, row{Name: l.name, Changes: flatChanges(l.changes)})
	}
	slices.SortStableFunc(r.order, func(a, b *job) int { return cmp.Compare(a.database, b.database) })
	for _, j := range r.order {
		d.Jobs = append(d.Jobs, row{
			Name: j.name, Group: j.database,
			Blamed:  violation != nil && strings.Contains(violation.Text, "job "+j.id+" "),
			Changes: flatChanges(thinChanges(j.changes, d.Least)), Runs: flatRuns(thinRuns(j.runs, d.Least, end)),
		})
	}
	for _, f := range r.faults {
		d.Faults = append(d.Faults, f.from, min(f.to, end), int64(f.name), int64(f.whom), int64(f.text))
	}
	slices.SortFunc(r.loads, func(a, b *load) int { return cmp.Compare(a.who, b.who) })
	for _, l := range r.loads {
		d.Loads = append(d.Loads, counted{l.who, l.buckets(seconds)})
	}
	return d
}

// least returns the shortest time that the page shows by itself, in milliseconds, so that it stays small.
func (r *Recorder) least(end int64) int64 {
	for least := int64(0); ; least = max(2*least, end/4000, 1) {
		n := 0
		for _, j := range r.order {
			n += len(thinChanges(j.changes, least)) + len(thinRuns(j.runs, least, end))
		}
		if n <= maxChanges || least >= end {
			return least
		}
	}
}

// thinChanges replaces changes that come within least of each other by two: the worst state among them and,
// least later, the last one.
func thinChanges(list []change, least int64) []change {
	if least == 0 {
		return list
	}
	var out []change
	var last change // what the state really is
	for _, c := range list {
		n := len(out)
		if n > 0 && c.at < out[n-1].at+least {
			if c.state > out[n-1].state {
				c.at, last = out[n-1].at, c
				out[n-1] = c
			} else {
				last = c
			}
			continue
		}
		out = closeGroup(out, last, least, c.at)
		out, last = append(out, c), c
	}
	return closeGroup(out, last, least, 1<<62)
}

// closeGroup adds the last state of a group of changes, unless it shows already.
func closeGroup(out []change, last change, least, until int64) []change {
	n := len(out)
	if n == 0 || out[n-1].state == last.state && out[n-1].node == last.node || out[n-1].at+least >= until {
		return out
	}
	last.at = out[n-1].at + least
	return append(out, last)
}

// thinRuns joins runs of one node that are less than least apart, and runs of several nodes that begin within
// least, which are then drawn as runs of no node.
func thinRuns(list []span, least, end int64) []span {
	var out []span
	for _, s := range list {
		if s.to < 0 {
			s.to = end
		}
		if n := len(out); n > 0 && least > 0 {
			last := &out[n-1]
			if last.node == s.node && s.from < last.to+least {
				last.to, last.text = max(last.to, s.to), s.text
				continue
			}
			if s.from < last.from+least {
				last.to, last.text, last.node = max(last.to, s.to), 0, 0
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

func flatChanges(list []change) []int64 {
	flat := make([]int64, 0, 4*len(list))
	for _, c := range list {
		flat = append(flat, c.at, int64(c.state), int64(c.node), int64(c.text))
	}
	return flat
}

func flatRuns(list []span) []int64 {
	flat := make([]int64, 0, 4*len(list))
	for _, s := range list {
		flat = append(flat, s.from, s.to, int64(s.node), int64(s.text))
	}
	return flat
}
