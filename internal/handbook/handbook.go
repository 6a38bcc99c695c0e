// Package handbook reads README.md, the chapters of docs/ and the other documents of the repository, so that tests can
// compare what they say with the programs: which commands and flags there are, which keys a configuration has.
package handbook

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// documents are patterns of the files that users read, below the repository's root.
var documents = []string{"README.md", "DESIGN.md", "docs/*.md", "ops/*.md", "scenarios/*.md", "scenarios/*/*.md"}

// Documents reads all documents of the repository at root.
func Documents(root string) (list []Document, err error) {
	for _, pattern := range documents {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("no documents %s: %w", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if strings.Contains(string(text), "```") {
				return nil, fmt.Errorf("%s has a fence: blocks of code are indented by four spaces, or the spans "+
					"behind it are not found", name)
			}
			below, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			list = append(list, Document{Path: filepath.ToSlash(below), Text: string(text)})
		}
	}
	return list, nil
}

// Document is a file of Markdown.
type Document struct{ Path, Text string }

// Code is a part of a document that is set as code.
type Code struct {
	At   string // file:line
	Text string
}

// Blocks returns the blocks of code, which are indented by four spaces, without that.
func (d Document) Blocks() (blocks []Code) {
	var block []string
	begin := 0
	blank := true // the line before; a block follows an empty line
	for n, line := range append(strings.Split(d.Text, "\n"), "") {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented && (blank || block != nil):
			if block == nil {
				begin = n + 1
			}
			block = append(block, text)
		case line == "" && block != nil:
			block = append(block, "")
		case block != nil:
			blocks = append(blocks, Code{fmt.Sprintf("%s:%d", d.Path, begin), strings.Join(block, "\n")})
			block = nil
		}
		blank = line == ""
	}
	if block != nil {
		blocks = append(blocks, Code{fmt.Sprintf("%s:%d", d.Path, begin), strings.Join(block, "\n")})
	}
	return blocks
}

var span = regexp.MustCompile("`([^`]+)`")

// Spans returns what stands in backquotes within the text. A span may go on in the next line.
func (d Document) Spans() (spans []Code) {
	prose := []byte(d.Text)
	for _, b := range d.indented() {
		for i := b[0]; i < b[1]; i++ {
			if prose[i] != '\n' {
				prose[i] = ' '
			}
		}
	}
	for _, at := range span.FindAllSubmatchIndex(prose, -1) {
		line := 1 + strings.Count(d.Text[:at[2]], "\n")
		text := strings.Join(strings.Fields(d.Text[at[2]:at[3]]), " ")
		spans = append(spans, Code{fmt.Sprintf("%s:%d", d.Path, line), text})
	}
	return spans
}

// indented are the places of lines that are indented by four spaces.
func (d Document) indented() (places [][2]int) {
	at := 0
	for line := range strings.Lines(d.Text) {
		if strings.HasPrefix(line, "    ") {
			places = append(places, [2]int{at, at + len(line)})
		}
		at += len(line)
	}
	return places
}

// Commands returns the command lines of a program in code, each as its arguments.
func Commands(program string, code []Code) (commands []Command) {
	for _, c := range code {
		whole := strings.ReplaceAll(c.Text, "\\\n", " ")
		for _, line := range ends.Split(whole, -1) {
			if i := strings.Index(line, " #"); i >= 0 {
				line = line[:i]
			}
			words := strings.Fields(optional.Replace(line))
			if args, is := called(program, words); is {
				commands = append(commands, Command{c.At, args})
			}
		}
	}
	return commands
}

// ends are what stands between two commands.
var ends = regexp.MustCompile(`[\n|;&()]`)

// optional removes the brackets around what may be left out.
var optional = strings.NewReplacer("[", " ", "]", " ")

// Command is a command line without the program.
type Command struct {
	At   string
	Args []string
}

// before are words that may stand before a program: sudo -u USER, an assignment, go run.
var before = regexp.MustCompile(`^(sudo|-u|go|run|export|timeout|nohup|couchrelay|[A-Z_]+=.*)$`)

// called returns the arguments of program if words call it.
func called(program string, words []string) ([]string, bool) {
	for i, word := range words {
		rest := words[i+1:]
		if filepath.Base(word) == program && word != "couchrelay:" && len(rest) > 0 && rest[0] != program {
			return rest, !startsWithDigit(rest[0]) // "couchrelay 1.2 serves ..." is what it prints
		}
		if !before.MatchString(word) {
			return nil, false
		}
	}
	return nil, false
}

func startsWithDigit(s string) bool { return s[0] >= '0' && s[0] <= '9' }

// Check says what of a command line the program does not have: a command or a flag.
func Check(program *kong.Application, args []string) error {
	node := program.Node
	words := 0 // that are no command
	for _, arg := range args {
		flag, is := strings.CutPrefix(arg, "--")
		if is {
			name, _, _ := strings.Cut(flag, "=")
			if !has(node, strings.Trim(name, "`,.")) {
				return fmt.Errorf("%s has no --%s", node.Path(), name)
			}
			continue
		}
		if words > 0 || strings.HasPrefix(arg, "-") || len(node.Children) == 0 {
			words++
			continue
		}
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool {
			return n.Name == arg || slices.Contains(n.Aliases, arg)
		})
		switch {
		case i >= 0:
			node = node.Children[i]
		case strings.ToUpper(arg) == arg: // COMMAND
			words++
		default:
			return fmt.Errorf("%s has no command %q", node.Path(), arg)
		}
	}
	return nil
}

// Flags returns those of code that are a flag which no command has.
func Flags(program *kong.Application, code []Code) (unknown []string) {
	for _, c := range code {
		flag, is := strings.CutPrefix(c.Text, "--")
		if !is {
			continue
		}
		name := strings.FieldsFunc(flag, func(r rune) bool { return r == ' ' || r == '=' })[0]
		if !slices.ContainsFunc(program.Leaves(false), func(n *kong.Node) bool { return has(n, name) }) {
			unknown = append(unknown, fmt.Sprintf("%s: no command of %s has --%s", c.At, program.Name, name))
		}
	}
	return unknown
}

// has reports whether a command has a flag.
func has(node *kong.Node, name string) bool {
	for n := node; n != nil; n = n.Parent {
		if slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool {
			return f.Name == name || f.Tag.Negatable != "" && "no-"+f.Name == name || slices.Contains(f.Aliases, name)
		}) {
			return true
		}
	}
	return false
}
