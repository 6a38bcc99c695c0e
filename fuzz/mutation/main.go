// Command mutation measures how many deliberate faults (mutants) the tests of packages notice. It runs
// gremlins on each package. Gremlins leaves out conditions of cases and initial values of packages, because
// Go's coverage counts statements only; the command tries those mutants itself. It prints a table, and fails
// when a package's score is below 80 %, when a mutant survives without a reason in exceptions.txt, or when a
// reason there has no survivor.
//
//	go run ./fuzz/mutation core/backoff core/checkpoint
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	tool           = "github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0"
	exceptionsFile = "fuzz/mutation/exceptions.txt"
	leastScore     = 80 // percent
)

// mutators are those that gremlins has beyond its usual ones.
var mutators = []string{
	"--invert-assignments", "--invert-bitwise", "--invert-bwassign", "--invert-logical", "--invert-loopctrl",
	"--remove-self-assignments",
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(packages []string) error {
	known, err := readExceptions(exceptionsFile)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "package\tmutants\tkilled\tsurvived\texplained\tscore\t")
	var problems []error
	for _, p := range packages {
		p = filepath.Clean(p)
		mutants, err := mutate(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		row := known.judge(p, mutants)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d %%\t\n", p, len(mutants), row.killed,
			row.survived, row.explained, row.score())
		if row.score() < leastScore {
			problems = append(problems, fmt.Errorf("%s: the score is below %d %%", p, leastScore))
		}
		problems = append(problems, row.problems...)
	}
	return errors.Join(errors.Join(problems...), table.Flush())
}

// mutant is one deliberate fault and its fate.
type mutant struct {
	file   string // from the root of the module
	text   string // of its line, without spaces around it
	Type   string
	Status string
	Line   int
	Column int
}

func (m mutant) killed() bool { return m.Status == "KILLED" || m.Status == "TIMED OUT" }

func (m mutant) String() string { return fmt.Sprintf("%s: %s: %s", m.file, m.Type, m.text) }

// mutate tries all mutants of a package. Those that do not compile are left out.
func mutate(pkg string) ([]mutant, error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report.json")
	args := append([]string{"run", tool, "unleash", "--silent", "--output", report,
		"--workers", "2", "--timeout-coefficient", "10"}, mutators...)
	if out, err := exec.Command("go", append(args, "./"+pkg)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gremlins: %w: %s", err, out)
	}
	raw, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var result struct {
		Files []struct {
			Name      string   `json:"file_name"`
			Mutations []mutant `json:"mutations"`
		} `json:"files"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, err
	}
	var all []mutant
	for _, f := range result.Files {
		if strings.Contains(f.Name, "/") { // of a package below
			continue
		}
		source, err := os.ReadFile(filepath.Join(pkg, f.Name))
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(source), "\n")
		for _, m := range f.Mutations {
			m.file, m.text = pkg+"/"+f.Name, strings.TrimSpace(lines[m.Line-1])
			if m.Status == "NOT COVERED" {
				m.Status = try(dir, pkg, m, slices.Clone(lines))
			}
			if m.Status != "NOT VIABLE" {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// replacement is what gremlins puts in an operator's place, by its name of the change.
var replacement = map[string]map[string]string{
	"CONDITIONALS_BOUNDARY": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
	"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"},
	"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"INVERT_LOGICAL":        {"&&": "||", "||": "&&"},
	"INVERT_NEGATIVES":      {"-": "+"},
	"INVERT_BITWISE":        {"&": "|", "|": "&", "^": "&", "&^": "&", "<<": ">>", ">>": "<<"},
}

// try runs a package's tests with one operator replaced. A mutant that it cannot make has lived.
func try(dir, pkg string, m mutant, lines []string) string {
	line := lines[m.Line-1]
	before, after := line[:m.Column-1], line[m.Column-1:]
	operator := after[:min(1, len(after))]
	if _, two := replacement[m.Type][after[:min(2, len(after))]]; two {
		operator = after[:2]
	}
	with, can := replacement[m.Type][operator]
	if !can {
		return "LIVED"
	}
	lines[m.Line-1] = before + with + after[len(operator):]
	damaged, overlay := filepath.Join(dir, "damaged.go"), filepath.Join(dir, "overlay.json")
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "LIVED"
	}
	description, err := json.Marshal(map[string]map[string]string{"Replace": {original: damaged}})
	if err != nil || os.WriteFile(damaged, []byte(strings.Join(lines, "\n")), 0o600) != nil ||
		os.WriteFile(overlay, description, 0o600) != nil {
		return "LIVED"
	}
	// In a directory of its own a failing property leaves its example nowhere.
	binary := filepath.Join(dir, "damaged.test")
	if exec.Command("go", "test", "-overlay", overlay, "-vet", "off", "-c", "-o", binary,
		"./"+pkg).Run() != nil {
		return "NOT VIABLE"
	}
	test := exec.Command(binary, "-test.failfast", "-test.timeout", "60s")
	test.Dir = dir
	if test.Run() != nil {
		return "KILLED"
	}
	return "LIVED"
}
