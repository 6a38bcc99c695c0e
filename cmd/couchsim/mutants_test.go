package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/sim/mutants"
)

// TestScore: a hunt that ran out of time does not count as one that found its bug, and is told apart from one that
// played all its seeds.
func TestScore(t *testing.T) {
	of := func(name, invariant string, seeds uint64) mutants.Catch {
		return mutants.Catch{Mutant: mutants.Mutant{Name: name}, Invariant: invariant, Seeds: seeds}
	}
	late := mutants.Catch{Mutant: mutants.Mutant{Name: "late"}, OutOfTime: true}
	if got := strings.Join(strings.Fields(line(late)), " "); !strings.HasPrefix(got, "late time ? seeds") {
		t.Error(got)
	}
	for _, c := range []struct {
		all  []mutants.Catch
		want string
		err  error
	}{
		{[]mutants.Catch{of("a", "S1", 3), of("b", "S2", 30)},
			"2 mutants: 1 caught within 10 seeds, 2 within 100, 2 within 1000, 2 within 10000; median 30\n", nil},
		{[]mutants.Catch{of("a", "S1", 3), late, of("b", "", 200)},
			"3 mutants: 1 caught within 10 seeds, 1 within 100, 1 within 1000, 1 within 10000; median 3\n" +
				"not caught: b\ntime ran out, not caught: late\n", status(1)},
	} {
		var out strings.Builder
		if err := score(&out, c.all); err != c.err || out.String() != "\n"+c.want {
			t.Errorf("%v and %q, want %q", err, out.String(), c.want)
		}
	}
	var out strings.Builder
	compare(&out, []mutants.Catch{late}, catches{"late": of("late", "", 200)})
	if got := out.String(); got != "\n0 of 1 mutants were found as the table says\nfound otherwise: late\n" {
		t.Errorf("%q", got)
	}
}

// TestWithoutSource: mutants are compiled from the source of couchrelay, so a directory without it is refused.
func TestWithoutSource(t *testing.T) {
	none, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "go.mod"), []byte("module other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{none, other} {
		err := (&mutantsCommand{Source: dir}).Run()
		if want := "--source " + dir + ": is not the source of couchrelay"; err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (&mutantsCommand{Source: "../.."}).isSource(); err != nil {
		t.Error(err)
	}
}
