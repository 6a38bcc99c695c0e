package top

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"couchrelay/adapters/terminal"
)

// prompt is a question in the last line.
type prompt struct {
	text string
	// typed is the answer so far, of a question that takes a line; others take one key.
	typed  string
	line   bool
	accept func(answer string, now time.Time) []Effect
}

// orders are what keys have done to a job. Those that lose something are asked for twice.
var orders = map[string]struct{ verb, loses string }{
	"p": {"pause", ""},
	"r": {"resume", ""},
	"t": {"retry", ""},
	"x": {"reset", "discard the checkpoints of %s, and compare its databases from the beginning?"},
	"c": {"cancel", "remove %s for good, with its replication document if it has one?"},
}

// states are the filters of the keys 0 to 6.
var states = []string{"", "running", "pending", "crashing", "paused", "failed", "completed"}

// pagesByKey are the pages that a key leads to.
var pagesByKey = map[string]string{
	"n": nodesPage, "a": "accounts", "v": "servers", "e": "errors", "h": "holds", "f": "follow", "?": helpPage,
}

// Press takes a key.
func (m *Model) Press(key string, now time.Time) []Effect {
	switch {
	case key == "ctrl-c" || key == "q" && m.prompt == nil:
		return m.quit()
	case key == "ctrl-z":
		return []Effect{{Suspend: true}}
	case m.prompt != nil:
		return m.answer(key, now)
	}
	m.message = ""
	if page, is := pagesByKey[key]; is {
		return m.open(page, now)
	}
	if key >= "0" && key < string(rune('0'+len(states))) && m.page == jobsPage {
		m.filter.State = states[key[0]-'0']
		return m.choose(now)
	}
	switch key {
	case terminal.Escape, terminal.Delete, terminal.Left:
		return m.open(jobsPage, now)
	case " ":
		m.frozen = !m.frozen
		if !m.frozen {
			return m.refresh(now)
		}
		return nil
	case "ctrl-l":
		return m.refresh(now)
	}
	if _, is := orders[key]; is {
		return m.command(key, now)
	}
	if m.page == jobsPage {
		return m.pressInTable(key, now)
	}
	m.pressInText(key)
	return nil
}

// quit ends the view, after the answer to an order that is under way; asked twice, at once.
func (m *Model) quit() []Effect {
	if m.ordering && !m.leaving {
		m.leaving, m.message = true, "ends when the order is answered; again: at once"
		return nil
	}
	return []Effect{{Quit: true}}
}

func (m *Model) open(page string, now time.Time) []Effect {
	if page == m.page {
		return nil
	}
	m.page, m.scroll = page, 0
	if page == helpPage || page == nodesPage {
		return nil // what it shows is here
	}
	return m.refresh(now)
}

// choose asks for the rows of a filter that has changed.
func (m *Model) choose(now time.Time) []Effect {
	m.pages, m.top, m.selected = nil, 0, ""
	return m.refresh(now)
}

func (m *Model) pressInTable(key string, now time.Time) []Effect {
	switch key {
	case terminal.Up, "k":
		m.move(-1)
	case terminal.Down, "j":
		m.move(1)
	case terminal.PageUp, "ctrl-b":
		m.move(-max(1, m.height))
	case terminal.PageDown, "ctrl-f":
		m.move(max(1, m.height))
	case terminal.Home, "g":
		m.move(-PageRows)
	case terminal.End, "G":
		m.move(PageRows)
	case terminal.Return, terminal.Right:
		if j := m.current(); j != nil {
			m.detail = detail{id: j.Job}
			return m.open(jobPage, now)
		}
	case "s", "S":
		at := slices.Index(Sorts, m.sort)
		if key == "S" {
			at += len(Sorts) - 2
		}
		m.sort = Sorts[(at+1)%len(Sorts)]
		m.order()
	case "R":
		m.reverse = !m.reverse
		m.order()
	case ">", "]":
		if m.table.Cursor != "" && m.of == m.filter {
			m.pages = append(m.pages, page{m.table.Cursor, m.first() + len(m.table.Jobs)})
			m.table.Cursor, m.top, m.selected = "", 0, ""
			return m.refresh(now)
		}
	case "<", "[":
		if n := len(m.pages); n > 0 {
			m.pages, m.top, m.selected = m.pages[:n-1], 0, ""
			return m.refresh(now)
		}
	case "/":
		m.prompt = &prompt{text: "filter: ", typed: m.filter.String(), line: true, accept: m.setFilter}
	}
	return nil
}

func (p *place) pressInText(key string) {
	switch key {
	case terminal.Up, "k":
		p.scroll--
	case terminal.Down, "j":
		p.scroll++
	case terminal.PageUp, "ctrl-b":
		p.scroll -= max(1, p.height)
	case terminal.PageDown, "ctrl-f":
		p.scroll += max(1, p.height)
	case terminal.Home, "g":
		p.scroll = 0
	}
	p.scroll = max(0, p.scroll)
}

// index is the place of the selected job among the rows. The first one is selected if that is gone.
func (m *Model) index() int {
	return max(0, slices.IndexFunc(m.table.Jobs, func(j Job) bool { return j.Job == m.selected }))
}

// current is the selected job, nil if there are no rows.
func (m *Model) current() *Job {
	if len(m.table.Jobs) == 0 {
		return nil
	}
	return &m.table.Jobs[m.index()]
}

func (m *Model) move(by int) {
	if n := len(m.table.Jobs); n > 0 {
		m.selected = m.table.Jobs[min(max(m.index()+by, 0), n-1)].Job
	}
}

// command has something done to the job that is selected, or looked at: at once, or after a question. The job is that
// of the moment of the key, whatever moves meanwhile.
func (m *Model) command(key string, now time.Time) []Effect {
	j := m.current()
	if m.page == jobPage {
		j = m.detail.job
	}
	if m.page != jobsPage && m.page != jobPage || j == nil {
		return nil
	}
	o, id := orders[key], j.Job
	if o.loses == "" {
		return m.give(o.verb, id, now)
	}
	m.prompt = &prompt{
		text: fmt.Sprintf(o.loses, j.name()) + " y/n ",
		accept: func(answer string, now time.Time) []Effect {
			if answer != "y" && answer != "Y" {
				m.message = "nothing was done"
				return nil
			}
			return m.give(o.verb, id, now)
		},
	}
	return nil
}

// give sends an order at once. The answers to requests under way are ignored, since they may be from before it.
func (m *Model) give(verb, id string, now time.Time) []Effect {
	m.message, m.ordering = verb+" ...", true
	return m.ask(now, []Request{{What: "verb", Method: "POST", Body: map[string]string{},
		Path: "/_scheduler/jobs/" + url.PathEscape(id) + "/" + verb}})
}

// answer takes a key of the answer to a question.
func (m *Model) answer(key string, now time.Time) []Effect {
	p := m.prompt
	switch {
	case !p.line:
		m.prompt = nil
		return p.accept(key, now)
	case key == terminal.Escape:
		m.prompt = nil
	case key == terminal.Return:
		m.prompt = nil
		return p.accept(p.typed, now)
	case key == "ctrl-u":
		p.typed = ""
	case key == terminal.Delete:
		runes := []rune(p.typed)
		p.typed = string(runes[:max(0, len(runes)-1)])
	case len([]rune(key)) == 1 && len(p.typed) < 500:
		p.typed += key
	}
	return nil
}

// String is a filter as users type it.
func (f Filter) String() string {
	var words []string
	for _, w := range f.words() {
		if *w.value != "" {
			words = append(words, w.name+"="+*w.value)
		}
	}
	return strings.Join(words, " ")
}

type word struct {
	name  string
	value *string
}

func (f *Filter) words() []word {
	return []word{{"state", &f.State}, {"server", &f.Server}, {"user", &f.User}, {"error", &f.Error},
		{"node", &f.Node}, {"database", &f.Database}}
}

// ParseFilter reads words such as state=crashing,paused or server=db1.example.com:5984.
func ParseFilter(text string) (f Filter, err error) {
	for part := range strings.FieldsSeq(text) {
		name, value, has := strings.Cut(part, "=")
		i := slices.IndexFunc(f.words(), func(w word) bool { return w.name == name })
		if !has || i < 0 {
			return f, fmt.Errorf("%s: a filter has words such as state=crashing,paused; known are state, server, "+
				"user, error, node and database", part)
		}
		*f.words()[i].value = value
	}
	return f, nil
}

func (m *Model) setFilter(typed string, now time.Time) []Effect {
	f, err := ParseFilter(typed)
	if err != nil {
		m.message = terminal.Clean(err.Error())
		return nil
	}
	m.filter = f
	return m.choose(now)
}
