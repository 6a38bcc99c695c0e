package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/adapters/terminal"
	"couchrelay/core/ejson"
)

// screen is text for people. On a terminal no line of a table is wider than that; elsewhere nothing is cut.
type screen struct {
	text  strings.Builder
	width int    // columns, 0 for no terminal
	lacks string // a member that the answer has not, though it must
}

// need is a member that an answer must have. One without it is no answer of a couchrelay, and says nothing of jobs.
func (s *screen) need(answer ejson.Value, name string) ejson.Value {
	v, has := answer.Get(name)
	if !has {
		s.lacks = name
	}
	return v
}

func (s *screen) line(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// Columns of a table have the distance gap. They are cut to no less than narrow columns, and times not at all; columns
// that had to be narrower are left out, if they may be. Those that other commands need are cut last.
const (
	gap    = 2
	narrow = 12
	// aligned is the widest column that is filled up with blanks where nothing is cut: one URL or reason of 100 kB
	// would have every line of a long list filled up to its length.
	aligned = 250
)

// column is one of a table.
type column struct {
	title string
	whole bool // is left out never, and cut only if nothing else helps
	cells []string
	width int
	least int // width that it may be cut to before others are left out
}

// measure finds how wide a column must be for all its cells, and how narrow it may become.
func (c *column) measure() {
	isText := false
	c.width = terminal.Width(c.title)
	for _, cell := range c.cells {
		_, err := time.Parse(time.RFC3339, cell)
		isText = isText || cell != "" && err != nil
		c.width = max(c.width, terminal.Width(cell))
	}
	c.least = c.width
	if isText && !c.whole {
		c.least = min(c.width, narrow)
	}
}

// table prints columns, the more important ones first. Cells that are too long are fitted to their column: each
// becomes lines.
func (s *screen) table(columns []column, fitted func(cell string, width int) []string) {
	rows := 0
	for i := range columns {
		columns[i].measure()
		rows = len(columns[i].cells)
	}
	columns, without := s.fit(columns)
	for row := -1; row < rows; row++ {
		cells := make([][]string, len(columns))
		height := 0
		for i, c := range columns {
			cell := strings.ToUpper(c.title)
			if row >= 0 {
				cell = c.cells[row]
			}
			cells[i] = fitted(cell, c.width)
			height = max(height, len(cells[i]))
		}
		for n := range height {
			line := ""
			for i, c := range columns {
				text := ""
				if n < len(cells[i]) {
					text = cells[i][n]
				}
				line += padded(text, s.filled(c.width)) + blanks
			}
			s.line("%s", strings.TrimRight(line, " "))
		}
	}
	if len(without) > 0 {
		s.line("%s", s.wrapped("(no room for "+strings.Join(without, ", ")+")", 0))
	}
}

// blanks are those of a gap.
var blanks = strings.Repeat(" ", gap)

// filled is the width up to which the cells of a column are filled up with blanks.
func (s *screen) filled(width int) int {
	if s.width == 0 {
		return min(width, aligned)
	}
	return width
}

// fit leaves out the last columns, and makes the widest narrower, until their sum fits the terminal.
func (s *screen) fit(columns []column) (fitting []column, without []string) {
	if s.width == 0 {
		return columns, nil
	}
	for s.lacking(columns, func(c column) int { return c.least }) > 0 {
		last := len(columns) - 1
		for ; last >= 0 && columns[last].whole; last-- {
		}
		if last < 0 {
			break
		}
		without = append([]string{columns[last].title}, without...)
		columns = slices.Delete(columns, last, last+1)
	}
	full := func(c column) int { return c.width }
	for s.lacking(columns, full) > 0 {
		widest := &columns[0]
		for i := range columns {
			if c := &columns[i]; c.width-c.least > widest.width-widest.least ||
				c.width-c.least == widest.width-widest.least && c.width > widest.width {
				widest = c
			}
		}
		if widest.width == 1 {
			break // a terminal of a few columns
		}
		widest.width--
	}
	return columns, without
}

// lacking is by how much columns of these widths are too wide for the terminal.
func (s *screen) lacking(columns []column, width func(column) int) int {
	sum := gap * (len(columns) - 1)
	for _, c := range columns {
		sum += width(c)
	}
	return sum - s.width
}

// padded is a text with blanks behind it, so that it takes width columns, or more.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-terminal.Width(text)))
}

// cut leaves out the middle of a word that is longer than width, and the end of a sentence.
func cut(text string, width int) []string {
	whole := terminal.Width(text)
	if whole <= width {
		return []string{text}
	}
	if width < 2 {
		return []string{"…"}
	}
	if strings.Contains(text, " ") {
		return []string{terminal.Head(text, width-1) + "…"}
	}
	room := width - width/2 - 1
	tail := text[len(terminal.Head(text, whole-room)):]
	if terminal.Width(tail) > room { // its first character is wide
		tail = tail[len(terminal.Head(tail, 2)):]
	}
	return []string{terminal.Head(text, width/2) + "…" + tail}
}

// list prints the objects of a list as a table. Each spec of a column is its title, unless it is that of a member,
// "!" if the column is to be whole, and the name of the member, or of several of which the first with a value counts:
// "id! id|job". A name behind that of another member and "?" counts if that has a value, too. Columns that no object
// has are left out.
func (s *screen) list(list ejson.Value, specs ...string) {
	var columns []column
	for _, spec := range specs {
		title, names, found := strings.Cut(spec, " ")
		c := column{cells: make([]string, len(list.Elems))}
		if c.title, c.whole = strings.CutSuffix(title, "!"); !found {
			names = c.title
		}
		for i, e := range list.Elems {
			for name := range strings.SplitSeq(names, "|") {
				if given, then, is := strings.Cut(name, "?"); !is {
					c.cells[i] = plain(member(e, name))
				} else if plain(member(e, given)) != "" {
					c.cells[i] = plain(member(e, then))
				}
				if c.cells[i] != "" {
					break
				}
			}
		}
		if slices.ContainsFunc(c.cells, func(cell string) bool { return cell != "" }) {
			columns = append(columns, c)
		}
	}
	if len(columns) > 0 {
		s.table(columns, cut)
	}
}

// fields prints the members of an object, a line each; lists of objects follow as tables, in which nothing is cut.
func (s *screen) fields(object ejson.Value) {
	var names, values []string
	var lists []ejson.Member
	var collect func(prefix string, v ejson.Value)
	collect = func(prefix string, v ejson.Value) {
		for _, m := range v.Members {
			switch name := prefix + m.Name; {
			case m.Value.Kind == ejson.Object:
				collect(name+".", m.Value)
			case m.Value.Kind == ejson.Array && len(m.Value.Elems) > 0 && m.Value.Elems[0].Kind == ejson.Object:
				lists = append(lists, ejson.Member{Name: name, Value: m.Value})
			case plain(m.Value) != "":
				names, values = append(names, name), append(values, plain(m.Value))
			}
		}
	}
	collect("", object)
	longest := 0
	for _, name := range names {
		longest = max(longest, terminal.Width(terminal.Clean(name)))
	}
	for i, name := range names {
		s.line("%s  %s", padded(terminal.Clean(name), longest), s.wrapped(values[i], longest+gap))
	}
	for _, l := range lists {
		s.line("\n%s:", terminal.Clean(l.Name))
		var columns []column
		for _, name := range membersOf(l.Value) {
			c := column{title: terminal.Clean(name)}
			for _, e := range l.Value.Elems {
				v, _ := e.Get(name)
				c.cells = append(c.cells, plain(v))
			}
			columns = append(columns, c)
		}
		s.table(columns, terminal.Wrap)
	}
}

// wrapped breaks a text into lines that begin at a column and fit the terminal.
func (s *screen) wrapped(text string, column int) string {
	room := s.width - column
	if s.width == 0 || room < 20 {
		return text
	}
	return strings.Join(terminal.Wrap(text, room), "\n"+strings.Repeat(" ", column))
}

// membersOf are the names of all members of the objects of a list.
func membersOf(list ejson.Value) (names []string) {
	for _, e := range list.Elems {
		for _, m := range e.Members {
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// member returns a member of an object, or a member of a member.
func member(v ejson.Value, path string) ejson.Value {
	for name := range strings.SplitSeq(path, ".") {
		v, _ = v.Get(name)
	}
	return v
}

// plain is a value in words: nothing for null, the characters of a string, the elements of a list, else JSON.
func plain(v ejson.Value) string {
	switch v.Kind {
	case 0, ejson.Null:
		return ""
	case ejson.String:
		return terminal.Clean(v.Text)
	case ejson.Array:
		list := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			list[i] = plain(e)
		}
		return strings.Join(list, ", ")
	}
	return terminal.Clean(string(v.Append(nil)))
}
