package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/eventlog"
	"couchrelay/core/node"
)

// writeLog records a node that begins, with what it decided or something else.
func writeLog(t *testing.T, change func([]node.Effect) []node.Effect) string {
	path := filepath.Join(t.TempDir(), "log")
	w, err := eventlog.Create(path, "test 1", 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cfg := node.Config{Settings: node.DefaultSettings(), Name: "n", Roles: node.AllRoles, Worker: "n/1"}
	n := node.New(cfg)
	w.NodeBegins(cfg, 0)
	for _, ev := range []node.Event{node.Start{}, node.Wake{}} {
		c := node.Clock{Steady: 5_000_000, Wall: 5_000_000}
		w.NodeStepped(c, ev, change(n.Step(c, ev)))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func same(e []node.Effect) []node.Effect { return e }

func TestReplayLog(t *testing.T) {
	var out bytes.Buffer
	path := writeLog(t, same)
	if err := (&replayCommand{Log: path}).replayLog(&out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "2 events of node n") ||
		!strings.Contains(text, "same decisions") || !strings.Contains(text, "> ask 1 join as n/1") {
		t.Error(text)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw[:len(raw)-40], 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := (&replayCommand{Log: path, Grep: "nothing"}).replayLog(&out); err != nil ||
		!strings.Contains(out.String(), "was not closed") || strings.Contains(out.String(), "join") {
		t.Error(err, out.String())
	}
}

func TestReplayLogThatDiffers(t *testing.T) {
	var out bytes.Buffer
	path := writeLog(t, func(e []node.Effect) []node.Effect { return append(e, node.Exit{}) })
	err := (&replayCommand{Log: path, Grep: "nothing"}).replayLog(&out)
	if code, is := errors.AsType[status](err); !is || code != exitUnsafe {
		t.Error(err)
	}
	if text := out.String(); !strings.Contains(text, "event 1, start, is decided otherwise") ||
		!strings.Contains(text, "    exit\n") {
		t.Error(text)
	}
}

func TestReplayLogRefuses(t *testing.T) {
	seed := uint64(1)
	path := writeLog(t, same)
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []replayCommand{
		{Log: path, Seed: &seed}, {Log: path, Timeline: "x"}, {Log: path, Until: "5"}, {Log: path, Grep: "("},
		{Log: bad}, {Log: path + "none"},
	} {
		if err := c.replayLog(&bytes.Buffer{}); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
