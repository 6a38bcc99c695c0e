package manual

import (
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// These begin the parts of a help text that have sections of their own in a manual page.
const (
	examplesMark = "Examples:"
	statusMark   = "Exit status: "
)

// Detail is the help text of a command in its parts.
type Detail struct {
	Text     string // paragraphs with empty lines between
	Examples string // sentences, and indented commands
	Statuses []Status
}

// Status is an exit status, and what it means.
type Status struct{ Code, Says string }

// Parse takes a help text apart. Exit statuses are written "Exit status: 0 done; 1 it failed.", and examples are
// what follows the line "Examples:".
func Parse(text string) (d Detail) {
	into := &d.Text
	for _, p := range blocks(text) {
		statuses, is := strings.CutPrefix(p, statusMark)
		switch {
		case is:
			statuses = strings.TrimSuffix(strings.Join(strings.Fields(statuses), " "), ".")
			for s := range strings.SplitSeq(statuses, "; ") {
				code, says, _ := strings.Cut(s, " ")
				d.Statuses = append(d.Statuses, Status{code, says})
			}
		case p == examplesMark:
			into = &d.Examples
		default:
			*into = strings.TrimPrefix(*into+"\n\n"+p, "\n\n")
		}
	}
	return d
}

// Name is the name of a command's page, without its section.
func Name(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return Name(n.Parent) + "-" + n.Name
}

// Pages are all pages by the name of their file: couchrelay.1.
func (p *Program) Pages() map[string]string {
	pages := map[string]string{p.App.Name + ".ini.5": p.SettingsPage()}
	for _, n := range p.commands() {
		pages[Name(n)+".1"] = p.Page(n)
	}
	return pages
}

func (p *Program) title(r *roff, name, section string) {
	r.raw(`.TH "%s" "%s" "%s" "%s" "%s manual"`, escaped(strings.ToUpper(name)), section, p.Date,
		escaped(p.App.Name+" "+p.Version), escaped(p.App.Name))
}

// Page is the page of a command.
func (p *Program) Page(n *kong.Node) string {
	r := &roff{}
	p.title(r, Name(n), "1")
	short, detail := n.Help, Parse(n.Detail)
	if n.Parent == nil { // its help is one text
		first, more, _ := strings.Cut(n.Help, "\n\n")
		short, detail = first, Parse(more)
	}
	general := Parse(p.App.Help)
	r.section("NAME")
	r.raw(`%s \- %s`, escaped(Name(n)), escaped(asName(short)))
	r.section("SYNOPSIS")
	p.synopsis(r, n)
	r.section("DESCRIPTION")
	if detail.Text == "" {
		detail.Text = short
	}
	r.paragraphs(detail.Text)
	p.children(r, n)
	if len(n.Positional) > 0 {
		r.section("ARGUMENTS")
		for _, a := range n.Positional {
			r.item(italic(placeholder(a)), Explain(a))
		}
	}
	r.section("OPTIONS")
	for _, f := range flags(n) {
		r.item(option(f), Explain(f.Value))
	}
	if detail.Examples != "" {
		r.section("EXAMPLES")
		r.paragraphs(detail.Examples)
	}
	if len(detail.Statuses) == 0 {
		detail.Statuses = general.Statuses
	}
	r.section("EXIT STATUS")
	for _, s := range detail.Statuses {
		r.item(bold(s.Code), sentence(s.Says))
	}
	r.entries("ENVIRONMENT", p.Environment, n)
	r.entries("FILES", p.Files, n)
	p.seeAlso(r, n)
	return r.String()
}

func asName(help string) string {
	first, rest, _ := strings.Cut(strings.TrimSuffix(help, "."), " ")
	runes := []rune(first)
	runes[0] = unicode.ToLower(runes[0])
	return string(runes) + " " + rest
}

func sentence(text string) string {
	runes := []rune(text)
	runes[0] = unicode.ToUpper(runes[0])
	return string(runes) + "."
}

func placeholder(v *kong.Value) string {
	if v.Tag.PlaceHolder != "" {
		return v.Tag.PlaceHolder
	}
	if v.IsCumulative() {
		return strings.ToUpper(v.Name) + "..."
	}
	return strings.ToUpper(v.Name)
}

// option is a flag as roff, with what it takes.
func option(f *kong.Flag) string {
	list := spellings(f)
	for i := range list {
		list[i] = bold(list[i])
	}
	text := strings.Join(list, ", ")
	if !f.IsBool() {
		text += `\fB=\fR` + italic(f.FormatPlaceHolder())
	}
	return text
}

// synopsis writes how a command is called. Of flags in one xor group one is needed.
func (p *Program) synopsis(r *roff, n *kong.Node) {
	line := bold(strings.TrimSpace(p.App.Name + " " + pathOf(n)))
	if len(n.Children) > 0 {
		r.raw(`%s \fICOMMAND\fR [\fIARGUMENTS\fR]`, line)
		return
	}
	var groups []string
	for _, f := range flags(n) {
		if !f.Required || slices.ContainsFunc(f.Xor, func(g string) bool { return slices.Contains(groups, g) }) {
			continue
		}
		groups = append(groups, f.Xor...)
		var list []string
		for _, other := range flags(n) {
			if other == f || slices.ContainsFunc(other.Xor, func(g string) bool { return slices.Contains(f.Xor, g) }) {
				list = append(list, option(other))
			}
		}
		line += " " + strings.Join(list, " | ")
	}
	line += ` [\fIOPTIONS\fR]`
	for _, a := range n.Positional {
		if name := italic(placeholder(a)); a.Required {
			line += " " + name
		} else {
			line += " [" + name + "]"
		}
	}
	r.raw("%s", line)
}

// children lists the commands below a command, in their groups.
func (p *Program) children(r *roff, n *kong.Node) {
	if len(n.Children) == 0 {
		return
	}
	r.section("COMMANDS")
	group := ""
	for _, c := range n.Children {
		if c.Hidden {
			continue
		}
		if g := c.ClosestGroup(); n.Parent == nil && g != nil && g.Title != group {
			group = g.Title
			r.raw(`.SS "%s"`, escaped(strings.TrimSuffix(group, ":")))
		}
		r.item(bold(Name(c))+"(1)", c.Help)
	}
}

// entries lists what concerns a command.
func (r *roff) entries(section string, list []Entry, n *kong.Node) {
	begun := false
	for _, e := range list {
		if !e.about(n) {
			continue
		}
		if !begun {
			r.section(section)
			begun = true
		}
		r.item(bold(e.Name), e.Says)
	}
}

// seeAlso writes the names of related pages: of the parent command, its other commands and the configuration.
func (p *Program) seeAlso(r *roff, n *kong.Node) {
	r.section("SEE ALSO")
	var list []string
	near := n
	if n.Parent != nil {
		list = append(list, bold(Name(n.Parent))+"(1)")
		near = n.Parent
	}
	for _, c := range near.Children {
		if c != n && !c.Hidden && (n.Parent == nil || c.ClosestGroup() == n.ClosestGroup()) {
			list = append(list, bold(Name(c))+"(1)")
		}
	}
	list = append(list, bold(p.App.Name+".ini")+"(5)")
	r.raw("%s", strings.Join(list, ",\n"))
}
