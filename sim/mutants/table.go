package mutants

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

//go:embed caught.txt
var caught string

// tableHead says what the table is, at its top.
const tableHead = "" +
	"# What came of the last hunt for each planted bug: its name, the invariant that broke (- for none) and the\n" +
	"# number of seeds that were played. couchsim mutants --table sim/mutants/caught.txt writes it.\n"

// Caught returns what the table says, for each mutant that it names.
func Caught() ([]Catch, error) {
	return readTable("sim/mutants/caught.txt", caught)
}

// Record writes catches to a table. Its rows for other mutants stay, unless these do not exist any more, and so do
// those of hunts that ran out of time.
func Record(table string, found []Catch) error {
	text, err := os.ReadFile(table)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := readTable(table, string(text))
	if err != nil {
		return err
	}
	rows := map[string]Catch{}
	for _, c := range append(all, found...) {
		if !c.OutOfTime {
			rows[c.Name] = c
		}
	}
	existing, err := All()
	if err != nil {
		return err
	}
	var out strings.Builder
	out.WriteString(tableHead)
	for _, m := range existing {
		if c, is := rows[m.Name]; is {
			id := c.Invariant
			if id == "" {
				id = "-"
			}
			fmt.Fprintf(&out, "%-30s %-4s %d\n", c.Name, id, c.Seeds)
		}
	}
	return os.WriteFile(table, []byte(out.String()), 0o644)
}

// readTable reads a table. Rows of mutants that do not exist have a name only.
func readTable(name, text string) ([]Catch, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	mutants := map[string]Mutant{}
	for _, m := range all {
		mutants[m.Name] = m
	}
	var rows []Catch
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s:%d: want a name, an invariant and a number of seeds; not %q", name, i+1, line)
		}
		seeds, err := strconv.ParseUint(fields[2], 10, 64)
		if err != nil || seeds == 0 {
			return nil, fmt.Errorf("%s:%d: %q is no number of seeds", name, i+1, fields[2])
		}
		c := Catch{Mutant: mutants[fields[0]], Invariant: strings.TrimPrefix(fields[1], "-"), Seeds: seeds}
		c.Name = fields[0]
		rows = append(rows, c)
	}
	return rows, nil
}
