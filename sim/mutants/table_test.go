package mutants

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCaught: the table has a row for each bug, and for nothing else.
func TestCaught(t *testing.T) {
	rows, err := Caught()
	if err != nil {
		t.Fatal(err)
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if n := count(rows, m.Name); n != 1 {
			t.Errorf("the table has %d rows for %s", n, m.Name)
		}
	}
	for _, r := range rows {
		if r.File == "" {
			t.Errorf("the table has a row for %s, which does not exist", r.Name)
		}
	}
}

func count(rows []Catch, name string) (n int) {
	for _, r := range rows {
		if r.Name == name {
			n++
		}
	}
	return n
}

func TestRecord(t *testing.T) {
	table := filepath.Join(t.TempDir(), "caught.txt")
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	first := Catch{Mutant: all[0], Invariant: "S1", Seeds: 7}
	second := Catch{Mutant: all[1], Seeds: 100}
	third := Catch{Mutant: all[2], Invariant: "B1", Seeds: 1}
	gone := Catch{Mutant: Mutant{Name: "gone"}, Invariant: "S2", Seeds: 3}
	if err := Record(table, []Catch{third, gone, first}); err != nil {
		t.Fatal(err)
	}
	first.Seeds = 8
	late := []Catch{{Mutant: all[2], OutOfTime: true}, {Mutant: all[3], OutOfTime: true}} // say nothing
	if err := Record(table, append(late, first, second)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readTable(table, string(text)); err != nil || !slices.Equal(got, []Catch{first, second, third}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReadTableErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a S1\n", `caught.txt:1: want a name, an invariant and a number of seeds; not "a S1"`},
		{"# head\n\na S1 many\n", `caught.txt:3: "many" is no number of seeds`},
		{"a S1 0\n", `caught.txt:1: "0" is no number of seeds`},
	} {
		if got, err := readTable("caught.txt", c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q gives %v, %v", c.text, got, err)
		}
	}
	want := []Catch{{Mutant: Mutant{Name: "no-such"}, Invariant: "S1", Seeds: 3}}
	if got, err := readTable("caught.txt", "no-such S1 3\n"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
