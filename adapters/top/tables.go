package top

import (
	"strings"
	"time"

	"couchrelay/adapters/terminal"
)

// column is one of the table of jobs. Those that come last are left out first where there is no room.
type column struct {
	title string
	right bool
	least int // columns of the screen that it needs
	most  int // and those that it takes at most
	cell  func(m *Model, j *Job, now time.Time) string
}

var jobColumns = []column{
	{"STATE", false, 8, 12, func(_ *Model, j *Job, _ time.Time) string { return terminal.Clean(j.State) }},
	{"JOB", false, 12, 40, func(_ *Model, j *Job, _ time.Time) string { return j.name() }},
	{"DOCS/S", true, 6, 9, func(m *Model, j *Job, _ time.Time) string {
		if r, known := m.jobRate(j); known {
			return rate(r)
		}
		return ""
	}},
	{"PENDING", true, 7, 13, func(_ *Model, j *Job, _ time.Time) string {
		if n, known := j.pending(); known {
			return number(n)
		}
		return ""
	}},
	{"ERRORS", true, 6, 9, func(_ *Model, j *Job, _ time.Time) string {
		if n := j.errors(); n > 0 {
			return number(n)
		}
		return ""
	}},
	{"DATABASE", false, 8, 24, func(_ *Model, j *Job, _ time.Time) string { return text(j.Database) }},
	{"STARTED", true, 7, 7, func(_ *Model, j *Job, now time.Time) string {
		at, err := time.Parse(time.RFC3339, j.Started)
		if err != nil {
			return ""
		}
		return short(now.Sub(at))
	}},
	{"NODE", false, 6, 16, func(_ *Model, j *Job, _ time.Time) string { return text(j.Node) }},
	{"SOURCE", false, 16, 60, func(_ *Model, j *Job, _ time.Time) string { return text(j.Source) }},
	{"TARGET", false, 16, 60, func(_ *Model, j *Job, _ time.Time) string { return text(j.Target) }},
}

// mark is the column that shows the selected row, also without colours.
const mark = 2

// jobsTable is the table of jobs with the selected one in sight.
func (m *Model) jobsTable(width, room int, now time.Time) []terminal.Line {
	cells := make([][]string, len(m.table.Jobs))
	for i := range m.table.Jobs {
		for _, c := range jobColumns {
			cells[i] = append(cells[i], c.cell(m, &m.table.Jobs[i], now))
		}
	}
	widths := fitColumns(cells, width)
	var titles []string
	for _, c := range jobColumns {
		titles = append(titles, c.title)
	}
	lines := []terminal.Line{terminal.Text("  "+row(titles, widths), terminal.Bold)}
	at := m.index()
	m.height = max(1, room-1)
	m.top = min(m.top, at)
	m.top = max(0, m.top, at-m.height+1)
	for i := m.top; i < len(cells) && len(lines) <= m.height; i++ {
		text := row(cells[i], widths)
		if i == at && room < 10_000 {
			lines = append(lines, terminal.Text("> "+text, terminal.Reverse))
			continue
		}
		state := text[:len(terminal.Head(text, widths[0]))]
		lines = append(lines, terminal.Line{{Text: "  "}, {Text: state, Style: colours[m.table.Jobs[i].State]},
			{Text: text[len(state):]}})
	}
	if len(cells) == 0 && m.of == m.filter && !m.fresh.IsZero() && m.limits["rows"] == "" {
		lines = append(lines, terminal.Text("  there are none; 0 shows all", terminal.Dim))
	}
	return lines
}

// fitColumns are the widths of the columns that have room, of the first ones: as wide as their cells, or less.
func fitColumns(cells [][]string, width int) (widths []int) {
	left := width - mark
	for i, c := range jobColumns {
		if width > 0 && left < c.least && i > 0 {
			break
		}
		need := terminal.Width(c.title)
		for _, r := range cells {
			need = max(need, terminal.Width(r[i]))
		}
		if width > 0 {
			need = min(need, c.most, max(left, 1))
			need = max(need, min(c.least, max(left, 1)))
		}
		widths = append(widths, need)
		left -= need + 2
	}
	return widths
}

// row is a row of the table of jobs.
func row(cells []string, widths []int) string {
	var b strings.Builder
	for i, w := range widths {
		text := terminal.Fit(cells[i], w)
		if jobColumns[i].right {
			trimmed := strings.TrimRight(text, " ")
			text = strings.Repeat(" ", w-terminal.Width(trimmed)) + trimmed
		}
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// table are the lines of a table of texts; the last column takes what is left.
func table(titles []string, rows [][]string, width int) []terminal.Line {
	widths := make([]int, len(titles))
	for i, t := range titles {
		widths[i] = terminal.Width(t)
		for _, r := range rows {
			widths[i] = max(widths[i], terminal.Width(r[i]))
		}
		if width > 0 {
			widths[i] = min(widths[i], 40)
		}
	}
	line := func(cells []string, style terminal.Style) terminal.Line {
		text := ""
		for i, c := range cells {
			text += terminal.Fit(c, widths[i]) + "  "
		}
		return terminal.Text(strings.TrimRight(text, " "), style)
	}
	lines := []terminal.Line{line(titles, terminal.Bold)}
	for _, r := range rows {
		lines = append(lines, line(r, terminal.Plain))
	}
	return lines
}

// listLines are the lines of a page that has nothing but a table.
func (k *known) listLines(page string, width int) []terminal.Line {
	l, answered := k.lists[page]
	switch {
	case k.limits[page] != "":
		return []terminal.Line{terminal.Text(k.limits[page], terminal.Yellow)}
	case !answered:
		return []terminal.Line{terminal.Text("...", terminal.Dim)}
	case len(l.rows) == 0:
		return []terminal.Line{terminal.Text("there are none", terminal.Dim)}
	}
	var titles []string
	for _, c := range lists[page].columns {
		titles = append(titles, c[1])
	}
	return table(titles, l.rows, width)
}

func (k *known) nodeLines(width int, now time.Time) []terminal.Line {
	if p := k.limits["nodes"]; p != "" {
		return []terminal.Line{terminal.Text(p, terminal.Yellow)}
	}
	var rows [][]string
	for _, n := range k.nodes {
		seen, started := n.LastSeen, n.Started
		if at, err := time.Parse(time.RFC3339, seen); err == nil {
			seen = short(now.Sub(at)) + " ago"
		}
		if at, err := time.Parse(time.RFC3339, started); err == nil {
			started = short(now.Sub(at)) + " ago"
		}
		rows = append(rows, []string{terminal.Clean(n.Name), terminal.Clean(n.Status), number(n.Running),
			number(n.MaxJobs), terminal.Clean(seen), terminal.Clean(started), terminal.Clean(n.Version),
			terminal.Clean(strings.Join(n.Roles, ", "))})
	}
	titles := []string{"NODE", "STATUS", "RUNNING", "MAX_JOBS", "SEEN", "STARTED", "VERSION", "ROLES"}
	lines := table(titles, rows, width)
	for i, n := range k.nodes {
		lines[i+1][0].Style = colours[n.Status]
	}
	return lines
}
