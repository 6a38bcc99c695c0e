package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/config"

	"github.com/alecthomas/kong"
)

// odd is a command line whose texts have all that means something to a shell or to roff.
type odd struct {
	Run oddRun `cmd:"" help:"Say 'it's' and \"that\": [a] $HOME {b} \\n."`
	Sub struct {
		Deep oddRun `cmd:"" help:"Deeper; each is good."`
	} `cmd:"" help:"Has one below."`
}

type oddRun struct {
	Mode  string            `short:"m" help:"Mode: 'a' or [b]." enum:"a,b c" default:"a"`
	Some  []string          `help:"Words." complete:"word"`
	Dir   string            `help:"Where." complete:"directory"`
	Load  string            `help:"What." type:"path" placeholder:"FILE"`
	Pairs map[string]string `help:"Pairs."`
	Off   bool              `help:"Do." default:"true" negatable:""`
	First string            `arg:"" help:"It's first." complete:"word"`
	Rest  []string          `arg:"" optional:"" help:"The others."`
}

func (oddRun) Help() string {
	return "First line.\n\n.dots and 'quotes' begin lines – and \\backslashes.\n\nExit status: 0 it's done; 9 it " +
		"failed.\n\nExamples:\n\nOne:\n\n    odd run --mode 'b c' -- \"$HOME\" \\\n      .x"
}

func oddProgram(t *testing.T) *Program {
	t.Helper()
	k, err := kong.New(new(odd), kong.Name("odd"), kong.Description("Odd.\n\nMore.\n\nExit status: 0 done; 1 not."))
	if err != nil {
		t.Fatal(err)
	}
	return &Program{
		App: k.Model, Version: "1.0", Date: "2026-01-02", Words: map[string][]string{"word": {"a/b", "c:d", "e"}},
		Environment: []Entry{{"ODD", "A variable.", []string{"run"}}, {"EVEN", "Another.", []string{"--nothing"}}},
		Settings: []Setting{
			{config.Row{Section: "s", Key: "k", Says: "It's | one.", Takes: "a < b", Default: "7"}, "at once"},
			{Row: config.Row{Section: "t u", Key: "l", Says: "Two.", Takes: "*"}},
		},
	}
}

// run runs a program that reads a text from a file. It skips, loudly, where there is no such program.
func run(t *testing.T, text string, command ...string) string {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(command[0], append(command[1:], path)...).CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestScriptsParse: no text of a command line breaks a script.
func TestScriptsParse(t *testing.T) {
	for _, shell := range Shells {
		t.Run(shell, func(t *testing.T) {
			script, err := oddProgram(t).Completion(shell)
			if err != nil {
				t.Fatal(err)
			}
			if out := run(t, script, shell, "-n"); out != "" {
				t.Error(out)
			}
		})
	}
	if _, err := oddProgram(t).Completion("tcsh"); err == nil || !strings.Contains(err.Error(), "bash, zsh, fish") {
		t.Error(err)
	}
}

// TestPagesParse: groff and mandoc find nothing to complain of, and show all texts as they are.
func TestPagesParse(t *testing.T) {
	for name, page := range oddProgram(t).Pages() {
		for _, line := range []string{"groff -ww -man -Tutf8 -P-cbou", "mandoc -Tlint -Wwarning"} {
			command := strings.Fields(line)
			t.Run(name+"/"+command[0], func(t *testing.T) {
				out := run(t, page, command...)
				if command[0] == "mandoc" {
					if out != "" {
						t.Error(out)
					}
					return
				}
				if name != "odd-run.1" {
					return
				}
				flat := strings.Join(strings.Fields(out), " ")
				for _, text := range []string{
					`odd-run - say 'it's' and "that": [a] $HOME {b} \n`,
					`odd run [OPTIONS] FIRST [REST...]`, "EXIT STATUS 0 It's done. 9 It failed.",
					`.dots and 'quotes' begin lines – and \backslashes.`, "ENVIRONMENT ODD A variable.",
					`odd run --mode 'b c' -- "$HOME" \ .x`, "-m, --mode=", "--off, --no-off",
					"One of a, b c. Default: a.",
				} {
					if !strings.Contains(flat, text) {
						t.Errorf("%s is not in\n%s", text, out)
					}
				}
				if strings.Contains(flat, "EVEN") {
					t.Error("the page has a variable of others")
				}
			})
		}
	}
}

func TestMarkdown(t *testing.T) {
	_, tables, _ := strings.Cut(oddProgram(t).Markdown(), "## ")
	want := "[s]\n\n| key | what it sets | takes | default | takes effect |\n|---|---|---|---|---|\n" +
		"| `k` | It's \\| one. | a &lt; b | `7` | at once |\n\n## [t u]\n\n" +
		"| key | what it sets | takes | default | takes effect |\n|---|---|---|---|---|\n| `l` | Two. | \\* |  |  |\n"
	if tables != want {
		t.Errorf("%s", tables)
	}
}

func TestParse(t *testing.T) {
	got := Parse("a\nb\n\nExit status: 0 done; 1\nit failed.\n\nc\n\nExamples:\n\nOne:\n\n    x\n    y")
	want := Detail{"a\nb\n\nc", "One:\n\n    x\n    y", []Status{{"0", "done"}, {"1", "it failed"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

// bashDriver completes a line as readline does it, which breaks lines at blanks, = and :. It prints the options that
// the script sets, and what it offers.
const bashDriver = `
compopt() { echo "$2"; }
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() rest=$1
while [[ $rest =~ ^[[:blank:]]*([=:]+|[^[:blank:]=:]+) ]]; do
    COMP_WORDS+=("${BASH_REMATCH[1]}")
    rest=${rest:${#BASH_REMATCH}}
done
[[ $1 == *[[:blank:]] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_odd
printf '%s\n' "${COMPREPLY[@]}"
`

func TestBash(t *testing.T) {
	script, err := oddProgram(t).Completion("bash")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"odd ": "run sub", "odd s": "sub", "odd sub ": "deep", "odd sub deep --d": "--dir",
		"odd run --m": "--mode", "odd run -": "-h --help -m --mode --some --dir --load --pairs --off --no-off",
		"odd run --mode ": "a b c", "odd run -m ": "a b c", "odd run --mode=": "a b c", "odd run --some ": "a/b c:d e",
		"odd run --some e,c": "e,c:d", "odd run --some=e,c:": "d", "odd run --some c:": "d",
		"odd run --dir ":    "dirnames",
		"odd run --load /t": "default", "odd run --load=": "default", "odd run --pairs a=": "", "odd run ": "a/b c:d e",
		"odd run --off ": "a/b c:d e", "odd run --mode a ": "a/b c:d e", "odd run --dir=/ a": "a/b", "odd run e ": "",
		"odd run -- -": "", "odd run -- ": "a/b c:d e", "odd unheard ": "",
		"odd run --mode x --": "--help --mode --some --dir --load --pairs --off --no-off",
	} {
		got := strings.Fields(run(t, script+bashDriver+"\n", "bash", "-c", `. "$1" "$0"`, line))
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestFish(t *testing.T) {
	script, err := oddProgram(t).Completion("fish")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"odd ": "run sub", "odd sub ": "deep", "odd sub deep --d": "--dir", "odd run --some ": "a/b c:d e",
		"odd run --some e,c": "e,c:d", "odd run --mode x a": "a/b", "odd run e ": "",
	} {
		var got []string
		for offered := range strings.Lines(run(t, script+"complete -C '"+line+"'\n", "fish", "--no-config")) {
			word, _, _ := strings.Cut(strings.TrimSpace(offered), "\t")
			got = append(got, word)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}
