package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"couchrelay/adapters/terminal"
	"couchrelay/core/replication"

	"github.com/benbjohnson/clock"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress prints the progress of a replication: as a bar on a terminal, otherwise in plain lines.
type progress struct {
	out      io.Writer
	clock    clock.Clock
	begun    time.Time
	interval time.Duration            // between two calls of show
	bar      *progressbar.ProgressBar // nil without a terminal
}

func newProgress(out *os.File, c clock.Clock) *progress {
	p := &progress{out: out, clock: c, begun: c.Now(), interval: 5 * time.Second}
	if term.IsTerminal(int(out.Fd())) {
		p.interval = 200 * time.Millisecond
		p.bar = progressbar.NewOptions64(1, progressbar.OptionSetWriter(out), progressbar.OptionFullWidth(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionThrottle(0),
			progressbar.OptionSetTheme(progressbar.ThemeASCII), progressbar.OptionSetRenderBlankState(true))
	}
	return p
}

// show prints the state of a run.
func (p *progress) show(i replication.Info) {
	line := p.line(i)
	if p.bar == nil {
		fmt.Fprintln(p.out, line)
		return
	}
	done := i.Written + i.Refused
	p.bar.Describe(line)
	p.bar.ChangeMax64(max(1, done+max(0, i.ChangesPending)))
	_ = p.bar.Set64(done) // fails if the terminal is gone, which must not stop the replication
}

// line returns the state of a run in one line.
func (p *progress) line(i replication.Info) string {
	elapsed := p.clock.Since(p.begun)
	pending := "?"
	if i.ChangesPending >= 0 {
		pending = fmt.Sprint(i.ChangesPending)
	}
	line := fmt.Sprintf("%d docs, %s, %.0f docs/s, %s pending, %s", i.Written, bytesText(i.BytesWritten),
		float64(i.Written)/max(elapsed.Seconds(), 0.001), pending, elapsed.Truncate(100*time.Millisecond))
	if i.Refused > 0 {
		line += fmt.Sprintf(", %d refused", i.Refused)
	}
	if i.Waiting != "" {
		line += ", waiting: " + i.Waiting
	}
	return terminal.Clean(line)
}

// finish prints the last state, and ends the bar's line.
func (p *progress) finish(i replication.Info) {
	p.show(i)
	if p.bar != nil {
		fmt.Fprintln(p.out)
	}
}

// say prints a message on a line of its own.
func (p *progress) say(text string) {
	if p.bar != nil {
		fmt.Fprintln(p.out)
	}
	fmt.Fprintln(p.out, terminal.Clean(text))
}

// bytesText returns a size as text, in decimal units.
func bytesText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
