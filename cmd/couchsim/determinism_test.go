package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherProgram: the program that --with names plays the second run, and the command shows the first event at which
// the two runs differ.
func TestOtherProgram(t *testing.T) {
	other := filepath.Join(t.TempDir(), "couchsim")
	script := "#!/bin/sh\necho '{\"Seed\": 1, \"Events\": 1, \"Hash\": 5}'\n"
	if err := os.WriteFile(other, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := choice{Profile: "small"}.worlds()
	if err != nil {
		t.Fatal(err)
	}
	w.other = other
	var out strings.Builder
	var code status
	if err := w.part(&out, 1); err != nil || !strings.HasPrefix(out.String(), "seed 1 parts at event 1\n") {
		t.Error(err, out.String())
	}
	seed := uint64(1)
	err = (&determinismCommand{choice: choice{Profile: "small"}, Seed: &seed, Seeds: 1, With: other}).Run()
	if !errors.As(err, &code) || code != exitUnsafe {
		t.Error(err)
	}
}
