package manual

import (
	"slices"
	"strings"

	"couchrelay/core/config"

	"github.com/alecthomas/kong"
)

// Program is a command line, and what its model does not say.
type Program struct {
	App     *kong.Application
	Version string
	Date    string // of the pages, YYYY-MM-DD

	Environment, Files []Entry
	Settings           []Setting
	// Words are the values of flags and arguments with the tag complete:"NAME", by that name.
	Words map[string][]string
}

// Entry describes a variable of the environment, or a file.
type Entry struct {
	Name, Says string
	// Of are the commands that it is for, by path ("hold add"), or by a flag that they have ("--server").
	Of []string
}

// Setting is a key of the configuration.
type Setting struct {
	config.Row
	Effect string // when a change takes effect, as the end of "takes effect"; empty for a key that cannot change
}

// pathOf are the words of a command behind the program's name.
func pathOf(n *kong.Node) string {
	if n.Parent == nil {
		return ""
	}
	return strings.TrimSpace(pathOf(n.Parent) + " " + n.Name)
}

// commands are all commands, the program itself first, each before its own ones.
func (p *Program) commands() (list []*kong.Node) {
	var collect func(n *kong.Node)
	collect = func(n *kong.Node) {
		list = append(list, n)
		for _, c := range n.Children {
			if !c.Hidden {
				collect(c)
			}
		}
	}
	collect(p.App.Node)
	return list
}

// Command returns the command with a path.
func (p *Program) Command(path string) (*kong.Node, bool) {
	for _, n := range p.commands() {
		if pathOf(n) == path {
			return n, true
		}
	}
	return nil, false
}

// flags returns the flags that a command takes, its own and those of the commands above it.
func flags(n *kong.Node) (list []*kong.Flag) {
	for _, group := range n.AllFlags(true) {
		list = append(list, group...)
	}
	return list
}

// spellings are how a flag is written on the command line.
func spellings(f *kong.Flag) (list []string) {
	if f.Short != 0 {
		list = append(list, "-"+string(f.Short))
	}
	list = append(list, "--"+f.Name)
	if f.Tag.Negatable != "" {
		list = append(list, "--no-"+f.Name)
	}
	return list
}

// Explain is the sentence of a flag or an argument, with its default and the variable that sets it. It is kong's
// formatter of help texts.
func Explain(v *kong.Value) string {
	text, defaults := v.Help, []string{}
	if v.Enum != "" {
		text += " One of " + strings.Join(v.EnumSlice(), ", ") + "."
	}
	for _, env := range v.Tag.Envs {
		defaults = append(defaults, "$"+env)
	}
	switch {
	case !v.HasDefault || v.Default == "":
	case !v.IsBool():
		defaults = append(defaults, v.Default)
	case v.Default == "true":
		defaults = append(defaults, "yes")
	}
	if len(defaults) > 0 {
		text += " Default: " + strings.Join(defaults, ", else ") + "."
	}
	return text
}

// accepted is what a flag or an argument can be completed with.
type accepted struct {
	files, directories bool
	words              []string
	list               bool // several words with commas between
}

func (p *Program) accepts(v *kong.Value) accepted {
	kind := v.Tag.Get("complete")
	switch {
	case v.Enum != "":
		return accepted{words: v.EnumSlice()}
	case kind == "directory" || v.Tag.Type == "existingdir":
		return accepted{directories: true}
	case kind == "file" || v.Tag.Type == "existingfile" || v.Tag.Type == "path":
		return accepted{files: true}
	case kind != "":
		return accepted{words: p.Words[kind], list: v.Flag != nil && v.IsSlice()}
	}
	return accepted{}
}

// about reports whether an entry is for a command. All are for the program.
func (e Entry) about(n *kong.Node) bool {
	return n.Parent == nil || slices.ContainsFunc(e.Of, func(of string) bool {
		has := func(f *kong.Flag) bool { return "--"+f.Name == of }
		return of == pathOf(n) || slices.ContainsFunc(flags(n), has)
	})
}

// sections of the configuration in their order.
func (p *Program) sections() (names []string) {
	for _, s := range p.Settings {
		if !slices.Contains(names, s.Section) {
			names = append(names, s.Section)
		}
	}
	return names
}
