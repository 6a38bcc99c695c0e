package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// wilson returns the bounds of the 95 % confidence interval of a share, k of n, by Wilson's formula.
func wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959964
	share, total := float64(k)/float64(n), float64(n)
	middle := share + z*z/(2*total)
	half := z * math.Sqrt(share*(1-share)/total+z*z/(4*total*total))
	return max(0, (middle-half)/(1+z*z/total)), min(1, (middle+half)/(1+z*z/total))
}

// tally counts the mutants of a row.
type tally struct {
	mutants, equivalent                   int
	byTests, bySim, changed, survivors    int
	seedsTried, seedsKilled, seedsChanged int
}

// count adds a result. The score of seeds alone is over mutants that were tried with seeds whatever tests said of
// them; bySeeds tells whether this is one. A mutant that only alters how seeds are played breaks no promise that
// somebody wrote down; TestPlayed of scenarios notices it.
func (t *tally) count(r *result, equivalent, bySeeds bool) {
	t.mutants++
	switch {
	case r.Unit.Verdict == killed:
		t.byTests++
	case r.killed():
		t.bySim++
	case equivalent:
		t.equivalent++
		return
	case r.Seeds.Verdict == changed:
		t.changed++
	default:
		t.survivors++
	}
	if bySeeds {
		t.seedsTried++
		switch r.Seeds.Verdict {
		case killed:
			t.seedsKilled++
		case changed:
			t.seedsChanged++
		}
	}
}

func percent(k, n int) string {
	if n == 0 {
		return "-\t-"
	}
	low, high := wilson(k, n)
	return fmt.Sprintf("%.0f %%\t%.0f-%.0f", 100*float64(k)/float64(n), 100*low, 100*high)
}

func (t tally) row() string {
	n := t.mutants - t.equivalent
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s",
		t.mutants, t.equivalent, t.byTests, t.bySim, t.changed, t.survivors,
		percent(t.byTests, n), percent(t.byTests+t.bySim, n), percent(n-t.survivors, n),
		percent(t.seedsKilled, t.seedsTried), percent(t.seedsKilled+t.seedsChanged, t.seedsTried))
}

// report prints the tables. The results are in the order of the sample.
func report(out io.Writer, results []*result, known exceptions) error {
	var all tally
	packages, kinds := map[string]*tally{}, map[string]*tally{}
	bySeeds := true
	for _, r := range results {
		if r.Unit.Verdict == uncompiled {
			continue
		}
		bySeeds = bySeeds && r.Seeds.Verdict != "" // a part of the sample only while none is missing
		_, equivalent := known[r.text()]
		_, short, _ := strings.Cut(r.Package, "/")
		for _, t := range []*tally{&all, at(packages, short), at(kinds, r.Operator)} {
			t.count(r, equivalent, bySeeds)
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	heading := "\tmutants\tequivalent\ttests\tsimulator\tchanged\tsurvived\ttests\t95 %\tpromises\t95 %\tall\t95 %" +
		"\tseeds\t95 %\twith changed\t95 %\t\n"
	for _, rows := range []map[string]*tally{packages, kinds} {
		fmt.Fprint(table, heading)
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			fmt.Fprintf(table, "%s\t%s\t\n", name, rows[name].row())
		}
		fmt.Fprintf(table, "\t\t\t\t\t\t\t\t\t\t\t\t\n")
	}
	fmt.Fprintf(table, "all\t%s\t\n", all.row())
	if err := table.Flush(); err != nil {
		return err
	}
	if all.seedsTried > 0 {
		fmt.Fprintf(out, "\nThe last four columns are what the seeds alone find of the first %d.\n", all.seedsTried)
	}
	return nil
}

func at(rows map[string]*tally, name string) *tally {
	if rows[name] == nil {
		rows[name] = &tally{}
	}
	return rows[name]
}

// costs prints the processor time that mutants took.
func costs(out io.Writer, results []*result) {
	byFate := map[string][]float64{}
	total := 0.0
	for _, r := range results {
		fate := "that survived"
		switch {
		case r.Unit.Verdict == killed:
			fate = "that tests kill"
		case r.killed():
			fate = "that the simulator kills"
		}
		byFate[fate] = append(byFate[fate], r.cpu())
		total += r.cpu()
	}
	fmt.Fprintf(out, "\nprocessor time: %.0f s, %.1f s a mutant\n", total, total/float64(max(1, len(results))))
	for _, fate := range slices.Sorted(maps.Keys(byFate)) {
		sum := 0.0
		for _, cpu := range byFate[fate] {
			sum += cpu
		}
		fmt.Fprintf(out, "  %6.1f s  each of %d %s\n", sum/float64(len(byFate[fate])), len(byFate[fate]), fate)
	}
}
