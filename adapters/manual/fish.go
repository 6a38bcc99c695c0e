package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// inFish is a text as one word of fish.
func inFish(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

// fishAction are the options of fish's complete for a value.
func fishAction(a accepted) string {
	switch {
	case a.files:
		return " -r -F"
	case a.directories:
		return " -x -a '(__fish_complete_directories)'"
	case a.list:
		return " -x -a " + inFish("(__fish_append , "+strings.Join(a.words, " ")+")")
	case len(a.words) > 0:
		return " -x -a " + inFish(strings.Join(a.words, " "))
	}
	return " -x"
}

func (p *Program) fish() string {
	var b, below, takes strings.Builder
	for _, n := range p.commands() {
		path := pathOf(n)
		var names, valued []string
		for _, c := range n.Children {
			if !c.Hidden {
				names = append(names, c.Name)
			}
		}
		for _, f := range values(n) {
			valued = append(valued, spellings(f)...)
		}
		fmt.Fprintf(&below, "        case %s\n            string split ' ' -- %s\n", inFish(path),
			inFish(strings.Join(names, " ")))
		fmt.Fprintf(&takes, "        case %s\n            string split ' ' -- %s\n", inFish(path),
			inFish(strings.Join(valued, " ")))
		p.fishCommand(&b, n)
	}
	head := strings.NewReplacer("PROGRAM", p.App.Name, "        @BELOW\n", below.String(), "        @TAKES\n",
		takes.String())
	return head.Replace(fishHead) + b.String()
}

// fishCommand completes a command, its flags and its arguments.
func (p *Program) fishCommand(b *strings.Builder, n *kong.Node) {
	at := "__" + p.App.Name + "_at " + inFish(pathOf(n))
	complete := func(at, more, says string) {
		fmt.Fprintf(b, "complete -c %s -n %s%s", p.App.Name, inFish(at), more)
		if says != "" {
			b.WriteString(" -d " + inFish(says))
		}
		b.WriteString("\n")
	}
	for _, c := range n.Children {
		if !c.Hidden {
			complete(at, " -f -a "+c.Name, c.Help)
		}
	}
	for _, f := range flags(n) {
		option := " -l " + f.Name
		if f.Short != 0 {
			option += " -s " + string(f.Short)
		}
		if !f.IsBool() {
			option += fishAction(p.accepts(f.Value))
		}
		complete(at, option, Explain(f.Value))
		if f.Tag.Negatable != "" {
			complete(at, " -l no-"+f.Name, "Not: "+Explain(f.Value))
		}
	}
	if len(n.Children) > 0 {
		return
	}
	complete(at, " -f", "") // no files but where they are wanted
	for i, a := range n.Positional {
		action := strings.NewReplacer(" -x", " -f", " -r -F", " -F").Replace(fishAction(p.accepts(a)))
		complete(fmt.Sprint(at, " ", i+1), action, "")
	}
}

// fishHead tells where on a line the cursor is.
const fishHead = `# fish completion for PROGRAM, printed by: PROGRAM completion fish

function __PROGRAM_below
    switch $argv[1]
        @BELOW
    end
end

function __PROGRAM_takes
    switch $argv[1]
        @TAKES
    end
end

# __PROGRAM_at COMMAND [N]: does the line before the cursor call this command, and is its argument N to come?
function __PROGRAM_at
    set -l tokens (commandline -opc)
    set -e tokens[1]
    set -l path ''
    set -l arguments 0
    set -l skip 0
    for t in $tokens
        if test $skip = 1
            set skip 0
            continue
        end
        switch $t
            case '-*'
                contains -- $t (__PROGRAM_takes "$path"); and set skip 1
            case '*'
                if contains -- $t (__PROGRAM_below "$path")
                    set path (string trim -- "$path $t")
                else
                    set arguments (math $arguments + 1)
                end
        end
    end
    test "$path" = "$argv[1]"; or return 1
    set -q argv[2]; or return 0
    test $argv[2] -eq (math $arguments + 1)
end

`
