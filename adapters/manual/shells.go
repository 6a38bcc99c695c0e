package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Shells are the shells for which Completion has scripts.
var Shells = []string{"bash", "zsh", "fish"}

// Completion is a script that completes the program's command lines in a shell. It needs nothing but the shell, and
// runs no program: a key press asks no server and waits for nothing.
func (p *Program) Completion(shell string) (string, error) {
	switch shell {
	case "bash":
		return p.bash(), nil
	case "zsh":
		return p.zsh(), nil
	case "fish":
		return p.fish(), nil
	}
	return "", fmt.Errorf("%s: there is completion for %s", shell, strings.Join(Shells, ", "))
}

// quoted is a text as one word of a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// values are the flags of a command that take a value.
func values(n *kong.Node) (list []*kong.Flag) {
	for _, f := range flags(n) {
		if !f.IsBool() {
			list = append(list, f)
		}
	}
	return list
}
