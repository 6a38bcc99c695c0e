package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// inZsh is a text in a specification of _arguments, between brackets or colons.
func inZsh(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

// zshAction is what _arguments completes a value with, behind a colon.
func zshAction(a accepted) string {
	words := make([]string, len(a.words))
	for i, w := range a.words {
		words[i] = inZsh(w)
	}
	switch {
	case a.files:
		return "_files"
	case a.directories:
		return "_files -/"
	case a.list:
		return "_values -s , value " + strings.Join(words, " ")
	case len(words) > 0:
		return "(" + strings.Join(words, " ") + ")"
	}
	return " "
}

func (p *Program) zsh() string {
	var b strings.Builder
	name := p.App.Name
	fmt.Fprintf(&b, "#compdef %s\n# zsh completion for %[1]s, printed by: %[1]s completion zsh\n", name)
	for _, n := range p.commands() {
		function := "_" + strings.ReplaceAll(Name(n), "-", "_")
		fmt.Fprintf(&b, "\n%s() {\n", function)
		var specs []string
		for _, f := range flags(n) {
			for _, s := range spellings(f) {
				repeat, value := "", ""
				if f.IsCumulative() {
					repeat = "*"
				}
				if !f.IsBool() {
					s += "="
					value = ":" + inZsh(f.FormatPlaceHolder()) + ":" + zshAction(p.accepts(f.Value))
				}
				specs = append(specs, repeat+s+"["+inZsh(Explain(f.Value))+"]"+value)
			}
		}
		for i, a := range n.Positional {
			optional := ":"
			if !a.Required {
				optional = "::"
			}
			specs = append(specs, fmt.Sprint(i+1, optional, inZsh(placeholder(a)), ":", zshAction(p.accepts(a))))
		}
		if len(n.Children) > 0 {
			b.WriteString("    local curcontext=$curcontext state line\n")
			specs = append(specs, "1:command:->command", "*::argument:->argument")
		}
		b.WriteString("    _arguments -C")
		for _, s := range specs {
			b.WriteString(" \\\n        " + quoted(s))
		}
		b.WriteString("\n")
		p.zshBelow(&b, n, function)
		b.WriteString("}\n")
	}
	fmt.Fprintf(&b, zshEnd, name)
	return b.String()
}

// zshEnd completes when the shell loads the script for that, and else says what it is for.
const zshEnd = `
if [[ $funcstack[1] == _%s ]]; then
    _%[1]s "$@"
else
    compdef _%[1]s %[1]s
fi
`

// zshBelow writes the functions that complete the subcommands of a command, and their flags and arguments.
func (p *Program) zshBelow(b *strings.Builder, n *kong.Node, function string) {
	if len(n.Children) == 0 {
		return
	}
	b.WriteString("    case $state in\n    command)\n        local -a commands=(\n")
	for _, c := range n.Children {
		if !c.Hidden {
			fmt.Fprintf(b, "            %s\n", quoted(inZsh(c.Name)+":"+c.Help))
		}
	}
	b.WriteString("        )\n        _describe command commands\n        ;;\n    argument)\n" +
		"        case $words[1] in\n")
	for _, c := range n.Children {
		if !c.Hidden {
			fmt.Fprintf(b, "        %s) %s_%s ;;\n", c.Name, function, strings.ReplaceAll(c.Name, "-", "_"))
		}
	}
	b.WriteString("        esac\n        ;;\n    esac\n")
}
