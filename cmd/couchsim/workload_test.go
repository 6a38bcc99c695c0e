package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"couchrelay/sim/workload"
)

// TestWorkloadCommand: a workload made by settings and the same one read from a file are equal, in both formats.
func TestWorkloadCommand(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a.jsonl"), filepath.Join(t.TempDir(), "b.swf")
	made := workloadCommand{Set: []string{"jobs = 30", "arrival=poisson"}, Seed: 3, Out: first}
	if err := made.Run(); err != nil {
		t.Fatal(err)
	}
	if err := (&workloadCommand{File: first, Out: second}).Run(); err != nil {
		t.Fatal(err)
	}
	a, err := workload.ReadFile(first, false)
	if err != nil || len(a.Jobs) != 30 {
		t.Fatalf("%+v %v", a, err)
	}
	if b, err := workload.ReadFile(second, false); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%+v %v", b, err)
	}
}

// TestWorkloadErrors: bad input is an error that says what is accepted, before anything is written.
func TestWorkloadErrors(t *testing.T) {
	for _, c := range []struct {
		command workloadCommand
		want    string
	}{
		{workloadCommand{}, "either a FILE or --set KEY=VALUE is needed"},
		{workloadCommand{File: "a.swf", Set: []string{"jobs=1"}}, "either a FILE or --set KEY=VALUE"},
		{workloadCommand{Set: []string{"jobs"}}, "--set jobs: must be KEY=VALUE"},
		{workloadCommand{Set: []string{"jobs=x"}}, "--set jobs=x: [workload] jobs = x: must be whole numbers"},
		{workloadCommand{Set: []string{"jobs=1", "jobs = 2"}}, "--set jobs = 2: jobs is there twice"},
		{workloadCommand{Set: []string{"jobs=1"}, Gaps: true}, "--gaps is for a FILE of SWF"},
		{workloadCommand{File: "a.jsonl", Gaps: true}, "--gaps is for a FILE of SWF"},
		{workloadCommand{Set: []string{"jobs=1"}, Out: "a.txt"}, "--out a.txt: must end in .jsonl or .swf"},
		{workloadCommand{File: "none.jsonl"}, "workload none.jsonl: open none.jsonl: no such file"},
	} {
		if err := c.command.Run(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.command, err, c.want)
		}
	}
}
