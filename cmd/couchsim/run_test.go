package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/oracle"
)

// TestVerdict: the exit status tells a script that the campaign was interrupted before all seeds were played. An
// invariant that broke before counts more.
func TestVerdict(t *testing.T) {
	interrupted, stop := context.WithCancel(context.Background())
	stop()
	broke := func(id string) []campaign.Failure {
		return []campaign.Failure{{Outcome: campaign.Outcome{Violation: &oracle.Violation{ID: id}}}}
	}
	for _, c := range []struct {
		ctx      context.Context
		failures []campaign.Failure
		want     status
	}{
		{context.Background(), nil, 0}, {interrupted, nil, 130},
		{context.Background(), broke("S1"), 2}, {interrupted, broke("S1"), 2}, {interrupted, broke("L1"), 3},
	} {
		got := status(0)
		_ = errors.As(verdict(c.ctx, io.Discard, worlds{}, c.failures), &got)
		if got != c.want {
			t.Errorf("interrupted %v, %d failures: %d", c.ctx.Err() != nil, len(c.failures), got)
		}
	}
}

// TestUnwritable: a file that cannot be written is told before anything is played, and one that can stays as it is.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	nowhere, file := filepath.Join(dir, "none", "a"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	small, below := choice{Profile: "small"}, filepath.Join(file, "a")
	for want, c := range map[string]interface{ Run() error }{
		"--hashes: open ":  &runCommand{choice: small, Seeds: 1, Hashes: nowhere},
		"--output: mkdir ": &shrinkCommand{choice: small, Output: below},
		"--table: open ":   &mutantsCommand{Source: dir, Table: nowhere},
	} {
		if err := c.Run(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, path := range []string{file, filepath.Join(dir, "new")} {
		if err := writable("hashes", path); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(file)
	if files, _ := os.ReadDir(dir); err != nil || string(text) != "old" || len(files) != 1 {
		t.Errorf("%q in one of %d files, %v", text, len(files), err)
	}
}

// TestLimit: a replay ends at an event or a time, and goes on to the end without either; event 0 is none.
func TestLimit(t *testing.T) {
	for text, want := range map[string]limit{"": {}, "7": {event: 7}, "12m": {after: 12 * time.Minute}} {
		var got limit
		if err := got.parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "0s", "-5", "-5m", "soon", "7 "} {
		var got limit
		if err := got.parse(text); err == nil || !strings.HasPrefix(err.Error(), "--until "+text+": must be") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
