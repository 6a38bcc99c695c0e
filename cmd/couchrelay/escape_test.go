package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
)

// TestEscapesOfServers: what servers and documents say does not reach the terminal as commands to it.
func TestEscapesOfServers(t *testing.T) {
	t.Parallel()
	const escape = "\x1b[2J\r"
	var out strings.Builder
	p := progress{out: &out, clock: clock.NewMock(), interval: time.Second}
	p.say("refused: " + wordsOf(peer.Refusal{ID: escape, Rev: "1-a", Error: "forbidden", Reason: escape}))
	p.show(replication.Info{Waiting: escape})
	(&move{out: &out}).say("  %s is refused: %s", escape, escape)
	fmt.Fprintln(&out, complaint(fmt.Errorf("two lines:\n%w", errors.New(escape))))
	if text := out.String(); strings.ContainsAny(text, "\x1b\r") || strings.Count(text, "[2J") != 6 ||
		!strings.Contains(text, "two lines:\n") {
		t.Errorf("%q", text)
	}
}
