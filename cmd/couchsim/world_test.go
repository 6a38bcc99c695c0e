package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCommandOfAnyFile: a scenario may have any name, for a second process and in the commands that are printed.
func TestCommandOfAnyFile(t *testing.T) {
	text, err := os.ReadFile("../../scenarios/answers-stall.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "it's one.txt")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := choice{File: file}.worlds()
	if err != nil || !slices.Equal(w.args, []string{file}) {
		t.Fatal(w.args, err)
	}
	want := "go run ./cmd/couchsim replay '" + filepath.Dir(file) + `/it'\''s one.txt'`
	if got := w.command("replay"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if w, err = (choice{Profile: "standard"}).worlds(); err != nil {
		t.Fatal(err)
	}
	if got := w.command("shrink"); got != "go run ./cmd/couchsim shrink --profile standard" {
		t.Error(got)
	}
}
