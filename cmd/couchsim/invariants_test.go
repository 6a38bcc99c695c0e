package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/sim/mutants"
	"couchrelay/sim/oracle"
)

// TestInvariants: each invariant is listed with the file that checks it, and shown with the bugs that it
// caught.
func TestInvariants(t *testing.T) {
	var list strings.Builder
	if err := listInvariants(&list, nil); err != nil {
		t.Fatal(err)
	}
	for _, i := range oracle.Invariants {
		if !strings.Contains(list.String(), i.Says) {
			t.Errorf("%s is not listed", i.ID)
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "sim", "oracle", i.File()))
		if err != nil || !strings.Contains(string(text), `{"`+i.ID+`", "`) {
			t.Errorf("%s is said to be defined in %s: %v", i.ID, i.File(), err)
		}
	}
	var one strings.Builder
	bug := mutants.Catch{Mutant: mutants.Mutant{Name: "a-bug", What: "something is wrong"}, Invariant: "S1", Seeds: 3}
	if err := showInvariant(&one, oracle.Invariants[0], []mutants.Catch{bug}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"S1", "locks.go", "1 planted bug", "a-bug", "3 seeds", "something is wrong"} {
		if !strings.Contains(one.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, &one)
		}
	}
}
