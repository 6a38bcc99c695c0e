package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestDemo: the demo shows a replication to its end, and says so if it cannot show it.
func TestDemo(t *testing.T) {
	t.Parallel()
	var shown bytes.Buffer
	d := &demoCommand{Docs: 3}
	if err := d.Run(&window{to: &shown}); err != nil || !strings.Contains(shown.String(), "both sides hold the same ") {
		t.Errorf("%s, %v", &shown, err)
	}
	if err := d.Run(&window{to: full{}}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("no space left")

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
