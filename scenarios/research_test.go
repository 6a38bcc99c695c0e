package scenarios

import (
	"path/filepath"
	"testing"

	"couchrelay/sim/sweep"
)

// Every experiment can be played, which is not tried here for those that take long.
func TestExperiments(t *testing.T) {
	files, err := filepath.Glob("research/*.ini")
	if err != nil || len(files) == 0 {
		t.Fatalf("no experiments: %v", err)
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
