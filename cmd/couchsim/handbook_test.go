package main

import (
	"fmt"
	"regexp"
	"testing"

	"couchrelay/internal/handbook"
)

// TestHandbook: every command and flag of couchsim that the documents show is there.
func TestHandbook(t *testing.T) {
	documents, err := handbook.Documents("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		for _, mistake := range mistakes(d) {
			t.Error(mistake)
		}
	}
}

// TestHandbookCanaries: TestHandbook finds mistakes.
func TestHandbookCanaries(t *testing.T) {
	for _, text := range []string{
		"    go run ./cmd/couchsim lnit couchrelay.ini\n",
		"    bin/couchsim what-if --form http://relay1:5980\n",
		"The command `couchsim sweep --restrat FILE` ...\n",
		"With `--hashs FILE` ...\n",
	} {
		if len(mistakes(handbook.Document{Path: "docs/simulator.md", Text: text})) == 0 {
			t.Errorf("no mistake is found in %q", text)
		}
	}
}

// ofSimulator are documents in which a flag without a command is one of couchsim.
var ofSimulator = regexp.MustCompile(`^(scenarios/.*|docs/simulator.md)$`)

// mistakes returns what a document shows and couchsim has not.
func mistakes(d handbook.Document) (list []string) {
	program := newParser(&commands{}, func(int) {}).Model
	for _, c := range handbook.Commands("couchsim", append(d.Blocks(), d.Spans()...)) {
		if err := handbook.Check(program, c.Args); err != nil {
			list = append(list, fmt.Sprintf("%s: %v", c.At, err))
		}
	}
	if ofSimulator.MatchString(d.Path) {
		list = append(list, handbook.Flags(program, d.Spans())...)
	}
	return list
}
