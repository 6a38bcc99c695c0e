package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/terminal"
)

// View is the picture for a screen: at most height lines, none wider than width. With a height of 0 there is no bound
// to the lines, and with a width of 0 none to their width.
func (m *Model) View(width, height int, now time.Time) []terminal.Line {
	lines := m.header(now, height)
	foot := m.footer()
	room := height - len(lines) - len(foot)
	switch {
	case height == 0:
		room, foot = 10_000, nil
	case room < 3:
		lines, foot = lines[:1], foot[len(foot)-1:]
		room = max(0, height-2)
	}
	lines = append(lines, m.body(width, room, now)...)
	if height > 0 {
		for len(lines)+len(foot) < height {
			lines = append(lines, nil)
		}
		lines = append(lines, foot...)
		lines = lines[:min(len(lines), height)]
	}
	if width > 0 {
		for i := range lines {
			lines[i] = lines[i].Cut(width)
		}
	}
	return lines
}

func (m *Model) body(width, room int, now time.Time) []terminal.Line {
	switch m.page {
	case jobPage:
		return m.scrolled(m.jobLines(width), room)
	case helpPage:
		return m.scrolled(helpLines(), room)
	case nodesPage:
		return m.scrolled(m.nodeLines(width, now), room)
	case jobsPage:
		return m.jobsTable(width, room, now)
	}
	return m.scrolled(m.listLines(m.page, width), room)
}

// scrolled are the lines of a page that fit, from the one that the user has come to.
func (p *place) scrolled(lines []terminal.Line, room int) []terminal.Line {
	p.height = max(1, room-1)
	p.scroll = min(p.scroll, max(0, len(lines)-room))
	return lines[p.scroll:min(len(lines), p.scroll+room)]
}

// header are the lines above every page.
func (m *Model) header(now time.Time, height int) []terminal.Line {
	title := terminal.Line{{Text: strings.TrimSpace("couchrelay "+m.versions()) + " ", Style: terminal.Bold},
		{Text: terminal.Clean(m.server)}}
	age := "  no data yet"
	if !m.fresh.IsZero() {
		age = "  " + short(now.Sub(m.fresh).Truncate(time.Second)) + " old, every " + short(m.interval)
	}
	if m.frozen {
		age += ", FROZEN (space goes on)"
	}
	lines := []terminal.Line{append(title, terminal.Span{Text: age, Style: terminal.Dim})}
	if height == 0 || height >= 16 {
		lines = append(lines, terminal.Text(m.nodesLine(), terminal.Plain))
	}
	lines = append(lines, m.totals())
	if height == 0 || height >= 16 {
		lines = append(lines, terminal.Text(m.ratesLine(), terminal.Plain))
	}
	return append(lines, m.banner(now))
}

func (k *known) versions() string {
	var list []string
	for _, n := range k.nodes {
		if v := terminal.Clean(n.Version); !slices.Contains(list, v) && n.Status != "lost" {
			list = append(list, v)
		}
	}
	return strings.Join(list, ", ")
}

func (k *known) nodesLine() string {
	if p := k.limits["nodes"]; p != "" {
		return "nodes: " + p
	}
	counts := map[string]int{}
	for _, n := range k.nodes {
		counts[terminal.Clean(n.Status)]++
	}
	var parts []string
	for _, status := range []string{"up", "maintenance", "draining", "lost"} {
		if counts[status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[status], status))
		}
	}
	line := "nodes " + strings.Join(parts, ", ")
	if k.figures.known {
		line += fmt.Sprintf("   running %s of max_jobs %s   holds %s", number(k.figures.used), number(k.figures.slots),
			number(k.figures.holds))
	}
	return line
}

var colours = map[string]terminal.Style{
	"running": terminal.Green, "crashing": terminal.Red, "failed": terminal.Red, "error": terminal.Red,
	"unreadable": terminal.Red,
	"paused":     terminal.Yellow, "pending": terminal.Cyan, "completed": terminal.Dim,
	"up": terminal.Green, "lost": terminal.Red, "draining": terminal.Yellow, "maintenance": terminal.Yellow,
}

// totals are the jobs by state.
func (k *known) totals() terminal.Line {
	if k.figures.jobs == nil {
		line := "jobs "
		if k.table.Total != nil {
			line += number(*k.table.Total)
		}
		if p := k.limits["figures"]; p != "" {
			line += "   figures: " + p
		}
		return terminal.Text(line, terminal.Plain)
	}
	line := terminal.Line{{Text: "jobs"}}
	for _, state := range []string{"running", "pending", "crashing", "paused", "failed", "completed"} {
		if n := k.figures.jobs[state]; n > 0 || state == "running" || state == "pending" {
			line = append(line, terminal.Span{Text: "  " + state + " "},
				terminal.Span{Text: number(n), Style: colours[state]})
		}
	}
	return line
}

func (k *known) ratesLine() string {
	per := func(of func(Counters) float64, minute bool) string {
		r, known := k.rates.rate(of)
		if !known {
			return "-"
		}
		if minute {
			r *= 60
		}
		return rate(r)
	}
	bytes, known := k.rates.rate(func(c Counters) float64 { return c.Bytes })
	size := "- B"
	if known {
		size = sizeOf(bytes)
	}
	return fmt.Sprintf("this node  %s docs/s  %s/s  %s starts/s  %s crashes/min  %s 429s/min",
		per(func(c Counters) float64 { return c.Docs }, false), size,
		per(func(c Counters) float64 { return c.Starts }, false),
		per(func(c Counters) float64 { return c.Crashes }, true),
		per(func(c Counters) float64 { return c.Throttled }, true))
}

// titles are those of the pages without a list of jobs.
var titles = map[string]string{jobPage: "a job", nodesPage: "nodes", helpPage: "help"}

// banner says that there is no answer, or what the rows are.
func (m *Model) banner(now time.Time) terminal.Line {
	switch {
	case !m.down.IsZero():
		text := fmt.Sprintf("NO ANSWER since %s (%s): %s", m.down.Format(time.TimeOnly), short(now.Sub(m.down)),
			terminal.Clean(m.trouble))
		if !m.busy {
			text += "; next try in " + short(max(0, m.next.Sub(now)))
		}
		return terminal.Text(text, terminal.Reverse)
	case m.busy && now.Sub(m.asked) > 3*time.Second:
		return terminal.Text("no answer for "+short(now.Sub(m.asked)), terminal.Yellow)
	case m.limits["rows"] != "" && m.page == jobsPage:
		return terminal.Text(m.limits["rows"], terminal.Yellow)
	case m.figures.known && !m.figures.store:
		return terminal.Text("the store does not answer", terminal.Red)
	case m.page != jobsPage:
		title := titles[m.page] + lists[m.page].title
		if m.lists[m.page].more {
			title += fmt.Sprintf(", the first %d", PageRows)
		}
		return terminal.Text(title, terminal.Bold)
	}
	text := "all"
	if f := m.filter.String(); f != "" {
		text = terminal.Clean(f)
	}
	if m.of != m.filter {
		return terminal.Text(text+": ...", terminal.Bold)
	}
	first := m.first()
	if n := len(m.table.Jobs); n > 0 {
		text += fmt.Sprintf(": rows %s-%s", number(int64(first+1)), number(int64(first+n)))
	} else {
		text += ": none"
	}
	if m.table.Total != nil {
		text += " of " + number(*m.table.Total)
	}
	text += ", by " + m.sort
	if m.reverse {
		text += " (reversed)"
	}
	if m.table.Cursor != "" || len(m.pages) > 0 {
		text += " among these; < > page"
	}
	return terminal.Text(text, terminal.Bold)
}

// footer are the lines below every page.
func (m *Model) footer() []terminal.Line {
	keys := "? help  q quit  ↑↓ enter explain  / filter  0-6 state  s sort  p pause r resume t retry x c"
	if m.page != jobsPage {
		keys = "? help  q quit  ↑↓ scroll  esc back to jobs"
	}
	last := terminal.Text(keys, terminal.Dim)
	switch {
	case m.prompt != nil:
		last = terminal.Text(m.prompt.text+terminal.Clean(m.prompt.typed)+"_", terminal.Bold)
	case m.message != "":
		last = terminal.Text(m.message, terminal.Bold)
	}
	if m.page != jobsPage {
		return []terminal.Line{last}
	}
	about := terminal.Line{}
	if j := m.current(); j != nil {
		about = terminal.Text(strings.TrimSpace(j.name()+": "+j.problem()), terminal.Plain)
		if j.problem() == "" {
			about = terminal.Text(j.name()+": "+text(j.Source)+" -> "+text(j.Target), terminal.Plain)
		}
	}
	return []terminal.Line{about, last}
}

func helpLines() []terminal.Line {
	var lines []terminal.Line
	for line := range strings.SplitSeq(help, "\n") {
		lines = append(lines, terminal.Text(line, terminal.Plain))
	}
	return lines
}

// Keys tell what keys do, one or more a line.
const Keys = `↑ ↓ j k         move, or scroll; as do PageUp, PageDown, Home, End
< >             the page of 100 before, or behind
enter           show a job: why it runs or does not, its numbers, its history
esc             go back to the jobs
0 1 2 3         jobs: all, running, pending, crashing
4 5 6           paused, failed, completed
/               filter by words: state=crashing,paused server=db1.example.com
                user=NAME error=db_not_found node=NAME database=NAME
s S             sort by the next column, by the one before: state, rate,
                pending, errors, database, started, name
R               reverse the order
p r t           pause, resume, retry the job
x c             reset the job: discard its checkpoints; cancel it: remove it
                with its document. Both are asked for again
n a v e h f     nodes, accounts, servers, errors, holds, followed databases
space           freeze the picture, go on
ctrl-l          ask at once
ctrl-z          suspend
q, ctrl-c       quit`

// help is the page of help.
const help = `The first lines tell the nodes and jobs of the whole service, and the rates of
the node that is asked. Of the jobs a page of 100 is read, and sorted; filters
choose among all of them.

` + Keys + `

ERRORS are the crashes in a job's history, and the documents that its target
refused. DOCS/S is of the last 15 seconds.`

// number writes a count with commas.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// rate writes one: with a digit behind the point if it is small.
func rate(r float64) string {
	if r == 0 {
		return "0"
	}
	if r < 9.95 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return number(int64(r + 0.5))
}

// sizeOf writes a number of bytes.
func sizeOf(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for ; n >= 999.5 && i < len(units)-1; i++ {
		n /= 1000
	}
	if i == 0 {
		return number(int64(n)) + " B"
	}
	return rate(n) + " " + units[i]
}

// short writes a time with the unit that fits.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d > 0 && d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}
