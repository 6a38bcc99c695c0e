package manual

import (
	"fmt"
	"strings"
)

// roff is the text of a page in the macros of man(7), which groff, mandoc and the systems of BSD and macOS read.
type roff struct{ strings.Builder }

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

// escaped is a text without meaning to roff. The only lines that it has are those of the text.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range escapes.Replace(text) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func bold(text string) string   { return `\fB` + escaped(text) + `\fR` }
func italic(text string) string { return `\fI` + escaped(text) + `\fR` }

// raw writes a line that is roff.
func (r *roff) raw(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

func (r *roff) section(name string) { r.raw(`.SH "%s"`, escaped(name)) }

// item begins the description of a term, which is roff.
func (r *roff) item(term, text string) { r.raw(".TP\n%s\n%s", term, escaped(text)) }

// paragraphs writes texts with empty lines between. Those that are indented are commands, and stay as they are.
func (r *roff) paragraphs(text string) {
	for i, p := range blocks(text) {
		switch {
		case isCode(p):
			r.raw(".PP\n.RS 4\n.nf\n%s\n.fi\n.RE", escaped(unindented(p)))
		case i == 0:
			r.raw("%s", escaped(p))
		default:
			r.raw(".PP\n%s", escaped(p))
		}
	}
}

// blocks are the paragraphs of a help text.
func blocks(text string) (list []string) {
	for p := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if p != "" {
			list = append(list, p)
		}
	}
	return list
}

func isCode(paragraph string) bool { return strings.HasPrefix(paragraph, " ") }

// unindented is a paragraph without the blanks that its first line begins with.
func unindented(paragraph string) string {
	indent := paragraph[:len(paragraph)-len(strings.TrimLeft(paragraph, " "))]
	lines := strings.Split(paragraph, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], indent)
	}
	return strings.Join(lines, "\n")
}
