package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
)

// log is one in memory, on a clock of its own, whose timers write from goroutines of theirs.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	wall *clock.Mock
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns the lines since it was last asked, without their times, once there are as many as wanted.
func (l *log) take(wanted int) []string {
	for range 5000 {
		l.mu.Lock()
		there := bytes.Count(l.text.Bytes(), []byte("\n"))
		l.mu.Unlock()
		if there >= wanted {
			break
		}
		time.Sleep(time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	text := regexp.MustCompile(`time=\S+ `).ReplaceAllString(l.text.String(), "")
	l.text.Reset()
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func (l *log) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := l.take(len(lines)); !slices.Equal(got, append(lines, "")[:max(len(lines), 1)]) {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// TestFolding: the first of equal lines is written at once, the others of its window as one.
func TestFolding(t *testing.T) {
	l := &log{wall: clock.NewMock()}
	logger, flush := New(l, Options{Level: slog.LevelInfo, Clock: l.wall})
	crash := func() { logger.Info("crashed", "job", "a", "detail", "x") }
	crash()
	l.want(t, "level=INFO msg=crashed job=a detail=x")
	crash()
	crash()
	logger.Info("crashed", "job", "b", "detail", "x")
	logger.Warn("crashed", "job", "a", "detail", "x")
	logger.Debug("crashed", "job", "c", "detail", "x")
	l.want(t, "level=INFO msg=crashed job=b detail=x", "level=WARN msg=crashed job=a detail=x")
	l.wall.Add(window - 1)
	crash()
	l.want(t)
	l.wall.Add(1)
	l.want(t, "level=INFO msg=crashed job=a detail=x repeated=3")
	crash()
	l.want(t, "level=INFO msg=crashed job=a detail=x")
	crash()
	flush()
	l.want(t, "level=INFO msg=crashed job=a detail=x repeated=1")
	l.wall.Add(time.Hour)
	l.want(t)
}

// TestDerivedLoggers: attributes and groups of a logger are a part of its lines.
func TestDerivedLoggers(t *testing.T) {
	l := &log{wall: clock.NewMock()}
	logger, flush := New(l, Options{Level: slog.LevelDebug, Clock: l.wall})
	for range 2 {
		logger.With("node", 1).Debug("x")
		logger.With("node", 2).Debug("x")
		logger.WithGroup("g").Debug("x", "a", 1)
	}
	l.want(t, "level=DEBUG msg=x node=1", "level=DEBUG msg=x node=2", "level=DEBUG msg=x g.a=1")
	flush()
	l.want(t, "level=DEBUG msg=x node=1 repeated=1", "level=DEBUG msg=x node=2 repeated=1",
		"level=DEBUG msg=x g.a=1 g.repeated=1")
}

// TestBound: lines beyond those that are remembered are written, and never lost.
func TestBound(t *testing.T) {
	l := &log{wall: clock.NewMock()}
	logger, _ := New(l, Options{Level: slog.LevelInfo, Clock: l.wall})
	for range 2 {
		for i := range most + 10 {
			logger.Info("x", "i", i)
		}
	}
	if got := len(l.take(most + 20)); got != most+20 {
		t.Errorf("%d lines", got)
	}
	l.wall.Add(window)
	if got := len(l.take(most)); got != most {
		t.Errorf("%d lines of repetitions", got)
	}
}

// TestJSON: each line is an object with the event as msg.
func TestJSON(t *testing.T) {
	l := &log{wall: clock.NewMock()}
	logger, _ := New(l, Options{Level: slog.LevelWarn, Format: "json", Clock: l.wall})
	logger.Info("started")
	logger.Warn("failed", "job", "a|b", "class", "unauthorized", "after", 90*time.Second)
	var line map[string]string
	if err := json.Unmarshal(l.text.Bytes(), &line); err != nil || line["msg"] != "failed" || line["level"] != "WARN" ||
		line["job"] != "a|b" || line["class"] != "unauthorized" || line["time"] == "" || line["after"] != "1m30s" {
		t.Errorf("%s: %v", l.text.String(), err)
	}
}

// stacked is an error that shows where it was made, if it may.
type stacked struct{}

func (stacked) Error() string { return "disk full" }

func (stacked) Format(f fmt.State, verb rune) { _, _ = fmt.Fprintf(f, "disk full\n  -- stack trace:") }

// TestErrorsInWords: the line of an error has its words, and no stack.
func TestErrorsInWords(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		l := &log{wall: clock.NewMock()}
		logger, _ := New(l, Options{Format: format, Clock: l.wall})
		logger.Error("failed", "error", stacked{})
		if text := l.text.String(); !strings.Contains(text, `"disk full"`) || strings.Contains(text, "stack") {
			t.Error(text)
		}
	}
}
