package mutants

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var heading = regexp.MustCompile(`^([a-z0-9]+(?:-[a-z0-9]+)*): (\S.*)$`)

// parse reads the bugs of one file; the package comment has the format.
func parse(name, text string) ([]Mutant, error) {
	p := reader{file: name, lines: strings.Split(text, "\n")}
	subject := strings.TrimSuffix(path.Base(name), ".diff")
	var all []Mutant
	for p.skip(); p.next < len(p.lines); p.skip() {
		m, err := p.bug()
		if err != nil {
			return nil, err
		}
		m.Subject = subject
		all = append(all, m)
	}
	return all, nil
}

type reader struct {
	file  string
	lines []string
	next  int // index of the first line that is not read
}

// line returns the next line; an empty one at the end of the file.
func (p *reader) line() string {
	if p.next < len(p.lines) {
		return p.lines[p.next]
	}
	return ""
}

// fail returns an error about the next line.
func (p *reader) fail(format string, args ...any) error {
	return fmt.Errorf("%s: %s", p.at(), fmt.Sprintf(format, args...))
}

func (p *reader) at() string { return fmt.Sprintf("%s:%d", p.file, p.next+1) }

// skip passes over what stands between bugs.
func (p *reader) skip() {
	for p.next < len(p.lines) && (p.line() == "" || strings.HasPrefix(p.line(), "#")) {
		p.next++
	}
}

func (p *reader) bug() (Mutant, error) {
	m := Mutant{At: p.at()}
	found := heading.FindStringSubmatch(p.line())
	if found == nil {
		return m, p.fail("want a bug's name and what is wrong, as in some-name: words; not %q", p.line())
	}
	m.Name, m.What = found[1], found[2]
	for p.next++; p.line() != "" && !strings.HasPrefix(p.line(), "---"); p.next++ {
		m.What += " " + p.line()
	}
	file, ok := strings.CutPrefix(p.line(), "--- a/")
	if !ok || !strings.HasPrefix(file, "core/") || path.Clean(file) != file {
		return m, p.fail("want the file of %s, as in --- a/core/node/lease.go; not %q", m.Name, p.line())
	}
	m.File = file
	if p.next++; p.line() != "@@" {
		return m, p.fail("want the line @@ before the hunk of %s; not %q", m.Name, p.line())
	}
	p.next++
	return m, p.hunk(&m)
}

// hunk reads lines up to an empty one that is not followed by lines of a hunk.
func (p *reader) hunk(m *Mutant) error {
	for ; p.line() != "" || p.goesOn(); p.next++ {
		line := p.line()
		if line == "" {
			line = " " // editors strip the blank of an empty line of context
		}
		text := line[1:] + "\n"
		switch line[0] {
		case ' ':
			m.Old, m.New = m.Old+text, m.New+text
		case '-':
			m.Old += text
		case '+':
			m.New += text
		default:
			return p.fail("a line of a hunk begins with a blank, - or +; not %q", line)
		}
	}
	if m.Old == "" {
		return p.fail("the hunk of %s ends here without an old line, so it has no place", m.Name)
	}
	if m.Old == m.New {
		return p.fail("the hunk of %s ends here and changes nothing", m.Name)
	}
	return nil
}

// goesOn reports whether the first line that is not empty, from the next on, is one of a hunk.
func (p *reader) goesOn() bool {
	for _, line := range p.lines[min(p.next, len(p.lines)):] {
		if line != "" {
			return strings.ContainsRune(" -+", rune(line[0]))
		}
	}
	return false
}
