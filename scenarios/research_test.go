package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/sim/sweep"
)

// Every experiment can be played, which is not tried here for those that take long.
func TestExperiments(t *testing.T) {
	files, _ := filepath.Glob("research/*.ini")
	vectors, _ := filepath.Glob("research/vectors/*.ini")
	if files = append(files, vectors...); len(vectors) == 0 {
		t.Fatal("no experiments")
	}
	for _, file := range files {
		e, err := sweep.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(e.About) == 0 {
			t.Errorf("%s does not say at its top what it shows", file)
		}
		if _, err := e.Plan("", sweep.DefaultLimit); err != nil || len(e.Unused) > 0 {
			t.Errorf("%v, without effect: %v", err, e.Unused)
		}
	}
}

// The example is played, and computed once more with the same bytes.
func TestQuickExperiment(t *testing.T) {
	e, err := sweep.Load("research/quick.ini")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.Plan("couchsim sweep scenarios/research/quick.ini", 100)
	if err != nil {
		t.Fatal(err)
	}
	was, err := plan.Run(t.Context(), filepath.Join(t.TempDir(), "quick.results.jsonl"), sweep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := was.Again()
	if err != nil {
		t.Fatal(err)
	}
	is, err := again.Try(t.Context(), sweep.Options{Workers: 1})
	if err != nil || len(is.Differences(was)) > 0 || is.Header.Hash != was.Header.Hash {
		t.Errorf("%v: %v", err, is.Differences(was))
	}
	forgetful, usual := was.Compare(1, 3), 0 // priority_coeff = 0.9, auto
	for _, d := range forgetful {
		if d.Metric.Name == "share-error-max-run" && d.Distinct && d.Minus.High < 0 {
			usual++
		}
	}
	if usual != 1 {
		t.Errorf("priority_coeff = auto keeps shares no better than 0.9 does: %+v", forgetful)
	}
}

// Production's nodes keep the shares within the bounds that CouchDB's tests of its scheduler ask for.
func TestVectors(t *testing.T) {
	for name, bounds := range map[string][][2]float64{
		"a": {{49, 51}, {49, 51}}, "b": {{89, 91}, {9, 11}}, "c": {{49, 51}, {49, 51}}, "d": {{0, 2}, {98, 100}},
		"e": {{32, 34}, {32, 34}, {32, 34}}, "f": {{9, 11}, {69, 71}, {19, 21}}, "g": {{32, 34}, {32, 34}, {32, 34}},
		"h": {{87, 89}, {9, 11}, {2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "research/vectors/" + name + ".ini"
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			e, err := sweep.Parse(path, strings.Replace(string(text), "seeds = 1..10", "seeds = 1..4", 1))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := e.Plan("", 10)
			if err != nil {
				t.Fatal(err)
			}
			r, err := plan.Try(t.Context(), sweep.Options{Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			shares := r.Summaries[0].Metrics // of fairshare
			for i, b := range bounds {
				got := shares[fmt.Sprintf("share/tenant%d/_replicator", i+1)].Mean
				if float64(got) < b[0] || float64(got) > b[1] {
					t.Errorf("account %d has %.2f %%, and should have %g to %g", i+1, got, b[0], b[1])
				}
			}
		})
	}
}
